//! Why a request came to nothing, each with what to do next.

use std::path::PathBuf;

use mesh_api::Problem;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The control plane refused, or failed, and said so.
    #[error("{0}")]
    Refused(#[source] Box<Problem>),
    /// No answer came.
    #[error("reach the control plane at {api}: {reason}")]
    Unreachable {
        /// Where it should be.
        api: String,
        /// What happened.
        reason: String,
    },
    /// An answer came that is not of this interface.
    #[error("read the answer of {api}: {reason}; is `mesh` older or newer than the control plane?")]
    Foreign {
        /// Who answered.
        api: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// There is no context to go by.
    #[error(
        "no context says which mesh to speak to: copy the context that `mesh-host bootstrap` wrote to {0}, \
         or name one with --context"
    )]
    NoContext(PathBuf),
    /// A context cannot be used.
    #[error("use the context {path}: {reason}")]
    Context {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}
