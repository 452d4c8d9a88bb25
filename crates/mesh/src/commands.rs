//! One file a command. Each asks the control plane, then prints.

mod change;
mod context;
mod events;
mod module;
mod node;
mod status;
mod version;
mod watch;

use std::process::ExitCode;

use clap::CommandFactory as _;
use mesh_client::{Client, ContextStore};

use crate::cli::{Cli, Command};

/// Carries out what was asked.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let format = cli.format();
    let contexts = ContextStore::of_this_person();
    match cli.command {
        Command::Context(command) => return context::run(&contexts, command, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mesh", &mut script);
            // Who reads only its beginning has what was wanted.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), &script);
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let client = Client::new(&contexts.load(cli.context.as_deref())?).await?;
    match cli.command {
        Command::Status => status::run(&client, format).await,
        Command::Node(command) => node::run(&client, command, format).await,
        Command::Module(command) => module::run(&client, command, format).await,
        Command::Plan(args) => change::plan(&client, &args, format).await,
        Command::Apply(args) => change::apply(&client, &args, format).await,
        Command::Watch => watch::run(&client, format).await,
        Command::Events(args) => events::run(&client, &args, format).await,
        Command::Version => version::run(&client, format).await,
        Command::Context(_) | Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}
