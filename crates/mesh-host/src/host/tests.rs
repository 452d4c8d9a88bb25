//! The host as a whole, on a machine in memory: two origins, a stale declaration, a ledger that cannot be read.

mod observed;

use std::{fs, rc::Rc};

use tempfile::TempDir;

use super::*;
use crate::{
    contract::{folder, resources},
    machine::{
        engine::NoEngine,
        fake::{Node, World, root},
    },
    test_mesh::{ISSUED, NOT_AFTER, TestMesh},
};

pub(super) struct Bench {
    pub(super) mesh: TestMesh,
    pub(super) world: Rc<World>,
    folder: TempDir,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self { mesh: TestMesh::new(), world: World::bare(), folder: folder() }
    }

    pub(super) fn paths(&self) -> Paths {
        Paths::under(self.folder.path())
    }

    /// The host, started anew.
    pub(super) async fn host(&self) -> Host {
        let machine = self.world.machine(Rc::new(NoEngine));
        Host::open(&self.paths(), machine, Some(self.mesh.trust.clone())).await.expect("it starts")
    }
}

pub(super) fn file(id: &str, path: &str, text: &str) -> String {
    format!(
        r#"{{"id": "{id}", "kind": "file", "spec": {{"path": "{path}", "content": {{"text": "{text}"}}}}}}"#
    )
}

pub(super) fn list(files: &[String]) -> Vec<Resource> {
    resources(&format!("[{}]", files.join(",")))
}

pub(super) async fn round(host: &mut Host) -> Outcome {
    host.round(&mut |_, _, _| {}).await.expect("a round").clone()
}

pub(super) async fn carry(host: &mut Host, resources: Vec<Resource>) -> Outcome {
    host.carry(resources, &mut |_, _, _| {}).await.expect("carried").clone()
}

pub(super) async fn follow(host: &mut Host, frame: &[u8]) -> Outcome {
    let taken = host.accept(frame).await.expect("the ledger is written");
    assert!(matches!(taken, Taken::Accepted(_)), "{taken:?}");
    round(host).await
}

pub(super) fn failed(outcome: &Outcome) -> Vec<(String, String)> {
    outcome.failed.iter().map(|((origin, id), why)| (format!("{origin} {id}"), why.to_string())).collect()
}

#[tokio::test]
async fn what_is_carried_and_what_is_assigned_never_remove_each_other() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    carry(&mut host, list(&[file("a", "/etc/a", "carried")])).await;
    // The same id, of another origin.
    follow(&mut host, &bench.mesh.with(1, 1, &list(&[file("a", "/etc/b", "assigned")]))).await;
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("carried"));
    assert_eq!(bench.world.text("/etc/b").as_deref(), Some("assigned"));
    let outcome = follow(&mut host, &bench.mesh.at(1, 2)).await;
    assert_eq!((bench.world.text("/etc/b"), failed(&outcome)), (None, Vec::new()));
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("carried"));
    follow(&mut host, &bench.mesh.with(1, 3, &list(&[file("b", "/etc/b", "assigned")]))).await;
    carry(&mut host, Vec::new()).await;
    assert_eq!((bench.world.text("/etc/a"), bench.world.text("/etc/b").as_deref()), (None, Some("assigned")));
    host.remove_all(true, &mut |_, _, _| {}).await.expect("left");
    assert_eq!(bench.world.text("/etc/b"), None);
}

#[tokio::test]
async fn what_is_assigned_yields_to_what_is_carried() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    carry(&mut host, list(&[file("mine", "/etc/a", "carried")])).await;
    let outcome = follow(
        &mut host,
        &bench.mesh.with(1, 1, &list(&[file("a", "/etc/a", "x"), file("b", "/etc/b", "x")])),
    )
    .await;
    let why = "the path /etc/a belongs to mine (carried): one of the two has to yield".to_owned();
    assert_eq!(failed(&outcome), [("assigned a".to_owned(), why)]);
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("carried"));
    assert_eq!(bench.world.text("/etc/b").as_deref(), Some("x"), "the others are applied");
}

