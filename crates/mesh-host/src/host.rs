//! The host itself: intake, ledger and reconcile put together. Called by the run loop, the commands and the bootstrap.

use std::collections::BTreeMap;

use mesh_ids::ResourceId;
use mesh_wire::{Resource, UnreadableResource};

use crate::{failure::Failure, intake::Trust, ledger::Origin, machine::Machine, paths::Paths, step::Step};

/// A resource as declared, or why it cannot be read.
pub type Declared = Result<Resource, UnreadableResource>;

/// The host.
pub struct Host {
    _machine: Machine,
}

/// What a round did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What is as declared now.
    pub applied: Vec<(Origin, ResourceId)>,
    /// What is not, and why. By origin and id; an id that could not be read is `resource 3`.
    pub failed: BTreeMap<(Origin, String), Failure>,
    /// How many steps were taken.
    pub steps: usize,
}

/// Hears of every step before it is taken, to show progress.
pub type Progress<'a> = &'a mut dyn FnMut(Origin, &str, &Step);

impl Host {
    /// Opens the ledger and reads what the machine should be. `trust`: whom a joined machine follows.
    pub fn open(_paths: &Paths, machine: Machine, _trust: Option<Trust>) -> Result<Self, Failure> {
        Ok(Self { _machine: machine })
    }
}
