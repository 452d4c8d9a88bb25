//! What a node says: that it is there, and what it applied. It states; it asks for nothing and writes nothing.
//!
//! The first five members of a report and the one of a heartbeat are older than this program and are kept exactly;
//! what was added since is optional. Unknown members are ignored, so that an older reader understands a newer node.

use std::collections::BTreeMap;

use mesh_ids::{Digest, NodeName, Position, ResourceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The routing key of a [`Report`].
pub const KEY_REPORT: &str = "report";
/// The routing key of an [`Alive`].
pub const KEY_ALIVE: &str = "alive";
/// The message header that carries the node's signature over the body: standard base64 of 64 bytes.
pub const SIGNATURE_HEADER: &str = "sig";

/// The largest statement that is made or read. No declaration is larger, and a report names every resource of one once.
pub const MAX_STATEMENT_BYTES: usize = 4 * 1024 * 1024;
/// How many drifts a report carries at most, and how many a node keeps.
pub const MAX_DRIFT: usize = 512;

/// A node saying nothing except that it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Alive {
    /// Who says so.
    pub node: NodeName,
    /// The newest declaration it accepted. A node that is behind is sent the newest again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Position>,
}

/// What a node says after applying.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Who says so.
    pub node: NodeName,
    /// What this machine now owns, by resource id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied: Vec<String>,
    /// What could not be applied, and why, in words for a person.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
    /// Why the declaration was rejected whole; empty where it was not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// The ports bound by what this host raised from its own bundle, so that the mesh assigns around them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<u16>,
    /// The declaration spoken of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The version of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_version: Option<String>,
    /// Which start of the host this is, and the how manieth report of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// What the machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
    /// What was found changed and put right since the last report that arrived, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Drift>,
    /// How it stands with the host's own upgrade; absent where there is nothing to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
}

impl Report {
    /// A report that says nothing yet.
    pub fn new(node: NodeName) -> Self {
        Self {
            node,
            applied: Vec::new(),
            failed: BTreeMap::new(),
            refused: String::new(),
            carried: Vec::new(),
            position: None,
            host_version: None,
            boot: None,
            facts: None,
            drift: Vec::new(),
            upgrade: None,
        }
    }
}

/// How it stands with the host's own upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Upgrade {
    /// Whether the version that speaks is on trial: it has not proved itself yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_trial: bool,
    /// The versions that failed on this node and are not tried again by themselves, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedVersion>,
}

/// A version of the host that failed on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedVersion {
    /// Its version, as it was declared.
    pub version: String,
    /// The SHA-256 of the program.
    pub digest: Digest,
    /// Why, for a person.
    pub reason: String,
}

/// Which start of the host a report belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Boot {
    /// The kernel's boot id.
    pub id: String,
    /// Rises with every report this ledger ever made; a lower one than seen is older news.
    pub count: u64,
}

/// What the machine is, as observed by the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    /// The operating system, as os-release names it (`PRETTY_NAME`).
    #[serde(default)]
    pub os: String,
    /// The kernel's release.
    #[serde(default)]
    pub kernel: String,
    /// The processor architecture, e.g. `x86_64`.
    #[serde(default)]
    pub architecture: String,
    /// How many processors are online.
    #[serde(default)]
    pub cpus: u32,
    /// Memory in all, in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The mounted disks.
    #[serde(default)]
    pub disks: Vec<Disk>,
    /// The container engine and its version, e.g. `podman 4.3.1`; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The addresses of the machine's interfaces, loopback left out.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Disk {
    /// Where it is mounted.
    pub mount: String,
    /// How large it is, in bytes.
    pub size_bytes: u64,
    /// How much of it is free for ordinary users, in bytes; rounded down to a 64th of the size so that it changes rarely.
    pub free_bytes: u64,
}

/// A resource that was found other than declared: the node's own, or one it only observes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Rises by one with every drift this node ever noticed: reported twice, it is counted once.
    pub number: u64,
    /// Which resource.
    pub resource: ResourceId,
    /// When it was noticed, in seconds since 1970-01-01 UTC.
    pub noticed_at: i64,
    /// What was found, for a person: what is there instead, and the steps it took or would take.
    pub found: Vec<String>,
    /// When it was put right, or was no longer observed; absent while neither is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired_at: Option<i64>,
}
