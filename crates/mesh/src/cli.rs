//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use mesh_ids::{ModuleName, NodeName};

use crate::{exit, output::Format};

/// Speaks to the control plane of a Novox Mesh.
#[derive(Debug, Parser)]
#[command(name = "mesh", version, after_help = exit::CODES, propagate_version = true)]
pub(crate) struct Cli {
    /// Which mesh to speak to, by the name of its context
    #[arg(long, global = true, env = "MESH_CONTEXT", value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Print JSON for programs instead of tables for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Human }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the mesh at a glance
    Status,
    /// List, show, invite, recover and remove nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// List, show and remove modules
    #[command(subcommand)]
    Module(ModuleCommand),
    /// Show what a module would change, and change nothing
    #[command(
        after_help = "Examples:\n  mesh plan -f examples/hello\n  mesh plan -f hello.toml --exit-code --json"
    )]
    Plan(PlanArgs),
    /// Bring a module to what its manifest says
    #[command(
        after_help = "Examples:\n  mesh apply -f examples/hello\n  mesh apply -f hello.toml --yes --no-wait"
    )]
    Apply(ApplyArgs),
    /// Watch nodes and modules as they change
    Watch,
    /// Show what happened
    #[command(
        after_help = "Examples:\n  mesh events\n  mesh events --follow --node node-2\n  mesh events --json -n 500"
    )]
    Events(EventsArgs),
    /// List and choose the meshes this person speaks to
    #[command(subcommand)]
    Context(ContextCommand),
    /// Print the completions of a shell
    #[command(after_help = "Example:\n  mesh completions bash > /etc/bash_completion.d/mesh")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Show the versions of this program and of the control plane
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List all nodes
    List,
    /// Show one node: what it is, what it owns, what failed
    Show {
        /// Its name
        node: NodeName,
    },
    /// Make a token with which one machine can join
    #[command(
        after_help = "Example:\n  mesh node invite node-4 --ttl 30m --label zone=home\n\nThen on the machine:\n  mesh-host join"
    )]
    Invite {
        /// The name the node will have
        node: NodeName,
        /// How long the token can be used, e.g. 30m, 1h, 2days
        #[arg(long, default_value = "1h", value_parser = humantime::parse_duration)]
        ttl: std::time::Duration,
        /// A label the node will have, as KEY=VALUE; may be given several times
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
    },
    /// Begin a node's history anew, for a machine whose ledger cannot be read
    #[command(
        after_help = "Its newest declaration is issued again under a higher generation, and the node's ledger begins anew with it.\n\
                      What runs on the node goes on running.\n\nExamples:\n  mesh node recover node-2\n  mesh node recover node-2 --yes --json"
    )]
    Recover {
        /// Its name
        node: NodeName,
        /// Do not ask. Without a terminal nothing is asked in any case
        #[arg(long, short)]
        yes: bool,
    },
    /// Take a node out of the mesh; the machine need not be there any more
    Remove {
        /// Its name
        node: NodeName,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModuleCommand {
    /// List all modules
    List,
    /// Show one module, node by node
    Show {
        /// Its name
        module: ModuleName,
    },
    /// Take a module away from all its nodes and put back what stood there before
    Remove {
        /// Its name
        module: ModuleName,
        #[command(flatten)]
        options: ChangeOptions,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts; the current one is marked
    List,
    /// Make a context the current one
    Use {
        /// Its name
        name: String,
    },
    /// Keep the context that `mesh-host bootstrap` wrote
    Add {
        /// Its file; `-` reads standard input
        file: PathBuf,
    },
    /// Forget a context
    Remove {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The manifest, or the folder that has it as module.toml
    #[arg(long, short)]
    pub(crate) file: PathBuf,
    /// End with 10 when there is something to change
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The manifest, or the folder that has it as module.toml
    #[arg(long, short)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) options: ChangeOptions,
}

/// How a change is carried out.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChangeOptions {
    /// Do not ask. Without a terminal nothing is asked in any case
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Return as soon as the change is recorded, without waiting for the nodes
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// How long to wait for the nodes
    #[arg(long, default_value = "2m", value_parser = humantime::parse_duration, value_name = "DURATION")]
    pub(crate) timeout: std::time::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Go on as they happen
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How many of the latest
    #[arg(long, short = 'n', default_value_t = 50)]
    pub(crate) limit: u32,
    /// Only those about this node
    #[arg(long)]
    pub(crate) node: Option<NodeName>,
    /// Only those about this module
    #[arg(long)]
    pub(crate) module: Option<ModuleName>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is written KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_words_of_the_command_line_do_not_contradict_each_other() {
        super::Cli::command().debug_assert();
    }
}
