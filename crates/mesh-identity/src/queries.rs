//! The read side. What is here goes to the link and to whoever authenticates callers, never to a client.

use std::collections::BTreeMap;

use mesh_authz::Principal;
use mesh_ids::{NodeName, Position, Timestamp};
use mesh_seal::VerifyingKey;
use mesh_wire::token_account;

use crate::{
    Error, Identity, Newest,
    domain::{Token, token_hash},
    store::{
        administrators, declarations,
        nodes::{self, StoredNode},
        tokens,
    },
};

/// A node's broker account, and the key its statements are signed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAccount {
    /// Which node.
    pub node: NodeName,
    /// The account.
    pub account: String,
    /// Its password as RabbitMQ keeps it (`rabbit_password_hashing_sha256`).
    pub password_hash: String,
    /// The key its statements are signed with.
    pub identity_key: VerifyingKey,
    /// The key of its tunnel (X25519), as base64.
    pub tunnel_key: String,
    /// When it joined.
    pub joined: Timestamp,
    /// Labels, fixed when it was invited.
    pub labels: BTreeMap<String, String>,
}

/// A join token whose broker account has to be there.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenToken {
    /// Which.
    pub id: String,
    /// For which name.
    pub node: NodeName,
    /// Its account.
    pub account: String,
    /// That account's password.
    pub password: String,
    /// Until when.
    pub expires: Timestamp,
    /// Whether a machine has used it and may ask again.
    pub used: bool,
}

impl std::fmt::Debug for OpenToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenToken").field("id", &self.id).field("node", &self.node).finish_non_exhaustive()
    }
}

/// The broker account of a node.
pub(crate) fn account(node: &NodeName) -> String {
    format!("n-{node}")
}

impl Identity {
    /// Who the holder of this token is; `None` where it is nobody's.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Principal>, Error> {
        let hash = token_hash(token);
        let mut db = self.connection().await?;
        let administrators = administrators::all(&mut db).await.map_err(|error| self.failed(error))?;
        let holder = administrators.into_iter().find(|(_, held)| same(held, &hash));
        Ok(holder.map(|(name, _)| Principal::Admin { name }))
    }

    /// Every node's account, by name.
    pub async fn accounts(&self) -> Result<Vec<NodeAccount>, Error> {
        let mut db = self.connection().await?;
        let nodes = nodes::all(&mut db).await.map_err(|error| self.failed(error))?;
        Ok(nodes.into_iter().map(node_account).collect())
    }

    /// The key a node signs its statements with; `None` where there is no such node.
    pub async fn identity_key(&self, node: &NodeName) -> Result<Option<VerifyingKey>, Error> {
        let mut db = self.connection().await?;
        let node = nodes::one(&mut db, node).await.map_err(|error| self.failed(error))?;
        Ok(node.map(|node| node.identity_key))
    }

    /// The join tokens that can be used now, or that still answer the machine that used them.
    pub async fn open_tokens(&self) -> Result<Vec<OpenToken>, Error> {
        let now = self.now();
        let mut db = self.connection().await?;
        let tokens = tokens::open(&mut db, now).await.map_err(|error| self.failed(error))?;
        Ok(tokens.into_iter().filter_map(open_token).collect())
    }

    /// The newest declaration issued for a node.
    pub async fn newest(&self, node: &NodeName) -> Result<Option<Newest>, Error> {
        let mut db = self.connection().await?;
        let newest = declarations::newest(&mut db, node).await.map_err(|error| self.failed(error))?;
        Ok(newest.map(Newest::from))
    }

    /// Where the newest declaration of each node stands. Without one, a node is not in it.
    pub async fn newest_positions(&self) -> Result<BTreeMap<NodeName, Position>, Error> {
        let mut db = self.connection().await?;
        declarations::newest_positions(&mut db).await.map_err(|error| self.failed(error))
    }
}

fn node_account(node: StoredNode) -> NodeAccount {
    NodeAccount {
        account: account(&node.name),
        node: node.name,
        password_hash: node.password_hash,
        identity_key: node.identity_key,
        tunnel_key: node.tunnel_key,
        joined: node.joined,
        labels: node.labels,
    }
}

fn open_token(token: Token) -> Option<OpenToken> {
    Some(OpenToken {
        account: token_account(&token.id),
        password: token.keys?.broker_password().to_owned(),
        id: token.id,
        node: token.node,
        expires: token.expires,
        used: token.used_by.is_some(),
    })
}

/// Compares in a time that does not depend on where they differ.
fn same(held: &[u8], given: &[u8; 32]) -> bool {
    held.len() == given.len() && held.iter().zip(given).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}
