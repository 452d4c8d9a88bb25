//! Cases of the kind `file` with a check, and what of it is no case.

use super::{Bench, Case, carry, converge, folder, holds};

const ONE: &str = r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/sudoers", "content": {"text": "good one"}, "check": "sudoers"}}]"#;
const TWO: &str = r#"[{"id": "f", "kind": "file", "spec": {"path": "/etc/sudoers", "content": {"text": "good two"}, "check": "sudoers"}}]"#;

fn bench() -> Bench {
    let bench = Bench::without_engine();
    bench.world.checkers.borrow_mut().insert("sudoers".to_owned());
    bench.world.put("/etc/sudoers", "a person's", 0o440);
    bench
}

async fn said(bench: &Bench, check: &str, content: &str) -> String {
    let folder = folder();
    let json = serde_json::json!([{"id": "f", "kind": "file", "spec": {
        "path": "/etc/sudoers", "content": {"text": content}, "check": check}}]);
    let before = bench.picture();
    let outcome = carry(bench, folder.path(), &json.to_string()).await;
    if !outcome.failed.is_empty() {
        assert_eq!(bench.picture(), before, "what is refused is not put in its place");
    }
    outcome.failed.values().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn a_file_that_is_checked() {
    let case = Case {
        name: "checked file",
        machine: bench,
        first: ONE,
        second: TWO,
        drift: |bench| bench.world.put("/etc/sudoers", "bad", 0o644),
    };
    holds(&case).await;
}

#[tokio::test]
async fn what_a_check_refuses_is_never_put_in_its_place() {
    let step = "check what is to be /etc/sudoers as sudoers";
    assert_eq!(
        said(&bench(), "sudoers", "bad").await,
        format!("{step}: sudoers refuses it: /etc/sudoers is bad")
    );
    assert_eq!(said(&bench(), "sudoers", "good").await, "");
    let missing = said(&bench(), "nginx", "good").await;
    assert_eq!(missing, "check what is to be /etc/sudoers as nginx: this machine has no nginx: install it");
}

#[tokio::test]
async fn json_and_toml_are_read_by_the_host_itself() {
    for (check, good, bad) in [("json", "{\"a\": [1, 2]}", "{\"a\": [1, 2}"), ("toml", "a = 1\n", "a = \n")] {
        assert_eq!(said(&bench(), check, good).await, "", "{check}");
        let why = said(&bench(), check, bad).await;
        assert!(why.starts_with(&format!("it is not {check}: ")) && why.contains("line 1"), "{why}");
    }
}

#[tokio::test]
async fn a_unit_of_a_refused_file_is_not_restarted() {
    let (bench, folder) = (bench(), folder());
    let json = |content: &str| {
        format!(
            r#"[{{"id": "f", "kind": "file", "spec": {{"path": "/etc/sudoers", "content": {{"text": "{content}"}}, "check": "sudoers"}}}},
                {{"id": "u", "kind": "unit", "spec": {{"name": "a.service", "content": "[Service]\n", "active": true, "restart_on": ["f"]}}}}]"#
        )
    };
    converge(&bench, folder.path(), &json("good"), "good").await;
    let outcome = carry(&bench, folder.path(), &json("bad")).await;
    assert_eq!(outcome.failed.len(), 2, "{outcome:?}");
    assert_eq!(bench.world.text("/etc/sudoers").as_deref(), Some("good"));
    assert_eq!(bench.world.starts.borrow().get("a.service"), Some(&1));
}
