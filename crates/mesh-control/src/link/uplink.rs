//! Takes what nodes say, in batches, to those who write it; what is written is acknowledged.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use mesh_ids::NodeName;
use mesh_link::names::{ALIVE_QUEUE, ENROL_QUEUE, REPORT_QUEUE, reply_queue};
use mesh_link::{Connection, Consumer, Delivery, LinkError, Message, Published, Publisher};
use mesh_seal::VerifyingKey;
use mesh_wire::{Alive, Enrol, EnrolRequest, Report};

use super::accounts::Accounts;
use super::behind::Judgement;
use super::complaints::Counts;
use super::fold::fold;
use super::listening::Listening;
use super::outbox::Outbox;
use super::statement::{self, NotStated, Statement};
use super::{Directory, StatementSink, Unavailable};

/// Heartbeats written at once: one statement to the store for all of them.
const ALIVE_BATCH: usize = 512;
/// Reports that are folded together and written one a node.
const REPORT_BATCH: usize = 64;
const REQUEST_BATCH: usize = 8;
/// How long until an owner that could not write is asked again.
const AGAIN: Duration = Duration::from_secs(1);
/// The accounts of join tokens begin so.
const TOKEN_ACCOUNT: &str = "j-";

/// The way up.
pub(super) struct Uplink<D, S> {
    pub(super) directory: Arc<D>,
    pub(super) sink: S,
    pub(super) accounts: Arc<Accounts<D>>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) counts: Arc<Counts>,
    pub(super) listening: Arc<Listening>,
}

/// The keys of those who spoke since the connection was opened.
type Keys = BTreeMap<NodeName, VerifyingKey>;

impl<D: Directory, S: StatementSink> Uplink<D, S> {
    /// Takes heartbeats until the connection fails. One that cannot be written is dropped: the next one follows.
    pub(super) async fn take_alive(&self, connection: &Connection) -> Result<Infallible, LinkError> {
        let mut queue = consume(connection, ALIVE_QUEUE, ALIVE_BATCH).await?;
        let _listener = self.listening.begin();
        let mut keys = Keys::new();
        loop {
            let batch = next_batch(&mut queue, ALIVE_BATCH).await?;
            let mut heard: BTreeMap<NodeName, Alive> = BTreeMap::new();
            for delivery in &batch {
                if let Some(alive) = self.heard::<Alive>(delivery, &mut keys).await {
                    heard.insert(alive.node.clone(), alive);
                }
            }
            self.counts.take(heard.len());
            for alive in heard.values() {
                self.catch_up(alive).await;
            }
            if !heard.is_empty()
                && let Err(error) = self.sink.alive(heard.into_values().collect()).await
            {
                self.complain("heartbeats", &error);
            }
            acknowledge(&queue, &batch).await?;
        }
    }

    /// Takes reports until the connection fails. They are acknowledged only once what they say is written.
    pub(super) async fn take_reports(&self, connection: &Connection) -> Result<Infallible, LinkError> {
        let mut queue = consume(connection, REPORT_QUEUE, REPORT_BATCH).await?;
        let mut keys = Keys::new();
        loop {
            let batch = next_batch(&mut queue, REPORT_BATCH).await?;
            let mut reports = Vec::new();
            for delivery in &batch {
                reports.extend(self.heard::<Report>(delivery, &mut keys).await);
            }
            for report in fold(reports) {
                while let Err(error) = self.sink.report(report.clone()).await {
                    self.complain("a report", &error);
                    tokio::time::sleep(AGAIN).await;
                    // One of a node that was removed meanwhile can never be written, and must not hold up the others'.
                    if matches!(self.directory.key(&report.node).await, Ok(None)) {
                        keys.remove(&report.node);
                        break;
                    }
                }
                self.counts.take(1);
            }
            acknowledge(&queue, &batch).await?;
        }
    }

    /// Takes requests to join until the connection fails.
    pub(super) async fn take_requests(&self, connection: &Connection) -> Result<Infallible, LinkError> {
        let mut queue = consume(connection, ENROL_QUEUE, REQUEST_BATCH).await?;
        let publisher = connection.publisher().await?;
        loop {
            let delivery = queue.next().await?;
            match requested(&delivery) {
                Ok((token_id, enrol)) => self.enrol(&publisher, &token_id, enrol).await?,
                Err(why) => self.counts.drop_message(delivery.account.as_deref().unwrap_or("nobody"), &why),
            }
            queue.acknowledge(&delivery).await?;
        }
    }

