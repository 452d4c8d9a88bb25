//! Looks at one resource and says what has to be done about it. Changes nothing, remembers nothing.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::ResourceId;
use mesh_wire::{Resource, Spec};

use super::order::restart_on;
use crate::{
    failure::{During as _, Failure},
    for_kind,
    kinds::{self, Kind},
    ledger::{self, Entry, Origin},
    machine::{Machine, units::UnitStep},
    step::Step,
};

/// What has to be done about a resource.
#[derive(Debug)]
pub(super) struct Prepared {
    /// In order; empty where it is as declared.
    pub(super) steps: Vec<Step>,
    /// What stood there before.
    pub(super) before: serde_json::Value,
    /// Whether exactly this was completely applied before.
    pub(super) was_applied: bool,
    /// The changes it will have seen once it is applied.
    pub(super) seen: BTreeMap<ResourceId, u64>,
}

impl Prepared {
    /// What was found other than it was left, for a person. Empty where nothing was: a restart because another resource
    /// changed is no drift.
    pub(super) fn drift(&self) -> Vec<String> {
        if self.was_applied {
            let counts = |step: &&Step| !step.restarts() && **step != Step::Unit(UnitStep::Reload);
            self.steps.iter().filter(counts).map(ToString::to_string).collect()
        } else {
            Vec::new()
        }
    }
}

/// Looks at a resource. `assumed`: resources of the same origin to be taken for changed (in a plan, what would be).
pub(super) async fn prepare(
    machine: &Machine,
    memory: &ledger::Memory,
    origin: Origin,
    resource: &Resource,
    assumed: &BTreeSet<ResourceId>,
) -> Result<Prepared, Failure> {
    let entry = memory
        .entries
        .get(&(origin, resource.id.clone()))
        .filter(|entry| is_same_thing(entry, &resource.spec));
    let seen: BTreeMap<ResourceId, u64> = restart_on(resource)
        .iter()
        .filter_map(|id| Some((id.clone(), memory.entries.get(&(origin, id.clone()))?.changed)))
        .collect();
    let mut changed: Vec<ResourceId> = match entry {
        None => Vec::new(),
        Some(entry) => restart_on(resource)
            .iter()
            .filter(|id| assumed.contains(*id) || entry.seen.get(*id) != seen.get(*id))
            .cloned()
            .collect(),
    };
    if changed.is_empty() && entry.is_some_and(|entry| entry.restarting) {
        changed.push(resource.id.clone());
    }
    let was_applied = entry.is_some_and(|entry| entry.complete && entry.resource.spec == resource.spec);
    let before = entry.map(|entry| &entry.before);
    let (steps, before) = for_kind!(&resource.spec, |K, spec| {
        prepare_kind::<K>(machine, spec, before, was_applied, changed).await
    })?;
    Ok(Prepared { steps, before, was_applied, seen })
}

async fn prepare_kind<K: Kind>(
    machine: &Machine,
    spec: &K::Spec,
    before: Option<&serde_json::Value>,
    was_applied: bool,
    changed: Vec<ResourceId>,
) -> Result<(Vec<Step>, serde_json::Value), Failure> {
    let observed = K::observe(machine, spec).await?;
    let earlier: Option<K::Before> =
        before.cloned().map(serde_json::from_value).transpose().during("read what stood there before")?;
    let before = K::before(spec, &observed, earlier.as_ref());
    let memory = kinds::Memory::<K> { before, applied: was_applied.then(|| spec.clone()), changed };
    let steps = K::plan(spec, &observed, &memory)?;
    Ok((steps, serde_json::to_value(&memory.before).during("keep what stood there before")?))
}

/// What takes a resource off the machine and puts back what stood there before.
pub(super) async fn prepare_removal(machine: &Machine, entry: &Entry) -> Result<Vec<Step>, Failure> {
    for_kind!(&entry.resource.spec, |K, spec| {
        let before: <K as Kind>::Before =
            serde_json::from_value(entry.before.clone()).during("read what stood there before")?;
        let observed = <K as Kind>::observe(machine, spec).await?;
        <K as Kind>::remove(spec, &observed, &before)
    })
}

/// Whether what is remembered is the thing that is declared now, be it declared otherwise. If not, the old thing has to
/// go first, under the same id.
pub(super) fn is_same_thing(entry: &Entry, declared: &Spec) -> bool {
    let subject = |spec: &Spec| for_kind!(spec, |K, spec| Ok(K::subject(spec).into_owned()));
    entry.resource.spec.kind() == declared.kind() && subject(&entry.resource.spec) == subject(declared)
}
