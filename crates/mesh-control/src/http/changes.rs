//! `/v1/plans` and `/v1/changes`: what a change would do, and doing it as planned or not at all.

use axum::{
    Json,
    extract::{State, rejection::JsonRejection},
};
use mesh_api::{Applied, ApplyRequest, Change, Plan, PlanRequest, Problem};
use mesh_inventory::PlanIndex;
use mesh_manifest::Manifest;

use super::{api::Api, auth::Caller, problem::Failure, view};

/// What a change would do, on which node, and the check index to apply it under. Changes nothing.
#[utoipa::path(post, path = "/v1/plans", tag = "changes", request_body = PlanRequest, responses(
    (status = OK, body = Plan), (status = BAD_REQUEST, body = Problem), (status = UNAUTHORIZED, body = Problem),
    (status = FORBIDDEN, body = Problem), (status = NOT_FOUND, body = Problem),
    (status = PAYLOAD_TOO_LARGE, body = Problem), (status = UNPROCESSABLE_ENTITY, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn plan(
    State(api): State<Api>,
    caller: Caller,
    request: Result<Json<PlanRequest>, JsonRejection>,
) -> Result<Json<Plan>, Failure> {
    let plan = match request?.0.what {
        Change::Apply { manifest } => api.inventory().plan_apply(&caller.0, read(manifest).await?).await?,
        Change::Remove { module } => api.inventory().plan_removal(&caller.0, &module).await?,
    };
    Ok(Json(view::plan(plan)))
}

/// Applies a change under the check index of its plan. Refused with `world_moved` where that no longer holds.
#[utoipa::path(post, path = "/v1/changes", tag = "changes", request_body = ApplyRequest, responses(
    (status = OK, body = Applied), (status = BAD_REQUEST, body = Problem), (status = UNAUTHORIZED, body = Problem),
    (status = FORBIDDEN, body = Problem), (status = NOT_FOUND, body = Problem), (status = CONFLICT, body = Problem),
    (status = PAYLOAD_TOO_LARGE, body = Problem), (status = UNPROCESSABLE_ENTITY, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn apply(
    State(api): State<Api>,
    caller: Caller,
    request: Result<Json<ApplyRequest>, JsonRejection>,
) -> Result<Json<Applied>, Failure> {
    let Json(ApplyRequest { index, what }) = request?;
    let index = PlanIndex::from_text(index);
    let cursor = api.history().end().await?;
    let applied = match what {
        Change::Apply { manifest } => api.inventory().apply(&caller.0, read(manifest).await?, &index).await?,
        Change::Remove { module } => api.inventory().remove_module(&caller.0, &module, &index).await?,
    };
    Ok(Json(view::applied(applied, cursor)))
}

/// Reads and checks a manifest where it holds nobody else up: it may be of a thousand entries.
async fn read(manifest: serde_json::Value) -> Result<Manifest, Failure> {
    tokio::task::spawn_blocking(move || Manifest::from_json(&manifest))
        .await
        .map_err(|error| Failure::internal(&error))?
        .map_err(|problem| Failure::malformed(format!("the manifest is wrong: {problem}")))
}
