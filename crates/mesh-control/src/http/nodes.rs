//! `/v1/nodes`: who is there. Also the invitation, the removal and the recovery of machines.

use std::time::Duration;

use axum::{
    Json,
    extract::{
        Path, Query, State,
        rejection::{JsonRejection, PathRejection, QueryRejection},
    },
    http::StatusCode,
    response::sse::Sse,
};
use mesh_api::{Invitation, InviteRequest, NodeList, NodeView, Problem, Recovery};
use mesh_ids::NodeName;

use super::{
    api::Api,
    auth::Caller,
    problem::Failure,
    view,
    watch::{After, Events, Watched},
};

/// The shortest and the longest time a token can be used, in seconds.
const TTL_S: std::ops::RangeInclusive<u64> = 60..=604_800;

/// All nodes.
#[utoipa::path(get, path = "/v1/nodes", tag = "nodes", responses(
    (status = OK, body = NodeList), (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn list(State(api): State<Api>, caller: Caller) -> Result<Json<NodeList>, Failure> {
    // The cursor first: what happens in between is told again rather than not at all.
    let cursor = api.history().end().await?.to_string();
    let nodes = api.inventory().nodes(&caller.0).await?;
    let mut newest = api.identity().newest_positions().await?;
    let view = |node: mesh_inventory::NodeView| {
        let declared = newest.remove(&node.name);
        view::node(node, declared)
    };
    Ok(Json(NodeList { items: nodes.into_iter().map(view).collect(), cursor }))
}

/// One node.
#[utoipa::path(get, path = "/v1/nodes/{node}", tag = "nodes", params(("node" = String, Path, description = "Its name")),
    responses((status = OK, body = NodeView), (status = BAD_REQUEST, body = Problem),
    (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = NOT_FOUND, body = Problem), (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    node: Result<Path<NodeName>, PathRejection>,
) -> Result<Json<NodeView>, Failure> {
    let Path(name) = node?;
    Ok(Json(api.node_view(&caller.0, &name).await?))
}

/// Nodes as they change, from a cursor on: events `node` with the whole node, `node_removed` with its name.
#[utoipa::path(get, path = "/v1/nodes/watch", tag = "nodes", params(After), responses(
    (status = OK, content_type = "text/event-stream", body = String), (status = BAD_REQUEST, body = Problem),
    (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn watch(
    State(api): State<Api>,
    caller: Caller,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Sse<Events>, Failure> {
    super::watch::stream(api, caller, after?.0, Watched::Nodes).await
}

/// A token with which one machine can join.
#[utoipa::path(post, path = "/v1/nodes/invitations", tag = "nodes", request_body = InviteRequest, responses(
    (status = CREATED, body = Invitation), (status = BAD_REQUEST, body = Problem),
    (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem), (status = CONFLICT, body = Problem),
    (status = PAYLOAD_TOO_LARGE, body = Problem), (status = UNPROCESSABLE_ENTITY, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn invite(
    State(api): State<Api>,
    caller: Caller,
    request: Result<Json<InviteRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<Invitation>), Failure> {
    let Json(request) = request?;
    if !TTL_S.contains(&request.ttl_s) {
        return Err(Failure::malformed(format!(
            "ttl_s is {}; a token can be used for {} to {} seconds",
            request.ttl_s,
            TTL_S.start(),
            TTL_S.end()
        )));
    }
    let ttl = Duration::from_secs(request.ttl_s);
    let invitation = api.invite(&caller.0, &request.node, ttl, request.labels).await?;
    Ok((StatusCode::CREATED, Json(invitation)))
}

/// Takes a node out of the mesh. The machine need not be there any more.
#[utoipa::path(delete, path = "/v1/nodes/{node}", tag = "nodes",
    params(("node" = String, Path, description = "Its name")), responses(
    (status = NO_CONTENT), (status = BAD_REQUEST, body = Problem), (status = UNAUTHORIZED, body = Problem),
    (status = FORBIDDEN, body = Problem), (status = NOT_FOUND, body = Problem),
    (status = UNPROCESSABLE_ENTITY, body = Problem), (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn remove(
    State(api): State<Api>,
    caller: Caller,
    node: Result<Path<NodeName>, PathRejection>,
) -> Result<StatusCode, Failure> {
    let Path(name) = node?;
    api.remove_node(&caller.0, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins a node's history anew: everything it is told from now on stands above what it was told before, so that a node
/// whose ledger cannot be read can follow again. Its newest declaration is issued again under the new generation.
#[utoipa::path(post, path = "/v1/nodes/{node}/generations", tag = "nodes",
    params(("node" = String, Path, description = "Its name")), responses(
    (status = CREATED, body = Recovery), (status = BAD_REQUEST, body = Problem),
    (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = NOT_FOUND, body = Problem), (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn recover(
    State(api): State<Api>,
    caller: Caller,
    node: Result<Path<NodeName>, PathRejection>,
) -> Result<(StatusCode, Json<Recovery>), Failure> {
    let Path(node) = node?;
    let generation = api.identity().raise_generation(&caller.0, &node).await?.get();
    Ok((StatusCode::CREATED, Json(Recovery { node, generation })))
}
