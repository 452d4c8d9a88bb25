//! The wire against its committed files: what this program writes, what another program writes, and what it refuses.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod foreign;
mod golden;
mod refused;
mod samples;
