//! From a change to the public event, and into the record. The only file that names public events: identity listens to
//! nobody.

use mesh_events::{IdentityEvent, Stage as EventStage};
use mesh_ids::Timestamp;
use mesh_record::{AppendError, Reader, Record, RecordPosition, Upcast};
use mesh_store::{Store, StoreError, Transaction};

use crate::{
    Identity,
    domain::{Change, Stage},
};

/// How events of older shapes become those of today's. There is none yet.
pub const UPCASTS: &[Upcast] = &[];

/// Identity's record.
#[derive(Clone)]
pub(crate) struct Publisher(Record<IdentityEvent>);

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

impl Identity {
    /// Reads identity's record.
    pub fn record(&self) -> Reader<IdentityEvent> {
        self.publisher().0.reader()
    }
}

fn event(change: Change) -> IdentityEvent {
    match change {
        Change::Invited { node, expires, labels, by } => {
            IdentityEvent::NodeInvited { node, expires, labels, by }
        }
        Change::InvitationEnded { node, replaced } => IdentityEvent::InvitationEnded { node, replaced },
        Change::Joined { node, key, labels, host_version } => {
            IdentityEvent::NodeJoined { node, key, labels, host_version }
        }
        Change::TokenReused { node, key } => IdentityEvent::JoinTokenReused { node, key },
        Change::Removed { node, by } => IdentityEvent::NodeRemoved { node, by },
        Change::Issued { node, position, stage, resources } => {
            let stage = match stage {
                Stage::Foundation => EventStage::Foundation,
                Stage::Rest => EventStage::Rest,
            };
            let resources = u32::try_from(resources).unwrap_or(u32::MAX);
            IdentityEvent::DeclarationIssued { node, position, stage, resources }
        }
        Change::GenerationRaised { node, generation, by } => {
            IdentityEvent::GenerationRaised { node, generation, by }
        }
    }
}
