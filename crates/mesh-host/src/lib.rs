//! The program on every node, as a library: `main.rs` only starts it.
//!
//! Bytes come in through [`intake`], are kept by the [`ledger`], compared with the machine and applied by
//! [`reconcile`], kind by kind ([`kinds`]), through the only door to the operating system ([`machine`]); what is true
//! afterwards goes out as a [`report`]. The host applies and never decides: there is nothing here that needs to know
//! of a second node.

#![cfg_attr(test, expect(clippy::expect_used, reason = "a test fails where it stands"))]

pub mod bootstrap;
pub mod cli;
#[cfg(test)]
mod contract;
pub mod doctor;
pub mod failure;
pub mod host;
mod http;
pub mod intake;
pub mod join;
pub mod keys;
pub mod kinds;
pub mod leave;
pub mod ledger;
pub mod link_file;
pub mod login;
pub mod machine;
pub mod paths;
pub mod reconcile;
pub mod report;
pub mod run;
pub mod service;
pub mod status;
pub mod step;
#[cfg(test)]
mod test_mesh;
pub mod upgrade;
pub mod uplink;
