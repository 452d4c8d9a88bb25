//! The record on a real PostgreSQL: its order, its delivery, and what a crash may not do to either.

#![expect(clippy::unwrap_used, reason = "tests")]

mod append;
mod crash;
mod deliver;
mod follow;

use std::time::{Duration, SystemTime};

use mesh_record::{Entry, ReactError, Reaction, Record, RecordPosition, Upcast, schema};
use mesh_store::{Context, Store, Transaction};
use mesh_testkit::Postgres;
use serde::{Deserialize, Serialize};

const INVENTORY: Context = Context::new("inventory");
const IDENTITY: Context = Context::new("identity");
const OBSERVABILITY: Context = Context::new("observability");
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Happened {
    NodeJoined { node: String },
    NodeLeft { node: String },
}

const UPCASTS: &[Upcast] = &[Upcast {
    kind: "node-came",
    lift: |mut object| {
        object.insert("kind".into(), "node-joined".into());
        Ok(object)
    },
}];

fn joined(number: u64) -> Happened {
    Happened::NodeJoined { node: format!("node-{number}") }
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

const fn position(number: u64) -> RecordPosition {
    RecordPosition::new(number)
}

/// The store of a context on `postgres`, with `tables` made in it.
async fn store(postgres: &Postgres, context: Context, tables: &str) -> Store {
    let database = postgres.context(context.name()).await;
    let store = Store::open(context, &database.variables()).unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(tables.to_owned())).execute(store.pool()).await.unwrap();
    store
}

/// An owner with its record.
struct Owner {
    store: Store,
    record: Record<Happened>,
}

impl Owner {
    async fn on(postgres: &Postgres) -> Self {
        let store = store(postgres, INVENTORY, schema::RECORD_1).await;
        Self { record: Record::new(&store, UPCASTS), store }
    }

    /// Appends and commits `count` events, each in a transaction of its own.
    async fn append(&self, count: u64) {
        for _ in 0..count {
            let mut transaction = self.store.begin().await.unwrap();
            let next = self.record.reader().end().await.unwrap().get() + 1;
            self.record.append(&mut transaction, at(next), &joined(next)).await.unwrap();
            self.record.commit(transaction).await.unwrap();
        }
    }
}

/// A reader's tables: its cursor, and a projection that would show an entry applied twice, not at all, or too early.
const PROJECTION: &str =
    "CREATE TABLE seen (id bigserial PRIMARY KEY, position bigint NOT NULL, node text NOT NULL);";

async fn reader_store(postgres: &Postgres, context: Context) -> Store {
    store(postgres, context, &format!("{}{PROJECTION}", schema::CURSORS_1)).await
}

async fn seen(store: &Store) -> Vec<i64> {
    sqlx::query_scalar("SELECT position FROM seen ORDER BY id")
        .fetch_all(store.pool())
        .await
        .unwrap_or_default()
}

async fn cursor(store: &Store) -> i64 {
    sqlx::query_scalar("SELECT position FROM cursors WHERE owner = 'inventory'")
        .fetch_one(store.pool())
        .await
        .unwrap()
}

/// Applies an entry to the projection.
async fn project(transaction: &mut Transaction, entry: &Entry<Happened>) -> Result<(), ReactError> {
    let (Happened::NodeJoined { node } | Happened::NodeLeft { node }) = &entry.event;
    sqlx::query("INSERT INTO seen (position, node) VALUES ($1, $2)")
        .bind(i64::try_from(entry.position.get()).unwrap())
        .bind(node)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

struct Project;

impl Reaction<Happened> for Project {
    async fn react(&self, transaction: &mut Transaction, entry: &Entry<Happened>) -> Result<(), ReactError> {
        project(transaction, entry).await
    }
}

/// A small generator, so that a seed replays a run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
