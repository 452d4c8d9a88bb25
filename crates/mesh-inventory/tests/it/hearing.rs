//! Who is heard and who is not.

use std::time::Duration;

use mesh_events::InventoryEvent;
use mesh_inventory::{Heard, NodeState};
use mesh_record::RecordPosition;

use crate::{Mesh, admin, at, node, position, report};

#[tokio::test]
async fn a_node_is_joining_then_connected_then_quiet_then_unreachable_then_connected_again() {
    let mesh = Mesh::new().await;
    mesh.join("node-1").await;
    let state = async || mesh.inventory.node(&admin(), &node("node-1")).await.unwrap();
    mesh.set_clock(0);
    assert_eq!(state().await.state, NodeState::Joining);
    assert_eq!(state().await.disconnected_for, None, "never heard");

    mesh.hear("node-1", 0).await;
    assert_eq!(state().await.state, NodeState::Connected);
    for (seconds, expected) in [
        (15, NodeState::Connected),
        (16, NodeState::Quiet),
        (25, NodeState::Quiet),
        (26, NodeState::Unreachable),
    ] {
        mesh.set_clock(seconds);
        mesh.inventory.judge_silence(Some(at(0))).await.unwrap();
        assert_eq!(state().await.state, expected, "after {seconds} s");
    }
    assert_eq!(state().await.disconnected_for, Some(Duration::from_secs(26)));
    mesh.hear("node-1", 40).await;
    mesh.set_clock(41);
    mesh.inventory.judge_silence(Some(at(0))).await.unwrap();
    assert_eq!(state().await.state, NodeState::Connected);
    assert_eq!(state().await.disconnected_for, None);
    assert_eq!(
        mesh.events().await,
        [
            "node-1 is heard for the first time",
            "node-1 is quiet since 2027-01-15T08:00:00.000Z",
            "node-1 is unreachable, silent since 2027-01-15T08:00:00.000Z",
            "node-1 is heard again after 40 s",
        ]
    );
}

#[tokio::test]
async fn a_restart_of_the_control_plane_accuses_nobody_and_forgets_nothing() {
    let mesh = Mesh::new().await;
    for name in ["node-1", "node-2"] {
        mesh.join(name).await;
        mesh.hear(name, 0).await;
    }
    mesh.hear("node-1", 60).await;
    mesh.set_clock(61);
    mesh.inventory.judge_silence(Some(at(0))).await.unwrap();
    let recorded = mesh.events().await.len();

    // Another process, five minutes later.
    let again = mesh.again();
    mesh.set_clock(361);
    for listening_since in [None, Some(at(360))] {
        again.judge_silence(listening_since).await.unwrap();
    }
    let nodes = again.nodes(&admin()).await.unwrap();
    let seen: Vec<_> = nodes.iter().map(|node| (node.state, node.disconnected_for)).collect();
    assert_eq!(
        seen,
        [
            (NodeState::Connected, Some(Duration::from_secs(301))),
            (NodeState::Unreachable, Some(Duration::from_secs(361)))
        ]
    );
    assert_eq!(mesh.events().await.len(), recorded, "nobody had a chance to speak yet");
    mesh.set_clock(376);
    again.judge_silence(Some(at(360))).await.unwrap();
    assert_eq!(mesh.events().await.len(), recorded + 1, "and now it had one");
}

#[tokio::test]
async fn heartbeats_come_in_batches_and_make_no_events() {
    let mesh = Mesh::new().await;
    let names: Vec<String> = (1..=20).map(|number| format!("node-{number}")).collect();
    for name in &names {
        mesh.join(name).await;
    }
    let batch = |seconds| {
        let heard = |name: &String| Heard { node: node(name), at: at(seconds), accepted: Some(position(3)) };
        names.iter().map(heard).collect::<Vec<_>>()
    };
    for seconds in [0, 10, 20] {
        mesh.inventory.record_alive(&batch(seconds)).await.unwrap();
    }
    let late = Heard { node: node("node-1"), at: at(5), accepted: Some(position(4)) };
    let unknown = Heard { node: node("nobody"), at: at(5), accepted: None };
    mesh.inventory.record_alive(&[late, unknown]).await.unwrap();
    let first = mesh.inventory.node(&admin(), &node("node-1")).await.unwrap();
    assert_eq!((first.last_heard, first.accepted), (Some(at(20)), Some(position(4))));
    let batch = mesh.inventory.record().read(RecordPosition::START, 1000).await.unwrap();
    assert_eq!(batch.entries.len(), 20);
    assert!(
        batch
            .entries
            .iter()
            .all(|entry| matches!(&entry.event, InventoryEvent::NodeConnected { silent_for_ms: None, .. }))
    );
}

/// The broker keeps a report while no control plane is there to take it; the node may be gone by then.
#[tokio::test]
async fn a_report_says_what_a_node_did_and_not_that_it_is_there() {
    let mesh = Mesh::new().await;
    for name in ["node-1", "node-2"] {
        mesh.join(name).await;
    }
    let heard = Heard { node: node("node-1"), at: at(0), accepted: Some(position(5)) };
    mesh.inventory.record_alive(&[heard]).await.unwrap();
    mesh.set_clock(60);
    mesh.inventory.judge_silence(Some(at(0))).await.unwrap();
    for (name, sequence) in [("node-1", 4), ("node-2", 2)] {
        let mut report = report(name, 1);
        report.position = Some(position(sequence));
        report.applied = vec!["a".to_owned()];
        mesh.inventory.record_report(&report).await.unwrap();
    }
    let seen = async |name| mesh.inventory.node(&admin(), &node(name)).await.unwrap();
    let (one, two) = (seen("node-1").await, seen("node-2").await);
    assert_eq!((one.state, one.last_heard), (NodeState::Unreachable, Some(at(0))));
    assert_eq!((two.state, two.last_heard), (NodeState::Joining, None));
    assert_eq!((one.accepted, one.reported), (Some(position(5)), Some(position(4))), "the greater stays");
    assert_eq!((two.accepted, two.applied), (Some(position(2)), vec!["a".to_owned()]));
    mesh.hear("node-2", 60).await;
    assert_eq!(seen("node-2").await.state, NodeState::Connected, "the first heartbeat says so");
}
