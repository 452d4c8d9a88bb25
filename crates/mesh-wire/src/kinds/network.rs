//! The kind `network`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_name;

/// A bridge network of the engine, in which containers find each other by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSpec {
    /// Its name in the engine.
    pub name: String,
    /// Its addresses, e.g. `10.90.0.0/24`; chosen by the engine where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// Whether nothing in it reaches beyond the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
}

impl NetworkSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("network", &self.name)
    }
}
