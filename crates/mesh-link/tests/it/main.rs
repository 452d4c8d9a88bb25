//! The link against real servers: TLS of every wrong sort, and a real broker.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod broker;
mod tls;
