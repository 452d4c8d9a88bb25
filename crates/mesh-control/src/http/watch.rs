//! Lists as streams of server-sent events: from a cursor on, without end, each event with where to continue from.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures_util::{Stream, StreamExt as _, stream};
use mesh_api::{ModuleView, ProblemCode};
use mesh_ids::{ModuleName, NodeName};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use utoipa::IntoParams;

use super::{
    api::Api,
    auth::Caller,
    cursor::Cursor,
    history::{Happening, History, message},
    problem::{Failure, chain},
    view,
};

/// How often something is sent on a stream on which nothing happens, so that both sides see that the other is there.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// From where to watch.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct After {
    /// After which cursor; from now on where it is not given.
    after: Option<String>,
}

/// Which list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Watched {
    Nodes,
    Modules,
    Events,
}

/// What a client receives.
pub(super) type Events = KeepAliveStream<Messages>;

type Messages = Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>>;

/// How many watch at once, of all lists together.
const MOST_WATCHERS: usize = 256;
/// How many lists are read for watchers at once. Everybody else reads from the same store.
const MOST_READING: usize = 4;
/// How long a watcher waits until its list is read.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many happenings that are here already are looked at as one.
const AT_ONCE: usize = 256;

/// Room for those who watch.
#[derive(Debug)]
pub(super) struct Room {
    watchers: Arc<Semaphore>,
    reading: Semaphore,
}

impl Default for Room {
    fn default() -> Self {
        Self { watchers: Arc::new(Semaphore::new(MOST_WATCHERS)), reading: Semaphore::new(MOST_READING) }
    }
}

impl Room {
    /// A place for one watcher, for as long as it is held.
    fn enter(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Arc::clone(&self.watchers).try_acquire_owned().map_err(|_| {
            let detail = format!(
                "{MOST_WATCHERS} clients watch already, and there is no room for more; end some of them, or read the list \
                 and try again later"
            );
            Failure::new(ProblemCode::Unavailable, "Too many watch", detail)
        })
    }

    /// A turn to read, until it is dropped.
    async fn read(&self) -> Result<SemaphorePermit<'_>, Failure> {
        let turn = tokio::time::timeout(PATIENCE, self.reading.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or_else(|| {
            let detail = format!(
                "so many clients catch up at once that the list could not be read within {} s; try again",
                PATIENCE.as_secs()
            );
            Failure::new(ProblemCode::Unavailable, "Too many catch up", detail)
        })
    }
}

