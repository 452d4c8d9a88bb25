//! What every endpoint has at hand, and the few things that take more than one context.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use mesh_api::{Invitation, NodeView, ProblemCode};
use mesh_authz::Principal;
use mesh_identity::Identity;
use mesh_ids::{MeshId, NodeName, Timestamp};
use mesh_inventory::Inventory;
use tokio_util::sync::CancellationToken;

use super::{History, problem::Failure, view, watch::Room};
use crate::{
    link::{LinkHandle, Unavailable},
    statements::Statements,
};

/// Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    mesh: MeshId,
    inventory: Inventory,
    identity: Identity,
    history: History,
    link: LinkHandle<Statements>,
    stop: CancellationToken,
    room: Room,
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
        link: LinkHandle<Statements>,
        stop: CancellationToken,
    ) -> Self {
        let history = History::new(inventory.record(), identity.record());
        Self(Arc::new(Inner { mesh, inventory, identity, history, link, stop, room: Room::default() }))
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

    /// For those who watch a list.
    pub(super) fn room(&self) -> &Room {
        &self.0.room
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
        let newest = self.0.identity.newest(name).await?;
        Ok(view::node(node, newest.map(|newest| newest.position)))
    }

    /// Makes a token, and the account it opens before anybody is told of it.
    pub(super) async fn invite(
        &self,
        who: &Principal,
        node: &NodeName,
        life_time: Duration,
        labels: BTreeMap<String, String>,
    ) -> Result<Invitation, Failure> {
        let token = self.0.identity.invite(who, node, life_time, labels).await?;
        self.0.link.invite(&token.id).await.map_err(|away| {
            broker_away(
                &away,
                "the invitation stands, but its account on the broker could not be made: invite again",
            )
        })?;
        let text = token.to_text().map_err(|error| Failure::internal(&error))?;
        let expires = Timestamp::from_unix_s(token.expires).to_string();
        Ok(Invitation { node: token.node, token: text, expires })
    }

    /// Forgets a node, and throws it out before anybody is told so.
    pub(super) async fn remove_node(&self, who: &Principal, node: &NodeName) -> Result<(), Failure> {
        self.0.identity.remove_node(who, node).await?;
        self.0.link.remove_node(node).await.map_err(|away| {
            broker_away(
                &away,
                "the node is removed; its account on the broker goes as soon as the broker answers",
            )
        })
    }
}

fn broker_away(away: &Unavailable, detail: &str) -> Failure {
    tracing::warn!(reason = %away, "the broker did not answer a request of the interface");
    Failure::new(ProblemCode::Unavailable, "The broker does not answer", detail)
}
