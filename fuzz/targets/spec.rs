//! The spec of every kind: read or refused in words, and what is read reads itself. Which kind is in the first byte.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_fuzz::reads_itself;
use mesh_wire::{
    Resource,
    kinds::{Kind, Spec},
};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let kind = Kind::ALL[usize::from(*kind) % Kind::ALL.len()];
    let Ok(json) = std::str::from_utf8(bytes) else { return };
    if let Ok(spec) = Spec::read(kind.as_str(), json) {
        assert_eq!(spec.kind(), kind);
        let id = "x".parse().expect("an id");
        reads_itself(&Resource { id, after: Vec::new(), observe_only: false, spec });
    }
    // As a whole resource, of whatever kind it says it is.
    if let Ok(resource) = Resource::read(json, 0) {
        reads_itself(&resource);
    }
});
