//! One container in the place of another, with the way back: until the new one was judged, the old one is kept, stopped.
//!
//! Beside the container NAME there are three others while it is replaced, and never otherwise: `NAME.mesh-next`, the new one
//! before it has its name; `NAME.mesh-old`, the old one after it gave its name; `NAME.mesh-failed`, a new one that was judged
//! and found wanting. Everything here goes by what the engine has, so that whoever was killed in between goes on. Never
//! removes a container that was not judged while it is the only one that ran.

use std::time::Duration;

use super::{Contents, Engine, EngineStep, State, wait};
use crate::{failure::Failure, machine::Machine};

/// A new container before it has its name.
pub fn next_of(container: &str) -> String {
    format!("{container}.mesh-next")
}

/// The container that is to be replaced, after it gave its name.
pub fn old_of(container: &str) -> String {
    format!("{container}.mesh-old")
}

/// The one that was to replace it, and did not become ready.
pub fn failed_of(container: &str) -> String {
    format!("{container}.mesh-failed")
}

/// What is done when a step of a replacement fails: the container that was there is there again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Back {
    /// The container that is being replaced.
    pub container: String,
    /// How long the new one has to end by itself, in seconds.
    pub grace_s: u32,
}

/// The old one gives its name, the new one takes it.
pub(super) async fn put_in_place(engine: &dyn Engine, container: &str) -> Result<(), Failure> {
    let contents = engine.look().await?;
    if contents.containers.contains_key(container) {
        engine.rename_container(container, &old_of(container)).await?;
    }
    engine.rename_container(&next_of(container), container).await
}

/// Takes a step, and goes back if it fails. `Err` says what failed, and what runs now.
pub(super) async fn or_back(machine: &Machine, step: &EngineStep, back: &Back) -> Result<(), Failure> {
    let engine = machine.engine.as_ref();
    let (why, judged) = match step {
        EngineStep::AwaitReady { container, ready, private_log } => {
            match wait::ready(engine, container, ready, *private_log).await {
                Ok(()) => return Ok(()),
                Err(wait::NotReady::Judged(why)) => (why, true),
                // Nothing is known of it: it is asked again in the next round.
                Err(wait::NotReady::Unknown(why)) => return Err(why),
            }
        }
        EngineStep::StartContainer(name) => {
            // An engine that is busy may refuse what it does a moment later; what it refuses twice is the container's.
            let Err(first) = engine.start_container(name).await else { return Ok(()) };
            tracing::info!(container = name, why = %first, "it was not started; once more");
            match engine.start_container(name).await {
                Ok(()) => return Ok(()),
                Err(why) => (why, true),
            }
        }
        step => match Box::pin(step.apply(machine)).await {
            Ok(()) => return Ok(()),
            Err(why) => (why, false),
        },
    };
    Err(match put_back(engine, back, judged).await {
        Ok(()) => Failure::new(format!("{why}; the container before it was put back and started")),
        Err(then) => {
            Failure::new(format!("{why}; and the container before it could not be put back: {then}"))
        }
    })
}

/// Puts the container that is being replaced back, and starts it. The new one is kept, stopped, where it was `judged`.
pub(super) async fn put_back(engine: &dyn Engine, back: &Back, judged: bool) -> Result<(), Failure> {
    let (container, contents) = (&back.container, engine.look().await?);
    let (next, old) = (next_of(container), old_of(container));
    let is_there = |name: &String| contents.containers.contains_key(name);
    let (gave_its_name, has_next) = (is_there(&old), is_there(&next));
    if gave_its_name && is_there(container) {
        retire(engine, &contents, container, back, judged).await?;
        if has_next {
            engine.remove_container(&next).await?;
        }
    } else if has_next {
        retire(engine, &contents, &next, back, judged).await?;
    }
    if gave_its_name {
        engine.rename_container(&old, container).await?;
    }
    engine.start_container(container).await
}

/// Takes a new container out of the way.
async fn retire(
    engine: &dyn Engine,
    contents: &Contents,
    name: &str,
    back: &Back,
    judged: bool,
) -> Result<(), Failure> {
    if contents.containers.get(name).is_some_and(|found| found.state == State::Running) {
        engine.stop_container(name, Duration::from_secs(back.grace_s.into())).await?;
    }
    if !judged {
        return engine.remove_container(name).await;
    }
    let failed = failed_of(&back.container);
    engine.remove_container(&failed).await?;
    engine.rename_container(name, &failed).await
}
