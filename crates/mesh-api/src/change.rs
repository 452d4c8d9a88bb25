//! A change to the mesh: planned first, then applied as planned or not at all.

use mesh_ids::{ModuleName, NodeName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is to change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// Bring a module to what its manifest says.
    Apply {
        /// The manifest, as the JSON form of `module.toml` with every file's content inlined.
        #[schema(value_type = Object)]
        manifest: serde_json::Value,
    },
    /// Take a module away.
    Remove {
        /// Which one.
        #[schema(value_type = String)]
        module: ModuleName,
    },
}

/// Asks what a change would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// What is to change.
    pub what: Change,
}

/// What a change would do, on which node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plan {
    /// The module it is about.
    #[schema(value_type = String)]
    pub module: ModuleName,
    /// The check index: hand it to `apply`, which refuses when it no longer holds.
    pub index: String,
    /// What changes, node by node. Empty: nothing would.
    pub nodes: Vec<NodeChange>,
}

/// What changes on one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeChange {
    /// Which node.
    #[schema(value_type = String)]
    pub node: NodeName,
    /// What is added, changed and removed there, in order.
    pub steps: Vec<PlannedStep>,
}

/// One resource that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStep {
    /// How.
    pub action: StepAction,
    /// Which, by id.
    pub resource: String,
    /// What of it, for a person; no secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// How a resource changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    /// It is new on the node.
    Add,
    /// It is there and becomes other.
    Change,
    /// It goes.
    Remove,
}

/// Applies a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// The check index of the plan.
    pub index: String,
    /// The same change that was planned.
    pub what: Change,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// The module it was about.
    #[schema(value_type = String)]
    pub module: ModuleName,
    /// The nodes whose declaration changes; empty where nothing changed.
    #[schema(value_type = Vec<String>)]
    pub nodes: Vec<NodeName>,
    /// Where to watch from so that nothing is missed of what follows.
    pub cursor: String,
}
