//! Reading an owner's record, through a handle that only the owner can make.
//!
//! Never gives a reader the owner's store, and never steps over an entry: a hole or an unreadable event is an error
//! with its position.
//! Called by: `deliver` and `follow`, and a context that lists its own events.

use std::marker::PhantomData;
use std::sync::Arc;

use mesh_store::{Context, Store, StoreError};
use serde_json::Value;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{Row, query, query_scalar};
use tokio::sync::watch;

use crate::entry::{decode, from_micros};
use crate::{Entry, Event, RecordPosition, Upcast};

/// What a record and all its readers share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    upcasts: &'static [Upcast],
    appended: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new(store: Store, upcasts: &'static [Upcast]) -> Self {
        Self { store, upcasts, appended: watch::Sender::new(()) }
    }

    pub(crate) fn wake(&self) {
        self.appended.send_replace(());
    }
}

/// Reads one context's record. It holds the owner's store and shows none of it.
pub struct Reader<E> {
    shared: Arc<Shared>,
    event: PhantomData<fn() -> E>,
}

/// Entries in order, and what stopped the reading before the end, if anything did.
#[derive(Debug)]
pub struct Batch<E> {
    /// The entries that could be read.
    pub entries: Vec<Entry<E>>,
    /// Why the entry after them could not. Never [`ReadError::Store`].
    pub stopped: Option<ReadError>,
}

/// A record cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The owner's store did not answer.
    #[error("cannot read the record of {owner}")]
    Store {
        /// Whose record.
        owner: Context,
        /// What the store said.
        source: StoreError,
    },
    /// An entry is there and this program does not understand it.
    #[error(
        "cannot read the record of {owner} at {position}: this program does not understand the event \"{kind}\" \
         ({reason}); run a version that does"
    )]
    Unreadable {
        /// Whose record.
        owner: Context,
        /// Where.
        position: RecordPosition,
        /// What kind of event stands there.
        kind: String,
        /// Why it is not understood.
        reason: String,
    },
    /// Entries are missing, which no transaction of ours can bring about.
    #[error(
        "cannot read the record of {owner}: after {after} comes {found}, so entries are missing; restore the store of \
         {owner} from a backup"
    )]
    Hole {
        /// Whose record.
        owner: Context,
        /// The last entry before the hole.
        after: RecordPosition,
        /// The first one behind it.
        found: RecordPosition,
    },
    /// The position asked for lies beyond the end: the owner's store is older than what the reader has already seen.
    #[error(
        "cannot read the record of {owner} after {after}: it ends at {end}, so the store of {owner} is older than what \
         was read from it; restore both from the same backup, or read again from the start"
    )]
    BeyondEnd {
        /// Whose record.
        owner: Context,
        /// The position asked for.
        after: RecordPosition,
        /// The last entry there is.
        end: RecordPosition,
    },
}

impl ReadError {
    /// Whether reading again may succeed with nothing changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Store { source, .. } if source.is_transient())
    }
}

impl<E: Event> Reader<E> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, event: PhantomData }
    }

    /// Whose record it reads.
    pub fn owner(&self) -> Context {
        self.shared.store.context()
    }

    /// The position of the last entry, [`RecordPosition::START`] when there is none.
    pub async fn end(&self) -> Result<RecordPosition, ReadError> {
        query_scalar("SELECT coalesce(max(position), 0) FROM record")
            .fetch_one(self.shared.store.pool())
            .await
            .map(RecordPosition::from_sql)
            .map_err(|source| self.failed(source))
    }

    /// At most `limit` entries after `after`, in order.
    pub async fn read(&self, after: RecordPosition, limit: u32) -> Result<Batch<E>, ReadError> {
        let rows = query(
            "SELECT position, (extract(epoch FROM at) * 1000000)::bigint AS micros, kind, event
             FROM record WHERE position > $1 ORDER BY position LIMIT $2",
        )
        .bind(after.to_sql())
        .bind(i64::from(limit))
        .fetch_all(self.shared.store.pool())
        .await
        .map_err(|source| self.failed(source))?;
        let mut entries = Vec::with_capacity(rows.len());
        let mut last = after;
        for row in &rows {
            match self.entry(last, row)? {
                Ok(entry) => {
                    last = entry.position;
                    entries.push(entry);
                }
                Err(stopped) => return Ok(Batch { entries, stopped: Some(stopped) }),
            }
        }
        Ok(Batch { entries, stopped: None })
    }

    /// Refuses a position beyond the end of the record.
    pub(crate) async fn check_not_beyond_end(&self, after: RecordPosition) -> Result<(), ReadError> {
        let end = self.end().await?;
        if after > end { Err(ReadError::BeyondEnd { owner: self.owner(), after, end }) } else { Ok(()) }
    }

    /// Changes whenever something may have been appended.
    pub(crate) fn appended(&self) -> watch::Receiver<()> {
        self.shared.appended.subscribe()
    }

    fn entry(&self, last: RecordPosition, row: &PgRow) -> Result<Result<Entry<E>, ReadError>, ReadError> {
        let read = || -> Result<(i64, i64, String, Json<Value>), sqlx::Error> {
            Ok((
                row.try_get("position")?,
                row.try_get("micros")?,
                row.try_get("kind")?,
                row.try_get("event")?,
            ))
        };
        let (position, micros, kind, Json(event)) = read().map_err(|source| self.failed(source))?;
        let (owner, position) = (self.owner(), RecordPosition::from_sql(position));
        if !position.follows(last) {
            return Ok(Err(ReadError::Hole { owner, after: last, found: position }));
        }
        Ok(match decode(event, self.shared.upcasts) {
            Ok(event) => Ok(Entry { position, at: from_micros(micros), kind, event }),
            Err(reason) => Err(ReadError::Unreadable { owner, position, kind, reason }),
        })
    }

    fn failed(&self, source: sqlx::Error) -> ReadError {
        ReadError::Store { owner: self.owner(), source: StoreError::from_sqlx(&self.shared.store, source) }
    }
}

impl<E> Clone for Reader<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), event: PhantomData }
    }
}
