//! The record of a context: what happened, in order, and how others come to know it.
//!
//! Does: append an event in the owner's own transaction ([`Record`]); hand the events on, in order and exactly once,
//! to a reader that keeps its cursor beside its projection in its own store ([`Delivery`]); let the api follow from
//! any position without losing anything ([`Reader::subscribe`]).
//! Never: opens a store, shares one between contexts, skips an event it cannot read, or leaves the process: the
//! record is the owner's table and a wake-up inside `mesh-control`, and there is nothing else to keep running.
//! Called by: the contexts (`commands` append, `react` reads) and mesh-control, which runs the deliveries.
//!
//! # Positions
//! A context's positions are 1, 2, 3 … without a hole, and become visible in that order. A plain sequence would give
//! neither: it leaves holes on rollback, and a transaction that took 7 may commit after the one that took 8, past
//! which a reader has already moved. So an append holds an advisory lock until its transaction ends. The price is
//! that transactions which append run one after the other from the append on: append last, commit at once.

mod append;
mod deliver;
mod entry;
mod follow;
mod read;
pub mod schema;

pub use append::{AppendError, Record};
pub use deliver::{Delivery, DeliveryState, DeliveryStatus, ReactError, Reaction};
pub use entry::{Entry, Event, Object, RecordPosition, Upcast};
pub use read::{Batch, ReadError, Reader};
