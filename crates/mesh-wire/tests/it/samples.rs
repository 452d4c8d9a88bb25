//! One value of every form, with every member set, and one with none of the optional ones.

use std::collections::BTreeMap;

use mesh_ids::{Epoch, Generation, Position, Sequence};
use mesh_seal::{SigningKey, TokenSecret, fingerprint_of};
use mesh_wire::{
    Alive, Boot, Declaration, Disk, Drift, Enrol, EnrolAnswer, EnrolOutcome, EnrolRefusal, EnrolReply,
    EnrolRequest, FORMAT, Facts, FailedVersion, JoinToken, Report, Resource, Signed, Spec, Upgrade,
    kinds::{
        Check, ContainerSpec, Content, DatabaseSpec, DirectorySpec, FileSpec, Health, HostSource, HostSpec,
        HttpProbe, ImageSpec, Lifecycle, Mode, Mount, NetworkSpec, PackageSpec, Port, Protocol, Ready,
        Replace, SysctlSpec, TimerSpec, Tmpfs, UnitSpec, UserSpec, VhostSpec, VolumeSpec,
    },
};

pub(crate) fn declare_key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

pub(crate) fn position() -> Position {
    Position { epoch: Epoch::new(1), generation: Generation::new(2), sequence: Sequence::new(3) }
}

fn resource(id: &str, after: &[&str], spec: impl Into<Spec>) -> Resource {
    let after = after.iter().map(|id| id.parse().unwrap()).collect();
    Resource { id: id.parse().unwrap(), after, observe_only: false, spec: spec.into() }
}

/// One resource of every kind.
pub(crate) fn resources() -> Vec<Resource> {
    vec![
        resource(
            "directory:/etc/hello",
            &[],
            DirectorySpec {
                path: "/etc/hello".into(),
                mode: Mode::new(0o750),
                owner: "root".into(),
                group: "adm".into(),
            },
        ),
        resource(
            "file:/etc/hello/motd",
            &["directory:/etc/hello"],
            FileSpec {
                path: "/etc/hello/motd".into(),
                content: Content::Text("grüezi\n".into()),
                mode: Mode::new(0o644),
                owner: "root".into(),
                group: "root".into(),
                check: None,
            },
        ),
        resource(
            "package:nginx",
            &[],
            PackageSpec { names: vec!["nginx".into()], repository: Some("/srv/apt".into()) },
        ),
        resource(
            "unit:hello.service",
            &[],
            UnitSpec {
                name: "hello.service".into(),
                content: Some("[Service]\nExecStart=/bin/sleep infinity\n".into()),
                enabled: Some(true),
                active: Some(true),
                restart_on: vec!["file:/etc/hello/motd".parse().unwrap()],
                ..UnitSpec::default()
            },
        ),
        resource("timer:backup", &[], timer()),
        resource("user:hello", &[], user()),
        resource("sysctl:forwarding", &[], sysctl()),
        resource(
            "image:mesh/hello",
            &[],
            ImageSpec { image: format!("mesh/hello@sha256:{}", "ab".repeat(32)).parse().unwrap() },
        ),
        resource("volume:data", &[], VolumeSpec { name: "data".into(), released: false }),
        resource(
            "network:inner",
            &[],
            NetworkSpec { name: "inner".into(), subnet: Some("10.90.0.0/24".into()), internal: false },
        ),
        resource("container:web", &["volume:data", "network:inner"], container()),
        resource(
            "database:inventory",
            &[],
            DatabaseSpec {
                container: "store".into(),
                name: "inventory".into(),
                owner: "inventory".into(),
                password_file: "/var/lib/mesh-host/secrets/store-inventory.password".into(),
            },
        ),
        resource(
            "vhost:link",
            &[],
            VhostSpec {
                container: "broker".into(),
                name: "link".into(),
                account: "control".into(),
                password_file: "/var/lib/mesh-host/secrets/broker-control.password".into(),
            },
        ),
        resource(
            "host:self",
            &[],
            HostSpec {
                version: "0.2.0".into(),
                digest: format!("sha256:{}", "cd".repeat(32)).parse().unwrap(),
                source: HostSource::Path("/srv/mesh-host-0.2.0".into()),
                retry: 1,
            },
        ),
    ]
}

/// As short as it can be written.
fn bare_container() -> ContainerSpec {
    let image = format!("mesh/hello@sha256:{}", "ab".repeat(32));
    let mut spec: ContainerSpec =
        serde_json::from_value(serde_json::json!({ "name": "web", "image": image })).unwrap();
    spec.stop_grace_s = 30;
    spec.memory_bytes = Some(64 << 20);
    spec
}

