//! Changes: load, decide, save and append to the record, in one transaction each.

mod admit;
mod invite;
mod issue;

pub use admit::Redemption;
pub use issue::{Issued, Newest};
