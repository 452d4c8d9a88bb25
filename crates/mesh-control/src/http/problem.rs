//! The one place where a refusal or a failure becomes an HTTP answer (RFC 9457).

use axum::{
    Json,
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mesh_api::{Problem, ProblemCode};

use super::cursor::InvalidCursor;

/// An answer that says what went wrong.
#[derive(Debug)]
pub(super) struct Failure(pub(super) Problem);

impl Failure {
    /// With this code, these few words, and why and what to do next.
    pub(super) fn new(code: ProblemCode, title: &str, detail: impl Into<String>) -> Self {
        Self(Problem::new(status(code).as_u16(), code, title, detail))
    }

    /// The body or an argument cannot be read.
    pub(super) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(ProblemCode::Malformed, "The request cannot be read", detail)
    }

    /// There is no such thing.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(ProblemCode::NotFound, "There is no such thing", detail)
    }

    /// A defect: logged here with its cause, told to the client without it.
    pub(super) fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(error = %chain(error), "a request failed");
        Self::new(ProblemCode::Internal, "The control plane failed", "its log has the cause")
    }

    /// Something the server needs does not answer.
    pub(super) fn unavailable(error: &dyn std::error::Error) -> Self {
        tracing::warn!(error = %chain(error), "a request could not be answered now");
        Self::new(
            ProblemCode::Unavailable,
            "The control plane cannot answer now",
            "try again in a few seconds",
        )
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

const fn status(code: ProblemCode) -> StatusCode {
    match code {
        ProblemCode::Malformed => StatusCode::BAD_REQUEST,
        ProblemCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ProblemCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ProblemCode::Forbidden => StatusCode::FORBIDDEN,
        ProblemCode::NotFound => StatusCode::NOT_FOUND,
        ProblemCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        ProblemCode::NameTaken | ProblemCode::WorldMoved => StatusCode::CONFLICT,
        ProblemCode::Refused => StatusCode::UNPROCESSABLE_ENTITY,
        ProblemCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ProblemCode::Internal | ProblemCode::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (status(self.0.code), Json(&self.0)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.0.code == ProblemCode::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<JsonRejection> for Failure {
    fn from(rejection: JsonRejection) -> Self {
        if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            return Self::new(ProblemCode::TooLarge, "The request is too large", rejection.body_text());
        }
        Self::malformed(rejection.body_text())
    }
}

impl From<PathRejection> for Failure {
    fn from(rejection: PathRejection) -> Self {
        Self::malformed(rejection.body_text())
    }
}

impl From<QueryRejection> for Failure {
    fn from(rejection: QueryRejection) -> Self {
        Self::malformed(rejection.body_text())
    }
}

impl From<InvalidCursor> for Failure {
    fn from(error: InvalidCursor) -> Self {
        Self::malformed(error.to_string())
    }
}

impl From<mesh_record::ReadError> for Failure {
    fn from(error: mesh_record::ReadError) -> Self {
        match error {
            mesh_record::ReadError::BeyondEnd { .. } => {
                Self::malformed("the cursor lies beyond the record; leave `after` out to begin at the latest")
            }
            error if error.is_transient() => Self::unavailable(&error),
            error => Self::internal(&error),
        }
    }
}

impl From<mesh_authz::Denied> for Failure {
    fn from(denied: mesh_authz::Denied) -> Self {
        Self::new(ProblemCode::Forbidden, "Not allowed", denied.to_string())
    }
}

impl From<mesh_inventory::Error> for Failure {
    fn from(error: mesh_inventory::Error) -> Self {
        use mesh_inventory::ErrorKind as Kind;
        match error.kind() {
            Kind::Denied => Self::new(ProblemCode::Forbidden, "Not allowed", error.to_string()),
            Kind::NotFound => Self::not_found(error.to_string()),
            Kind::Refused => Self::new(ProblemCode::Refused, "This cannot be", error.to_string()),
            Kind::WorldMoved => Self::new(ProblemCode::WorldMoved, "The world moved", error.to_string()),
            Kind::Unavailable => Self::unavailable(&error),
            Kind::Internal => Self::internal(&error),
        }
    }
}

impl From<mesh_identity::Error> for Failure {
    fn from(error: mesh_identity::Error) -> Self {
        use mesh_identity::ErrorKind as Kind;
        match error.kind() {
            Kind::Denied => Self::new(ProblemCode::Forbidden, "Not allowed", error.to_string()),
            Kind::NotFound => Self::not_found(error.to_string()),
            Kind::NameTaken => Self::new(ProblemCode::NameTaken, "The name is taken", error.to_string()),
            Kind::Refused => Self::new(ProblemCode::Refused, "This cannot be", error.to_string()),
            Kind::Unavailable => Self::unavailable(&error),
            Kind::Internal => Self::internal(&error),
        }
    }
}
