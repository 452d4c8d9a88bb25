//! The kind `container`.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::{ImageRef, ResourceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_name, check_path};

/// A container: kept running, or run to its end once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Its name in the engine.
    pub name: String,
    /// Its image, by content.
    pub image: ImageRef,
    /// Whether it is kept running or runs to its end.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// What it runs instead of the image's command; the image's entrypoint stays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Variables of its environment. No secrets: they are visible to whoever may inspect the engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// What is mounted into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Mount>,
    /// Which of its ports are the machine's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
    /// The engine's networks it is in; the engine's default one where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// By which user of the image it runs, as `USER` or `UID:GID`; the image's own where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// How long it has to end by itself after its stop signal, in seconds.
    #[serde(default = "ContainerSpec::default_stop_grace")]
    pub stop_grace_s: u32,
    /// The most memory it may use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// How it is known to be ready; where not given, it is as soon as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// It is replaced when one of these resources changed, by id. They are also waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_on: Vec<ResourceId>,
}

/// How long a container lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Kept running: started again whenever it ends.
    #[default]
    Service,
    /// Run to its end once; applied when it ended with 0, failed when it ended with anything else. Run again only when
    /// what is declared of it changed.
    Once,
}

/// Something of the machine inside the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// A named volume, or an absolute path of the machine.
    pub source: String,
    /// Where in the container: an absolute path.
    pub target: String,
    /// Whether the container may only read it.
    #[serde(default)]
    pub read_only: bool,
}

/// A port of the container that is the machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// The port of the machine.
    pub host: u16,
    /// The port of the container.
    pub container: u16,
    /// TCP where not given.
    #[serde(default)]
    pub protocol: Protocol,
    /// The address of the machine it is bound to; all of them where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<std::net::IpAddr>,
}

/// A transport protocol.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// How a container is known to be ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Run inside the container, as argument vector; ready when it ends with 0.
    pub command: Vec<String>,
    /// By when it has to be, in seconds after the start.
    pub within_s: u32,
}

impl ContainerSpec {
    const fn default_stop_grace() -> u32 {
        10
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_name("container", &self.name)?;
        for mount in &self.mounts {
            check_path(&mount.target)?;
            if mount.source.starts_with('/') {
                check_path(&mount.source)?;
            } else {
                check_name("volume", &mount.source)?;
            }
        }
        for network in &self.networks {
            check_name("network", network)?;
        }
        for name in self.environment.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("{name:?} is not the name of a variable"));
            }
        }
        let mut bound = BTreeSet::new();
        for port in &self.ports {
            if port.host == 0 || port.container == 0 {
                return Err("a port is a number from 1 to 65535".to_owned());
            }
            if !bound.insert((port.host, port.protocol)) {
                return Err(format!("the port {} is bound twice", port.host));
            }
        }
        match &self.ready {
            Some(ready) if ready.command.is_empty() => Err("ready.command is empty".to_owned()),
            _ => Ok(()),
        }
    }
}
