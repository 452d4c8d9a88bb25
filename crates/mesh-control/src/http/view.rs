//! What contexts know, as clients see it. The one place that has both a context's view and the interface's type.

use mesh_api::{
    Applied, DiskView, FactsView, InstanceState, InstanceView, ModuleView, NodeChange, NodeState, NodeView,
    Plan, PlannedStep, StepAction,
};
use mesh_ids::Position;
use mesh_wire::Facts;

use super::cursor::Cursor;

pub(super) fn node(node: mesh_inventory::NodeView, declared: Option<Position>) -> NodeView {
    NodeView {
        name: node.name,
        state: match node.state {
            mesh_inventory::NodeState::Joining => NodeState::Joining,
            mesh_inventory::NodeState::Connected => NodeState::Connected,
            mesh_inventory::NodeState::Quiet => NodeState::Quiet,
            mesh_inventory::NodeState::Unreachable => NodeState::Unreachable,
        },
        last_heard: node.last_heard.map(|at| at.to_string()),
        disconnected_for: node.disconnected_for.map(|silence| silence.as_secs()),
        declared,
        reported: node.reported,
        applied: node.applied,
        failed: node.failed,
        refused: node.refused,
        carried_ports: node.carried_ports,
        host_version: node.host_version,
        labels: node.labels,
        facts: node.facts.map(facts),
    }
}

fn facts(facts: Facts) -> FactsView {
    let disk = |disk: mesh_wire::Disk| DiskView {
        mount: disk.mount,
        size_bytes: disk.size_bytes,
        free_bytes: disk.free_bytes,
    };
    FactsView {
        os: facts.os,
        kernel: facts.kernel,
        architecture: facts.architecture,
        cpus: facts.cpus,
        memory_bytes: facts.memory_bytes,
        disks: facts.disks.into_iter().map(disk).collect(),
        engine: facts.engine,
        addresses: facts.addresses,
    }
}

pub(super) fn module(module: mesh_inventory::ModuleView) -> ModuleView {
    let instance = |instance: mesh_inventory::InstanceView| InstanceView {
        node: instance.node,
        state: match instance.state {
            mesh_inventory::InstanceState::Pending => InstanceState::Pending,
            mesh_inventory::InstanceState::Applied => InstanceState::Applied,
            mesh_inventory::InstanceState::Failed => InstanceState::Failed,
            mesh_inventory::InstanceState::Removing => InstanceState::Removing,
        },
        failed: instance.failed,
    };
    ModuleView {
        name: module.name,
        version: module.version.to_string(),
        instances: module.instances.into_iter().map(instance).collect(),
    }
}

pub(super) fn plan(plan: mesh_inventory::Plan) -> Plan {
    let step = |step: mesh_inventory::PlannedStep| PlannedStep {
        action: match step.action {
            mesh_inventory::StepAction::Add => StepAction::Add,
            mesh_inventory::StepAction::Change => StepAction::Change,
            mesh_inventory::StepAction::Remove => StepAction::Remove,
        },
        resource: step.resource.to_string(),
        details: step.details,
    };
    let node = |node: mesh_inventory::NodePlan| NodeChange {
        node: node.node,
        steps: node.steps.into_iter().map(step).collect(),
    };
    Plan {
        module: plan.module,
        index: plan.index.to_string(),
        nodes: plan.nodes.into_iter().map(node).collect(),
    }
}

pub(super) fn applied(applied: mesh_inventory::Applied, cursor: Cursor) -> Applied {
    Applied { module: applied.module, nodes: applied.nodes, cursor: cursor.to_string() }
}
