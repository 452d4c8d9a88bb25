//! One container in the place of another: whatever happens, one is left, and it is one that works where there is one.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use futures_util::FutureExt as _;

use super::{IMAGE, OTHER, bench, engine, leaked};
use crate::{
    contract::{Bench, Case, carry, converge, folder, holds, host},
    reconcile::Outcome,
};

/// A web server that is asked whether it is ready, with a network of its own.
fn web(digest: &str, more: &str) -> String {
    format!(
        r#"[{{"id": "n", "kind": "network", "spec": {{"name": "lan"}}}},
            {{"id": "f", "kind": "file", "spec": {{"path": "/etc/web", "content": {{"text": "one"}}}}}},
            {{"id": "c", "kind": "container", "after": ["n"], "spec": {{"name": "web", "image": "mesh/web@{digest}",
              "networks": ["lan"], "restart_on": ["f"], "ready": {{"tcp": 80, "within_s": 0}}{more}}}}}]"#
    )
}

const BESIDE: &str = r#", "replace": "start-first""#;
const BINDS: &str = r#", "ports": [{"host": 8080, "container": 80}]"#;

fn image(digest: &str) -> String {
    format!("mesh/web@{digest}")
}

fn one(name: &str, digest: &str) -> BTreeMap<String, (String, bool)> {
    BTreeMap::from([(name.to_owned(), (image(digest), true))])
}

/// The engine's clock is that of the machine: what failed a moment ago is not tried again.
fn in_time() -> Bench {
    let bench = bench();
    engine().now.set(bench.world.now.get());
    bench
}

