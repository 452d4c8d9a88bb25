//! `mesh`: how people and scripts speak to the control plane. Speaks HTTP to its interface and to nothing else.

mod cli;
mod commands;
mod exit;
mod output;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::with(&anyhow::Error::new(error).context("start the runtime")),
    };
    match runtime.block_on(commands::run(cli)) {
        Ok(code) => code,
        Err(error) => exit::with(&error),
    }
}
