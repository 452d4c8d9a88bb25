//! What the host says outwards, and the two ends of the channel to the uplink. Decides nothing; the uplink drains it.
//!
//! Only the newest report counts, so the channel holds one; drift stays in the ledger until a report that carried it
//! was confirmed by the broker.

use std::sync::Arc;

use mesh_ids::Position;
use mesh_wire::Report;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot, watch};

/// What the uplink hands to the host.
#[derive(Debug)]
pub enum FromLink {
    /// A message of the node's queue, unread. To be acknowledged to the broker once `taken` resolves (also when it was
    /// dropped: whatever the frame was, the host is done with it).
    Frame {
        /// The message's body.
        bytes: Vec<u8>,
        /// Resolves when the host has persisted or refused it.
        taken: oneshot::Sender<()>,
    },
    /// The broker confirmed this report.
    Confirmed(Arc<Report>),
    /// The state of the connection changed.
    State(LinkState),
}

/// Whether the node is connected, for the status file and for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "link", rename_all = "snake_case")]
pub enum LinkState {
    /// The machine has joined no mesh.
    #[default]
    NotJoined,
    /// No connection yet, or no longer.
    Disconnected {
        /// Since when, in seconds since 1970-01-01 UTC; absent where there was none since the host started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<i64>,
        /// The last error, for a person.
        error: String,
    },
    /// Connected.
    Connected {
        /// Since when, in seconds since 1970-01-01 UTC.
        since: i64,
        /// To which broker, `host:port`.
        broker: String,
    },
}

/// The uplink's end.
#[derive(Debug)]
pub struct UplinkEnd {
    /// The newest report, once there is one. To be published when it changes and after every reconnection.
    pub report: watch::Receiver<Option<Arc<Report>>>,
    /// The newest declaration that was accepted: goes into every heartbeat.
    pub accepted: watch::Receiver<Option<Position>>,
    /// Towards the host.
    pub to_host: mpsc::Sender<FromLink>,
}

/// The host's end.
#[derive(Debug)]
pub struct HostEnd {
    /// The newest report.
    pub report: watch::Sender<Option<Arc<Report>>>,
    /// The newest accepted declaration.
    pub accepted: watch::Sender<Option<Position>>,
    /// From the uplink.
    pub from_link: mpsc::Receiver<FromLink>,
}

/// The two ends.
pub fn channel() -> (HostEnd, UplinkEnd) {
    let (report, report_seen) = watch::channel(None);
    let (accepted, accepted_seen) = watch::channel(None);
    // One frame in work, one waiting: the broker keeps the rest.
    let (to_host, from_link) = mpsc::channel(2);
    (
        HostEnd { report, accepted, from_link },
        UplinkEnd { report: report_seen, accepted: accepted_seen, to_host },
    )
}
