//! The read side, with views of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mesh_authz::{Action, Principal, authorise};
use mesh_ids::{Digest, ModuleName, ModuleVersion, NodeName, Position, Timestamp};
use mesh_wire::Facts;

use crate::{
    Error, Inventory,
    declare::{Declared, Revision, resources},
    domain::{InstanceState, NodeState, disconnected_for, instance_state},
    store::{
        modules,
        nodes::{self, StoredNode},
    },
};

/// A node as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: NodeName,
    /// Whether it is heard.
    pub state: NodeState,
    /// Whether a machine has joined under the name; otherwise it was only invited.
    pub joined: bool,
    /// When it was last heard.
    pub last_heard: Option<Timestamp>,
    /// How long it has not been heard; `None` while no heartbeat is missing.
    pub disconnected_for: Option<Duration>,
    /// The newest declaration it accepted, as it says.
    pub accepted: Option<Position>,
    /// The declaration its last report speaks of.
    pub reported: Option<Position>,
    /// What it owns, by resource id.
    pub applied: Vec<String>,
    /// What it could not apply, and why.
    pub failed: BTreeMap<String, String>,
    /// Why what is to be on it could not be declared to it, or why it rejected its declaration whole.
    pub refused: Option<String>,
    /// The ports held by what the machine carries.
    pub carried_ports: Vec<u16>,
    /// The version of its host.
    pub host_version: Option<String>,
    /// Labels, fixed when it was invited.
    pub labels: BTreeMap<String, String>,
    /// What the machine is.
    pub facts: Option<Facts>,
}

/// A module as it is in force, or leaving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleView {
    /// Its name.
    pub name: ModuleName,
    /// Its version, in its author's words.
    pub version: ModuleVersion,
    /// Its content.
    pub digest: Digest,
    /// Where it is.
    pub instances: Vec<InstanceView>,
}

/// A module on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceView {
    /// Which node.
    pub node: NodeName,
    /// How far it is there.
    pub state: InstanceState,
    /// What failed there, by resource id, and why.
    pub failed: BTreeMap<String, String>,
}

/// How far a node is with what it was told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// The newest declaration it accepted, as it says.
    pub accepted: Option<Position>,
    /// The declaration its last report speaks of.
    pub reported: Option<Position>,
    /// Whether that report says it was refused whole.
    pub refused: bool,
    /// Whether that report says something failed.
    pub failed: bool,
}

impl Inventory {
    /// Every node, by name.
    pub async fn nodes(&self, who: &Principal) -> Result<Vec<NodeView>, Error> {
        authorise(who, Action::ReadNodes)?;
        let now = self.now();
        let mut db = self.connection().await?;
        let nodes = nodes::all(&mut db).await.map_err(|error| self.failed(error))?;
        Ok(nodes.into_iter().map(|node| view(node, now)).collect())
    }

    /// One node.
    pub async fn node(&self, who: &Principal, name: &NodeName) -> Result<NodeView, Error> {
        authorise(who, Action::ReadNodes)?;
        let now = self.now();
        let mut db = self.connection().await?;
        let node = nodes::one(&mut db, name).await.map_err(|error| self.failed(error))?;
        node.map(|node| view(node, now)).ok_or_else(|| Self::no_such_node(name))
    }

    /// Every module, by name, with its instances by node.
    pub async fn modules(&self, who: &Principal) -> Result<Vec<ModuleView>, Error> {
        authorise(who, Action::ReadModules)?;
        let mut snapshot = self.snapshot().await?;
        let read = async {
            Ok((
                nodes::all(&mut snapshot).await?,
                modules::all(&mut snapshot).await?,
                modules::assignments(&mut snapshot).await?,
            ))
        };
        let (nodes, modules, assignments) = read.await.map_err(|error| self.failed(error))?;
        let nodes: BTreeMap<NodeName, StoredNode> =
            nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
        let mut instances: BTreeMap<ModuleName, Vec<InstanceView>> = BTreeMap::new();
        for assigned in assignments {
            let Some(node) = nodes.get(&assigned.node) else { continue };
            let held = &node.held;
            let (state, failed) = instance_state(
                &assigned.module,
                &assigned.assignment,
                held.position,
                &held.failed,
                &held.refused,
                &node.undeclared,
            );
            let view = InstanceView { node: assigned.node, state, failed };
            instances.entry(assigned.module).or_default().push(view);
        }
        let view = |module: modules::StoredModule| ModuleView {
            instances: instances.remove(&module.name).unwrap_or_default(),
            name: module.name,
            version: module.version,
            digest: module.digest,
        };
        Ok(modules.into_iter().map(view).collect())
    }

    /// One module.
    pub async fn module(&self, who: &Principal, name: &ModuleName) -> Result<ModuleView, Error> {
        let modules = self.modules(who).await?;
        let found = modules.into_iter().find(|module| module.name == *name);
        found.ok_or_else(|| crate::Refusal::UnknownModule { module: name.clone() }.into())
    }

    /// What is to be on a node, for its declaration.
    pub async fn declare(&self, node: &NodeName) -> Result<Declared, Error> {
        let mut snapshot = self.snapshot().await?;
        let wanted = modules::wanted_on(&mut snapshot, node).await.map_err(|error| self.failed(error))?;
        let Some((revision, digests)) = wanted else { return Err(Self::no_such_node(node)) };
        let distinct: BTreeSet<Digest> = digests.iter().cloned().collect();
        let contents = self.contents(&mut snapshot, &distinct).await?;
        let modules: Vec<_> = digests.iter().filter_map(|digest| contents.get(digest).cloned()).collect();
        Ok(Declared { resources: resources(&modules), revision: Revision(revision) })
    }

    /// How far a node is with what it was told; nothing is known of one that does not exist.
    pub async fn standing(&self, node: &NodeName) -> Result<Standing, Error> {
        let mut db = self.connection().await?;
        let node = nodes::one(&mut db, node).await.map_err(|error| self.failed(error))?;
        Ok(node.map_or_else(Standing::default, |node| Standing {
            accepted: node.accepted,
            reported: node.held.position,
            refused: !node.held.refused.is_empty(),
            failed: !node.held.failed.is_empty(),
        }))
    }
}

fn view(node: StoredNode, now: Timestamp) -> NodeView {
    NodeView {
        name: node.name,
        state: node.state,
        joined: node.joined,
        last_heard: node.last_heard,
        disconnected_for: disconnected_for(node.last_heard, now),
        accepted: node.accepted,
        reported: node.held.position,
        applied: node.held.applied,
        failed: node.held.failed,
        refused: [node.undeclared, node.held.refused].into_iter().find(|refused| !refused.is_empty()),
        carried_ports: node.carried,
        host_version: node.host_version,
        labels: node.labels,
        facts: node.facts,
    }
}
