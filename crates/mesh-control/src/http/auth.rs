//! Who calls: the token of the request, resolved to a principal. What that principal may do is decided elsewhere.

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
};
use mesh_api::ProblemCode;
use mesh_authz::Principal;

use super::{api::Api, problem::Failure};

/// Whoever sent the request, authenticated.
pub(super) struct Caller(pub(super) Principal);

impl FromRequestParts<Api> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Failure> {
        let unauthenticated =
            |detail: &str| Failure::new(ProblemCode::Unauthenticated, "Who are you?", detail);
        let header = parts
            .headers
            .get(header::AUTHORIZATION)
            .ok_or_else(|| unauthenticated("send the header `Authorization: Bearer TOKEN`"))?;
        let token = header
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())
            .ok_or_else(|| unauthenticated("the header `Authorization` does not hold a bearer token"))?;
        match api.authenticate(token).await? {
            Some(principal) => Ok(Self(principal)),
            None => Err(unauthenticated("this token is not known here, or has ended")),
        }
    }
}
