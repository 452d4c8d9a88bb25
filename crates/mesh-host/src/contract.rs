//! What every kind keeps, tried on a machine in memory: it converges; applied twice is applied once; removal puts back
//! what was there; removal without apply is fine; killed after any operation, or failing at any, the next run converges;
//! the same input gives the same plan.
//!
//! A kind adds a [`Case`] in the list at the end, and has all of that tried.

mod file_check;
mod sysctl;
mod timer;
mod unit;
mod user;

use std::{panic::AssertUnwindSafe, path::Path, rc::Rc};

use futures_util::FutureExt as _;
use mesh_wire::{LocalDeclaration, Resource};

use crate::{
    host::Host,
    machine::{
        Machine,
        engine::Engine,
        fake::{Killed, World, root},
    },
    paths::Paths,
    reconcile::Outcome,
};

/// A machine and what is declared for it.
pub(crate) struct Case {
    /// For messages.
    pub(crate) name: &'static str,
    /// What stands on the machine before.
    pub(crate) machine: fn() -> Bench,
    /// What is declared, as JSON: `[{"id": …}]`.
    pub(crate) first: &'static str,
    /// What is declared afterwards, the same ids.
    pub(crate) second: &'static str,
    /// What a person changes by hand, of everything that is declared.
    pub(crate) drift: fn(&Bench),
}

/// A machine in memory.
pub(crate) struct Bench {
    pub(crate) world: Rc<World>,
    pub(crate) engine: Rc<dyn Engine>,
    /// What the engine has, for comparison.
    pub(crate) engine_picture: Rc<dyn Fn() -> String>,
}

impl Bench {
    /// One without an engine.
    pub(crate) fn without_engine() -> Self {
        let engine: Rc<dyn Engine> = Rc::new(crate::machine::engine::NoEngine);
        Self { world: World::bare(), engine, engine_picture: Rc::new(String::new) }
    }

    fn machine(&self) -> Machine {
        self.world.machine(Rc::clone(&self.engine))
    }

    fn picture(&self) -> String {
        format!("{}\n{}", self.world.picture(), (self.engine_picture)())
    }
}

pub(crate) fn resources(json: &str) -> Vec<Resource> {
    let text = format!("{{\"resources\": {json}}}");
    let declared = LocalDeclaration::read(text.as_bytes()).expect("resources");
    declared.resources().into_iter().map(|resource| resource.expect("a resource")).collect()
}

/// A host on the bench's machine, with its ledger in this folder.
pub(crate) async fn host(bench: &Bench, folder: &Path) -> Host {
    Host::open(&Paths::under(folder), bench.machine(), None).await.expect("the ledger opens")
}

/// Carries as far as it gets: a process that cannot even open its ledger ends.
async fn try_to_carry(bench: &Bench, folder: &Path, json: &str) {
    if let Ok(mut host) = Host::open(&Paths::under(folder), bench.machine(), None).await {
        host.carry(resources(json), &mut |_, _, _| {}).await.expect("the ledger is written");
    }
}

pub(crate) async fn carry(bench: &Bench, folder: &Path, json: &str) -> Outcome {
    let mut host = host(bench, folder).await;
    host.carry(resources(json), &mut |_, _, _| {}).await.expect("the ledger is written").clone()
}

/// Carries, and demands that nothing fails and nothing is left to do.
pub(crate) async fn converge(bench: &Bench, folder: &Path, json: &str, when: &str) {
    let outcome = carry(bench, folder, json).await;
    assert!(outcome.failed.is_empty(), "{when}: {:?}", outcome.failed);
    let plan = host(bench, folder).await.plan().await;
    assert!(plan.is_empty(), "{when}, there is still to do: {:?}", plan.planned);
}

/// In memory where the machine has it: thousands of ledgers are begun here, and losing them is another test's matter.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

const NOTHING: &str = "[]";

async fn it_converges_and_twice_is_once(case: &Case) {
    let (bench, folder) = ((case.machine)(), folder());
    let plans = [host(&bench, folder.path()).await.plan_carried(&declared(case.first)).await, {
        host(&bench, folder.path()).await.plan_carried(&declared(case.first)).await
    }];
    assert_eq!(
        format!("{:?}", plans[0].planned),
        format!("{:?}", plans[1].planned),
        "{}: same plan",
        case.name
    );
    converge(&bench, folder.path(), case.first, case.name).await;
    let picture = bench.picture();
    let again = carry(&bench, folder.path(), case.first).await;
    assert_eq!(again.steps, 0, "{}: applied twice", case.name);
    assert_eq!(bench.picture(), picture, "{}: applied twice", case.name);
}

