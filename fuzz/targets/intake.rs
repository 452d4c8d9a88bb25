//! A frame as it arrives. No bytes at all carry the signature of a key that never signed them, so nothing is accepted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_host::intake::{Stored, accept};

fuzz_target!(|frame: &[u8]| {
    let accepted = accept(frame, &mesh_fuzz::trust(), Stored::Nothing);
    assert!(accepted.is_err(), "nobody signed this");
});
