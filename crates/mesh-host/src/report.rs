//! What the host says outwards, and the two ends of the channel to the uplink. Decides nothing; the uplink drains it.
//!
//! Only the newest report counts, so the channel holds one; drift stays in the ledger until a report that carried it
//! was confirmed by the broker.

use std::sync::Arc;

use mesh_ids::Position;
use mesh_wire::{MAX_STATEMENT_BYTES, Report};
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

/// For the number and the start of the host, which are added last.
const SPARE_BYTES: usize = 4096;
/// A reason that had to be cut keeps this much.
const REASON_BYTES: usize = 200;
const NO_ROOM: &str = "it failed; why has no room in this report: `mesh-host status` says it on the node";

/// Cuts a report down to what is read. What is not in it is on the machine, or follows: reasons are cut first; drift
/// that is left out stays in the ledger and is in the next report, once this one is confirmed. Says whether some was.
pub fn fit(report: &mut Report) -> bool {
    let drift = report.drift.len();
    fit_into(report, MAX_STATEMENT_BYTES - SPARE_BYTES);
    report.drift.len() < drift
}

fn fit_into(report: &mut Report, most: usize) {
    let fits = |report: &Report| serde_json::to_vec(report).is_ok_and(|bytes| bytes.len() <= most);
    if fits(report) {
        return;
    }
    for reason in report.failed.values_mut().filter(|reason| reason.len() > REASON_BYTES) {
        reason.truncate(reason.floor_char_boundary(REASON_BYTES));
        reason.push('…');
    }
    while !fits(report) && !report.drift.is_empty() {
        report.drift.truncate(report.drift.len() / 2);
    }
    if !fits(report) {
        report
            .failed
            .values_mut()
            .filter(|reason| reason.len() > NO_ROOM.len())
            .for_each(|reason| NO_ROOM.clone_into(reason));
    }
    if !fits(report) {
        let (applied, failed) = (report.applied.len(), report.failed.len());
        report.applied.clear();
        report.failed.clear();
        report.refused = format!(
            "the names of all resources have no room in a report: {applied} are applied, {failed} failed; `mesh-host \
             status` says which on the node"
        );
    }
}

#[cfg(test)]
mod tests {
    use mesh_wire::Drift;
    use proptest::prelude::*;

    use super::*;

    fn size(report: &Report) -> usize {
        serde_json::to_vec(report).expect("a report").len()
    }

    fn report(applied: usize, failed: &[usize], drift: usize) -> Report {
        let mut report = Report::new("node-1".parse().expect("a name"));
        report.applied = (0..applied).map(|number| format!("file:/applied/{number}")).collect();
        report.failed = (failed.iter().enumerate())
            .map(|(number, length)| (format!("file:/failed/{number}"), "ü".repeat(*length)))
            .collect();
        report.drift = (0..drift as u64)
            .map(|number| Drift {
                number,
                resource: "file:/a".parse().expect("an id"),
                noticed_at: 1,
                found: vec!["x".repeat(50)],
                repaired_at: None,
            })
            .collect();
        report
    }

    proptest! {
        #[test]
        fn a_report_always_fits_and_keeps_what_matters_most(
            applied in 0_usize..200,
            failed in proptest::collection::vec(0_usize..500, 0..100),
            drift in 0_usize..100,
            most in 300_usize..60_000,
        ) {
            let whole = report(applied, &failed, drift);
            let mut fitted = whole.clone();
            fit_into(&mut fitted, most);
            prop_assert!(size(&fitted) <= most, "{} of {most}", size(&fitted));
            if size(&whole) <= most {
                prop_assert_eq!(&fitted, &whole);
            } else if fitted.refused.is_empty() {
                prop_assert_eq!(&fitted.applied, &whole.applied);
                prop_assert!(fitted.failed.keys().eq(whole.failed.keys()));
                // The oldest, as they are: only what is the same is known to be delivered.
                prop_assert_eq!(&fitted.drift[..], &whole.drift[..fitted.drift.len()]);
            }
        }
    }
}
