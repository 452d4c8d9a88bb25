//! The server dies in the middle of a migration: afterwards it either ran with its row or left no trace.

use mesh_testkit::wait_for;

use super::*;
use crate::lock::GATE;

/// Crashes the server inside each of four migrations in turn; every migration waits at the gate while it is held.
#[tokio::test]
async fn a_crash_inside_any_migration_leaves_no_half_of_it() {
    let mut world = World::start().await;
    let names: Vec<(String, String)> = (1..=4)
        .map(|n| {
            let sql = format!(
                "CREATE TABLE t{n} (); SELECT pg_advisory_xact_lock_shared(42); CREATE TABLE u{n} ();"
            );
            (format!("{n:04}_t.sql"), sql)
        })
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();

    for ran in 0..files.len() {
        let mut gate = world.postgres.superuser("inventory").await;
        sqlx::raw_sql(GATE).execute(&mut gate).await.unwrap();
        let (store, carried) = (world.another_store(), migrations(&files[..=ran]));
        let runner = tokio::spawn(async move { migrate(&store, &carried).await });
        wait_for("the runner to stand in its migration", PATIENCE, async || {
            let mut server = world.postgres.superuser("inventory").await;
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
            )
            .fetch_one(&mut server)
            .await
            .unwrap();
            waiting == 1
        })
        .await;

        world.postgres.crash();
        let outcome = runner.await.unwrap();
        assert!(matches!(outcome, Err(MigrateError::Failed { .. })), "{outcome:?}");
        world.postgres.restart().await;
        world.store = world.another_store();
        assert_eq!((world.tables().await.len(), world.recorded_or_none().await.len()), (2 * ran, ran));

        // The crash took the gate's session with it; now it runs.
        assert_eq!(world.migrate(&files[..=ran]).await.unwrap(), [names[ran].0.as_str()]);
    }
    assert_eq!(world.tables().await, ["t1", "t2", "t3", "t4", "u1", "u2", "u3", "u4"]);
}

/// The row is written last; a lock on its table holds the runner between the change and the row.
#[tokio::test]
async fn a_crash_between_a_migration_and_its_row_leaves_neither() {
    let mut world = World::start().await;
    let files = [("0001_a.sql", "CREATE TABLE a ();"), ("0002_b.sql", "CREATE TABLE b ();")];
    world.migrate(&files[..1]).await.unwrap();
    let mut gate = world.postgres.superuser("inventory").await;
    sqlx::raw_sql("BEGIN; LOCK TABLE schema_migrations IN SHARE MODE").execute(&mut gate).await.unwrap();
    let (store, carried) = (world.another_store(), migrations(&files));
    let runner = tokio::spawn(async move { migrate(&store, &carried).await });
    wait_for("the runner to be about to write the row", PATIENCE, async || {
        let mut server = world.postgres.superuser("inventory").await;
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'schema_migrations'::regclass",
        )
        .fetch_one(&mut server)
        .await
        .unwrap();
        waiting == 1
    })
    .await;

    world.postgres.crash();
    assert!(runner.await.unwrap().is_err());
    world.postgres.restart().await;
    world.store = world.another_store();
    assert_eq!(world.tables().await, ["a"]);
    assert_eq!(world.migrate(&files).await.unwrap(), ["0002_b.sql"]);
}

impl World {
    async fn recorded_or_none(&self) -> Vec<String> {
        let exists: bool = sqlx::query_scalar("SELECT to_regclass('schema_migrations') IS NOT NULL")
            .fetch_one(self.store.pool())
            .await
            .unwrap();
        if exists { self.recorded().await } else { Vec::new() }
    }
}
