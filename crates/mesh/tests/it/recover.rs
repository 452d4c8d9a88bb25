//! `mesh node recover`.

use crate::played::{Answers, Played, problem};

const RECOVER: &str = "POST /v1/nodes/node-2/generations";

async fn played(status: u16, body: String) -> Played {
    Played::start(Answers::from([(RECOVER, (status, body))])).await
}

#[tokio::test]
async fn a_recovered_node_is_told_with_its_generation() {
    let played = played(201, r#"{"node":"node-2","generation":3}"#.to_owned()).await;
    let ended = played.mesh(&["node", "recover", "node-2"]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("The ledger of node-2 begins anew with generation 3"), "{}", ended.stdout);
    let ended = played.mesh(&["node", "recover", "node-2", "--yes", "--json"]).await;
    let said: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(said, serde_json::json!({"node": "node-2", "generation": 3}));
    assert_eq!(played.asked(), [RECOVER, RECOVER]);
}

#[tokio::test]
async fn a_refusal_an_absent_node_and_an_absent_control_plane_have_their_exit_codes() {
    for (status, code, exit) in
        [(403, "forbidden", 3), (404, "not_found", 5), (503, "unavailable", 4), (500, "internal", 1)]
    {
        let played = played(status, problem(status, code, "because of the test")).await;
        let ended = played.mesh(&["node", "recover", "node-2"]).await;
        assert_eq!(ended.code, Some(exit), "{code}");
        assert!(ended.stderr.contains("because of the test"), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

#[tokio::test]
async fn its_help_says_what_happens_and_gives_an_example() {
    let played = Played::start(Answers::new()).await;
    let ended = played.mesh(&["node", "recover", "--help"]).await;
    assert!(ended.stdout.contains("mesh node recover node-2 --yes --json"), "{}", ended.stdout);
    assert!(ended.stdout.contains("begins anew"), "{}", ended.stdout);
    assert_eq!(played.mesh(&["node", "recover", "Not A Name"]).await.code, Some(2));
}
