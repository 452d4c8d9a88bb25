//! The kind `directory`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_path, mode::Mode};

/// A directory. Removal takes it away only where it was made by the host and is empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectorySpec {
    /// Where: an absolute path.
    pub path: String,
    /// Its permission bits.
    #[serde(default = "DirectorySpec::default_mode")]
    pub mode: Mode,
    /// Who owns it: a user's name. `root` where not given.
    #[serde(default = "super::file::root")]
    pub owner: String,
    /// Which group owns it. `root` where not given.
    #[serde(default = "super::file::root")]
    pub group: String,
}

impl DirectorySpec {
    const fn default_mode() -> Mode {
        Mode::new(0o755)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_path(&self.path)
    }
}
