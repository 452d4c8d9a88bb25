//! Cases of the kind `unit` with drop-ins, and what of its readiness is no case.

use super::{Bench, Case, carry, converge, folder, holds, host, resources};
use crate::machine::{
    fake::{FakeUnit, Idle, Node, root},
    files::Content,
};

const OWN: &str = r#"[{"id": "u", "kind": "unit", "spec": {"name": "ssh.service", "drop_ins": {"10-a.conf": "[Service]\n#1\n",
    "20-b.conf": "[Service]\n#2\n"}}}]"#;
const OWN_OTHER: &str = r#"[{"id": "u", "kind": "unit", "spec": {"name": "ssh.service", "drop_ins": {"20-b.conf": "[Service]\n#3\n",
    "30-c.conf": "[Service]\n#4\n"}}}]"#;
const WRITTEN: &str = r#"[{"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n", "active": true,
    "drop_ins": {"x.conf": "[Service]\n#1\n"}}}]"#;
const WRITTEN_OTHER: &str = r#"[{"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n", "active": true}}]"#;
const FOLDER: &str = "/etc/systemd/system/ssh.service.d";

/// A machine with a unit of its own that runs.
fn with_ssh() -> Bench {
    let bench = Bench::without_engine();
    let text = "[Service]\n[Install]\n";
    bench.world.put("/usr/lib/systemd/system/ssh.service", text, 0o644);
    let read = Some(Content::new(text.as_bytes()).digest());
    let unit = FakeUnit { with: read.clone(), read, active: true, enabled: true, ..FakeUnit::default() };
    bench.world.units.borrow_mut().insert("ssh.service".to_owned(), unit);
    bench
}

fn make_folder(bench: &Bench) {
    bench.world.tree.borrow_mut().insert(FOLDER.to_owned(), Node::Directory(root(0o700)));
}

fn starts(bench: &Bench, name: &str) -> u32 {
    bench.world.starts.borrow().get(name).copied().unwrap_or_default()
}

#[tokio::test]
async fn drop_ins_of_which_one_goes_and_one_comes() {
    let case = Case {
        name: "drop-ins of a unit of the machine's",
        machine: with_ssh,
        first: OWN,
        second: OWN_OTHER,
        drift: |bench| {
            bench.world.tree.borrow_mut().remove(&format!("{FOLDER}/20-b.conf"));
        },
    };
    holds(&case).await;
    let written = Case {
        name: "drop-ins of a unit that is written",
        machine: Bench::without_engine,
        first: WRITTEN,
        second: WRITTEN_OTHER,
        drift: |bench| bench.world.put("/etc/systemd/system/a.service.d/x.conf", "by hand", 0o600),
    };
    holds(&written).await;
}

