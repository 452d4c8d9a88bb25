//! What every endpoint has at hand, and the few things that take more than one context.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use mesh_api::{Invitation, NodeView, ProblemCode};
use mesh_authz::Principal;
use mesh_identity::Identity;
use mesh_ids::{MeshId, NodeName};
use mesh_inventory::Inventory;
use tokio_util::sync::CancellationToken;

use super::{History, problem::Failure, view};

/// The broker does not answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct BrokerAway(pub String);

/// What the interface needs of the link: that accounts stand on the broker before anybody is told of them, and are gone
/// from it before anybody is told so.
pub trait Broker: Send + Sync + 'static {
    /// Makes the one-shot account of every open invitation and the topology of every node.
    fn bring_up_to_date(&self) -> Pin<Box<dyn Future<Output = Result<(), BrokerAway>> + Send + '_>>;
}

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    mesh: MeshId,
    inventory: Inventory,
    identity: Identity,
    history: History,
    broker: Box<dyn Broker>,
    stop: CancellationToken,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Api({})", self.0.mesh)
    }
}

impl Api {
    /// Of these contexts. Streams end when `stop` is cancelled.
    pub fn new(
        mesh: MeshId,
        inventory: Inventory,
        identity: Identity,
        broker: Box<dyn Broker>,
        stop: CancellationToken,
    ) -> Self {
        let history = History::new(inventory.record(), identity.record());
        Self(Arc::new(Inner { mesh, inventory, identity, history, broker, stop }))
    }

    pub(super) fn mesh(&self) -> &MeshId {
        &self.0.mesh
    }

    pub(super) fn inventory(&self) -> &Inventory {
        &self.0.inventory
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    pub(super) fn history(&self) -> &History {
        &self.0.history
    }

    /// Ends with the process.
    pub(super) fn stopping(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.stop.clone().cancelled_owned()
    }

    pub(super) async fn authenticate(&self, token: &str) -> Result<Option<Principal>, Failure> {
        Ok(self.0.identity.authenticate(token).await?)
    }

    pub(super) async fn node_view(&self, who: &Principal, name: &NodeName) -> Result<NodeView, Failure> {
        let node = self.0.inventory.node(who, name).await?;
        Ok(view::node(node, self.0.identity.newest_position(name).await?))
    }

    pub(super) async fn invite(
        &self,
        who: &Principal,
        node: &NodeName,
        ttl: Duration,
        labels: BTreeMap<String, String>,
    ) -> Result<Invitation, Failure> {
        let token = self.0.identity.invite(who, node, ttl, labels).await?;
        self.reach_broker("the invitation stands, but its account could not be made: invite again").await?;
        let text = token.to_text().map_err(|error| Failure::internal(&error))?;
        let expires = mesh_ids::Timestamp::from_unix_s(token.expires).to_string();
        Ok(Invitation { node: token.node, token: text, expires })
    }

    pub(super) async fn remove_node(&self, who: &Principal, node: &NodeName) -> Result<(), Failure> {
        self.0.identity.remove_node(who, node).await?;
        self.reach_broker("the node is removed, and its account on the broker goes as soon as that answers").await
    }

    async fn reach_broker(&self, otherwise: &str) -> Result<(), Failure> {
        self.0.broker.bring_up_to_date().await.map_err(|away| {
            tracing::warn!(reason = %away, "the broker did not answer a request of the interface");
            Failure::new(ProblemCode::Unavailable, "The broker does not answer", otherwise)
        })
    }
}
