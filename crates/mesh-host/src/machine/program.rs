//! The host's own program: which one is installed, which ones are beside it, and what is remembered of upgrades.
//!
//! What happens to that memory is decided in [`crate::upgrade`]; here it is kept, and programs are copied, checked and put
//! in place. Nothing else of the machine is touched: no unit, no container, no tunnel.

pub mod alarm;
mod disk;
mod elf;
pub mod launch;
#[cfg(test)]
mod power;
mod real;
mod shelf;
#[cfg(test)]
mod tests;

use std::fmt;

use mesh_ids::Digest;
use mesh_wire::kinds::HostSource;
pub use real::{RealProgram, own_digest};

use super::Machine;
use crate::{
    failure::Failure,
    upgrade::{Intention, Next, State, short},
};

/// What is found of the host's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFound {
    /// The SHA-256 of the installed program; where this process is on trial, of its own.
    pub runs: Digest,
    /// Whether the program that is wanted is beside it, whole.
    pub beside: bool,
    /// Whether this process is connected to the broker.
    pub connected: bool,
    /// What is remembered of upgrades.
    pub state: State,
}

/// The host's own program.
pub trait Program {
    /// What is there. `wanted`: the program that is to run.
    fn look(&self, wanted: &Digest) -> Result<ProgramFound, Failure>;
    /// What is remembered of upgrades.
    fn state(&self) -> Result<State, Failure>;
    /// Puts the program beside the installed one, durably, where it is the one wanted and runs on this machine. At most
    /// these two are on the disk afterwards.
    fn install(&self, source: &HostSource, wanted: &Digest) -> Result<(), Failure>;
    /// Remembers, durably, that a program is to be tried when the service starts next.
    fn intend(&self, intention: &Intention) -> Result<(), Failure>;
    /// Forgets that.
    fn withdraw(&self) -> Result<(), Failure>;
    /// The service starts: decides who serves, and remembers it durably.
    fn begin(&self) -> Result<Next, Failure>;
    /// The program on trial was told to end.
    fn told_to_end(&self) -> Result<(), Failure>;
    /// The program on trial failed.
    fn give_up(&self, why: &str) -> Result<(), Failure>;
    /// The program on trial proved itself: installs it in the old one's place.
    fn keep(&self) -> Result<(), Failure>;
    /// From now on this process is on trial.
    fn is_on_trial(&self);
    /// Whether this process is connected to the broker, from now on.
    fn is_connected(&self, connected: bool);
    /// Forgets everything that is remembered of upgrades, and removes every program but the installed one.
    fn forget(&self) -> Result<(), Failure>;
}

/// One act on the host's own program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostStep {
    /// Put a program beside the installed one.
    Install {
        /// Its version.
        version: String,
        /// From where.
        source: HostSource,
        /// Its SHA-256.
        digest: Digest,
    },
    /// Try it when the service starts next, and end for that.
    Try(Intention),
    /// Do not try it.
    Withdraw,
}

impl fmt::Display for HostStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Install { version, source, digest } => {
                write!(f, "put mesh-host {version} ({}) beside the one that runs, from ", short(digest))?;
                match source {
                    HostSource::Path(path) => f.write_str(path),
                    HostSource::Bundle => f.write_str("the bundle"),
                }
            }
            Self::Try(Intention { version, digest, login, .. }) => {
                let login =
                    if *login { ", passed a round and logged in afresh" } else { " and passed a round" };
                write!(
                    f,
                    "restart as mesh-host {version} ({}), on trial: kept once it read the ledger{login}",
                    short(digest)
                )
            }
            Self::Withdraw => f.write_str("try no other mesh-host"),
        }
    }
}

impl HostStep {
    /// Does it.
    pub fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        match self {
            Self::Install { source, digest, .. } => machine.program.install(source, digest),
            Self::Try(intention) => machine.program.intend(intention),
            Self::Withdraw => machine.program.withdraw(),
        }
    }
}
