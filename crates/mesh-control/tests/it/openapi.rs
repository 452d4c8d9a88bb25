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

/// A literal segment beside the name of a node or a module hides whatever is called so.
#[test]
fn no_word_of_the_interface_stands_where_a_name_does_unless_it_is_reserved() {
    let document = serde_json::to_value(mesh_control::http::openapi()).unwrap();
    let paths: Vec<Vec<&str>> =
        document["paths"].as_object().unwrap().keys().map(|path| path.split('/').collect()).collect();
    let mut shadowed = Vec::new();
    for path in &paths {
        for (at, parameter) in path.iter().enumerate().filter(|(_, segment)| segment.starts_with('{')) {
            let reserved = match *parameter {
                "{node}" => mesh_identity::RESERVED_NAMES,
                "{module}" => mesh_inventory::RESERVED_NAMES,
                other => panic!("{other} is no name that anything is reserved of: say here what it is"),
            };
            let beside = paths.iter().filter(|other| other.len() > at && other[..at] == path[..at]);
            let words = beside.map(|other| other[at]).filter(|word| !word.starts_with('{'));
            shadowed.extend(words.filter(|word| !reserved.contains(word)).map(|word| (path.join("/"), word)));
        }
    }
    assert_eq!(shadowed, [], "reserve the word, or put it elsewhere");
    assert!(paths.len() > 10 && paths.iter().any(|path| path.contains(&"{module}")), "{paths:?}");
}
