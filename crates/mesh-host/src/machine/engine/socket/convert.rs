//! Between the engine's words and ours. Pure.

use std::collections::{BTreeMap, HashMap};

use bollard::{
    errors::Error,
    models::{
        ContainerCreateBody, EndpointSettings, HostConfig, Ipam, IpamConfig, Mount, MountType,
        Network as FoundNetwork, NetworkConnectRequest, NetworkCreateRequest, NetworkingConfig, PortBinding,
        RestartPolicy, RestartPolicyNameEnum, SystemVersion, VolumeCreateRequest,
    },
};
use mesh_wire::kinds::{ContainerSpec, Protocol};

use super::{
    super::{Container, Draft, Network, State},
    ask::Listed,
};
use crate::failure::Failure;

/// The longest line of a container that is quoted, in characters.
const LINE: usize = 300;

/// What an error of the engine's says to a person.
pub(super) fn words(error: Error) -> Failure {
    match error {
        Error::DockerResponseServerError { message, .. } | Error::DockerStreamError { error: message } => {
            Failure::new(format!("the engine says: {message}"))
        }
        Error::RequestTimeoutError => Failure::new("the engine did not answer in time"),
        Error::JsonDataError { .. } | Error::JsonSerdeError { .. } => {
            Failure::of("the engine says something this host does not understand", &error)
        }
        error => Failure::of("the engine does not answer on its socket", &error),
    }
}

pub(super) fn version(found: SystemVersion) -> String {
    let podman = found.components.unwrap_or_default().iter().any(|part| part.name.contains("Podman"));
    format!("{} {}", if podman { "podman" } else { "docker" }, found.version.unwrap_or_default())
}

/// Whether an image's name begins with a registry's: then it has a dot or a port in it, or is `localhost`.
pub(super) fn names_registry(name: &str) -> bool {
    name.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost")
}

pub(super) fn shorten(line: &str) -> String {
    let printable = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = printable.take(LINE).collect();
    if line.chars().nth(LINE).is_some() {
        short.push('…');
    }
    short
}

/// A state by the engine's word. Podman has more of them than Docker.
pub(super) fn state(word: &str) -> State {
    match word {
        "created" | "configured" | "initialized" => State::Created,
        "running" => State::Running,
        "exited" | "stopped" | "dead" => State::Exited,
        other => State::Other(other.to_owned()),
    }
}

pub(super) fn container(found: Listed) -> Option<(String, Container)> {
    let name = found.names.first()?.trim_start_matches('/').to_owned();
    let networks = found.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    let container = Container {
        state: state(&found.state),
        labels: found.labels.unwrap_or_default(),
        networks: networks.into_keys().collect(),
        created: found.created,
    };
    Some((name, container))
}

pub(super) fn network(found: FoundNetwork) -> Option<(String, Network)> {
    let name = found.name?;
    let subnet =
        found.ipam.and_then(|ipam| ipam.config).unwrap_or_default().into_iter().find_map(|c| c.subnet);
    let labels = found.labels.unwrap_or_default().into_iter().collect();
    let internal = found.internal.unwrap_or(false);
    Some((name.clone(), Network { name, subnet, internal, labels }))
}

pub(super) fn network_request(network: &Network) -> NetworkCreateRequest {
    let addresses = |subnet: &String| Ipam {
        config: Some(vec![IpamConfig { subnet: Some(subnet.clone()), ..IpamConfig::default() }]),
        ..Ipam::default()
    };
    NetworkCreateRequest {
        name: network.name.clone(),
        driver: Some("bridge".to_owned()),
        internal: network.internal.then_some(true),
        ipam: network.subnet.as_ref().map(addresses),
        labels: Some(network.labels.clone().into_iter().collect()),
        ..NetworkCreateRequest::default()
    }
}

pub(super) fn volume_request(name: &str, labels: &BTreeMap<String, String>) -> VolumeCreateRequest {
    VolumeCreateRequest {
        name: Some(name.to_owned()),
        labels: Some(labels.clone().into_iter().collect()),
        ..VolumeCreateRequest::default()
    }
}

pub(super) fn connect(draft: &Draft) -> NetworkConnectRequest {
    NetworkConnectRequest { container: draft.name.clone(), endpoint_config: Some(endpoint(draft)) }
}

