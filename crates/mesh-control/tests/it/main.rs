//! The control plane from outside.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod listener;
mod openapi;