    async fn enrol(&self, publisher: &Publisher, token_id: &str, enrol: Enrol) -> Result<(), LinkError> {
        let lost = |error: &dyn std::fmt::Display| LinkError::Lost(error.to_string());
        let enrolled = loop {
            match self.sink.enrol(token_id, enrol.clone()).await {
                Ok(enrolled) => break enrolled,
                Err(error) => {
                    self.complain("a request to join", &error);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        };
        let Some(enrolled) = enrolled else { return Ok(()) };
        if let Some(account) = &enrolled.node {
            // Before the machine is told, so that it is let in at once.
            self.accounts.ensure_node(&account.node).await.map_err(|error| lost(&error))?;
        }
        let body = serde_json::to_vec(&enrolled.answer).map_err(|error| lost(&error))?;
        let queue = reply_queue(token_id);
        let message = Message { exchange: "", key: &queue, body: &body, signature: None, persistent: true };
        match publisher.publish(message).await? {
            Published::Routed => {}
            // It asks again, and gets the same answer.
            other => tracing::warn!(token_id, ?other, "an answer to a request to join found no queue"),
        }
        Ok(())
    }

    /// The statement in a message; counted and dropped where it is none.
    async fn heard<T: Statement>(&self, delivery: &Delivery, keys: &mut Keys) -> Option<T> {
        let why = match statement::speaker(delivery) {
            Ok(node) => match self.said(delivery, &node, keys).await {
                Ok(statement) => return Some(statement),
                Err(why) => why,
            },
            Err(why) => why,
        };
        self.counts.drop_message(delivery.account.as_deref().unwrap_or("nobody"), &why);
        None
    }

    async fn said<T: Statement>(
        &self,
        delivery: &Delivery,
        node: &NodeName,
        keys: &mut Keys,
    ) -> Result<T, NotStated> {
        if let Some(key) = keys.get(node) {
            match statement::read(delivery, node, key) {
                // A node that was removed and joined again has another key. Looked up, but not for every message of a
                // node that floods.
                Err(NotStated::WrongSignature) if self.counts.may_say(&format!("the key of {node}")) => {}
                other => return other,
            }
        }
        let key = loop {
            match self.directory.key(node).await {
                Ok(key) => break key,
                Err(error) => {
                    self.complain("the key of a node", &error);
                    tokio::time::sleep(AGAIN).await;
                }
            }
        };
        let Some(key) = key else {
            keys.remove(node);
            return Err(NotStated::UnknownNode);
        };
        keys.insert(node.clone(), key);
        statement::read(delivery, node, &key)
    }

    /// Offers the newest declaration again to a node that is behind it.
    async fn catch_up(&self, alive: &Alive) {
        if self.outbox.behind().judge(&alive.node, alive.accepted) == Judgement::Fine {
            return;
        }
        let offered = self.outbox.behind().last_offered(&alive.node);
        match self.directory.newest(&alive.node).await {
            Ok(newest) => {
                let position = newest.as_ref().map(|newest| newest.position);
                if let Some(newest) = newest.filter(|newest| alive.accepted < Some(newest.position)) {
                    tracing::info!(node = %alive.node, position = %newest.position, "a node is behind and is sent its newest declaration again");
                    self.outbox.offer_again(&alive.node, newest.frame, offered);
                } else {
                    self.outbox.behind().learned(&alive.node, position, offered);
                }
            }
            Err(error) => self.complain("the newest declaration of a node", &error),
        }
    }

    fn complain(&self, what: &str, error: &Unavailable) {
        if self.counts.may_say(what) {
            tracing::warn!(%error, "{what} cannot be handled now; it is tried again");
        }
    }
}

/// Who asks to join, with which token. The account says which token; the request inside must say the same.
fn requested(delivery: &Delivery) -> Result<(String, Enrol), String> {
    let account = delivery.account.as_deref().ok_or("it names no account")?;
    let token_id = account.strip_prefix(TOKEN_ACCOUNT).ok_or("its account is not a join token's")?;
    let enrol: Enrol = serde_json::from_slice(&delivery.body).map_err(|error| error.to_string())?;
    let request: EnrolRequest = serde_json::from_slice(&enrol.request).map_err(|error| error.to_string())?;
    if request.token == token_id {
        Ok((token_id.to_owned(), enrol))
    } else {
        Err("it names another token than its account's".to_owned())
    }
}

async fn consume(connection: &Connection, queue: &str, batch: usize) -> Result<Consumer, LinkError> {
    // Twice a batch, so that the next one arrives while this one is written.
    connection.consume(queue, u16::try_from(batch * 2).unwrap_or(u16::MAX)).await
}

/// Waits for a message and takes those with it that are here already.
async fn next_batch(queue: &mut Consumer, most: usize) -> Result<Vec<Delivery>, LinkError> {
    let mut batch = vec![queue.next().await?];
    while batch.len() < most {
        match queue.ready()? {
            Some(delivery) => batch.push(delivery),
            None => break,
        }
    }
    Ok(batch)
}

async fn acknowledge(queue: &Consumer, batch: &[Delivery]) -> Result<(), LinkError> {
    match batch.last() {
        Some(last) => queue.acknowledge_through(last).await,
        None => Ok(()),
    }
}
