//! Migrations: what the program carries ([`list`]), and bringing a database up to it ([`run`]).
//!
//! Never warns and goes on: at the moment any refusal is true nobody knows what the database holds, and there is no
//! right guess about a schema.
//! Called by: the contexts, each embedding its own folder, and `mesh-control migrate` and `serve` through them.

mod list;
mod run;

use std::time::Duration;

pub use list::{Migration, Migrations};
pub use run::{Applied, MigrationState, MigrationStatus};

use crate::StoreError;

/// The reasons to stop before anything was changed. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A file in the folder would never run, and nothing would say so.
    #[error(
        "refusing the migrations: \"{file}\" is not the name of one; rename it to NNNN_words.sql (four digits from \
         0001, then lower-case letters, digits and underscores) or move it out of the folder"
    )]
    Misnamed {
        /// The file or folder.
        file: String,
    },
    /// Order is the whole guarantee, and two files with one number have none.
    #[error(
        "refusing the migrations: {first} and {second} share the number {number:04}; give the one that ran nowhere \
         the next free number"
    )]
    SameNumber {
        /// The number.
        number: u32,
        /// One file.
        first: String,
        /// The other.
        second: String,
    },
    /// It would record that something happened and change nothing.
    #[error(
        "refusing the migrations: {file} holds no statement, which cannot be told from a mistake; write it or delete \
         the file"
    )]
    Empty {
        /// The file.
        file: String,
    },
    /// It is not text.
    #[error("refusing the migrations: {file} is not UTF-8 text; save it as UTF-8")]
    NotText {
        /// The file.
        file: String,
    },
    /// It would end the transaction that holds it together with its row, or cannot run in one.
    #[error(
        "refusing the migrations: {file} uses {found}; every migration runs in one transaction with the row that \
         records it, so take {found} out (the body of a function goes in dollar quotes)"
    )]
    OwnTransaction {
        /// The file.
        file: String,
        /// The word found.
        found: String,
    },
    /// The database holds the old text, the program the new one, and nothing holds the difference.
    #[error(
        "refusing to migrate: {file} was changed after it ran here (as {recorded}); put the file back as it was and \
         write the change as a new migration"
    )]
    Edited {
        /// The file as the program carries it.
        file: String,
        /// The file's name as the database recorded it.
        recorded: String,
    },
    /// Running it now would build the schema in an order nobody tested.
    #[error(
        "refusing to migrate: {file} has not run here but {newest:04}, which is later, has (usually two branches took \
         the same next number); give it a number above {newest:04}"
    )]
    BelowNewest {
        /// The file.
        file: String,
        /// The highest number that ran.
        newest: u32,
    },
    /// The database is newer than the program.
    #[error(
        "refusing to migrate: {recorded} ran here and this program does not know it, so the database is newer than \
         the program; run the version that brought it, or restore the backup made before it"
    )]
    Unknown {
        /// The file's name as the database recorded it.
        recorded: String,
    },
}

/// Migrating did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// Nothing was changed, for a reason a person must see to.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Somebody else migrates this database and did not finish in time.
    #[error(
        "cannot migrate the store of {store}: waited {waited:?} for another migration of it to end; look in \
         pg_stat_activity what it is doing, and run this again"
    )]
    Locked {
        /// `context at host:port`.
        store: String,
        /// For how long.
        waited: Duration,
    },
    /// One migration failed and was rolled back; those before it stand.
    #[error(
        "cannot run migration {file} on the store of {store}; it was rolled back and those before it stand"
    )]
    Failed {
        /// `context at host:port`.
        store: String,
        /// The file.
        file: String,
        /// What PostgreSQL said.
        source: sqlx::Error,
    },
    /// The database lacks migrations that this program needs.
    #[error("refusing to serve: the store of {store} lacks {missing}; run `mesh-control migrate` first")]
    Behind {
        /// `context at host:port`.
        store: String,
        /// The first file that has not run, and how many follow.
        missing: String,
    },
    /// The store itself did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
