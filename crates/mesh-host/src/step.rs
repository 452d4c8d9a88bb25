//! What the host is about to do to the machine, one act at a time. Data: printed in plans and reports as a person reads
//! it, never with a secret, and applied through the machine's doors.

use std::fmt;

use crate::{
    failure::Failure,
    machine::{
        Machine, checks::CheckStep, engine::EngineStep, files::FileStep, packages::PackageStep,
        program::HostStep, sysctls::SysctlStep, units::UnitStep, users::UserStep,
    },
};

/// One act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A question about a file that is to be written.
    Check(CheckStep),
    /// On files and directories.
    File(FileStep),
    /// On systemd units.
    Unit(UnitStep),
    /// On packages.
    Package(PackageStep),
    /// On users and groups.
    User(UserStep),
    /// On the parameters of the kernel.
    Sysctl(SysctlStep),
    /// On the container engine and what runs in it.
    Engine(EngineStep),
    /// On the host's own program.
    Host(HostStep),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Check(step) => step.fmt(f),
            Self::File(step) => step.fmt(f),
            Self::Unit(step) => step.fmt(f),
            Self::Package(step) => step.fmt(f),
            Self::User(step) => step.fmt(f),
            Self::Sysctl(step) => step.fmt(f),
            Self::Engine(step) => step.fmt(f),
            Self::Host(step) => step.fmt(f),
        }
    }
}

impl Step {
    /// Does it.
    pub async fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        let done = match self {
            Self::Check(step) => step.apply(machine).await,
            Self::File(step) => step.apply(machine),
            Self::Unit(step) => step.apply(machine).await,
            Self::Package(step) => step.apply(machine).await,
            Self::User(step) => step.apply(machine).await,
            Self::Sysctl(step) => step.apply(machine),
            Self::Engine(step) => step.apply(machine).await,
            Self::Host(step) => step.apply(machine),
        };
        done.map_err(|failure| failure.during(self))
    }

    /// Whether it changes the content of a file.
    pub fn writes(&self) -> bool {
        matches!(self, Self::File(FileStep::Write(_) | FileStep::Restore { .. }))
    }

    /// Whether it (re)starts something that reads its configuration when it starts. A step that was planned and not
    /// completed is planned again for that alone.
    pub fn restarts(&self) -> bool {
        match self {
            Self::Unit(step) => step.restarts(),
            Self::Engine(step) => step.restarts(),
            Self::Check(_)
            | Self::File(_)
            | Self::Package(_)
            | Self::User(_)
            | Self::Sysctl(_)
            | Self::Host(_) => false,
        }
    }
}
