//! Opening a store: what is refused in words, and waiting for a server that is not there yet.

use std::collections::BTreeMap;
use std::fs;

use mesh_store::StoreError;
use mesh_testkit::LogWatch;

use super::*;

fn refused(address: &str) -> String {
    let variables = BTreeMap::from([("MESH_STORE_INVENTORY".to_owned(), address.to_owned())]);
    Store::open(INVENTORY, &variables).unwrap_err().to_string()
}

#[test]
fn an_address_that_is_not_the_contexts_own_is_refused_in_words() {
    for (address, words) in [
        ("", "it is not an address"),
        ("inventory", "it is not an address"),
        ("mysql://inventory@h/inventory", "it does not begin with postgres://"),
        ("postgres:///inventory", "it names no host"),
        ("postgres://h/inventory", "it names no role"),
        ("postgres://inventory@h", "it names the database \"\""),
        ("postgres://inventory@h/mesh", "it names the database \"mesh\""),
        ("postgres://inventory@h/inventory/identity", "it names the database \"inventory/identity\""),
        ("postgres://inventory@h/inventory?dbname=identity", "it has parameters, and none is allowed"),
        ("postgres://inventory:hunter2@h/inventory", "set MESH_STORE_INVENTORY_PASSWORD_FILE to its path"),
    ] {
        let said = refused(address);
        assert!(said.contains(words), "{address}: {said}");
        assert!(said.contains("MESH_STORE_INVENTORY"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let said = Store::open(INVENTORY, &BTreeMap::new()).unwrap_err().to_string();
    assert!(said.contains("set it to postgres://inventory@HOST:PORT/inventory"), "{said}");
}

#[test]
fn a_password_file_that_says_nothing_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    let variables = BTreeMap::from([
        ("MESH_STORE_INVENTORY".to_owned(), "postgres://inventory@h/inventory".to_owned()),
        ("MESH_STORE_INVENTORY_PASSWORD_FILE".to_owned(), path.display().to_string()),
    ]);
    let said = Store::open(INVENTORY, &variables).unwrap_err().to_string();
    assert!(said.contains("cannot read the password of the store of inventory"), "{said}");
    fs::write(&path, "\n").unwrap();
    let said = Store::open(INVENTORY, &variables).unwrap_err().to_string();
    assert!(said.contains("which MESH_STORE_INVENTORY_PASSWORD_FILE names, is empty"), "{said}");
}

#[tokio::test]
async fn a_wrong_password_ends_the_wait_at_once() {
    let world = World::start().await;
    fs::write(&world.database.password_file, "wrong").unwrap();
    let store = world.another_store();
    let refused = store.connect_within(PATIENCE).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("check the address, the password file"), "{refused}");
    assert!(!refused.is_transient());
    world.store.connect_within(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_store_that_never_answers_is_named_when_the_deadline_passes() {
    let mut world = World::start().await;
    world.postgres.crash();
    let waited = world.store.connect_within(Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(waited, StoreError::Unreachable { .. }), "{waited:?}");
    assert!(waited.is_transient());
    let place = format!("inventory at 127.0.0.1:{}", world.postgres.port());
    assert!(waited.to_string().contains(&place), "{waited}");
}

#[tokio::test]
async fn the_wait_ends_when_the_server_comes_and_is_said_in_the_log() {
    let mut world = World::start().await;
    world.postgres.crash();
    let log = LogWatch::start();
    let store = world.another_store();
    let waiting = tokio::spawn(async move { store.connect_within(PATIENCE).await });
    mesh_testkit::wait_for("the wait to be announced", PATIENCE, async || log.has("waiting for the store"))
        .await;
    world.postgres.restart().await;
    waiting.await.unwrap().unwrap();
    assert!(log.has("the store answers"), "{:?}", log.lines());
}

#[tokio::test]
async fn a_pool_outlives_a_crash_of_the_server() {
    let mut world = World::start().await;
    world.migrate(&[("0001_a.sql", "CREATE TABLE a (n int);")]).await.unwrap();
    let mut open = world.store.begin().await.unwrap();
    sqlx::query("INSERT INTO a VALUES (1)").execute(&mut *open).await.unwrap();
    world.postgres.crash();
    let lost = world.store.commit(open).await.unwrap_err();
    assert!(lost.is_transient(), "{lost:?}");
    world.postgres.restart().await;
    let mut again = world.store.begin().await.unwrap();
    sqlx::query("INSERT INTO a VALUES (2)").execute(&mut *again).await.unwrap();
    world.store.commit(again).await.unwrap();
    let rows: Vec<i32> = sqlx::query_scalar("SELECT n FROM a").fetch_all(world.store.pool()).await.unwrap();
    assert_eq!(rows, [2]);
}
