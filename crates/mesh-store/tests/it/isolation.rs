//! A context reaches its own store and nothing else: by its variables, and by what the server lets its role do.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mesh_store::{Environment, OpenError};
use mesh_testkit::isolation::assert_isolated;

use super::*;

const CONTEXTS: [&str; 7] =
    ["inventory", "config", "connectivity", "provisioning", "delivery", "observability", "identity"];

#[tokio::test]
async fn each_contexts_role_is_refused_every_other_database() {
    let postgres = Postgres::start().await;
    let mut urls = BTreeMap::new();
    for name in CONTEXTS {
        urls.insert(name, postgres.context(name).await.url_with_password);
    }
    for (name, url) in &urls {
        let others: Vec<&str> = CONTEXTS.into_iter().filter(|other| other != name).collect();
        assert_isolated(url, &others).await;
    }
}

struct Watched<'a>(&'a BTreeMap<String, String>, RefCell<Vec<String>>);

impl Environment for Watched<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.1.borrow_mut().push(name.to_owned());
        self.0.get(name).cloned()
    }
}

#[tokio::test]
async fn a_store_asks_for_its_own_two_variables_and_no_other() {
    let world = World::start().await;
    let variables = world.database.variables();
    let watched = Watched(&variables, RefCell::default());
    Store::open(INVENTORY, &watched).unwrap();
    assert_eq!(watched.1.into_inner(), ["MESH_STORE_INVENTORY", "MESH_STORE_INVENTORY_PASSWORD_FILE"]);
}

#[tokio::test]
async fn another_contexts_variables_are_no_way_in() {
    let world = World::start().await;
    let mut variables = world.postgres.context("identity").await.variables();
    let missing = Store::open(INVENTORY, &variables).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing:?}");
    // Not even when somebody puts the other's address where ours belongs.
    let identity = variables["MESH_STORE_IDENTITY"].clone();
    variables.insert("MESH_STORE_INVENTORY".to_owned(), identity);
    let wrong = Store::open(INVENTORY, &variables).unwrap_err();
    assert!(matches!(&wrong, OpenError::WrongDatabase { found, .. } if found == "identity"), "{wrong:?}");
    assert!(wrong.to_string().contains("a context reaches only what it owns"), "{wrong}");
}
