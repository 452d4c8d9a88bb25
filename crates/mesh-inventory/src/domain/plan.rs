//! What a change would do: on which node, which resources are added, changed and removed; or why it cannot be.
//!
//! Pure: the same world and the same wish give the same plan and the same check index.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use mesh_ids::{Digest, ModuleName, NodeName, ResourceId};
use mesh_manifest::{Module, Placement, Problem};
use mesh_wire::{MAX_FRAME_BYTES, Resource, frame_bytes};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{
    Candidate, NodeState, choose,
    claims::{Claim, claims},
    words::{describe, differences},
};

/// No module is called so: on the interface this word stands where the name of a module does.
pub const RESERVED_NAMES: &[&str] = &["watch"];

/// Why a change cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The manifest does not hold together, or names an image the mesh does not carry.
    #[error("the manifest is wrong: {0}")]
    Manifest(Problem),
    /// The interface uses the name itself.
    #[error("no module can be called {module}: the interface uses the word itself; choose another name")]
    Reserved {
        /// The name.
        module: ModuleName,
    },
    /// It is to be on a node that is not there.
    #[error("there is no node {node}; there are {}", listed(known))]
    UnknownNode {
        /// The node named.
        node: NodeName,
        /// Those there are.
        known: Vec<NodeName>,
    },
    /// It is to be on more nodes than there are.
    #[error("it is to be on {wanted} nodes and {have} can have it")]
    TooFewNodes {
        /// On how many it is to be.
        wanted: usize,
        /// How many have joined and have room.
        have: usize,
    },
    /// It binds a port that something the machine carries holds.
    #[error("{resource} cannot have the port {port} on {node}: what {node} carries from its bundle holds it")]
    PortCarried {
        /// On which node.
        node: NodeName,
        /// Which port.
        port: u16,
        /// What wants it.
        resource: ResourceId,
    },
    /// It claims what another module has.
    #[error("{resource} cannot have {claim} on {node}: {holder} has it")]
    Taken {
        /// On which node.
        node: NodeName,
        /// What.
        claim: Claim,
        /// What wants it.
        resource: ResourceId,
        /// What has it.
        holder: ResourceId,
    },
    /// With it, the declaration of a node would be larger than a host reads.
    #[error(
        "{module} has no room on {node}: the declaration of {node} would be {size} bytes as it travels, {others} of them \
         for other modules, and a host reads {most} at most; make what the files and units of {module} hold smaller (a \
         control character travels as eight bytes), carry it in an image, place it on another node, or remove another \
         module from {node}"
    )]
    TooLarge {
        /// Which module.
        module: ModuleName,
        /// On which node.
        node: NodeName,
        /// How large the declaration would be as it travels.
        size: usize,
        /// How much of that other modules take.
        others: usize,
        /// How large it may be.
        most: usize,
    },
    /// There is no such module.
    #[error("there is no module {module}")]
    UnknownModule {
        /// The name.
        module: ModuleName,
    },
    /// There is no such node.
    #[error("there is no node {node}")]
    NoSuchNode {
        /// The name.
        node: NodeName,
    },
    /// The plan was made from a world that is no longer.
    #[error(
        "the world moved: something this plan was made from has changed since; plan again and look at it"
    )]
    WorldMoved,
}

fn listed(nodes: &[NodeName]) -> String {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The check index of a plan: 64 hexadecimal digits, equal exactly where the plan is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanIndex(String);

impl PlanIndex {
    /// The index as somebody handed it back. Whether it holds is found out when it is used.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The index as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PlanIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a resource changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum StepAction {
    /// It is new on the node.
    Add,
    /// It is there and becomes other.
    Change,
    /// It goes.
    Remove,
}

/// One resource that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// How.
    pub action: StepAction,
    /// Which.
    pub resource: ResourceId,
    /// What of it, for a person.
    pub details: Vec<String>,
}

/// What changes on one node: first what goes, then what comes or becomes other, each in the order of doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodePlan {
    /// Which node.
    pub node: NodeName,
    /// What changes there.
    pub steps: Vec<PlannedStep>,
}

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The module it is about.
    pub module: ModuleName,
    /// Handed back to have exactly this done.
    pub index: PlanIndex,
    /// Where the module would be.
    pub placed: BTreeSet<NodeName>,
    /// What changes, node by node; those on which nothing does are left out.
    pub nodes: Vec<NodePlan>,
    /// Whether everything is so already.
    pub(crate) in_force: bool,
}

