//! The contract of every kind, on an engine in memory. The same kinds on a real Podman: `tests/engine`.

mod replacement;

use std::{cell::RefCell, rc::Rc};

use super::{EngineStep, Executed, Execution, fake::FakeEngine};
use crate::{
    contract::{Bench, Case, holds},
    machine::{fake::World, files::Content},
    step::Step,
};

thread_local! {
    /// The engine of the bench in work: a case knows benches only.
    static ENGINE: RefCell<Option<Rc<FakeEngine>>> = const { RefCell::new(None) };
}

fn engine() -> Rc<FakeEngine> {
    ENGINE.with_borrow(|engine| Rc::clone(engine.as_ref().expect("a bench")))
}

fn bench() -> Bench {
    let world = World::bare();
    world.put("/etc/secret", "a password\n", 0o600);
    let engine = FakeEngine::new(&world.faults);
    ENGINE.with_borrow_mut(|held| *held = Some(Rc::clone(&engine)));
    let seen = Rc::clone(&engine);
    Bench { world, engine, engine_picture: Rc::new(move || seen.picture()) }
}

const IMAGE: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// A service on a network, with data, that reads a file.
fn service(digest: &str, text: &str) -> String {
    format!(
        r#"[{{"id": "n", "kind": "network", "spec": {{"name": "lan"}}}},
            {{"id": "v", "kind": "volume", "spec": {{"name": "data"}}}},
            {{"id": "f", "kind": "file", "spec": {{"path": "/etc/web", "content": {{"text": "{text}"}}}}}},
            {{"id": "c", "kind": "container", "after": ["n", "v", "f"], "spec": {{
              "name": "web", "image": "mesh/web@{digest}", "networks": ["lan"], "restart_on": ["f"],
              "mounts": [{{"source": "data", "target": "/data"}}, {{"source": "/etc/web", "target": "/etc/web"}}],
              "ready": {{"command": ["true"], "within_s": 5}}}}}}]"#
    )
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

#[tokio::test]
async fn a_service_with_its_network_its_volume_and_what_it_reads() {
    let case = Case {
        name: "service",
        machine: bench,
        first: leaked(service(IMAGE, "one")),
        second: leaked(service(OTHER, "one")),
        drift: |_| engine().end("web"),
    };
    holds(&case).await;
    holds(&Case { name: "service, taken away", drift: |_| engine().take("web"), ..case }).await;
    assert_eq!(engine().volumes(), ["data"], "data outlives everything");
}

/// A service that is asked while it runs.
fn asked(environment: &str) -> &'static str {
    leaked(format!(
        r#"[{{"id": "c", "kind": "container", "spec": {{"name": "web", "image": "mesh/web@{IMAGE}",
             "environment": {{"LANG": "{environment}"}},
             "ready": {{"http": {{"port": 80}}, "within_s": 5}}, "health": {{"interval_s": 1, "failures": 2}}}}}}]"#
    ))
}

