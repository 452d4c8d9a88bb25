//! Whether a program would take a file, asked of that program before the file is put in its place.
//!
//! A closed list of programs with fixed arguments. Never touches the folder of the file: the candidate is looked at in a
//! folder of the host's own that mirrors it.

mod real;

use std::fmt;

use async_trait::async_trait;
use mesh_wire::kinds::Check;
pub use real::RealChecks;

use super::{Machine, files::Content};
use crate::failure::Failure;

/// The programs that check files.
#[async_trait(?Send)]
pub trait Checks {
    /// Fails where the program refuses the content, is missing, or does not answer in time.
    async fn check(&self, check: Check, path: &str, content: &Content) -> Result<(), Failure>;
}

/// Asks a program whether it would take a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckStep {
    /// Which program.
    pub check: Check,
    /// Where the file is to be.
    pub path: String,
    /// What it is to hold.
    pub content: Content,
}

impl fmt::Display for CheckStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check what is to be {} as {}", self.path, self.check)
    }
}

impl CheckStep {
    /// Does it.
    pub async fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        machine.checks.check(self.check, &self.path, &self.content).await
    }
}