fn timer() -> TimerSpec {
    TimerSpec {
        name: "backup".into(),
        calendar: Some("Mon..Fri *-*-* 02:00:00".into()),
        interval_s: None,
        persistent: true,
        randomized_delay_s: Some(300),
        command: vec!["/usr/bin/backup".into(), "--to".into(), "/srv/a b".into()],
        user: Some("backup".into()),
        environment: BTreeMap::from([("LANG".into(), "C.UTF-8".into())]),
        working_directory: Some("/srv".into()),
    }
}

fn user() -> UserSpec {
    UserSpec {
        name: "hello".into(),
        uid: Some(300),
        gid: Some(301),
        home: Some("/var/lib/hello".into()),
        shell: Some("/bin/sh".into()),
        groups: vec!["adm".into()],
    }
}

fn sysctl() -> SysctlSpec {
    SysctlSpec {
        name: "forwarding".into(),
        settings: BTreeMap::from([
            ("net.ipv4.conf.eth0/7.forwarding".into(), "1".into()),
            ("net.ipv4.ip_forward".into(), "1".into()),
        ]),
    }
}

/// What a file may be given since. Its member is newer: a file of its own.
pub(crate) fn checked_file() -> Resource {
    let file = FileSpec {
        path: "/etc/systemd/system/hello.service".into(),
        content: Content::Text("[Service]\nExecStart=/bin/true\n".into()),
        mode: Mode::new(0o644),
        owner: "root".into(),
        group: "root".into(),
        check: Some(Check::IniSystemdUnit),
    };
    resource("file:/etc/systemd/system/hello.service", &[], file)
}

/// What a unit may be given since. Its members are newer: a file of their own.
pub(crate) fn unit_with_drop_ins() -> Resource {
    let drop_ins = BTreeMap::from([("10-limits.conf".into(), "[Service]\nMemoryMax=64M\n".into())]);
    let unit = UnitSpec { name: "ssh.service".into(), drop_ins, active: Some(true), ..UnitSpec::default() };
    resource("unit:ssh.service", &[], unit)
}

fn container() -> ContainerSpec {
    ContainerSpec {
        lifecycle: Lifecycle::Once,
        command: vec!["serve".into(), "--all".into()],
        environment: BTreeMap::from([("LANG".into(), "C.UTF-8".into())]),
        mounts: vec![Mount { source: "data".into(), target: "/data".into(), read_only: true, shared: false }],
        ports: vec![Port {
            host: 8080,
            container: 80,
            protocol: Protocol::Udp,
            address: Some("127.0.0.1".parse().unwrap()),
        }],
        networks: vec!["inner".into()],
        user: Some("65534:65534".into()),
        ready: Some(Ready::by_command(vec!["/ready".into()], 20)),
        restart_on: vec!["file:/etc/hello/motd".parse().unwrap()],
        ..bare_container()
    }
}

/// What a container may be given beyond what [`container`] has. Its members are newer: a file of their own.
pub(crate) fn guarded_container() -> Resource {
    let mut spec = ContainerSpec { name: "guarded".into(), lifecycle: Lifecycle::Service, ..container() };
    spec.entrypoint = vec!["/bin/serve".into()];
    spec.working_directory = Some("/srv".into());
    spec.read_only_root = true;
    spec.tmpfs = vec![
        Tmpfs { target: "/tmp".into(), size_bytes: Some(1 << 20) },
        Tmpfs { target: "/run".into(), size_bytes: None },
    ];
    spec.cap_add = vec!["NET_BIND_SERVICE".into()];
    spec.cap_drop = vec!["ALL".into()];
    spec.extra_hosts = BTreeMap::from([("printer".into(), "192.0.2.7".parse().unwrap())]);
    spec.labels = BTreeMap::from([("org.example.team".into(), "web".into())]);
    spec.stop_signal = Some("SIGINT".into());
    spec.cpu_millicores = Some(1500);
    spec.pids = Some(100);
    spec.shm_bytes = Some(32 << 20);
    spec.ready = Some(Ready {
        command: Vec::new(),
        http: Some(HttpProbe { port: 8080, path: "/ready?all".into() }),
        tcp: None,
        within_s: 20,
        timeout_s: Some(2),
    });
    spec.health = Some(Health { interval_s: 10, failures: 5 });
    spec.private_log = true;
    spec.ports.clear();
    spec.mounts.push(Mount {
        source: "/srv/queue".into(),
        target: "/queue".into(),
        read_only: false,
        shared: true,
    });
    spec.replace = Replace::StartFirst;
    resource("container:guarded", &[], spec)
}

/// A volume that a person gave up.
pub(crate) fn released_volume() -> Resource {
    resource("volume:scratch", &[], VolumeSpec { name: "scratch".into(), released: true })
}

