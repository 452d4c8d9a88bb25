//! `mesh watch`: nodes and modules, printed again whenever one of them changes.

use std::{collections::BTreeMap, io::IsTerminal as _, process::ExitCode};

use mesh_api::{ModuleView, NodeView};
use mesh_client::{Client, StreamEvent};
use mesh_ids::{ModuleName, NodeName};
use serde_json::json;

use crate::{
    commands::{module, node},
    output::{self, Format},
};

pub(super) async fn run(client: &Client, format: Format) -> anyhow::Result<ExitCode> {
    let (nodes, modules) = (client.nodes().await?, client.modules().await?);
    let mut node_stream = client.watch("nodes", Some(&nodes.cursor)).await?;
    let mut module_stream = client.watch("modules", Some(&modules.cursor)).await?;
    let mut shown = Shown {
        nodes: nodes.items.into_iter().map(|node| (node.name.clone(), node)).collect(),
        modules: modules.items.into_iter().map(|module| (module.name.clone(), module)).collect(),
    };
    shown.print(format)?;
    loop {
        let (list, message) = tokio::select! {
            message = node_stream.next() => ("nodes", message?),
            message = module_stream.next() => ("modules", message?),
        };
        let Some(message) = message else {
            anyhow::bail!("the control plane ended the stream of {list}; run `mesh watch` again");
        };
        if format == Format::Json {
            let data: serde_json::Value = message.read()?;
            output::json_line(&json!({"event": message.event, "data": data}))?;
        } else if shown.take(&message)? {
            shown.print(format)?;
        }
    }
}

struct Shown {
    nodes: BTreeMap<NodeName, NodeView>,
    modules: BTreeMap<ModuleName, ModuleView>,
}

impl Shown {
    /// Takes one change over; false where nothing is to be seen of it.
    fn take(&mut self, message: &StreamEvent) -> anyhow::Result<bool> {
        match message.event.as_str() {
            "node" => {
                let node: NodeView = message.read()?;
                self.nodes.insert(node.name.clone(), node);
            }
            "node_removed" => {
                self.nodes.remove(&message.read::<NodeName>()?);
            }
            "module" => {
                let module: ModuleView = message.read()?;
                self.modules.insert(module.name.clone(), module);
            }
            "module_removed" => {
                self.modules.remove(&message.read::<ModuleName>()?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn print(&self, format: Format) -> anyhow::Result<()> {
        if format == Format::Json {
            for node in self.nodes.values() {
                output::json_line(&json!({"event": "node", "data": node}))?;
            }
            for module in self.modules.values() {
                output::json_line(&json!({"event": "module", "data": module}))?;
            }
            return Ok(());
        }
        if std::io::stdout().is_terminal() {
            // ECMA-48: cursor home, erase the display.
            output::line("\u{1b}[H\u{1b}[2J");
        }
        node::table(&self.nodes.values().cloned().collect::<Vec<_>>());
        output::line("");
        module::table(&self.modules.values().cloned().collect::<Vec<_>>());
        output::line("");
        Ok(())
    }
}
