//! What the contexts tell each other: the public events of the record, one enum a context.
//!
//! Vocabulary only. An event says what happened, in the past tense, and never what to do. In a record it is an object
//! whose `kind` is its name and version (`node_joined/1`); a version that was written once stays readable for ever (golden
//! files under `tests/golden/`). A context writes its own events in `publish.rs` and reads others' in `react.rs`.

mod identity;
mod inventory;

pub use identity::{IdentityEvent, Stage};
pub use inventory::InventoryEvent;
