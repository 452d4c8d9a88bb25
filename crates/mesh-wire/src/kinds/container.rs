//! The kind `container`.

mod ready;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use mesh_ids::{ImageRef, ResourceId};
pub use ready::{Health, HttpProbe, Ready};
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
    /// What it runs instead of the image's entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// In which folder of the image it begins; the image's own where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
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
    /// Whether its own files are read-only: then it writes to its mounts only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only_root: bool,
    /// Folders in memory, empty whenever it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tmpfs: Vec<Tmpfs>,
    /// Capabilities it has beyond the engine's usual ones, each by its name, e.g. `NET_ADMIN`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cap_add: Vec<String>,
    /// Capabilities it does not have of the engine's usual ones, or `ALL`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cap_drop: Vec<String>,
    /// Names it knows beside those of its networks, each with its address.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra_hosts: BTreeMap<String, IpAddr>,
    /// Labels, for people and programs that look at the engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How long it has to end by itself after its stop signal, in seconds.
    #[serde(default = "ContainerSpec::default_stop_grace")]
    pub stop_grace_s: u32,
    /// What ends it, e.g. `SIGINT`; the image's own signal, or `SIGTERM`, where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// The most memory it may use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The most processor time it may use, in thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<u32>,
    /// The most processes and threads it may have at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// How large its `/dev/shm` is, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_bytes: Option<u64>,
    /// How it is known to be ready; where not given, it is as soon as it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Whether it is asked the same while it runs, and restarted when its answers stay bad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Whether what it writes is for this machine alone. Where it is not, the last lines are quoted when it fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private_log: bool,
    /// How it gives its place to another one when it is declared otherwise.
    #[serde(default, skip_serializing_if = "Replace::is_stop_first")]
    pub replace: Replace,
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

/// In which order one container replaces another. Either way the old one is kept until the new one is ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Replace {
    /// The old one is stopped, then the new one is started.
    #[default]
    StopFirst,
    /// The new one is started and ready, then the old one is stopped. For containers of which two can run at a time.
    StartFirst,
}

