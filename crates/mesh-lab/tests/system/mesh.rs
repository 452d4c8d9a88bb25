//! One pass over a whole mesh on three nodes: raised, given a module, meddled with, cut, rebooted, left alone by its
//! control plane, and cleaned again. One test, because raising costs most of its time; every step says what it proves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mesh_lab::raise::Mesh;
use mesh_lab::{Heal, Lab, LabName, Node, Options, Progress, wait_for};
use serde_json::Value;

use crate::dist;

/// A heartbeat every 10 s.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// What drifted is repaired within this.
const REPAIR: Duration = Duration::from_secs(10);
/// What was declared is applied within this, images loaded and containers started.
const APPLY: Duration = Duration::from_mins(2);
const FILE: &str = "/etc/hello.conf";
const CONTAINER: &str = "hello.web";
const UNIT: &str = "hello.service";
const BEFORE: &str = "# what stood here before\n";

struct Pass<'a> {
    lab: &'a Lab,
    mesh: Mesh<'a>,
    progress: &'a Progress,
}

#[test]
fn a_mesh_keeps_what_was_declared() {
    let progress = Progress::to(std::io::stderr());
    let options = Options { bundle: true, ..Options::for_test(LabName::unique("mesh"), &dist(), 3) };
    let lab = Lab::up(&options, &progress).unwrap();
    let mesh = Mesh::raise(&lab, &dist(), &progress).unwrap();
    let pass = Pass { lab: &lab, mesh, progress: &progress };
    pass.raising_again_changes_nothing();
    pass.a_module_is_planned_and_applied();
    pass.a_plan_of_the_same_says_no_change();
    pass.bad_manifests_are_refused_with_their_place();
    pass.drift_is_repaired_and_told();
    pass.a_node_cut_off_repairs_and_reboots_by_itself();
    pass.nothing_stops_while_the_control_plane_is_away();
    pass.a_removed_module_leaves_what_stood_there_before();
    pass.a_node_that_leaves_is_forgotten();
}

