//! A manifest as a person writes it: what is read, what is refused and where, what it becomes.

#![expect(clippy::unwrap_used, reason = "tests")]

mod build;
mod examples;
mod read;
mod schema;

use mesh_manifest::{Catalogue, Manifest, ManifestError, Module};

/// Begins every manifest of these tests.
const HEAD: &str = "name = \"hello\"\nversion = \"1\"\nplacement.every_node = true\n";

fn read(body: &str) -> Result<Manifest, ManifestError> {
    Manifest::from_toml("module.toml", &format!("{HEAD}{body}"), |path| Err(format!("there is no {path}")))
}

/// The complaint about a manifest, without the file's name.
fn complaint(body: &str) -> String {
    let complaint = read(body).unwrap_err().to_string();
    complaint.strip_prefix("module.toml:").unwrap().to_owned()
}

fn catalogue() -> Catalogue {
    Catalogue::from_toml(&format!(
        "[[image]]\nname = \"mesh/hello\"\ndigest = \"sha256:{}\"\nwhy = \"…\"\n",
        "a".repeat(64)
    ))
    .unwrap()
}

fn module(body: &str) -> Module {
    Module::resolve(read(body).unwrap(), &catalogue()).unwrap()
}
