//! The committed JSON Schema is the current one, and agrees with the reader.

use crate::read;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/module.json");

#[test]
fn the_committed_schema_is_current() {
    let current = mesh_manifest::schema_text();
    if std::env::var_os("MESH_BLESS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(PATH).parent().unwrap()).unwrap();
        std::fs::write(PATH, &current).unwrap();
    }
    let committed = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(committed == current, "docs/schema/module.json is not current: write it anew with MESH_BLESS=1");
}

#[test]
fn the_schema_takes_what_the_reader_takes() {
    let schema: serde_json::Value = serde_json::from_str(&mesh_manifest::schema_text()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut json = read(
        "[[container]]\nname='web'\nimage='mesh/hello'\nports=[{host=8080,container=8080}]\n\
         [[file]]\npath='/etc/a'\ncontent='x'\nmode='0600'\n",
    )
    .unwrap()
    .to_json();
    assert!(validator.is_valid(&json), "{:?}", validator.iter_errors(&json).collect::<Vec<_>>());
    json["container"][0]["imge"] = "x".into();
    assert!(!validator.is_valid(&json), "an unknown field");
}
