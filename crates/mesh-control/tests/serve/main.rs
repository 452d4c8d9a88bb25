//! The control plane as it is served: real stores, a real broker, real TLS, and the client that people use.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod broker;
mod node;
mod poison;
mod recovery;
