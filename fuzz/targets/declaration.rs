//! A declaration whose signature holds: it is for this node or refused; accepted once, it is the same again and nothing
//! older; every resource of it is read or refused by itself, and reads itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_fuzz::{declare_key, reads_itself, trust};
use mesh_host::intake::{Stored, accept};
use mesh_wire::Signed;

fuzz_target!(|declaration: &[u8]| {
    let trust = trust();
    let frame = serde_json::to_vec(&Signed::new(declaration.to_vec(), &declare_key())).expect("a frame");
    let Ok(accepted) = accept(&frame, &trust, Stored::Nothing) else { return };
    assert!(!accepted.again);
    let read = accepted.declaration;
    assert_eq!((&read.mesh, &read.node, &read.key), (&trust.mesh, &trust.node, &trust.key));
    for resource in read.resources().into_iter().flatten() {
        reads_itself(&resource);
    }
    let position = read.position();
    let stored = Stored::Declaration { position, frame: &frame };
    assert!(accept(&frame, &trust, stored).expect("the same").again);
    let older = Stored::Unreadable { known: Some(position) };
    assert!(accept(&frame, &trust, older).is_err(), "no higher generation than what was followed");
});
