//! `/v1/modules`: what is declared, and how far it is.

use axum::{
    Json,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::sse::Sse,
};
use mesh_api::{ModuleList, ModuleView, Problem};
use mesh_ids::ModuleName;

use super::{
    api::Api,
    auth::Caller,
    problem::Failure,
    view,
    watch::{After, Events, Watched},
};

/// All modules.
#[utoipa::path(get, path = "/v1/modules", tag = "modules", responses(
    (status = OK, body = ModuleList), (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn list(State(api): State<Api>, caller: Caller) -> Result<Json<ModuleList>, Failure> {
    let cursor = api.history().end().await?.to_string();
    let modules = api.inventory().modules(&caller.0).await?;
    Ok(Json(ModuleList { items: modules.into_iter().map(view::module).collect(), cursor }))
}

/// One module.
#[utoipa::path(get, path = "/v1/modules/{module}", tag = "modules",
    params(("module" = String, Path, description = "Its name")), responses(
    (status = OK, body = ModuleView), (status = BAD_REQUEST, body = Problem), (status = UNAUTHORIZED, body = Problem),
    (status = FORBIDDEN, body = Problem), (status = NOT_FOUND, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    module: Result<Path<ModuleName>, PathRejection>,
) -> Result<Json<ModuleView>, Failure> {
    let Path(name) = module?;
    Ok(Json(view::module(api.inventory().module(&caller.0, &name).await?)))
}

/// Modules as they change, from a cursor on: events `module` with the whole module, `module_removed` with its name.
#[utoipa::path(get, path = "/v1/modules/watch", tag = "modules", params(After), responses(
    (status = OK, content_type = "text/event-stream", body = String), (status = BAD_REQUEST, body = Problem),
    (status = UNAUTHORIZED, body = Problem), (status = FORBIDDEN, body = Problem),
    (status = SERVICE_UNAVAILABLE, body = Problem),
))]
pub(super) async fn watch(
    State(api): State<Api>,
    caller: Caller,
    after: Result<Query<After>, QueryRejection>,
) -> Result<Sse<Events>, Failure> {
    super::watch::stream(api, caller, after?.0, Watched::Modules).await
}
