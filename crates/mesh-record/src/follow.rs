//! Following a record live, from any position: what the api's server-sent events are made of.
//!
//! It reads from the store at its own pace and holds at most one batch, so a slow follower loses nothing and costs
//! nobody memory. (A broadcast channel would need a way back to the store for whoever lags; then the store alone
//! is simpler.) Never keeps a position: the follower names it.
//! Called by: mesh-control's `http`.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::{Batch, Entry, Event, ReadError, Reader, RecordPosition};

const BATCH: u32 = 100;
/// For entries whose commit woke nobody, such as those of another process.
const PERIOD: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

struct Follower<E> {
    reader: Reader<E>,
    appended: watch::Receiver<()>,
    last: RecordPosition,
    checked: bool,
    ready: VecDeque<Entry<E>>,
    stopped: Option<ReadError>,
    ended: bool,
}

impl<E: Event> Reader<E> {
    /// Every entry after `after`, those to come included, in order and without end. While the owner's store is away
    /// the stream waits. Its only errors are those that waiting does not mend; one is its last item.
    pub fn subscribe(
        &self,
        after: RecordPosition,
    ) -> impl Stream<Item = Result<Entry<E>, ReadError>> + Send + use<E> {
        let follower = Follower {
            appended: self.appended(),
            reader: self.clone(),
            last: after,
            checked: false,
            ready: VecDeque::new(),
            stopped: None,
            ended: false,
        };
        unfold(follower, async |mut follower| follower.next().await.map(|item| (item, follower)))
    }
}

impl<E: Event> Follower<E> {
    async fn next(&mut self) -> Option<Result<Entry<E>, ReadError>> {
        let mut pause = FIRST_PAUSE;
        loop {
            if self.ended {
                return None;
            }
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if let Some(stopped) = self.stopped.take() {
                self.ended = true;
                return Some(Err(stopped));
            }
            match self.fill().await {
                Ok(true) => {}
                Ok(false) => {
                    // Either the wake-up or the period; both lead to looking again.
                    drop(timeout(PERIOD, self.appended.changed()).await);
                }
                Err(error) if error.is_transient() => {
                    if pause == FIRST_PAUSE {
                        tracing::warn!(owner = %self.reader.owner(), why = %error, "a follower waits for the record");
                    }
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => self.stopped = Some(error),
            }
        }
    }

    /// Whether there was anything.
    async fn fill(&mut self) -> Result<bool, ReadError> {
        if !self.checked {
            self.reader.check_not_beyond_end(self.last).await?;
            self.checked = true;
        }
        // Seen before reading: what is appended meanwhile counts as a change again.
        self.appended.mark_unchanged();
        let Batch { entries, stopped } = self.reader.read(self.last, BATCH).await?;
        if let Some(entry) = entries.last() {
            self.last = entry.position;
        }
        self.ready = entries.into();
        self.stopped = stopped;
        Ok(!self.ready.is_empty() || self.stopped.is_some())
    }
}
