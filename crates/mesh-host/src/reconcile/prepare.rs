//! Looks at one resource and says what has to be done about it. Changes nothing, remembers nothing.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::{ImageRef, ResourceId};
use mesh_wire::{Resource, Spec};

use super::order::restart_on;
use crate::{
    failure::{During as _, Failure},
    for_kind,
    kinds::{self, Kind},
    ledger::{self, Entry, Origin},
    machine::{Machine, engine::EngineStep, files::FileStep, packages::PackageStep, units::UnitStep},
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
    /// What is there instead of what is declared, in words.
    pub(super) found: Option<String>,
}

impl Prepared {
    /// What was found other than it was left, for a person. Empty where nothing was: a restart because another resource
    /// changed is no drift.
    pub(super) fn drift(&self) -> Vec<String> {
        if self.was_applied { self.differences() } else { Vec::new() }
    }

    /// What is other than declared, for a person: what is there, and what would be done about it.
    pub(super) fn differences(&self) -> Vec<String> {
        // Of a container that is replaced because of what it reads, every step is the restart.
        if self.steps.iter().any(|step| matches!(step, Step::Engine(_)) && step.restarts()) {
            return Vec::new();
        }
        let counts = |step: &&Step| {
            // Nor is a unit on its way to be active: systemd restarts units by itself.
            let aside = matches!(
                step,
                Step::Check(_)
                    | Step::File(FileStep::Keep(_))
                    | Step::Unit(UnitStep::Reload | UnitStep::Await(_))
            );
            !step.restarts() && !aside
        };
        let steps: Vec<String> = self.steps.iter().filter(counts).map(ToString::to_string).collect();
        if steps.is_empty() { steps } else { self.found.iter().cloned().chain(steps).collect() }
    }
}

/// Where it is looked.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) machine: &'a Machine,
    /// Packages that some resource wants: none of them is removed because another one no longer does.
    pub(super) wanted_packages: &'a BTreeSet<String>,
    /// The same of images.
    pub(super) wanted_images: &'a BTreeSet<ImageRef>,
}

impl Scope<'_> {
    fn spare_wanted(&self, steps: &mut Vec<Step>) {
        for step in steps.iter_mut() {
            if let Step::Package(PackageStep::Remove { names }) = step {
                names.retain(|name| !self.wanted_packages.contains(name));
            }
        }
        steps.retain(|step| match step {
            Step::Engine(EngineStep::RemoveImage(image)) => !self.wanted_images.contains(image),
            _ => true,
        });
        steps
            .retain(|step| !matches!(step, Step::Package(PackageStep::Remove { names }) if names.is_empty()));
    }
}

/// Looks at a resource. `assumed`: resources of the same origin to be taken for changed (in a plan, what would be).
pub(super) async fn prepare(
    scope: Scope<'_>,
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
    // Numbers of changes, by id: there is no map of them that cannot be written.
    let reads =
        if seen.is_empty() { String::new() } else { serde_json::to_string(&seen).unwrap_or_default() };
    // What is only observed is looked at as if it had been left as declared: all that is other than that is told.
    let was_applied = resource.observe_only
        || entry.is_some_and(|entry| entry.complete && entry.resource.spec == resource.spec);
    let before = entry.map(|entry| &entry.before);
    let (mut steps, before, found) = for_kind!(&resource.spec, |K, spec| {
        prepare_kind::<K>(scope.machine, spec, before, was_applied, (changed, reads)).await
    })?;
    scope.spare_wanted(&mut steps);
    for step in &mut steps {
        if let Step::Engine(step) = step {
            step.mark(&origin.to_string(), resource.id.as_str());
        }
    }
    Ok(Prepared { steps, before, was_applied, seen, found })
}

async fn prepare_kind<K: Kind>(
    machine: &Machine,
    spec: &K::Spec,
    before: Option<&serde_json::Value>,
    was_applied: bool,
    (changed, reads): (Vec<ResourceId>, String),
) -> Result<(Vec<Step>, serde_json::Value, Option<String>), Failure> {
    let earlier: Option<K::Before> =
        before.cloned().map(serde_json::from_value).transpose().during("read what stood there before")?;
    let observed = K::observe_since(machine, spec, earlier.as_ref()).await?;
    let before = K::before(spec, &observed, earlier.as_ref());
    let memory = kinds::Memory::<K> { before, applied: was_applied.then(|| spec.clone()), changed, reads };
    let steps = K::plan(spec, &observed, &memory)?;
    let before = serde_json::to_value(&memory.before).during("keep what stood there before")?;
    Ok((steps, before, K::found(spec, &observed)))
}

/// Looks at a resource that is only observed: what is other than declared.
pub(super) async fn prepare_observed(
    scope: Scope<'_>,
    origin: Origin,
    resource: &Resource,
) -> Result<Vec<String>, Failure> {
    // What the host once did about it says nothing of what is there now.
    let untouched = ledger::Memory::default();
    Ok(prepare(scope, &untouched, origin, resource, &BTreeSet::new()).await?.differences())
}

/// What takes a resource off the machine and puts back what stood there before. Nothing, where it was only observed last.
pub(super) async fn prepare_removal(scope: Scope<'_>, entry: &Entry) -> Result<Vec<Step>, Failure> {
    if entry.resource.observe_only {
        return Ok(Vec::new());
    }
    let mut steps = for_kind!(&entry.resource.spec, |K, spec| {
        prepare_removal_kind::<K>(scope.machine, spec, &entry.before, entry.restarting).await
    })?;
    scope.spare_wanted(&mut steps);
    Ok(steps)
}

async fn prepare_removal_kind<K: Kind>(
    machine: &Machine,
    spec: &K::Spec,
    before: &serde_json::Value,
    restarting: bool,
) -> Result<Vec<Step>, Failure> {
    let before: K::Before = serde_json::from_value(before.clone()).during("read what stood there before")?;
    let observed = K::observe_since(machine, spec, Some(&before)).await?;
    let mut steps = K::remove(spec, &observed, &before)?;
    if restarting && !steps.iter().any(Step::restarts) {
        steps.extend(K::restart(spec, &observed, &before));
    }
    Ok(steps)
}

/// Whether what is remembered is the thing that is declared now, be it declared otherwise. If not, the old thing has to
/// go first, under the same id.
pub(crate) fn is_same_thing(entry: &Entry, declared: &Spec) -> bool {
    let subject = |spec: &Spec| for_kind!(spec, |K, spec| Ok(K::subject(spec).into_owned()));
    entry.resource.spec.kind() == declared.kind() && subject(&entry.resource.spec) == subject(declared)
}
