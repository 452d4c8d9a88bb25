//! What each node is told: asks the contexts for their part, has identity issue it where it differs from the last, and
//! hands it to the link. In two stages: the *foundation* first (what the node needs to be reached), the *rest* only
//! once the node reported the foundation.
//!
//! Woken by the records and by period; keeps nothing that it could not find out again, so that it may stop anywhere.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use mesh_events::{IdentityEvent, InventoryEvent};
use mesh_identity::{Error, ErrorKind, Identity, Issued, Stage};
use mesh_ids::{NodeName, Position};
use mesh_inventory::Inventory;
use mesh_record::{Entry, ReadError};
use mesh_wire::Resource;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::{followed::Followed, http::chain, link::Unavailable, statements::frame};

/// How often every node is looked at, whatever the records said: what failed before is tried again then.
const PERIOD: Duration = Duration::from_secs(30);

/// Hands a declaration to the link. It is the newest for its node; what was handed over before may be dropped.
pub trait Publish: Send + Sync + 'static {
    /// Hands it over. Never waits for the broker.
    fn publish(&self, node: &NodeName, frame: Arc<[u8]>);
}

/// Declares.
pub struct Declare<P> {
    inventory: Inventory,
    identity: Identity,
    publish: P,
}

/// Why nothing was declared for a node this time. The next round tries again.
#[derive(Debug, thiserror::Error)]
enum Undeclared {
    #[error("ask inventory what is to be on it")]
    Inventory(#[from] mesh_inventory::Error),
    #[error("have identity issue its declaration")]
    Identity(#[from] Error),
    #[error("write its declaration down")]
    Frame(#[from] Unavailable),
}

/// What the next declaration of a node holds, by what was issued last and what the node reported. A node that has yet to
/// report its foundation is told it again: that is issued anew only where its generation was raised, or its time runs out.
fn next_stage(newest: Option<(Stage, Position)>, reported: Option<Position>) -> Stage {
    match newest {
        None => Stage::Foundation,
        Some((Stage::Foundation, position)) if reported < Some(position) => Stage::Foundation,
        Some((Stage::Foundation | Stage::Rest, _)) => Stage::Rest,
    }
}

impl<P: Publish> Declare<P> {
    /// Of these contexts, over this link.
    pub fn new(inventory: Inventory, identity: Identity, publish: P) -> Self {
        Self { inventory, identity, publish }
    }

    /// Declares until told to stop.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ReadError> {
        let mut inventory = Followed::from_its_end(&self.inventory.record()).await?;
        let mut identity = Followed::from_its_end(&self.identity.record()).await?;
        let mut period = interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let nodes = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                // At once at the start, so that nothing waits that was recorded while nobody declared.
                _ = period.tick() => self.everyone().await,
                entry = inventory.next() => concerned_by_inventory(&entry),
                entry = identity.next() => concerned_by_identity(&entry),
            };
            for node in nodes {
                if let Err(error) = self.declare(&node).await {
                    tracing::warn!(%node, error = %chain(&error), "a node's declaration could not be brought up to date");
                }
            }
        }
    }

    async fn everyone(&self) -> BTreeSet<NodeName> {
        match self.identity.accounts().await {
            Ok(accounts) => accounts.into_iter().map(|account| account.node).collect(),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the nodes could not be listed");
                BTreeSet::new()
            }
        }
    }

    /// Brings one node's declaration up to date, and publishes it where it is new.
    async fn declare(&self, node: &NodeName) -> Result<(), Undeclared> {
        let newest = self.identity.newest(node).await?;
        let standing = self.inventory.standing(node).await?;
        let newest = newest.map(|newest| (newest.stage, newest.position));
        match next_stage(newest, standing.reported) {
            stage @ Stage::Foundation => {
                // The overlay goes here once connectivity decides one.
                let foundation: [Resource; 0] = [];
                let Some(issued) = self.issue(node, &foundation, stage).await? else { return Ok(()) };
                self.hand_over(node, &issued)
            }
            stage @ Stage::Rest => {
                let declared = match self.inventory.declare(node).await {
                    Ok(declared) => declared,
                    // It was removed, or inventory has yet to hear that it joined, which wakes this again.
                    Err(error) if error.kind() == mesh_inventory::ErrorKind::NotFound => return Ok(()),
                    Err(error) => return Err(error.into()),
                };
                let issued = match self.issue(node, &declared.resources, stage).await {
                    Err(Undeclared::Identity(error)) if error.kind() == ErrorKind::Refused => {
                        // Trying again alone does not help: to be seen where people look.
                        self.inventory.note_undeclared(node, &error.to_string()).await?;
                        return Err(error.into());
                    }
                    other => other?,
                };
                let Some(issued) = issued else { return Ok(()) };
                // Before it is published, so that no report of it can arrive that nobody can place.
                self.inventory.note_issued(node, declared.revision, issued.newest().position).await?;
                self.hand_over(node, &issued)
            }
        }
    }

    /// Issues; nothing where the node was removed meanwhile.
    async fn issue(
        &self,
        node: &NodeName,
        resources: &[Resource],
        stage: Stage,
    ) -> Result<Option<Issued>, Undeclared> {
        match self.identity.issue(node, resources, stage).await {
            Ok(issued) => Ok(Some(issued)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn hand_over(&self, node: &NodeName, issued: &Issued) -> Result<(), Undeclared> {
        if let Issued::New(newest) = issued {
            tracing::info!(%node, position = %newest.position, "a declaration was issued");
            self.publish.publish(node, frame(newest)?.frame);
        }
        Ok(())
    }
}

fn concerned_by_inventory(entry: &Entry<InventoryEvent>) -> BTreeSet<NodeName> {
    match &entry.event {
        InventoryEvent::NodeReported { node, .. } => BTreeSet::from([node.clone()]),
        event => event.changed().iter().cloned().collect(),
    }
}

fn concerned_by_identity(entry: &Entry<IdentityEvent>) -> BTreeSet<NodeName> {
    match &entry.event {
        IdentityEvent::NodeJoined { node, .. } | IdentityEvent::GenerationRaised { node, .. } => {
            BTreeSet::from([node.clone()])
        }
        _ => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use mesh_ids::{Epoch, Generation, Sequence};

    use super::*;

    fn at(sequence: u64) -> Position {
        Position { epoch: Epoch::new(1), generation: Generation::new(1), sequence: Sequence::new(sequence) }
    }

    #[test]
    fn the_rest_follows_only_once_the_foundation_was_reported() {
        assert_eq!(next_stage(None, None), Stage::Foundation);
        assert_eq!(next_stage(Some((Stage::Foundation, at(1))), None), Stage::Foundation);
        assert_eq!(next_stage(Some((Stage::Foundation, at(2))), Some(at(1))), Stage::Foundation);
        assert_eq!(next_stage(Some((Stage::Foundation, at(2))), Some(at(2))), Stage::Rest);
        assert_eq!(next_stage(Some((Stage::Rest, at(3))), None), Stage::Rest);
    }
}
