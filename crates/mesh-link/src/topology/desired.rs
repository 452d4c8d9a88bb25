//! What the topology of these nodes and tokens is. Pure.
//!
//! A node may publish to its own exchange and consume its own queue, and configure nothing. A token may publish to the
//! enrol exchange and consume its own reply queue. Nothing here is dead-lettered or dropped from the head: a message
//! that does not fit is refused to its publisher.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::NodeName;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::password::PasswordHash;
use crate::names::{
    ALIVE_KEY, ALIVE_QUEUE, DOWN, ENROL_EXCHANGE, ENROL_KEY, ENROL_QUEUE, NODE_ACCOUNT, NOTHING, REPLY,
    REPORT_KEY, REPORT_QUEUE, TOKEN_ACCOUNT, UP, down_queue, exactly, node_account, reply_queue,
    token_account, up_exchange,
};

/// A declaration is whole: the newest is enough, and a queue full of older ones is emptied for it.
const DECLARATIONS_WAITING: u32 = 8;
/// More than ten thousand nodes say in the time it takes to restart the control plane.
const STATEMENTS_WAITING: u32 = 100_000;
/// A heartbeat older than this says nothing.
const ALIVE_TTL_MS: u32 = 10_000;
/// Machines waiting to be let in, at most.
const REQUESTS_WAITING: u32 = 1_000;
/// An answer and its repeats.
const REPLIES_WAITING: u32 = 4;

/// A node and the password of its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAccount {
    /// The node.
    pub node: NodeName,
    /// What its password hashes to.
    pub password: PasswordHash,
}