fn declared(json: &str) -> Vec<crate::reconcile::Declared> {
    resources(json).into_iter().map(Ok).collect()
}

async fn removal_puts_back_what_was_there(case: &Case) {
    let (bench, folder) = ((case.machine)(), folder());
    let before = bench.picture();
    let nothing = carry(&bench, folder.path(), NOTHING).await;
    assert_eq!((nothing.steps, bench.picture()), (0, before.clone()), "{}: removal without apply", case.name);
    converge(&bench, folder.path(), case.first, case.name).await;
    converge(&bench, folder.path(), case.second, case.name).await;
    converge(&bench, folder.path(), NOTHING, case.name).await;
    assert_eq!(bench.picture(), before, "{}: after removal", case.name);
    assert!(bench.world.kept.borrow().is_empty(), "{}: what was kept is forgotten", case.name);
}

async fn drift_is_repaired_and_told_once(case: &Case) {
    let (bench, folder) = ((case.machine)(), folder());
    converge(&bench, folder.path(), case.first, case.name).await;
    let picture = bench.picture();
    (case.drift)(&bench);
    assert_ne!(bench.picture(), picture, "{}: the drift is one", case.name);
    let mut host = host(&bench, folder.path()).await;
    let outcome = host.round(&mut |_, _, _| {}).await.expect("a round").clone();
    assert!(outcome.failed.is_empty() && outcome.drifted > 0, "{}: {outcome:?}", case.name);
    assert_eq!(bench.picture(), picture, "{}: repaired", case.name);
    host.round(&mut |_, _, _| {}).await.expect("a round");
    let drift = &host.memory().drift;
    assert_eq!(drift.len(), outcome.drifted, "{}: told once", case.name);
    assert!(
        drift.iter().all(|drift| drift.repaired_at.is_some() && !drift.found.is_empty()),
        "{}",
        case.name
    );
}

fn observed(json: &str) -> String {
    let only_observed =
        resources(json).into_iter().map(|resource| Resource { observe_only: true, ..resource });
    serde_json::to_string(&only_observed.collect::<Vec<_>>()).expect("JSON")
}

async fn what_is_only_observed_is_never_touched(case: &Case) {
    let (bench, folder) = ((case.machine)(), folder());
    let untouched = bench.picture();
    carry(&bench, folder.path(), &observed(case.first)).await;
    carry(&bench, folder.path(), NOTHING).await;
    assert_eq!(bench.picture(), untouched, "{}: observed from the beginning", case.name);
    converge(&bench, folder.path(), case.first, case.name).await;
    let outcome = carry(&bench, folder.path(), &observed(case.first)).await;
    assert_eq!((outcome.steps, outcome.drifted), (0, 0), "{}: handed over: {outcome:?}", case.name);
    assert!(
        outcome.failed.is_empty() && outcome.observed.values().all(Vec::is_empty),
        "{}: {outcome:?}",
        case.name
    );
    (case.drift)(&bench);
    let drifted = bench.picture();
    let outcome = carry(&bench, folder.path(), &observed(case.first)).await;
    assert_eq!((outcome.steps, bench.picture()), (0, drifted.clone()), "{}: observed", case.name);
    assert!(outcome.drifted + outcome.failed.len() > 0, "{}: and told: {outcome:?}", case.name);
    let outcome = carry(&bench, folder.path(), &observed(case.first)).await;
    assert_eq!(outcome.drifted, 0, "{}: once", case.name);
    // What stood there before it was kept is not forgotten while it is observed.
    let kept_again = folder.path().to_owned();
    converge(&bench, &kept_again, case.first, case.name).await;
    converge(&bench, &kept_again, NOTHING, case.name).await;
    assert_eq!(bench.picture(), untouched, "{}: kept again and removed", case.name);
    converge(&bench, folder.path(), case.first, case.name).await;
    carry(&bench, folder.path(), &observed(case.first)).await;
    let applied = bench.picture();
    let outcome = carry(&bench, folder.path(), NOTHING).await;
    assert_eq!((outcome.steps, bench.picture()), (0, applied), "{}: nor removed", case.name);
    assert!(bench.world.kept.borrow().is_empty(), "{}: what was kept is forgotten", case.name);
}

