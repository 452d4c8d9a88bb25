//! Brings each context's schema up to date, each through its own store.

use std::time::Duration;

use anyhow::Context as _;
use mesh_store::{Environment, Migrations, Refusal, Store};

/// PostgreSQL may be starting at the same moment.
const STORE_DEADLINE: Duration = Duration::from_mins(1);

/// Another one may be migrating at the same moment.
const LOCK_PATIENCE: Duration = Duration::from_mins(5);

/// A context and its migrations.
type Owned = (mesh_store::Context, fn() -> Result<Migrations, Refusal>);

/// Every context that has a store.
const CONTEXTS: [Owned; 2] = [
    (mesh_inventory::CONTEXT, mesh_inventory::migrations),
    (mesh_identity::CONTEXT, mesh_identity::migrations),
];

/// Migrates every context's store and says what was done.
pub async fn run(environment: &impl Environment) -> anyhow::Result<()> {
    for (context, migrations) in CONTEXTS {
        let migrations = migrations().with_context(|| format!("migrate {context}"))?;
        let store = Store::open(context, environment).with_context(|| format!("migrate {context}"))?;
        store.connect_within(STORE_DEADLINE).await.with_context(|| format!("migrate {context}"))?;
        let applied =
            store.migrate(&migrations, LOCK_PATIENCE).await.with_context(|| format!("migrate {context}"))?;
        if applied.is_empty() {
            tracing::info!(%context, "the schema is up to date");
        }
        for migration in applied {
            tracing::info!(%context, file = migration.file, "migrated");
        }
        store.close().await;
    }
    Ok(())
}
