//! Handing an owner's events to one reader, in order, each exactly once.
//!
//! Does: read a bounded batch from the owner, apply it through the reader's [`Reaction`] and move the reader's cursor
//! in the same transaction of the reader's store; try again, ever more slowly, while a store is away; stop, loudly,
//! at an event that can never be applied. Never skips an event, never holds a connection of the owner while the
//! reader works, never shares a task with another reader.
//! Called by: mesh-control, which runs one delivery for each pair of contexts that listens.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use mesh_store::{Context, Store, StoreError, Transaction, is_transient};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{Batch, Entry, Event, ReadError, Reader, RecordPosition};

const BATCH: u32 = 100;
/// For entries whose commit woke nobody, such as those of another process.
const PERIOD: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often a reader that stopped says so again.
const SAID_EVERY: Duration = Duration::from_mins(1);
/// A reaction is a few statements; one that takes longer than this is stuck.
const REACTION_DEADLINE: Duration = Duration::from_secs(30);

/// What a reader does with an event: changes its own projection, in the transaction given.
pub trait Reaction<E>: Send + Sync + 'static {
    /// Applies one entry. It is called again for the same entry only if the transaction was rolled back, so it must
    /// leave no trace outside of it.
    fn react(
        &self,
        transaction: &mut Transaction,
        entry: &Entry<E>,
    ) -> impl Future<Output = Result<(), ReactError>> + Send;
}

/// Why a reaction did not apply an entry.
#[derive(Debug, thiserror::Error)]
pub enum ReactError {
    /// The reader's store failed. Tried again if the failure passes by itself, otherwise the reader stops.
    #[error("cannot apply the event")]
    Store(#[from] sqlx::Error),
    /// The event makes no sense to the reader, now or later: the reader stops. The text says why.
    #[error("cannot apply the event: {0}")]
    Poison(String),
}

/// How far a reader is and how it fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// Whose record is read.
    pub owner: Context,
    /// Who reads it.
    pub reader: Context,
    /// The last entry applied.
    pub position: RecordPosition,
    /// How it fares.
    pub state: DeliveryState,
}

/// How a delivery fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// It applies entries that are there already.
    CatchingUp,
    /// It has applied all there are and waits for more.
    Following,
    /// A store is away; it has tried this often since the last success.
    Retrying {
        /// How often.
        attempts: u32,
        /// What went wrong last.
        why: String,
    },
    /// It cannot go on. It tries again when the program starts again, presumably another version of it.
    Stopped {
        /// Why, with the position.
        why: String,
    },
}

/// The delivery of one owner's record to one reader.
pub struct Delivery<E, R> {
    from: Reader<E>,
    into: Store,
    reaction: R,
    status: watch::Sender<DeliveryStatus>,
    said_every: Duration,
}

/// What one round came to.
enum Round {
    Applied,
    NothingNew,
}

enum Failure {
    Passing(String),
    Final(String),
}

impl<E: Event, R: Reaction<E>> Delivery<E, R> {
    /// Delivers the record of `from` to `reaction`, whose projection and cursor are in `into`. The cursors' table is
    /// [`crate::schema::CURSORS_1`].
    pub fn new(from: Reader<E>, into: Store, reaction: R) -> Self {
        let status = watch::Sender::new(DeliveryStatus {
            owner: from.owner(),
            reader: into.context(),
            position: RecordPosition::START,
            state: DeliveryState::CatchingUp,
        });
        Self { from, into, reaction, status, said_every: SAID_EVERY }
    }

    /// The same, saying so often that it stopped; once a minute where nothing is said.
    #[must_use]
    pub fn saying_every(self, said_every: Duration) -> Self {
        Self { said_every, ..self }
    }

    /// How it fares, from now on.
    pub fn status(&self) -> watch::Receiver<DeliveryStatus> {
        self.status.subscribe()
    }

