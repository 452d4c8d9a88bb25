//! The records of all contexts as one: what happened, in the order in which it was recorded. Shown to who may see it:
//! like the contexts' queries it asks itself, so that no route can forget to.

use std::pin::Pin;

use axum::response::sse;
use futures_util::{Stream, StreamExt as _, stream};
use mesh_api::EventView;
use mesh_authz::{Action, Denied, Principal, authorise};
use mesh_events::{IdentityEvent, InventoryEvent};
use mesh_ids::{NodeName, Timestamp};
use mesh_record::{Entry, ReadError, Reader, RecordPosition};

use super::{cursor::Cursor, problem::Failure};

/// An entry of one of the records.
#[derive(Debug, Clone)]
pub(super) enum Happening {
    /// Of inventory's.
    Inventory(Entry<InventoryEvent>),
    /// Of identity's.
    Identity(Entry<IdentityEvent>),
}

/// Happenings, each with where to continue from after it.
pub(super) type Happenings = Pin<Box<dyn Stream<Item = Result<(Cursor, Happening), ReadError>> + Send>>;

/// Reads the records of all contexts.
#[derive(Clone)]
pub struct History {
    inventory: Reader<InventoryEvent>,
    identity: Reader<IdentityEvent>,
}

impl History {
    /// Of these records.
    pub fn new(inventory: Reader<InventoryEvent>, identity: Reader<IdentityEvent>) -> Self {
        Self { inventory, identity }
    }

    /// Where the records end.
    pub(super) async fn end(&self) -> Result<Cursor, ReadError> {
        Ok(Cursor { inventory: self.inventory.end().await?, identity: self.identity.end().await? })
    }

    /// Whether this caller may be shown what happened. Asked before a stream of it begins.
    pub(super) fn may_read(who: &Principal) -> Result<(), Denied> {
        authorise(who, Action::ReadEvents)
    }

    /// At most `limit` happenings after the cursor, the oldest first; the latest ones where there is no cursor.
    pub(super) async fn read(
        &self,
        who: &Principal,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<(Vec<(Cursor, Happening)>, Cursor), Failure> {
        Self::may_read(who)?;
        let end = self.end().await?;
        if let Some(after) = after {
            self.check(after, end)?;
        }
        let back =
            |position: RecordPosition| RecordPosition::new(position.get().saturating_sub(u64::from(limit)));
        let start = after.unwrap_or(Cursor { inventory: back(end.inventory), identity: back(end.identity) });
        let inventory = self.inventory.read(start.inventory, limit).await?;
        let identity = self.identity.read(start.identity, limit).await?;
        if let Some(stopped) = inventory.stopped.or(identity.stopped) {
            return Err(stopped.into());
        }
        let merged = merge(inventory.entries, identity.entries);
        let mut cursor = start;
        let mut numbered: Vec<_> =
            merged.into_iter().map(|happening| (happening.advance(&mut cursor), happening)).collect();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if after.is_none() {
            numbered.drain(..numbered.len().saturating_sub(limit));
        } else {
            numbered.truncate(limit);
        }
        let last = numbered.last().map_or(start, |(cursor, _)| *cursor);
        Ok((numbered, last))
    }

    /// Refuses a cursor that lies beyond a record's end: the store is older than what its holder has seen.
    pub(super) fn check(&self, after: Cursor, end: Cursor) -> Result<(), ReadError> {
        for (owner, after, end) in [
            (self.inventory.owner(), after.inventory, end.inventory),
            (self.identity.owner(), after.identity, end.identity),
        ] {
            if after > end {
                return Err(ReadError::BeyondEnd { owner, after, end });
            }
        }
        Ok(())
    }

    /// Every happening after the cursor, those to come included, without end.
    pub(super) fn follow(&self, after: Cursor) -> Happenings {
        let inventory =
            self.inventory.subscribe(after.inventory).map(|entry| entry.map(Happening::Inventory));
        let identity = self.identity.subscribe(after.identity).map(|entry| entry.map(Happening::Identity));
        let mut cursor = after;
        Box::pin(
            stream::select(inventory, identity)
                .map(move |happening| happening.map(|happening| (happening.advance(&mut cursor), happening))),
        )
    }
}

impl Happening {
    fn at(&self) -> Timestamp {
        match self {
            Self::Inventory(entry) => entry.at.into(),
            Self::Identity(entry) => entry.at.into(),
        }
    }

    fn advance(&self, cursor: &mut Cursor) -> Cursor {
        match self {
            Self::Inventory(entry) => cursor.inventory = entry.position,
            Self::Identity(entry) => cursor.identity = entry.position,
        }
        *cursor
    }

    /// The nodes whose view changes by it.
    pub(super) fn nodes(&self) -> Vec<NodeName> {
        match self {
            Self::Inventory(entry) => {
                entry.event.node().into_iter().chain(entry.event.changed()).cloned().collect()
            }
            Self::Identity(entry) => vec![entry.event.node().clone()],
        }
    }

    /// As a client sees it.
    pub(super) fn view(&self, cursor: Cursor) -> EventView {
        let (context, event, node, module, summary, detail) = match self {
            Self::Inventory(entry) => {
                let event = &entry.event;
                (
                    "inventory",
                    event.name(),
                    event.node(),
                    event.module(),
                    event.to_string(),
                    serde_json::to_value(event),
                )
            }
            Self::Identity(entry) => {
                let event = &entry.event;
                (
                    "identity",
                    event.name(),
                    Some(event.node()),
                    None,
                    event.to_string(),
                    serde_json::to_value(event),
                )
            }
        };
        EventView {
            cursor: cursor.to_string(),
            at: self.at().to_string(),
            context: context.to_owned(),
            event: event.to_owned(),
            node: node.cloned(),
            module: module.cloned(),
            summary,
            detail: detail.unwrap_or_default(),
        }
    }
}

/// Both records as one by time, each in its own order even where a clock stepped back.
fn merge(inventory: Vec<Entry<InventoryEvent>>, identity: Vec<Entry<IdentityEvent>>) -> Vec<Happening> {
    let mut merged = Vec::with_capacity(inventory.len() + identity.len());
    let (mut inventory, mut identity) = (inventory.into_iter().peekable(), identity.into_iter().peekable());
    loop {
        let first = match (inventory.peek(), identity.peek()) {
            (None, None) => return merged,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(one), Some(other)) => one.at <= other.at,
        };
        merged.extend(if first {
            inventory.next().map(Happening::Inventory)
        } else {
            identity.next().map(Happening::Identity)
        });
    }
}

/// A server-sent event of this name, with where to continue from after it.
pub(super) fn message(
    name: &str,
    cursor: Cursor,
    data: &impl serde::Serialize,
) -> Result<sse::Event, axum::Error> {
    sse::Event::default().event(name).id(cursor.to_string()).json_data(data)
}
