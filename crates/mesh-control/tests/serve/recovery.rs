//! A node whose ledger cannot be read is told everything anew, under a higher generation.

use mesh_api::ProblemCode;
use mesh_seal::SigningKey;
use mesh_testkit::wait_for;
use mesh_wire::Report;

use crate::broker::{Mesh, PATIENCE, code};
use crate::node::Machine;

#[tokio::test]
async fn a_recovered_node_is_sent_its_newest_declaration_under_a_higher_generation() {
    let mesh = Mesh::start().await;
    let served = mesh.serve().await;
    let client = &served.client;
    let key = SigningKey::from_seed(&[1; 32]).verifying_key();
    let absent = "node-9".parse().unwrap();
    assert_eq!(code(client.recover_node(&absent).await), ProblemCode::NotFound);
    assert_eq!(code(served.stranger.recover_node(&absent).await), ProblemCode::Unauthenticated);

    // Also one that never reported its first declaration: perhaps it is the one it could not keep.
    let machine = Machine::join(&mesh, client, "node-1").await;
    let first = machine.declared(&key, |_| true).await.position();
    let recovery = client.recover_node(&machine.name).await.unwrap();
    assert_eq!((&recovery.node, recovery.generation), (&machine.name, first.generation.get() + 1));
    let anew = machine.declared(&key, |it| it.generation.get() == recovery.generation).await.position();
    assert_eq!(anew.sequence.get(), 1);

    let mut report = Report::new(machine.name.clone());
    report.position = Some(anew);
    machine.state("report", &report).await;
    let rest = machine.declared(&key, |it| it.position() > anew).await.position();
    let recovery = client.recover_node(&machine.name).await.unwrap();
    assert_eq!(recovery.generation, rest.generation.get() + 1);
    let anew = machine.declared(&key, |it| it.generation.get() == recovery.generation).await.position();
    wait_for("the node to be shown with it", PATIENCE, async || {
        client.node(&machine.name).await.unwrap().declared == Some(anew)
    })
    .await;
    let events = client.events(None, 100).await.unwrap().items;
    let raised: Vec<_> = events.iter().filter(|event| event.event == "generation_raised").collect();
    assert_eq!(raised.len(), 2);
    assert_eq!(
        raised[0].summary,
        format!("admin began the history of node-1 anew, as generation {}", first.generation.get() + 1)
    );
}
