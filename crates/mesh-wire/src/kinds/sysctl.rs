//! The kind `sysctl`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_name;

/// Parameters of the kernel: set at once, and again whenever the machine starts. Removal puts the old values back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SysctlSpec {
    /// What the settings are called together: they are kept in `/etc/sysctl.d/90-mesh-NAME.conf`.
    pub name: String,
    /// Each parameter, as sysctl.d(5) names it (`net.ipv4.ip_forward`), and its value.
    pub settings: BTreeMap<String, String>,
}

/// The most parameters of one resource.
const MOST: usize = 256;
/// The longest name and the longest value, in bytes: the kernel reads a value from one page.
const LONGEST: usize = 4000;

impl SysctlSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("name of settings", &self.name)?;
        if self.settings.is_empty() || self.settings.len() > MOST {
            return Err(format!("settings holds {} parameters: expected 1 to {MOST}", self.settings.len()));
        }
        for (key, value) in &self.settings {
            check_key(key)?;
            check_value(value).map_err(|reason| format!("the value of {key} {reason}"))?;
        }
        Ok(())
    }
}

/// Every part is a name of the kernel. As in sysctl.d(5) a `/` stands for a dot inside of a part, as in
/// `net.ipv4.conf.eth0/7.forwarding`; there is exactly one way to write a parameter.
fn check_key(key: &str) -> Result<(), String> {
    let ordinary = |part: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_-:/@".contains(c);
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric() || "_-".contains(c))
            && part.chars().all(allowed)
            && !part.contains("//")
    };
    let mut parts = key.split('.');
    let first = parts.next().is_some_and(|first| ordinary(first) && !first.contains('/'));
    if key.len() > LONGEST || !first || parts.clone().next().is_none() || !parts.all(ordinary) {
        return Err(format!(
            "{:?} is no parameter of the kernel: expected one such as net.ipv4.ip_forward",
            key.chars().take(100).collect::<String>()
        ));
    }
    Ok(())
}

fn check_value(value: &str) -> Result<(), &'static str> {
    if value.is_empty() || value.len() > LONGEST {
        Err("is empty, or longer than 4,000 bytes")
    } else if value.chars().any(|c| c.is_control() && c != '\t') {
        Err("holds control characters")
    } else if value.trim() != value {
        Err("begins or ends with a space, which would not last")
    } else {
        Ok(())
    }
}
