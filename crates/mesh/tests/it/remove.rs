//! `mesh module remove`, asked for again after its answer was lost.

use crate::played::{Answers, Played, problem};

const PLAN: &str = "POST /v1/plans";
const CHANGE: &str = "POST /v1/changes";
const SHOW: &str = "GET /v1/modules/hello";

fn answers(show: (u16, String)) -> Answers {
    let plan = r#"{"module":"hello","index":"0","nodes":[]}"#.to_owned();
    let applied = r#"{"module":"hello","nodes":[],"cursor":"1-1"}"#.to_owned();
    Answers::from([(PLAN, (200, plan)), (CHANGE, (200, applied)), (SHOW, show)])
}

#[tokio::test]
async fn a_module_that_is_removed_already_is_said_to_be_and_that_is_done() {
    let gone = (404, problem(404, "not_found", "there is no module hello"));
    let played = Played::start(answers(gone)).await;
    let ended = played.mesh(&["module", "remove", "hello"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("hello is already removed"), "{}", ended.stderr);
    let ended = played.mesh(&["module", "remove", "hello", "--json"]).await;
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said, serde_json::json!({"module": "hello", "nodes": [], "state": null}));
}

#[tokio::test]
async fn a_module_that_is_still_leaving_is_said_to_be() {
    let leaving =
        r#"{"name":"hello","version":"1","instances":[{"node":"node-1","state":"removing","failed":{}}]}"#;
    let played = Played::start(answers((200, leaving.to_owned()))).await;
    let ended = played.mesh(&["module", "remove", "hello", "--no-wait"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("hello is already being removed"), "{}", ended.stderr);
}

/// Its removal changes no node, and yet it is to go.
#[tokio::test]
async fn a_module_on_no_node_goes() {
    let nowhere = r#"{"name":"hello","version":"1","instances":[]}"#;
    let played = Played::start(answers((200, nowhere.to_owned()))).await;
    let ended = played.mesh(&["module", "remove", "hello", "--no-wait"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(played.asked().contains(&CHANGE.to_owned()), "{:?}", played.asked());
}

#[tokio::test]
async fn a_module_that_never_was_there_is_not_found() {
    let refused = (404, problem(404, "not_found", "there is no module hello"));
    let played = Played::start(Answers::from([(PLAN, refused)])).await;
    assert_eq!(played.mesh(&["module", "remove", "hello"]).await.code, Some(5));
}
