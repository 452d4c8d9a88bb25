//! A context's way to its own store, and the migrations that bring its schema up to date.
//!
//! Does: open the database of one context from `MESH_STORE_<CONTEXT>` ([`Store`]), wait for it with a deadline, run
//! numbered migrations under a lock and refuse, in words, whenever nobody could know what the database holds
//! ([`Migrations`]).
//! Never: reads another context's variable or a mesh-wide one, holds SQL of a context, makes databases or roles
//! (that is the host's `database` kind), retries a statement.
//! Called by: the contexts, mesh-record, and mesh-control, which opens the stores at start.

mod alone;
mod context;
mod error;
mod migrate;
mod sql;
mod store;

pub use alone::Alone;
pub use context::{Context, Environment, ProcessEnvironment};
pub use error::{OpenError, StoreError, is_transient};
#[doc(hidden)]
pub use include_dir;
pub use migrate::{Applied, MigrateError, Migration, MigrationState, MigrationStatus, Migrations, Refusal};
pub use store::{Store, Transaction};
