//! What identity says: who may become a node, who did, and what was signed for it.

use std::{collections::BTreeMap, fmt};

use mesh_ids::{Fingerprint, NodeName, Position, Timestamp};
use serde::{Deserialize, Serialize};

/// Which part of a node's resources a declaration holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// What the node needs to be reached, and nothing else.
    Foundation,
    /// Everything.
    Rest,
}

/// Something that identity recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum IdentityEvent {
    /// A join token was made for a name.
    #[serde(rename = "node_invited/1")]
    NodeInvited {
        /// The name the node will have.
        node: NodeName,
        /// Until when the token can be used.
        expires: Timestamp,
        /// Labels the node will have.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// Who made it.
        by: String,
    },
    /// A token was not used in time, or a newer one took its place.
    #[serde(rename = "invitation_ended/1")]
    InvitationEnded {
        /// The name it was for.
        node: NodeName,
        /// Whether another one took its place.
        replaced: bool,
    },
    /// A machine became a node.
    #[serde(rename = "node_joined/1")]
    NodeJoined {
        /// Its name.
        node: NodeName,
        /// The fingerprint of its identity key.
        key: Fingerprint,
        /// Labels fixed by the invitation.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        /// The version of its host.
        host_version: String,
    },
    /// A token that one machine had used was used by another: somebody has a copy of it.
    #[serde(rename = "join_token_reused/1")]
    JoinTokenReused {
        /// The name the token was for.
        node: NodeName,
        /// The fingerprint of the second machine's key.
        key: Fingerprint,
    },
    /// A node was taken out of the mesh.
    #[serde(rename = "node_removed/1")]
    NodeRemoved {
        /// Which.
        node: NodeName,
        /// Who did it.
        by: String,
    },
    /// A declaration was signed.
    #[serde(rename = "declaration_issued/1")]
    DeclarationIssued {
        /// For which node.
        node: NodeName,
        /// Where it stands.
        position: Position,
        /// Which part it holds.
        stage: Stage,
        /// How many resources it holds.
        resources: u32,
    },
    /// A node's history began anew: what it is told from now on stands above all it was told.
    #[serde(rename = "generation_raised/1")]
    GenerationRaised {
        /// Which node.
        node: NodeName,
        /// The new generation.
        generation: mesh_ids::Generation,
        /// Who did it.
        by: String,
    },
}

impl IdentityEvent {
    /// What it is called, without the version.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NodeInvited { .. } => "node_invited",
            Self::InvitationEnded { .. } => "invitation_ended",
            Self::NodeJoined { .. } => "node_joined",
            Self::JoinTokenReused { .. } => "join_token_reused",
            Self::NodeRemoved { .. } => "node_removed",
            Self::DeclarationIssued { .. } => "declaration_issued",
            Self::GenerationRaised { .. } => "generation_raised",
        }
    }

    /// The node it is about.
    pub const fn node(&self) -> &NodeName {
        match self {
            Self::NodeInvited { node, .. }
            | Self::InvitationEnded { node, .. }
            | Self::NodeJoined { node, .. }
            | Self::JoinTokenReused { node, .. }
            | Self::NodeRemoved { node, .. }
            | Self::DeclarationIssued { node, .. }
            | Self::GenerationRaised { node, .. } => node,
        }
    }
}

impl fmt::Display for IdentityEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeInvited { node, expires, by, .. } => {
                write!(f, "{by} invited {node}; the token can be used until {expires}")
            }
            Self::InvitationEnded { node, replaced: false } => {
                write!(f, "the invitation of {node} expired unused")
            }
            Self::InvitationEnded { node, replaced: true } => {
                write!(f, "the invitation of {node} was replaced by a newer one")
            }
            Self::NodeJoined { node, host_version, .. } => {
                write!(f, "{node} joined the mesh with mesh-host {host_version}")
            }
            Self::JoinTokenReused { node, .. } => write!(
                f,
                "a second machine tried to join as {node} with a used token: somebody has a copy of it"
            ),
            Self::NodeRemoved { node, by } => write!(f, "{by} removed {node} from the mesh"),
            Self::DeclarationIssued { node, position, resources, stage: Stage::Rest } => {
                write!(f, "declaration {position} with {resources} resources was issued for {node}")
            }
            Self::DeclarationIssued { node, position, stage: Stage::Foundation, .. } => {
                write!(f, "the first declaration, {position}, was issued for {node}")
            }
            Self::GenerationRaised { node, generation, by } => {
                write!(f, "{by} began the history of {node} anew, as generation {generation}")
            }
        }
    }
}
