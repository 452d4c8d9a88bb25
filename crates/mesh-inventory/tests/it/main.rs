//! Inventory on a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "tests")]

mod hearing;
mod modules;
mod nodes;
mod schema;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use mesh_authz::Principal;
use mesh_events::{IdentityEvent, InventoryEvent};
use mesh_ids::{Epoch, Fingerprint, Generation, NodeName, Position, Sequence, Timestamp};
use mesh_inventory::{Heard, Inventory, Plan};
use mesh_manifest::{Catalogue, Manifest};
use mesh_record::{Entry, Reaction, RecordPosition};
use mesh_store::Store;
use mesh_testkit::{ContextDatabase, Postgres};
use mesh_wire::{Boot, Report};

/// Inventory on a database of its own, and the clock it is handed.
struct Mesh {
    /// Kept for its end: the server goes with it.
    _postgres: Postgres,
    database: ContextDatabase,
    store: Store,
    clock: Arc<AtomicI64>,
    inventory: Inventory,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Mesh {
    async fn new() -> Self {
        let postgres = Postgres::start().await;
        let database = postgres.context("inventory").await;
        let store = Store::open(mesh_inventory::CONTEXT, &database.variables()).unwrap();
        store.migrate(&mesh_inventory::migrations().unwrap(), PATIENCE).await.unwrap();
        let clock = Arc::new(AtomicI64::new(0));
        let inventory = open(&database, &clock);
        Self { _postgres: postgres, database, store, clock, inventory }
    }

    /// Inventory as another process of the control plane finds it.
    fn again(&self) -> Inventory {
        open(&self.database, &self.clock)
    }

    fn set_clock(&self, seconds: i64) {
        self.clock.store(at(seconds).unix_ms(), Ordering::SeqCst);
    }

    /// What identity recorded, as a delivery hands it on.
    async fn identity_says(&self, event: IdentityEvent) {
        let mut transaction = self.store.begin().await.unwrap();
        let (position, at) = (RecordPosition::new(1), std::time::SystemTime::UNIX_EPOCH);
        let entry = Entry { position, at, kind: String::new(), event };
        self.inventory.reaction().react(&mut transaction, &entry).await.unwrap();
        self.store.commit(transaction).await.unwrap();
    }

    async fn join(&self, name: &str) {
        let (node, key) = (node(name), Fingerprint::of_sha256([0; 32]));
        let (labels, host_version) = (BTreeMap::new(), "0.1.0".to_owned());
        self.identity_says(IdentityEvent::NodeJoined { node, key, labels, host_version }).await;
    }

    async fn hear(&self, name: &str, seconds: i64) {
        let heard = Heard { node: node(name), at: at(seconds), accepted: None };
        self.inventory.record_alive(&[heard]).await.unwrap();
    }

    async fn plan(&self, manifest: &Manifest) -> Plan {
        self.inventory.plan_apply(&admin(), manifest.clone()).await.unwrap()
    }

    async fn apply(&self, manifest: &Manifest) {
        let plan = self.plan(manifest).await;
        self.inventory.apply(&admin(), manifest.clone(), &plan.index).await.unwrap();
    }

    /// Everything that was recorded, in sentences.
    async fn events(&self) -> Vec<String> {
        let batch = self.inventory.record().read(RecordPosition::START, 1000).await.unwrap();
        assert!(batch.stopped.is_none());
        batch.entries.iter().map(|entry: &Entry<InventoryEvent>| entry.event.to_string()).collect()
    }

    /// A report that everything of this declaration was applied.
    async fn report(&self, name: &str, count: u64, sequence: u64) {
        let declared = self.inventory.declare(&node(name)).await.unwrap();
        let mut report = report(name, count);
        report.position = Some(position(sequence));
        report.applied = declared.resources.iter().map(|resource| resource.id.to_string()).collect();
        self.inventory.record_report(&report).await.unwrap();
    }
}

fn open(database: &ContextDatabase, clock: &Arc<AtomicI64>) -> Inventory {
    let store = Store::open(mesh_inventory::CONTEXT, &database.variables()).unwrap();
    let clock = Arc::clone(clock);
    let catalogue = format!("[[image]]\nname='mesh/hello'\ndigest='sha256:{}'\n", "a".repeat(64));
    let now = Arc::new(move || Timestamp::from_unix_ms(clock.load(Ordering::SeqCst)));
    Inventory::open(store, now, Catalogue::from_toml(&catalogue).unwrap())
}

fn admin() -> Principal {
    Principal::Admin { name: "admin".to_owned() }
}

fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_s(1_800_000_000 + seconds)
}

fn position(sequence: u64) -> Position {
    Position { epoch: Epoch::new(1), generation: Generation::new(1), sequence: Sequence::new(sequence) }
}

fn report(name: &str, count: u64) -> Report {
    Report { boot: Some(Boot { id: "boot".to_owned(), count }), ..Report::new(node(name)) }
}

fn manifest(name: &str, placement: &str, body: &str) -> Manifest {
    let text = format!("name = '{name}'\nversion = '1.0.0'\nplacement = {placement}\n{body}");
    Manifest::from_toml("module.toml", &text, |_| Err(String::new())).unwrap()
}

fn hello(content: &str) -> Manifest {
    let body = format!("[[file]]\npath='/etc/hello'\ncontent='{content}'\n");
    manifest("hello", "{nodes=['node-1','node-2']}", &body)
}
