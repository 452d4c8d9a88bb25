//! The right to be the only one: one at a time, given back with the session that held it.

use super::*;

#[tokio::test]
async fn of_two_only_the_first_is_alone_until_it_ends() {
    let world = World::start().await;
    let mut first = world.store.alone().await.unwrap().unwrap();
    assert!(first.is_held().await);
    let other = world.another_store();
    assert!(other.alone().await.unwrap().is_none());
    drop(first);
    mesh_testkit::wait_for("the right to be free again", PATIENCE, async || {
        other.alone().await.unwrap().is_some()
    })
    .await;
}

#[tokio::test]
async fn whoever_lost_its_session_is_told_so() {
    let mut world = World::start().await;
    let mut alone = world.store.alone().await.unwrap().unwrap();
    world.postgres.crash();
    assert!(!alone.is_held().await);
}