/// What is done with the machine, from a state that was reached without faults.
struct Passage<'a> {
    name: &'a str,
    reached: &'a [&'a str],
    then: &'a str,
}

/// Returns at how many operations something went wrong.
async fn whatever_goes_wrong_the_next_run_converges(case: &Case, passage: &Passage<'_>, kill: bool) -> u64 {
    let what =
        format!("{}, {}, {}", case.name, passage.name, if kill { "killed after" } else { "failing at" });
    let (bench, at) = ((case.machine)(), folder());
    let before = bench.picture();
    for json in passage.reached.iter().chain([&passage.then]) {
        converge(&bench, at.path(), json, &what).await;
    }
    let (wanted, mut k) = (bench.picture(), 0);
    loop {
        k += 1;
        let (bench, at) = ((case.machine)(), folder());
        for json in passage.reached {
            converge(&bench, at.path(), json, &what).await;
        }
        if kill {
            bench.world.faults.kill_after(k);
        } else {
            bench.world.faults.fail_at(k);
        }
        let run = AssertUnwindSafe(try_to_carry(&bench, at.path(), passage.then)).catch_unwind().await;
        let happened = bench.world.faults.count() >= k;
        bench.world.faults.none();
        match run {
            Err(end) if end.downcast_ref() == Some(&Killed) => {}
            Err(end) => std::panic::resume_unwind(end),
            Ok(()) if !happened => return k - 1,
            Ok(()) => {}
        }
        let when = format!("{what} operation {k}");
        converge(&bench, at.path(), passage.then, &when).await;
        assert_eq!(bench.picture(), wanted, "{when}: as without it");
        for (unit, (path, read)) in bench.world.reads.borrow().iter() {
            let runs = bench.world.units.borrow().get(unit).is_some_and(|unit| unit.active);
            let there = bench
                .world
                .text(path)
                .map(|text| crate::machine::files::Content::new(text.as_bytes()).digest());
            assert!(!runs || *read == there, "{when}: {unit} runs with an old {path}");
        }
        converge(&bench, at.path(), NOTHING, &when).await;
        assert_eq!(bench.picture(), before, "{when}: after removal");
    }
}

pub(crate) async fn holds(case: &Case) {
    it_converges_and_twice_is_once(case).await;
    removal_puts_back_what_was_there(case).await;
    drift_is_repaired_and_told_once(case).await;
    what_is_only_observed_is_never_touched(case).await;
    let passages = [
        Passage { name: "applied", reached: &[], then: case.first },
        Passage { name: "changed", reached: &[case.first], then: case.second },
        Passage { name: "removed", reached: &[case.first], then: NOTHING },
    ];
    for passage in &passages {
        for kill in [true, false] {
            let points = whatever_goes_wrong_the_next_run_converges(case, passage, kill).await;
            assert!(points >= 2, "{}: {points} operations were tried", case.name);
        }
    }
}

