//! The rules of this repository as a test: a rule nobody checks is a wish.
//!
//! Each module holds one family of rules: its data first, then the rule as a function from a file to complaints, then
//! the test over the checkout and a test that the rule sees what it is there to see. Rules about crates that do not
//! exist yet wake when they appear. It needs no network and no service, and runs in seconds.

#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

#[path = "tidy/checkout.rs"]
mod checkout;
#[path = "tidy/dependencies.rs"]
mod dependencies;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/frozen.rs"]
mod frozen;
#[path = "tidy/places.rs"]
mod places;
#[path = "tidy/sources.rs"]
mod sources;
#[path = "tidy/words.rs"]
mod words;
