//! One round: what is no longer declared goes, what is declared comes, in order; the ledger knows of every step first.

mod observe;
mod steps;

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::ResourceId;
use mesh_wire::{Drift, Resource, Spec};
use steps::{Job, Rank, joins};

use super::{
    Declared, Desired, NotYet, Outcome, Patience, Progress,
    claims::{Claimant, claims, clashes},
    order::{order, restart_on, waits_for},
    paths::{Led, Ways},
    prepare::{Prepared, Scope, is_same_thing, prepare, prepare_removal},
};
use crate::{
    failure::Failure,
    ledger::{Entry, Ledger, Memory, Note, Origin, Record},
    machine::Machine,
    step::Step,
};

type Key = (Origin, ResourceId);
type Failed = BTreeMap<(Origin, String), Failure>;

/// A resource that is to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Todo<'a> {
    pub(super) origin: Origin,
    pub(super) resource: &'a Resource,
}

impl Todo<'_> {
    fn key(&self) -> Key {
        (self.origin, self.resource.id.clone())
    }
}

const STALE: &str =
    "it is no longer declared, but the declaration is stale (past its time): nothing is removed";

/// Whether `below` has to stay while `upper` is there.
fn rests_on(upper: &Entry, below: &Entry) -> bool {
    let inside = |path: &str| match &below.resource.spec {
        Spec::Directory(folder) => path.strip_prefix(&folder.path).is_some_and(|rest| rest.starts_with('/')),
        _ => false,
    };
    let in_it = match &upper.resource.spec {
        Spec::File(file) => inside(&file.path),
        Spec::Directory(folder) => inside(&folder.path),
        _ => false,
    };
    upper.origin == below.origin && (in_it || waits_for(&upper.resource).any(|id| *id == below.resource.id))
}

/// What has to be removed, in the order of removal: the reverse of that of application.
pub(super) fn removals(memory: &Memory, desired: &Desired<'_>) -> Vec<Key> {
    let lists = [(Origin::Carried, Some(desired.carried)), (Origin::Assigned, desired.assigned)];
    let mut gone: Vec<&Entry> = Vec::new();
    for (origin, list) in lists {
        let Some(list) = list else { continue };
        let declared: BTreeMap<&str, Option<&Spec>> = list
            .iter()
            .map(|declared| match declared {
                Ok(resource) => (resource.id.as_str(), Some(&resource.spec)),
                // Nothing is removed because it could not be read.
                Err(unreadable) => (unreadable.id.as_str(), None),
            })
            .collect();
        let stays = |entry: &Entry| match declared.get(entry.resource.id.as_str()) {
            Some(Some(spec)) => is_same_thing(entry, spec),
            Some(None) => true,
            None => false,
        };
        gone.extend(memory.entries.values().filter(|entry| entry.origin == origin && !stays(entry)));
    }
    gone.sort_by_key(|entry| std::cmp::Reverse(entry.place));
    gone.into_iter().map(|entry| (entry.origin, entry.resource.id.clone())).collect()
}

