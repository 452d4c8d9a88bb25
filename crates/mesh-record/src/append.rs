//! The owner's side: appending to its record.
//!
//! Never begins or ends a transaction by itself, save that [`Record::commit`] ends the owner's to wake the readers.
//! Called by: a context's `commands`.

use std::sync::Arc;
use std::time::SystemTime;

use mesh_store::{Store, StoreError, Transaction};
use sqlx::types::Json;

use crate::entry::{encode, to_micros};
use crate::read::Shared;
use crate::{Event, Reader, RecordPosition, Upcast};

/// Of one database, like every advisory lock: "meshrecd".
const LOCK: i64 = 0x6d65_7368_7265_6364;

/// A context's own record. Made once a process from the context's store; clones share the wake-up of its readers.
pub struct Record<E> {
    shared: Arc<Shared>,
    reader: Reader<E>,
}

/// An event was not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The event cannot be written down. Nothing was sent to the store.
    #[error("cannot append to the record of {owner}: {reason}")]
    Event {
        /// Whose record.
        owner: mesh_store::Context,
        /// What is wrong with the event.
        reason: String,
    },
    /// The store refused or failed. The transaction is lost.
    #[error("cannot append to the record of {owner}")]
    Store {
        /// Whose record.
        owner: mesh_store::Context,
        /// What the store said.
        source: StoreError,
    },
}

impl<E: Event> Record<E> {
    /// The record in `store`, whose events of old shapes `upcasts` lift. Its tables are [`crate::schema::RECORD_1`].
    pub fn new(store: &Store, upcasts: &'static [Upcast]) -> Self {
        let shared = Arc::new(Shared::new(store.clone(), upcasts));
        Self { reader: Reader::new(Arc::clone(&shared)), shared }
    }

    /// Appends `event` in the owner's transaction and returns the position it has once that transaction commits.
    ///
    /// From here to the end of the transaction no other append to this record goes on: do everything else first.
    pub async fn append(
        &self,
        transaction: &mut Transaction,
        at: SystemTime,
        event: &E,
    ) -> Result<RecordPosition, AppendError> {
        let owner = self.shared.store.context();
        let (kind, event) = encode(event).map_err(|reason| AppendError::Event { owner, reason })?;
        let micros = to_micros(at).map_err(|reason| AppendError::Event { owner, reason })?;
        let position = async {
            // A statement of its own: the next one's snapshot must be taken after the lock is held, or it would
            // not see what the previous holder committed.
            sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut **transaction).await?;
            sqlx::query_scalar(
                "INSERT INTO record (position, at, kind, event)
                 SELECT coalesce(max(position), 0) + 1, 'epoch'::timestamptz + $1 * interval '1 microsecond', $2, $3
                 FROM record
                 RETURNING position",
            )
            .bind(micros)
            .bind(kind)
            .bind(Json(event))
            .fetch_one(&mut **transaction)
            .await
        };
        let position = position.await.map_err(|source| AppendError::Store {
            owner,
            source: StoreError::from_sqlx(&self.shared.store, source),
        })?;
        Ok(RecordPosition::from_sql(position))
    }

    /// Commits the owner's transaction and wakes the readers. Committed another way, they find the entries at their
    /// next period.
    pub async fn commit(&self, transaction: Transaction) -> Result<(), StoreError> {
        let committed = self.shared.store.commit(transaction).await;
        // Also after an error: the commit may have happened, and waking for nothing costs one query.
        self.shared.wake();
        committed
    }

    /// The handle to give to a reader. It reads this record and reaches nothing else in the owner's store.
    pub fn reader(&self) -> Reader<E> {
        self.reader.clone()
    }
}

impl<E> Clone for Record<E> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), reader: self.reader.clone() }
    }
}
