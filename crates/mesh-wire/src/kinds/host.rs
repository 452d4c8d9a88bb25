//! The kind `host`.

use mesh_ids::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_path;

/// The version of the host itself. Whatever becomes of it, one that works stays: the new one is tried first, and kept only
/// once it has proved itself. Nothing changes when the resource is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// The version the program says it has, e.g. `0.2.0`.
    pub version: String,
    /// The SHA-256 of the program.
    pub digest: Digest,
    /// Where the program is taken from.
    pub source: HostSource,
    /// A program that failed on this machine is tried again only where this is higher than it was then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry: u64,
}

/// Where the program is taken from. Its digest is checked in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HostSource {
    /// A file of the machine, by its absolute path.
    Path(String),
    /// The bundle the machine carries (`host/mesh-host` in it).
    Bundle,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl HostSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
        if self.version.is_empty() || self.version.len() > 64 || !self.version.chars().all(allowed) {
            return Err(format!("{:?} is not a version, such as 0.2.0", self.version));
        }
        match &self.source {
            HostSource::Path(path) => check_path(path),
            HostSource::Bundle => Ok(()),
        }
    }
}