impl Plan {
    /// The nodes on which something changes.
    pub fn changed(&self) -> Vec<NodeName> {
        self.nodes.iter().map(|node| node.node.clone()).collect()
    }
}

/// All that a plan is made from.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub nodes: BTreeMap<NodeName, WorldNode>,
    pub modules: BTreeMap<ModuleName, PlacedModule>,
}

/// A node, as far as a plan looks at it.
#[derive(Debug, Clone)]
pub(crate) struct WorldNode {
    pub joined: bool,
    pub state: NodeState,
    /// Ports held by what the machine carries.
    pub carried: BTreeSet<u16>,
}

/// A module that is in force, and where.
#[derive(Debug, Clone)]
pub(crate) struct PlacedModule {
    pub module: Arc<Module>,
    pub nodes: BTreeSet<NodeName>,
}

impl World {
    fn candidates(&self, apart_from: &ModuleName) -> Vec<Candidate> {
        let others = || self.modules.iter().filter(|(name, _)| *name != apart_from);
        let candidate = |(name, node): (&NodeName, &WorldNode)| Candidate {
            node: name.clone(),
            joined: node.joined,
            connected: node.state == NodeState::Connected,
            modules: others().filter(|(_, placed)| placed.nodes.contains(name)).count(),
        };
        self.nodes.iter().map(candidate).collect()
    }

    /// Why a module has no room in the declaration of a node.
    fn overflow(&self, module: &Module, node: &NodeName) -> Option<Refusal> {
        let others = self
            .modules
            .iter()
            .filter(|(name, placed)| *name != module.name() && placed.nodes.contains(node))
            .map(|(_, placed)| placed.module.declared_bytes())
            .sum();
        let size = frame_bytes(module.declared_bytes().saturating_add(others));
        (size > MAX_FRAME_BYTES).then(|| Refusal::TooLarge {
            module: module.name().clone(),
            node: node.clone(),
            size,
            others: if others == 0 { 0 } else { size - frame_bytes(module.declared_bytes()) },
            most: MAX_FRAME_BYTES,
        })
    }

    /// Why a module cannot be on a node.
    fn clash(&self, module: &Module, node: &NodeName) -> Option<Refusal> {
        let (module, resources) = (module.name(), module.resources());
        let wanted = claims(resources);
        let carried = self.nodes.get(node).map(|node| &node.carried);
        for (claim, resource) in &wanted {
            if let Claim::Port(port) = claim
                && carried.is_some_and(|carried| carried.contains(port))
            {
                let (node, port, resource) = (node.clone(), *port, (*resource).clone());
                return Some(Refusal::PortCarried { node, port, resource });
            }
        }
        let others =
            self.modules.iter().filter(|(name, placed)| *name != module && placed.nodes.contains(node));
        for (_, other) in others {
            let held = claims(other.module.resources());
            if let Some((claim, resource)) = wanted.iter().find(|(claim, _)| held.contains_key(claim)) {
                return Some(Refusal::Taken {
                    node: node.clone(),
                    claim: claim.clone(),
                    resource: (*resource).clone(),
                    holder: held[claim].clone(),
                });
            }
        }
        None
    }

    /// The nodes that the module is to be on.
    fn place(&self, module: &Module, current: &BTreeSet<NodeName>) -> Result<BTreeSet<NodeName>, Refusal> {
        let name = module.name();
        let placement = &module.manifest().placement;
        let clash = |node: &NodeName| self.clash(module, node).or_else(|| self.overflow(module, node));
        let mut candidates = self.candidates(name);
        if let Placement::Count(_) = placement {
            // A node where it cannot be is no candidate; only where too few are left is that the person's business.
            let mut first = None;
            candidates.retain(|candidate| match clash(&candidate.node) {
                Some(refusal) if candidate.joined => {
                    first.get_or_insert(refusal);
                    false
                }
                other => other.is_none(),
            });
            return choose(placement, &candidates, current).map_err(|refusal| first.unwrap_or(refusal));
        }
        let nodes = choose(placement, &candidates, current)?;
        match nodes.iter().find_map(clash) {
            Some(refusal) => Err(refusal),
            None => Ok(nodes),
        }
    }
}

