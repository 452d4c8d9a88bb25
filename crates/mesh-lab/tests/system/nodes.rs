//! Nodes alone: that they are machines, and that what the lab does to them is what it says.

use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use mesh_lab::{Booted, Heal, Lab, LabError, LabName, Node, Options, Owner, Progress, wait_for};

use crate::{dist, nodes_alone};

fn boot_id(node: &Node) -> String {
    node.read("/proc/sys/kernel/random/boot_id").unwrap()
}

fn hardware_address(node: &Node) -> String {
    node.read("/sys/class/net/eth0/address").unwrap()
}

fn reaches(from: &Node, to: &str) -> bool {
    from.exec(["ping", "-c", "1", "-W", "1", to]).unwrap().code == 0
}

#[test]
fn a_node_boots_its_own_systemd_and_runs_commands_with_their_exit_codes_and_input() {
    let lab = nodes_alone("boot", 1);
    let node = lab.node("node-1").unwrap();
    assert_eq!(node.wait_booted().unwrap(), Booted::Running);
    assert_eq!(node.run(["cat", "/proc/1/comm"]).unwrap(), "systemd");
    assert_eq!(node.run(["hostname"]).unwrap(), "node-1");
    assert_eq!(node.exec(["sh", "-c", "exit 42"]).unwrap().code, 42);
    let echoed = node.run_with_input(["cat"], "through standard input", Duration::from_secs(10)).unwrap();
    assert_eq!(echoed, "through standard input");
    let deaf = node.run_with_input(["sh", "-c", "echo why >&2; exit 4"], "not read", Duration::from_secs(10));
    assert!(
        matches!(deaf, Err(LabError::Failed { code: 4, last, .. }) if last == "why"),
        "its reason is not lost"
    );
    assert!(matches!(node.run(["false"]), Err(LabError::Failed { code: 1, .. })));
    assert!(matches!(lab.node("node-7"), Err(LabError::NoNode { .. })));
}

#[test]
fn a_cut_node_reaches_nobody_and_healed_it_has_its_address_again_or_the_one_asked_for() {
    let lab = nodes_alone("cut", 2);
    let (one, two) = (lab.node("node-1").unwrap(), lab.node("node-2").unwrap());
    let address = two.address().to_string();
    assert!(reaches(one, &address) && reaches(one, "node-2"), "by address and by name");

    let hardware = hardware_address(two);
    two.cut().unwrap();
    two.cut().unwrap();
    assert!(two.is_cut().unwrap());
    assert!(!reaches(one, &address), "the node is cut off");
    assert_eq!(two.state().unwrap().present_address, None);

    two.heal(Heal::SameAddress).unwrap();
    two.heal(Heal::SameAddress).unwrap();
    assert_eq!(two.state().unwrap().present_address, Some(two.address()));
    wait_for("node-2 to be reached at its old address", Duration::from_secs(10), || {
        if reaches(one, &address) { Ok(()) } else { Err("no answer".to_owned()) }
    })
    .unwrap();

    let moved: Ipv4Addr = lab.subnet().address(77);
    two.heal(Heal::At(moved)).unwrap();
    assert_eq!(two.state().unwrap().present_address, Some(moved));
    assert!(two.run(["ip", "-br", "address"]).unwrap().contains(&moved.to_string()));
    assert!(!reaches(one, &address), "nobody is at the old address");
    assert_eq!(hardware_address(two), hardware, "it is the same machine wherever it is plugged in");
}

#[test]
fn a_reboot_is_a_new_boot_of_the_same_machine_and_a_cut_outlasts_it() {
    let lab = nodes_alone("reboot", 1);
    let node = lab.node("node-1").unwrap();
    let machine_id = node.read("/etc/machine-id").unwrap();
    let first = boot_id(node);
    node.run(["sh", "-c", "echo kept > /var/lib/containers/kept; echo kept > /etc/kept; touch /run/gone"])
        .unwrap();

    node.cut().unwrap();
    assert_eq!(node.reboot().unwrap(), Booted::Running);
    let second = boot_id(node);
    assert_ne!(first, second, "a reboot is a new boot");
    assert_eq!(node.read("/etc/machine-id").unwrap(), machine_id);
    assert_eq!(
        node.read("/etc/kept").unwrap() + &node.read("/var/lib/containers/kept").unwrap(),
        "kept\nkept\n"
    );
    assert_ne!(node.exec(["test", "-e", "/run/gone"]).unwrap().code, 0, "/run is new");
    assert!(node.is_cut().unwrap(), "a cut outlasts a reboot");
    node.heal(Heal::SameAddress).unwrap();
    assert_eq!(node.state().unwrap().present_address, Some(node.address()));

    node.kill().unwrap();
    assert!(!node.is_running().unwrap());
    assert!(matches!(lab.running_node("node-1"), Err(LabError::WrongState { .. })));
    node.start().unwrap();
    assert_ne!(boot_id(node), second);
    assert!(
        node.run(["journalctl", "--list-boots", "--no-pager"]).unwrap().lines().count() >= 3,
        "every boot is kept"
    );
}

/// Its files, imported with a command that serves one sentence on port 80.
const IMAGE_OF_ITSELF: &str = r#"
    set -e
    files="/usr/bin/systemd-socket-activate /usr/bin/echo"
    tar --create --dereference --hard-dereference $(ldd $files | grep -o '/[^ :]*' | sort --unique) |
        podman import --quiet --change 'CMD ["systemd-socket-activate","--listen=80","--accept","--inetd","echo","from inside"]' \
            - localhost/self:1
