//! The migrations, on an empty store and again, and that they make the tables others expect.

use mesh_record::schema::{CURSORS_1, RECORD_1};
use mesh_store::Store;

use crate::{Mesh, PATIENCE};

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let mesh = Mesh::new().await;
    let store = Store::open(mesh_inventory::CONTEXT, &mesh.database.variables()).unwrap();
    let again = store.migrate(&mesh_inventory::migrations().unwrap(), PATIENCE).await.unwrap();
    assert_eq!(again, Vec::new());
}

#[test]
fn the_tables_of_the_record_are_those_of_the_record() {
    let migration = include_str!("../../migrations/0001_record_and_cursors.sql");
    assert_eq!(migration, format!("{RECORD_1}\n{CURSORS_1}"));
}
