//! What inventory puts into a node's declaration: the resources of its modules, module after module by name.

use std::sync::Arc;

use mesh_manifest::Module;
use mesh_wire::Resource;

/// What is to be on a node, and up to which of inventory's decisions that is.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// In the order in which it is applied.
    pub resources: Vec<Resource>,
    /// Handed to [`crate::Inventory::note_issued`] with the declaration that carries it.
    pub revision: Revision,
}

/// Up to which decision about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Revision(pub(crate) i64);

pub(crate) fn resources(modules: &[Arc<Module>]) -> Vec<Resource> {
    modules.iter().flat_map(|module| module.resources().iter().cloned()).collect()
}
