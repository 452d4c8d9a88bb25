//! What people read: tables, plans and lines, and the exit codes of what they hand in.

use crate::played::{Answers, Played, problem};

const NODES: &str = "GET /v1/nodes";

fn node(name: &str, state: &str, silent: &str, applied: &str) -> String {
    format!(
        r#"{{"name":"{name}","state":"{state}","last_heard":"2026-01-01T00:00:00Z","disconnected_for":{silent},
        "declared":{{"epoch":1,"generation":1,"sequence":2}},"reported":null,"applied":[{applied}],"failed":{{}},"refused":null,
        "carried_ports":[],"host_version":null,"labels":{{}},"facts":null}}"#
    )
}

fn nodes() -> (u16, String) {
    let near = node("node-1", "connected", "null", r#""hello/file:/a","other/file:/b""#);
    let far = node("node-2", "unreachable", "200", "");
    (200, format!(r#"{{"cursor":"1-1","items":[{near},{far}]}}"#))
}

#[tokio::test]
async fn a_node_that_is_away_is_named_where_a_change_concerns_it() {
    let step = r#"{"action":"add","resource":"hello/file:/a","details":[]}"#;
    let plan = format!(r#"{{"module":"hello","index":"0","nodes":[{{"node":"node-2","steps":[{step}]}}]}}"#);
    let played = Played::start(Answers::from([(NODES, nodes()), ("POST /v1/plans", (200, plan))])).await;
    let folder = tempfile::tempdir().unwrap();
    let text = "name='hello'\nversion='1'\nplacement.every_node=true\n[[file]]\npath='/a'\ncontent=''\n";
    std::fs::write(folder.path().join("module.toml"), text).unwrap();
    let ended = played.mesh(&["plan", "-f", folder.path().to_str().unwrap()]).await;
    let said = "node-2 is unreachable, last heard 3m 20s ago: it gets this when it is connected again";
    assert!(ended.stdout.contains(said), "{}", ended.stdout);
    assert!(!ended.stdout.contains("node-1"), "it is not concerned: {}", ended.stdout);
    assert!(ended.stdout.contains("1 to add, 0 to change, 0 to remove on 1 node\n"), "{}", ended.stdout);
}

#[tokio::test]
async fn the_table_of_nodes_says_how_long_ago_each_was_heard_and_numbers_as_events_do() {
    let ended = Played::start(Answers::from([(NODES, nodes())])).await.mesh(&["node", "list"]).await;
    let rows: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["node-1", "connected", "just", "now", "1.1.2", "2", "0"], "{}", ended.stdout);
    assert_eq!(rows[2], ["node-2", "unreachable", "3m", "20s", "ago", "1.1.2", "0", "0"], "{}", ended.stdout);
}

#[tokio::test]
async fn a_module_is_shown_with_its_resources_and_the_silence_of_its_nodes() {
    let instances = r#"{"node":"node-1","state":"failed","failed":{"hello/unit:a.service":"no such unit"}},
        {"node":"node-2","state":"pending","failed":{}}"#;
    let hello = format!(r#"{{"name":"hello","version":"1","instances":[{instances}]}}"#);
    let played =
        Played::start(Answers::from([(NODES, nodes()), ("GET /v1/modules/hello", (200, hello))])).await;
    let ended = played.mesh(&["module", "show", "hello"]).await;
    let squeezed: Vec<String> =
        ended.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "node-1 failed 1 resource failed",
        "node-2 pending node-2 is unreachable, last heard 3m 20s ago",
        "node-1 file:/a applied",
        "node-1 unit:a.service failed no such unit",
    ] {
        assert!(squeezed.iter().any(|said| said == line), "{line}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("/b"), "another module's: {}", ended.stdout);
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_is_wrong_usage() {
    let played = Played::start(Answers::new()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let ended = played.mesh(&["apply", "-f", path]).await;
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("or the folder that has one as module.toml"), "{}", ended.stderr);
    std::fs::write(folder.path().join("module.toml"), "nam = 'x'\n").unwrap();
    let ended = played.mesh(&["plan", "-f", path]).await;
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("module.toml:1:1"), "{}", ended.stderr);
    assert!(played.asked().is_empty(), "nobody was asked");
}

#[tokio::test]
async fn whoever_writes_the_watch_to_a_file_gets_a_line_a_change_and_a_stream_that_ends_is_taken_up_again() {
    let modules = r#"{"cursor":"1-1","items":[]}"#.to_owned();
    let changed = node("node-2", "connected", "null", r#""hello/file:/a""#).replace('\n', "");
    let event = format!("event: node\ndata: {changed}\n\n");
    let denied = (403, problem(403, "forbidden", "not you"));
    let watched = "GET /v1/nodes/watch?after=1-1";
    let played = Played::start_in_turn(
        [
            (NODES, vec![nodes(), nodes(), denied.clone()]),
            (watched, vec![(200, event), (200, String::new())]),
        ],
        Answers::from([
            (NODES, denied),
            ("GET /v1/modules", (200, modules)),
            ("GET /v1/modules/watch?after=1-1", (200, String::new())),
        ]),
    )
    .await;
    let ended = played.mesh(&["watch"]).await;
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(played.asked().iter().filter(|asked| *asked == NODES).count(), 3, "taken up again");
    // Which of the two streams ends first is open; the second round has the change in any case.
    let table = ended.stdout.matches("NODE").count();
    assert!(table >= 2, "{}", ended.stdout);
}
