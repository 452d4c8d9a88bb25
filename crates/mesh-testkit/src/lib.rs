//! What the tests of every crate stand on.
//!
//! Does: raise a real PostgreSQL for one test and take it down with the test, however the test ends ([`Postgres`]);
//! the same with a RabbitMQ ([`Broker`]); issue certificates of every sort ([`Authority`]);
//! prove that a role reaches its own database and no other ([`isolation`]); wait for something with a deadline and
//! say what never came true ([`wait_for`]); fail a test on an ERROR it did not announce ([`LogWatch`]).
//! Never: used outside tests, and never knows a context, the wire or the store's own code: the crates it tests
//! depend on it, not the other way round.
//! Called by: tests only, as a dev-dependency.

#![expect(clippy::expect_used, clippy::missing_panics_doc, reason = "a test that cannot go on must panic")]

mod authority;
mod broker;
pub mod isolation;
mod log;
mod postgres;
mod wait;

pub use authority::{Authority, ServerCertificate};
pub use broker::Broker;
pub use log::LogWatch;
pub use postgres::{ContextDatabase, Postgres};
pub use wait::{Outcome, wait_for};