#[tokio::test]
async fn a_service_that_does_not_answer_any_more() {
    let case = Case {
        name: "unwell",
        machine: bench,
        first: asked("C"),
        second: asked("C.UTF-8"),
        drift: |_| {
            engine().unwell.borrow_mut().insert("web".to_owned(), "it answers 503".to_owned());
        },
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_service_is_asked_for_as_long_as_it_runs_and_is_declared_so() {
    let (bench, folder) = (bench(), crate::contract::folder());
    crate::contract::converge(&bench, folder.path(), asked("C"), "asked").await;
    let watched = engine().watched.borrow().clone();
    assert_eq!(watched["web"].health.failures, 2);
    engine().unwell.borrow_mut().insert("web".to_owned(), "it answers 503".to_owned());
    let plan = crate::contract::host(&bench, folder.path()).await.plan().await;
    let steps: Vec<String> =
        plan.planned[0].steps.as_ref().expect("steps").iter().map(ToString::to_string).collect();
    assert_eq!(
        steps,
        [
            "stop the container web to restart it, because it is not well: it answers 503",
            "start the container web",
            "wait until the container web is ready (GET :80/, 5 s)"
        ]
    );
    let unasked = asked("C").replace(r#", "health": {"interval_s": 1, "failures": 2}"#, "");
    crate::contract::converge(&bench, folder.path(), &unasked, "not asked").await;
    assert!(engine().watched.borrow().is_empty());
}

#[tokio::test]
async fn what_is_not_ready_in_time_fails_with_its_last_answer_and_its_last_lines() {
    let (bench, folder) = (bench(), crate::contract::folder());
    engine().unready.borrow_mut().push(format!("mesh/web@{IMAGE}").parse().expect("an image"));
    let soon = asked("C").replace(r#""within_s": 5"#, r#""within_s": 0"#);
    let outcome = crate::contract::carry(&bench, folder.path(), &soon).await;
    let failed: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert_eq!(
        failed,
        [
            "wait until the container web is ready (GET :80/, 0 s): it was not ready within 0 s; asked last: it answers \
          503; its last lines: web says something"
        ]
    );
    // It runs on: a person may look at it, and it may become ready yet.
    engine().unready.borrow_mut().clear();
    crate::contract::converge(&bench, folder.path(), &soon, "ready at last").await;
    assert_eq!(engine().made.borrow()["web"], (1, 1));
    // What is private is said by nobody.
    engine().unready.borrow_mut().push(format!("mesh/web@{IMAGE}").parse().expect("an image"));
    let private = soon.replace(r#""name": "web""#, r#""name": "wob", "private_log": true"#);
    let outcome = crate::contract::carry(&bench, folder.path(), &private).await;
    let failed: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert!(
        failed[0].ends_with("; its log is private: `logs wob` of the engine shows it on the machine"),
        "{failed:?}"
    );
}

#[tokio::test]
async fn a_service_whose_file_changes() {
    let case = Case {
        name: "service and file",
        machine: bench,
        first: leaked(service(IMAGE, "one")),
        second: leaked(service(IMAGE, "two")),
        drift: |bench| bench.world.put("/etc/web", "by hand", 0o600),
    };
    holds(&case).await;
}

#[tokio::test]
async fn an_image() {
    fn image(digest: &str) -> &'static str {
        leaked(format!(
            r#"[{{"id": "i", "kind": "image", "spec": {{"image": "mesh/web@{digest}"}}}},
            {{"id": "f", "kind": "file", "after": ["i"], "spec": {{"path": "/etc/after", "content": {{"text": "x"}}}}}}]"#
        ))
    }
    let case = Case {
        name: "image",
        machine: bench,
        first: image(IMAGE),
        second: image(OTHER),
        // Images are in no picture; the file is.
        drift: |bench| {
            engine().take_images();
            bench.world.put("/etc/after", "by hand", 0o644);
        },
    };
    holds(&case).await;
    assert!(engine().images().is_empty(), "what was fetched goes");
}

#[tokio::test]
async fn an_image_goes_only_where_the_host_fetched_it_and_nobody_wants_it() {
    let (bench, folder) = (bench(), crate::contract::folder());
    let image = |id: &str, digest: &str| {
        format!(r#"{{"id": "{id}", "kind": "image", "spec": {{"image": "mesh/web@{digest}"}}}}"#)
    };
    let (fetched, found) = (format!("mesh/web@{IMAGE}"), format!("mesh/web@{OTHER}"));
    engine().load(&found.parse().expect("an image"));
    let all = format!("[{}, {}, {}]", image("a", IMAGE), image("b", IMAGE), image("c", OTHER));
    crate::contract::converge(&bench, folder.path(), &all, "all").await;
    assert_eq!(engine().images(), [found.clone(), fetched.clone()]);
    // Nobody has it any more: what goes is lost.
    engine().available.borrow_mut().push(found.parse().expect("an image"));
    crate::contract::converge(&bench, folder.path(), &format!("[{}]", image("b", IMAGE)), "one left").await;
    assert_eq!(engine().images(), [found.clone(), fetched], "another one wants it");
    // Who did not fetch it does not take it away.
    crate::contract::converge(&bench, folder.path(), "[]", "none left").await;
    assert_eq!(engine().images().first(), Some(&found), "it was there before");
}

#[tokio::test]
async fn a_volume_goes_only_where_its_data_was_released() {
    let (bench, folder) = (bench(), crate::contract::folder());
    let volume = |more: &str| {
        format!(
            r#"[{{"id": "v", "kind": "volume", "spec": {{"name": "data"{more}}}}},
            {{"id": "c", "kind": "container", "after": ["v"], "spec": {{"name": "web", "image": "mesh/web@{IMAGE}",
              "mounts": [{{"source": "data", "target": "/data"}}]}}}}]"#
        )
    };
    crate::contract::converge(&bench, folder.path(), &volume(""), "kept").await;
    let plan = crate::contract::host(&bench, folder.path()).await.plan_carried(&[]).await;
    let steps: Vec<String> = plan
        .planned
        .iter()
        .flat_map(|planned| planned.steps.as_ref().expect("steps"))
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        steps,
        [
            "stop the container web",
            "remove the container web",
            "keep the volume data and its data: it was not released"
        ],
        "the plan says so"
    );
    crate::contract::converge(&bench, folder.path(), "[]", "removed").await;
    assert_eq!(engine().volumes(), ["data"]);
    crate::contract::converge(&bench, folder.path(), &volume(r#", "released": true"#), "released").await;
    assert_eq!(engine().volumes(), ["data"], "released is not removed");
    crate::contract::converge(&bench, folder.path(), "[]", "removed").await;
    assert!(engine().volumes().is_empty());
}

#[tokio::test]
async fn a_network_is_replaced_only_while_nothing_is_in_it() {
    fn network(more: &str) -> &'static str {
        leaked(format!(
            r#"[{{"id": "n", "kind": "network", "spec": {{"name": "lan", "subnet": "10.9.0.0/24"{more}}}}}]"#
        ))
    }
    let case = Case {
        name: "network",
        machine: bench,
        first: network(""),
        second: network(r#", "internal": true"#),
        drift: |_| engine().take_network("lan"),
    };
    holds(&case).await;
    let (bench, folder) = (bench(), crate::contract::folder());
    let container = format!(
        r#", {{"id": "c", "kind": "container", "after": ["n"], "spec": {{"name": "web", "image": "mesh/web@{IMAGE}",
            "networks": ["lan"]}}}}]"#
    );
    let used = |more: &str| network(more).trim_end_matches(']').to_owned() + &container;
    crate::contract::converge(&bench, folder.path(), &used(""), "used").await;
    let outcome = crate::contract::carry(&bench, folder.path(), &used(r#", "internal": true"#)).await;
    let failed: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert_eq!(
        failed,
        [
            "it waits for n, which failed",
            "it is not internal, and it cannot be changed while containers are in it: web; take them out of it, or declare \
             a network of another name"
        ]
    );
    assert!(engine().running()["web"].1, "it runs on");
}

#[tokio::test]
async fn a_container_that_runs_to_its_end() {
    fn once(words: &str) -> &'static str {
        leaked(format!(
            r#"[{{"id": "c", "kind": "container", "spec": {{"name": "migrate", "lifecycle": "once",
                 "image": "mesh/control@{IMAGE}", "command": ["{words}"]}}}},
                {{"id": "f", "kind": "file", "after": ["c"], "spec": {{"path": "/etc/after", "content": {{"text": "x"}}}}}}]"#
        ))
    }
    let case = Case {
        name: "once",
        machine: || {
            let bench = bench();
            engine().ends_with.borrow_mut().insert("migrate".to_owned(), 0);
            bench
        },
        first: once("one"),
        second: once("two"),
        // What is left of it does not matter.
        drift: |bench| bench.world.put("/etc/after", "by hand", 0o644),
    };
    holds(&case).await;
}

