//! The migrations, on an empty store and again, and that they make the tables others expect.

use mesh_record::schema::RECORD_1;
use mesh_store::Store;

use crate::{Mesh, PATIENCE};

#[tokio::test]
async fn migrating_again_changes_nothing() {
    let mesh = Mesh::new().await;
    let store = Store::open(mesh_identity::CONTEXT, &mesh.database.variables()).unwrap();
    let again = store.migrate(&mesh_identity::migrations().unwrap(), PATIENCE).await.unwrap();
    assert_eq!(again, Vec::new());
}

#[test]
fn the_table_of_the_record_is_that_of_the_record() {
    assert_eq!(include_str!("../../migrations/0001_record.sql"), RECORD_1);
}
