//! An entry of a record that this version cannot read stops who reads it there, and nobody else.

use mesh_testkit::{LogWatch, wait_for};

use crate::broker::{Mesh, PATIENCE};

#[tokio::test]
async fn an_entry_that_nobody_understands_does_not_end_the_control_plane() {
    let mesh = Mesh::start().await;
    let mut log = LogWatch::start();
    log.announce("a reader of the record stopped and will not go on");
    log.announce("declaring stopped following a record");
    let served = mesh.serve().await;
    // The first round of both readers is over, so that they stand at the end.
    wait_for("the link", PATIENCE, async || log.has("the broker's topology was put right")).await;
    let mut store = mesh.postgres.superuser("identity").await;
    sqlx::raw_sql("INSERT INTO record VALUES (1, now(), 'node_flew/1', '{\"kind\": \"node_flew/1\"}')")
        .execute(&mut store)
        .await
        .unwrap();
    for said in ["owner=identity reader=inventory cursor=0", "declaring stopped following a record"] {
        wait_for(said, PATIENCE, async || log.has(said)).await;
    }
    assert!(log.lines().iter().any(|line| line.contains("at 1: this program does not understand")));
    assert!(served.client.nodes().await.unwrap().items.is_empty());
    assert!(!served.task.is_finished(), "the others go on");
}