impl Pass<'_> {
    fn step(&self, text: &str) {
        self.progress.step(&format!("proving: {text}"));
    }

    fn node(&self, name: &str) -> &Node {
        self.lab.node(name).unwrap()
    }

    fn raising_again_changes_nothing(&self) {
        self.step("raising again changes nothing");
        let before = self.everything_started();
        let again = Mesh::raise(self.lab, &dist(), self.progress).unwrap();
        assert!(!again.has_changed());
        assert_eq!(self.everything_started(), before);
    }

    fn a_module_is_planned_and_applied(&self) {
        self.step("a module puts a container, a file and a unit on two nodes");
        self.node("node-2")
            .run_with_input(["sh", "-c", &format!("cat > {FILE}")], BEFORE, HEARTBEAT)
            .unwrap();
        self.node("node-2").run(["chmod", "0600", FILE]).unwrap();
        let plan: Value = self.mesh.ask(&["plan", "-f", &hello()]).unwrap();
        assert_eq!(plan["nodes"].as_array().unwrap().len(), 2, "{plan}");
        let begun = Instant::now();
        let applied: Value = self.mesh.ask(&["apply", "-f", &hello()]).unwrap();
        assert!(begun.elapsed() < APPLY);
        let states: Vec<_> =
            applied["state"]["instances"].as_array().unwrap().iter().map(|i| &i["state"]).collect();
        assert_eq!(states, ["applied", "applied"], "{applied}");
        for name in ["node-2", "node-3"] {
            self.has_hello(name).unwrap();
        }
        assert!(self.has_hello("node-1").is_err(), "the module is not placed on node-1");
    }

    fn a_plan_of_the_same_says_no_change(&self) {
        self.step("a plan of the same says no change");
        let plan: Value = self.mesh.ask(&["plan", "-f", &hello()]).unwrap();
        assert_eq!(plan["nodes"], Value::Array(Vec::new()));
        let events = self.events_of("module_applied");
        let _: Value = self.mesh.ask(&["apply", "-f", &hello()]).unwrap();
        assert_eq!(self.events_of("module_applied"), events, "applying the same is no event");
    }

    fn bad_manifests_are_refused_with_their_place(&self) {
        self.step("bad manifests are refused and change nothing");
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            ("name = \"x\"\nversion = \"1\"\nsudo = true\n", ":3:"),
            (
                "name = \"x\"\nversion = \"1\"\n[placement]\nnodes = [\"node-1\"]\n[[container]]\nname = \"a\"\n\
                 image = \"mesh/hello\"\nports = [{ host = 5671, container = 80 }]\n",
                "5671",
            ),
            (
                "name = \"x\"\nversion = \"1\"\n[placement]\nnodes = [\"node-2\"]\n[[container]]\nname = \"a\"\n\
                 image = \"mesh/hello\"\nports = [{ host = 8080, container = 80 }]\n",
                "8080",
            ),
            (
                "name = \"x\"\nversion = \"1\"\n[placement]\nnodes = [\"node-2\"]\n[[container]]\nname = \"a\"\n\
                 image = \"mesh/nowhere\"\n",
                "mesh/nowhere",
            ),
            (
                "name = \"x\"\nversion = \"1\"\n[placement]\nnodes = [\"node-9\"]\n[[volume]]\nname = \"v\"\n",
                "node-9",
            ),
        ];
        for (text, expected) in cases {
            let file = folder.path().join("module.toml");
            std::fs::write(&file, text).unwrap();
            let refused = self.mesh.ask::<Value>(&["apply", "-f", &file.display().to_string()]).unwrap_err();
            assert!(refused.to_string().contains(expected), "{refused} does not name {expected}");
        }
        let modules: Value = self.mesh.ask(&["module", "list"]).unwrap();
        assert_eq!(modules.as_array().unwrap().len(), 1, "{modules}");
    }

    fn drift_is_repaired_and_told(&self) {
        let node = self.node("node-2");
        let meddle: [(&str, &[&str]); 4] = [
            ("a deleted file", &["rm", FILE]),
            ("a changed mode", &["chmod", "0777", FILE]),
            ("a stopped unit", &["systemctl", "stop", UNIT]),
            ("a removed container", &["podman", "rm", "-f", "-t", "0", CONTAINER]),
        ];
        for (what, command) in meddle {
            self.step(&format!("{what} is repaired and told"));
            let (found, repaired) =
                (self.events_of("drift_found").len(), self.events_of("drift_repaired").len());
            node.run(command.iter().copied()).unwrap();
            wait_for(what, REPAIR, || self.has_hello("node-2")).unwrap();
            wait_for("the drift and its repair to be told", REPAIR, || {
                let now = (self.events_of("drift_found").len(), self.events_of("drift_repaired").len());
                if now.0 > found && now.1 > repaired { Ok(()) } else { Err(format!("{now:?} events")) }
            })
            .unwrap();
        }
    }

    fn a_node_cut_off_repairs_and_reboots_by_itself(&self) {
        self.step("a node cut off repairs drift by itself");
        let node = self.node("node-3");
        let heard = self.seen("node-3")["last_heard"].clone();
        node.cut().unwrap();
        let cut = Instant::now();
        node.run(["rm", FILE]).unwrap();
        wait_for("the repair on the node cut off", REPAIR, || self.has_hello("node-3")).unwrap();
        self.step("it is noticed, and how long it is away is right");
        wait_for("node-3 to be unreachable", Duration::from_secs(40), || {
            let seen = self.seen("node-3");
            if seen["state"] == "unreachable" { Ok(()) } else { Err(seen["state"].to_string()) }
        })
        .unwrap();
        self.away_for("node-3", cut);
        self.step("rebooted while cut off, it comes back with everything running");
        node.reboot().unwrap();
        wait_for("everything on the rebooted node", Duration::from_mins(1), || self.has_hello("node-3"))
            .unwrap();
        let running = self.started("node-3");
        self.step("how long it is away survives a restart of the control plane");
        self.control(&["restart"]);
        wait_for("the control plane to answer again", Duration::from_mins(1), || {
            self.away("node-3").map(drop)
        })
        .unwrap();
        self.away_for("node-3", cut);
        self.step("healed, it is connected again and nothing restarts");
        node.heal(Heal::SameAddress).unwrap();
        wait_for("node-3 to be connected", 2 * HEARTBEAT, || {
            let seen = self.seen("node-3");
            if seen["state"] == "connected" { Ok(()) } else { Err(seen["state"].to_string()) }
        })
        .unwrap();
        assert_ne!(self.seen("node-3")["last_heard"], heard);
        assert_eq!(self.started("node-3"), running);
        assert_eq!(self.seen("node-3")["disconnected_for"], Value::Null);
    }

    fn nothing_stops_while_the_control_plane_is_away(&self) {
        // Five minutes in the long run; in the short one, past the point where nodes would count as gone.
        let away = if std::env::var_os("MESH_LONG").is_some() { 300 } else { 40 };
        self.step(&format!("nothing stops while the control plane is away for {away} s"));
        let before = self.everything_started();
        self.control(&["stop"]);
        let stopped = Instant::now();
        wait_for("the time without a control plane to pass", Duration::from_secs(away + 30), || {
            let passed = stopped.elapsed().as_secs();
            if passed >= away { Ok(()) } else { Err(format!("{passed} s")) }
        })
        .unwrap();
        for name in ["node-2", "node-3"] {
            self.has_hello(name).unwrap();
        }
        self.control(&["start"]);
        self.step("started again, all nodes are connected within 30 s");
        wait_for("all nodes to be connected", Duration::from_secs(30), || {
            let nodes = self.mesh.nodes().map_err(|error| error.to_string())?;
            let states: Vec<_> = nodes.iter().map(|node| node.state.as_str()).collect();
            if states == ["connected"; 3] { Ok(()) } else { Err(format!("{states:?}")) }
        })
        .unwrap();
        let after = self.everything_started();
        let but_control = |mut all: BTreeMap<String, String>| {
            all.retain(|name, _| !name.ends_with("/control"));
            all
        };
        assert_eq!(but_control(after), but_control(before), "no container restarted");
    }

    fn a_removed_module_leaves_what_stood_there_before(&self) {
        self.step("a removed module leaves what stood there before, and nothing of its own");
        let carried = self.started("node-1");
        let removed: Value = self.mesh.ask(&["module", "remove", "hello"]).unwrap();
        assert_eq!(removed["state"], Value::Null, "{removed}");
        assert_eq!(self.node("node-2").read(FILE).unwrap(), BEFORE);
        assert_eq!(self.node("node-2").run(["stat", "-c", "%a", FILE]).unwrap(), "600");
        assert!(!self.node("node-3").has_file(FILE).unwrap());
        for name in ["node-2", "node-3"] {
            let node = self.node(name);
            assert_ne!(node.exec(["podman", "container", "exists", CONTAINER]).unwrap().code, 0);
            assert!(!node.has_file(&format!("/etc/systemd/system/{UNIT}")).unwrap());
            assert_ne!(node.exec(["systemctl", "is-active", "--quiet", UNIT]).unwrap().code, 0);
        }
        assert_eq!(self.started("node-1"), carried, "nothing else changed");
        let modules: Value = self.mesh.ask(&["module", "list"]).unwrap();
        assert_eq!(modules, Value::Array(Vec::new()));
    }

    fn a_node_that_leaves_is_forgotten(&self) {
        self.step("a node that is removed is forgotten, and leaves its machine as it was");
        let node = self.node("node-3");
        node.run(["/usr/local/bin/mesh-host", "leave"]).unwrap();
        for path in ["/var/lib/mesh-host/link.json", "/etc/systemd/system/mesh-host.service"] {
            assert!(!node.has_file(path).unwrap(), "{path} is still there");
        }
        // Removing says nothing on standard output, which is no JSON.
        drop(self.mesh.ask::<Value>(&["node", "remove", "node-3", "--yes"]));
        wait_for("node-3 to be forgotten", REPAIR, || {
            let names: Vec<_> =
                self.mesh.nodes().map_err(|e| e.to_string())?.into_iter().map(|n| n.name).collect();
            if names == ["node-1", "node-2"] { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .unwrap();
    }

    /// Whether the whole module is on the node as declared; otherwise what is not.
    fn has_hello(&self, name: &str) -> Result<(), String> {
        let node = self.node(name);
        let run = |command: &[&str]| -> Result<String, String> {
            let output = node.exec(command.iter().copied()).map_err(|error| error.to_string())?;
            if output.code == 0 {
                Ok(output.text().to_owned())
            } else {
                Err(format!("{command:?}: {}", output.stderr))
            }
        };
        let expected =
            std::fs::read_to_string(format!("{}/hello.conf", hello())).map_err(|e| e.to_string())?;
        if node.read(FILE).map_err(|error| error.to_string())? != expected {
            return Err("the file has another content".to_owned());
        }
        let mode = run(&["stat", "-c", "%a", FILE])?;
        if mode != "644" {
            return Err(format!("the file has mode {mode}"));
        }
        run(&["systemctl", "is-active", UNIT])?;
        let running = run(&["podman", "inspect", "--format", "{{.State.Running}}", CONTAINER])?;
        if running == "true" { Ok(()) } else { Err("the container does not run".to_owned()) }
    }

    /// When each container of a node was started, by `node/container`.
    fn started(&self, name: &str) -> BTreeMap<String, String> {
        let format = "{{.Names}} {{.StartedAt}} {{.ID}}";
        let listed = self.node(name).run(["podman", "ps", "--format", format]).unwrap();
        let line = |line: &str| {
            let (container, started) = line.split_once(' ').unwrap();
            (format!("{name}/{container}"), started.to_owned())
        };
        listed.lines().map(line).collect()
    }

    fn everything_started(&self) -> BTreeMap<String, String> {
        ["node-1", "node-2", "node-3"].into_iter().flat_map(|name| self.started(name)).collect()
    }

    /// Stops, starts or restarts the control plane, the host standing by that would otherwise start it again.
    fn control(&self, verbs: &[&str]) {
        let node = self.node("node-1");
        for verb in verbs {
            match *verb {
                "stop" => {
                    node.run(["systemctl", "stop", mesh_lab::HOST_UNIT]).unwrap();
                    node.run(["podman", "stop", "-t", "10", "control"]).unwrap();
                }
                "start" => drop(node.run(["systemctl", "start", mesh_lab::HOST_UNIT]).unwrap()),
                _ => drop(node.run(["podman", "restart", "-t", "10", "control"]).unwrap()),
            }
        }
    }

    fn seen(&self, name: &str) -> Value {
        let nodes: Vec<Value> = self.mesh.ask(&["node", "list"]).unwrap();
        nodes.into_iter().find(|node| node["name"] == name).unwrap()
    }

    /// How long the control plane says that a node has been away, in seconds.
    fn away(&self, name: &str) -> Result<u64, String> {
        let nodes: Vec<Value> = self.mesh.ask(&["node", "list"]).map_err(|error| error.to_string())?;
        let node = nodes.iter().find(|node| node["name"] == name).ok_or("it is not listed")?;
        node["disconnected_for"].as_u64().ok_or_else(|| format!("it is {}", node["state"]))
    }

    /// The last heartbeat before the cut came up to one period before it.
    fn away_for(&self, name: &str, cut: Instant) {
        let (away, since_cut) = (self.away(name).unwrap(), cut.elapsed());
        let right = since_cut.as_secs().saturating_sub(1)..=(since_cut + HEARTBEAT).as_secs() + 2;
        assert!(right.contains(&away), "{name} is said to be away for {away} s, cut {since_cut:?} ago");
    }

    fn events_of(&self, event: &str) -> Vec<Value> {
        let events: Vec<Value> = self.mesh.ask(&["events", "-n", "1000"]).unwrap();
        events.into_iter().filter(|one| one["event"] == event).collect()
    }
}

/// The example that people apply on day one.
fn hello() -> String {
    format!("{}/../../examples/hello", env!("CARGO_MANIFEST_DIR"))
}