/// A network of which nothing leaves the machine.
pub(crate) fn internal_network() -> Resource {
    let subnet = Some("10.91.0.0/24".into());
    resource("network:closed", &[], NetworkSpec { name: "closed".into(), subnet, internal: true })
}

/// One that is only looked at.
pub(crate) fn observed() -> Resource {
    let motd = resources().into_iter().nth(1).unwrap();
    Resource { observe_only: true, ..motd }
}

pub(crate) fn declaration() -> Declaration {
    Declaration {
        format: FORMAT,
        mesh: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        node: "node-1".parse().unwrap(),
        key: fingerprint_of(b"node-1"),
        epoch: position().epoch,
        generation: position().generation,
        sequence: position().sequence,
        issued: 1_800_000_000,
        not_after: 1_802_592_000,
        resources: resources().iter().map(|resource| resource.to_raw().unwrap()).collect(),
    }
}

pub(crate) fn signed() -> Signed {
    Signed::new(declaration().to_bytes().unwrap(), &declare_key())
}

pub(crate) fn alive() -> Alive {
    Alive { node: "node-1".parse().unwrap(), accepted: Some(position()) }
}

pub(crate) fn facts() -> Facts {
    Facts {
        os: "Debian GNU/Linux 12 (bookworm)".into(),
        kernel: "6.1.0".into(),
        architecture: "x86_64".into(),
        cpus: 2,
        memory_bytes: 1 << 30,
        disks: vec![Disk { mount: "/".into(), size_bytes: 1 << 40, free_bytes: 1 << 39 }],
        engine: Some("podman 4.3.1".into()),
        addresses: vec!["192.0.2.1".into(), "2001:db8::1".into()],
    }
}

pub(crate) fn report() -> Report {
    Report {
        node: "node-1".parse().unwrap(),
        applied: vec!["file:/etc/hello/motd".into()],
        failed: BTreeMap::from([("unit:hello.service".into(), "start hello.service: exited with 1".into())]),
        refused: "the declaration is for node-2".into(),
        carried: vec![5432, 5671],
        position: Some(position()),
        host_version: Some("0.1.0".into()),
        boot: Some(Boot { id: "5f6e".into(), count: 7 }),
        facts: Some(facts()),
        drift: vec![Drift {
            number: 4,
            resource: "file:/etc/hello/motd".parse().unwrap(),
            noticed_at: 1_800_000_100,
            found: vec!["write /etc/hello/motd".into()],
            repaired_at: Some(1_800_000_101),
        }],
        upgrade: Some(Upgrade {
            on_trial: true,
            failed: vec![FailedVersion {
                version: "0.3.0".into(),
                digest: format!("sha256:{}", "ef".repeat(32)).parse().unwrap(),
                reason: "it cannot read the ledger".into(),
            }],
        }),
    }
}

pub(crate) fn token() -> JoinToken {
    JoinToken {
        id: "0a1b2c3d".into(),
        secret: TokenSecret::from_bytes([5; 32]),
        mesh: declaration().mesh,
        node: "node-2".parse().unwrap(),
        brokers: vec!["192.0.2.1:5671".into()],
        server_name: "broker.mesh.internal".into(),
        ca_pin: fingerprint_of(b"ca"),
        declare_key: declare_key().verifying_key().to_string(),
        expires: 1_800_003_600,
    }
}

pub(crate) fn enrol_request() -> EnrolRequest {
    EnrolRequest {
        token: token().id,
        node: token().node,
        identity_key: declare_key().verifying_key().to_string(),
        sealing_key: "c2VhbA==".into(),
        tunnel_key: "dHVubmVs".into(),
        nonce: "bm9uY2U=".into(),
        facts: facts(),
        host_version: "0.1.0".into(),
    }
}

pub(crate) fn enrol() -> Enrol {
    Enrol { request: serde_json::to_vec(&enrol_request()).unwrap(), mac: vec![1; 32], signature: vec![2; 64] }
}

pub(crate) fn enrol_reply() -> EnrolReply {
    EnrolReply {
        nonce: "bm9uY2U=".into(),
        outcome: EnrolOutcome::Joined {
            account: "n-node-2".into(),
            password: "c2VhbGVk".into(),
            declare_keys: vec![declare_key().verifying_key().to_string()],
            labels: BTreeMap::from([("zone".into(), "home".into())]),
        },
    }
}

pub(crate) fn enrol_refusal() -> EnrolReply {
    EnrolReply {
        nonce: "bm9uY2U=".into(),
        outcome: EnrolOutcome::Refused {
            code: EnrolRefusal::Expired,
            reason: "the token expired an hour ago".into(),
        },
    }
}

pub(crate) fn enrol_answer() -> EnrolAnswer {
    EnrolAnswer { reply: serde_json::to_vec(&enrol_reply()).unwrap(), signature: vec![3; 64] }
}
