//! The kind `vhost`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_name, check_path};

/// A virtual host and the account that administers it, in a broker that runs in a container of this machine. What the
/// virtual host holds is kept when the resource is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VhostSpec {
    /// The container of the broker.
    pub container: String,
    /// The name of the virtual host.
    pub name: String,
    /// The account that may configure, write and read everything in it, and use the broker's management interface.
    pub account: String,
    /// The file of the machine that holds the account's password.
    pub password_file: String,
}

impl VhostSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("container", &self.container)?;
        check_name("virtual host", &self.name)?;
        check_name("account", &self.account)?;
        check_path(&self.password_file)
    }
}
