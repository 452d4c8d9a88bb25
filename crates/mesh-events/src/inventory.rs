//! What inventory says: which nodes are there and how they fare, and which module is where.

use std::{collections::BTreeMap, fmt};

use mesh_ids::{Digest, ModuleName, ModuleVersion, NodeName, Position, ResourceId, Timestamp};
use serde::{Deserialize, Serialize};

/// Something that inventory recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum InventoryEvent {
    /// A node is heard, for the first time or again.
    #[serde(rename = "node_connected/1")]
    NodeConnected {
        /// Which.
        node: NodeName,
        /// How long it had not been heard, in milliseconds; absent where it never was before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        silent_for_ms: Option<u64>,
    },
    /// A heartbeat of a node is missing.
    #[serde(rename = "node_quiet/1")]
    NodeQuiet {
        /// Which.
        node: NodeName,
        /// When it was last heard.
        last_heard: Timestamp,
    },
    /// A node has been silent for so long that it counts as gone.
    #[serde(rename = "node_unreachable/1")]
    NodeUnreachable {
        /// Which.
        node: NodeName,
        /// When it was last heard.
        last_heard: Timestamp,
    },
    /// A node said what it applied.
    #[serde(rename = "node_reported/1")]
    NodeReported {
        /// Which.
        node: NodeName,
        /// The declaration spoken of.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        position: Option<Position>,
        /// How many resources it owns.
        applied: u32,
        /// What failed, by resource id, and why.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        failed: BTreeMap<String, String>,
        /// Why it rejected the declaration whole; empty where it did not.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        refused: String,
    },
    /// What is to be on a node cannot be declared to it, or can again.
    #[serde(rename = "node_undeclared/1")]
    NodeUndeclared {
        /// Which.
        node: NodeName,
        /// What is in the way; empty where nothing is any more.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// A resource was found other than declared.
    #[serde(rename = "drift_found/1")]
    DriftFound {
        /// On which node.
        node: NodeName,
        /// Which resource.
        resource: ResourceId,
        /// The module it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        module: Option<ModuleName>,
        /// The node's own number of the drift.
        number: u64,
        /// When the node noticed it.
        noticed: Timestamp,
        /// What was found, for a person.
        found: Vec<String>,
    },
    /// A resource that was found other than declared is as declared again.
    #[serde(rename = "drift_repaired/1")]
    DriftRepaired {
        /// On which node.
        node: NodeName,
        /// Which resource.
        resource: ResourceId,
        /// The module it belongs to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        module: Option<ModuleName>,
        /// The node's own number of the drift.
        number: u64,
        /// When the node put it right.
        repaired: Timestamp,
    },
    /// A module was brought to what its manifest says.
    #[serde(rename = "module_applied/1")]
    ModuleApplied {
        /// Which.
        module: ModuleName,
        /// Its version, in its author's words.
        version: ModuleVersion,
        /// Its content.
        digest: Digest,
        /// Where it belongs now.
        nodes: Vec<NodeName>,
        /// The nodes on which something changes by it.
        changed: Vec<NodeName>,
        /// Who did it.
        by: String,
    },
    /// The nodes of a module changed because nodes came or went.
    #[serde(rename = "module_placed/1")]
    ModulePlaced {
        /// Which.
        module: ModuleName,
        /// Where it belongs now.
        nodes: Vec<NodeName>,
        /// The nodes on which something changes by it.
        changed: Vec<NodeName>,
    },
    /// A module was taken away.
    #[serde(rename = "module_removed/1")]
    ModuleRemoved {
        /// Which.
        module: ModuleName,
        /// Where it was.
        changed: Vec<NodeName>,
        /// Who did it.
        by: String,
    },
}

