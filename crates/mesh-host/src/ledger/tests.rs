//! Crash images and corruption of the ledger.
