//! Declarations are numbered, signed, kept, and issued only where they say something new.

use mesh_authz::Principal;
use mesh_identity::{Error, ErrorKind, Issued, Refusal, Stage};
use mesh_ids::{Generation, Position, Sequence};
use mesh_wire::{Declaration, FrameRefusal, Resource, Signed};
use proptest::prelude::*;

use crate::{Mesh, admin, declare_key, mesh_id, node, open};

fn file(content: &str) -> Resource {
    let content = serde_json::to_string(content).unwrap();
    let json = format!(
        r#"{{"id":"hello/file:/a","kind":"file","spec":{{"path":"/a","content":{{"text":{content}}}}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn numbers(position: Position) -> (u64, u64) {
    (position.generation.get(), position.sequence.get())
}

#[tokio::test]
async fn a_declaration_is_for_its_node_and_verifies() {
    let mesh = Mesh::new().await;
    let machine = mesh.join("node-2").await;
    let Issued::New(newest) = mesh.identity.issue(&node("node-2"), &[file("x")], Stage::Rest).await.unwrap()
    else {
        panic!("not new")
    };
    let frame = serde_json::to_vec(&newest.signed).unwrap();
    let verified = Signed::open(&frame, &[declare_key().verifying_key()]).unwrap();
    let declaration = Declaration::read(&verified).unwrap();
    assert_eq!((&declaration.mesh, &declaration.node), (&mesh_id(), &node("node-2")));
    assert_eq!(declaration.key, machine.identity.verifying_key().fingerprint());
    assert_eq!(declaration.position(), newest.position);
    assert_eq!(declaration.issued, crate::at(0).unix_s());
    assert_eq!(declaration.not_after - declaration.issued, 90 * 24 * 3600);
    assert_eq!(declaration.resources()[0].as_ref().unwrap(), &file("x"));
    let other = mesh_seal::SigningKey::from_seed(&[1; 32]).verifying_key();
    assert_eq!(Signed::open(&frame, &[other]), Err(FrameRefusal::WrongSignature));
    assert_eq!(mesh.again().newest(&node("node-2")).await.unwrap(), Some(newest));
    assert_eq!(mesh.events().await[2..], ["declaration 1.1.1 with 1 resources was issued for node-2"]);
}

#[tokio::test]
async fn where_every_node_stands_is_told_at_once() {
    let mesh = Mesh::new().await;
    for name in ["node-1", "node-2", "node-3"] {
        mesh.join(name).await;
    }
    for (name, contents) in [("node-1", 1), ("node-2", 11)] {
        for content in 0..contents {
            mesh.identity.issue(&node(name), &[file(&content.to_string())], Stage::Rest).await.unwrap();
        }
    }
    mesh.identity.raise_generation(&admin(), &node("node-1")).await.unwrap();
    mesh.identity.issue(&node("node-1"), &[file("0")], Stage::Rest).await.unwrap();
    let told = mesh.again().newest_positions().await.unwrap();
    let told: Vec<_> = told.iter().map(|(name, position)| (name.as_str(), numbers(*position))).collect();
    assert_eq!(told, [("node-1", (2, 1)), ("node-2", (1, 11))]);
}

#[tokio::test]
async fn only_what_is_new_is_issued() {
    let mesh = Mesh::new().await;
    mesh.join("node-2").await;
    let issue = async |content: &str, stage| {
        let issued = mesh.again().issue(&node("node-2"), &[file(content)], stage).await.unwrap();
        (matches!(issued, Issued::New(_)), numbers(issued.newest().position))
    };
    assert_eq!(issue("x", Stage::Foundation).await, (true, (1, 1)));
    assert_eq!(issue("x", Stage::Foundation).await, (false, (1, 1)));
    assert_eq!(issue("x", Stage::Rest).await, (true, (1, 2)));
    assert_eq!(issue("y", Stage::Rest).await, (true, (1, 3)));
    assert_eq!(issue("x", Stage::Rest).await, (true, (1, 4)), "what was before is new again");
    mesh.set_clock(29 * 24 * 3600);
    assert_eq!(issue("x", Stage::Rest).await, (false, (1, 4)));
    mesh.set_clock(31 * 24 * 3600);
    assert_eq!(issue("x", Stage::Rest).await, (true, (1, 5)), "before it gets stale");

    let other_key = open(&mesh.database, &mesh.clock, mesh_seal::SigningKey::from_seed(&[7; 32]));
    let issued = other_key.issue(&node("node-2"), &[file("x")], Stage::Rest).await.unwrap();
    assert!(matches!(issued, Issued::New(_)), "what another key signed is signed anew");
}

#[tokio::test]
async fn a_new_generation_stands_above_and_outlives_the_node() {
    let mesh = Mesh::new().await;
    mesh.join("node-2").await;
    let issue = async || {
        let issued = mesh.identity.issue(&node("node-2"), &[], Stage::Rest).await.unwrap();
        numbers(issued.newest().position)
    };
    assert_eq!(issue().await, (1, 1));
    let raised = mesh.identity.raise_generation(&admin(), &node("node-2")).await.unwrap();
    assert_eq!(raised, Generation::new(2));
    assert_eq!(issue().await, (2, 1));
    mesh.identity.remove_node(&admin(), &node("node-2")).await.unwrap();
    let gone = mesh.identity.issue(&node("node-2"), &[], Stage::Rest).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    mesh.join("node-2").await;
    assert_eq!(issue().await, (3, 1), "a later node of the name");
    let denied = mesh.identity.raise_generation(&Principal::Anonymous, &node("node-2")).await;
    assert_eq!(denied.unwrap_err().kind(), ErrorKind::Denied);
    let unknown = mesh.identity.raise_generation(&admin(), &node("node-9")).await;
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn two_control_planes_at_once_give_each_position_once() {
    let mesh = Mesh::new().await;
    mesh.join("node-2").await;
    let issuing = (0..12).map(|number| {
        let identity = mesh.again();
        tokio::spawn(async move {
            let resources = [file(&number.to_string())];
            identity.issue(&node("node-2"), &resources, Stage::Rest).await.unwrap().newest().position
        })
    });
    let mut positions = Vec::new();
    for issued in issuing.collect::<Vec<_>>() {
        positions.push(issued.await.unwrap().sequence.get());
    }
    positions.sort_unstable();
    assert_eq!(positions, (1..=12).collect::<Vec<_>>());
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM declarations")
        .fetch_one(&mut mesh.postgres.superuser("identity").await)
        .await
        .unwrap();
    assert_eq!(kept, 8, "the newest few are kept");
}

#[tokio::test]
async fn what_no_host_would_read_is_refused_and_nothing_is_kept() {
    let mesh = Mesh::new().await;
    mesh.join("node-2").await;
    let large = [file(&"x".repeat(4 * 1024 * 1024))];
    let refused = mesh.identity.issue(&node("node-2"), &large, Stage::Rest).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::TooLarge { .. })), "{refused}");
    assert_eq!(mesh.identity.newest(&node("node-2")).await.unwrap(), None);
}

