//! Changes: load, decide, save and append to the record, in one transaction each.

mod apply;
mod statements;

pub use apply::Applied;
pub use statements::{Heard, ReportOutcome};