#[tokio::test]
async fn a_host_that_starts_anew_needs_nobody() {
    let bench = Bench::new();
    follow(&mut bench.host().await, &bench.mesh.with(1, 1, &list(&[file("a", "/etc/a", "x")]))).await;
    bench.world.tree.borrow_mut().remove("/etc/a");
    let mut host = bench.host().await;
    assert_eq!(host.position().map(|position| position.to_string()).as_deref(), Some("1.1.1"));
    let outcome = round(&mut host).await;
    assert_eq!((outcome.drifted, bench.world.text("/etc/a").as_deref()), (1, Some("x")));
    let again = host.accept(&bench.mesh.with(1, 1, &list(&[file("a", "/etc/a", "x")]))).await;
    assert!(matches!(again, Ok(Taken::Accepted(_))), "the same again: {again:?}");
    let older = host.accept(&bench.mesh.at(1, 0)).await;
    assert!(matches!(older, Ok(Taken::Refused(Refusal::Stale { .. }))), "{older:?}");
    let fork = host.accept(&bench.mesh.at(1, 1)).await;
    assert!(matches!(fork, Ok(Taken::Refused(Refusal::Forked(_)))), "{fork:?}");
    assert!(host.report().is_some_and(|report| report.refused.starts_with("ALARM")));
}

#[tokio::test]
async fn what_no_longer_verifies_is_neither_applied_nor_removed() {
    let mut bench = Bench::new();
    follow(&mut bench.host().await, &bench.mesh.with(1, 1, &list(&[file("a", "/etc/a", "x")]))).await;
    bench.mesh.trust.declare_keys = vec![mesh_seal::SigningKey::from_seed(&[9; 32]).verifying_key()];
    bench.world.put("/etc/a", "by hand", 0o644);
    let mut host = bench.host().await;
    let outcome = round(&mut host).await;
    assert_eq!((outcome.steps, bench.world.text("/etc/a").as_deref()), (0, Some("by hand")));
    assert!(host.refused().contains("does not verify"), "{}", host.refused());
}

#[tokio::test]
async fn an_older_declaration_is_not_followed_because_the_stored_one_no_longer_verifies() {
    let mut bench = Bench::new();
    follow(&mut bench.host().await, &bench.mesh.with(2, 5, &list(&[file("a", "/etc/a", "x")]))).await;
    // The mesh changed its declare key, which the old frames were not signed with.
    let older = bench.mesh.at(2, 4);
    bench.mesh.declare = mesh_seal::SigningKey::from_seed(&[9; 32]);
    bench.mesh.trust.declare_keys = vec![bench.mesh.declare.verifying_key()];
    let mut host = bench.host().await;
    let taken = host.accept(&older).await;
    assert!(matches!(taken, Ok(Taken::Refused(Refusal::Frame(_)))), "{taken:?}");
    for (generation, sequence) in [(1, 9), (2, 4), (2, 5), (2, 6)] {
        let taken = host.accept(&bench.mesh.at(generation, sequence)).await;
        assert!(matches!(taken, Ok(Taken::Refused(Refusal::NoRecovery { .. }))), "{taken:?}");
    }
    round(&mut host).await;
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("x"), "kept");
    follow(&mut host, &bench.mesh.at(3, 1)).await;
    assert_eq!((bench.world.text("/etc/a"), host.refused()), (None, ""));
}

