//! What happened, in identity's own words. `publish` turns it into the public event.

use std::collections::BTreeMap;

use mesh_ids::{Fingerprint, Generation, NodeName, Position, Timestamp};

use super::Stage;

/// Something that changed and is to be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Invited { node: NodeName, expires: Timestamp, labels: BTreeMap<String, String>, by: String },
    InvitationEnded { node: NodeName, replaced: bool },
    Joined { node: NodeName, key: Fingerprint, labels: BTreeMap<String, String>, host_version: String },
    TokenReused { node: NodeName, key: Fingerprint },
    Removed { node: NodeName, by: String },
    Issued { node: NodeName, position: Position, stage: Stage, resources: usize },
    GenerationRaised { node: NodeName, generation: Generation, by: String },
}
