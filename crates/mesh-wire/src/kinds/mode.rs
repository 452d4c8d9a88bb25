//! Permission bits, written as people write them: `"0644"`.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The lower twelve bits of a file's mode. As text: octal, three or four digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mode(u32);

/// Why a text is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a mode: three or four octal digits, such as 0644")]
pub struct InvalidMode(String);

impl Mode {
    /// The mode whose bits are these; bits above the twelfth are dropped.
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0o7777)
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

impl FromStr for Mode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, InvalidMode> {
        let invalid = || InvalidMode(text.chars().take(20).collect());
        if !(3..=4).contains(&text.len()) || !text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
            return Err(invalid());
        }
        u32::from_str_radix(text, 8).map(Self).map_err(|_| invalid())
    }
}

impl TryFrom<String> for Mode {
    type Error = InvalidMode;

    fn try_from(text: String) -> Result<Self, InvalidMode> {
        text.parse()
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> String {
        mode.to_string()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl JsonSchema for Mode {
    fn schema_name() -> Cow<'static, str> {
        "Mode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-7]{3,4}$" })
    }
}
