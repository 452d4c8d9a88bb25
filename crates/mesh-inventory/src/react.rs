//! What others recorded, and what inventory makes of it: which names are nodes. With `publish`, the only file that names
//! public events. Records nothing itself.

use mesh_events::IdentityEvent;
use mesh_record::{Entry, ReactError, Reaction};
use mesh_store::Transaction;

use crate::{
    Inventory,
    store::{modules, nodes},
};

/// Follows identity: names that are invited, nodes that come and go.
#[derive(Debug, Clone, Copy)]
pub struct FollowIdentity;

impl Inventory {
    /// What is to be done with identity's events, by a delivery into inventory's store.
    pub fn reaction(&self) -> FollowIdentity {
        FollowIdentity
    }
}

impl Reaction<IdentityEvent> for FollowIdentity {
    async fn react(
        &self,
        transaction: &mut Transaction,
        entry: &Entry<IdentityEvent>,
    ) -> Result<(), ReactError> {
        let db = &mut **transaction;
        match &entry.event {
            IdentityEvent::NodeInvited { node, labels, .. } => nodes::invite(db, node, labels).await?,
            IdentityEvent::InvitationEnded { node, replaced: false } => {
                nodes::forget(db, node, true).await?;
                modules::forget_gone(db).await?;
            }
            IdentityEvent::NodeJoined { node, labels, host_version, .. } => {
                nodes::join(db, node, labels, host_version).await?;
            }
            IdentityEvent::NodeRemoved { node, .. } => {
                nodes::forget(db, node, false).await?;
                modules::forget_gone(db).await?;
            }
            IdentityEvent::GenerationRaised { node, generation, .. } => {
                nodes::begin_anew(db, node, *generation).await?;
            }
            IdentityEvent::InvitationEnded { replaced: true, .. }
            | IdentityEvent::JoinTokenReused { .. }
            | IdentityEvent::DeclarationIssued { .. } => {}
        }
        Ok(())
    }
}