#[tokio::test]
async fn a_file_that_was_not_there() {
    let case = Case {
        name: "new file",
        machine: Bench::without_engine,
        first: r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/new", "content": {"text": "one"}}}]"#,
        second: r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/new", "content": {"text": "two"}, "mode": "0600"}}]"#,
        drift: |bench| {
            bench.world.tree.borrow_mut().remove("/etc/new");
        },
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_file_that_replaces_one() {
    let case = Case {
        name: "replaced file",
        machine: || {
            let bench = Bench::without_engine();
            bench.world.put("/etc/motd", "a person's words", 0o640);
            bench
        },
        first: r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/motd", "content": {"text": "one"}}}]"#,
        // First declared as it stood, so that only the third text would replace it: what stood there is kept then too.
        second: r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/motd", "content": {"text": "a person's words"}}}]"#,
        drift: |bench| bench.world.put("/etc/motd", "changed by hand", 0o644),
    };
    holds(&case).await;
    let turned =
        Case { name: "replaced file, adopted first", first: case.second, second: case.first, ..case };
    holds(&turned).await;
}

#[tokio::test]
async fn a_file_that_moves() {
    let case = Case {
        name: "moved file",
        machine: || {
            let bench = Bench::without_engine();
            bench.world.put("/etc/a", "old a", 0o644);
            bench
        },
        first: r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/a", "content": {"text": "one"}}}]"#,
        second: r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/b", "content": {"text": "one"}}}]"#,
        drift: |bench| bench.world.put("/etc/a", "by hand", 0o600),
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_directory_with_a_file_in_it() {
    let case = Case {
        name: "directory",
        machine: Bench::without_engine,
        first: r#"[{"id": "d", "kind": "directory", "spec": {"path": "/opt/x", "mode": "0700"}},
                   {"id": "f", "kind": "file", "spec": {"path": "/opt/x/f", "content": {"text": "one"}}}]"#,
        second: r#"[{"id": "d", "kind": "directory", "spec": {"path": "/opt/x"}},
                    {"id": "f", "kind": "file", "spec": {"path": "/opt/x/f", "content": {"text": "one"}}}]"#,
        drift: |bench| {
            bench.world.tree.borrow_mut().remove("/opt/x/f");
            bench.world.tree.borrow_mut().remove("/opt/x");
        },
    };
    holds(&case).await;
}

#[tokio::test]
async fn packages_of_which_one_was_installed() {
    let case = Case {
        name: "packages",
        machine: || {
            let bench = Bench::without_engine();
            bench.world.installed.borrow_mut().insert("curl".to_owned());
            bench
        },
        first: r#"[{"id": "p", "kind": "package", "spec": {"names": ["curl", "jq"]}}]"#,
        second: r#"[{"id": "p", "kind": "package", "spec": {"names": ["tree"]}}]"#,
        drift: |bench| {
            bench.world.installed.borrow_mut().remove("jq");
        },
    };
    holds(&case).await;
}

const UNIT_ONE: &str = r#"[
    {"id": "conf", "kind": "file", "spec": {"path": "/etc/hello.conf", "content": {"text": "one"}}},
    {"id": "u", "kind": "unit", "after": ["conf"], "spec": {"name": "hello.service", "content": "[Service]\n[Install]\n",
     "enabled": true, "active": true, "restart_on": ["conf"]}}]"#;
const UNIT_TWO: &str = r#"[
    {"id": "conf", "kind": "file", "spec": {"path": "/etc/hello.conf", "content": {"text": "two"}}},
    {"id": "u", "kind": "unit", "after": ["conf"], "spec": {"name": "hello.service", "content": "[Service]\n[Install]\n",
     "enabled": true, "active": true, "restart_on": ["conf"]}}]"#;

fn reading(bench: Bench) -> Bench {
    let reads = ("/etc/hello.conf".to_owned(), None);
    bench.world.reads.borrow_mut().insert("hello.service".to_owned(), reads);
    bench
}

