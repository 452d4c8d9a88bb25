//! The machine's Podman, by its command line: the only file that knows its words.
//!
//! Every call has a deadline and an argument vector; nothing goes through a shell. It knows containers, networks,
//! volumes and images, and nothing of labs beyond the labels it is told to use. [`crate::lab`] and [`crate::node`] call it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::LabError;
use crate::process::{Call, Output};
use crate::subnet::Subnet;

/// For calls that only look, or change one small thing. A cold Podman on a busy machine has taken 3 s for one.
const SHORT: Duration = Duration::from_secs(30);
/// For calls that start or stop containers.
const START: Duration = Duration::from_mins(2);
/// For loading an image of some hundred megabytes.
const LOAD: Duration = Duration::from_mins(5);
/// How long an orderly shutdown of a node may take before its power is cut; a container in it that ignores its stop
/// signal would otherwise hold it up for 90 s.
const SHUTDOWN: Duration = Duration::from_secs(20);

/// Which generation of control groups the machine mounts; it decides how a node's systemd gets its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cgroups {
    /// Version 2 alone.
    Unified,
    /// Version 1, with or without version 2 beside it. Only runc works here, crun refuses.
    Legacy,
}

impl Cgroups {
    /// What is mounted under `root` (`/sys/fs/cgroup`).
    pub(crate) fn under(root: &Path) -> Option<Self> {
        if root.join("cgroup.controllers").exists() {
            Some(Self::Unified)
        } else if root.join("systemd").exists() || root.join("memory").exists() {
            Some(Self::Legacy)
        } else {
            None
        }
    }
}

/// The engine as this machine has it.
#[derive(Clone, Debug)]
pub struct Engine {
    cgroups: Cgroups,
    version: String,
}

