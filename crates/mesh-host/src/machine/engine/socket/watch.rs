//! Listens to the engine's events, and asks containers whether they are well meanwhile: a container that ended or went away wakes a round, and while nothing is told the
//! lists of the last round hold.

use std::{cell::Cell, pin::Pin, time::Duration};

use bollard::{errors::Error, models::EventMessage, query_parameters::EventsOptions};
use futures_util::{Stream, StreamExt as _};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep_until},
};

use super::EngineSocket;

/// How long after a break the engine is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

type EventStream = Pin<Box<dyn Stream<Item = Result<EventMessage, Error>>>>;

/// The engine's events, open or not.
#[derive(Default)]
pub(super) struct Events {
    stream: Mutex<Option<EventStream>>,
    open: Cell<bool>,
    /// When they broke off last.
    broke: Cell<Option<Instant>>,
}

impl Events {
    /// Whether the engine tells of every change now.
    pub(super) fn is_open(&self) -> bool {
        self.open.get()
    }
}

impl EngineSocket {
    /// Waits for an event that matters, for the moment at which a container may be started again, or for the engine to
    /// come back. May be dropped and called again: nothing is lost.
    pub(super) async fn wait_for_change(&self) {
        let mut stream = self.events.stream.lock().await;
        // Goes on beside the events: asking a command brings about events of its own.
        let asking = self.ask_next();
        tokio::pin!(asking);
        loop {
            let Some(events) = stream.as_mut() else {
                if let Some(broke) = self.events.broke.get() {
                    sleep_until(broke + RETRY_AFTER).await;
                }
                match self.docker().await {
                    Ok(docker) => {
                        *stream = Some(Box::pin(docker.events(None::<EventsOptions>)));
                        self.events.open.set(true);
                        // What was listed before the events began may have changed in between.
                        self.forget();
                        self.probed.borrow_mut().clear();
                    }
                    // The rounds try it too, and say why not.
                    Err(_) => self.events.broke.set(Some(Instant::now())),
                }
                continue;
            };
            let held = self.held.get();
            let event = tokio::select! {
                event = events.next() => event,
                () = until(held) => {
                    self.held.set(None);
                    return;
                }
                unwell = &mut asking => {
                    if unwell {
                        return;
                    }
                    asking.set(self.ask_next());
                    continue;
                }
            };
            match event {
                Some(Ok(event)) if matters(event.action.as_deref()) => {
                    self.forget();
                    if let Some(name) =
                        event.actor.and_then(|actor| actor.attributes).and_then(|mut all| all.remove("name"))
                    {
                        self.probed.borrow_mut().remove(&name);
                    }
                    return;
                }
                Some(Ok(_)) => {}
                broken => {
                    if let Some(Err(error)) = broken {
                        tracing::info!(%error, "the engine's events broke off");
                    }
                    *stream = None;
                    self.events.broke.set(Some(Instant::now()));
                    self.events.open.set(false);
                    *self.connection.borrow_mut() = None;
                    self.forget();
                    return;
                }
            }
        }
    }
}

impl EngineSocket {
    /// Asks whoever is due next; whether its answers stay bad. Dropped while it waits, the same is due again.
    async fn ask_next(&self) -> bool {
        let due = self.health.borrow().next();
        let Some((at, question)) = due else {
            self.health_changed.notified().await;
            return false;
        };
        tokio::select! {
            () = sleep_until(self.began + at) => {}
            () = self.health_changed.notified() => return false,
        }
        let answer = self.ask_it(&question.name, &question.watch.ready, question.within).await;
        let unwell = self.health.borrow_mut().answered(&question, answer, self.began.elapsed());
        if unwell {
            tracing::info!(container = question.name, "its answers stay bad");
        }
        unwell
    }
}

/// Whether what happened can make something other than declared. Executions are told too, and do not.
fn matters(action: Option<&str>) -> bool {
    // `died` and `remove` are Podman's words, `die` and `destroy` Docker's.
    let words = ["die", "died", "stop", "remove", "destroy", "pause", "unpause", "rename", "oom"];
    action.is_some_and(|action| words.contains(&action))
}

async fn until(held: Option<Instant>) {
    match held {
        Some(held) => sleep_until(held).await,
        None => std::future::pending().await,
    }
}