    /// Delivers until `stop`; at an entry that can never be applied it goes no further, and says so until then. What is
    /// under way at `stop` is rolled back.
    ///
    /// It does not end there: whoever runs it would have to end the others too, or forget that this one stands still.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.deliver()).await;
    }

    async fn deliver(&self) -> Infallible {
        let mut appended = self.from.appended();
        let mut attempts = 0_u32;
        let mut checked = false;
        loop {
            // Seen before reading: what is appended meanwhile counts as a change again.
            appended.mark_unchanged();
            match AssertUnwindSafe(self.round(&mut checked)).catch_unwind().await.unwrap_or_else(panicked) {
                Ok(Round::Applied) => {
                    attempts = 0;
                    self.say(DeliveryState::CatchingUp);
                }
                Ok(Round::NothingNew) => {
                    attempts = 0;
                    self.say(DeliveryState::Following);
                    drop(timeout(PERIOD, appended.changed()).await);
                }
                Err(Failure::Passing(why)) => {
                    attempts += 1;
                    // The first of a row, and then ever more rarely.
                    if attempts.is_power_of_two() {
                        let (owner, reader) = (self.from.owner(), self.into.context());
                        tracing::warn!(%owner, %reader, attempts, %why, "a reader of the record waits");
                    }
                    self.say(DeliveryState::Retrying { attempts, why });
                    sleep((FIRST_PAUSE * 2_u32.pow(attempts.min(10) - 1)).min(LONGEST_PAUSE)).await;
                }
                Err(Failure::Final(why)) => return self.stay_stopped(why).await,
            }
        }
    }

    /// Applies nothing more, and says so again and again: what is said once is overlooked.
    async fn stay_stopped(&self, why: String) -> Infallible {
        let (owner, reader, cursor) = (self.from.owner(), self.into.context(), self.status.borrow().position);
        self.say(DeliveryState::Stopped { why: why.clone() });
        loop {
            tracing::error!(
                %owner, %reader, %cursor, %why,
                "a reader of the record stopped and will not go on: nothing after its cursor is applied or skipped until \
                 the program starts again, in a version that can apply what comes next, or on stores restored from a backup"
            );
            sleep(self.said_every).await;
        }
    }

    async fn round(&self, checked: &mut bool) -> Result<Round, Failure> {
        let cursor = self.cursor().await?;
        self.stands_at(cursor);
        if !*checked {
            self.from.check_not_beyond_end(cursor).await?;
            *checked = true;
        }
        let Batch { entries, stopped } = self.from.read(cursor, BATCH).await?;
        if entries.is_empty() {
            return stopped.map_or(Ok(Round::NothingNew), |stopped| Err(stopped.into()));
        }
        match self.apply(cursor, &entries).await {
            // Those before the bad one are good, and it is to be known which one is bad.
            Err(Failure::Final(_)) if entries.len() > 1 => {
                let mut before = cursor;
                for entry in &entries {
                    self.apply(before, std::slice::from_ref(entry)).await?;
                    before = entry.position;
                    self.stands_at(before);
                }
            }
            applied => applied?,
        }
        Ok(Round::Applied)
    }

    /// Applies `entries` and moves the cursor from `before` to the last of them, in one transaction. If the cursor is
    /// no longer at `before`, somebody else delivered them (or another process does): nothing is done, and the next
    /// round reads the cursor again.
    async fn apply(&self, before: RecordPosition, entries: &[Entry<E>]) -> Result<(), Failure> {
        let Some(last) = entries.last() else { return Ok(()) };
        let owner = self.from.owner().name();
        let mut transaction = self.into.begin().await?;
        let held: i64 = sqlx::query_scalar("SELECT position FROM cursors WHERE owner = $1 FOR UPDATE")
            .bind(owner)
            .fetch_one(&mut *transaction)
            .await
            .map_err(|source| self.failed(source))?;
        if RecordPosition::from_sql(held) != before {
            return Ok(());
        }
        for entry in entries {
            match timeout(REACTION_DEADLINE, self.reaction.react(&mut transaction, entry)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err(refused(entry, &error)),
                Err(_) => {
                    let (position, kind) = (entry.position, &entry.kind);
                    return Err(Failure::Passing(format!(
                        "waited {REACTION_DEADLINE:?} for the reaction to the event \"{kind}\" at {position}"
                    )));
                }
            }
        }
        sqlx::query("UPDATE cursors SET position = $2, moved_at = now() WHERE owner = $1")
            .bind(owner)
            .bind(last.position.to_sql())
            .execute(&mut *transaction)
            .await
            .map_err(|source| self.failed(source))?;
        Ok(self.into.commit(transaction).await?)
    }

    async fn cursor(&self) -> Result<RecordPosition, Failure> {
        let owner = self.from.owner().name();
        let read = async {
            let found = sqlx::query_scalar("SELECT position FROM cursors WHERE owner = $1")
                .bind(owner)
                .fetch_optional(self.into.pool())
                .await?;
            if let Some(position) = found {
                return Ok(position);
            }
            sqlx::query("INSERT INTO cursors (owner, position) VALUES ($1, 0) ON CONFLICT DO NOTHING")
                .bind(owner)
                .execute(self.into.pool())
                .await?;
            Ok(0)
        };
        read.await.map(RecordPosition::from_sql).map_err(|source| self.failed(source))
    }

    fn stands_at(&self, cursor: RecordPosition) {
        self.status.send_if_modified(|status| std::mem::replace(&mut status.position, cursor) != cursor);
    }

    fn say(&self, state: DeliveryState) {
        self.status.send_if_modified(|status| {
            let changed = status.state != state;
            status.state = state;
            changed
        });
    }

    fn failed(&self, source: sqlx::Error) -> Failure {
        StoreError::from_sqlx(&self.into, source).into()
    }
}

fn refused<E>(entry: &Entry<E>, error: &ReactError) -> Failure {
    let why = format!("the event \"{}\" at {}: {}", entry.kind, entry.position, chain(error));
    match error {
        ReactError::Store(source) if is_transient(source) => Failure::Passing(why),
        ReactError::Store(_) | ReactError::Poison(_) => Failure::Final(why),
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        // A refused login is mended outside of this program, without starting it again.
        if error.is_transient() || matches!(error, StoreError::Refused { .. }) {
            Self::Passing(chain(&error))
        } else {
            Self::Final(chain(&error))
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store { source, .. } => source.into(),
            other => Self::Final(chain(&other)),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "this is what catch_unwind hands over")]
fn panicked<T>(payload: Box<dyn Any + Send>) -> Result<T, Failure> {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    Err(Failure::Final(format!("the reaction panicked: {text}")))
}

/// An error and its sources in one line; the state is shown far from here.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
