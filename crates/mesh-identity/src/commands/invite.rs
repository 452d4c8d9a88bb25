//! Invitations, and taking nodes out.

use std::{collections::BTreeMap, time::Duration};

use mesh_authz::{Action, Principal, authorise};
use mesh_ids::{Generation, NodeName};
use mesh_seal::TokenSecret;
use mesh_wire::JoinToken;

use crate::{
    Error, Identity,
    domain::{Change, Refusal, Token, check_invitation, token_hash},
    store::{administrators, nodes, tokens},
};

impl Identity {
    /// A token with which one machine can join under this name. An earlier invitation of the name ends with it.
    pub async fn invite(
        &self,
        who: &Principal,
        node: &NodeName,
        life_time: Duration,
        labels: BTreeMap<String, String>,
    ) -> Result<JoinToken, Error> {
        authorise(who, Action::InviteNode)?;
        check_invitation(node, life_time, &labels)?;
        let now = self.now();
        let id = mesh_seal::fingerprint_of(&mesh_seal::random_bytes::<16>()).as_str()[..16].to_owned();
        let secret = TokenSecret::generate();
        let keys = secret.derive(&id);
        let expires = now.plus(life_time);
        let token = Token {
            id: id.clone(),
            node: node.clone(),
            labels: labels.clone(),
            expires,
            keys: None,
            used_by: None,
        };
        let mut transaction = self.begin().await?;
        nodes::lock_names(&mut transaction).await.map_err(|error| self.failed(error))?;
        let held = nodes::one(&mut transaction, node).await.map_err(|error| self.failed(error))?;
        if held.is_some() {
            return Err(Refusal::NameTaken { node: node.clone() }.into());
        }
        let replaced = tokens::end_of(&mut transaction, node).await.map_err(|error| self.failed(error))?;
        tokens::put(&mut transaction, &token, &keys).await.map_err(|error| self.failed(error))?;
        let mut changes = Vec::new();
        if replaced {
            changes.push(Change::InvitationEnded { node: node.clone(), replaced });
        }
        changes.push(Change::Invited { node: node.clone(), expires, labels, by: who.to_string() });
        self.finish(transaction, now, changes).await?;
        let issuer = self.issuer();
        Ok(JoinToken {
            id,
            secret,
            mesh: issuer.mesh.clone(),
            node: node.clone(),
            brokers: issuer.brokers.clone(),
            server_name: issuer.server_name.clone(),
            ca_pin: issuer.ca_pin.clone(),
            declare_key: issuer.declare_key.verifying_key().to_string(),
            expires: expires.unix_s(),
        })
    }

    /// Takes a node out of the mesh, or an invitation back: its keys are forgotten and nothing is issued for it any more.
    pub async fn remove_node(&self, who: &Principal, node: &NodeName) -> Result<(), Error> {
        authorise(who, Action::RemoveNode)?;
        let mut transaction = self.begin().await?;
        nodes::lock_names(&mut transaction).await.map_err(|error| self.failed(error))?;
        let invited = tokens::end_of(&mut transaction, node).await.map_err(|error| self.failed(error))?;
        let was_there = nodes::remove(&mut transaction, node).await.map_err(|error| self.failed(error))?;
        if !was_there && !invited {
            return Err(Refusal::NoSuchNode { node: node.clone() }.into());
        }
        let now = self.now();
        self.finish(transaction, now, [Change::Removed { node: node.clone(), by: who.to_string() }]).await
    }

    /// Begins a node's history anew: what is issued from now on stands above everything it was told.
    pub async fn raise_generation(&self, who: &Principal, node: &NodeName) -> Result<Generation, Error> {
        authorise(who, Action::RecoverNode)?;
        let mut transaction = self.begin().await?;
        let held = nodes::lock(&mut transaction, node).await.map_err(|error| self.failed(error))?;
        if held.is_none() {
            return Err(Refusal::NoSuchNode { node: node.clone() }.into());
        }
        let generation =
            nodes::raise_generation(&mut transaction, node).await.map_err(|error| self.failed(error))?;
        let now = self.now();
        let change = Change::GenerationRaised { node: node.clone(), generation, by: who.to_string() };
        self.finish(transaction, now, [change]).await?;
        Ok(generation)
    }

    /// Ends the tokens whose time is over: what was derived from their secrets is forgotten. How many.
    pub async fn expire_tokens(&self) -> Result<usize, Error> {
        let now = self.now();
        let mut transaction = self.begin().await?;
        let (ended, unused) =
            tokens::end_expired(&mut transaction, now).await.map_err(|error| self.failed(error))?;
        let changes = unused.into_iter().map(|node| Change::InvitationEnded { node, replaced: false });
        self.finish(transaction, now, changes).await?;
        Ok(ended)
    }

    /// The administrator's token, from now on this one alone. Kept is its hash.
    pub async fn set_admin_token(&self, token: &str) -> Result<(), Error> {
        if token.trim().len() < 32 {
            return Err(Refusal::WeakToken.into());
        }
        let mut db = self.connection().await?;
        let put = administrators::put(&mut db, ADMINISTRATOR, &token_hash(token)).await;
        put.map_err(|error| self.failed(error))
    }
}

/// What the holder of the one administrator's token is called.
const ADMINISTRATOR: &str = "admin";
