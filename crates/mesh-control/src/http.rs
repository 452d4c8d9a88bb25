//! The interface: one resource a file, problems in one place, every list watchable.
//!
//! Authenticates and reads; the contexts' command handlers decide and authorise. Called by `serve`.

mod api;
mod auth;
mod changes;
mod cursor;
mod events;
mod history;
mod listener;
mod modules;
mod nodes;
mod problem;
mod version;
mod view;
mod watch;

pub use api::Api;
use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{Method, Uri},
};
pub use history::History;
pub use listener::{Bounds, ListenError, TlsListener};
use mesh_api::ProblemCode;
use problem::Failure;
pub(crate) use problem::chain;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// The largest body that is read: a manifest with the content of its files.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Novox Mesh",
        description = "The one interface of the control plane. Every list can be watched as server-sent events from a cursor; every \
            change is planned first and applied as planned or not at all.",
    ),
    modifiers(&BearerToken),
    security(("token" = [])),
    tags(
        (name = "nodes", description = "The machines of the mesh"),
        (name = "modules", description = "What is declared, and how far it is"),
        (name = "changes", description = "Planning a change and applying it"),
        (name = "events", description = "What happened"),
        (name = "version", description = "What answers"),
    ),
)]
struct Document;

struct BearerToken;

impl Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A token of this mesh"))
            .build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(version::show))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::watch))
        .routes(routes!(nodes::invite))
        .routes(routes!(nodes::show, nodes::remove))
        .routes(routes!(nodes::recover))
        .routes(routes!(modules::list))
        .routes(routes!(modules::watch))
        .routes(routes!(modules::show))
        .routes(routes!(changes::plan))
        .routes(routes!(changes::apply))
        .routes(routes!(events::list))
        .routes(routes!(events::watch))
}

/// The OpenAPI 3.1 document of the interface.
pub fn openapi() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// The interface, ready to be served.
pub fn router(api: Api) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback(async |uri: Uri| Failure::not_found(format!("this interface has no {}", uri.path())))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            let detail = format!("{} does not take {method}", uri.path());
            Failure::new(ProblemCode::MethodNotAllowed, "The method does not exist here", detail)
        })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(api)
}
