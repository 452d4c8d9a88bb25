//! The container engine, by its API socket (Podman or Docker). The only place that names bollard.

use std::fmt;

use async_trait::async_trait;

use super::Machine;
use crate::failure::Failure;

/// The container engine of the machine. Connects when it is first needed, because a resource may install it.
#[async_trait(?Send)]
pub trait Engine {
    /// Its name and version, e.g. `podman 4.3.1`; none where there is no engine.
    async fn version(&self) -> Option<String>;

    /// Called when a round begins: what was remembered of the engine's state is forgotten.
    fn new_round(&self);

    /// Waits until something the engine runs may have changed. Reconnects by itself, for ever.
    async fn changed(&self);
}

/// One act on the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineStep {}

impl fmt::Display for EngineStep {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl EngineStep {
    /// Does it.
    #[expect(clippy::unused_async, reason = "an engine is asked over a socket")]
    pub async fn apply(&self, _: &Machine) -> Result<(), Failure> {
        match *self {}
    }

    /// Whether it replaces a container.
    pub fn restarts(&self) -> bool {
        match *self {}
    }
}

/// A machine without an engine.
#[derive(Debug, Clone, Copy)]
pub struct NoEngine;

#[async_trait(?Send)]
impl Engine for NoEngine {
    async fn version(&self) -> Option<String> {
        None
    }

    fn new_round(&self) {}

    async fn changed(&self) {
        std::future::pending().await
    }
}
