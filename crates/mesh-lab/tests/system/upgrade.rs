//! The host's own upgrade on a real systemd: whatever the other program does, the right one runs in the end, and nothing
//! else on the machine was touched.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use mesh_lab::{LabError, Node, wait_for};

use crate::{dist, nodes_alone};

const INSTALLED: &str = "/usr/local/bin/mesh-host";
const UNIT: &str = "/etc/systemd/system/mesh-host.service";
/// A program that hangs is ended after so long, where the unit would give it two minutes.
const IMPATIENT: &str = "[Service]\nTimeoutStartSec=8\n";

/// A program of this machine that does nothing but this machine code.
fn tiny_program(code: &[u8]) -> Vec<u8> {
    const LOADED_AT: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    elf.extend((LOADED_AT + HEADERS).to_le_bytes());
    elf.extend(64_u64.to_le_bytes());
    elf.extend(0_u64.to_le_bytes());
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let size = HEADERS + code.len() as u64;
    for number in [0, LOADED_AT, LOADED_AT, size, size, 0x1000] {
        elf.extend(number.to_le_bytes());
    }
    elf.extend(code);
    elf
}

/// `mov [0], eax`.
const SEGFAULTS: &[u8] = &[0x31, 0xc0, 0x89, 0x00];
/// `exit(1)`.
const FAILS: &[u8] = &[0xbf, 1, 0, 0, 0, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05];
/// `pause()`, for ever.
const HANGS: &[u8] = &[0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7];

/// A node whose host runs as a service, without a mesh.
struct Upgraded<'a> {
    node: &'a Node,
    version: String,
}

impl<'a> Upgraded<'a> {
    fn begin(node: &'a Node) -> Self {
        put(node, &fs::read(dist().join("mesh-host")).unwrap(), INSTALLED);
        let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mesh-host/src/mesh-host.service");
        node.put(&unit, UNIT).unwrap();
        node.run(["mkdir", "-p", "/etc/systemd/system/mesh-host.service.d"]).unwrap();
        put(node, IMPATIENT.as_bytes(), "/etc/systemd/system/mesh-host.service.d/impatient.conf");
        node.run(["systemctl", "daemon-reload"]).unwrap();
        node.run(["systemctl", "enable", "--now", "mesh-host.service"]).unwrap();
        let said = json(&node.run([INSTALLED, "version", "--json"]).unwrap());
        Self { node, version: said["version"].as_str().unwrap().to_owned() }
    }

    /// Declares that the program at this path is to be the host.
    fn declare(&self, path: &str, digest: &str, retry: u64) -> Result<String, LabError> {
        let declared = serde_json::json!({"resources": [{"id": "host", "kind": "host", "spec":
            {"version": self.version, "digest": digest, "source": {"path": path}, "retry": retry}}]});
        let apply = [INSTALLED, "apply", "--local", "-"];
        self.node.run_with_input(apply, &declared.to_string(), Duration::from_mins(1))
    }

    /// Puts a program on the machine and has it declared; its digest.
    fn upgrade_to(&self, program: &[u8]) -> String {
        put(self.node, program, "/srv/other");
        let digest = sha256(self.node, "/srv/other");
        self.declare("/srv/other", &digest, 0).unwrap();
        digest
    }

    fn wait(&self, what: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        wait_for(what, Duration::from_secs(90), || {
            let said = self.node.exec([INSTALLED, "status", "--json"]).map_err(|error| error.to_string())?;
            let status = serde_json::from_str(said.text()).map_err(|_| said.stderr.clone())?;
            if is_so(&status) { Ok(()) } else { Err(said.text().to_owned()) }
        })
        .unwrap_or_else(|why| panic!("{why}\n{}", self.node.journal_lines(None, 60).unwrap_or_default()));
    }

    /// Waits until this program failed, and the one of `runs` serves.
    fn has_failed(&self, digest: &str, words: &str, runs: &str) {
        self.wait(&format!("{digest} to fail"), |status| {
            let failed = status["upgrade"]["failed"].as_array();
            let why = failed.and_then(|all| all.iter().find(|one| one["digest"] == digest));
            why.is_some_and(|one| one["why"].as_str().unwrap_or_default().contains(words))
        });
        self.serves(runs);
    }

