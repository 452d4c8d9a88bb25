//! What can go wrong with a command or a query, and which kind of wrong it is.

use mesh_authz::Denied;
use mesh_record::AppendError;
use mesh_store::StoreError;

use crate::domain::Refusal;

/// A command or a query was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller may not do this.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// It cannot be, as things are.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The record was not appended to.
    #[error(transparent)]
    Record(#[from] AppendError),
    /// What was to be signed or sealed could not be written down.
    #[error("cannot write down what is to be signed: {0}")]
    Encode(String),
}

/// Which kind of wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller may not do this.
    Denied,
    /// There is no such thing.
    NotFound,
    /// The name is taken.
    NameTaken,
    /// It cannot be, as things are; the text says why.
    Refused,
    /// The same call may succeed later with nothing changed.
    Unavailable,
    /// A defect.
    Internal,
}

impl Error {
    /// Which kind of wrong.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Denied(_) => ErrorKind::Denied,
            Self::Refused(Refusal::NoSuchNode { .. }) => ErrorKind::NotFound,
            Self::Refused(Refusal::NameTaken { .. }) => ErrorKind::NameTaken,
            Self::Refused(_) => ErrorKind::Refused,
            Self::Store(error) | Self::Record(AppendError::Store { source: error, .. })
                if error.is_transient() =>
            {
                ErrorKind::Unavailable
            }
            Self::Store(_) | Self::Record(_) | Self::Encode(_) => ErrorKind::Internal,
        }
    }
}
