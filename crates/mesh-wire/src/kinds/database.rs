//! The kind `database`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_name, check_path};

/// A database and the role that owns it, in a PostgreSQL that runs in a container of this machine. The role can connect
/// to this database and to no other. The data is kept when the resource is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSpec {
    /// The container of the server.
    pub container: String,
    /// The name of the database.
    pub name: String,
    /// The role that owns it.
    pub owner: String,
    /// The file of the machine that holds the role's password.
    pub password_file: String,
}

impl DatabaseSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("container", &self.container)?;
        check_name("database", &self.name)?;
        check_name("role", &self.owner)?;
        check_path(&self.password_file)
    }
}