#[tokio::test]
async fn only_a_newer_declaration_for_this_very_node_marks_it_refused() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    follow(&mut host, &bench.mesh.at(2, 5)).await;
    let stranger = mesh_seal::SigningKey::from_seed(&[9; 32]);
    let signed = |key, bytes: Vec<u8>| serde_json::to_vec(&mesh_wire::Signed::new(bytes, key)).expect("JSON");
    let of_format_2 = |generation, node: &str| {
        let bytes = bench.mesh.declaration(generation, 1).to_bytes().expect("JSON");
        let text = String::from_utf8(bytes).expect("text");
        let text = text.replace("\"format\":1", "\"format\":2").replace("node-1", node);
        signed(&bench.mesh.declare, text.into_bytes())
    };
    let mut for_another = bench.mesh.declaration(9, 9);
    for_another.node = "node-10".parse().expect("a node");
    let junk = [
        b"junk".to_vec(),
        signed(&stranger, bench.mesh.declaration(9, 9).to_bytes().expect("JSON")),
        signed(&bench.mesh.declare, b"not even JSON".to_vec()),
        bench.mesh.frame(&for_another),
        of_format_2(9, "node-10"),
        of_format_2(1, "node-1"),
        bench.mesh.at(2, 4),
    ];
    for (place, frame) in junk.iter().enumerate() {
        let taken = host.accept(frame).await;
        assert!(matches!(taken, Ok(Taken::Refused(_))), "{place}: {taken:?}");
        assert_eq!(host.refused(), "", "{place}: {taken:?}");
    }
    let taken = host.accept(&of_format_2(3, "node-1")).await;
    assert!(matches!(taken, Ok(Taken::Refused(Refusal::Unreadable { .. }))), "{taken:?}");
    assert!(
        host.refused().contains("declaration 1.3.1 is for this node") && host.refused().contains("upgrade")
    );
    // Junk does not hide it.
    host.accept(&junk[0]).await.expect("judged");
    assert!(host.refused().contains("1.3.1"));
    follow(&mut host, &bench.mesh.at(2, 6)).await;
    assert_eq!(host.refused(), "");
}

#[tokio::test]
async fn after_its_time_a_declaration_still_repairs_and_no_longer_removes() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    let both = list(&[file("a", "/etc/a", "x"), file("b", "/etc/b", "x")]);
    follow(&mut host, &bench.mesh.with(1, 1, &both)).await;
    bench.world.now.set(NOT_AFTER + 1);
    bench.world.put("/etc/a", "by hand", 0o644);
    assert!(host.is_stale());
    let outcome = follow(&mut host, &bench.mesh.with(1, 2, &both[..1])).await;
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("x"), "repaired");
    assert_eq!(bench.world.text("/etc/b").as_deref(), Some("x"), "kept");
    let why = failed(&outcome);
    assert!(why[0].0 == "assigned b" && why[0].1.contains("stale"), "{why:?}");
    // The clock was wrong, and is right again.
    bench.world.now.set(ISSUED + 5);
    assert_eq!(failed(&round(&mut host).await), []);
    assert_eq!(bench.world.text("/etc/b"), None);
}

#[tokio::test]
async fn a_dead_clock_stops_nothing() {
    let bench = Bench::new();
    bench.world.now.set(0);
    let mut host = bench.host().await;
    follow(&mut host, &bench.mesh.with(1, 1, &list(&[file("a", "/etc/a", "x")]))).await;
    assert!(!host.is_stale());
    assert_eq!(host.now(), ISSUED, "it is no earlier than what was verified");
    follow(&mut host, &bench.mesh.at(1, 2)).await;
    assert_eq!(bench.world.text("/etc/a"), None);
}

#[tokio::test]
async fn a_failing_resource_blocks_what_waits_for_it_and_nothing_else() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    let json = format!(
        r#"[{}, {{"id": "u", "kind": "unit", "after": ["bad"], "spec": {{"name": "u.service", "content": "[Service]\n", "active": true}}}}, {}]"#,
        file("bad", "/no/such/folder/f", "x"),
        file("good", "/etc/good", "x")
    );
    let outcome = follow(&mut host, &bench.mesh.with(1, 1, &resources(&json))).await;
    let failed = failed(&outcome);
    assert_eq!(failed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["assigned bad", "assigned u"]);
    assert_eq!(failed[1].1, "it waits for bad, which failed");
    assert_eq!(bench.world.text("/etc/good").as_deref(), Some("x"));
    assert_eq!(bench.world.text("/etc/systemd/system/u.service"), None, "never half-applied");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_by_name_and_what_it_was_stays() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    let two = list(&[file("a", "/etc/a", "x"), file("b", "/etc/b", "x")]);
    follow(&mut host, &bench.mesh.with(1, 1, &two)).await;
    let mut declaration = bench.mesh.declaration(1, 2);
    let newer = r#"{"id": "a", "kind": "file", "spec": {"path": "/etc/a", "content": {"text": "y"}, "immutable": true}}"#;
    let raw = |json: &str| serde_json::value::RawValue::from_string(json.to_owned()).expect("JSON");
    declaration.resources =
        vec![raw(newer), raw(r#"{"id": "s", "kind": "spell", "spec": {}}"#), raw(&file("b", "/etc/b", "y"))];
    let outcome = follow(&mut host, &bench.mesh.frame(&declaration)).await;
    let failed = failed(&outcome);
    assert!(failed[0].0 == "assigned a" && failed[0].1.contains("immutable"), "{failed:?}");
    assert!(
        failed[1].0 == "assigned s" && failed[1].1.contains("does not know the kind \"spell\""),
        "{failed:?}"
    );
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("x"), "what it was stays");
    assert_eq!(bench.world.text("/etc/b").as_deref(), Some("y"), "the rest is applied");
}

