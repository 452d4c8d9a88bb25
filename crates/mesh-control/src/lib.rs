//! The control plane: wires the contexts to each other's records, to the broker and to HTTP, and decides nothing itself.
//!
//! - [`serve`] runs it: stores, deliveries, declaring, the link, the interface
//! - [`migrate`] brings the contexts' schemas up to date
//! - [`declare`] what each node is told
//! - [`statements`] what nodes say, handed to the contexts that own it
//! - [`link`] the broker
//! - [`http`] the interface

pub mod declare;
mod followed;
pub mod http;
pub mod link;
pub mod migrate;
pub mod serve;
pub mod settings;
pub mod statements;
