//! `mesh watch`: nodes and modules, and every change of them: the tables again on a terminal, one line elsewhere.

use std::{collections::BTreeMap, io::IsTerminal as _, process::ExitCode, time::Duration};

use mesh_api::{ModuleView, NodeView};
use mesh_client::{Client, Error, StreamEvent};
use mesh_ids::{ModuleName, NodeName};
use serde_json::json;

use crate::{
    commands::{change, module, node},
    output::{self, Format},
};

/// How long to wait before the streams are taken up again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Goes on until interrupted. A control plane that goes away is waited for, and what changed meanwhile is shown then.
pub(super) async fn run(client: &Client, format: Format) -> anyhow::Result<ExitCode> {
    let mut shown = Shown::default();
    let mut pause = PAUSE.0;
    loop {
        match shown.follow(client, format, &mut pause).await {
            Ok(()) => {}
            Err(error) if has_begun_and_is_away(&shown, &error) => {
                if !shown.is_away {
                    output::remark("the control plane does not answer; waiting for it (Ctrl-C ends)");
                    shown.is_away = true;
                }
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE.1);
    }
}

fn has_begun_and_is_away(shown: &Shown, error: &anyhow::Error) -> bool {
    shown.began && error.downcast_ref::<Error>().is_some_and(change::does_not_answer)
}

#[derive(Default)]
struct Shown {
    nodes: BTreeMap<NodeName, NodeView>,
    modules: BTreeMap<ModuleName, ModuleView>,
    /// Whether something was shown.
    began: bool,
    /// Whether it was said that the control plane does not answer.
    is_away: bool,
}

/// What changed of what is shown.
enum Changed {
    Node(NodeName),
    Module(ModuleName),
}

impl Shown {
    /// Shows the lists, then every change, until a stream ends.
    async fn follow(&mut self, client: &Client, format: Format, pause: &mut Duration) -> anyhow::Result<()> {
        let (nodes, modules) = (client.nodes().await?, client.modules().await?);
        let mut node_stream = client.watch("nodes", Some(&nodes.cursor)).await?;
        let mut module_stream = client.watch("modules", Some(&modules.cursor)).await?;
        self.nodes = nodes.items.into_iter().map(|node| (node.name.clone(), node)).collect();
        self.modules = modules.items.into_iter().map(|module| (module.name.clone(), module)).collect();
        (self.began, self.is_away, *pause) = (true, false, PAUSE.0);
        self.print(format)?;
        loop {
            let message = tokio::select! {
                message = node_stream.next() => message?,
                message = module_stream.next() => message?,
            };
            let Some(message) = message else { return Ok(()) };
            if format == Format::Json {
                let data: serde_json::Value = message.read()?;
                output::json_line(&json!({"event": message.event, "data": data}))?;
            } else if let Some(changed) = self.take(&message)? {
                if std::io::stdout().is_terminal() {
                    self.print(format)?;
                } else {
                    self.print_line(&changed);
                }
            }
        }
    }

    /// Takes one change over; none where nothing is to be seen of it.
    fn take(&mut self, message: &StreamEvent) -> anyhow::Result<Option<Changed>> {
        Ok(Some(match message.event.as_str() {
            "node" => {
                let node: NodeView = message.read()?;
                let name = node.name.clone();
                self.nodes.insert(name.clone(), node);
                Changed::Node(name)
            }
            "node_removed" => {
                let name = message.read::<NodeName>()?;
                self.nodes.remove(&name);
                Changed::Node(name)
            }
            "module" => {
                let module: ModuleView = message.read()?;
                let name = module.name.clone();
                self.modules.insert(name.clone(), module);
                Changed::Module(name)
            }
            "module_removed" => {
                let name = message.read::<ModuleName>()?;
                self.modules.remove(&name);
                Changed::Module(name)
            }
            _ => return Ok(None),
        }))
    }

    /// One line for who reads a file of them.
    fn print_line(&self, changed: &Changed) {
        let line = match changed {
            Changed::Node(name) => match self.nodes.get(name) {
                Some(view) => format!("node {name}: {}, {}", node::state(view.state), node::carries(view)),
                None => format!("node {name}: removed"),
            },
            Changed::Module(name) => match self.modules.get(name) {
                Some(view) => format!("module {name} {}: {}", view.version, module::summary(view)),
                None => format!("module {name}: removed"),
            },
        };
        output::line(&output::printable(&line));
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