#[tokio::test]
async fn a_damaged_ledger_keeps_what_runs_and_only_a_higher_generation_begins_a_new_one() {
    let bench = Bench::new();
    follow(&mut bench.host().await, &bench.mesh.with(3, 7, &list(&[file("a", "/etc/a", "x")]))).await;
    let journal = bench.paths().ledger().join("journal");
    let mut bytes = fs::read(&journal).expect("the ledger");
    let last = bytes.len() - 5;
    bytes[last] ^= 0xff;
    fs::write(&journal, &bytes).expect("damaged");
    bench.world.put("/etc/a", "by hand", 0o644);

    let mut host = bench.host().await;
    assert!(host.round(&mut |_, _, _| {}).await.is_err());
    assert!(
        host.report().is_some_and(|report| report.refused.contains("ledger of this node cannot be read"))
    );
    for frame in
        [bench.mesh.with(3, 7, &list(&[file("a", "/etc/a", "x")])), bench.mesh.at(3, 8), bench.mesh.at(2, 99)]
    {
        let taken = host.accept(&frame).await.expect("judged");
        assert!(matches!(taken, Taken::Refused(Refusal::NoRecovery { .. })), "{taken:?}");
    }
    assert_eq!(fs::read(&journal).expect("the ledger"), bytes, "nothing was written over it");
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("by hand"), "nothing was applied");

    follow(&mut host, &bench.mesh.with(4, 1, &list(&[file("a", "/etc/a", "x")]))).await;
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("x"));
    assert_eq!(host.refused(), "");
    assert!(
        bench.paths().ledger().join("journal.unreadable-1").exists(),
        "the old one is there for a person"
    );
    drop(host);
    let host = bench.host().await;
    assert_eq!(host.position().map(|position| position.to_string()).as_deref(), Some("1.4.1"));
}

#[tokio::test]
async fn a_drift_is_forgotten_once_a_report_with_its_end_was_confirmed() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    follow(&mut host, &bench.mesh.with(1, 1, &list(&[file("a", "/etc/a", "x")]))).await;
    bench.world.put("/etc/a", "by hand", 0o644);
    // The repair fails at first: the folder is gone.
    let folder = bench.world.tree.borrow_mut().remove("/etc").expect("a folder");
    round(&mut host).await;
    let first = host.report().expect("a report");
    assert_eq!((first.drift.len(), first.drift[0].repaired_at), (1, None));
    host.confirmed(&first).await.expect("written");
    bench.world.tree.borrow_mut().insert("/etc".to_owned(), folder);
    round(&mut host).await;
    let second = host.report().expect("a report");
    assert_eq!((second.drift.len(), second.drift[0].number), (1, first.drift[0].number));
    assert!(second.drift[0].repaired_at.is_some());
    // A confirmation of what is no longer the whole truth forgets nothing.
    host.confirmed(&first).await.expect("written");
    assert_eq!(host.report().expect("a report").drift.len(), 1);
    host.confirmed(&second).await.expect("written");
    assert_eq!(host.report().expect("a report").drift, []);
}

