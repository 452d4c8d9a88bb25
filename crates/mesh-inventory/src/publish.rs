//! From a change to the public event, and into the record. With `react`, the only file that names public events.

use mesh_events::InventoryEvent;
use mesh_ids::Timestamp;
use mesh_manifest::owner_of;
use mesh_record::{AppendError, Reader, Record, RecordPosition, Upcast};
use mesh_store::{Store, StoreError, Transaction};

use crate::{Inventory, domain::Change};

/// How events of older shapes become those of today's. There is none yet.
pub const UPCASTS: &[Upcast] = &[];

/// Inventory's record.
#[derive(Clone)]
pub(crate) struct Publisher(Record<InventoryEvent>);

impl Publisher {
    pub(crate) fn new(store: &Store) -> Self {
        Self(Record::new(store, UPCASTS))
    }

    /// Appends these changes as the last thing of a transaction; the position is that of the last one, if there is one.
    pub(crate) async fn append(
        &self,
        transaction: &mut Transaction,
        now: Timestamp,
        changes: impl IntoIterator<Item = Change>,
    ) -> Result<Option<RecordPosition>, AppendError> {
        let mut last = None;
        for change in changes {
            last = Some(self.0.append(transaction, now.into(), &event(change)).await?);
        }
        Ok(last)
    }

    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<(), StoreError> {
        self.0.commit(transaction).await
    }
}

impl Inventory {
    /// Reads inventory's record.
    pub fn record(&self) -> Reader<InventoryEvent> {
        self.publisher().0.reader()
    }
}

fn event(change: Change) -> InventoryEvent {
    match change {
        Change::Connected { node, silent_for } => {
            let ms = |silence: std::time::Duration| u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
            InventoryEvent::NodeConnected { node, silent_for_ms: silent_for.map(ms) }
        }
        Change::Quiet { node, last_heard } => InventoryEvent::NodeQuiet { node, last_heard },
        Change::Unreachable { node, last_heard } => InventoryEvent::NodeUnreachable { node, last_heard },
        Change::Reported { node, position, applied, failed, refused } => {
            let applied = u32::try_from(applied).unwrap_or(u32::MAX);
            InventoryEvent::NodeReported { node, position, applied, failed, refused }
        }
        Change::Undeclared { node, reason } => InventoryEvent::NodeUndeclared { node, reason },
        Change::DriftFound { node, resource, number, noticed, found } => {
            let module = owner_of(&resource);
            InventoryEvent::DriftFound { node, resource, module, number, noticed, found }
        }
        Change::DriftRepaired { node, resource, number, repaired } => {
            let module = owner_of(&resource);
            InventoryEvent::DriftRepaired { node, resource, module, number, repaired }
        }
        Change::Applied { module, version, digest, nodes, changed, by } => {
            InventoryEvent::ModuleApplied { module, version, digest, nodes, changed, by }
        }
        Change::Placed { module, nodes, changed } => InventoryEvent::ModulePlaced { module, nodes, changed },
        Change::Removed { module, changed, by } => InventoryEvent::ModuleRemoved { module, changed, by },
    }
}
