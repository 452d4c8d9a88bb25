//! What can go wrong between a context and its store, and which of it passes by itself.
//!
//! Never prints a password: what is printed of an address is host, port and database.
//! Called by: everything here, and mesh-record for [`is_transient`].

use std::path::PathBuf;
use std::time::Duration;

use crate::Context;

/// The variables of a context do not describe its store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The context's variable is not set.
    #[error(
        "cannot find the store of {context}: {variable} is not set; set it to postgres://{context}@HOST:PORT/{context}"
    )]
    Missing {
        /// Whose store.
        context: Context,
        /// The variable to set.
        variable: String,
    },
    /// The variable does not hold the address of a PostgreSQL database.
    #[error("cannot read {variable}: {reason}; it must look like postgres://{context}@HOST:PORT/{context}")]
    Address {
        /// Whose store.
        context: Context,
        /// The variable to correct.
        variable: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The address is that of another database than the context's own.
    #[error(
        "refusing {variable}: it names the database \"{found}\", and the store of {context} is the database \
         \"{context}\" and no other; a context reaches only what it owns"
    )]
    WrongDatabase {
        /// Whose store.
        context: Context,
        /// The variable to correct.
        variable: String,
        /// The database it names.
        found: String,
    },
    /// A password stands in the variable, where whoever lists processes or containers sees it.
    #[error(
        "refusing {variable}: it holds a password, which everybody sees who can list this process; put the password \
         alone into a file and set {variable}_PASSWORD_FILE to its path"
    )]
    PasswordInAddress {
        /// The variable to correct.
        variable: String,
    },
    /// The password file cannot be read.
    #[error("cannot read the password of the store of {context} from {}, which {variable} names", path.display())]
    PasswordFile {
        /// Whose store.
        context: Context,
        /// The variable that names the file.
        variable: String,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The password file holds nothing.
    #[error("cannot use the password of the store of {context}: {}, which {variable} names, is empty", path.display())]
    PasswordEmpty {
        /// Whose store.
        context: Context,
        /// The variable that names the file.
        variable: String,
        /// The file.
        path: PathBuf,
    },
}

/// The store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store did not answer before the deadline; waiting longer may help.
    #[error("cannot reach the store of {store}: waited {waited:?} for PostgreSQL to answer")]
    Unreachable {
        /// `context at host:port`.
        store: String,
        /// For how long.
        waited: Duration,
        /// What the last try said.
        source: sqlx::Error,
    },
    /// The store answered and will not have us: a wrong password, no such database or role. Waiting does not help.
    #[error(
        "cannot enter the store of {store}: PostgreSQL refuses the role or the database; check the address, the \
         password file, and that the database and its role were made"
    )]
    Refused {
        /// `context at host:port`.
        store: String,
        /// What PostgreSQL said.
        source: sqlx::Error,
    },
    /// A statement failed.
    #[error("cannot use the store of {store}")]
    Failed {
        /// `context at host:port`.
        store: String,
        /// What PostgreSQL or the connection said.
        source: sqlx::Error,
    },
}

impl StoreError {
    /// Whether the same call may succeed later with nothing changed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Refused { .. } => false,
            Self::Failed { source, .. } => is_transient(source),
        }
    }
}

/// Whether an error passes by itself (the server is down, starting, full, or a deadlock chose us), as against one
/// that the same statement will meet again (a constraint, a missing table, a value that does not fit).
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::BeginFailed
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(refusal) => refusal.code().is_some_and(|code| {
            // Classes of SQLSTATE: 08 connection, 40 rollback (deadlock, serialization), 53 resources, 55 object in
            // use (lock not available), 57 operator intervention (shutdown, starting up, cancelled), 58 system
            // error; 25P03 and 25P04 are our own time limits on an idle transaction.
            ["08", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class))
                || matches!(&*code, "25P03" | "25P04")
        }),
        _ => false,
    }
}

/// Whether the server answered and refused the login itself.
pub(crate) fn is_login_refused(error: &sqlx::Error) -> bool {
    // 28: wrong password or no such role; 3D000: no such database; 42501: no right to connect to it.
    matches!(error, sqlx::Error::Database(refusal)
        if refusal.code().is_some_and(|code| code.starts_with("28") || code == "3D000" || code == "42501"))
}
