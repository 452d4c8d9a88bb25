//! Lists as streams of server-sent events: from a cursor on, without end, each event with where to continue from.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    pin::Pin,
    time::Duration,
};

use axum::response::sse::{Event, KeepAlive, KeepAliveStream, Sse};
use futures_util::{Stream, StreamExt as _, stream};
use mesh_api::ModuleView;
use mesh_ids::{ModuleName, NodeName};
use serde::Deserialize;
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

/// Follows the record from the cursor on and sends what it means for the list.
pub(super) async fn stream(
    api: Api,
    caller: Caller,
    after: After,
    list: Watched,
) -> Result<Sse<Events>, Failure> {
    let end = api.history().end().await?;
    let after = match after.after {
        Some(text) => text.parse()?,
        None => end,
    };
    api.history().check(after, end)?;
    let mut watcher = Watcher { caller, list, modules: BTreeMap::new(), api: api.clone() };
    watcher.begin(after == end).await?;
    let happenings = api.history().follow(after);
    let messages = stream::unfold((watcher, happenings), async |(mut watcher, mut happenings)| {
        let (cursor, happening) = match happenings.next().await? {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(error = %chain(&error), "a watcher's stream ended: the record cannot be read");
                return None;
            }
        };
        match watcher.messages(cursor, &happening).await {
            Ok(messages) => Some((stream::iter(messages), (watcher, happenings))),
            Err(failure) => {
                // The client continues from its cursor; nothing is lost.
                tracing::warn!(reason = %failure.0, "a watcher's stream ended");
                None
            }
        }
    });
    let until_stop = messages.flatten().map(Ok).take_until(api.stopping());
    let messages: Messages = Box::pin(until_stop);
    Ok(Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

struct Watcher {
    api: Api,
    caller: Caller,
    list: Watched,
    /// What was last sent of each module: one that did not change is not sent again.
    modules: BTreeMap<ModuleName, ModuleView>,
}

impl Watcher {
    /// Refuses now rather than in the middle of the stream whom nothing may be shown.
    /// Where nothing happened since the cursor, what is listed now is what the client has.
    async fn begin(&mut self, nothing_since: bool) -> Result<(), Failure> {
        match self.list {
            Watched::Nodes => drop(self.api.inventory().nodes(&self.caller.0).await?),
            Watched::Modules => {
                let listed = self.listed().await?;
                if nothing_since {
                    self.modules = listed;
                }
            }
            Watched::Events => History::may_read(&self.caller.0)?,
        }
        Ok(())
    }

    async fn messages(&mut self, cursor: Cursor, happening: &Happening) -> Result<Vec<Event>, Failure> {
        let messages = match self.list {
            Watched::Events => vec![message("event", cursor, &happening.view(cursor))],
            Watched::Nodes => self.nodes(cursor, happening).await?,
            Watched::Modules => self.modules(cursor).await?,
        };
        messages.into_iter().collect::<Result<_, _>>().map_err(|error| Failure::internal(&error))
    }

    async fn nodes(
        &self,
        cursor: Cursor,
        happening: &Happening,
    ) -> Result<Vec<Result<Event, axum::Error>>, Failure> {
        let mut messages = Vec::new();
        let names: BTreeSet<NodeName> = happening.nodes().into_iter().collect();
        for name in names {
            messages.push(match self.api.node_view(&self.caller.0, &name).await {
                Ok(node) => message("node", cursor, &node),
                Err(failure) if failure.0.code == mesh_api::ProblemCode::NotFound => {
                    message("node_removed", cursor, &name)
                }
                Err(failure) => return Err(failure),
            });
        }
        Ok(messages)
    }

    async fn listed(&self) -> Result<BTreeMap<ModuleName, ModuleView>, Failure> {
        let modules = self.api.inventory().modules(&self.caller.0).await?;
        Ok(modules.into_iter().map(|module| (module.name.clone(), view::module(module))).collect())
    }

    async fn modules(&mut self, cursor: Cursor) -> Result<Vec<Result<Event, axum::Error>>, Failure> {
        let modules = self.listed().await?;
        let removed = self.modules.keys().filter(|name| !modules.contains_key(*name));
        let mut messages: Vec<_> = removed.map(|name| message("module_removed", cursor, name)).collect();
        let changed = modules.iter().filter(|(name, module)| self.modules.get(*name) != Some(*module));
        messages.extend(changed.map(|(_, module)| message("module", cursor, module)));
        self.modules = modules;
        Ok(messages)
    }
}
