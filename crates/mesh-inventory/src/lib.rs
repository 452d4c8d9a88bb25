#![doc = include_str!("../README.md")]

mod commands;
mod declare;
mod domain;
mod error;
mod publish;
mod queries;
mod react;
mod store;
mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

pub use commands::{Applied, Heard, ReportOutcome};
pub use declare::{Declared, Revision};
pub use domain::{
    InstanceState, NodePlan, NodeState, Plan, PlanIndex, PlannedStep, RESERVED_NAMES, Refusal, StepAction,
};
pub use error::{Error, ErrorKind};
use mesh_ids::{Clock, Digest, Timestamp};
use mesh_manifest::{Catalogue, Module};
use mesh_record::RecordPosition;
use mesh_store::{Context, Migrations, Store, Transaction};
pub use publish::UPCASTS;
pub use queries::{InstanceView, ModuleView, NodeView, Standing};
pub use react::FollowIdentity;
use sqlx::{PgConnection, Postgres, pool::PoolConnection};

/// The context: its name, its store's and its role's.
pub const CONTEXT: Context = Context::new("inventory");

/// The migrations of inventory's store.
pub fn migrations() -> Result<Migrations, mesh_store::Refusal> {
    mesh_store::migrations!()
}

/// How many contents are kept in memory; the rest is read again.
const CONTENTS_KEPT: usize = 200;

/// Inventory. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Inventory(Arc<Inner>);

struct Inner {
    store: Store,
    publisher: publish::Publisher,
    clock: Clock,
    catalogue: Catalogue,
    /// Contents by digest, which never change: what was read once need not be read and checked again.
    contents: Mutex<HashMap<Digest, Arc<Module>>>,
}

impl Inventory {
    /// Inventory on its store, which is migrated. `catalogue` is what the mesh carries.
    pub fn open(store: Store, clock: Clock, catalogue: Catalogue) -> Self {
        let publisher = publish::Publisher::new(&store);
        let contents = Mutex::new(HashMap::new());
        Self(Arc::new(Inner { store, publisher, clock, catalogue, contents }))
    }

    fn now(&self) -> Timestamp {
        (self.0.clock)()
    }

    fn catalogue(&self) -> &Catalogue {
        &self.0.catalogue
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

    /// A transaction that reads, and reads everything as it was at one moment.
    async fn snapshot(&self) -> Result<Transaction, Error> {
        let mut transaction = self.begin().await?;
        store::as_snapshot(&mut transaction).await.map_err(|error| self.failed(error))?;
        Ok(transaction)
    }

    async fn connection(&self) -> Result<PoolConnection<Postgres>, Error> {
        self.0.store.pool().acquire().await.map_err(|error| self.failed(error))
    }

    /// Appends the changes and commits. The position is where the record stands then, as far as this change knows.
    async fn finish(
        &self,
        mut transaction: Transaction,
        now: Timestamp,
        changes: impl IntoIterator<Item = domain::Change>,
    ) -> Result<RecordPosition, Error> {
        let position = self.0.publisher.append(&mut transaction, now, changes).await?;
        match position {
            Some(_) => self.0.publisher.commit(transaction).await?,
            None => self.0.store.commit(transaction).await?,
        }
        Ok(position.unwrap_or_default())
    }

    /// All that a plan is made from.
    async fn world(&self, db: &mut PgConnection) -> Result<domain::World, Error> {
        let read = async {
            Ok((
                store::nodes::all(db).await?,
                store::modules::all(db).await?,
                store::modules::assignments(db).await?,
            ))
        };
        let (nodes, modules, assignments) = read.await.map_err(|error| self.failed(error))?;
        let modules: Vec<_> = modules.into_iter().filter(|module| !module.leaving).collect();
        let digests = modules.iter().map(|module| module.digest.clone()).collect();
        let contents = self.contents(db, &digests).await?;
        let mut world = domain::World::default();
        for node in nodes {
            let carried = node.carried.into_iter().collect();
            let known = domain::WorldNode { joined: node.joined, state: node.state, carried };
            world.nodes.insert(node.name, known);
        }
        for module in modules {
            let Some(content) = contents.get(&module.digest) else { continue };
            let placed = domain::PlacedModule { module: Arc::clone(content), nodes: BTreeSet::new() };
            world.modules.insert(module.name, placed);
        }
        for assigned in assignments.into_iter().filter(|assigned| !assigned.assignment.leaving) {
            if let Some(placed) = world.modules.get_mut(&assigned.module) {
                placed.nodes.insert(assigned.node);
            }
        }
        Ok(world)
    }

    /// The contents of these digests.
    async fn contents(
        &self,
        db: &mut PgConnection,
        digests: &BTreeSet<Digest>,
    ) -> Result<BTreeMap<Digest, Arc<Module>>, Error> {
        let mut found = BTreeMap::new();
        {
            let kept = self.0.contents.lock().unwrap_or_else(PoisonError::into_inner);
            found.extend(
                digests.iter().filter_map(|digest| Some((digest.clone(), Arc::clone(kept.get(digest)?)))),
            );
        }
        let missing: BTreeSet<Digest> =
            digests.iter().filter(|digest| !found.contains_key(*digest)).cloned().collect();
        if !missing.is_empty() {
            let read = store::modules::contents(db, &missing).await.map_err(|error| self.failed(error))?;
            let mut kept = self.0.contents.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() + read.len() > CONTENTS_KEPT {
                kept.clear();
            }
            for (digest, module) in read {
                let module = Arc::new(module);
                kept.insert(digest.clone(), Arc::clone(&module));
                found.insert(digest, module);
            }
        }
        Ok(found)
    }
}
