//! A refusal or a failure as `application/problem+json` (RFC 9457), with a code that programs may rely on.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, as a stable word. A client that does not know one treats it by the HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The request could not be read.
    Malformed,
    /// The body is larger than the server reads.
    TooLarge,
    /// No token, or one that is not known.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The method does not exist here.
    MethodNotAllowed,
    /// The name is taken.
    NameTaken,
    /// What was asked for cannot be, as things are; `detail` says why.
    Refused,
    /// The plan no longer holds: something it was made from changed.
    WorldMoved,
    /// Something the server needs (its database, the broker) does not answer; trying again later helps.
    Unavailable,
    /// A defect of the server; its log has the cause.
    Internal,
    /// A code this client does not know.
    #[serde(other)]
    Unknown,
}

/// A problem, as the body of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the code is what programs go by.
    #[serde(rename = "type", default = "about_blank")]
    pub type_uri: String,
    /// What happened, in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What went wrong, as a stable word.
    pub code: ProblemCode,
    /// Why, and what to do next, for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

fn about_blank() -> String {
    "about:blank".to_owned()
}

impl Problem {
    /// A problem of this code.
    pub fn new(status: u16, code: ProblemCode, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { type_uri: about_blank(), title: title.into(), status, code, detail: detail.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() {
            f.write_str(&self.title)
        } else {
            write!(f, "{}: {}", self.title, self.detail)
        }
    }
}

impl std::error::Error for Problem {}