/// What a container says of itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Container {
    pub(crate) state: State,
    pub(crate) config: Config,
    pub(crate) network_settings: NetworkSettings,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct State {
    pub(crate) status: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NetworkSettings {
    #[serde(default)]
    pub(crate) networks: Option<BTreeMap<String, Attachment>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Attachment {
    #[serde(rename = "IPAddress")]
    pub(crate) address: String,
}

impl Container {
    pub(crate) fn is_running(&self) -> bool {
        self.state.status == "running"
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.config.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// Its address on the network, if it is attached to it.
    pub(crate) fn address_on(&self, network: &str) -> Option<&str> {
        self.network_settings.networks.as_ref()?.get(network).map(|attachment| attachment.address.as_str())
    }
}

#[derive(Deserialize)]
struct Network {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    subnets: Option<Vec<NetworkRange>>,
}

#[derive(Deserialize)]
struct NetworkRange {
    subnet: String,
}

/// A network's range and labels.
pub(crate) struct NetworkState {
    pub(crate) subnet: Subnet,
    pub(crate) labels: BTreeMap<String, String>,
}

/// How a node's container is to be made.
pub(crate) struct NodeDraft<'a> {
    pub(crate) container: &'a str,
    pub(crate) host_name: &'a str,
    pub(crate) image: &'a str,
    pub(crate) network: &'a str,
    pub(crate) address: Ipv4Addr,
    pub(crate) hardware: &'a str,
    pub(crate) labels: &'a [(&'a str, &'a str)],
    pub(crate) volumes: &'a [String],
}

/// What makes a container's boot a machine's boot: an identity of its own for each boot (as systemd-nspawn gives), or
/// every "was this machine rebooted?" would be answered by the boot id of the kernel that all nodes share.
const BOOT: &str = "cat /proc/sys/kernel/random/uuid > /run/boot-id \
    && mount --bind -o ro /run/boot-id /proc/sys/kernel/random/boot_id; exec /sbin/init";

impl Engine {
    /// The engine, looked at: that it answers and that its networks are the ones the lab works with.
    pub fn open() -> Result<Self, LabError> {
        let Some(cgroups) = Cgroups::under(Path::new("/sys/fs/cgroup")) else {
            return Err(LabError::Unable {
                why: "no control groups are mounted at /sys/fs/cgroup; mount them (cgroup2) and try again"
                    .to_owned(),
            });
        };
        let mut engine = Self { cgroups, version: String::new() };
        let format = "{{.Version.Version}} {{.Host.NetworkBackend}} {{.Host.Security.Rootless}}";
        let answer = engine.call(SHORT).args(["info", "--format", format]).run()?;
        let said: Vec<&str> = answer.text().split(' ').collect();
        let [version, backend, rootless] = said[..] else {
            return Err(LabError::Unreadable { command: "podman info".to_owned(), why: answer.stdout });
        };
        if rootless != "false" {
            return Err(LabError::Unable {
                why: "nodes are whole machines and need root; run as root".to_owned(),
            });
        }
        if backend != "netavark" {
            return Err(LabError::Unable {
                why: format!(
                    "Podman's networks are made by {backend}, and only netavark can cut and heal a node; install \
                     netavark and aardvark-dns and set network_backend = \"netavark\" under [network] in \
                     /etc/containers/containers.conf"
                ),
            });
        }
        version.clone_into(&mut engine.version);
        Ok(engine)
    }

    /// For people: which engine this is.
    pub fn described(&self) -> String {
        match self.cgroups {
            Cgroups::Legacy => {
                format!("podman {} with runc (control groups of version 1 are mounted)", self.version)
            }
            Cgroups::Unified => format!("podman {}", self.version),
        }
    }

    fn call<'a>(&self, deadline: Duration) -> Call<'a> {
        let call = Call::new("podman", deadline).args(["--log-level", "error"]);
        match self.cgroups {
            Cgroups::Legacy => call.args(["--runtime", "runc"]),
            Cgroups::Unified => call,
        }
    }

    // --- images ---

    pub(crate) fn has_image(&self, id: &str) -> Result<bool, LabError> {
        Ok(self.call(SHORT).args(["image", "exists", id]).answer()?.code == 0)
    }

    /// Loads the archive that `feed` writes.
    pub(crate) fn load_image(
        &self,
        feed: impl FnOnce(&mut dyn io::Write) -> io::Result<()> + Send + 'static,
    ) -> Result<(), LabError> {
        self.call(LOAD).args(["load", "--quiet"]).feed(feed).run().map(drop)
    }

    pub(crate) fn remove_image(&self, id: &str) -> Result<(), LabError> {
        self.call(START).args(["image", "rm", "--force", id]).run().map(drop)
    }

    // --- networks ---

    pub(crate) fn create_network(
        &self,
        name: &str,
        subnet: Subnet,
        labels: &[(&str, &str)],
    ) -> Result<(), LabError> {
        let call = self.call(SHORT).args(["network", "create", "--subnet", &subnet.to_string()]);
        call.args(label_args(labels)).args([name]).run().map(drop)
    }

    /// The network's range and labels; nothing where there is no such network.
    pub(crate) fn network(&self, name: &str) -> Result<Option<NetworkState>, LabError> {
        if self.call(SHORT).args(["network", "exists", name]).answer()?.code != 0 {
            return Ok(None);
        }
        let call = self.call(SHORT).args(["network", "inspect", name]);
        let command = call.shown();
        let output = call.run()?;
        let networks: Vec<Network> = read_json(&command, &output.stdout)?;
        let unreadable = |why: String| LabError::Unreadable { command: command.clone(), why };
        let network = networks.into_iter().next().ok_or_else(|| unreadable("no network".to_owned()))?;
        let range = network.subnets.unwrap_or_default().into_iter().next();
        let range = range.ok_or_else(|| unreadable("the network has no range".to_owned()))?;
        Ok(Some(NetworkState { subnet: range.subnet.parse().map_err(unreadable)?, labels: network.labels }))
    }

    pub(crate) fn remove_network(&self, name: &str) -> Result<(), LabError> {
        self.call(SHORT).args(["network", "rm", "--force", name]).run().map(drop)
    }

    pub(crate) fn disconnect(&self, network: &str, container: &str) -> Result<(), LabError> {
        self.call(SHORT).args(["network", "disconnect", network, container]).run().map(drop)
    }

    pub(crate) fn connect(
        &self,
        network: &str,
        container: &str,
        address: Ipv4Addr,
        hardware: &str,
        alias: &str,
    ) -> Result<(), LabError> {
        let address = address.to_string();
        let args = ["network", "connect", "--ip", &address, "--mac-address", hardware, "--alias", alias];
        self.call(SHORT).args(args).args([network, container]).run().map(drop)
    }

    // --- volumes ---

    /// Makes the volume; one that is there is left as it is.
    pub(crate) fn ensure_volume(&self, name: &str, labels: &[(&str, &str)]) -> Result<(), LabError> {
        if self.call(SHORT).args(["volume", "exists", name]).answer()?.code == 0 {
            return Ok(());
        }
        self.call(SHORT).args(["volume", "create"]).args(label_args(labels)).args([name]).run().map(drop)
    }

    pub(crate) fn remove_volumes(&self, names: &[String]) -> Result<(), LabError> {
        self.call(START).args(["volume", "rm", "--force"]).args(names).run().map(drop)
    }

    // --- containers ---

    /// Boots a node from its image.
    pub(crate) fn boot(&self, draft: &NodeDraft<'_>) -> Result<(), LabError> {
        let mut call = self.call(START).args(["run", "--detach", "--name", draft.container]);
        call = call.args(["--hostname", draft.host_name, "--network", draft.network]);
        call = call.args(["--ip", &draft.address.to_string(), "--mac-address", draft.hardware]);
        call = call.args(["--network-alias", draft.host_name]);
        call =
            call.args(label_args(draft.labels)).args(["--systemd=always", "--privileged", "--pids-limit=-1"]);
        // Without the limits containers inside the node do not start: their engine cannot raise them by itself.
        call = call.args(["--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096"]);
        if self.cgroups == Cgroups::Legacy {
            call = call.args(["--cgroupns", "host", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"]);
        }
        if Path::new("/dev/net/tun").exists() {
            call = call.args(["--volume", "/dev/net/tun:/dev/net/tun"]);
        }
        for volume in draft.volumes {
            call = call.args(["--volume", volume]);
        }
        call.args([draft.image, "/bin/sh", "-c", BOOT]).run().map(drop)
    }

    /// What the containers with this label and value are called, stopped ones included.
    pub(crate) fn containers(&self, label: &str, value: &str) -> Result<Vec<String>, LabError> {
        let filter = format!("label={label}={value}");
        self.names(&["ps", "--all", "--filter", &filter, "--format", "{{.Names}}"])
    }

    pub(crate) fn volumes(&self, label: &str, value: &str) -> Result<Vec<String>, LabError> {
        let filter = format!("label={label}={value}");
        self.names(&["volume", "ls", "--filter", &filter, "--format", "{{.Name}}"])
    }

    /// What the networks that carry this label are called, whatever its value.
    pub(crate) fn networks(&self, label: &str) -> Result<Vec<String>, LabError> {
        let filter = format!("label={label}");
        self.names(&["network", "ls", "--filter", &filter, "--format", "{{.Name}}"])
    }

    fn names(&self, args: &[&str]) -> Result<Vec<String>, LabError> {
        let output = self.call(SHORT).args(args).run()?;
        let mut names: Vec<String> = output.stdout.split_whitespace().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// The containers of these names; one that is not there is an error.
    pub(crate) fn inspect(&self, names: &[String]) -> Result<Vec<Container>, LabError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let call = self.call(SHORT).args(["container", "inspect"]).args(names);
        let command = call.shown();
        read_json(&command, &call.run()?.stdout)
    }

    pub(crate) fn start(&self, container: &str) -> Result<(), LabError> {
        self.call(START).args(["start", container]).run().map(drop)
    }

    /// An orderly shutdown and a new boot.
    pub(crate) fn restart(&self, container: &str) -> Result<(), LabError> {
        let patience = SHUTDOWN.as_secs().to_string();
        self.call(START).args(["restart", "--time", &patience, container]).run().map(drop)
    }

    /// Everything in it ends at once.
    pub(crate) fn kill(&self, container: &str) -> Result<(), LabError> {
        self.call(SHORT).args(["kill", "--signal", "KILL", container]).run().map(drop)
    }

    pub(crate) fn remove_containers(&self, names: &[String]) -> Result<(), LabError> {
        self.call(START).args(["rm", "--force", "--volumes", "--time", "0"]).args(names).run().map(drop)
    }

    /// A command inside a container; the caller adds input and runs it.
    pub(crate) fn exec<'a, S: AsRef<OsStr>>(
        &self,
        container: &str,
        flags: &[&str],
        command: impl IntoIterator<Item = S>,
        deadline: Duration,
    ) -> Call<'a> {
        self.call(deadline).args(["exec"]).args(flags).args([container]).args(command)
    }

    /// Copies a file of this machine into a container.
    pub(crate) fn copy_in(&self, file: &Path, container: &str, path: &str) -> Result<Output, LabError> {
        self.call(START).args(["cp".as_ref(), file.as_os_str()]).args([format!("{container}:{path}")]).run()
    }
}

fn label_args(labels: &[(&str, &str)]) -> Vec<String> {
    labels.iter().flat_map(|(name, value)| ["--label".to_owned(), format!("{name}={value}")]).collect()
}

fn read_json<T: serde::de::DeserializeOwned>(command: &str, text: &str) -> Result<T, LabError> {
    serde_json::from_str(text)
        .map_err(|error| LabError::Unreadable { command: command.to_owned(), why: error.to_string() })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn the_generation_of_control_groups_is_seen_by_what_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Cgroups::under(root.path()), None);
        std::fs::create_dir(root.path().join("systemd")).unwrap();
        assert_eq!(Cgroups::under(root.path()), Some(Cgroups::Legacy));
        std::fs::write(root.path().join("cgroup.controllers"), "cpu").unwrap();
        assert_eq!(Cgroups::under(root.path()), Some(Cgroups::Unified));
    }

    #[test]
    fn a_container_cut_off_has_no_address_and_one_attached_has() {
        let inspected = |networks: &str| -> Container {
            let text = format!(
                r#"{{"Image":"ab","State":{{"Status":"running"}},"Config":{{"Labels":{{"mesh.lab":"x"}}}},
                    "NetworkSettings":{{"Networks":{networks}}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(inspected("null").address_on("net"), None);
        assert_eq!(inspected(r#"{"other":{"IPAddress":"10.0.0.2"}}"#).address_on("net"), None);
        let attached = inspected(r#"{"net":{"IPAddress":"10.231.0.11","Gateway":""}}"#);
        assert_eq!(attached.address_on("net"), Some("10.231.0.11"));
        assert_eq!(attached.label("mesh.lab"), Some("x"));
        assert!(attached.is_running());
    }
}
