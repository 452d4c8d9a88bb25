//! An engine in memory, for tests.