/// What is done to a node's declarations.
#[derive(Debug, Clone)]
enum Step {
    Issue(u8, Stage),
    Raise,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stage = prop_oneof![Just(Stage::Foundation), Just(Stage::Rest)];
    let step = prop_oneof![
        4 => (0u8..3, stage).prop_map(|(content, stage)| Step::Issue(content, stage)),
        1 => Just(Step::Raise),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..20)
}

#[test]
fn whatever_happens_every_new_declaration_stands_above_all_before() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mesh = runtime.block_on(Mesh::new());
    let runs = std::cell::Cell::new(0);
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in steps())| {
        runs.set(runs.get() + 1);
        let name = format!("node-{}", runs.get());
        runtime.block_on(async {
            mesh.join(&name).await;
            let mut identity = mesh.again();
            let mut last: Option<(Position, String)> = None;
            for step in steps {
                match step {
                    Step::Restart => identity = mesh.again(),
                    Step::Raise => drop(identity.raise_generation(&admin(), &node(&name)).await.unwrap()),
                    Step::Issue(content, stage) => {
                        let resources = [file(&content.to_string())];
                        let issued = identity.issue(&node(&name), &resources, stage).await.unwrap();
                        let (position, said) = (issued.newest().position, format!("{content}{stage:?}"));
                        match (&issued, &last) {
                            (Issued::New(_), last) => assert!(last.as_ref().is_none_or(|(last, _)| position > *last)),
                            (Issued::Unchanged(_), Some(last)) => assert_eq!(*last, (position, said.clone())),
                            (Issued::Unchanged(_), None) => panic!("unchanged from nothing"),
                        }
                        assert!(position.sequence >= Sequence::new(1));
                        last = Some((position, said));
                    }
                }
            }
        });
    });
}
