//! The kind `package`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_path;

/// Packages that have to be installed. Removal takes away only those that the host installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PackageSpec {
    /// Their names, as the machine's package manager knows them; one transaction installs all.
    pub names: Vec<String>,
    /// A folder on the machine with a package repository that is used in addition to the machine's own sources. Where
    /// it is given, nothing is fetched over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

impl PackageSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.names.is_empty() {
            return Err("no package is named".to_owned());
        }
        for name in &self.names {
            // Debian policy 5.6.1: at least two of a-z, 0-9, '+', '-', '.', first a letter or digit.
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
            let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            if name.len() < 2 || name.len() > 200 || !first || !name.chars().all(allowed) {
                return Err(format!("{name:?} is not the name of a package"));
            }
            // No package of Debian's is named so, and `apt-get install` takes it for "remove".
            if name.ends_with('-') {
                return Err(format!("{name:?} is not the name of a package: it ends with '-'"));
            }
        }
        self.repository.as_deref().map_or(Ok(()), check_path)
    }
}
