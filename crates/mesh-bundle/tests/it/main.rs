//! Layouts written, read back, damaged and streamed: what an engine and a host rely on.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod layout;
