//! Whether a message is what a node said. Pure.
//!
//! The account comes from the broker, which let nobody set another's; the signature is checked over the bytes before
//! they are read; the node named inside has to be the account's. Either proof alone is not enough.

use mesh_ids::NodeName;
use mesh_link::Delivery;
use mesh_link::names::node_of_account;
use mesh_seal::{Purpose, Signature, VerifyingKey};
use mesh_wire::{Alive, MAX_STATEMENT_BYTES, Report};
use serde::de::DeserializeOwned;

/// Why a message is no statement of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotStated {
    /// The publisher did not name its account.
    #[error("it names no account")]
    NoAccount,
    /// It was published by somebody who is no node.
    #[error("the account {0} is no node's")]
    NotANode(String),
    /// The account is a node's that the mesh does not know.
    #[error("no such node is known")]
    UnknownNode,
    /// More than anybody has to say.
    #[error("it has {0} bytes")]
    TooLarge(usize),
    /// No signature travels with it.
    #[error("it is not signed")]
    Unsigned,
    /// The signature is not the node's over these bytes.
    #[error("its signature is not the node's")]
    WrongSignature,
    /// Signed by the node, and yet not a statement.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It speaks for another node.
    #[error("it speaks for the node {0}")]
    ForAnother(NodeName),
}

/// A statement names who makes it.
pub(super) trait Statement: DeserializeOwned {
    fn node(&self) -> &NodeName;
}

impl Statement for Alive {
    fn node(&self) -> &NodeName {
        &self.node
    }
}

impl Statement for Report {
    fn node(&self) -> &NodeName {
        &self.node
    }
}

/// Whose account published it.
pub(super) fn speaker(delivery: &Delivery) -> Result<NodeName, NotStated> {
    let account = delivery.account.as_deref().ok_or(NotStated::NoAccount)?;
    node_of_account(account).ok_or_else(|| NotStated::NotANode(account.to_owned()))
}

/// What this node said, by its key.
pub(super) fn read<T: Statement>(
    delivery: &Delivery,
    speaker: &NodeName,
    key: &VerifyingKey,
) -> Result<T, NotStated> {
    if delivery.body.len() > MAX_STATEMENT_BYTES {
        return Err(NotStated::TooLarge(delivery.body.len()));
    }
    let signature = delivery.signature.as_deref().ok_or(NotStated::Unsigned)?;
    let signature: Signature = signature.parse().map_err(|_| NotStated::WrongSignature)?;
    key.verify(Purpose::Statement, &delivery.body, &signature).map_err(|_| NotStated::WrongSignature)?;
    let statement: T =
        serde_json::from_slice(&delivery.body).map_err(|error| NotStated::Unreadable(error.to_string()))?;
    if statement.node() == speaker {
        Ok(statement)
    } else {
        Err(NotStated::ForAnother(statement.node().clone()))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use mesh_seal::SigningKey;

    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_seed(&[7; 32])
    }

    fn said(account: &str, body: &str) -> Delivery {
        let signature = key().sign(Purpose::Statement, body.as_bytes()).to_string();
        Delivery::of(body.as_bytes().to_vec(), Some(account), Some(&signature))
    }

    fn heard(delivery: &Delivery) -> Result<Alive, NotStated> {
        read(delivery, &speaker(delivery)?, &key().verifying_key())
    }

    #[test]
    fn what_a_node_signed_under_its_own_account_is_heard() {
        assert_eq!(heard(&said("n-node-1", r#"{"node":"node-1"}"#)).unwrap().node.as_str(), "node-1");
    }

    #[test]
    fn neither_proof_alone_is_enough() {
        // The account of one node with the statement of another, signed by whomever.
        let other = heard(&said("n-node-2", r#"{"node":"node-1"}"#));
        assert_eq!(other, Err(NotStated::ForAnother("node-1".parse().unwrap())));
        // The right account and a signature by another key, for another purpose, over other bytes, or none.
        let body = r#"{"node":"node-1"}"#;
        let stranger = SigningKey::from_seed(&[8; 32]).sign(Purpose::Statement, body.as_bytes()).to_string();
        let enrol = key().sign(Purpose::Enrol, body.as_bytes()).to_string();
        let elsewhere = key().sign(Purpose::Statement, b"{\"node\":\"node-1\" }").to_string();
        for wrong in [stranger, enrol, elsewhere, "AAAA".to_owned(), String::new()] {
            let delivery = Delivery::of(body.as_bytes().to_vec(), Some("n-node-1"), Some(&wrong));
            assert_eq!(heard(&delivery), Err(NotStated::WrongSignature), "{wrong}");
        }
        let unsigned = Delivery::of(body.as_bytes().to_vec(), Some("n-node-1"), None);
        assert_eq!(heard(&unsigned), Err(NotStated::Unsigned));
    }

    #[test]
    fn an_account_that_is_no_nodes_is_not_heard() {
        for (account, wrong) in [("control", true), ("j-t1", true), ("n-", true), ("n-node-1", false)] {
            assert_eq!(heard(&said(account, r#"{"node":"node-1"}"#)).is_err(), wrong, "{account}");
        }
        let nobody = Delivery::of(b"{}".to_vec(), None, None);
        assert_eq!(heard(&nobody), Err(NotStated::NoAccount));
    }

    #[test]
    fn nothing_is_parsed_before_it_verified_and_nothing_huge_is_verified() {
        let garbage = Delivery::of(b"not json".to_vec(), Some("n-node-1"), Some("AAAA"));
        assert_eq!(heard(&garbage), Err(NotStated::WrongSignature));
        let huge = said("n-node-1", &" ".repeat(MAX_STATEMENT_BYTES + 1));
        assert_eq!(heard(&huge), Err(NotStated::TooLarge(MAX_STATEMENT_BYTES + 1)));
    }

    #[test]
    fn a_newer_nodes_members_are_ignored() {
        assert!(heard(&said("n-node-1", r#"{"node":"node-1","mood":"good"}"#)).is_ok());
    }
}
