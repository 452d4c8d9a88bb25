//! Something that happened, as a client sees it.

use mesh_ids::{ModuleName, NodeName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Where to continue from after this one.
    pub cursor: String,
    /// When it was recorded, as RFC 3339 in UTC.
    pub at: String,
    /// Which context recorded it.
    pub context: String,
    /// What it is, e.g. `drift_found`.
    pub event: String,
    /// The node it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub node: Option<NodeName>,
    /// The module it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub module: Option<ModuleName>,
    /// What happened, in a sentence.
    pub summary: String,
    /// All that was recorded.
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

/// A run of events, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// The events.
    pub items: Vec<EventView>,
    /// Where to continue from.
    pub cursor: String,
}