/// By the declared name it is found in its networks, whatever the engine calls it.
fn endpoint(draft: &Draft) -> EndpointSettings {
    EndpointSettings { aliases: Some(vec![draft.spec.name.clone()]), ..EndpointSettings::default() }
}

pub(super) fn create_body(draft: &Draft, image_id: String) -> ContainerCreateBody {
    let spec = &draft.spec;
    let some = |words: &Vec<String>| (!words.is_empty()).then(|| words.clone());
    let (exposed, bindings) = ports(&spec.ports);
    ContainerCreateBody {
        // Some servers name their data after it.
        hostname: Some(spec.name.clone()),
        image: Some(image_id),
        cmd: some(&spec.command),
        entrypoint: some(&spec.entrypoint),
        working_dir: spec.working_directory.clone(),
        env: Some(spec.environment.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        user: spec.user.clone(),
        stop_signal: spec.stop_signal.clone(),
        labels: Some(draft.labels.clone().into_iter().collect()),
        exposed_ports: Some(exposed),
        host_config: Some(HostConfig { port_bindings: Some(bindings), ..host_config(spec) }),
        networking_config: spec.networks.first().map(|name| NetworkingConfig {
            endpoints_config: Some([(name.clone(), endpoint(draft))].into()),
        }),
        ..ContainerCreateBody::default()
    }
}

type Bindings = HashMap<String, Option<Vec<PortBinding>>>;

fn ports(ports: &[mesh_wire::kinds::Port]) -> (Vec<String>, Bindings) {
    let mut exposed = Vec::new();
    let mut bindings = Bindings::new();
    for port in ports {
        let protocol = match port.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let inside = format!("{}/{protocol}", port.container);
        let binding = PortBinding {
            host_ip: port.address.map(|address| address.to_string()),
            host_port: Some(port.host.to_string()),
        };
        bindings.entry(inside.clone()).or_default().get_or_insert_default().push(binding);
        exposed.push(inside);
    }
    exposed.dedup();
    (exposed, bindings)
}

fn host_config(spec: &ContainerSpec) -> HostConfig {
    let mount = |mount: &mesh_wire::kinds::Mount| Mount {
        source: Some(mount.source.clone()),
        target: Some(mount.target.clone()),
        typ: Some(if mount.source.starts_with('/') { MountType::BIND } else { MountType::VOLUME }),
        read_only: Some(mount.read_only),
        ..Mount::default()
    };
    let some = |names: &Vec<String>| (!names.is_empty()).then(|| names.clone());
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let tmpfs: HashMap<String, String> = (spec.tmpfs.iter())
        .map(|tmpfs| {
            let size = tmpfs.size_bytes.map_or_else(String::new, |bytes| format!("size={bytes}"));
            (tmpfs.target.clone(), size)
        })
        .collect();
    HostConfig {
        mounts: Some(spec.mounts.iter().map(mount).collect()),
        tmpfs: (!tmpfs.is_empty()).then_some(tmpfs),
        memory: spec.memory_bytes.map(bytes),
        // In billionths of a core.
        nano_cpus: spec.cpu_millicores.map(|millicores| i64::from(millicores) * 1_000_000),
        pids_limit: spec.pids.map(i64::from),
        shm_size: spec.shm_bytes.map(bytes),
        readonly_rootfs: spec.read_only_root.then_some(true),
        cap_add: some(&spec.cap_add),
        cap_drop: some(&spec.cap_drop),
        extra_hosts: (!spec.extra_hosts.is_empty())
            .then(|| spec.extra_hosts.iter().map(|(name, address)| format!("{name}:{address}")).collect()),
        network_mode: spec.networks.first().cloned(),
        // The host starts it again, and knows why it ended.
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            ..RestartPolicy::default()
        }),
        ..HostConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_seen_in_a_name() {
        for (name, expected) in [
            ("mesh/store", false),
            ("store", false),
            ("registry.example/app", true),
            ("localhost/app", true),
            ("registry:5000/app", true),
        ] {
            assert_eq!(names_registry(name), expected, "{name}");
        }
    }

    #[test]
    fn what_is_quoted_is_short_and_printable() {
        assert_eq!(shorten("a\u{1b}[31mb"), "a [31mb");
        assert_eq!(shorten(&"x".repeat(1000)).chars().count(), LINE + 1);
    }
}
