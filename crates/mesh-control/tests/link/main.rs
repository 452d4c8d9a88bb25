//! The control plane's link against a real broker, with nodes and contexts played by the test.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod broker;
mod gate;
