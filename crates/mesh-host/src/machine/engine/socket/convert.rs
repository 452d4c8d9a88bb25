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
use mesh_wire::kinds::Protocol;

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
    };
    Some((name, container))
}

pub(super) fn network(found: FoundNetwork) -> Option<(String, Network)> {
    let name = found.name?;
    let subnet =
        found.ipam.and_then(|ipam| ipam.config).unwrap_or_default().into_iter().find_map(|c| c.subnet);
    let labels = found.labels.unwrap_or_default().into_iter().collect();
    Some((name.clone(), Network { name, subnet, labels }))
}

pub(super) fn network_request(network: &Network) -> NetworkCreateRequest {
    let addresses = |subnet: &String| Ipam {
        config: Some(vec![IpamConfig { subnet: Some(subnet.clone()), ..IpamConfig::default() }]),
        ..Ipam::default()
    };
    NetworkCreateRequest {
        name: network.name.clone(),
        driver: Some("bridge".to_owned()),
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

pub(super) fn connect(container: &str) -> NetworkConnectRequest {
    NetworkConnectRequest {
        container: container.to_owned(),
        endpoint_config: Some(EndpointSettings::default()),
    }
}

pub(super) fn create_body(draft: &Draft, image_id: String) -> ContainerCreateBody {
    let mut exposed = Vec::new();
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in &draft.ports {
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
    let mount = |mount: &mesh_wire::kinds::Mount| Mount {
        source: Some(mount.source.clone()),
        target: Some(mount.target.clone()),
        typ: Some(if mount.source.starts_with('/') { MountType::BIND } else { MountType::VOLUME }),
        read_only: Some(mount.read_only),
        ..Mount::default()
    };
    let first = draft.networks.first();
    ContainerCreateBody {
        hostname: Some(draft.name.clone()),
        image: Some(image_id),
        cmd: (!draft.command.is_empty()).then(|| draft.command.clone()),
        env: Some(draft.environment.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        user: draft.user.clone(),
        labels: Some(draft.labels.clone().into_iter().collect()),
        exposed_ports: Some(exposed),
        host_config: Some(HostConfig {
            port_bindings: Some(bindings),
            mounts: Some(draft.mounts.iter().map(mount).collect()),
            memory: draft.memory_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            network_mode: first.cloned(),
            // The host starts it again, and knows why it ended.
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                ..RestartPolicy::default()
            }),
            ..HostConfig::default()
        }),
        networking_config: first.map(|name| NetworkingConfig {
            endpoints_config: Some([(name.clone(), EndpointSettings::default())].into()),
        }),
        ..ContainerCreateBody::default()
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
