//! The store and its migrations on a real PostgreSQL: what is tested is the database's behaviour.

#![expect(clippy::unwrap_used, reason = "tests")]

mod alone;
mod crash;
mod isolation;
mod lock;
mod migrate;
mod open;

use std::time::Duration;

use mesh_store::{Context, MigrateError, Migrations, Refusal, Store};
use mesh_testkit::{ContextDatabase, Postgres};

const INVENTORY: Context = Context::new("inventory");
const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    postgres: Postgres,
    database: ContextDatabase,
    store: Store,
}

impl World {
    async fn start() -> Self {
        let postgres = Postgres::start().await;
        let database = postgres.context("inventory").await;
        let store = Store::open(INVENTORY, &database.variables()).unwrap();
        Self { postgres, database, store }
    }

    /// Another program's way to the same store.
    fn another_store(&self) -> Store {
        Store::open(INVENTORY, &self.database.variables()).unwrap()
    }

    async fn migrate(&self, files: &[(&str, &str)]) -> Result<Vec<String>, MigrateError> {
        migrate(&self.store, &migrations(files)).await
    }

    /// The names of the tables that stand, without the runner's own.
    async fn tables(&self) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_migrations' \
             ORDER BY 1",
        )
        .fetch_all(self.store.pool())
        .await
        .unwrap()
    }

    /// The names of the migrations recorded, in order.
    async fn recorded(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT name FROM schema_migrations ORDER BY number")
            .fetch_all(self.store.pool())
            .await
            .unwrap()
    }
}

fn migrations(files: &[(&str, &str)]) -> Migrations {
    Migrations::of_files(files.iter().map(|(name, sql)| (*name, sql.as_bytes()))).unwrap()
}

async fn migrate(store: &Store, migrations: &Migrations) -> Result<Vec<String>, MigrateError> {
    Ok(store.migrate(migrations, PATIENCE).await?.into_iter().map(|applied| applied.file).collect())
}

fn refusal(outcome: Result<Vec<String>, MigrateError>) -> Refusal {
    match outcome {
        Err(MigrateError::Refused(refusal)) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
