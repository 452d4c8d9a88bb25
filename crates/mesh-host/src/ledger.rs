//! What the host has to remember, in its own store. Written before every act it describes; never reset to nothing.

use mesh_ids::ResourceId;
use mesh_wire::Resource;
use serde::{Deserialize, Serialize};

/// Who put a resource on the machine. Neither removes the other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The bundle, or a file on the machine.
    Carried,
    /// The mesh.
    Assigned,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Carried => "carried",
            Self::Assigned => "assigned",
        })
    }
}

/// What is remembered of one resource, from before it is first touched until it is removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose it is.
    pub origin: Origin,
    /// What is, or is being, applied.
    pub resource: Resource,
    /// Whether that is complete. Not so from before the first step until after the last one.
    pub complete: bool,
}

impl Entry {
    /// Its id.
    pub fn id(&self) -> &ResourceId {
        &self.resource.id
    }
}
