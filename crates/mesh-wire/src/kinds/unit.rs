//! The kind `unit`.

use std::collections::BTreeMap;

use mesh_ids::ResourceId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_name;

/// A systemd unit: written by the host where it has content, otherwise one the machine already has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// Its name with its type, e.g. `hello.service`.
    pub name: String,
    /// The unit file, written to `/etc/systemd/system/NAME`. Absent: the unit is the machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Its drop-ins, each by its name (`10-limits.conf`), written to `/etc/systemd/system/NAME.d/`. Others stay.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drop_ins: BTreeMap<String, String>,
    /// Whether it starts with the machine. Left as it is where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Whether it runs. Left as it is where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
    /// It is restarted when one of these resources changed, by id. They are also waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_on: Vec<ResourceId>,
}

impl UnitSpec {
    const TYPES: [&str; 6] = [".service", ".socket", ".timer", ".path", ".mount", ".target"];

    /// Whether a name ends as that of a unit does.
    pub(super) fn is_typed(name: &str) -> bool {
        Self::TYPES.iter().any(|suffix| name.ends_with(suffix))
    }

    pub(super) fn check(&self) -> Result<(), String> {
        // '@' parts a template from its instance, '\' and ':' occur in escaped names (systemd.unit(5)).
        check_name("unit", &self.name.replace(['@', '\\', ':'], "-"))?;
        if !Self::is_typed(&self.name) {
            return Err(format!("{:?} does not end in one of {}", self.name, Self::TYPES.join(", ")));
        }
        for drop_in in self.drop_ins.keys() {
            check_name("drop-in", drop_in)?;
            if drop_in.strip_suffix(".conf").is_none() {
                return Err(format!(
                    "the drop-in {drop_in:?} does not end in .conf: systemd would not read it"
                ));
            }
        }
        Ok(())
    }
}
