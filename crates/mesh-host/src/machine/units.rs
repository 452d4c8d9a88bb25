//! systemd, over D-Bus. Knows units by name; never writes their files ([`super::files`] does) and never decides.

mod direct;
mod real;
mod status;
pub mod transient;
mod watch;

use std::fmt;

use async_trait::async_trait;
pub use real::{RealUnits, SystemState, system_state};

use super::Machine;
use crate::failure::Failure;

/// What systemd says of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitFound {
    /// Whether there is such a unit (`LoadState` is neither `not-found` nor `masked`), otherwise the state.
    pub load: Load,
    /// Whether it runs.
    pub active: Active,
    /// systemd's own finer word, for people (`SubState`).
    pub sub: String,
    /// Whether it starts with the machine; `None` where it can be neither enabled nor disabled.
    pub enabled: Option<bool>,
    /// Whether its file changed since systemd read it.
    pub needs_reload: bool,
}

/// `LoadState`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Load {
    /// systemd has read it.
    Loaded,
    /// There is none.
    NotFound,
    /// Masked, bad, or in error: systemd's word.
    Bad(String),
}

/// `ActiveState`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Active {
    /// `active`, `reloading`.
    Yes,
    /// `activating`: on its way.
    Starting,
    /// `deactivating`: on its way.
    Stopping,
    /// `inactive`.
    No,
    /// `failed`.
    Failed,
}

/// systemd.
#[async_trait(?Send)]
pub trait Units {
    /// Called when a round begins: what was remembered is forgotten.
    fn new_round(&self);
    /// What it says of this unit. A unit that does not exist is found as [`Load::NotFound`].
    async fn look(&self, name: &str) -> Result<UnitFound, Failure>;
    /// Reads all unit files again (`daemon-reload`).
    async fn reload(&self) -> Result<(), Failure>;
    /// Starts it and waits until it is ready ([`Units::ready`]) or failed.
    async fn start(&self, name: &str) -> Result<(), Failure>;
    /// Stops it and waits until that is done or failed.
    async fn stop(&self, name: &str) -> Result<(), Failure>;
    /// Stops it, starts it, and waits until it is ready ([`Units::ready`]) or failed.
    async fn restart(&self, name: &str) -> Result<(), Failure>;
    /// Waits until it is active, and for a moment stays so; one that is activating is not. Fails with how it ended where it
    /// does not become so in time.
    async fn ready(&self, name: &str) -> Result<(), Failure>;
    /// Forgets that it failed, so that nothing is left of it once its file is gone. One that is not there needs none.
    async fn forget(&self, name: &str) -> Result<(), Failure>;
    /// Makes it start with the machine.
    async fn enable(&self, name: &str) -> Result<(), Failure>;
    /// Makes it not start with the machine.
    async fn disable(&self, name: &str) -> Result<(), Failure>;
    /// Waits until some unit may have changed. Reconnects by itself, for ever.
    async fn changed(&self);
}

/// One act on systemd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitStep {
    /// Read all unit files again.
    Reload,
    /// Start the unit.
    Start(String),
    /// Stop the unit.
    Stop(String),
    /// Restart the unit, because of this.
    Restart(String, String),
    /// Wait until the unit, which is on its way, is ready.
    Await(String),
    /// Forget that the unit failed.
    Forget(String),
    /// Make the unit start with the machine.
    Enable(String),
    /// Make the unit not start with the machine.
    Disable(String),
}

impl fmt::Display for UnitStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reload => f.write_str("let systemd read its unit files again"),
            Self::Start(name) => write!(f, "start {name}"),
            Self::Stop(name) => write!(f, "stop {name}"),
            Self::Restart(name, why) => write!(f, "restart {name}, because {why}"),
            Self::Await(name) => write!(f, "wait until {name} is ready"),
            Self::Forget(name) => write!(f, "let systemd forget how {name} ended"),
            Self::Enable(name) => write!(f, "enable {name}"),
            Self::Disable(name) => write!(f, "disable {name}"),
        }
    }
}

impl UnitStep {
    /// Does it.
    pub async fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        match self {
            Self::Reload => machine.units.reload().await,
            Self::Start(name) => machine.units.start(name).await,
            Self::Stop(name) => machine.units.stop(name).await,
            Self::Restart(name, _) => machine.units.restart(name).await,
            Self::Await(name) => machine.units.ready(name).await,
            Self::Forget(name) => machine.units.forget(name).await,
            Self::Enable(name) => machine.units.enable(name).await,
            Self::Disable(name) => machine.units.disable(name).await,
        }
    }

    /// Whether it restarts the unit.
    pub fn restarts(&self) -> bool {
        matches!(self, Self::Restart(..))
    }
}
