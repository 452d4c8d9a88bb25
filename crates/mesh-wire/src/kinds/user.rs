//! The kind `user`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_path;

/// A system user and the group of its name, without a password. One that is there already is adopted: removal puts back
/// what was changed of it and never deletes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// Its name, which is its group's name too.
    pub name: String,
    /// Its number; chosen by the machine among those of system users where not given. Never 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The number of its group; chosen by the machine where not given. Never 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Its home, made where there is none. Where not given: none (`/nonexistent`) for a new user, as it is for one that
    /// is there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Its login shell. Where not given: none (`/usr/sbin/nologin`) for a new user, as it is for one that is there
    /// already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Further groups it is in. They have to exist. Groups it is in that are not named here are left alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

impl UserSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_user("user", &self.name)?;
        if self.name == "root" {
            return Err("root is the machine's own: declare another user".to_owned());
        }
        for (what, number) in [("uid", self.uid), ("gid", self.gid)] {
            // 65534 is nobody; 65535 and the highest mean "none" to some of the kernel.
            if matches!(number, Some(0 | 65534 | 65535 | u32::MAX)) {
                return Err(format!("the {what} {} is nobody's to give", number.unwrap_or_default()));
            }
        }
        for (what, path) in [("home", &self.home), ("shell", &self.shell)] {
            if let Some(path) = path {
                check_path(path).map_err(|reason| format!("{what}: {reason}"))?;
                if path.contains(':') {
                    return Err(format!("{what}: the path {path:?} holds a ':', which no user's entry can"));
                }
            }
        }
        if let Some(twice) =
            self.groups.iter().enumerate().find(|(at, name)| self.groups[..*at].contains(name))
        {
            return Err(format!("the group {:?} is named twice", twice.1));
        }
        if self.groups.contains(&self.name) {
            return Err("its own group need not be named".to_owned());
        }
        self.groups.iter().try_for_each(|name| check_user("group", name))
    }
}

/// The name of a user or a group, as strict as the strictest that reads it (systemd's "strict mode").
pub(super) fn check_user(what: &str, name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    let first = |c: char| c.is_ascii_lowercase() || c == '_';
    if name.len() > 31 || !name.starts_with(first) || !name.chars().all(allowed) {
        return Err(format!(
            "{:?} is not the name of a {what}: a-z, 0-9, '_' and '-', at most 31, first a letter or '_'",
            name.chars().take(100).collect::<String>()
        ));
    }
    Ok(())
}