/// What is to be applied, in order, and what cannot be.
pub(super) fn sequence<'a>(
    lists: &[(Origin, &'a [Declared])],
    memory: &Memory,
    ways: &Ways<'_>,
) -> (Vec<Todo<'a>>, Failed) {
    let mut failed = Failed::new();
    let mut todo: Vec<Todo<'a>> = Vec::new();
    for (origin, list) in lists {
        let mut unreadable = BTreeSet::new();
        for declared in list.iter().filter_map(|declared| declared.as_ref().err()) {
            unreadable.insert(declared.id.as_str());
            failed.insert((*origin, declared.id.clone()), Failure::new(declared.reason.clone()));
        }
        let resources: Vec<&Resource> = list.iter().filter_map(|declared| declared.as_ref().ok()).collect();
        let order = order(&resources, &unreadable);
        for (place, why) in order.refused {
            failed.insert((*origin, resources[place].id.to_string()), Failure::new(why));
        }
        todo.extend(order.sequence.iter().map(|place| Todo { origin: *origin, resource: resources[*place] }));
    }
    let claimants: Vec<Claimant<'_>> = todo
        .iter()
        .map(|todo| Claimant {
            origin: todo.origin,
            resource: todo.resource,
            held: memory.entries.contains_key(&todo.key()),
        })
        .collect();
    let lead = |path: &str| ways.lead(path).unwrap_or_else(|_| path.to_owned());
    for (place, why) in clashes(&claimants, &lead) {
        failed.insert((todo[place].origin, todo[place].resource.id.to_string()), why);
    }
    (todo, failed)
}

/// Makes the machine as declared. Fails only where the ledger does: what a resource fails with is in the outcome.
pub async fn round(
    machine: &Machine,
    ledger: &mut Ledger,
    desired: Desired<'_>,
    patience: &mut Patience,
    progress: Progress<'_>,
) -> Result<Outcome, Failure> {
    if let Some((reason, _)) = ledger.unreadable() {
        // It remembers nothing then: everything on the machine would be nobody's.
        return Err(Failure::new(format!("the ledger cannot be read, so nothing is applied: {reason}")));
    }
    machine.units.new_round();
    machine.engine.new_round();
    let ways = Ways::of(machine);
    let led = Led::of(&ways, desired);
    let desired = led.desired();
    let wanted_packages = desired.packages();
    let wanted_images = desired.images();
    let scope = Scope { machine, wanted_packages: &wanted_packages, wanted_images: &wanted_images };
    let mut round =
        Round { scope, ledger, desired, patience, progress, outcome: Outcome::default(), reload_due: false };
    round.remove_all().await?;
    let lists =
        [(Origin::Carried, desired.carried), (Origin::Assigned, desired.assigned.unwrap_or_default())];
    let (todo, failed) = sequence(&lists, round.ledger.memory(), &ways);
    round.outcome.failed.extend(failed);
    round.end_observations()?;
    round.patience.forget_old(machine.clock.elapsed());
    let mut rest = todo.as_slice();
    while !rest.is_empty() {
        rest = round.apply_some(rest).await?;
    }
    round.keep_order(&todo)?;
    round.remember_failing()?;
    round.ledger.commit()?;
    Ok(round.outcome)
}

struct Round<'a> {
    scope: Scope<'a>,
    ledger: &'a mut Ledger,
    desired: Desired<'a>,
    patience: &'a mut Patience,
    progress: Progress<'a>,
    outcome: Outcome,
    /// Whether systemd has to read its unit files again before the next unit is started.
    reload_due: bool,
}

impl<'a> Round<'a> {
    async fn remove_all(&mut self) -> Result<(), Failure> {
        let keys = removals(self.ledger.memory(), &self.desired);
        if !keys.is_empty() {
            self.remove_each(keys).await?;
        }
        let needed = self.ledger.memory().digests();
        if let Err(why) = self.scope.machine.files.forget_kept_but(&needed) {
            tracing::warn!(%why, "what was kept and is no longer needed could not be removed");
        }
        Ok(())
    }

