#![doc = include_str!("../README.md")]

mod commands;
mod domain;
mod error;
mod publish;
mod queries;
mod store;

use std::sync::Arc;

pub use commands::{Issued, Newest, Redemption};
pub use domain::{RESERVED_NAMES, Refusal, Stage};
pub use error::{Error, ErrorKind};
use mesh_ids::{Clock, Fingerprint, MeshId, Timestamp};
use mesh_seal::SigningKey;
use mesh_store::{Context, Migrations, Store, Transaction};
pub use publish::UPCASTS;
pub use queries::{NodeAccount, OpenToken};
use sqlx::{Postgres, pool::PoolConnection};

/// The context: its name, its store's and its role's.
pub const CONTEXT: Context = Context::new("identity");

/// The migrations of identity's store.
pub fn migrations() -> Result<Migrations, mesh_store::Refusal> {
    mesh_store::migrations!()
}

/// In whose name identity speaks, and what it tells machines that join.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// The mesh.
    pub mesh: MeshId,
    /// The key that signs declarations and answers. Never stored.
    pub declare_key: SigningKey,
    /// Where the broker listens, as `host:port`, the likeliest first.
    pub brokers: Vec<String>,
    /// The name in the broker's certificate.
    pub server_name: String,
    /// The SHA-256 of the SubjectPublicKeyInfo of the CA that signed it.
    pub ca_pin: Fingerprint,
}

/// Identity. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    store: Store,
    publisher: publish::Publisher,
    clock: Clock,
    issuer: Issuer,
}

impl Identity {
    /// Identity on its store, which is migrated.
    pub fn open(store: Store, clock: Clock, issuer: Issuer) -> Self {
        let publisher = publish::Publisher::new(&store);
        Self(Arc::new(Inner { store, publisher, clock, issuer }))
    }

    fn now(&self) -> Timestamp {
        (self.0.clock)()
    }

    fn issuer(&self) -> &Issuer {
        &self.0.issuer
    }

    fn publisher(&self) -> &publish::Publisher {
        &self.0.publisher
    }

    fn failed(&self, error: sqlx::Error) -> Error {
        mesh_store::StoreError::from_sqlx(&self.0.store, error).into()
    }

    async fn begin(&self) -> Result<Transaction, Error> {
        Ok(self.0.store.begin().await?)
    }

    async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        self.0.store.pool().acquire().await.map_err(|error| self.failed(error))
    }

    /// Appends the changes and commits.
    async fn finish(
        &self,
        mut transaction: Transaction,
        now: Timestamp,
        changes: impl IntoIterator<Item = domain::Change>,
    ) -> Result<(), Error> {
        match self.0.publisher.append(&mut transaction, now, changes).await? {
            Some(_) => self.0.publisher.commit(transaction).await?,
            None => self.0.store.commit(transaction).await?,
        }
        Ok(())
    }
}
