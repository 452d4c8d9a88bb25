//! A record that is followed beside others: should it not be readable, this one stands still and the others go on.
//!
//! Never skips an entry, and never forgets that it stands still: it says so once a minute, until the program starts again.
//! Called by: [`crate::declare`].

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use mesh_record::{Entry, Event, ReadError, Reader, RecordPosition};
use tokio::time::{Instant, sleep_until};

use crate::http::chain;

/// How often it is said that a record stands still.
const SAID_EVERY: Duration = Duration::from_mins(1);

type Entries<E> = Pin<Box<dyn Stream<Item = Result<Entry<E>, ReadError>> + Send>>;

/// A record, and how far it was followed.
pub(crate) struct Followed<E> {
    entries: Entries<E>,
    cursor: RecordPosition,
    stopped: Option<(String, Instant)>,
}

impl<E: Event> Followed<E> {
    /// From its end on.
    pub(crate) async fn from_its_end(record: &Reader<E>) -> Result<Self, ReadError> {
        let cursor = record.end().await?;
        Ok(Self { entries: Box::pin(record.subscribe(cursor)), cursor, stopped: None })
    }

    /// The next entry. Never ready once the record cannot be read on. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Entry<E> {
        loop {
            if let Some((why, say_at)) = &mut self.stopped {
                sleep_until(*say_at).await;
                *say_at = Instant::now() + SAID_EVERY;
                tracing::error!(
                    cursor = %self.cursor, %why,
                    "declaring stopped following a record; nodes are still looked at by period, and nothing in the record is \
                     skipped: start a version that can read it, or restore its store from a backup"
                );
                continue;
            }
            match self.entries.next().await {
                Some(Ok(entry)) => {
                    self.cursor = entry.position;
                    return entry;
                }
                Some(Err(error)) => self.stopped = Some((chain(&error), Instant::now())),
                None => self.stopped = Some(("the record ended".to_owned(), Instant::now())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, stream};
    use mesh_events::IdentityEvent;
    use mesh_ids::Generation;
    use mesh_store::Context;

    use super::*;

    fn unreadable() -> ReadError {
        ReadError::Unreadable {
            owner: Context::new("identity"),
            position: RecordPosition::new(8),
            kind: "node_flew/1".to_owned(),
            reason: "unknown".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::unwrap_used, reason = "tests")]
    async fn what_cannot_be_read_stops_this_record_for_good_and_is_said_once_a_minute() {
        let mut log = mesh_testkit::LogWatch::start();
        log.announce("declaring stopped following a record");
        let event = IdentityEvent::GenerationRaised {
            node: "node-1".parse().unwrap(),
            generation: Generation::new(2),
            by: String::new(),
        };
        let at = std::time::SystemTime::UNIX_EPOCH;
        let entry = Entry { position: RecordPosition::new(7), at, kind: String::new(), event };
        let entries = stream::iter([Ok(entry.clone()), Err(unreadable()), Ok(entry.clone())]);
        let mut followed =
            Followed { entries: Box::pin(entries), cursor: RecordPosition::new(6), stopped: None };
        assert_eq!(followed.next().await, entry);
        for minute in 1..4 {
            // Abandoned and asked again, as by a `select` whose other branch was ready.
            for _ in 0..10 {
                assert!(followed.next().now_or_never().is_none(), "what comes after it was handed out");
            }
            let said = log
                .lines()
                .iter()
                .filter(|line| line.contains("cursor=7") && line.contains("node_flew"))
                .count();
            assert_eq!(said, minute);
            tokio::time::advance(SAID_EVERY).await;
        }
    }
}
