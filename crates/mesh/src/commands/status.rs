//! `mesh status`: the mesh at a glance.

use std::process::ExitCode;

use mesh_api::NodeState;
use mesh_client::Client;
use serde_json::json;

use crate::{
    commands::{module, node},
    output::{self, Format},
};

pub(super) async fn run(client: &Client, format: Format) -> anyhow::Result<ExitCode> {
    let (version, nodes, modules) =
        (client.version().await?, client.nodes().await?.items, client.modules().await?.items);
    if format == Format::Json {
        output::json(&json!({"version": version, "nodes": nodes, "modules": modules}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let connected = nodes.iter().filter(|node| node.state == NodeState::Connected).count();
    output::line(&format!(
        "mesh {}: {connected} of {} connected, {}, control plane {}\n",
        version.mesh,
        output::count(nodes.len(), "node"),
        output::count(modules.len(), "module"),
        output::printable(&version.version)
    ));
    node::table(&nodes);
    if !modules.is_empty() {
        output::line("");
        module::table(&modules);
    }
    Ok(ExitCode::SUCCESS)
}