    /// Waits until the program of this digest is installed and is the process of the service.
    fn serves(&self, digest: &str) {
        self.wait(&format!("{digest} to serve"), |status| {
            let settled = status["upgrade"].get("trial").is_none();
            let Some(process) = status["process"].as_u64() else { return false };
            settled
                && sha256(self.node, &format!("/proc/{process}/exe")) == digest
                && self.node.run(["systemctl", "is-active", "mesh-host.service"]).is_ok()
        });
        assert_eq!(sha256(self.node, INSTALLED), digest, "what runs is what is installed");
    }
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn put(node: &Node, bytes: &[u8], path: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, bytes).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    node.put(&file, path).unwrap();
}

fn sha256(node: &Node, path: &str) -> String {
    let said = node.exec(["sha256sum", path]).unwrap();
    format!("sha256:{}", said.text().split(' ').next().unwrap_or_default())
}

/// The process of a unit that nothing here may touch.
fn witness(node: &Node) -> String {
    node.run(["systemctl", "show", "--property=MainPID,NRestarts", "witness.service"]).unwrap()
}

#[test]
fn the_right_host_runs_whatever_the_other_one_does() {
    let lab = nodes_alone("upgrade", 1);
    let node = lab.node("node-1").unwrap();
    let machine = Upgraded::begin(node);
    node.run(["systemd-run", "--unit=witness", "sleep", "infinity"]).unwrap();
    let untouched = witness(node);
    let mut good = fs::read(dist().join("mesh-host")).unwrap();
    put(node, &good, "/srv/first");
    let first = sha256(node, "/srv/first");
    machine.serves(&first);

    // What follows an ELF program in its file is another digest, and the same program.
    good.extend(b"second");
    let second = machine.upgrade_to(&good);
    machine.serves(&second);
    let shown = node.run(["readlink", INSTALLED]).unwrap();
    assert_eq!(shown, format!("../lib/mesh-host/{}/mesh-host", &second["sha256:".len()..]));

    let crashes = machine.upgrade_to(&tiny_program(SEGFAULTS));
    machine.has_failed(&crashes, "it crashed, hung or was killed", &second);
    let refused = machine.declare("/srv/other", &crashes, 0).unwrap_err().to_string();
    assert!(refused.contains("is not tried again"), "{refused}");
    let attempts =
        || node.run(["journalctl", "-u", "mesh-host", "-o", "cat", "--grep", "makes way"]).unwrap();
    let before = attempts().lines().count();
    machine.declare("/srv/other", &crashes, 1).unwrap();
    wait_for("it to be tried once more", Duration::from_mins(1), || {
        if attempts().lines().count() > before { Ok(()) } else { Err(attempts()) }
    })
    .unwrap();
    machine.has_failed(&crashes, "it crashed, hung or was killed", &second);

    let fails = machine.upgrade_to(&tiny_program(FAILS));
    machine.has_failed(&fails, "had not proved itself", &second);

    let hangs = machine.upgrade_to(&tiny_program(HANGS));
    machine.has_failed(&hangs, "had not proved itself", &second);

    // Back to where it began.
    machine.declare("/srv/first", &first, 0).unwrap();
    machine.serves(&first);
    assert_eq!(witness(node), untouched, "nothing else was restarted");
    let shelf = node.run(["ls", "/usr/local/lib/mesh-host"]).unwrap();
    assert_eq!(shelf.lines().count(), 2, "{shelf}");
}

#[test]
fn a_power_cut_during_a_trial_is_not_held_against_it() {
    let lab = nodes_alone("upgrade-cut", 1);
    let node = lab.node("node-1").unwrap();
    let machine = Upgraded::begin(node);
    let first = sha256(node, INSTALLED);
    machine.serves(&first);
    let hangs = machine.upgrade_to(&tiny_program(HANGS));
    let state = || node.read("/var/lib/mesh-host/upgrade.json").unwrap_or_default();
    wait_for("the trial to begin", Duration::from_mins(1), || {
        if state().contains(r#""attempts":1"#) && state().contains("begun") { Ok(()) } else { Err(state()) }
    })
    .unwrap();
    node.kill().unwrap();
    node.start().unwrap();
    wait_for("it to be begun again", Duration::from_mins(1), || {
        if state().contains(r#""attempts":2"#) || state().contains("failed") { Ok(()) } else { Err(state()) }
    })
    .unwrap();
    machine.has_failed(&hangs, "had not proved itself", &first);
    let begun = node.run(["journalctl", "-u", "mesh-host", "-o", "cat", "--grep", "makes way"]).unwrap();
    assert_eq!(begun.lines().count(), 2, "{begun}");
}
