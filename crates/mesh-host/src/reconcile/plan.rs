//! What a round would do. Touches nothing.

use std::collections::BTreeSet;

use mesh_ids::ResourceId;

use super::{
    Declared, Desired,
    paths::{Led, Ways},
    prepare::{Scope, prepare, prepare_observed, prepare_removal},
    round::{Todo, removals, sequence},
};
use crate::{
    failure::Failure,
    ledger::{Memory, Origin},
    machine::Machine,
    step::Step,
};

/// What a round would do.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order of application, removals first. What needs nothing is not in it.
    pub planned: Vec<Planned>,
    /// What is only observed and other than declared, and how: a round reports it and does nothing about it.
    pub observed: Vec<(Origin, ResourceId, Vec<String>)>,
    /// How many resources are as declared.
    pub unchanged: usize,
}

/// What a round would do about one resource.
#[derive(Debug)]
pub struct Planned {
    /// Whose it is.
    pub origin: Origin,
    /// Its id.
    pub id: String,
    /// Whether it would be removed.
    pub removal: bool,
    /// What would be done, or why nothing can.
    pub steps: Result<Vec<Step>, Failure>,
}

impl Plan {
    /// Whether the machine is as declared.
    pub fn is_empty(&self) -> bool {
        self.planned.is_empty()
    }
}

/// Says what a round would do. What depends on a step that is not taken is told as far as it can be seen now.
pub async fn plan(machine: &Machine, memory: &Memory, desired: Desired<'_>) -> Plan {
    machine.units.new_round();
    machine.engine.new_round();
    let ways = Ways::of(machine);
    let led = Led::of(&ways, desired);
    let desired = led.desired();
    let wanted_packages = desired.packages();
    let wanted_images = desired.images();
    let scope = Scope { machine, wanted_packages: &wanted_packages, wanted_images: &wanted_images };
    let mut plan = Plan::default();
    for key in removals(memory, &desired) {
        let steps = prepare_removal(scope, &memory.entries[&key]).await;
        plan.planned.push(Planned { origin: key.0, id: key.1.to_string(), removal: true, steps });
    }
    let lists: [(Origin, &[Declared]); 2] =
        [(Origin::Carried, desired.carried), (Origin::Assigned, desired.assigned.unwrap_or_default())];
    let (todo, failed) = sequence(&lists, memory, &ways);
    for ((origin, id), why) in failed {
        plan.planned.push(Planned { origin, id, removal: false, steps: Err(why) });
    }
    let mut changing: [BTreeSet<ResourceId>; 2] = Default::default();
    for Todo { origin, resource } in todo {
        if resource.observe_only {
            let differs = prepare_observed(scope, origin, resource).await;
            let differs = differs.unwrap_or_else(|why| vec![format!("it cannot be looked at: {why}")]);
            if differs.is_empty() {
                plan.unchanged += 1;
            } else {
                plan.observed.push((origin, resource.id.clone(), differs));
            }
            continue;
        }
        let assumed = &mut changing[usize::from(origin == Origin::Assigned)];
        match prepare(scope, memory, origin, resource, assumed).await {
            Ok(prepared) if prepared.steps.is_empty() => plan.unchanged += 1,
            steps => {
                let steps = steps.map(|prepared| prepared.steps);
                assumed.insert(resource.id.clone());
                plan.planned.push(Planned { origin, id: resource.id.to_string(), removal: false, steps });
            }
        }
    }
    plan
}
