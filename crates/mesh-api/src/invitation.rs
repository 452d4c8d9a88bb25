//! The invitation of a machine into the mesh.

use std::collections::BTreeMap;

use mesh_ids::NodeName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Asks for a join token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// The name the node will have.
    #[schema(value_type = String)]
    pub node: NodeName,
    /// How long the token can be used, in seconds: 60 to 604,800; an hour where not given.
    #[serde(default = "InviteRequest::default_ttl_s")]
    pub ttl_s: u64,
    /// Labels the node will have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl InviteRequest {
    /// How long a token can be used where nothing is said, in seconds.
    pub const fn default_ttl_s() -> u64 {
        3600
    }
}

/// A join token. Whoever has it can join, once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invitation {
    /// The name the node will have.
    #[schema(value_type = String)]
    pub node: NodeName,
    /// The token, to be given to `mesh-host join` on the machine.
    pub token: String,
    /// Until when it can be used, as RFC 3339 in UTC.
    pub expires: String,
}

impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invitation")
            .field("node", &self.node)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}
