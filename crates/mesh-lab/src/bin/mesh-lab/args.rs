//! What can be said to `mesh-lab`, and the help for it.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use mesh_lab::{LabName, Subnet};

const EXAMPLES: &str = "\
Examples:
  mesh-lab up                                raise three nodes and make a mesh of them
  mesh-lab status                            what is up, what is cut off
  mesh-lab exec node-2 -- podman ps          run a command in a node
  mesh-lab cut node-2                        take its network away
  mesh-lab heal node-2                       give it back, with the same address
  mesh-lab reboot node-2                     shut it down in order and boot it again
  mesh-lab logs node-1 -f --unit mesh-host   follow the host's journal
  mesh-lab down                              leave nothing behind

Exit codes:
  0  done
  1  it failed; the message says what and where to look
  2  the command line was not understood
  3  there is no such lab or node, or it is not in a state for that
  4  this machine lacks something, or something has not been built
  `exec` ends with the exit code of the command it ran.";

/// Real nodes on this machine: raise them, disturb them, take them down.
#[derive(Parser)]
#[command(name = "mesh-lab", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Which lab; labs of different names run side by side
    #[arg(long, global = true, value_name = "NAME", env = "MESH_LAB", default_value_t = LabName::default())]
    pub(crate) lab: LabName,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Raise the nodes and make a mesh of them; again, it finishes what is missing and changes nothing else
    Up(Up),
    /// Remove the nodes, their volumes, their network and the lab's folder
    Down {
        /// Remove the node images too, which are otherwise kept for the next `up`
        #[arg(long)]
        images: bool,
    },
    /// Show every node: address, machine, systemd, host, and whether it is cut off
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a node, with this terminal
    Exec {
        /// Such as node-1
        node: String,
        /// Pass standard input on to the command, which is otherwise done only at a terminal
        #[arg(short, long = "input")]
        input: bool,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Take a node's network away
    Cut {
        /// Such as node-2
        node: String,
    },
    /// Give a node its network back
    Heal {
        /// Such as node-2
        node: String,
        /// With this address instead of the one it had
        #[arg(long, value_name = "ADDRESS")]
        at: Option<Ipv4Addr>,
    },
    /// Shut a node down in order and boot it again; one that is cut off stays so
    Reboot {
        /// Such as node-2
        node: String,
    },
    /// Cut a node's power: everything in it ends at once
    Kill {
        /// Such as node-2
        node: String,
    },
    /// Switch a node on again
    Start {
        /// Such as node-2
        node: String,
    },
    /// Show a node's journal
    Logs {
        /// Such as node-2
        node: String,
        /// Go on as it grows
        #[arg(short, long)]
        follow: bool,
        /// Of this unit alone
        #[arg(long)]
        unit: Option<String>,
        /// How many lines
        #[arg(short = 'n', long, default_value_t = 200)]
        lines: usize,
    },
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Args)]
pub(crate) struct Up {
    /// How many nodes; node-1 is the one with the control plane
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) nodes: u8,
    /// Begin node-1 without a container engine, so that its host has to raise one
    #[arg(long)]
    pub(crate) bare: bool,
    /// Boot the nodes and put nothing on them
    #[arg(long)]
    pub(crate) nodes_only: bool,
    /// Where the programs, the bundle and the node images are (beside this program, else ./dist)
    #[arg(long, value_name = "FOLDER", env = "MESH_DIST")]
    pub(crate) dist: Option<PathBuf>,
    /// Boot the nodes from this OCI archive or layout
    #[arg(long, value_name = "PATH")]
    pub(crate) image: Option<PathBuf>,
    /// The nodes' network, such as 10.231.7.0/24 (a free one)
    #[arg(long, value_name = "RANGE")]
    pub(crate) subnet: Option<Subnet>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