    async fn remove_each(&mut self, keys: Vec<Key>) -> Result<(), Failure> {
        let is_stale = |key: &Key| self.desired.stale && key.0 == Origin::Assigned;
        let entries: Vec<Entry> = keys.iter().map(|key| self.ledger.memory().entries[key].clone()).collect();
        let intended: Vec<Record> = (keys.iter().zip(&entries))
            .filter(|(key, entry)| entry.complete && !is_stale(key))
            .map(|(_, entry)| Record::Entry(Box::new(Entry { complete: false, ..entry.clone() })))
            .collect();
        self.ledger.write(intended)?;
        self.ledger.commit()?;
        let mut removed: Vec<Key> = Vec::new();
        let mut stuck: Vec<Entry> = Vec::new();
        for (key, entry) in keys.into_iter().zip(entries) {
            let outcome = if self.desired.stale && key.0 == Origin::Assigned {
                Err(Failure::new(STALE))
            } else if let Some(first) = stuck.iter().find(|stuck| rests_on(stuck, &entry)) {
                Err(Failure::new(format!("{} has to be removed first", first.resource.id)))
            } else {
                self.remove(&key, &entry).await
            };
            match outcome {
                Ok(()) => removed.push(key),
                Err(why) => {
                    self.fail(&key, why.during("remove it"));
                    stuck.push(entry);
                }
            }
        }
        // Only what is durable, and what systemd has heard of, is forgotten.
        let settled = match self.scope.machine.files.settle() {
            Ok(()) => self.reload_if_due().await,
            Err(why) => Err(why),
        };
        for key in removed {
            match &settled {
                Ok(()) => self.ledger.write([Record::Removed { origin: key.0, id: key.1 }])?,
                Err(why) => self.fail(&key, why.clone().during("remove it")),
            }
        }
        self.ledger.commit()
    }

    /// Takes a resource off the machine. The ledger has it still.
    async fn remove(&mut self, key: &Key, entry: &Entry) -> Result<(), Failure> {
        // First, so that a folder of the host's that holds nothing else is seen to be empty.
        for claim in claims(&entry.resource)? {
            claim.as_path().into_iter().for_each(|path| self.scope.machine.files.sweep(path));
        }
        let steps = prepare_removal(self.scope, entry).await?;
        if steps.iter().any(Step::restarts) && !entry.restarting {
            // What is put back is read by what is restarted: after a kill in between it is restarted all the same.
            let entry = Entry { complete: false, restarting: true, ..entry.clone() };
            self.ledger.write([Record::Entry(Box::new(entry))])?;
            self.ledger.commit()?;
        }
        for step in &steps {
            self.take(key, step).await?;
        }
        Ok(())
    }

