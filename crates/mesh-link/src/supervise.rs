//! Keeps a connection for ever: opens it, runs what lives on it, drops it whole when that fails, tries again.
//!
//! Decides nothing: when to try again is [`crate::retry`]'s. Never gives up and never has two connections.
//! Called by: the host's uplink and the control plane's link.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::address::Address;
use crate::connection::{Connection, Endpoint, LinkError, OpenError};
use crate::retry::{Cause, Effect, Event, Retry, Timer};

/// How long one attempt may take over all addresses. Short, so that an attempt begun while the network was cut does
/// not outlast the cut by much.
const OPEN_DEADLINE: Duration = Duration::from_secs(6);

/// What lives on a connection.
pub trait Session: Send {
    /// Uses the connection until it is of no more use.
    fn run(&mut self, connection: &Connection) -> impl Future<Output = LinkError> + Send;
}

/// How the link stands, for people and programs that look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SupervisorState {
    /// An attempt is under way.
    Opening,
    /// Open to this address.
    Open(Address),
    /// Waiting for the next attempt.
    Waiting {
        /// Whether the broker does not let us in, rather than being out of reach.
        refused: bool,
        /// What went wrong last.
        reason: String,
        /// How long until the next attempt.
        next_in: Duration,
    },
}

/// Says to a [`Supervisor`] that something about the network changed.
#[derive(Debug, Clone, Default)]
pub struct Hint(Arc<Notify>);

impl Hint {
    /// Ends a wait for an unreachable broker.
    pub fn give(&self) {
        self.0.notify_one();
    }
}

/// Keeps one connection to one endpoint.
#[derive(Debug)]
pub struct Supervisor {
    endpoint: Endpoint,
    retry: Retry,
    hint: Hint,
    state: watch::Sender<SupervisorState>,
    began: Instant,
    /// The last failure that was logged.
    said: String,
}

impl Supervisor {
    /// `seed` spreads this machine's attempts among those of others; any number that differs from theirs will do.
    pub fn new(endpoint: Endpoint, seed: u64) -> Self {
        let state = watch::Sender::new(SupervisorState::Opening);
        Self {
            endpoint,
            retry: Retry::new(seed),
            hint: Hint::default(),
            state,
            began: Instant::now(),
            said: String::new(),
        }
    }

    /// How the link stands, now and later.
    pub fn state(&self) -> watch::Receiver<SupervisorState> {
        self.state.subscribe()
    }

    /// By which it is told of a changed network.
    pub fn hint(&self) -> Hint {
        self.hint.clone()
    }

    /// Runs for ever; stopped by being dropped.
    pub async fn run(mut self, session: &mut impl Session) -> ! {
        let mut event = Event::Started;
        let mut reason = String::new();
        loop {
            match self.retry.step(event, self.began.elapsed()) {
                Some(Effect::Open) => (event, reason) = self.connect(session).await,
                Some(Effect::Wait(timer, wait)) => event = self.wait(timer, wait, event, &reason).await,
                None => event = self.idle().await,
            }
        }
    }

    async fn connect(&mut self, session: &mut impl Session) -> (Event, String) {
        self.state.send_replace(SupervisorState::Opening);
        let hint = self.hint.clone();
        let opening = Connection::open(&self.endpoint, OPEN_DEADLINE);
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                opened = &mut opening => break opened,
                () = hint.0.notified() => {
                    let _ = self.retry.step(Event::Hint, self.began.elapsed());
                }
            }
        };
        let connection = match opened {
            Ok(connection) => connection,
            Err(error) => {
                let refused = matches!(error, OpenError::Refused { .. });
                let cause = if refused { Cause::Refused } else { Cause::Unreachable };
                let reason = error.to_string();
                // Said once: a broker that is away for a week would fill the log.
                if reason == self.said {
                    tracing::debug!(reason, "the link is still not open");
                } else {
                    tracing::warn!(reason, "the link is not open");
                    self.said.clone_from(&reason);
                }
                return (Event::NotOpened(cause), reason);
            }
        };
        let _ = self.retry.step(Event::Opened, self.began.elapsed());
        self.said.clear();
        tracing::info!(broker = %connection.address(), "the link is open");
        self.state.send_replace(SupervisorState::Open(connection.address().clone()));
        let error = {
            let running = session.run(&connection);
            tokio::pin!(running);
            let lost = connection.lost();
            tokio::pin!(lost);
            loop {
                tokio::select! {
                    error = &mut running => break error,
                    error = &mut lost => break error,
                    // Taken, so that it does not stand until this connection is lost and send every machine that
                    // saw it back to the broker at once.
                    () = hint.0.notified() => {}
                }
            }
        };
        drop(connection);
        tracing::warn!(%error, "the link is lost");
        let cause = if matches!(error, LinkError::Refused(_)) { Cause::Refused } else { Cause::Unreachable };
        (Event::Lost(cause), error.to_string())
    }

    async fn wait(&mut self, timer: Timer, wait: Duration, after: Event, reason: &str) -> Event {
        let refused = matches!(after, Event::NotOpened(Cause::Refused) | Event::Lost(Cause::Refused));
        let reason = reason.to_owned();
        self.state.send_replace(SupervisorState::Waiting { refused, reason, next_in: wait });
        let end = Instant::now() + wait;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => return Event::Elapsed(timer),
                // Of a refusal a hint says nothing, so that its timer goes on.
                () = self.hint.0.notified() => if !refused { return Event::Hint },
            }
        }
    }

    /// The machine wants nothing: only a hint could change that.
    async fn idle(&self) -> Event {
        self.hint.0.notified().await;
        Event::Hint
    }
}
