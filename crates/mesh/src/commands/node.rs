//! `mesh node list|show|invite|recover|remove`.

use std::{io::IsTerminal as _, process::ExitCode};

use mesh_api::{InviteRequest, NodeState, NodeView};
use mesh_client::Client;
use mesh_ids::{NodeName, Position};

use crate::{
    cli::NodeCommand,
    output::{self, Format},
};

pub(super) async fn run(client: &Client, command: NodeCommand, format: Format) -> anyhow::Result<ExitCode> {
    match command {
        NodeCommand::List => {
            let nodes = client.nodes().await?.items;
            match format {
                Format::Json => output::json(&nodes)?,
                Format::Human => table(&nodes),
            }
        }
        NodeCommand::Show { node } => show(&client.node(&node).await?, format)?,
        NodeCommand::Invite { node, ttl, labels } => {
            let request = InviteRequest { node, ttl_s: ttl.as_secs(), labels: labels.into_iter().collect() };
            let invitation = client.invite(&request).await?;
            match format {
                Format::Json => output::json(&invitation)?,
                Format::Human => {
                    output::line(&output::printable(&invitation.token));
                    output::remark(&format!(
                        "\nUntil {} one machine can become {} with this token. On that machine run\n\n  mesh-host join\n\n\
                         and paste the token when asked. Whoever has the token can join: treat it as a password.",
                        output::printable(&invitation.expires),
                        invitation.node
                    ));
                }
            }
        }
        NodeCommand::Recover { node, yes } => return recover(client, &node, yes, format).await,
        NodeCommand::Remove { node, yes } => return remove(client, &node, yes).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn recover(client: &Client, node: &NodeName, yes: bool, format: Format) -> anyhow::Result<ExitCode> {
    let question = format!(
        "Begin the history of {node} anew? Its newest declaration is issued again under a higher generation, and its ledger \
         begins anew with it. What runs on it goes on running."
    );
    let somebody_there = std::io::stdin().is_terminal() && format == Format::Human;
    if !yes && somebody_there && !output::ask(&question)? {
        output::remark("Nothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    let recovery = client.recover_node(node).await?;
    match format {
        Format::Json => output::json(&recovery)?,
        Format::Human => output::line(&format!(
            "The ledger of {node} begins anew with generation {}: its newest declaration is on its way under that number. \
             `mesh node show {node}` tells when the node has reported it.",
            recovery.generation
        )),
    }
    Ok(ExitCode::SUCCESS)
}

async fn remove(client: &Client, node: &NodeName, yes: bool) -> anyhow::Result<ExitCode> {
    let question = format!(
        "Take {node} out of the mesh? It keeps running what it has, and hears from the mesh no more."
    );
    if !yes && std::io::stdin().is_terminal() && !output::ask(&question)? {
        output::remark("Nothing was changed.");
        return Ok(ExitCode::SUCCESS);
    }
    client.remove_node(node).await?;
    output::remark(&format!("{node} is out of the mesh. On the machine, `mesh-host leave` gives it back."));
    Ok(ExitCode::SUCCESS)
}

/// The word for a state.
pub(super) fn state(state: NodeState) -> &'static str {
    match state {
        NodeState::Joining => "joining",
        NodeState::Connected => "connected",
        NodeState::Quiet => "quiet",
        NodeState::Unreachable => "unreachable",
    }
}

/// One line a node.
pub(super) fn table(nodes: &[NodeView]) {
    output::table(&HEADER, nodes.iter().map(row));
}

/// The head of [`row`].
const HEADER: [&str; 8] =
    ["NODE", "STATE", "LAST HEARD", "DECLARED", "REPORTED", "APPLIED", "FAILED", "ENGINE"];

fn row(node: &NodeView) -> Vec<String> {
    vec![
        node.name.to_string(),
        state(node.state).to_owned(),
        heard(node),
        position(node.declared),
        position(node.reported),
        node.applied.len().to_string(),
        node.failed.len().to_string(),
        node.facts.as_ref().and_then(|facts| facts.engine.clone()).unwrap_or_default(),
    ]
}

/// What it reported to carry out, in a few words.
pub(super) fn carries(node: &NodeView) -> String {
    format!("{} applied, {} failed", node.applied.len(), node.failed.len())
}

/// When it was last heard, by the clock of the control plane.
pub(super) fn heard(node: &NodeView) -> String {
    match (node.state, node.disconnected_for, &node.last_heard) {
        (NodeState::Connected, ..) => "just now".to_owned(),
        (_, Some(silent), _) => format!("{} ago", output::duration(silent)),
        (_, None, Some(at)) => at.clone(),
        (_, None, None) => "never".to_owned(),
    }
}

fn position(position: Option<Position>) -> String {
    position.map_or_else(String::new, |position| position.to_string())
}

fn show(node: &NodeView, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(node);
    }
    table(std::slice::from_ref(node));
    if let Some(refused) = &node.refused {
        output::line(&format!("\nIts declaration was refused: {}", output::printable(refused)));
    }
    if let Some(facts) = &node.facts {
        output::line("");
        output::table(
            &["FACT", ""],
            [
                vec!["system".to_owned(), facts.os.clone()],
                vec!["kernel".to_owned(), facts.kernel.clone()],
                vec!["processors".to_owned(), format!("{} x {}", facts.cpus, facts.architecture)],
                vec!["memory".to_owned(), output::bytes(facts.memory_bytes)],
                vec!["addresses".to_owned(), facts.addresses.join(", ")],
                vec!["host".to_owned(), node.host_version.clone().unwrap_or_default()],
            ],
        );
        output::line("");
        output::table(
            &["DISK", "SIZE", "FREE"],
            facts.disks.iter().map(|disk| {
                vec![disk.mount.clone(), output::bytes(disk.size_bytes), output::bytes(disk.free_bytes)]
            }),
        );
    }
    if !node.carried_ports.is_empty() {
        let ports: Vec<_> = node.carried_ports.iter().map(u16::to_string).collect();
        output::line(&format!("\nPorts held by what the machine carries: {}", ports.join(", ")));
    }
    output::line("");
    let applied = node.applied.iter().map(|id| vec![id.clone(), "applied".to_owned(), String::new()]);
    let failed = node.failed.iter().map(|(id, why)| vec![id.clone(), "failed".to_owned(), why.clone()]);
    output::table(&["RESOURCE", "STATE", "WHY"], applied.chain(failed));
    Ok(())
}
