//! A token as somebody pasted it: damaged or whole, and whole it says the same again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mesh_wire::JoinToken;

fuzz_target!(|text: &str| {
    let Ok(token) = text.parse::<JoinToken>() else { return };
    let again: JoinToken = token.to_text().expect("a token").parse().expect("what was written is read");
    assert_eq!(again.to_text().expect("a token"), token.to_text().expect("a token"));
});
