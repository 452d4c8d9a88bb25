//! The committed document is that of the routes. `MESH_BLESS=1` writes it anew.

use std::{fs, path::Path};

#[test]
fn the_committed_document_is_that_of_the_routes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/mesh-v1.json");
    let document = mesh_control::http::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("MESH_BLESS").is_some() {
        fs::write(&path, &document).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == document,
        "openapi/mesh-v1.json is not what the routes say: MESH_BLESS=1 writes it anew"
    );
}
