//! `mesh module list|show|remove`.

use std::process::ExitCode;

use mesh_api::{Change, InstanceState, InstanceView, ModuleView, NodeState, NodeView};
use mesh_client::Client;

use crate::{
    cli::ModuleCommand,
    commands::{change, node},
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
            let nodes = if format == Format::Human { client.nodes().await?.items } else { Vec::new() };
            match format {
                Format::Json => output::json(&module)?,
                Format::Human => show(&module, &nodes),
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

/// How many instances are in which state.
pub(super) fn summary(module: &ModuleView) -> String {
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

/// Says of every node how the module is there, and of every resource.
fn show(module: &ModuleView, nodes: &[NodeView]) {
    output::line(&format!("{} {}\n", module.name, output::printable(&module.version)));
    output::table(
        &["NODE", "STATE", "WHY"],
        module.instances.iter().map(|instance| {
            let node = nodes.iter().find(|node| node.name == instance.node);
            let silent = node.filter(|node| node.state != NodeState::Connected).map(|node| {
                format!("{} is {}, last heard {}", node.name, node::state(node.state), node::heard(node))
            });
            let failed = (!instance.failed.is_empty())
                .then(|| format!("{} failed", output::count(instance.failed.len(), "resource")));
            let why: Vec<_> = failed.into_iter().chain(silent).collect();
            vec![instance.node.to_string(), state(instance.state).to_owned(), why.join("; ")]
        }),
    );
    let rows: Vec<_> =
        module.instances.iter().flat_map(|instance| resources(module, instance, nodes)).collect();
    if !rows.is_empty() {
        output::line("");
        output::table(&["NODE", "RESOURCE", "STATE", "WHY"], rows);
    }
}

fn resources(module: &ModuleView, instance: &InstanceView, nodes: &[NodeView]) -> Vec<Vec<String>> {
    let prefix = format!("{}/", module.name);
    let row = |id: &str, state: &str, why: &str| {
        [instance.node.as_str(), id.strip_prefix(&prefix).unwrap_or(id), state, why]
            .map(str::to_owned)
            .to_vec()
    };
    let node = nodes.iter().find(|node| node.name == instance.node);
    let applied = node.into_iter().flat_map(|node| &node.applied).filter(|id| id.starts_with(&prefix));
    let failed = instance.failed.iter().map(|(id, why)| row(id, "failed", why));
    applied.map(|id| row(id, "applied", "")).chain(failed).collect()
}
