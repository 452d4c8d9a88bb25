//! What has to stand on the broker, made and kept by the control plane alone; no node may configure anything.
//!
//! The broker is transport and not storage: everything is rebuilt from what the caller hands in, and what stands there
//! beyond it is removed. Works through the management interface that RabbitMQ and LavinMQ share.
//! Called by: the control plane's link.

mod desired;
mod password;

use std::collections::BTreeMap;

use hyper::Method;
use mesh_ids::NodeName;
use serde::Deserialize;
use serde_json::{Value, json};

use self::desired::{Account, Binding, Desired, Permissions};
pub use self::desired::{NodeAccount, TokenAccount};
pub use self::password::PasswordHash;
use crate::management::{Management, ManagementError};
use crate::names::{down_queue, node_account, reply_queue, token_account, up_exchange};

/// How much was changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// What was missing or different and was made.
    pub made: usize,
    /// What stood there and is wanted no more.
    pub removed: usize,
}

/// The topology of one virtual host.
#[derive(Debug)]
pub struct Topology {
    management: Management,
    vhost: String,
    control_account: String,
}

#[derive(Deserialize)]
struct SeenExchange {
    name: String,
}

#[derive(Deserialize)]
struct SeenQueue {
    name: String,
    #[serde(default)]
    arguments: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct SeenBinding {
    source: String,
    destination: String,
    routing_key: String,
}

#[derive(Deserialize)]
struct SeenUser {
    name: String,
    #[serde(default)]
    password_hash: String,
}

#[derive(Deserialize)]
struct SeenPermissions {
    user: String,
    #[serde(flatten)]
    permissions: Permissions,
}

#[derive(Deserialize)]
struct SeenConnection {
    name: String,
    #[serde(default)]
    user: String,
}

impl Topology {
    /// Of this virtual host. The control plane's own account is never removed.
    pub fn new(management: Management, vhost: &str, control_account: &str) -> Self {
        Self { management, vhost: vhost.to_owned(), control_account: control_account.to_owned() }
    }

    /// Makes everything these nodes and these unused tokens need, and removes what other nodes and tokens left. Reads
    /// first and writes only what differs, so that it costs five requests where nothing does.
    pub async fn ensure_all(
        &self,
        nodes: &[NodeAccount],
        tokens: &[TokenAccount],
    ) -> Result<Changes, ManagementError> {
        let desired = Desired::of(nodes, tokens);
        let mut changes = Changes::default();
        // Revoked first: whoever is to be kept out is out before anything else is done.
        changes.removed += self.remove_strays(&desired).await?;
        changes.made += self.make_exchanges(&desired).await?;
        changes.made += self.make_queues(&desired).await?;
        changes.made += self.make_bindings(&desired).await?;
        changes.made += self.make_accounts(&desired).await?;
        Ok(changes)
    }

    /// Makes what one node needs.
    pub async fn ensure_node(&self, node: &NodeAccount) -> Result<(), ManagementError> {
        self.make_all_of(&Desired::of_node(node)).await
    }

    /// Makes what one join token needs.
    pub async fn ensure_token(&self, token: &TokenAccount) -> Result<(), ManagementError> {
        self.make_all_of(&Desired::of_token(token)).await
    }

    /// Takes a node off the broker: permissions, account, connections, queue, exchange, in this order, so that at no
    /// moment an account stands without what limits it.
    pub async fn remove_node(&self, node: &NodeName) -> Result<(), ManagementError> {
        self.remove_account(&node_account(node)).await?;
        self.management.delete(&["queues", &self.vhost, &down_queue(node)]).await?;
        self.management.delete(&["exchanges", &self.vhost, &up_exchange(node)]).await
    }

    /// Takes a join token off the broker.
    pub async fn remove_token(&self, token_id: &str) -> Result<(), ManagementError> {
        self.remove_account(&token_account(token_id)).await?;
        self.management.delete(&["queues", &self.vhost, &reply_queue(token_id)]).await
    }

    /// Empties a node's queue, so that the newest declaration has room.
    pub async fn purge_node(&self, node: &NodeName) -> Result<(), ManagementError> {
        self.management.delete(&["queues", &self.vhost, &down_queue(node), "contents"]).await
    }

    async fn make_all_of(&self, desired: &Desired) -> Result<(), ManagementError> {
        for name in &desired.exchanges {
            self.make_exchange(name).await?;
        }
        for (name, arguments) in &desired.queues {
            self.make_queue(name, arguments).await?;
        }
        for binding in &desired.bindings {
            self.make_binding(binding).await?;
        }
        for (name, account) in &desired.accounts {
            self.make_account(name, account).await?;
        }
        Ok(())
    }

    async fn make_exchanges(&self, desired: &Desired) -> Result<usize, ManagementError> {
        let seen: Vec<SeenExchange> = self.list(&["exchanges", &self.vhost], "columns=name").await?;
        let seen: std::collections::BTreeSet<String> = seen.into_iter().map(|seen| seen.name).collect();
        let mut made = 0;
        for name in desired.exchanges.difference(&seen) {
            self.make_exchange(name).await?;
            made += 1;
        }
        Ok(made)
    }

    async fn make_queues(&self, desired: &Desired) -> Result<usize, ManagementError> {
        let seen: Vec<SeenQueue> = self.list(&["queues", &self.vhost], "columns=name,arguments").await?;
        let seen: BTreeMap<String, BTreeMap<String, Value>> =
            seen.into_iter().map(|seen| (seen.name, seen.arguments)).collect();
        let mut made = 0;
        for (name, arguments) in &desired.queues {
            if !seen.get(name).is_some_and(|seen| desired::is_same_queue(seen, arguments)) {
                self.make_queue(name, arguments).await?;
                made += 1;
            }
        }
        Ok(made)
    }