#[tokio::test]
async fn reports_are_numbered_upwards_over_restarts_and_lost_ledgers() {
    let bench = Bench::new();
    let mut last = 0;
    for start in 0..4 {
        if start == 3 {
            fs::remove_dir_all(bench.paths().ledger()).expect("lost");
            bench.world.now.set(bench.world.now.get() + 60 * 60 * 24);
        }
        let mut host = bench.host().await;
        for _ in 0..3 {
            let number = host.number_report().await.expect("a number");
            assert!(number > last, "{number} after {last}");
            last = number;
        }
    }
}

#[tokio::test]
async fn reports_of_a_node_whose_ledger_cannot_be_read_are_newer_than_those_before() {
    let bench = Bench::new();
    let mut last = 0;
    for _ in 0..3 {
        // Each start takes a batch of numbers: they run ahead of the clock.
        last = bench.host().await.number_report().await.expect("a number");
    }
    let journal = bench.paths().ledger().join("journal");
    let mut bytes = fs::read(&journal).expect("the ledger");
    bytes[70] ^= 0xff;
    fs::write(&journal, &bytes).expect("damaged");
    for second in 0..4 {
        bench.world.now.set(ISSUED + 10_000 * second);
        let mut host = bench.host().await;
        for clock in [0, 1, -500] {
            bench.world.now.set(ISSUED + 10_000 * second + clock);
            let number = host.number_report().await.expect("a number");
            assert!(number > last, "{number} after {last}");
            last = number;
        }
    }
    bench.world.now.set(ISSUED + 40_000);
    let mut host = bench.host().await;
    last = host.number_report().await.expect("a number");
    follow(&mut host, &bench.mesh.at(2, 1)).await;
    assert!(host.number_report().await.expect("a number") > last, "nor in the new ledger");
}

#[tokio::test]
async fn two_processes_take_turns_and_see_each_others_work() {
    let bench = Bench::new();
    let (mut daemon, mut command) = (bench.host().await, bench.host().await);
    carry(&mut command, list(&[file("a", "/etc/a", "x")])).await;
    bench.world.tree.borrow_mut().remove("/etc/a");
    let outcome = round(&mut daemon).await;
    assert_eq!((outcome.drifted, bench.world.text("/etc/a").as_deref()), (1, Some("x")));
    let outcome = carry(&mut command, Vec::new()).await;
    assert_eq!((failed(&outcome), bench.world.text("/etc/a")), (Vec::new(), None));
}

fn key(id: &str) -> (Origin, String) {
    (Origin::Assigned, id.to_owned())
}

#[tokio::test]
async fn what_fails_says_since_when_and_with_what_at_first_over_restarts() {
    let bench = Bench::new();
    let (bad, at) = (bench.mesh.with(1, 1, &list(&[file("a", "/etc/none/a", "x")])), bench.world.now.get());
    follow(&mut bench.host().await, &bad).await;
    for later in [60, 3600] {
        bench.world.now.set(at + later);
        // Another cause by now.
        bench.world.put("/etc/none", "in the way", 0o644);
        let mut host = bench.host().await;
        round(&mut host).await;
        let since = host.failing_since(&key("a")).expect("it fails").clone();
        assert!(since.at == at && since.first.contains("there is no folder /etc/none"), "{since:?}");
        let report = host.report().expect("a report");
        let words = &report.failed["a"];
        assert!(
            words.contains("/etc/none is not a directory")
                && words.contains("(failing since 2030-03-17T17:46:40Z, at first with: ")
                && words.contains("there is no folder /etc/none"),
            "{words}"
        );
        let status = crate::status::Status::of(&host, &crate::report::LinkState::NotJoined, "");
        let shown = &status.resources[0];
        assert_eq!(shown.failing_since, Some(at));
        assert!(shown.failed_first.as_ref().is_some_and(|first| first.contains("no folder")), "{shown:?}");
    }
    bench.world.tree.borrow_mut().insert("/etc/none".to_owned(), Node::Directory(root(0o755)));
    let mut host = bench.host().await;
    assert_eq!(failed(&round(&mut host).await), []);
    assert_eq!(host.failing_since(&key("a")), None, "a new failing begins anew");
    drop(host);
    assert_eq!(bench.host().await.failing_since(&key("a")), None);
}

