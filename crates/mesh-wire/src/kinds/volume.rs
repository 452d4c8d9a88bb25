//! The kind `volume`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_name;

/// A named volume. Its data is kept when the resource is removed, unless a person released it before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    /// Its name in the engine.
    pub name: String,
    /// Whether a person gave its data up: then the volume goes when the resource does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

impl VolumeSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("volume", &self.name)
    }
}
