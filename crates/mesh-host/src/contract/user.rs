//! Cases of the kind `user`, and what of it is no case.

use std::collections::BTreeSet;

use super::{Bench, Case, carry, converge, folder, holds};
use crate::machine::{fake::Node, users::UserFound};

const NEW: &str =
    r#"[{"id": "u", "kind": "user", "spec": {"name": "hello", "home": "/opt/hello", "groups": ["adm"]}}]"#;
const OTHER: &str = r#"[{"id": "u", "kind": "user", "spec": {"name": "hello", "home": "/opt/hello2", "shell": "/bin/sh",
    "groups": ["video"]}}]"#;

fn there(bench: &Bench, groups: &[&str]) {
    let groups: BTreeSet<String> = groups.iter().map(|name| (*name).to_owned()).collect();
    let user = UserFound { uid: 1000, gid: 4, home: "/opt/old".into(), shell: "/bin/bash".into(), groups };
    bench.world.users.borrow_mut().insert("hello".to_owned(), user);
}

fn found(bench: &Bench) -> Option<UserFound> {
    bench.world.users.borrow().get("hello").cloned()
}

async fn said(bench: &Bench, spec: &str) -> String {
    let folder = folder();
    let json = format!(r#"[{{"id": "u", "kind": "user", "spec": {{{spec}}}}}]"#);
    let before = bench.picture();
    let outcome = carry(bench, folder.path(), &json).await;
    assert_eq!(bench.picture(), before, "{json}");
    outcome.failed.values().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn a_user_that_was_not_there() {
    let case = Case {
        name: "new user",
        machine: Bench::without_engine,
        first: NEW,
        second: OTHER,
        drift: |bench| {
            bench.world.users.borrow_mut().remove("hello");
            bench.world.groups.borrow_mut().remove("hello");
        },
    };
    holds(&case).await;
    let numbered = Case {
        name: "new user whose group was there",
        machine: || {
            let bench = Bench::without_engine();
            bench.world.groups.borrow_mut().insert("hello".to_owned(), 777);
            bench
        },
        first: r#"[{"id": "u", "kind": "user", "spec":
            {"name": "hello", "uid": 300, "gid": 777, "shell": "/usr/sbin/nologin"}}]"#,
        drift: |bench| {
            bench.world.users.borrow_mut().get_mut("hello").expect("the user").shell = "/bin/sh".to_owned();
        },
        ..case
    };
    holds(&numbered).await;
}

#[tokio::test]
async fn a_user_that_was_there() {
    let case = Case {
        name: "adopted user",
        machine: || {
            let bench = Bench::without_engine();
            there(&bench, &["video"]);
            bench
        },
        first: NEW,
        second: OTHER,
        // In `video` it was before.
        drift: |bench| {
            bench.world.users.borrow_mut().get_mut("hello").expect("the user").groups.remove("adm");
        },
    };
    holds(&case).await;
    let bare = Case {
        name: "adopted user, nothing said",
        first: r#"[{"id": "u", "kind": "user", "spec": {"name": "hello"}}]"#,
        ..case
    };
    let (bench, folder) = ((bare.machine)(), folder());
    let before = bench.picture();
    let outcome = carry(&bench, folder.path(), bare.first).await;
    assert_eq!((outcome.steps, bench.picture()), (0, before), "{outcome:?}");
    // What is not declared of it may change.
    there(&bench, &["adm"]);
    assert_eq!(carry(&bench, folder.path(), bare.first).await.steps, 0);
    converge(&bench, folder.path(), "[]", "given up").await;
    assert!(found(&bench).is_some_and(|user| user.groups.contains("adm")));
}

#[tokio::test]
async fn what_is_in_a_home_stays_and_so_does_a_home_that_was_there() {
    let (bench, folder) = (Bench::without_engine(), folder());
    converge(&bench, folder.path(), NEW, "made").await;
    let home = format!("{:?}", bench.world.tree.borrow().get("/opt/hello"));
    assert_eq!(home, "Some(directory mode 0750, hello:hello)");
    bench.world.put("/opt/hello/letter", "dear", 0o600);
    converge(&bench, folder.path(), "[]", "removed").await;
    assert_eq!(bench.world.text("/opt/hello/letter").as_deref(), Some("dear"));
    assert_eq!(found(&bench), None);
    converge(&bench, folder.path(), NEW, "made again").await;
    bench.world.tree.borrow_mut().remove("/opt/hello/letter");
    converge(&bench, folder.path(), "[]", "removed again").await;
    assert!(bench.world.tree.borrow().contains_key("/opt/hello"), "it was there before");
}

#[tokio::test]
async fn what_cannot_be_a_user_of_the_host_is_refused_in_words() {
    let bench = Bench::without_engine();
    there(&bench, &[]);
    let why = said(&bench, r#""name": "hello", "uid": 300"#).await;
    assert_eq!(why, "the machine has a user hello whose uid is 1000, not 300: declare that, or another name");
    let why = said(&bench, r#""name": "hello", "gid": 300"#).await;
    assert_eq!(why, "the machine has a user hello whose gid is 4, not 300: declare that, or another name");
    let why = said(&bench, r#""name": "new", "groups": ["ghosts"]"#).await;
    assert_eq!(why, "the machine has no group ghosts: let it wait for the package or user that makes it");
    let why = said(&bench, r#""name": "adm", "gid": 300"#).await;
    assert_eq!(why, "the machine has a group adm whose gid is 4, not 300: declare that, or another name");
    bench.world.put("/opt/file", "x", 0o644);
    let why = said(&bench, r#""name": "new", "home": "/opt/file""#).await;
    assert_eq!(why, "at /opt/file is no directory: declare another home");
    bench.world.users.borrow_mut().get_mut("hello").expect("the user").uid = 0;
    let why = said(&bench, r#""name": "hello""#).await;
    assert_eq!(why, "the user hello is root by another name: declare another one");
}

#[tokio::test]
async fn a_user_that_has_become_root_is_not_deleted() {
    let (bench, folder) = (Bench::without_engine(), folder());
    converge(&bench, folder.path(), NEW, "made").await;
    bench.world.users.borrow_mut().get_mut("hello").expect("the user").uid = 0;
    let outcome = carry(&bench, folder.path(), "[]").await;
    let why = outcome.failed.values().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(why, ["remove it: the user hello has become root: it is not deleted"]);
    assert!(found(&bench).is_some());
}

#[tokio::test]
async fn a_users_files_wait_for_it_and_go_before_it() {
    let (bench, folder) = (Bench::without_engine(), folder());
    let json = r#"[{"id": "f", "kind": "file", "after": ["u"], "spec": {"path": "/opt/f", "content": {"text": "x"},
                    "owner": "hello", "group": "hello"}},
                   {"id": "u", "kind": "user", "spec": {"name": "hello"}}]"#;
    let mut host = super::host(&bench, folder.path()).await;
    let mut order = Vec::new();
    host.carry(super::resources(json), &mut |_, _, step| order.push(step.to_string()))
        .await
        .expect("carried");
    host.carry(Vec::new(), &mut |_, _, step| order.push(step.to_string())).await.expect("carried");
    assert_eq!(
        order,
        [
            "make the group hello",
            "make the user hello (home /nonexistent, shell /usr/sbin/nologin, no further groups)",
            "write /opt/f (1 bytes, mode 0644, hello:hello)",
            "remove /opt/f",
            "delete the user hello",
            "delete the group hello",
        ]
    );
    assert!(!matches!(bench.world.tree.borrow().get("/opt/f"), Some(Node::File(..))));
}
