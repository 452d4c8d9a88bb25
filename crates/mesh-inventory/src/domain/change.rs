//! What happened, in inventory's own words. `publish` turns it into the public event.

use std::{collections::BTreeMap, time::Duration};

use mesh_ids::{Digest, ModuleName, ModuleVersion, NodeName, Position, ResourceId, Timestamp};

/// Something that changed and is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Connected {
        node: NodeName,
        silent_for: Option<Duration>,
    },
    Quiet {
        node: NodeName,
        last_heard: Timestamp,
    },
    Unreachable {
        node: NodeName,
        last_heard: Timestamp,
    },
    Reported {
        node: NodeName,
        position: Option<Position>,
        applied: usize,
        failed: BTreeMap<String, String>,
        refused: String,
    },
    Undeclared {
        node: NodeName,
        reason: String,
    },
    DriftFound {
        node: NodeName,
        resource: ResourceId,
        number: u64,
        noticed: Timestamp,
        found: Vec<String>,
    },
    DriftRepaired {
        node: NodeName,
        resource: ResourceId,
        number: u64,
        repaired: Timestamp,
    },
    Applied {
        module: ModuleName,
        version: ModuleVersion,
        digest: Digest,
        nodes: Vec<NodeName>,
        changed: Vec<NodeName>,
        by: String,
    },
    Placed {
        module: ModuleName,
        nodes: Vec<NodeName>,
        changed: Vec<NodeName>,
    },
    Removed {
        module: ModuleName,
        changed: Vec<NodeName>,
        by: String,
    },
}
