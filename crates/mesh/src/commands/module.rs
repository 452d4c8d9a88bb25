//! `mesh module list|show|remove`.

use std::process::ExitCode;

use mesh_api::{Change, InstanceState, ModuleView};
use mesh_client::Client;

use crate::{
    cli::ModuleCommand,
    commands::change,
    output::{self, Format},
};

pub(super) async fn run(client: &Client, command: ModuleCommand, format: Format) -> anyhow::Result<ExitCode> {
    match command {
        ModuleCommand::List => {
            let modules = client.modules().await?.items;
            match format {
                Format::Json => output::json(&modules)?,
                Format::Human => table(&modules),
            }
            Ok(ExitCode::SUCCESS)
        }
        ModuleCommand::Show { module } => {
            let module = client.module(&module).await?;
            match format {
                Format::Json => output::json(&module)?,
                Format::Human => show(&module),
            }
            Ok(ExitCode::SUCCESS)
        }
        ModuleCommand::Remove { module, options } => {
            change::carry_out(client, Change::Remove { module }, &options, format).await
        }
    }
}

/// One line a module.
pub(super) fn table(modules: &[ModuleView]) {
    output::table(
        &["MODULE", "VERSION", "NODES", "STATE"],
        modules.iter().map(|module| {
            let nodes: Vec<_> = module.instances.iter().map(|instance| instance.node.to_string()).collect();
            vec![module.name.to_string(), module.version.clone(), nodes.join(", "), summary(module)]
        }),
    );
}

fn summary(module: &ModuleView) -> String {
    let count = |state| module.instances.iter().filter(|instance| instance.state == state).count();
    let all =
        [InstanceState::Applied, InstanceState::Pending, InstanceState::Failed, InstanceState::Removing];
    let said: Vec<_> = all
        .into_iter()
        .filter(|&each| count(each) > 0)
        .map(|each| format!("{} {}", count(each), state(each)))
        .collect();
    said.join(", ")
}

/// The word for a state.
pub(super) fn state(state: InstanceState) -> &'static str {
    match state {
        InstanceState::Pending => "pending",
        InstanceState::Applied => "applied",
        InstanceState::Failed => "failed",
        InstanceState::Removing => "removing",
    }
}

fn show(module: &ModuleView) {
    output::line(&format!("{} {}\n", module.name, output::printable(&module.version)));
    output::table(
        &["NODE", "STATE", "WHY"],
        module.instances.iter().map(|instance| {
            let why: Vec<_> = instance.failed.iter().map(|(id, why)| format!("{id}: {why}")).collect();
            vec![instance.node.to_string(), state(instance.state).to_owned(), why.join("; ")]
        }),
    );
}
