//! The host as it lives on a machine, without a mesh: its Debian package, its unit with everything taken from it that it
//! can do without, packages installed apart, the doctor, and leaving.

use std::path::PathBuf;
use std::time::Duration;

use mesh_lab::{Node, wait_for};

use crate::{dist, nodes_alone};

const UNIT: &str = "mesh-host.service";
/// Longer than between two rounds that nothing asked for.
const SOON: Duration = Duration::from_secs(90);

/// A repository with one package, whose script says where it runs, counts, and waits until it may end.
const REPOSITORY: &str = r#"
    set -e
    mkdir -p /srv/repository /srv/build/DEBIAN
    cd /srv/build
    printf 'Package: probe\nVersion: 1\nArchitecture: all\nMaintainer: a test <a@test.invalid>\nDescription: a probe\n' > DEBIAN/control
    printf '%s\n' '#!/bin/sh' 'set -e' '[ "$1" = configure ]' 'echo ran >> /srv/runs' 'cp /proc/self/cgroup /srv/cgroup' \
        'touch /srv/begun' 'for each in $(seq 600); do [ -e /srv/go ] && exit 0; sleep 0.1; done' 'exit 1' > DEBIAN/postinst
    chmod 755 DEBIAN/postinst
    dpkg-deb --root-owner-group --build . /srv/repository/probe.deb
    cd /srv/repository
    { dpkg-deb --field probe.deb; echo 'Filename: ./probe.deb'; echo "Size: $(stat --format %s probe.deb)"
      echo "SHA256: $(sha256sum probe.deb | cut -d ' ' -f 1)"; } > Packages
"#;

/// An image of the node's own files: there is no registry.
const IMAGE: &str = r#"
    set -e
    files="/usr/bin/sleep"
    tar --create --dereference --hard-dereference $(ldd $files | grep -o '/[^ :]*' | sort --unique) $files |
        podman import --quiet - localhost/probe:1 > /dev/null
    podman image inspect --format '{{.Id}}' localhost/probe:1
"#;

/// Everything that the host may put on a machine; but not what the tools for users keep of the files before (`passwd-`).
const PICTURE: &str = r"
    find /etc /usr/local /usr/lib/systemd/system /var/lib/mesh-host /run/mesh-host \
        ! -path '/etc/*-' ! -name .pwd.lock -printf '%p %y %m %u %g %l\n' 2>/dev/null | sort
    find /etc /usr/local -type f ! -path '/etc/*-' ! -name .pwd.lock -exec sha256sum {} + | sort
    cat /proc/sys/net/ipv4/tcp_fin_timeout
    systemctl list-unit-files --no-legend --no-pager | sort
    systemctl list-units --all --plain --no-legend --no-pager 'mesh-*' 'probe*' | sort
    podman ps --all --format '{{.Names}}'; podman network ls --format '{{.Name}}' | sort
";

fn package() -> PathBuf {
    let found = std::fs::read_dir(dist()).unwrap().flatten().map(|entry| entry.path());
    let mut found = found.filter(|path| path.extension().is_some_and(|extension| extension == "deb"));
    found.next().unwrap_or_else(|| panic!("`cargo xtask package` makes dist/mesh-host_*.deb"))
}

fn shell(node: &Node, script: &str) -> String {
    node.run(["sh", "-c", script]).unwrap()
}

fn exists(node: &Node, path: &str) -> bool {
    node.exec(["test", "-e", path]).unwrap().code == 0
}

/// What the doctor says fails; none where all is well enough.
fn complaints(node: &Node) -> Vec<String> {
    let said = node.exec(["mesh-host", "doctor", "--json"]).unwrap();
    let report: serde_json::Value = serde_json::from_str(said.text()).unwrap();
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.len() > 8, "{report}");
    let failing: Vec<String> =
        checks.iter().filter(|check| check["level"] == "fail").map(ToString::to_string).collect();
    assert_eq!(said.code, i32::from(!failing.is_empty()), "{report}");
    failing
}

fn main_process(node: &Node) -> String {
    node.run(["systemctl", "show", "--property", "MainPID", "--value", UNIT]).unwrap()
}

fn wait(what: &str, node: &Node, holds: impl Fn(&Node) -> bool) {
    let waited = wait_for(what, SOON, || if holds(node) { Ok(()) } else { Err("not yet".to_owned()) });
    if let Err(error) = waited {
        panic!("{error}\n{}", node.journal_lines(Some(UNIT), 60).unwrap());
    }
}

fn is_installed(node: &Node, package: &str) -> bool {
    let said = node.exec(["dpkg-query", "--show", "--showformat", "${db:Status-Status}", package]).unwrap();
    said.code == 0 && said.text() == "installed"
}

