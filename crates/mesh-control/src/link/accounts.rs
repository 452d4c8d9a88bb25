//! Changes of the broker's topology, one after the other, each made from what the stores say at that moment.
//!
//! Reading the stores and writing to the broker are one step: whoever compared the whole topology with a list read
//! earlier would take away what was made meanwhile, and make again what was removed. Never changes anything without its
//! turn, and never waits for it without a deadline.

use std::sync::Arc;
use std::time::Duration;

use mesh_ids::NodeName;
use mesh_link::{Changes, ManagementError, Topology};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use super::{Directory, Unavailable};

/// How long a change waits for its turn. A broker that lost ten thousand nodes takes longer to be made again; what did
/// not get its turn by then is made by the next comparison.
const TURN_DEADLINE: Duration = Duration::from_secs(30);

/// Who may enter the broker.
pub(super) struct Accounts<D> {
    topology: Topology,
    directory: Arc<D>,
    turn: Mutex<()>,
}

/// Why the topology is not as the stores say.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotEnsured {
    /// Another change took too long.
    #[error("waited {} s for another change of the broker's accounts", TURN_DEADLINE.as_secs())]
    Busy,
    /// The stores did not say what is to stand.
    #[error("ask the stores what is to stand on the broker: {0}")]
    Stores(#[from] Unavailable),
    /// The broker did not do it.
    #[error(transparent)]
    Broker(#[from] ManagementError),
}

impl<D: Directory> Accounts<D> {
    pub(super) fn new(topology: Topology, directory: Arc<D>) -> Self {
        Self { topology, directory, turn: Mutex::new(()) }
    }

    /// Makes the whole topology what the stores say.
    pub(super) async fn ensure_all(&self) -> Result<(), NotEnsured> {
        let _turn = self.turn().await?;
        let nodes = self.directory.nodes().await?;
        let tokens = self.directory.tokens().await?;
        let changes = self.topology.ensure_all(&nodes, &tokens).await?;
        if changes != Changes::default() {
            let (nodes, tokens, Changes { made, removed }) = (nodes.len(), tokens.len(), changes);
            tracing::info!(nodes, tokens, made, removed, "the broker's topology was put right");
        }
        Ok(())
    }

    /// Makes what a node needs. False: it is no node, and nothing was made.
    pub(super) async fn ensure_node(&self, node: &NodeName) -> Result<bool, NotEnsured> {
        let _turn = self.turn().await?;
        match self.directory.account(node).await? {
            Some(account) => self.topology.ensure_node(&account).await?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Makes what a join token needs. False: it can no longer be used, and nothing was made.
    pub(super) async fn ensure_token(&self, token_id: &str) -> Result<bool, NotEnsured> {
        let _turn = self.turn().await?;
        match self.directory.tokens().await?.iter().find(|token| token.id == token_id) {
            Some(account) => self.topology.ensure_token(account).await?,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a node off the broker; it is removed in the stores already.
    pub(super) async fn remove_node(&self, node: &NodeName) -> Result<(), NotEnsured> {
        let _turn = self.turn().await?;
        self.topology.remove_node(node).await?;
        // Joined again meanwhile by another machine: what the old one had open is cut, and the new one is let in.
        if let Some(account) = self.directory.account(node).await? {
            self.topology.ensure_node(&account).await?;
        }
        Ok(())
    }

    /// Takes a join token off the broker; it ended in the stores already.
    pub(super) async fn remove_token(&self, token_id: &str) -> Result<(), NotEnsured> {
        let _turn = self.turn().await?;
        Ok(self.topology.remove_token(token_id).await?)
    }

    /// Empties a node's queue. Takes away no account and makes none, so it waits for nobody.
    pub(super) async fn purge_node(&self, node: &NodeName) -> Result<(), ManagementError> {
        self.topology.purge_node(node).await
    }

    async fn turn(&self) -> Result<MutexGuard<'_, ()>, NotEnsured> {
        timeout(TURN_DEADLINE, self.turn.lock()).await.map_err(|_| NotEnsured::Busy)
    }
}
