//! Nodes come, report and go.

use mesh_events::IdentityEvent;
use mesh_inventory::{ErrorKind, ReportOutcome};
use mesh_wire::{Drift, Facts};

use crate::{Mesh, admin, at, node, position, report};
use mesh_authz::Principal;

#[tokio::test]
async fn a_report_is_kept_and_older_news_is_not() {
    let mesh = Mesh::new().await;
    mesh.join("node-1").await;
    let mut first = report("node-1", 2);
    first.applied = vec!["b".to_owned(), "a".to_owned()];
    first.failed = [("c".to_owned(), "no\0 reason".to_owned())].into();
    first.carried = vec![5671];
    first.position = Some(position(3));
    first.facts = Some(Facts { os: "Debian".to_owned(), cpus: 2, ..Facts::default() });
    assert_eq!(mesh.inventory.record_report(&first).await.unwrap(), ReportOutcome::Recorded);
    for count in [2, 1] {
        let old = mesh.inventory.record_report(&report("node-1", count)).await.unwrap();
        assert_eq!(old, ReportOutcome::OlderNews);
    }
    let unknown = mesh.inventory.record_report(&report("nobody", 1)).await.unwrap();
    assert_eq!(unknown, ReportOutcome::UnknownNode);

    let seen = mesh.again().node(&admin(), &node("node-1")).await.unwrap();
    assert_eq!(seen.applied, ["a", "b"]);
    assert_eq!(seen.failed["c"], "no\u{fffd} reason");
    assert_eq!((seen.reported, seen.accepted), (Some(position(3)), Some(position(3))));
    assert_eq!((seen.carried_ports, seen.last_heard), (vec![5671], None));
    assert_eq!(seen.facts.unwrap().os, "Debian");
    assert_eq!(mesh.events().await, ["node-1 applied 2 resources; failed: c"]);
    let standing = mesh.inventory.standing(&node("node-1")).await.unwrap();
    assert!(standing.failed && !standing.refused && standing.reported == Some(position(3)));
}

#[tokio::test]
async fn drift_is_counted_once_across_restarts() {
    let mesh = Mesh::new().await;
    mesh.join("node-1").await;
    let drift = |number, repaired_at| Drift {
        number,
        resource: "hello/file:/etc/hello".parse().unwrap(),
        noticed_at: 1_800_000_000,
        found: vec!["write /etc/hello".to_owned()],
        repaired_at,
    };
    for (count, drift) in [
        (1, vec![drift(1, None)]),
        (2, vec![drift(1, Some(1_800_000_001))]),
        (3, vec![drift(1, Some(1_800_000_001))]),
    ] {
        let mut report = report("node-1", count);
        report.drift = drift;
        mesh.again().record_report(&report).await.unwrap();
    }
    assert_eq!(
        mesh.events().await,
        [
            "hello/file:/etc/hello drifted on node-1 at 2027-01-15T08:00:00.000Z; to do: write /etc/hello",
            "hello/file:/etc/hello was repaired on node-1 at 2027-01-15T08:00:01.000Z"
        ]
    );
}

#[tokio::test]
async fn a_name_is_invited_joined_recovered_and_removed() {
    let mesh = Mesh::new().await;
    let (name, labels) = (node("node-1"), || [("role".to_owned(), "edge".to_owned())].into());
    let invited = IdentityEvent::NodeInvited {
        node: name.clone(),
        expires: at(0),
        labels: labels(),
        by: "admin".to_owned(),
    };
    let ended = IdentityEvent::InvitationEnded { node: name.clone(), replaced: false };
    mesh.identity_says(invited.clone()).await;
    let seen = mesh.inventory.node(&admin(), &name).await.unwrap();
    assert!(!seen.joined && seen.labels == labels());
    mesh.identity_says(ended.clone()).await;
    let gone = mesh.inventory.node(&admin(), &name).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);

    mesh.identity_says(invited).await;
    mesh.join("node-1").await;
    mesh.identity_says(ended).await;
    assert!(mesh.inventory.node(&admin(), &name).await.unwrap().joined, "an old invitation ends no node");
    mesh.inventory.record_report(&report("node-1", 7)).await.unwrap();
    let again = mesh.inventory.record_report(&report("node-1", 1)).await.unwrap();
    assert_eq!(again, ReportOutcome::OlderNews);
    let generation = mesh_ids::Generation::new(2);
    mesh.identity_says(IdentityEvent::GenerationRaised { node: name.clone(), generation, by: String::new() })
        .await;
    let again = mesh.inventory.record_report(&report("node-1", 1)).await.unwrap();
    assert_eq!(again, ReportOutcome::Recorded, "a new ledger counts anew");

    mesh.identity_says(IdentityEvent::NodeRemoved { node: name.clone(), by: "admin".to_owned() }).await;
    assert!(mesh.inventory.nodes(&admin()).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_is_said_before_inventory_heard_of_the_joining_is_to_be_said_again() {
    let mesh = Mesh::new().await;
    let (name, by) = (node("node-1"), "admin".to_owned());
    let labels = std::collections::BTreeMap::new();
    mesh.identity_says(IdentityEvent::NodeInvited { node: name.clone(), expires: at(0), labels, by }).await;
    let early = mesh.inventory.record_report(&report("node-1", 1)).await.unwrap();
    assert_eq!(early, ReportOutcome::UnknownNode);
    mesh.hear("node-1", 0).await;
    assert_eq!(mesh.inventory.node(&admin(), &name).await.unwrap().last_heard, None);
    mesh.join("node-1").await;
    let again = mesh.inventory.record_report(&report("node-1", 1)).await.unwrap();
    assert_eq!(again, ReportOutcome::Recorded);
}

#[tokio::test]
async fn nobody_is_shown_nothing() {
    let mesh = Mesh::new().await;
    let nobody = Principal::Anonymous;
    assert_eq!(mesh.inventory.nodes(&nobody).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(mesh.inventory.modules(&nobody).await.unwrap_err().kind(), ErrorKind::Denied);
    let plan = mesh.inventory.plan_apply(&nobody, crate::hello("x")).await;
    assert_eq!(plan.unwrap_err().kind(), ErrorKind::Denied);
}