impl InventoryEvent {
    /// What it is called, without the version.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NodeConnected { .. } => "node_connected",
            Self::NodeQuiet { .. } => "node_quiet",
            Self::NodeUnreachable { .. } => "node_unreachable",
            Self::NodeReported { .. } => "node_reported",
            Self::NodeUndeclared { .. } => "node_undeclared",
            Self::DriftFound { .. } => "drift_found",
            Self::DriftRepaired { .. } => "drift_repaired",
            Self::ModuleApplied { .. } => "module_applied",
            Self::ModulePlaced { .. } => "module_placed",
            Self::ModuleRemoved { .. } => "module_removed",
        }
    }

    /// The node it is about, if it is about one.
    pub const fn node(&self) -> Option<&NodeName> {
        match self {
            Self::NodeConnected { node, .. }
            | Self::NodeQuiet { node, .. }
            | Self::NodeUnreachable { node, .. }
            | Self::NodeReported { node, .. }
            | Self::NodeUndeclared { node, .. }
            | Self::DriftFound { node, .. }
            | Self::DriftRepaired { node, .. } => Some(node),
            Self::ModuleApplied { .. } | Self::ModulePlaced { .. } | Self::ModuleRemoved { .. } => None,
        }
    }

    /// The module it is about, if it is about one.
    pub const fn module(&self) -> Option<&ModuleName> {
        match self {
            Self::ModuleApplied { module, .. }
            | Self::ModulePlaced { module, .. }
            | Self::ModuleRemoved { module, .. } => Some(module),
            Self::DriftFound { module, .. } | Self::DriftRepaired { module, .. } => module.as_ref(),
            _ => None,
        }
    }

    /// The nodes whose declaration changes by it.
    pub fn changed(&self) -> &[NodeName] {
        match self {
            Self::ModuleApplied { changed, .. }
            | Self::ModulePlaced { changed, .. }
            | Self::ModuleRemoved { changed, .. } => changed,
            _ => &[],
        }
    }
}

impl fmt::Display for InventoryEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeConnected { node, silent_for_ms: None } => {
                write!(f, "{node} is heard for the first time")
            }
            Self::NodeConnected { node, silent_for_ms: Some(ms) } => {
                write!(f, "{node} is heard again after {} s", ms / 1000)
            }
            Self::NodeQuiet { node, last_heard } => write!(f, "{node} is quiet since {last_heard}"),
            Self::NodeUnreachable { node, last_heard } => {
                write!(f, "{node} is unreachable, silent since {last_heard}")
            }
            Self::NodeReported { node, refused, .. } if !refused.is_empty() => {
                write!(f, "{node} refused its declaration: {refused}")
            }
            Self::NodeReported { node, applied, failed, .. } if failed.is_empty() => {
                write!(f, "{node} applied {}", counted(*applied, "resource"))
            }
            Self::NodeReported { node, applied, failed, .. } => {
                let names: Vec<&str> = failed.keys().map(String::as_str).take(3).collect();
                let (applied, more) = (counted(*applied, "resource"), failed.len() - names.len());
                let more = if more == 0 { String::new() } else { format!(" and {more} more") };
                write!(f, "{node} applied {applied}; failed: {}{more}", names.join(", "))
            }
            Self::NodeUndeclared { node, reason } if reason.is_empty() => {
                write!(f, "what is to be on {node} can be declared again")
            }
            Self::NodeUndeclared { node, reason } => {
                write!(f, "what is to be on {node} cannot be declared: {reason}")
            }
            Self::DriftFound { node, resource, noticed, found, .. } => {
                // The event has the time of the report; a node that was cut off reports long after it noticed.
                write!(f, "{resource} drifted on {node} at {noticed}; to do: {}", found.join("; "))
            }
            Self::DriftRepaired { node, resource, repaired, .. } => {
                write!(f, "{resource} was repaired on {node} at {repaired}")
            }
            Self::ModuleApplied { module, version, changed, by, .. } => {
                write!(f, "{by} applied {module} {version}: {}", on(changed))
            }
            Self::ModulePlaced { module, changed, .. } => {
                write!(f, "{module} follows the nodes that came or went: {}", on(changed))
            }
            Self::ModuleRemoved { module, changed, by } => {
                write!(f, "{by} removed {module}: {}", on(changed))
            }
        }
    }
}

fn counted(number: u32, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn on(nodes: &[NodeName]) -> String {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    if names.is_empty() { "no node changes".to_owned() } else { format!("changes {}", names.join(", ")) }
}