impl Replace {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_stop_first(&self) -> bool {
        *self == Self::StopFirst
    }
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
    /// Whether two containers may write to it at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A folder of the container that is in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tmpfs {
    /// Where in the container: an absolute path.
    pub target: String,
    /// The most it may hold, in bytes; half of the machine's memory where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
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
    pub address: Option<IpAddr>,
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

impl ContainerSpec {
    const fn default_stop_grace() -> u32 {
        10
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_name("container", &self.name)?;
        if let Some(end) = HOSTS_ENDINGS.iter().find(|end| self.name.ends_with(*end)) {
            return Err(format!(
                "the name {:?} ends in {end}, as only names that the host gives do",
                self.name
            ));
        }
        if let Some(directory) = self.working_directory.as_ref().filter(|directory| *directory != "/") {
            check_path(directory)?;
        }
        for network in &self.networks {
            check_name("network", network)?;
        }
        for name in self.environment.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("{name:?} is not the name of a variable"));
            }
        }
        self.check_mounts()?;
        self.check_ports()?;
        self.check_limits()?;
        self.check_rights()?;
        self.check_names()?;
        self.check_ready()?;
        self.check_replace()
    }

    /// Two of them have to be able to run at a time.
    fn check_replace(&self) -> Result<(), String> {
        if self.replace == Replace::StopFirst {
            return Ok(());
        }
        if self.lifecycle == Lifecycle::Once {
            return Err(
                "replace: start-first is for what is kept running, and the lifecycle is once".to_owned()
            );
        }
        if self.ready.is_none() {
            return Err(
                "replace: start-first needs `ready`: the old one is stopped once the new one is".to_owned()
            );
        }
        if let Some(port) = self.ports.first() {
            return Err(format!(
                "replace: start-first cannot be, as only one container at a time can bind the port {} of the machine: \
                 use stop-first",
                port.host
            ));
        }
        match self.mounts.iter().find(|mount| !mount.read_only && !mount.shared) {
            Some(mount) => Err(format!(
                "replace: start-first cannot be, as two containers would write to {} at a time: mount it read-only, say \
                 shared = true where it is made for that, or use stop-first",
                mount.source
            )),
            None => Ok(()),
        }
    }

    fn check_ready(&self) -> Result<(), String> {
        if let Some(ready) = &self.ready {
            ready.check()?;
        }
        match &self.health {
            Some(_) if self.lifecycle == Lifecycle::Once => {
                Err("health is for what is kept running, and the lifecycle is once".to_owned())
            }
            Some(health) => health.check(self.ready.as_ref()),
            None => Ok(()),
        }
    }

    fn check_mounts(&self) -> Result<(), String> {
        for mount in &self.mounts {
            check_path(&mount.target)?;
            if mount.source.starts_with('/') {
                check_path(&mount.source)?;
            } else {
                check_name("volume", &mount.source)?;
            }
        }
        let mut targets: BTreeSet<&str> = self.mounts.iter().map(|mount| mount.target.as_str()).collect();
        for tmpfs in &self.tmpfs {
            check_path(&tmpfs.target)?;
            // The engine takes its options behind a colon, and several of them with commas between.
            if tmpfs.target.contains([':', ',']) {
                return Err(format!("tmpfs: the path {:?} holds a ':' or a ','", tmpfs.target));
            }
            if !targets.insert(&tmpfs.target) {
                return Err(format!("tmpfs: something is mounted at {} already", tmpfs.target));
            }
            if tmpfs.size_bytes == Some(0) {
                return Err("tmpfs: size_bytes is 0".to_owned());
            }
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), String> {
        let mut bound = BTreeSet::new();
        for port in &self.ports {
            if port.host == 0 || port.container == 0 {
                return Err("a port is a number from 1 to 65535".to_owned());
            }
            if !bound.insert((port.host, port.protocol)) {
                return Err(format!("the port {} is bound twice", port.host));
            }
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), String> {
        let least = [
            ("cpu_millicores", self.cpu_millicores.map(u64::from), LEAST_CPU_MILLICORES),
            ("pids", self.pids.map(u64::from), 1),
            ("shm_bytes", self.shm_bytes, 1),
        ];
        for (member, given, least) in least {
            if let Some(given) = given.filter(|given| *given < least) {
                return Err(format!("{member} is {given}, and has to be {least} or more"));
            }
        }
        match &self.stop_signal {
            Some(signal) if !is_signal(signal) => Err(format!(
                "{signal:?} is not a signal that can end a program: expected one such as SIGTERM"
            )),
            _ => Ok(()),
        }
    }

    fn check_rights(&self) -> Result<(), String> {
        for (member, names) in [("cap_add", &self.cap_add), ("cap_drop", &self.cap_drop)] {
            for name in names {
                if name == "ALL" && member == "cap_add" {
                    return Err("cap_add takes no ALL: name each capability that is needed".to_owned());
                }
                let allowed = |c: char| c.is_ascii_uppercase() || c == '_';
                if name.is_empty() || !name.chars().all(allowed) || name.starts_with("CAP_") {
                    return Err(format!(
                        "{member}: {name:?} is not a capability: expected its name without CAP_, such as NET_ADMIN"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), String> {
        for name in self.extra_hosts.keys() {
            check_name("host", name).map_err(|reason| format!("extra_hosts: {reason}"))?;
        }
        for name in self.labels.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("{name:?} is not the name of a label"));
            }
            if name.starts_with("mesh.") {
                return Err(format!("the label {name} is the host's own: labels that begin with mesh. are"));
            }
        }
        Ok(())
    }
}

/// How the host calls what stands beside a container while it is replaced.
const HOSTS_ENDINGS: [&str; 3] = [".mesh-next", ".mesh-old", ".mesh-failed"];
/// The kernel gives out a processor by periods of 100 ms, of which it takes 1 ms at least.
const LEAST_CPU_MILLICORES: u64 = 10;

/// Those of signal(7) that a program can see and end by. `SIGKILL` is what comes after the grace.
fn is_signal(name: &str) -> bool {
    ["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH"].contains(&name)
        || name.strip_prefix("SIGRTMIN+").is_some_and(|n| n.parse::<u8>().is_ok_and(|n| n <= 15))
}
