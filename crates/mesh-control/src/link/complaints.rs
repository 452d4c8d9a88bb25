//! What was dropped: counted always, said once a minute and node, so that a noisy node does not fill the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const SAID_EVERY: Duration = Duration::from_mins(1);
/// Speakers remembered; with more, all are said anew.
const SPEAKERS_MAX: usize = 10_000;

/// Statements since the start.
#[derive(Debug, Default)]
pub struct Counts {
    taken: AtomicU64,
    dropped: AtomicU64,
    said: Mutex<BTreeMap<String, Instant>>,
}

impl Counts {
    /// Statements that were handed to their owner.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Messages that were no statement of a node.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self, count: usize) {
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Counts a dropped message and says so if nothing was said of this speaker within the last minute.
    pub(super) fn drop_message(&self, speaker: &str, why: &dyn std::fmt::Display) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        if self.may_say(speaker) {
            tracing::warn!(speaker, %why, dropped, "a message from the broker is no statement of a node and was dropped");
        }
    }

    /// Whether it is time again to speak about this.
    pub(super) fn may_say(&self, about: &str) -> bool {
        let now = Instant::now();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(about).is_some_and(|last| now.duration_since(*last) < SAID_EVERY) {
            return false;
        }
        if said.len() >= SPEAKERS_MAX {
            said.clear();
        }
        said.insert(about.to_owned(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_noisy_node_is_spoken_of_once_a_minute_and_its_neighbour_too() {
        let counts = Counts::default();
        assert!(counts.may_say("n-node-1"));
        assert!(!counts.may_say("n-node-1"));
        assert!(counts.may_say("n-node-2"));
        tokio::time::advance(SAID_EVERY).await;
        assert!(counts.may_say("n-node-1"));
    }
}