    async fn make_bindings(&self, desired: &Desired) -> Result<usize, ManagementError> {
        let columns = "columns=source,destination,routing_key";
        let seen: Vec<SeenBinding> = self.list(&["bindings", &self.vhost], columns).await?;
        let seen: std::collections::BTreeSet<Binding> = seen
            .into_iter()
            .map(|seen| Binding { exchange: seen.source, key: seen.routing_key, queue: seen.destination })
            .collect();
        let mut made = 0;
        for binding in desired.bindings.difference(&seen) {
            self.make_binding(binding).await?;
            made += 1;
        }
        Ok(made)
    }

    async fn make_accounts(&self, desired: &Desired) -> Result<usize, ManagementError> {
        let users: BTreeMap<String, String> =
            self.users().await?.into_iter().map(|seen| (seen.name, seen.password_hash)).collect();
        let granted: BTreeMap<String, Permissions> =
            self.granted().await?.into_iter().map(|seen| (seen.user, seen.permissions)).collect();
        let mut made = 0;
        for (name, account) in &desired.accounts {
            if users.get(name).map(String::as_str) != Some(account.password.as_str()) {
                self.make_user(name, account).await?;
                made += 1;
            }
            if granted.get(name) != Some(&account.permissions) {
                self.grant(name, &account.permissions).await?;
                made += 1;
            }
        }
        Ok(made)
    }

    async fn remove_strays(&self, desired: &Desired) -> Result<usize, ManagementError> {
        let mut removed = 0;
        for user in self.users().await? {
            let ours = desired::is_our_account(&user.name) && user.name != self.control_account;
            if ours && !desired.accounts.contains_key(&user.name) {
                self.remove_account(&user.name).await?;
                removed += 1;
            }
        }
        let queues: Vec<SeenQueue> = self.list(&["queues", &self.vhost], "columns=name,arguments").await?;
        for queue in queues {
            if desired::is_our_queue(&queue.name) && !desired.queues.contains_key(&queue.name) {
                self.management.delete(&["queues", &self.vhost, &queue.name]).await?;
                removed += 1;
            }
        }
        let exchanges: Vec<SeenExchange> = self.list(&["exchanges", &self.vhost], "columns=name").await?;
        for exchange in exchanges {
            if desired::is_our_exchange(&exchange.name) && !desired.exchanges.contains(&exchange.name) {
                self.management.delete(&["exchanges", &self.vhost, &exchange.name]).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    async fn remove_account(&self, account: &str) -> Result<(), ManagementError> {
        self.management.delete(&["permissions", &self.vhost, account]).await?;
        self.management.delete(&["users", account]).await?;
        // RabbitMQ closes what a removed account has open. On LavinMQ a consumer keeps receiving until its connection is
        // closed.
        let connections: Vec<SeenConnection> =
            self.list(&["vhosts", &self.vhost, "connections"], "columns=name,user").await?;
        for connection in connections.iter().filter(|connection| connection.user == account) {
            self.management.delete(&["connections", &connection.name]).await?;
        }
        Ok(())
    }

    async fn make_exchange(&self, name: &str) -> Result<(), ManagementError> {
        let json = json!({ "type": "direct", "durable": true, "auto_delete": false, "internal": false });
        self.management.send(Method::PUT, &["exchanges", &self.vhost, name], &json).await
    }

    async fn make_queue(
        &self,
        name: &str,
        arguments: &BTreeMap<String, Value>,
    ) -> Result<(), ManagementError> {
        let path = ["queues", &self.vhost, name];
        let json = json!({ "durable": true, "auto_delete": false, "arguments": arguments });
        match self.management.send(Method::PUT, &path, &json).await {
            // It stands there with other arguments, which no broker changes in place. What is in it may be lost: the
            // newest declaration is sent again, and a node states again what was not confirmed.
            Err(ManagementError::Answer { status: 400, .. }) => {
                self.management.delete(&path).await?;
                self.management.send(Method::PUT, &path, &json).await
            }
            other => other,
        }
    }

    async fn make_binding(&self, binding: &Binding) -> Result<(), ManagementError> {
        let path = ["bindings", &self.vhost, "e", &binding.exchange, "q", &binding.queue];
        let json = json!({ "routing_key": binding.key, "arguments": {} });
        self.management.send(Method::POST, &path, &json).await
    }

    async fn make_account(&self, name: &str, account: &Account) -> Result<(), ManagementError> {
        self.make_user(name, account).await?;
        self.grant(name, &account.permissions).await
    }

    async fn make_user(&self, name: &str, account: &Account) -> Result<(), ManagementError> {
        let json = json!({
            "password_hash": account.password.as_str(),
            "hashing_algorithm": password::ALGORITHM,
            "tags": "",
        });
        self.management.send(Method::PUT, &["users", name], &json).await
    }

    async fn grant(&self, name: &str, permissions: &Permissions) -> Result<(), ManagementError> {
        let json = json!(permissions);
        self.management.send(Method::PUT, &["permissions", &self.vhost, name], &json).await
    }

    async fn users(&self) -> Result<Vec<SeenUser>, ManagementError> {
        self.list(&["users"], "columns=name,password_hash").await
    }

    async fn granted(&self) -> Result<Vec<SeenPermissions>, ManagementError> {
        self.list(&["vhosts", &self.vhost, "permissions"], "columns=user,configure,write,read").await
    }

    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        path: &[&str],
        query: &str,
    ) -> Result<Vec<T>, ManagementError> {
        Ok(self.management.get(path, query).await?.unwrap_or_default())
    }
}
