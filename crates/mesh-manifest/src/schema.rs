//! The JSON Schema of a manifest, for editors. Generated; the committed copy is `docs/schema/module.json`.

use crate::Manifest;

/// The schema as it is committed.
pub fn schema_text() -> String {
    let mut schema = schemars::schema_for!(Manifest);
    schema.insert("title".to_owned(), "module.toml".into());
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
