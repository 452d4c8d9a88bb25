//! The node's connection to the broker: brings frames to the host, takes its heartbeats and reports away.
//!
//! Three things run side by side while a connection is open, and the first that fails ends it. A frame is acknowledged
//! once the host is done with it; the newest report is published until the broker confirmed it; a heartbeat is said
//! every 10 s, and at once after connecting and after a declaration was accepted. Every body is signed with the node's
//! identity key. Never reads what a frame says, never keeps a report that has a newer one.
//! Called by: the run loop.

use std::sync::Arc;
use std::time::Duration;

use mesh_ids::NodeName;
use mesh_link::names::{ALIVE_KEY, REPORT_KEY, down_queue, up_exchange};
use mesh_link::{
    Connection, Hint, LinkError, Message, Published, Publisher, Session, Supervisor, SupervisorState,
};
use mesh_seal::{Purpose, SigningKey};
use mesh_wire::{Alive, MAX_FRAME_BYTES, Report};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::failure::Failure;
use crate::keys::NodeKeys;
use crate::link_file::LinkFile;
use crate::machine::Clock;
use crate::report::{FromLink, LinkState, UplinkEnd};

/// How often the node says that it is there.
const ALIVE_PERIOD: Duration = Duration::from_secs(10);
/// How long until a report is offered again that the broker could not place.
const REPORT_AGAIN: Duration = Duration::from_secs(5);

/// The uplink, ready to run.
pub struct Uplink {
    supervisor: Supervisor,
    session: NodeSession,
}

impl Uplink {
    /// Of the node that joined as this file says.
    pub fn new(link: &LinkFile, keys: &NodeKeys, end: UplinkEnd) -> Result<Self, Failure> {
        let seed = u64::from_le_bytes(mesh_seal::random_bytes());
        let supervisor = Supervisor::new(link.endpoint()?, seed);
        let session = NodeSession { node: link.node.clone(), identity: keys.identity.clone(), end };
        Ok(Self { supervisor, session })
    }

    /// By which it hears that the machine's routes changed.
    pub fn hint(&self) -> Hint {
        self.supervisor.hint()
    }

    /// Runs for ever; stopped by being dropped.
    pub async fn run(mut self, clock: impl Clock) -> ! {
        let states = self.supervisor.state();
        let to_host = self.session.end.to_host.clone();
        tokio::select! {
            never = self.supervisor.run(&mut self.session) => never,
            never = tell_state(states, to_host, clock) => never,
        }
    }
}

