//! The kind `image`.

use mesh_ids::ImageRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image that the engine has, before anything needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageSpec {
    /// The image, by content.
    pub image: ImageRef,
}

impl ImageSpec {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every kind is checked the same way")]
    pub(super) const fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
