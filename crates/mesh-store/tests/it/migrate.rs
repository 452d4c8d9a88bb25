//! What the runner does, and every refusal that needs a database to be noticed.

use include_dir::{Dir, include_dir};
use mesh_store::{MigrateError, MigrationState, Migrations, Refusal};

use super::*;

const A: (&str, &str) = ("0001_a.sql", "CREATE TABLE a ();");
const B: (&str, &str) = ("0002_b.sql", "CREATE TABLE b ();");
const C: (&str, &str) = ("0003_c.sql", "CREATE TABLE c ();");

#[tokio::test]
async fn migrations_run_in_order_and_only_once() {
    let world = World::start().await;
    // Out of order, and the second depends on the first.
    let files = [("0002_b.sql", "ALTER TABLE a ADD COLUMN b int;"), A];
    assert_eq!(world.migrate(&files).await.unwrap(), ["0001_a.sql", "0002_b.sql"]);
    assert_eq!(world.migrate(&files).await.unwrap(), [""; 0]);
    assert_eq!(world.recorded().await, ["0001_a.sql", "0002_b.sql"]);
    assert_eq!(world.migrate(&[A, files[0], C]).await.unwrap(), ["0003_c.sql"]);
    assert_eq!(world.tables().await, ["a", "c"]);
}

#[tokio::test]
async fn an_edited_migration_stops_everything() {
    let world = World::start().await;
    world.migrate(&[A, B]).await.unwrap();
    let edited = ("0001_a.sql", "CREATE TABLE a (); -- one more space");
    let refusal = refusal(world.migrate(&[edited, B, C]).await);
    let words = refusal.to_string();
    assert!(words.contains("0001_a.sql was changed after it ran"), "{words}");
    assert!(words.contains("write the change as a new migration"), "{words}");
    assert_eq!(world.tables().await, ["a", "b"], "0003 ran although 0001 was edited");
}

#[tokio::test]
async fn a_renamed_migration_counts_as_edited() {
    let world = World::start().await;
    world.migrate(&[A]).await.unwrap();
    let refusal = refusal(world.migrate(&[("0001_other.sql", A.1)]).await);
    let words = refusal.to_string();
    assert!(words.contains("0001_other.sql was changed after it ran here (as 0001_a.sql)"), "{words}");
}

#[tokio::test]
async fn a_migration_below_one_that_ran_stops_everything() {
    let world = World::start().await;
    world.migrate(&[A, C]).await.unwrap();
    let refusal = refusal(world.migrate(&[A, B, C, ("0004_d.sql", "CREATE TABLE d ();")]).await);
    assert_eq!(refusal, Refusal::BelowNewest { file: "0002_b.sql".to_owned(), newest: 3 });
    assert!(refusal.to_string().contains("give it a number above 0003"), "{refusal}");
    assert_eq!(world.tables().await, ["a", "c"]);
}

#[tokio::test]
async fn a_database_newer_than_the_program_is_refused() {
    let world = World::start().await;
    world.migrate(&[A, B]).await.unwrap();
    let refusal = refusal(world.migrate(&[A]).await);
    assert_eq!(refusal, Refusal::Unknown { recorded: "0002_b.sql".to_owned() });
    assert!(refusal.to_string().contains("run the version that brought it"), "{refusal}");
}

#[tokio::test]
async fn the_embedded_folder_is_checked_whole() {
    static STRAYS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/tests/it/strays");
    static FOLDER: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/tests/it/folder");
    let refusal = Migrations::embedded(&STRAYS).unwrap_err();
    assert_eq!(refusal, Refusal::Misnamed { file: "nodes.sql".to_owned() });
    // Even a folder that is named like a migration.
    let refusal = Migrations::embedded(&FOLDER).unwrap_err();
    assert_eq!(refusal, Refusal::Misnamed { file: "0002_not_a_file.sql/".to_owned() });
}

#[tokio::test]
async fn a_failing_migration_leaves_nothing_and_those_before_it_stand() {
    let world = World::start().await;
    let bad = ("0002_b.sql", "CREATE TABLE b (); CREATE TABLE half (); CREATE TABLE a ();");
    let failed = world.migrate(&[A, bad, C]).await.unwrap_err();
    let MigrateError::Failed { file, source, .. } = &failed else { panic!("{failed:?}") };
    assert_eq!(file, "0002_b.sql");
    assert!(source.to_string().contains("\"a\" already exists"), "{source}");
    assert!(failed.to_string().contains("those before it stand"), "{failed}");
    assert_eq!(
        (world.tables().await, world.recorded().await),
        (vec!["a".to_owned()], vec!["0001_a.sql".to_owned()])
    );
    // Corrected, it goes on from there: one that never ran may be edited.
    assert_eq!(world.migrate(&[A, B, C]).await.unwrap(), ["0002_b.sql", "0003_c.sql"]);
}

#[tokio::test]
async fn the_status_says_what_stands_and_what_would_stop() {
    let world = World::start().await;
    let states = async |files: &[(&str, &str)]| -> Vec<(u32, String)> {
        let status = world.store.migration_status(&migrations(files)).await.unwrap();
        status
            .into_iter()
            .map(|line| {
                let state = match line.state {
                    MigrationState::Applied { at } => {
                        assert!(at.starts_with("20") && at.ends_with('Z'), "{at}");
                        "applied".to_owned()
                    }
                    MigrationState::Pending => "pending".to_owned(),
                    MigrationState::Refused(Refusal::BelowNewest { .. }) => "below".to_owned(),
                    MigrationState::Refused(Refusal::Unknown { .. }) => "unknown".to_owned(),
                    MigrationState::Refused(Refusal::Edited { .. }) => "edited".to_owned(),
                    MigrationState::Refused(other) => panic!("{other}"),
                };
                (line.number, state)
            })
            .collect()
    };
    let line = |number, state: &str| (number, state.to_owned());
    assert_eq!(states(&[A]).await, [line(1, "pending")]);
    assert_eq!(world.tables().await, [""; 0], "looking changed something");
    world.migrate(&[A, C]).await.unwrap();
    let other_a = ("0001_a.sql", "CREATE TABLE other ();");
    assert_eq!(states(&[A, C]).await, [line(1, "applied"), line(3, "applied")]);
    assert_eq!(states(&[other_a, B]).await, [line(1, "edited"), line(2, "below"), line(3, "unknown")]);
}

#[tokio::test]
async fn serving_needs_exactly_the_carried_migrations() {
    let world = World::start().await;
    let behind = world.store.require_migrated(&migrations(&[A, B])).await.unwrap_err().to_string();
    assert!(behind.contains("lacks 0001_a.sql and 1 more; run `mesh-control migrate` first"), "{behind}");
    world.migrate(&[A, B]).await.unwrap();
    world.store.require_migrated(&migrations(&[A, B])).await.unwrap();
    let newer = world.store.require_migrated(&migrations(&[A])).await.unwrap_err();
    assert!(matches!(newer, MigrateError::Refused(Refusal::Unknown { .. })), "{newer:?}");
}
