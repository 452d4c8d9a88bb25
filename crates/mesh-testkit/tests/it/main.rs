//! The throw-away PostgreSQL itself: real, isolated, and gone afterwards.

#![expect(clippy::unwrap_used, reason = "tests")]

mod postgres;