/// Tells the host how the link stands whenever that changes.
async fn tell_state(
    mut states: watch::Receiver<SupervisorState>,
    to_host: mpsc::Sender<FromLink>,
    clock: impl Clock,
) -> ! {
    let mut told = LinkState::NotJoined;
    loop {
        let seen = states.borrow_and_update().clone();
        let state = next_state(&told, &seen, clock.now());
        if state != told {
            told = state.clone();
            // A host that is gone takes this future with it.
            let _ = to_host.send(FromLink::State(state)).await;
        }
        if states.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn next_state(told: &LinkState, seen: &SupervisorState, now: i64) -> LinkState {
    let (error, broker) = match seen {
        SupervisorState::Open(address) => (None, Some(address.to_string())),
        SupervisorState::Waiting { reason, .. } => (Some(reason.clone()), None),
        SupervisorState::Opening => (None, None),
    };
    match (told, broker, error) {
        (_, Some(broker), _) => LinkState::Connected { since: now, broker },
        (LinkState::Connected { .. }, None, error) => {
            LinkState::Disconnected { since: Some(now), error: error.unwrap_or_default() }
        }
        (LinkState::Disconnected { since, error: old }, None, error) => {
            LinkState::Disconnected { since: *since, error: error.unwrap_or_else(|| old.clone()) }
        }
        (LinkState::NotJoined, None, error) => {
            LinkState::Disconnected { since: None, error: error.unwrap_or_default() }
        }
    }
}

struct NodeSession {
    node: NodeName,
    identity: SigningKey,
    end: UplinkEnd,
}

impl Session for NodeSession {
    async fn run(&mut self, connection: &Connection) -> LinkError {
        let publishers = async { Ok((connection.publisher().await?, connection.publisher().await?)) };
        let (of_alive, of_reports) = match publishers.await {
            Ok(publishers) => publishers,
            Err(error) => return error,
        };
        let outcome = tokio::select! {
            outcome = self.say_alive(&of_alive) => outcome,
            outcome = self.publish_reports(&of_reports) => outcome,
            outcome = self.bring_frames(connection) => outcome,
        };
        outcome.err().unwrap_or_else(|| LinkError::Lost("the host has ended".to_owned()))
    }
}

impl NodeSession {
    async fn bring_frames(&self, connection: &Connection) -> Result<(), LinkError> {
        let mut frames = connection.consume(&down_queue(&self.node), 1).await?;
        loop {
            let frame = frames.next().await?;
            if frame.body.len() > MAX_FRAME_BYTES {
                tracing::warn!(
                    bytes = frame.body.len(),
                    "a message too large to be a declaration is discarded"
                );
            } else {
                let (done, taken) = oneshot::channel();
                let message = FromLink::Frame { bytes: frame.body.clone(), taken: done };
                if self.end.to_host.send(message).await.is_err() {
                    return Ok(());
                }
                // Also when it was dropped: whatever the frame was, the host is done with it.
                let _ = taken.await;
            }
            frames.acknowledge(&frame).await?;
        }
    }

    async fn say_alive(&self, publisher: &Publisher) -> Result<(), LinkError> {
        let mut accepted = self.end.accepted.clone();
        let mut ticks = interval(ALIVE_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                changed = accepted.changed() => if changed.is_err() { return Ok(()) },
            }
            let alive = Alive { node: self.node.clone(), accepted: *accepted.borrow_and_update() };
            match self.publish(publisher, ALIVE_KEY, &alive, false).await? {
                Published::Routed => {}
                // The control plane makes the topology again as soon as it is there; until then nobody listens.
                other => tracing::debug!(?other, "a heartbeat was not placed"),
            }
        }
    }

    async fn publish_reports(&self, publisher: &Publisher) -> Result<(), LinkError> {
        let mut reports = self.end.report.clone();
        loop {
            let newest = reports.borrow_and_update().clone();
            let placed = match newest {
                Some(report) => self.publish_report(publisher, report).await?,
                None => true,
            };
            let changed = if placed {
                reports.changed().await
            } else {
                timeout(REPORT_AGAIN, reports.changed()).await.unwrap_or(Ok(()))
            };
            if changed.is_err() {
                return Ok(());
            }
        }
    }

    /// Whether the broker has it now.
    async fn publish_report(&self, publisher: &Publisher, report: Arc<Report>) -> Result<bool, LinkError> {
        match self.publish(publisher, REPORT_KEY, report.as_ref(), true).await? {
            Published::Routed => {
                let _ = self.end.to_host.send(FromLink::Confirmed(report)).await;
                Ok(true)
            }
            other => {
                tracing::warn!(?other, "the broker did not place the report; it is offered again");
                Ok(false)
            }
        }
    }

    async fn publish(
        &self,
        publisher: &Publisher,
        key: &str,
        statement: &impl Serialize,
        persistent: bool,
    ) -> Result<Published, LinkError> {
        let body =
            serde_json::to_vec(statement).map_err(|e| LinkError::Lost(format!("write a statement: {e}")))?;
        let signature = self.identity.sign(Purpose::Statement, &body).to_string();
        let exchange = up_exchange(&self.node);
        let message =
            Message { exchange: &exchange, key, body: &body, signature: Some(&signature), persistent };
        publisher.publish(message).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(reason: &str) -> SupervisorState {
        SupervisorState::Waiting { refused: false, reason: reason.to_owned(), next_in: Duration::ZERO }
    }

    #[test]
    fn the_time_of_the_loss_is_kept_while_attempts_fail() {
        let open = SupervisorState::Open(mesh_link::Address::new("b", 1));
        let state = next_state(&LinkState::NotJoined, &open, 5);
        assert_eq!(state, LinkState::Connected { since: 5, broker: "b:1".to_owned() });
        let lost = |error: &str| LinkState::Disconnected { since: Some(9), error: error.to_owned() };
        let state = next_state(&state, &waiting("cut"), 9);
        assert_eq!(state, lost("cut"));
        let state = next_state(&state, &SupervisorState::Opening, 10);
        assert_eq!(state, lost("cut"), "an attempt is no news");
        assert_eq!(next_state(&state, &waiting("still cut"), 20), lost("still cut"));
    }

    #[test]
    fn a_node_that_was_never_connected_says_no_time() {
        let state = next_state(&LinkState::NotJoined, &waiting("down"), 9);
        assert_eq!(state, LinkState::Disconnected { since: None, error: "down".to_owned() });
    }
}