#[tokio::test]
async fn a_container_that_ends_badly_fails_what_comes_after_it() {
    let bench = bench();
    engine().ends_with.borrow_mut().insert("migrate".to_owned(), 3);
    let machine = bench.world.machine(Rc::clone(&bench.engine));
    let folder = tempfile::tempdir().expect("a folder");
    let paths = crate::paths::Paths::under(folder.path());
    let mut host = crate::host::Host::open(&paths, machine, None).await.expect("a ledger");
    let resources = crate::contract::resources(&format!(
        r#"[{{"id": "c", "kind": "container", "spec": {{"name": "migrate", "lifecycle": "once", "image": "mesh/control@{IMAGE}"}}}},
            {{"id": "f", "kind": "file", "after": ["c"], "spec": {{"path": "/etc/after", "content": {{"text": "x"}}}}}}]"#
    ));
    let outcome = host.carry(resources, &mut |_, _, _| {}).await.expect("a round").clone();
    let failed: Vec<String> = outcome.failed.values().map(ToString::to_string).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed[0].contains("ended with 3"), "{failed:?}");
    assert_eq!(bench.world.text("/etc/after"), None);
    // Put right, it is run again, although nothing is declared otherwise.
    engine().ends_with.borrow_mut().insert("migrate".to_owned(), 0);
    assert!(host.round(&mut |_, _, _| {}).await.expect("a round").failed.is_empty());
    assert_eq!(engine().made.borrow()["migrate"], (2, 2));
    assert!(host.round(&mut |_, _, _| {}).await.expect("a round").failed.is_empty());
    assert_eq!(engine().made.borrow()["migrate"], (2, 2), "and not once more");
}

