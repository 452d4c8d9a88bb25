//! A node as a client sees it.

use std::collections::BTreeMap;

use mesh_ids::{NodeName, Position};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether a node is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// Invited or just joined; nothing heard from it yet.
    Joining,
    /// Heard within the time of a heartbeat.
    Connected,
    /// A heartbeat is missing.
    Quiet,
    /// Silent for so long that it counts as gone.
    Unreachable,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    /// Its name.
    #[schema(value_type = String)]
    pub name: NodeName,
    /// Whether it is heard.
    pub state: NodeState,
    /// When it was last heard, as RFC 3339 in UTC; null where it never was.
    pub last_heard: Option<String>,
    /// How long it has not been heard, in whole seconds; null while it is connected or was never heard.
    pub disconnected_for: Option<u64>,
    /// The newest declaration issued for it.
    #[schema(value_type = Option<PositionView>)]
    pub declared: Option<Position>,
    /// The declaration its last report speaks of.
    #[schema(value_type = Option<PositionView>)]
    pub reported: Option<Position>,
    /// What it owns, by resource id.
    pub applied: Vec<String>,
    /// What it could not apply, and why.
    pub failed: BTreeMap<String, String>,
    /// Why what is to be on it could not be declared to it, or why it rejected its declaration whole; null where neither is so.
    pub refused: Option<String>,
    /// The ports held by what the machine carried.
    pub carried_ports: Vec<u16>,
    /// The version of its host.
    pub host_version: Option<String>,
    /// Labels, fixed when it was invited.
    pub labels: BTreeMap<String, String>,
    /// What the machine is; null until it said so.
    pub facts: Option<FactsView>,
}

/// What a machine is, by its own statement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FactsView {
    /// The operating system.
    pub os: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor architecture.
    pub architecture: String,
    /// How many processors are online.
    pub cpus: u32,
    /// Memory in all, in bytes.
    pub memory_bytes: u64,
    /// The mounted disks.
    pub disks: Vec<DiskView>,
    /// The container engine and its version.
    pub engine: Option<String>,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskView {
    /// Where it is mounted.
    pub mount: String,
    /// How large it is, in bytes.
    pub size_bytes: u64,
    /// How much of it is free, in bytes.
    pub free_bytes: u64,
}

/// Where a declaration stands in a node's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PositionView {
    /// Of the mesh.
    pub epoch: u64,
    /// Of the node.
    pub generation: u64,
    /// Within the generation.
    pub sequence: u64,
}

/// A node whose history begins anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Which node.
    #[schema(value_type = String)]
    pub node: NodeName,
    /// The generation of everything it is told from now on; above every one before.
    pub generation: u64,
}

/// All nodes, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// The nodes.
    pub items: Vec<NodeView>,
    /// Where to watch from so that nothing is missed after this list.
    pub cursor: String,
}