#[tokio::test]
async fn drop_ins_over_an_administrators() {
    let case = Case {
        name: "drop-ins over an administrator's",
        machine: || {
            let bench = with_ssh();
            make_folder(&bench);
            bench.world.put(&format!("{FOLDER}/20-b.conf"), "[Service]\n#theirs\n", 0o600);
            bench.world.put(&format!("{FOLDER}/override.conf"), "[Service]\n#theirs too\n", 0o600);
            let mut units = bench.world.units.borrow_mut();
            let whole = "[Service]\n[Install]\n[Service]\n#theirs\n[Service]\n#theirs too\n";
            let unit = units.get_mut("ssh.service").expect("the unit");
            unit.read = Some(Content::new(whole.as_bytes()).digest());
            unit.with.clone_from(&unit.read);
            drop(units);
            bench
        },
        first: OWN,
        second: OWN_OTHER,
        drift: |bench| bench.world.put(&format!("{FOLDER}/20-b.conf"), "by hand", 0o644),
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_folder_the_host_made_stays_while_an_administrators_drop_in_is_in_it() {
    let (bench, folder) = (with_ssh(), folder());
    converge(&bench, folder.path(), OWN, "applied").await;
    assert_eq!(starts(&bench, "ssh.service"), 1, "restarted once for both");
    bench.world.put(&format!("{FOLDER}/override.conf"), "[Service]\n#theirs\n", 0o644);
    converge(&bench, folder.path(), OWN_OTHER, "changed").await;
    assert_eq!(starts(&bench, "ssh.service"), 2);
    converge(&bench, folder.path(), "[]", "removed").await;
    assert_eq!(starts(&bench, "ssh.service"), 3, "with what it had before");
    let tree = bench.world.tree.borrow();
    let left: Vec<&String> = tree.keys().filter(|path| path.starts_with(FOLDER)).collect();
    assert_eq!(left, [FOLDER, &format!("{FOLDER}/override.conf")]);
}

#[tokio::test]
async fn what_a_kill_left_beside_a_drop_in_keeps_no_folder() {
    let (bench, folder) = (with_ssh(), folder());
    let before = bench.picture();
    converge(&bench, folder.path(), OWN, "applied").await;
    bench.world.put(&format!("{FOLDER}/.mesh-host-new-20-b.conf"), "half", 0o600);
    converge(&bench, folder.path(), "[]", "removed").await;
    assert_eq!(bench.picture(), before);
}

#[tokio::test]
async fn a_unit_on_its_way_is_waited_for_and_is_no_drift() {
    let (bench, folder) = (Bench::without_engine(), folder());
    converge(&bench, folder.path(), WRITTEN, "applied").await;
    if let Some(unit) = bench.world.units.borrow_mut().get_mut("a.service") {
        (unit.active, unit.idle) = (false, Idle::Starting);
    }
    let mut host = host(&bench, folder.path()).await;
    let plan = host.plan().await;
    let steps = plan.planned[0].steps.as_ref().expect("steps");
    assert_eq!(steps.iter().map(ToString::to_string).collect::<Vec<_>>(), ["wait until a.service is ready"]);
    let outcome = host.round(&mut |_, _, _| {}).await.expect("a round").clone();
    assert!(outcome.failed.is_empty() && outcome.drifted == 0, "{outcome:?}");
    assert!(bench.world.units.borrow()["a.service"].active);
}

#[tokio::test]
async fn a_unit_that_does_not_become_ready_is_said_with_how_it_ended_and_blocks_what_waits_for_it() {
    for how in
        [Some("its program ended with exit code 3 (Result=exit-code): see 'journalctl -u a.service'"), None]
    {
        let (bench, folder) = (Bench::without_engine(), folder());
        bench.world.broken.borrow_mut().insert("a.service".to_owned(), how.map(str::to_owned));
        let json = format!(
            "{},{}",
            WRITTEN.trim_end_matches(']'),
            r#"{"id": "f", "kind": "file", "after": ["u"], "spec": {"path": "/opt/f", "content": {"text": "x"}}}]"#
        );
        let before = bench.picture();
        let outcome = carry(&bench, folder.path(), &json).await;
        let why: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
        let how = how.unwrap_or("it is still activating (start) after 100 s");
        assert_eq!(why, ["it waits for u, which failed".to_owned(), format!("start a.service: {how}")]);
        assert_eq!(bench.world.text("/opt/f"), None);
        assert_ne!(bench.picture(), before);
        converge(&bench, folder.path(), "[]", "given up").await;
        assert_eq!(bench.picture(), before, "nothing is left of it");
        carry(&bench, folder.path(), &json).await;
        // Repaired by a person: the next round goes on.
        bench.world.broken.borrow_mut().clear();
        let mut host = host(&bench, folder.path()).await;
        let outcome = host.carry(resources(&json), &mut |_, _, _| {}).await.expect("carried");
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        assert_eq!(bench.world.text("/opt/f").as_deref(), Some("x"));
    }
}

#[tokio::test]
async fn drop_ins_of_no_unit_are_not_written() {
    let (bench, folder) = (Bench::without_engine(), folder());
    let before = bench.picture();
    let outcome = carry(&bench, folder.path(), OWN).await;
    let why: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert_eq!(why, ["the machine has no unit ssh.service"]);
    assert_eq!(bench.picture(), before);
}
