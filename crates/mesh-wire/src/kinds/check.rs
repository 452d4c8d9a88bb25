//! What a file has to hold before it is put in its place: a closed list, never a command.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the content of a file is checked. Content that is refused is never put in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// It is JSON.
    Json,
    /// It is TOML.
    Toml,
    /// It is a unit file that `systemd-analyze verify` takes.
    IniSystemdUnit,
    /// It is a configuration that `nginx -t` takes, the whole of it.
    Nginx,
    /// It is a configuration that `haproxy -c` takes.
    Haproxy,
    /// It is a configuration that `sshd -t` takes.
    Sshd,
    /// It is a file that `visudo -c` takes.
    Sudoers,
}

impl Check {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Toml => "toml",
            Self::IniSystemdUnit => "ini-systemd-unit",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Sshd => "sshd",
            Self::Sudoers => "sudoers",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
