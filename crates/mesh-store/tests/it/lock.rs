//! Two runners at once: one works, the other waits and then finds nothing to do.

use mesh_testkit::wait_for;

use super::*;

/// A lock the test holds so that a migration waits for the test. It is not the runner's own.
pub(crate) const GATE: &str = "SELECT pg_advisory_lock(42)";
const GATED: (&str, &str) =
    ("0001_a.sql", "CREATE TABLE a (); SELECT pg_advisory_xact_lock_shared(42); CREATE TABLE b ();");

/// How many sessions wait for the advisory lock `classid`/`objid`.
async fn waiting(world: &World, lock: &str) -> i64 {
    let mut server = world.postgres.superuser("inventory").await;
    sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
         AND (classid::bigint << 32 | objid::bigint) = $1::bigint",
    )
    .bind(match lock {
        "gate" => 42_i64,
        _ => 0x6d65_7368_6d69_6772,
    })
    .fetch_one(&mut server)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_second_runner_waits_and_finds_nothing_to_do() {
    let world = World::start().await;
    let mut gate = world.postgres.superuser("inventory").await;
    sqlx::raw_sql(GATE).execute(&mut gate).await.unwrap();

    let run =
        |store: Store| tokio::spawn(async move { migrate(&store, &migrations(&[GATED])).await.unwrap() });
    let first = run(world.another_store());
    wait_for("the first runner to stand in its migration", PATIENCE, async || {
        waiting(&world, "gate").await == 1
    })
    .await;
    let second = run(world.another_store());
    wait_for("the second runner to wait for the first", PATIENCE, async || {
        waiting(&world, "runner").await == 1
    })
    .await;

    sqlx::Connection::close(gate).await.unwrap();
    assert_eq!(first.await.unwrap(), ["0001_a.sql"]);
    assert_eq!(second.await.unwrap(), [""; 0]);
    assert_eq!(world.tables().await, ["a", "b"]);
}

#[tokio::test]
async fn a_runner_does_not_wait_for_ever() {
    let world = World::start().await;
    let mut gate = world.postgres.superuser("inventory").await;
    sqlx::raw_sql(GATE).execute(&mut gate).await.unwrap();
    let store = world.another_store();
    let first = tokio::spawn(async move { migrate(&store, &migrations(&[GATED])).await.unwrap() });
    wait_for("the first runner to stand in its migration", PATIENCE, async || {
        waiting(&world, "gate").await == 1
    })
    .await;

    let second = world.store.migrate(&migrations(&[GATED]), Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(second, MigrateError::Locked { .. }), "{second:?}");
    assert!(second.to_string().contains("waited 50ms for another migration of it to end"), "{second}");

    sqlx::Connection::close(gate).await.unwrap();
    first.await.unwrap();
}

#[tokio::test]
async fn many_runners_at_once_run_each_migration_once() {
    let world = World::start().await;
    let names: Vec<(String, String)> = (1..=12)
        .map(|n| (format!("{n:04}_t.sql"), format!("SELECT pg_sleep(0.02); CREATE TABLE t{n:02} ();")))
        .collect();
    let files: Vec<(&str, &str)> = names.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).collect();
    let runners: Vec<_> = (0..8)
        .map(|_| {
            let (store, migrations) = (world.another_store(), migrations(&files));
            tokio::spawn(async move { migrate(&store, &migrations).await.unwrap().len() })
        })
        .collect();
    let mut counts = Vec::new();
    for runner in runners {
        counts.push(runner.await.unwrap());
    }
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 0, 0, 0, 0, 0, 12]);
    assert_eq!(world.tables().await.len(), 12);
}
