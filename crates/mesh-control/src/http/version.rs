//! `/v1/version`: what answers. The one thing that is told to anybody, so that a client can say what it met.

use axum::{Json, extract::State};
use mesh_api::Version;

use super::api::Api;

/// What answers, and for which mesh.
#[utoipa::path(get, path = "/v1/version", tag = "version", security(()), responses((status = OK, body = Version)))]
pub(super) async fn show(State(api): State<Api>) -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").to_owned(), mesh: api.mesh().clone() })
}
