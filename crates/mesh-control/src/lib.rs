//! The control plane: wires the contexts to each other's records, to the broker and to HTTP, and decides nothing itself.

pub mod settings;
