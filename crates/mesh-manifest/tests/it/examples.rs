//! The modules a person can apply on day one are modules.

use std::path::Path;

use mesh_manifest::{Manifest, Module};

use crate::catalogue;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");

#[test]
fn every_example_is_read_and_needs_only_what_the_mesh_carries() {
    let mut read = 0;
    for folder in std::fs::read_dir(EXAMPLES).unwrap() {
        let folder = folder.unwrap().path();
        let file = folder.join("module.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let load =
            |path: &str| std::fs::read(folder.join(Path::new(path))).map_err(|error| error.to_string());
        let manifest = Manifest::from_toml(&file.display().to_string(), &text, load);
        let manifest = manifest.unwrap_or_else(|error| panic!("{error}"));
        Module::resolve(manifest, &catalogue()).unwrap();
        read += 1;
    }
    assert!(read > 0, "no example was read");
}

/// What a person is told to write is what is read.
#[test]
fn the_modules_of_the_guide_are_modules() {
    let guide = include_str!("../../../../docs/operate/modules.md");
    let mut read = 0;
    for block in guide.split("```toml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let manifest = Manifest::from_toml("module.toml", text, |path| match path {
            "greeter.conf" | "greeter.service" => Ok(b"text".to_vec()),
            other => Err(format!("the guide names {other}")),
        });
        Module::resolve(manifest.unwrap_or_else(|error| panic!("{error}")), &catalogue()).unwrap();
        read += 1;
    }
    assert_eq!(read, 1);
}
