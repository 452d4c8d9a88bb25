//! The kind `volume`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_name;

/// A named volume. Its data is kept when the resource is removed: only a person destroys data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Its name in the engine.
    pub name: String,
}

impl VolumeSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("volume", &self.name)
    }
}
