//! `mesh-control migrate | serve | version | openapi`: the control plane as a program.

#![expect(clippy::print_stdout, reason = "a program prints its result")]

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mesh_control::{http, migrate, serve, settings::Settings};
use mesh_store::ProcessEnvironment;
use tracing_subscriber::{
    Layer as _, filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// The control plane of a Novox Mesh: everything that needs to know about more than one node.
#[derive(Debug, Parser)]
#[command(name = "mesh-control", version)]
struct Cli {
    /// What is logged, e.g. `info,mesh_control=debug`
    #[arg(long, global = true, env = "MESH_LOG", default_value = "info,lapin=off")]
    log: Targets,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring each context's schema up to date
    #[command(
        after_help = "Each context's store is given by MESH_STORE_<CONTEXT> and MESH_STORE_<CONTEXT>_PASSWORD_FILE."
    )]
    Migrate,
    /// Serve the interface and the link until told to stop
    Serve,
    /// Print what this program is
    Version,
    /// Print the OpenAPI document of the interface
    Openapi,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    tracing_subscriber::registry().with(to_stderr.with_filter(cli.log)).init();
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Version => println!("mesh-control {}", env!("CARGO_PKG_VERSION")),
        Command::Openapi => println!("{}", http::openapi().to_pretty_json().context("write the document")?),
        Command::Migrate => runtime()?.block_on(migrate::run(&ProcessEnvironment))?,
        Command::Serve => {
            let settings = Settings::read(&|name| std::env::var(name).ok()).context("read the settings")?;
            runtime()?.block_on(serve::run(settings, &ProcessEnvironment, |_| ()))?;
        }
    }
    Ok(())
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the runtime")
}
