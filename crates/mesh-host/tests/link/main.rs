//! The node's side of the link against a real broker, with a control plane played by the test.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod broker;
mod mesh;
