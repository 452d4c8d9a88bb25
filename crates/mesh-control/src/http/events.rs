//! `/v1/events`: what happened.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::sse::Sse,
};
use mesh_api::{EventList, Problem};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    api::Api,
    auth::Caller,
    problem::Failure,
    watch::{After, Events, Watched},
};

/// The most events in one answer.
const MOST: u32 = 1000;

/// Which run of events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Run {
    /// After which cursor; the latest events where it is not given.
    after: Option<String>,
    /// At most how many: 1 to 1,000; 100 where not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// A run of events, oldest first.
#[utoipa::path(get, path = "/v1/events", tag = "events", params(Run), responses(
    (status = OK, body = EventList), (status = BAD_REQUEST, body = Problem), (status = UNAUTHORIZED, body = Problem),
    (status = FORBIDDEN, body = Problem), (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    run: Result<Query<Run>, QueryRejection>,
) -> Result<Json<EventList>, Failure> {
    let Query(run) = run?;
    let limit = run.limit.unwrap_or(100);
    if !(1..=MOST).contains(&limit) {
        return Err(Failure::malformed(format!("limit is {limit}; it is 1 to {MOST}")));
    }
    let after = run.after.map(|text| text.parse()).transpose()?;
    let (happenings, cursor) = api.history().read(&caller.0, after, limit).await?;
    let items = happenings.into_iter().map(|(cursor, happening)| happening.view(cursor)).collect();
    Ok(Json(EventList { items, cursor: cursor.to_string() }))
}

/// Events as they happen, from a cursor on: events `event`.
#[utoipa::path(get, path = "/v1/events/watch", tag = "events", params(After), responses(
    (status = OK, content_type = "text/event-stream", body = String), (status = BAD_REQUEST, body = Problem),
    (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn watch(
    State(api): State<Api>,
    caller: Caller,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Sse<Events>, Failure> {
    super::watch::stream(api, caller, after?.0, Watched::Events).await
}