/// A PostgreSQL and a RabbitMQ that understand what the host says to them, and nothing else.
#[derive(Default)]
struct Servers {
    verifier: RefCell<Option<String>>,
    role: RefCell<bool>,
    owner: RefCell<Option<String>>,
    closed: RefCell<bool>,
    definitions: RefCell<Option<serde_json::Value>>,
}

fn said(code: i64, output: &str) -> Executed {
    Executed { code, output: Content::new(output.as_bytes()), errors: String::new() }
}

impl Servers {
    fn execute(&self, execution: &Execution) -> Executed {
        let input = String::from_utf8_lossy(execution.input.bytes()).into_owned();
        match execution.command.first().map(String::as_str) {
            Some("psql") => self.psql(&input),
            Some("sh") => {
                *self.definitions.borrow_mut() = serde_json::from_str(&input).ok();
                said(0, "")
            }
            Some("rabbitmqctl") => {
                // Options stand before the word and are not words themselves.
                let mut words = execution.command.iter().skip(1).filter(|word| !word.starts_with('-'));
                let word = words.find(|word| *word != "json").map_or("", String::as_str);
                self.rabbitmqctl(word)
            }
            _ => said(0, ""),
        }
    }

    fn psql(&self, sql: &str) -> Executed {
        if sql.contains("SELECT json_build_object") {
            let role = serde_json::json!({ "login": true, "powers": false, "member": false });
            let answer = serde_json::json!({
                "role": self.role.borrow().then_some(role),
                "verifier": *self.verifier.borrow(),
                "owner": *self.owner.borrow(),
                "open": if *self.closed.borrow() { vec![] } else { vec!["postgres", "template1"] },
            });
            return said(0, &answer.to_string());
        }
        if sql.contains("CREATE ROLE") {
            *self.role.borrow_mut() = true;
        }
        if let Some((_, rest)) = sql.split_once("PASSWORD '") {
            *self.verifier.borrow_mut() = rest.split('\'').next().map(str::to_owned);
        }
        if sql.contains("CREATE DATABASE") {
            *self.owner.borrow_mut() = Some("inventory".to_owned());
        }
        if sql.contains("\\connect template1") {
            *self.closed.borrow_mut() = true;
        }
        said(0, "")
    }

    fn rabbitmqctl(&self, word: &str) -> Executed {
        let definitions = self.definitions.borrow().clone();
        match word {
            "authenticate_user" => said(if definitions.is_some() { 0 } else { 65 }, ""),
            "list_users" if definitions.is_none() => said(0, "[]"),
            "list_users" => said(0, r#"[{"user": "control", "tags": ["administrator"]}]"#),
            "list_user_permissions" => {
                said(0, r#"[{"vhost": "link", "configure": ".*", "write": ".*", "read": ".*"}]"#)
            }
            _ => said(64, ""),
        }
    }
}

thread_local! {
    static SERVERS: RefCell<Rc<Servers>> = RefCell::default();
}

const SERVED: &str = r#"[
    {"id": "c", "kind": "container", "spec": {"name": "store",
     "image": "mesh/store@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    {"id": "d", "kind": "database", "after": ["c"], "spec": {"container": "store", "name": "inventory",
     "owner": "inventory", "password_file": "/etc/secret"}},
    {"id": "v", "kind": "vhost", "after": ["c"], "spec": {"container": "store", "name": "link", "account": "control",
     "password_file": "/etc/secret"}}]"#;

#[tokio::test]
async fn a_database_and_a_virtual_host() {
    let case = Case {
        name: "database and virtual host",
        machine: || {
            let bench = bench();
            let servers = Rc::new(Servers::default());
            SERVERS.with_borrow_mut(|held| *held = Rc::clone(&servers));
            *engine().program.borrow_mut() = Some(Box::new(move |execution| servers.execute(execution)));
            bench
        },
        first: SERVED,
        second: SERVED,
        drift: |_| engine().end("store"),
    };
    holds(&case).await;
    SERVERS.with_borrow(|servers| {
        assert!(servers.definitions.borrow().is_some() && servers.owner.borrow().is_some(), "data stays");
        assert!(
            !servers.definitions.borrow().as_ref().is_some_and(|it| it.to_string().contains("a password"))
        );
    });
}

#[test]
fn a_step_of_the_engine_never_prints_what_is_handed_over() {
    let execution = Execution::new("store", "set the password", &["psql"]).reading(b"hidden");
    let step = Step::Engine(EngineStep::Execute(execution));
    assert!(!format!("{step} {step:?}").contains("hidden"));
    assert_eq!(step.to_string(), "set the password (in the container store)");
}