/// What bringing a module to this content would do.
pub(crate) fn plan_apply(world: &World, module: &Module) -> Result<Plan, Refusal> {
    let nowhere = BTreeSet::new();
    let placed = world.modules.get(module.name());
    // One that is there already may be changed and taken away.
    if placed.is_none() && RESERVED_NAMES.contains(&module.name().as_str()) {
        return Err(Refusal::Reserved { module: module.name().clone() });
    }
    let current = placed.map_or(&nowhere, |placed| &placed.nodes);
    let nodes = world.place(module, current)?;
    Ok(plan(module.name(), placed, Some((module, nodes))))
}

/// What following the nodes that came or went would do.
pub(crate) fn plan_placement(world: &World, module: &ModuleName) -> Result<Plan, Refusal> {
    match world.modules.get(module) {
        Some(placed) => plan_apply(world, &placed.module),
        None => Err(Refusal::UnknownModule { module: module.clone() }),
    }
}

/// What taking a module away would do.
pub(crate) fn plan_removal(world: &World, module: &ModuleName) -> Result<Plan, Refusal> {
    match world.modules.get(module) {
        Some(placed) => Ok(plan(module, Some(placed), None)),
        None => Err(Refusal::UnknownModule { module: module.clone() }),
    }
}

/// What taking away a module would do that was taken away already: nothing.
pub(crate) fn plan_removal_again(module: &ModuleName) -> Plan {
    plan(module, None, None)
}

fn plan(
    name: &ModuleName,
    before: Option<&PlacedModule>,
    after: Option<(&Module, BTreeSet<NodeName>)>,
) -> Plan {
    let old_nodes = before.map(|placed| placed.nodes.clone()).unwrap_or_default();
    let (new_module, new_nodes) = match after {
        Some((module, nodes)) => (Some(module), nodes),
        None => (None, BTreeSet::new()),
    };
    let old = before.map_or(&[][..], |placed| placed.module.resources());
    let new = new_module.map_or(&[][..], Module::resources);
    let mut nodes = Vec::new();
    for node in old_nodes.union(&new_nodes) {
        let steps = steps(
            if old_nodes.contains(node) { old } else { &[] },
            if new_nodes.contains(node) { new } else { &[] },
        );
        if !steps.is_empty() {
            nodes.push(NodePlan { node: node.clone(), steps });
        }
    }
    let old_digest = before.map(|placed| placed.module.digest());
    let new_digest = new_module.map(Module::digest);
    let in_force = old_digest == new_digest && old_nodes == new_nodes;
    let index = index(name, (old_digest, &old_nodes), (new_digest, &new_nodes), &nodes);
    Plan { module: name.clone(), index, placed: new_nodes, nodes, in_force }
}

fn steps(old: &[Resource], new: &[Resource]) -> Vec<PlannedStep> {
    let find = |among: &'_ [Resource], id: &ResourceId| among.iter().position(|resource| resource.id == *id);
    let gone = old.iter().rev().filter(|resource| find(new, &resource.id).is_none());
    let mut steps: Vec<PlannedStep> = gone
        .map(|resource| PlannedStep {
            action: StepAction::Remove,
            resource: resource.id.clone(),
            details: Vec::new(),
        })
        .collect();
    for resource in new {
        let before = find(old, &resource.id).map(|at| &old[at]);
        let (action, details) = match before {
            None => {
                let mut words = describe(&resource.spec);
                words.extend(resource.observe_only.then(|| "only observed".to_owned()));
                (StepAction::Add, words)
            }
            Some(before) if before == resource => continue,
            Some(before) => (StepAction::Change, differences(before, resource)),
        };
        steps.push(PlannedStep { action, resource: resource.id.clone(), details });
    }
    steps
}

/// A version of a module by content and where it is.
type Placed<'a> = (Option<&'a Digest>, &'a BTreeSet<NodeName>);

/// Over what there is, what there would be, and what a person is shown. Contents are in it by their digests.
fn index(module: &ModuleName, before: Placed<'_>, after: Placed<'_>, nodes: &[NodePlan]) -> PlanIndex {
    let json = serde_json::to_vec(&(module, before, after, nodes)).unwrap_or_default();
    PlanIndex(Digest::of_sha256(Sha256::digest(&json).into()).hex().to_owned())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