/// A join token that may still be used, and the password of its one-shot account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAccount {
    /// The token's id.
    pub id: String,
    /// What its derived password hashes to.
    pub password: PasswordHash,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binding {
    pub(super) exchange: String,
    pub(super) key: String,
    pub(super) queue: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Permissions {
    configure: String,
    write: String,
    read: String,
}

#[derive(Debug, Clone)]
pub(super) struct Account {
    pub(super) password: PasswordHash,
    pub(super) permissions: Permissions,
}

#[derive(Debug, Default)]
pub(super) struct Desired {
    pub(super) exchanges: BTreeSet<String>,
    pub(super) queues: BTreeMap<String, BTreeMap<String, Value>>,
    pub(super) bindings: BTreeSet<Binding>,
    pub(super) accounts: BTreeMap<String, Account>,
}

impl Desired {
    pub(super) fn of(nodes: &[NodeAccount], tokens: &[TokenAccount]) -> Self {
        let mut desired = Self::default();
        desired.add_control();
        for node in nodes {
            desired.add_node(node);
        }
        for token in tokens {
            desired.add_token(token);
        }
        desired
    }

    pub(super) fn of_node(node: &NodeAccount) -> Self {
        let mut desired = Self::default();
        desired.add_control();
        desired.add_node(node);
        desired
    }

    pub(super) fn of_token(token: &TokenAccount) -> Self {
        let mut desired = Self::default();
        desired.add_control();
        desired.add_token(token);
        desired
    }

    fn add_control(&mut self) {
        self.queue(REPORT_QUEUE, STATEMENTS_WAITING, &[]);
        self.queue(ALIVE_QUEUE, STATEMENTS_WAITING, &[("x-message-ttl", json!(ALIVE_TTL_MS))]);
        self.queue(ENROL_QUEUE, REQUESTS_WAITING, &[]);
        self.exchanges.insert(ENROL_EXCHANGE.to_owned());
        self.bind(ENROL_EXCHANGE, ENROL_KEY, ENROL_QUEUE);
    }

    fn add_node(&mut self, node: &NodeAccount) {
        let (up, down) = (up_exchange(&node.node), down_queue(&node.node));
        self.queue(&down, DECLARATIONS_WAITING, &[("x-single-active-consumer", json!(true))]);
        self.bind(&up, REPORT_KEY, REPORT_QUEUE);
        self.bind(&up, ALIVE_KEY, ALIVE_QUEUE);
        let permissions =
            Permissions { configure: NOTHING.to_owned(), write: exactly(&up), read: exactly(&down) };
        self.exchanges.insert(up);
        let password = node.password.clone();
        self.accounts.insert(node_account(&node.node), Account { password, permissions });
    }

    fn add_token(&mut self, token: &TokenAccount) {
        let reply = reply_queue(&token.id);
        self.queue(&reply, REPLIES_WAITING, &[]);
        let permissions = Permissions {
            configure: NOTHING.to_owned(),
            write: exactly(ENROL_EXCHANGE),
            read: exactly(&reply),
        };
        let password = token.password.clone();
        self.accounts.insert(token_account(&token.id), Account { password, permissions });
    }

    fn queue(&mut self, name: &str, longest: u32, more: &[(&str, Value)]) {
        let mut arguments: BTreeMap<String, Value> =
            more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        arguments.insert("x-max-length".to_owned(), json!(longest));
        arguments.insert("x-overflow".to_owned(), json!("reject-publish"));
        self.queues.insert(name.to_owned(), arguments);
    }

    fn bind(&mut self, exchange: &str, key: &str, queue: &str) {
        self.bindings.insert(Binding {
            exchange: exchange.to_owned(),
            key: key.to_owned(),
            queue: queue.to_owned(),
        });
    }
}

/// Whether a queue with the seen arguments is the wanted one. RabbitMQ 4 shows the type that every queue has by itself.
pub(super) fn is_same_queue(seen: &BTreeMap<String, Value>, wanted: &BTreeMap<String, Value>) -> bool {
    let by_itself = |key: &str, value: &Value| key == "x-queue-type" && value == "classic";
    let told = seen.iter().filter(|(key, value)| !by_itself(key, value));
    told.eq(wanted.iter())
}

/// Whether an account is one that this topology makes and may remove.
pub(super) fn is_our_account(name: &str) -> bool {
    name.starts_with(NODE_ACCOUNT) || name.starts_with(TOKEN_ACCOUNT)
}

/// The same of a queue.
pub(super) fn is_our_queue(name: &str) -> bool {
    name.starts_with(DOWN) || name.starts_with(REPLY)
}

/// The same of an exchange.
pub(super) fn is_our_exchange(name: &str) -> bool {
    name.starts_with(UP)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_node_may_publish_to_its_own_exchange_and_consume_its_own_queue_and_nothing_else() {
        let node = NodeAccount { node: "node-1".parse().unwrap(), password: PasswordHash::of("p", [1; 4]) };
        let desired = Desired::of(&[node], &[]);
        let permissions = &desired.accounts["n-node-1"].permissions;
        assert_eq!(permissions.configure, "^$");
        assert_eq!(permissions.write, r"^up\.node\-1\z");
        assert_eq!(permissions.read, r"^down\.node\-1\z");
        assert_eq!(desired.accounts.len(), 1);
    }

    #[test]
    fn a_queue_is_the_same_with_the_type_it_has_by_itself_and_no_other() {
        let wanted: BTreeMap<String, Value> = [("x-max-length".to_owned(), json!(8))].into();
        let with = |key: &str, value: Value| {
            let mut seen = wanted.clone();
            seen.insert(key.to_owned(), value);
            is_same_queue(&seen, &wanted)
        };
        assert!(is_same_queue(&wanted, &wanted));
        assert!(with("x-queue-type", json!("classic")));
        assert!(!with("x-queue-type", json!("quorum")));
        assert!(!with("x-max-length", json!(9)));
        assert!(!with("x-dead-letter-exchange", json!("up.node-2")));
        assert!(!is_same_queue(&BTreeMap::new(), &wanted));
    }

    #[test]
    fn nothing_is_dropped_from_the_head_or_dead_lettered() {
        let token = TokenAccount { id: "t".to_owned(), password: PasswordHash::of("p", [1; 4]) };
        for (name, arguments) in Desired::of(&[], &[token]).queues {
            assert_eq!(arguments["x-overflow"], json!("reject-publish"), "{name}");
            assert!(arguments.contains_key("x-max-length"), "{name} is not bounded");
            assert!(!arguments.keys().any(|key| key.contains("dead-letter")), "{name}");
        }
    }
}