/// With time for a second question: an answer that was lost is no judgement.
fn patient(json: &str) -> &'static str {
    leaked(json.replace(r#""within_s": 0"#, r#""within_s": 5"#))
}

fn never_ready(digest: &str) {
    engine().unready.borrow_mut().push(image(digest).parse().expect("an image"));
}

fn words(outcome: &Outcome) -> String {
    outcome.failed.values().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

async fn planned(bench: &Bench, folder: &std::path::Path, json: &str) -> Vec<String> {
    let declared: Vec<_> = crate::contract::resources(json).into_iter().map(Ok).collect();
    let plan = host(bench, folder).await.plan_carried(&declared).await;
    let steps = plan.planned.iter().flat_map(|planned| planned.steps.as_ref().expect("steps"));
    steps.map(ToString::to_string).collect()
}

#[tokio::test]
async fn whatever_goes_wrong_in_a_replacement_one_container_is_left() {
    let case = Case {
        name: "stop first",
        machine: in_time,
        first: patient(&web(IMAGE, BINDS)),
        second: patient(&web(OTHER, BINDS)),
        drift: |_| engine().take("web"),
    };
    holds(&case).await;
    let (first, second) = (patient(&web(IMAGE, BESIDE)), patient(&web(OTHER, BESIDE)));
    holds(&Case { name: "start first", first, second, ..case }).await;
    // What it reads changes together with what it is.
    let second = patient(&web(OTHER, BESIDE).replace(r#""text": "one""#, r#""text": "two""#));
    holds(&Case { name: "start first, and a file", first, second, ..case }).await;
    let second = patient(&web(OTHER, "").replace(r#""text": "one""#, r#""text": "two""#));
    holds(&Case { name: "stop first, and a file", first, second, ..case }).await;
}

#[tokio::test]
async fn the_old_one_is_stopped_last_or_first_as_declared() {
    let (bench, folder) = (bench(), folder());
    converge(&bench, folder.path(), &web(IMAGE, ""), "first").await;
    let make = format!("make the container web from {}", image(OTHER));
    let get = format!("get the image {}", image(OTHER));
    let stop = "stop the container web to replace it, because its declaration changed";
    let place = "put the new container web in its place; the old one is kept until that is ready";
    assert_eq!(
        planned(&bench, folder.path(), &web(OTHER, "")).await,
        [
            &get,
            &make,
            stop,
            place,
            "start the container web",
            "wait until the container web is ready (port 80, 0 s)",
            "remove the container web.mesh-old"
        ]
    );
    assert_eq!(
        planned(&bench, folder.path(), &web(OTHER, BESIDE)).await,
        [
            &get,
            &make,
            "start the container web.mesh-next",
            "wait until the container web.mesh-next is ready (port 80, 0 s)",
            stop,
            place,
            "remove the container web.mesh-old"
        ]
    );
}

#[tokio::test]
async fn an_image_that_cannot_be_fetched_leaves_what_runs_untouched() {
    let (bench, folder) = (bench(), folder());
    engine().available.borrow_mut().push(image(IMAGE).parse().expect("an image"));
    for more in ["", BESIDE] {
        converge(&bench, folder.path(), &web(IMAGE, more), "first").await;
        let (before, made) = (engine().running(), engine().made.borrow().clone());
        let outcome = carry(&bench, folder.path(), &web(OTHER, more)).await;
        assert_eq!(words(&outcome), format!("get the image {}: it is nowhere", image(OTHER)));
        assert_eq!((engine().running(), engine().made.borrow().clone()), (before, made), "untouched");
        assert_eq!(engine().running(), one("web", IMAGE));
    }
}

#[tokio::test]
async fn one_that_does_not_become_ready_gives_the_place_back() {
    for more in ["", BESIDE] {
        let (bench, folder) = (bench(), folder());
        engine().now.set(bench.world.now.get());
        converge(&bench, folder.path(), &web(IMAGE, more), "first").await;
        never_ready(OTHER);
        let told = words(&carry(&bench, folder.path(), &web(OTHER, more)).await);
        assert!(
            told.contains("it was not ready within 0 s; asked last: it answers 503; its last lines: ")
                && told.ends_with("; the container before it was put back and started"),
            "{told}"
        );
        let mut left = one("web", IMAGE);
        left.insert("web.mesh-failed".to_owned(), (image(OTHER), false));
        assert_eq!(engine().running(), left);

        // It is not tried again and again: each try takes the old one away for a while.
        let made = engine().made.borrow().clone();
        let told = words(&carry(&bench, folder.path(), &web(OTHER, more)).await);
        assert!(
            told.starts_with("as declared it did not become ready when it was tried (it ended with "),
            "{told}"
        );
        assert_eq!((engine().running(), engine().made.borrow().clone()), (left.clone(), made.clone()));
        // But the old one is kept running.
        engine().end("web");
        assert!(!carry(&bench, folder.path(), &web(OTHER, more)).await.failed.is_empty());
        assert_eq!(engine().running(), left);

        // Once what it reads is another, it is.
        engine().unready.borrow_mut().clear();
        let read = web(OTHER, more).replace(r#""text": "one""#, r#""text": "two""#);
        converge(&bench, folder.path(), &read, "what it reads changed").await;
        assert_eq!(engine().running(), one("web", OTHER), "nothing is left of it");
    }
}

#[tokio::test]
async fn what_did_not_become_ready_is_tried_again_after_an_hour_or_when_it_is_removed_or_when_told_otherwise()
{
    for then in ["an hour", "removed", "otherwise", "clock"] {
        let (bench, folder) = (bench(), folder());
        engine().now.set(bench.world.now.get());
        converge(&bench, folder.path(), &web(IMAGE, ""), "first").await;
        never_ready(OTHER);
        carry(&bench, folder.path(), &web(OTHER, "")).await;
        engine().unready.borrow_mut().clear();
        assert!(!carry(&bench, folder.path(), &web(OTHER, "")).await.failed.is_empty(), "not yet");
        let mut expected = OTHER;
        match then {
            "an hour" => bench.world.now.set(bench.world.now.get() + 3600),
            "clock" => bench.world.now.set(bench.world.now.get() - 1),
            "removed" => engine().take("web.mesh-failed"),
            _ => expected = IMAGE,
        }
        converge(&bench, folder.path(), &web(expected, ""), then).await;
        assert_eq!(engine().running(), one("web", expected), "{then}");
    }
}

/// Carries until it is done or killed after the `k`-th operation; whether it was killed.
async fn killed_after(k: u64, bench: &Bench, folder: &std::path::Path, json: &str) -> bool {
    bench.world.faults.kill_after(k);
    let run = AssertUnwindSafe(carry(bench, folder, json)).catch_unwind().await;
    bench.world.faults.none();
    run.is_err()
}

#[tokio::test]
async fn whenever_the_host_is_killed_one_that_does_not_become_ready_gives_the_place_back() {
    let read = |json: String| json.replace(r#""text": "one""#, r#""text": "two""#);
    let second = [web(OTHER, ""), web(OTHER, BESIDE), read(web(OTHER, "")), read(web(OTHER, BESIDE))];
    for second in &second {
        for k in 1.. {
            let (bench, folder) = (in_time(), folder());
            converge(&bench, folder.path(), &web(IMAGE, ""), "first").await;
            never_ready(OTHER);
            let killed = killed_after(k, &bench, folder.path(), second).await;
            // What was found wanting before the kill is not tried again.
            carry(&bench, folder.path(), second).await;
            let running = engine().running();
            assert_eq!(running.get("web"), Some(&(image(IMAGE), true)), "{k}: {second}: {running:?}");
            assert!(
                running.keys().all(|name| name == "web" || name == "web.mesh-failed"),
                "{k}: {running:?}"
            );
            if !killed {
                assert!(k > 10, "{k} operations were tried");
                break;
            }
        }
    }
}

#[tokio::test]
async fn one_that_was_started_beside_another_is_not_taken_once_what_it_reads_changed() {
    let read = |text: &str| web(OTHER, BESIDE).replace(r#""text": "one""#, &format!(r#""text": "{text}""#));
    for k in 1.. {
        let (bench, folder) = (in_time(), folder());
        converge(&bench, folder.path(), &web(IMAGE, BESIDE), "first").await;
        assert!(killed_after(k, &bench, folder.path(), &read("one")).await, "it was never started beside it");
        if engine().running().get("web.mesh-next") == Some(&(image(OTHER), true)) {
            converge(&bench, folder.path(), &read("two"), "it reads another file").await;
            assert_eq!(engine().running(), one("web", OTHER));
            assert_eq!(engine().made.borrow()["web.mesh-next"].0, 2, "it was made anew");
            return;
        }
    }
}

#[tokio::test]
async fn one_that_cannot_be_started_gives_the_place_back() {
    let (bench, folder) = (bench(), folder());
    engine().now.set(bench.world.now.get());
    converge(&bench, folder.path(), &web(IMAGE, ""), "first").await;
    engine().taken_ports.borrow_mut().push(8080);
    let told = words(&carry(&bench, folder.path(), &web(OTHER, BINDS)).await);
    assert_eq!(
        told,
        "start the container web: the port 8080 is in use; the container before it was put back and started"
    );
    assert_eq!(engine().running().get("web"), Some(&(image(IMAGE), true)));
}

#[tokio::test]
async fn a_replacement_because_of_what_it_reads_is_no_drift() {
    let (bench, folder) = (bench(), folder());
    converge(&bench, folder.path(), &web(IMAGE, ""), "first").await;
    let read = web(IMAGE, "").replace(r#""text": "one""#, r#""text": "two""#);
    let outcome = carry(&bench, folder.path(), &read).await;
    assert!(outcome.failed.is_empty() && outcome.steps > 3, "{outcome:?}");
    assert_eq!(outcome.drifted, 0);
    assert_eq!(engine().made.borrow()["web.mesh-next"].0, 1, "it was replaced");
}

#[tokio::test]
async fn removal_takes_what_is_left_of_a_replacement_with_it() {
    let (bench, folder) = (bench(), folder());
    engine().now.set(bench.world.now.get());
    converge(&bench, folder.path(), &web(IMAGE, ""), "first").await;
    never_ready(OTHER);
    carry(&bench, folder.path(), &web(OTHER, "")).await;
    assert_eq!(engine().running().len(), 2);
    converge(&bench, folder.path(), "[]", "removed").await;
    assert!(engine().running().is_empty());
}
