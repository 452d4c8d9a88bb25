//! What nodes say, written down. Nothing here asks who may: a node states, verified by the link, and whoever listens calls.

use std::collections::BTreeMap;

use mesh_ids::{ModuleName, NodeName, Position, Timestamp};
use mesh_store::Transaction;
use mesh_wire::Report;
use serde_json::Value;

use crate::{
    Error, Inventory,
    declare::Revision,
    domain::{Change, Refusal, Weighed, hear, weigh},
    store::{
        modules,
        nodes::{self, HeardNode, StoredNode},
    },
};

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Whose.
    pub node: NodeName,
    /// When it arrived.
    pub at: Timestamp,
    /// The newest declaration the node accepted, as it says.
    pub accepted: Option<Position>,
}

/// What came of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportOutcome {
    /// It was written down.
    Recorded,
    /// It is older than what is known, or the same again.
    OlderNews,
    /// There is no such node, or inventory has yet to hear that it joined: to be said again.
    UnknownNode,
}

impl Inventory {
    /// Writes a batch of heartbeats down: two statements, whoever many they are. Only a node that was not connected makes
    /// an event.
    pub async fn record_alive(&self, heard: &[Heard]) -> Result<(), Error> {
        let mut newest: BTreeMap<&NodeName, &Heard> = BTreeMap::new();
        for heard in heard {
            let held = newest.entry(&heard.node).or_insert(heard);
            if heard.at >= held.at {
                *held = heard;
            }
        }
        if newest.is_empty() {
            return Ok(());
        }
        let names: Vec<NodeName> = newest.keys().map(|name| (*name).clone()).collect();
        let mut transaction = self.begin().await?;
        let held = nodes::lock_hearing(&mut transaction, &names).await.map_err(|error| self.failed(error))?;
        let mut changes = Vec::new();
        let mut rows = Vec::with_capacity(held.len());
        for node in held.into_iter().filter(|node| node.joined) {
            let Some(heard) = newest.get(&node.name) else { continue };
            changes.extend(hear(&node.name, node.state, node.last_heard, heard.at));
            rows.push(HeardNode { name: node.name, at: heard.at, accepted: heard.accepted });
        }
        nodes::mark_heard(&mut transaction, &rows).await.map_err(|error| self.failed(error))?;
        let now = self.now();
        self.finish(transaction, now, changes).await.map(drop)
    }

    /// Writes down what a node reported. Reports may come twice and out of order, and long after they were made: the broker
    /// keeps them while nobody listens. So a report says what the node did and never that the node is there; only a
    /// heartbeat, which the broker drops when it is old, says that.
    pub async fn record_report(&self, report: &Report) -> Result<ReportOutcome, Error> {
        let report = printable(report);
        let name = &report.node;
        let mut transaction = self.begin().await?;
        let locked = nodes::lock(&mut transaction, name).await.map_err(|error| self.failed(error))?;
        let Some(node) = locked.filter(|node| node.joined) else { return Ok(ReportOutcome::UnknownNode) };
        let StoredNode { held, accepted, .. } = node;
        let (held, changes) = match weigh(name, held, &report) {
            Weighed::OlderNews => return Ok(ReportOutcome::OlderNews),
            Weighed::News(held, changes) => (held, changes),
        };
        // A heartbeat may have told of a newer one since the report was made.
        let accepted = accepted.max(report.position);
        let saved = async {
            nodes::save_report(&mut transaction, name, &held, accepted, &report).await?;
            let leaving = modules::leaving(&mut transaction, name).await?;
            let gone: Vec<ModuleName> = leaving
                .into_iter()
                .filter(|leaving| {
                    let told = leaving.assignment.position;
                    // What could not be removed is still there, and so is its module.
                    let remains = report.failed.keys().any(|id| is_of(&leaving.module, id));
                    report.refused.is_empty() && told.is_some() && report.position >= told && !remains
                })
                .map(|leaving| leaving.module)
                .collect();
            if !gone.is_empty() {
                modules::has_left(&mut transaction, name, &gone).await?;
                modules::forget_gone(&mut transaction).await?;
            }
            Ok(())
        };
        saved.await.map_err(|error| self.failed(error))?;
        let now = self.now();
        self.finish(transaction, now, changes).await?;
        Ok(ReportOutcome::Recorded)
    }

    /// Notes that the declaration at `position` carries what [`Self::declare`] gave for this revision. Noted again, it
    /// changes nothing.
    pub async fn note_issued(
        &self,
        node: &NodeName,
        revision: Revision,
        position: Position,
    ) -> Result<(), Error> {
        let mut transaction = self.begin().await?;
        let noted = async {
            let news = nodes::set_undeclared(&mut transaction, node, "").await?;
            modules::mark_declared(&mut transaction, node, revision.0, position).await?;
            Ok(news)
        };
        let news = noted.await.map_err(|error| self.failed(error))?;
        self.tell_undeclared(transaction, node, news, String::new()).await
    }

    /// Notes why what is to be on a node cannot be declared to it, until [`Self::note_issued`]. Noted again, it changes
    /// nothing and records nothing.
    pub async fn note_undeclared(&self, node: &NodeName, reason: &str) -> Result<(), Error> {
        let mut transaction = self.begin().await?;
        let news = nodes::set_undeclared(&mut transaction, node, reason).await;
        let news = news.map_err(|error| self.failed(error))?;
        self.tell_undeclared(transaction, node, news, reason.to_owned()).await
    }

    async fn tell_undeclared(
        &self,
        transaction: Transaction,
        node: &NodeName,
        news: bool,
        reason: String,
    ) -> Result<(), Error> {
        let change = news.then(|| Change::Undeclared { node: node.clone(), reason });
        let now = self.now();
        self.finish(transaction, now, change).await.map(drop)
    }

    pub(crate) fn no_such_node(node: &NodeName) -> Error {
        Refusal::NoSuchNode { node: node.clone() }.into()
    }
}

/// Whether the resource of this id belongs to the module.
fn is_of(module: &ModuleName, id: &str) -> bool {
    id.parse().is_ok_and(|id| mesh_manifest::owner_of(&id).as_ref() == Some(module))
}

/// The report without the one character that PostgreSQL keeps in no text. What a node says is not to be trusted, not
/// even to be storable.
fn printable(report: &Report) -> Report {
    fn clean(value: &mut Value) {
        match value {
            Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{fffd}"),
            Value::Array(items) => items.iter_mut().for_each(clean),
            Value::Object(members) => {
                *members = std::mem::take(members)
                    .into_iter()
                    .map(|(name, mut value)| {
                        clean(&mut value);
                        (name.replace('\0', "\u{fffd}"), value)
                    })
                    .collect();
            }
            _ => {}
        }
    }
    let cleaned = serde_json::to_value(report).and_then(|mut value| {
        clean(&mut value);
        serde_json::from_value(value)
    });
    cleaned.unwrap_or_else(|_| Report::new(report.node.clone()))
}