"#;

#[test]
fn containers_run_inside_a_node_and_their_ports_are_reached_from_another() {
    let lab = nodes_alone("inside", 2);
    let (one, two) = (lab.node("node-1").unwrap(), lab.node("node-2").unwrap());
    // There is no registry, so the image is made of the node's own files: a server, what it says, what both link to.
    two.run(["sh", "-c", IMAGE_OF_ITSELF]).unwrap();
    two.run(["podman", "run", "--detach", "--name", "inner", "--publish", "8080:80", "localhost/self:1"])
        .unwrap();
    let said = wait_for("an answer from the container in node-2", Duration::from_secs(20), || {
        let asked =
            one.exec(["bash", "-c", "cat < /dev/tcp/node-2/8080"]).map_err(|error| error.to_string())?;
        if asked.code == 0 { Ok(asked.text().to_owned()) } else { Err(asked.stderr) }
    });
    assert_eq!(said.unwrap(), "from inside");
    assert_eq!(two.run(["podman", "ps", "--format", "{{.Names}}"]).unwrap(), "inner");
    assert_eq!(one.exec(["podman", "ps", "--quiet"]).unwrap().text(), "", "engines are apart");
}

#[test]
fn the_lab_of_a_test_that_is_gone_is_taken_down_by_the_next_one_and_labs_side_by_side_do_not_meet() {
    let name = LabName::unique("orphan");
    let gone = Owner::Process { id: u32::MAX, started: 1 };
    let options = Options { owner: gone, taken_down: false, ..Options::for_test(name.clone(), &dist(), 1) };
    drop(Lab::up(&options, &Progress::silent()).unwrap());
    assert!(Lab::open(&name).is_ok(), "dropping the handle left it");

    let next = nodes_alone("next", 1);
    assert!(matches!(Lab::open(&name), Err(LabError::NotUp { .. })));
    let beside = nodes_alone("beside", 1);
    assert!(!next.subnet().overlaps(beside.subnet()));
    assert_eq!(Lab::open(next.name()).unwrap().nodes().len(), 1);
}

#[test]
fn an_up_that_was_killed_is_finished_by_the_next_and_leaves_nothing_once_it_is_down() {
    let name = LabName::unique("killed");
    let up = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mesh-lab"));
        command.args(["--lab", name.as_str(), "up", "--nodes-only", "--nodes", "2", "--dist"]).arg(dist());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let down = || Lab::down(&name, &Progress::silent()).unwrap();
    // A line is printed when its step begins, so this kills each time in the middle of another step.
    for steps in ["network:", "node-1: booting", "node-2: booting", "node-1: booted"] {
        let mut killed = up();
        let lines = BufReader::new(killed.stderr.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains(steps)), "it never came to {steps:?}");
        killed.kill().unwrap();
        killed.wait().unwrap();
        if steps == "node-1: booting" {
            down();
            assert_eq!(down().names, Vec::<String>::new(), "nothing came after");
        }
    }
    let status = up().wait_with_output().unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    assert!(
        Lab::open(&name)
            .unwrap()
            .state()
            .unwrap()
            .iter()
            .all(|node| node.systemd.as_deref() == Some("running"))
    );
    assert_eq!(down().names.len(), 5);
}

#[test]
fn down_waits_for_what_a_killed_mesh_lab_left_in_the_engine() {
    let name = LabName::unique("straggler");
    // It looks as an engine's call for this lab does, and ends when this test lets it.
    let mut straggler = Command::new("sh")
        .args(["-c", "read line", "podman", "--label", &format!("mesh.lab={name}")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let (done, is_done) = sync_channel(1);
    let down = std::thread::spawn(move || {
        let removed = Lab::down(&name, &Progress::silent());
        done.send(()).unwrap();
        removed
    });
    assert!(is_done.recv_timeout(Duration::from_secs(2)).is_err(), "it did not wait");
    drop(straggler.stdin.take());
    straggler.wait().unwrap();
    is_done.recv_timeout(Duration::from_secs(30)).unwrap();
    down.join().unwrap().unwrap();
}

#[test]
fn up_again_changes_nothing_puts_back_what_is_missing_and_down_leaves_nothing() {
    let name = LabName::unique("again");
    let options = Options { nodes: 2, bundle: false, ..Options::for_test(name.clone(), &dist(), 2) };
    let lab = Lab::up(&options, &Progress::silent()).unwrap();
    assert!(lab.has_changed());
    let boots: Vec<String> = lab.nodes().iter().map(boot_id).collect();

    // The handle of the second call is the one that takes the lab down when this test fails.
    let again = Lab::up(&options, &Progress::silent()).unwrap();
    assert!(!again.has_changed());
    assert_eq!(again.nodes().iter().map(boot_id).collect::<Vec<_>>(), boots);

    again.node("node-2").unwrap().kill().unwrap();
    let third = Lab::up(&options, &Progress::silent()).unwrap();
    assert!(third.has_changed());
    assert_eq!(boot_id(third.node("node-1").unwrap()), boots[0], "what was up is left alone");

    let removed = Lab::down(&name, &Progress::silent()).unwrap();
    assert_eq!(removed.names.len(), 5, "two nodes, two volumes, one network: {:?}", removed.names);
    assert!(matches!(Lab::open(&name), Err(LabError::NotUp { .. })));
    assert_eq!(Lab::down(&name, &Progress::silent()).unwrap().names, Vec::<String>::new());
}
