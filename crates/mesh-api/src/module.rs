//! A module as a client sees it.

use std::collections::BTreeMap;

use mesh_ids::{ModuleName, NodeName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far a module is on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InstanceState {
    /// Declared; the node has not reported it yet.
    Pending,
    /// The node reported all of it.
    Applied,
    /// The node reported that part of it failed.
    Failed,
    /// To be taken away; the node has not reported that yet.
    Removing,
}

/// A module on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceView {
    /// Where.
    #[schema(value_type = String)]
    pub node: NodeName,
    /// How far.
    pub state: InstanceState,
    /// What failed there, by resource id, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
}

/// A module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleView {
    /// Its name.
    #[schema(value_type = String)]
    pub name: ModuleName,
    /// The version that is declared.
    pub version: String,
    /// Where it is.
    pub instances: Vec<InstanceView>,
}

/// All modules, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModuleList {
    /// The modules.
    pub items: Vec<ModuleView>,
    /// Where to watch from so that nothing is missed after this list.
    pub cursor: String,
}
