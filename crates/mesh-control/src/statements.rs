//! What nodes say, handed to the contexts that own it; and what the link has to know of the nodes. Translates between
//! the link's words and the contexts' and decides nothing.

use std::sync::Arc;

use mesh_identity::Identity;
use mesh_ids::{Clock, NodeName};
use mesh_inventory::{Heard, Inventory, ReportOutcome};
use mesh_link::{NodeAccount, PasswordHash, TokenAccount};
use mesh_seal::{VerifyingKey, fingerprint_of};
use mesh_wire::{Alive, Enrol, Report};

use crate::{
    http::chain,
    link::{Directory, Enrolled, Newest, StatementSink, Unavailable},
};

/// The contexts, as the link sees them. Cheap to clone.
#[derive(Clone)]
pub struct Statements {
    inventory: Inventory,
    identity: Identity,
    clock: Clock,
}

impl Statements {
    /// Of these contexts.
    pub fn new(inventory: Inventory, identity: Identity, clock: Clock) -> Self {
        Self { inventory, identity, clock }
    }
}

fn unavailable(error: &dyn std::error::Error) -> Unavailable {
    Unavailable(chain(error))
}

/// A node's account as the broker keeps it.
fn node_account(account: mesh_identity::NodeAccount) -> NodeAccount {
    NodeAccount { node: account.node, password: PasswordHash::from_stored(&account.password_hash) }
}

/// A token's account as the broker keeps it. The salt is the token's own and always the same, so that an account that is
/// there already is seen to be; it need not be secret, and each token has its own 256-bit password.
fn token_account(id: &str, password: &str) -> TokenAccount {
    let mut salt = [0; 4];
    salt.copy_from_slice(&fingerprint_of(id.as_bytes()).as_str().as_bytes()[..4]);
    TokenAccount { id: id.to_owned(), password: PasswordHash::of(password, salt) }
}

impl Directory for Statements {
    async fn nodes(&self) -> Result<Vec<NodeAccount>, Unavailable> {
        let accounts = self.identity.accounts().await.map_err(|error| unavailable(&error))?;
        Ok(accounts.into_iter().map(node_account).collect())
    }

    async fn tokens(&self) -> Result<Vec<TokenAccount>, Unavailable> {
        let tokens = self.identity.open_tokens().await.map_err(|error| unavailable(&error))?;
        Ok(tokens.iter().map(|token| token_account(&token.id, &token.password)).collect())
    }

    async fn account(&self, node: &NodeName) -> Result<Option<NodeAccount>, Unavailable> {
        Ok(self.nodes().await?.into_iter().find(|account| account.node == *node))
    }

    async fn key(&self, node: &NodeName) -> Result<Option<VerifyingKey>, Unavailable> {
        self.identity.identity_key(node).await.map_err(|error| unavailable(&error))
    }

    async fn newest(&self, node: &NodeName) -> Result<Option<Newest>, Unavailable> {
        let newest = self.identity.newest(node).await.map_err(|error| unavailable(&error))?;
        newest.map(|newest| frame(&newest)).transpose()
    }
}

/// A declaration as it travels.
pub(crate) fn frame(newest: &mesh_identity::Newest) -> Result<Newest, Unavailable> {
    let frame = serde_json::to_vec(&newest.signed).map_err(|error| unavailable(&error))?;
    Ok(Newest { position: newest.position, frame: Arc::from(frame) })
}

impl StatementSink for Statements {
    async fn alive(&self, heard: Vec<Alive>) -> Result<(), Unavailable> {
        let at = (self.clock)();
        let heard: Vec<_> =
            heard.into_iter().map(|alive| Heard { node: alive.node, at, accepted: alive.accepted }).collect();
        self.inventory.record_alive(&heard).await.map_err(|error| unavailable(&error))
    }

    async fn report(&self, report: Report) -> Result<(), Unavailable> {
        match self.inventory.record_report(&report).await.map_err(|error| unavailable(&error))? {
            ReportOutcome::Recorded | ReportOutcome::OlderNews => Ok(()),
            // Its signature verified, so identity knows it: inventory has yet to hear that it joined.
            ReportOutcome::UnknownNode => {
                Err(Unavailable(format!("{} is not in the inventory yet", report.node)))
            }
        }
    }

    async fn enrol(&self, token_id: &str, enrol: Enrol) -> Result<Option<Enrolled>, Unavailable> {
        let frame = serde_json::to_vec(&enrol).map_err(|error| unavailable(&error))?;
        let redemption = self.identity.redeem(&frame).await.map_err(|error| unavailable(&error))?;
        // The account by which it came in says which token it holds; a request that names another is nobody's.
        let Some(redemption) = redemption.filter(|redemption| redemption.token_id == token_id) else {
            return Ok(None);
        };
        let node = if redemption.joined { self.account(&redemption.node).await? } else { None };
        Ok(Some(Enrolled { answer: redemption.answer, node }))
    }
}
