//! `module.toml`: what is read is the same from the JSON that travels, and becomes resources that a host reads.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_fuzz::reads_itself;
use mesh_manifest::{Catalogue, Manifest, Module};

fuzz_target!(|text: &str| {
    let read = Manifest::from_toml("module.toml", text, |path| Ok(path.as_bytes().to_vec()));
    let Ok(manifest) = read else { return };
    let travelled = Manifest::from_json(&manifest.to_json()).expect("what was read is read again");
    assert_eq!(travelled, manifest);
    if let Ok(module) = Module::resolve(manifest, &Catalogue::default()) {
        for resource in module.resources() {
            reads_itself(resource);
        }
    }
});
