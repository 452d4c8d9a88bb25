//! What a node states and what a joining machine asks, as the control plane reads it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_wire::{Alive, Report};

fn reads_itself<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return };
    let written = serde_json::to_vec(&read).expect("JSON");
    assert_eq!(serde_json::from_slice::<T>(&written).expect("what was written is read"), read);
}

fuzz_target!(|bytes: &[u8]| {
    reads_itself::<Alive>(bytes);
    reads_itself::<Report>(bytes);
    reads_itself::<mesh_wire::EnrolRequest>(bytes);
    reads_itself::<mesh_wire::Enrol>(bytes);
    reads_itself::<mesh_wire::EnrolAnswer>(bytes);
});