    /// Applies the first of these, and with it as many as can be taken together; returns the others.
    async fn apply_some<'t>(&mut self, todo: &'t [Todo<'a>]) -> Result<&'t [Todo<'a>], Failure> {
        let mut jobs: Vec<Job<'a>> = Vec::new();
        let mut taken = 0;
        for next in todo {
            if !joins(next, &jobs) {
                break;
            }
            taken += 1;
            let key = next.key();
            if self.outcome.failed.contains_key(&(key.0, key.1.to_string())) {
                continue;
            }
            if next.resource.observe_only {
                self.observe(next).await?;
                continue;
            }
            if let Some(blocking) = self.blocking(next) {
                self.fail(&key, Failure::new(format!("it waits for {blocking}, which failed")));
                continue;
            }
            match prepare(self.scope, self.ledger.memory(), next.origin, next.resource, &BTreeSet::new())
                .await
            {
                Err(why) => self.fail(&key, why),
                Ok(prepared) if prepared.steps.is_empty() => self.settle(next, prepared)?,
                Ok(prepared) => {
                    let rank = Rank::of(next.resource);
                    if rank == Rank::Alone && !jobs.is_empty() {
                        // It was only looked at: its turn comes once these are applied.
                        taken -= 1;
                        break;
                    }
                    let now = self.scope.machine.clock.elapsed();
                    if let Err(NotYet { why, wait }) =
                        self.patience.may_try(next.origin, next.resource, &prepared.seen, now)
                    {
                        self.outcome.again_in =
                            Some(self.outcome.again_in.map_or(wait, |other| other.min(wait)));
                        self.fail(&key, why);
                        continue;
                    }
                    self.patience.tried(next.origin, next.resource, &prepared.seen, now);
                    self.intend(next, &prepared)?;
                    jobs.push(Job { todo: *next, rank, prepared, failed: None });
                    if rank == Rank::Alone {
                        break;
                    }
                }
            }
        }
        self.ledger.commit()?;
        self.run(&mut jobs).await;
        for job in jobs {
            self.finish(job).await?;
        }
        Ok(&todo[taken..])
    }

    /// Gives places anew where resources were not applied in their order, because one failed or the list changed: what
    /// is removed later is removed in the reverse of the order in which it stands now.
    fn keep_order(&mut self, todo: &[Todo<'_>]) -> Result<(), Failure> {
        let mut last = 0;
        for todo in todo {
            let memory = self.ledger.memory();
            let Some(entry) = memory.entries.get(&todo.key()) else { continue };
            last = if entry.place > last {
                entry.place
            } else {
                let place = memory.next_change();
                self.ledger.write([Record::Entry(Box::new(Entry { place, ..entry.clone() }))])?;
                place
            };
        }
        Ok(())
    }

    /// Remembers since when and with what at first something fails, and forgets what no longer does.
    fn remember_failing(&mut self) -> Result<(), Failure> {
        let (known, failed) = (&self.ledger.memory().failing, &self.outcome.failed);
        // Of what is not known to be declared it is not known whether it still fails.
        let is_known = |origin: Origin| origin == Origin::Carried || self.desired.assigned.is_some();
        let mended = known.keys().filter(|key| !failed.contains_key(*key) && is_known(key.0));
        let mended = mended.map(|(origin, id)| Note::Mended { origin: *origin, id: id.clone() });
        let new = failed.iter().filter(|(key, _)| !known.contains_key(*key));
        let new = new.map(|((origin, id), why)| Note::failing(*origin, id, self.desired.now, why));
        let notes: Vec<Record> = mended.chain(new).map(Record::Note).collect();
        self.ledger.write(notes)
    }

    /// Which failed resource this one waits for.
    fn blocking(&self, todo: &Todo<'_>) -> Option<ResourceId> {
        let failed = |id: &&ResourceId| {
            self.outcome.failed.contains_key(&(todo.origin, id.to_string()))
                && self.desired.observes(todo.origin, id) != Some(true)
        };
        waits_for(todo.resource).find(failed).cloned()
    }

    /// Remembers a resource that needs nothing.
    fn settle(&mut self, todo: &Todo<'_>, prepared: Prepared) -> Result<(), Failure> {
        let known = self.ledger.memory().entries.get(&todo.key());
        let is_known = known.is_some_and(|entry| {
            entry.complete && entry.resource == *todo.resource && entry.seen == prepared.seen
        });
        if !is_known {
            // Adopted as it is, or declared otherwise to no effect, or completed before a kill.
            let mut records = self.repaired(todo);
            let changed = known.map(|entry| entry.changed);
            let mut entry = self.entry(todo, prepared, changed);
            entry.complete = true;
            records.push(Record::Entry(Box::new(entry)));
            self.ledger.write(records)?;
        }
        self.outcome.applied.push(todo.key());
        Ok(())
    }

    /// Remembers what is about to be done, and what was found.
    fn intend(&mut self, todo: &Todo<'_>, prepared: &Prepared) -> Result<(), Failure> {
        let known = self.ledger.memory().entries.get(&todo.key());
        let mut records = Vec::new();
        let mut drift = known.and_then(|entry| entry.drift);
        let found = prepared.drift();
        if !found.is_empty() && drift.is_none() {
            let number = self.ledger.memory().last_drift + 1;
            tracing::info!(resource = %todo.resource.id, found = found.join("; "), "drift");
            self.outcome.drifted += 1;
            drift = Some(number);
            records.push(Record::Drift(Drift {
                number,
                resource: todo.resource.id.clone(),
                noticed_at: self.desired.now,
                found,
                repaired_at: None,
            }));
        }
        let restarting =
            prepared.steps.iter().any(Step::restarts) || known.is_some_and(|entry| entry.restarting);
        let seen = known.map(|entry| entry.seen.clone()).unwrap_or_default();
        let prepared = Prepared {
            steps: Vec::new(),
            before: prepared.before.clone(),
            seen,
            was_applied: false,
            found: None,
        };
        let entry = Entry { restarting, drift, ..self.entry(todo, prepared, None) };
        records.push(Record::Entry(Box::new(entry)));
        self.ledger.write(records)
    }

    fn entry(&self, todo: &Todo<'_>, prepared: Prepared, changed: Option<u64>) -> Entry {
        let memory = self.ledger.memory();
        let place = memory.entries.get(&todo.key()).map(|entry| entry.place);
        // A change has a number of its own, so the next place is above all earlier ones.
        let changed = changed.unwrap_or_else(|| memory.next_change());
        Entry {
            origin: todo.origin,
            resource: todo.resource.clone(),
            complete: false,
            before: prepared.before,
            place: place.unwrap_or(changed),
            changed,
            seen: prepared.seen,
            restarting: false,
            drift: None,
        }
    }

    /// Looks again at what was applied, and remembers how it went.
    async fn finish(&mut self, job: Job<'a>) -> Result<(), Failure> {
        let todo = job.todo;
        let key = todo.key();
        let outcome = match job.failed {
            Some(why) => Err(why),
            None => self.complete(&todo).await,
        };
        let before = match outcome {
            Ok(before) => before,
            Err(why) => {
                self.patience.failed(key.0, &key.1, &why);
                self.fail(&key, why);
                return Ok(());
            }
        };
        let mut records = self.repaired(&todo);
        // What was put back while it was applied need not be put back again.
        if let Some(entry) = self.ledger.memory().entries.get(&key)
            && entry.before != before
        {
            records.push(Record::Entry(Box::new(Entry { before, ..entry.clone() })));
        }
        records.push(Record::Completed { origin: key.0, id: key.1.clone(), seen: job.prepared.seen });
        self.ledger.write(records)?;
        self.outcome.applied.push(key);
        Ok(())
    }

    /// Takes the steps that could only be seen once the others were taken, and demands that none is left then. Returns
    /// what is still to be put back on removal.
    async fn complete(&mut self, todo: &Todo<'_>) -> Result<serde_json::Value, Failure> {
        for step in self.left_to_do(todo).await?.steps {
            self.take(&todo.key(), &step).await?;
        }
        self.reload_if_due().await?;
        let Prepared { steps, before, .. } = self.left_to_do(todo).await?;
        let left: Vec<String> = steps.iter().map(ToString::to_string).collect();
        if left.is_empty() {
            return Ok(before);
        }
        Err(Failure::new(format!(
            "it is not as declared after every step was taken; still to do: {}",
            left.join("; ")
        )))
    }

    /// What the machine lacks to be as declared. Whether it was restarted is not among it: it was.
    async fn left_to_do(&self, todo: &Todo<'_>) -> Result<Prepared, Failure> {
        let mut memory = Memory::default();
        if let Some(entry) = self.ledger.memory().entries.get(&todo.key()).cloned() {
            // Seen as they are: so is what it reads, and none of it changed.
            let mut seen = BTreeMap::new();
            for id in restart_on(todo.resource) {
                let key = (todo.origin, id.clone());
                if let Some(read) = self.ledger.memory().entries.get(&key) {
                    seen.insert(id.clone(), read.changed);
                    memory.entries.insert(key, read.clone());
                }
            }
            memory.entries.insert(todo.key(), Entry { complete: true, restarting: false, seen, ..entry });
        }
        prepare(self.scope, &memory, todo.origin, todo.resource, &BTreeSet::new()).await
    }

    /// The record that an earlier drift of this resource is put right, if there was one.
    fn repaired(&self, todo: &Todo<'_>) -> Vec<Record> {
        let memory = self.ledger.memory();
        let number = memory.entries.get(&todo.key()).and_then(|entry| entry.drift);
        let drift = number.and_then(|number| memory.drift.iter().find(|drift| drift.number == number));
        drift
            .map(|drift| Record::Drift(Drift { repaired_at: Some(self.desired.now), ..drift.clone() }))
            .into_iter()
            .collect()
    }

    fn fail(&mut self, key: &Key, why: Failure) {
        self.outcome.failed.insert((key.0, key.1.to_string()), why);
    }
}
