//! The program as people and scripts run it, before an interface that is played.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod played;
mod recover;
mod remove;
mod tables;
mod wait;