#[test]
fn the_host_is_installed_as_a_package_keeps_a_machine_from_its_cage_and_gives_it_back() {
    let lab = nodes_alone("living", 1);
    let node = lab.node("node-1").unwrap();
    shell(node, REPOSITORY);
    let image = shell(node, IMAGE);
    let before = shell(node, PICTURE);

    // The package brings the program and the unit, and starts nothing.
    node.put(&package(), "/srv/mesh-host.deb").unwrap();
    node.run(["dpkg", "--install", "/srv/mesh-host.deb"]).unwrap();
    assert!(node.run(["mesh-host", "version"]).unwrap().starts_with("mesh-host "));
    let verified = node.exec(["systemd-analyze", "verify", "--man=no", UNIT]).unwrap();
    assert_eq!((verified.code, verified.stderr.as_str()), (0, ""));
    assert_eq!(node.exec(["systemctl", "is-enabled", UNIT]).unwrap().text(), "disabled");
    assert_eq!(complaints(node), Vec::<String>::new(), "on a machine that has joined no mesh");
    assert!(!exists(node, "/var/lib/mesh-host"), "the doctor only looks");

    // A person applies a file; the host keeps it, from inside its unit.
    let resources = format!(
        r#"{{"resources": [
            {{"id": "directory:probe", "kind": "directory", "spec": {{"path": "/etc/probe", "mode": "0750"}}}},
            {{"id": "file:probe", "kind": "file", "after": ["directory:probe"],
              "spec": {{"path": "/etc/probe/a", "mode": "4755", "content": {{"text": "kept\n"}}}}}},
            {{"id": "package:probe", "kind": "package", "spec": {{"names": ["probe"], "repository": "/srv/repository"}}}},
            {{"id": "unit:probe", "kind": "unit", "spec": {{"name": "probe.service", "active": true, "enabled": true,
              "content": "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"}}}},
            {{"id": "user:probe", "kind": "user", "spec": {{"name": "probe"}}}},
            {{"id": "sysctl:probe", "kind": "sysctl", "spec": {{"name": "probe", "settings": {{"net.ipv4.tcp_fin_timeout": "61"}}}}}},
            {{"id": "network:probe", "kind": "network", "spec": {{"name": "probe"}}}},
            {{"id": "container:probe", "kind": "container", "after": ["network:probe"],
              "spec": {{"name": "probe", "image": "localhost/probe@sha256:{image}", "networks": ["probe"],
                       "command": ["/usr/bin/sleep", "infinity"], "stop_grace_s": 1}}}}
        ]}}"#
    );
    let put = "cat > /srv/resources.json";
    node.run_with_input(["sh", "-c", put], &resources, Duration::from_secs(10)).unwrap();
    node.run(["touch", "/srv/go"]).unwrap();
    let long = Duration::from_mins(3);
    node.run_with_input(["mesh-host", "apply", "--local", "/srv/resources.json"], "", long).unwrap();
    assert!(node.read("/srv/cgroup").unwrap().contains("mesh-host-packages.service"), "it ran apart");
    assert_eq!(node.read("/srv/runs").unwrap(), "ran\n");

    shell(
        node,
        "rm /srv/go /srv/begun; dpkg --purge probe; rm -r /etc/probe; podman rm --force --time 0 probe",
    );
    node.run(["systemctl", "stop", "probe.service"]).unwrap();
    shell(node, "userdel probe; echo 60 > /proc/sys/net/ipv4/tcp_fin_timeout");
    // It is ready once its first round is done, which waits for the package's script.
    node.run(["systemctl", "start", "--no-block", UNIT]).unwrap();

    // Killed while a package's script runs: the script ends in peace, and is not begun a second time.
    wait("the package's script", node, |node| exists(node, "/srv/begun"));
    let first = main_process(node);
    node.run(["systemctl", "kill", "--signal", "KILL", "--kill-whom", "main", UNIT]).unwrap();
    wait("another host", node, |node| {
        let now = main_process(node);
        now != "0" && now != first
    });
    node.run(["touch", "/srv/go"]).unwrap();
    wait("everything to be kept", node, |node| {
        is_installed(node, "probe")
            && node.exec(["systemctl", "is-active", "probe.service"]).unwrap().code == 0
            && node.exec(["stat", "--format", "%a", "/etc/probe/a"]).unwrap().text() == "4755"
            && node.exec(["id", "probe"]).unwrap().code == 0
            && node.read("/proc/sys/net/ipv4/tcp_fin_timeout").unwrap() == "61\n"
            && node.exec(["podman", "ps", "--format", "{{.Names}}"]).unwrap().text() == "probe"
            && node.exec(["mesh-host", "status"]).unwrap().code == 0
    });
    assert_eq!(node.read("/srv/runs").unwrap(), "ran\nran\n", "once by the apply, once by the host");
    assert_eq!(complaints(node), Vec::<String>::new(), "on a machine that is kept");
    // What was taken from the unit is taken from its process.
    let status = node.read(&format!("/proc/{}/status", main_process(node))).unwrap();
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");

    // Another version of the package restarts the host; without the package nothing that was kept goes, nor what is known
    // of it.
    let second = main_process(node);
    node.run(["dpkg", "--install", "/srv/mesh-host.deb"]).unwrap();
    wait("the host of the other package", node, |node| {
        let now = main_process(node);
        now != "0" && now != second
    });
    // As an upgrade of its own leaves it.
    shell(
        node,
        "mkdir -p /usr/local/lib/mesh-host/x && cp /usr/local/bin/mesh-host /usr/local/lib/mesh-host/x/",
    );
    node.run(["dpkg", "--purge", "mesh-host"]).unwrap();
    assert!(!exists(node, "/usr/local/lib/mesh-host"), "programs that it installed stay");
    assert_ne!(node.exec(["systemctl", "is-active", UNIT]).unwrap().code, 0);
    assert!(exists(node, "/var/lib/mesh-host/ledger/journal") && exists(node, "/etc/probe/a"));
    assert_eq!(node.run(["podman", "ps", "--format", "{{.Names}}"]).unwrap(), "probe");
    node.run(["dpkg", "--install", "/srv/mesh-host.deb"]).unwrap();

    // Leaving takes everything off again; removing the package, the rest.
    let left = node.run_with_input(["mesh-host", "leave", "--carried"], "", long).unwrap();
    assert!(!left.contains("stays: /"), "{left}");
    assert!(!is_installed(node, "probe") && !exists(node, "/var/lib/mesh-host"));
    node.run(["dpkg", "--purge", "mesh-host"]).unwrap();
    shell(node, "dpkg --purge probe");
    let after = shell(node, PICTURE);
    assert_eq!(
        after.lines().collect::<Vec<_>>(),
        before.lines().collect::<Vec<_>>(),
        "the machine is as it was"
    );
}