#[tokio::test]
async fn a_unit_with_what_it_reads() {
    let case = Case {
        name: "unit",
        machine: || reading(Bench::without_engine()),
        first: UNIT_ONE,
        second: UNIT_TWO,
        drift: |bench| {
            let mut units = bench.world.units.borrow_mut();
            let unit = units.get_mut("hello.service").expect("the unit");
            (unit.active, unit.enabled) = (false, false);
        },
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_unit_whose_file_changes() {
    let case = Case {
        name: "unit file",
        machine: Bench::without_engine,
        first: r#"[{"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n#1\n", "active": true}}]"#,
        second: r#"[{"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n#2\n", "active": true}}]"#,
        drift: |bench| bench.world.put("/etc/systemd/system/a.service", "by hand", 0o600),
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_unit_that_replaces_one_that_ran() {
    let case = Case {
        name: "replaced unit",
        machine: || {
            let bench = Bench::without_engine();
            bench.world.put("/etc/systemd/system/a.service", "[Service]\n#old\n[Install]\n", 0o644);
            let read = Some(crate::machine::files::Content::new(b"[Service]\n#old\n[Install]\n").digest());
            let unit = crate::machine::fake::FakeUnit {
                with: read.clone(),
                read,
                active: true,
                enabled: true,
                idle: crate::machine::fake::Idle::Ended,
            };
            bench.world.units.borrow_mut().insert("a.service".to_owned(), unit);
            bench
        },
        first: r#"[{"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n#1\n", "active": true}}]"#,
        second: r#"[{"id": "u", "kind": "unit", "spec": {"name": "a.service", "content": "[Service]\n#2\n[Install]\n",
                    "active": false, "enabled": false}}]"#,
        drift: |bench| bench.world.put("/etc/systemd/system/a.service", "by hand", 0o644),
    };
    holds(&case).await;
}

#[tokio::test]
async fn another_version_of_the_host() {
    let case = Case {
        name: "host",
        machine: Bench::without_engine,
        first: r#"[{"id": "h", "kind": "host", "spec": {"version": "0.2.0", "source": "bundle",
                    "digest": "sha256:0101010101010101010101010101010101010101010101010101010101010101"}}]"#,
        second: r#"[{"id": "h", "kind": "host", "spec": {"version": "0.3.0", "source": {"path": "/srv/mesh-host"},
                     "digest": "sha256:0202020202020202020202020202020202020202020202020202020202020202"}}]"#,
        // A person tidies up.
        drift: |bench| bench.world.program.borrow_mut().state.trial = None,
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_changed_file_restarts_its_unit_once_and_a_repaired_one_too() {
    let (bench, folder) = (reading(Bench::without_engine()), folder());
    let starts =
        |bench: &Bench| bench.world.starts.borrow().get("hello.service").copied().unwrap_or_default();
    converge(&bench, folder.path(), UNIT_ONE, "first").await;
    assert_eq!((starts(&bench), bench.world.reloads.get()), (1, 1));
    converge(&bench, folder.path(), UNIT_TWO, "second").await;
    assert_eq!(
        (starts(&bench), bench.world.reloads.get()),
        (2, 1),
        "restarted, and no unit file was read again"
    );
    bench.world.tree.borrow_mut().insert(
        "/etc/hello.conf".to_owned(),
        crate::machine::fake::Node::File(crate::machine::files::Content::new(b"by hand"), root(0o644)),
    );
    converge(&bench, folder.path(), UNIT_TWO, "repaired").await;
    assert_eq!(starts(&bench), 3, "what it read may have been the changed file");
}

#[tokio::test]
async fn many_units_cost_one_reload() {
    let (bench, folder) = (Bench::without_engine(), folder());
    let units: Vec<String> = (0..10)
        .map(|n| {
            format!(
                r#"{{"id": "f{n}", "kind": "file", "spec": {{"path": "/etc/{n}.conf", "content": {{"text": "x"}}}}}},
                   {{"id": "u{n}", "kind": "unit", "after": ["f{n}"], "spec": {{"name": "u{n}.service", "content": "[Service]\n", "active": true}}}}"#
            )
        })
        .collect();
    converge(&bench, folder.path(), &format!("[{}]", units.join(",")), "ten units").await;
    assert_eq!(bench.world.reloads.get(), 1);
}

#[tokio::test]
async fn what_does_not_stay_as_declared_is_tried_ever_more_rarely_and_told_so() {
    let (bench, folder) = (Bench::without_engine(), folder());
    let mut host = host(&bench, folder.path()).await;
    host.carry(resources(UNIT_ONE), &mut |_, _, _| {}).await.expect("carried");
    let mut repairs = 0;
    // A minute of a unit that ends at once, looked at every second.
    for _ in 0..60 {
        bench.world.units.borrow_mut().get_mut("hello.service").expect("the unit").active = false;
        bench.world.now.set(bench.world.now.get() + 1);
        let outcome = host.round(&mut |_, _, _| {}).await.expect("a round");
        repairs += outcome.drifted;
        let failed = outcome.failed.values().next().map(ToString::to_string);
        assert_eq!(failed.is_some(), outcome.again_in.is_some());
        assert!(
            failed.is_none_or(|why| why == "it does not stay as declared (tried again, ever more rarely)")
        );
    }
    assert!((4..=8).contains(&repairs), "{repairs} repairs in a minute");
    // Declared otherwise, it is tried at once.
    let outcome = host.carry(resources(UNIT_TWO), &mut |_, _, _| {}).await.expect("carried");
    assert!(outcome.failed.is_empty(), "{outcome:?}");
}