#[tokio::test]
async fn a_ledger_that_is_gone_keeps_what_runs_and_what_stood_there_before() {
    let bench = Bench::new();
    bench.world.put("/etc/a", "a person's", 0o644);
    let declared = list(&[file("a", "/etc/a", "x")]);
    follow(&mut bench.host().await, &bench.mesh.with(3, 7, &declared)).await;
    let kept = bench.world.kept.borrow().clone();
    assert_eq!(kept.len(), 1);
    for running in [false, true] {
        let mut host = bench.host().await;
        if !running {
            drop(host);
        }
        fs::remove_dir_all(bench.paths().ledger()).expect("lost");
        bench.world.put("/etc/a", "by hand", 0o644);
        host = bench.host().await;
        assert!(host.round(&mut |_, _, _| {}).await.is_err());
        assert!(host.refused().contains("it is gone, though there was one"), "{}", host.refused());
        assert!(host.carry(Vec::new(), &mut |_, _, _| {}).await.is_err());
        let generation = if running { 4 } else { 3 };
        for (generation, sequence) in [(1, 9), (generation, 8), (generation, u64::MAX)] {
            let taken = host.accept(&bench.mesh.with(generation, sequence, &declared)).await;
            assert!(matches!(taken, Ok(Taken::Refused(Refusal::NoRecovery { .. }))), "{taken:?}");
        }
        assert_eq!(bench.world.text("/etc/a").as_deref(), Some("by hand"), "nothing was applied");
        follow(&mut host, &bench.mesh.with(generation + 1, 1, &declared)).await;
        round(&mut host).await;
        assert_eq!(bench.world.text("/etc/a").as_deref(), Some("x"));
        for (digest, content) in &kept {
            assert_eq!(bench.world.kept.borrow().get(digest), Some(content), "what stood there is not lost");
        }
        assert!(!bench.paths().ledger().join("journal.unreadable-1").exists());
    }
}

#[tokio::test]
async fn what_was_kept_outlives_a_ledger_that_a_person_moved_away_with_its_note() {
    let bench = Bench::new();
    bench.world.put("/etc/a", "a person's", 0o644);
    carry(&mut bench.host().await, list(&[file("a", "/etc/a", "x")])).await;
    let kept = bench.world.kept.borrow().clone();
    fs::remove_dir_all(bench.paths().ledger()).expect("moved");
    fs::remove_file(bench.paths().ledger_note()).expect("moved");
    for _ in 0..2 {
        carry(&mut bench.host().await, list(&[file("b", "/etc/b", "x")])).await;
    }
    assert_eq!(*bench.world.kept.borrow(), kept);
    assert_eq!(bench.world.text("/etc/a").as_deref(), Some("x"), "it is the person's now");
}

#[tokio::test]
async fn another_version_is_neither_applied_nor_failed_before_its_trial_is_over_and_told_in_words_after_it() {
    let bench = Bench::new();
    let mut host = bench.host().await;
    let declared = resources(&format!(
        r#"[{{"id": "host", "kind": "host", "spec": {{"version": "0.2.0", "source": "bundle", "digest": "sha256:{}"}}}},
            {}]"#,
        "01".repeat(32),
        file("a", "/etc/a", "x")
    ));
    let outcome = follow(&mut host, &bench.mesh.with(1, 1, &declared)).await;
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    let report = host.report().expect("a node");
    assert_eq!((report.applied, report.upgrade), (vec!["a".to_owned()], None));
    let program = bench.world.machine(Rc::new(NoEngine)).program;
    program.begin().expect("begun");
    let upgrade = host.report().expect("a node").upgrade.expect("told");
    assert!(upgrade.on_trial && upgrade.failed.is_empty());
    program.give_up("it cannot read the ledger").expect("given up");
    let outcome = round(&mut bench.host().await).await;
    assert!(failed(&outcome)[0].1.contains("is not tried again: it cannot read the ledger"), "{outcome:?}");
    let upgrade = bench.host().await.report().expect("a node").upgrade.expect("told");
    assert_eq!((upgrade.on_trial, upgrade.failed[0].reason.as_str()), (false, "it cannot read the ledger"));
}
