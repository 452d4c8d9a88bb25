//! `mesh apply` and `mesh module remove` wait for the nodes, also where the control plane is away for a while.

use crate::played::{Answers, Ended, HANGS_UP, Played, problem};

const PLAN: &str = "POST /v1/plans";
const CHANGE: &str = "POST /v1/changes";
const SHOW: &str = "GET /v1/modules/hello";
const WATCH: &str = "GET /v1/modules/watch?after=1-1";

fn answers(show: (u16, String)) -> Answers {
    let step = r#"{"action":"add","resource":"hello/file:/a","details":[]}"#;
    let plan = format!(r#"{{"module":"hello","index":"0","nodes":[{{"node":"node-1","steps":[{step}]}}]}}"#);
    let applied = r#"{"module":"hello","nodes":["node-1"],"cursor":"1-1"}"#.to_owned();
    Answers::from([
        (PLAN, (200, plan)),
        (CHANGE, (200, applied)),
        (SHOW, show),
        (WATCH, (200, String::new())),
    ])
}

fn hello(state: &str) -> (u16, String) {
    let instance = format!(r#"{{"node":"node-1","state":"{state}","failed":{{}}}}"#);
    (200, format!(r#"{{"name":"hello","version":"1","instances":[{instance}]}}"#))
}

fn away() -> (u16, String) {
    (503, problem(503, "unavailable", "try again in a few seconds"))
}

fn gone() -> (u16, String) {
    (404, problem(404, "not_found", "there is no module hello"))
}

async fn apply(played: &Played, more: &[&str]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("module.toml");
    let text = "name='hello'\nversion='1'\nplacement.every_node=true\n[[file]]\npath='/a'\ncontent=''\n";
    std::fs::write(&file, text).unwrap();
    played.mesh(&[&["apply", "-f", file.to_str().unwrap()], more].concat()).await
}

#[tokio::test]
async fn a_control_plane_that_is_away_after_it_accepted_is_waited_for() {
    let hung_up = || (HANGS_UP, String::new());
    let first = || {
        [
            (WATCH, vec![hung_up(), away(), (200, String::new())]),
            (SHOW, vec![hello("pending"), hung_up(), away()]),
        ]
    };
    let played = Played::start_in_turn(first(), answers(hello("applied"))).await;
    let ended = apply(&played, &[]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("node-1: applied"), "{}", ended.stderr);
    let said = "the control plane does not answer; waiting for it, and the change stays declared";
    assert_eq!(ended.stderr.matches(said).count(), 1, "{}", ended.stderr);

    let [watch, _] = first();
    let show = (SHOW, vec![hello("removing"), hung_up(), away()]);
    let played = Played::start_in_turn([watch, show], answers(gone())).await;
    let ended = played.mesh(&["module", "remove", "hello"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("hello is gone"), "{}", ended.stderr);
}

#[tokio::test]
async fn one_that_stays_away_is_told_with_what_became_of_the_change() {
    let played = Played::start(answers(away())).await;
    let removed = played.mesh(&["module", "remove", "hello", "--timeout", "400ms"]).await;
    for ended in [apply(&played, &["--timeout", "400ms"]).await, removed] {
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        let said = "mesh: the control plane did not answer within 400ms; the change stays declared, `mesh module show hello` \
                    tells how far it is: ";
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn a_refusal_while_waiting_is_told_at_once() {
    let played = Played::start(answers((403, problem(403, "forbidden", "you may not")))).await;
    let ended = apply(&played, &[]).await;
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
}
