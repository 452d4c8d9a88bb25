//! The kind `file`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check::Check, check_path, mode::Mode, unit::UnitSpec};

/// A regular file. What stood at its path before is saved, and put back when the resource is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSpec {
    /// Where: an absolute path. Its directory has to exist.
    pub path: String,
    /// What it holds.
    pub content: Content,
    /// Its permission bits.
    #[serde(default = "FileSpec::default_mode")]
    pub mode: Mode,
    /// Who owns it: a user's name. `root` where not given.
    #[serde(default = "root")]
    pub owner: String,
    /// Which group owns it. `root` where not given.
    #[serde(default = "root")]
    pub group: String,
    /// What its content has to pass before it is put in its place; not checked where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

pub(super) fn root() -> String {
    "root".to_owned()
}

impl FileSpec {
    const fn default_mode() -> Mode {
        Mode::new(0o644)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_path(&self.path)?;
        if self.check == Some(Check::IniSystemdUnit) && !UnitSpec::is_typed(&self.path) {
            return Err(format!("{:?} is no unit file: its name has no type, such as .service", self.path));
        }
        self.content.bytes().map(|_| ()).map_err(|e| e.to_string())
    }
}

/// The bytes of a file: text, or base64 where they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// UTF-8, exactly as given: no newline is added.
    Text(String),
    /// Standard base64.
    Base64(String),
}

/// The content is not base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the content is not standard base64")]
pub struct InvalidContent;

impl Content {
    /// The content for these bytes: text where they are UTF-8.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    /// The bytes themselves.
    pub fn bytes(&self) -> Result<Vec<u8>, InvalidContent> {
        match self {
            Self::Text(text) => Ok(text.clone().into_bytes()),
            Self::Base64(text) => STANDARD.decode(text).map_err(|_| InvalidContent),
        }
    }
}