/// Follows the record from the cursor on and sends what it means for the list.
pub(super) async fn stream(
    api: Api,
    caller: Caller,
    after: After,
    list: Watched,
) -> Result<Sse<Events>, Failure> {
    let place = api.room().enter()?;
    let end = api.history().end().await?;
    let after = match after.after {
        Some(text) => text.parse()?,
        None => end,
    };
    api.history().check(after, end)?;
    let mut watcher =
        Watcher { caller, list, modules: BTreeMap::new(), at: after, api: api.clone(), _place: place };
    let first = watcher.begin(after, end).await?;
    // What modules are now is listed above, so that what happened before the end says nothing more of them.
    let after = if matches!(list, Watched::Modules) { end } else { after };
    let happenings = api.history().follow(after).ready_chunks(AT_ONCE);
    let messages = stream::unfold((watcher, happenings), async |(mut watcher, mut happenings)| {
        let mut together = Vec::new();
        for next in happenings.next().await? {
            match next {
                Ok(next) => together.push(next),
                // It is the last item: what was before it is sent, and then the stream ends.
                Err(error) => {
                    tracing::error!(error = %chain(&error), "a watcher's stream ends: the record cannot be read");
                }
            }
        }
        match watcher.messages(&together).await {
            Ok(messages) => Some((stream::iter(messages), (watcher, happenings))),
            Err(failure) => {
                // The client continues from its cursor; nothing is lost.
                tracing::warn!(reason = %failure.0, "a watcher's stream ended");
                None
            }
        }
    });
    let until_stop = stream::iter(first).chain(messages.flatten()).map(Ok).take_until(api.stopping());
    let messages: Messages = Box::pin(until_stop);
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Watcher {
    api: Api,
    caller: Caller,
    list: Watched,
    /// What was last sent of each module: one that did not change is not sent again.
    modules: BTreeMap<ModuleName, ModuleView>,
    /// Up to where everything was sent.
    at: Cursor,
    /// Given back when the stream ends.
    _place: OwnedSemaphorePermit,
}

type Made = Vec<Result<Event, axum::Error>>;

fn made(messages: Made) -> Result<Vec<Event>, Failure> {
    messages.into_iter().collect::<Result<_, _>>().map_err(|error| Failure::internal(&error))
}

impl Watcher {
    /// Refuses now rather than in the middle of the stream whom nothing may be shown. Gives what is to be sent first: of
    /// modules what they are now, unless nothing happened since the cursor, when that is what the client has.
    async fn begin(&mut self, after: Cursor, end: Cursor) -> Result<Vec<Event>, Failure> {
        match self.list {
            Watched::Nodes => {
                let _turn = self.api.room().read().await?;
                drop(self.api.inventory().nodes(&self.caller.0).await?);
            }
            Watched::Modules if after == end => self.modules = self.listed().await?,
            Watched::Modules => {
                let listed = made(self.modules(end).await?);
                self.at = end;
                return listed;
            }
            Watched::Events => History::may_read(&self.caller.0)?,
        }
        Ok(Vec::new())
    }

    /// What all of these together mean for the list.
    async fn messages(&mut self, happenings: &[(Cursor, Happening)]) -> Result<Vec<Event>, Failure> {
        let Some((last, _)) = happenings.last() else { return Ok(Vec::new()) };
        let messages = made(match self.list {
            Watched::Events => {
                let event = |(cursor, happening): &(Cursor, Happening)| {
                    message("event", *cursor, &happening.view(*cursor))
                };
                happenings.iter().map(event).collect()
            }
            Watched::Nodes => self.nodes(*last, happenings).await?,
            Watched::Modules => self.modules(*last).await?,
        });
        self.at = *last;
        messages
    }

    /// Where a client continues that was sent `place` and what was before it, of so many messages that lead to `last`. Who
    /// is cut off between two of them is sent them all again.
    fn cursor_of(&self, place: usize, of: usize, last: Cursor) -> Cursor {
        if place + 1 == of { last } else { self.at }
    }

    async fn nodes(&self, last: Cursor, happenings: &[(Cursor, Happening)]) -> Result<Made, Failure> {
        let names: BTreeSet<NodeName> =
            happenings.iter().flat_map(|(_, happening)| happening.nodes()).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let _turn = self.api.room().read().await?;
        let mut messages = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let cursor = self.cursor_of(place, names.len(), last);
            messages.push(match self.api.node_view(&self.caller.0, name).await {
                Ok(node) => message("node", cursor, &node),
                Err(failure) if failure.0.code == ProblemCode::NotFound => {
                    message("node_removed", cursor, name)
                }
                Err(failure) => return Err(failure),
            });
        }
        Ok(messages)
    }

    async fn listed(&self) -> Result<BTreeMap<ModuleName, ModuleView>, Failure> {
        let _turn = self.api.room().read().await?;
        let modules = self.api.inventory().modules(&self.caller.0).await?;
        Ok(modules.into_iter().map(|module| (module.name.clone(), view::module(module))).collect())
    }

    async fn modules(&mut self, cursor: Cursor) -> Result<Made, Failure> {
        let modules = self.listed().await?;
        let removed: Vec<_> = self.modules.keys().filter(|name| !modules.contains_key(*name)).collect();
        let changed: Vec<_> =
            modules.iter().filter(|(name, module)| self.modules.get(*name) != Some(*module)).collect();
        let of = removed.len() + changed.len();
        let at = |place| self.cursor_of(place, of, cursor);
        let mut messages: Made =
            (0..).zip(&removed).map(|(place, name)| message("module_removed", at(place), name)).collect();
        let changed = (removed.len()..).zip(&changed);
        messages.extend(changed.map(|(place, (_, module))| message("module", at(place), module)));
        self.modules = modules;
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn watchers_and_those_of_them_who_read_are_bounded_and_refused_in_words() {
        let room = Room::default();
        let mut places: Vec<_> = (0..MOST_WATCHERS).map_while(|_| room.enter().ok()).collect();
        assert_eq!(places.len(), MOST_WATCHERS);
        let refused = room.enter().err().map(|failure| failure.0.detail).unwrap_or_default();
        assert!(refused.contains("256 clients watch already"), "{refused}");
        places.pop();
        assert!(room.enter().is_ok(), "who ends makes room");

        let mut turns = Vec::new();
        for _ in 0..MOST_READING {
            turns.push(room.read().await.ok());
        }
        let refused = room.read().await.err().map(|failure| failure.0.detail).unwrap_or_default();
        assert!(refused.contains("could not be read within 10 s"), "{refused}");
        turns.pop();
        assert!(room.read().await.is_ok());
    }
}
