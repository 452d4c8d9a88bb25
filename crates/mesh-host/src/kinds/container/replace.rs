//! How a service is replaced, in steps: what runs is stopped first, or the new one is started beside it first. Pure.
//!
//! Until the new one is ready the old one is kept. Whatever a host that was killed left behind is recognised by its name
//! and gone on from.

use mesh_wire::kinds::{ContainerSpec, Replace};

use super::{ContainerObserved, await_it, fetch, is_same, start};
use crate::{
    failure::Failure,
    kinds::{Memory, container::Container},
    machine::engine::{
        Back, Container as Found, Draft, EngineStep, State,
        replace::{failed_of, next_of, old_of},
    },
    step::Step,
};

/// After so long, what was not ready is tried again. A try costs the time in which the old one does not run.
const TRY_AGAIN_AFTER_S: i64 = 3600;

/// A replacement.
pub(super) struct Replacement<'a> {
    pub(super) spec: &'a ContainerSpec,
    pub(super) observed: &'a ContainerObserved,
    pub(super) memory: &'a Memory<Container>,
}

impl Replacement<'_> {
    fn back(&self) -> Back {
        Back { container: self.spec.name.clone(), grace_s: self.spec.stop_grace_s }
    }

    /// The step, with the way back.
    fn or_back(&self, step: EngineStep) -> Step {
        Step::Engine(EngineStep::OrBack { step: Box::new(step), back: self.back() })
    }

    fn all_or_back(&self, steps: Vec<Step>) -> Vec<Step> {
        let guarded = |step| match step {
            Step::Engine(step) => self.or_back(step),
            other => other,
        };
        steps.into_iter().map(guarded).collect()
    }

    fn is_restart(&self) -> bool {
        !self.memory.changed.is_empty()
    }

    fn stands(&self) -> bool {
        self.observed.found.as_ref().is_some_and(|found| is_same(self.spec, found))
    }

    /// What goes on from where an earlier replacement was cut off; none where none was, or nothing has to be gone on with
    /// before everything else.
    pub(super) fn unfinished(&self) -> Option<Vec<Step>> {
        let ContainerObserved { found, next, old, .. } = self.observed;
        let (stands, restart) = (self.stands(), self.is_restart());
        let began_beside = next.as_ref().is_some_and(|next| {
            next.state == State::Running && is_same(self.spec, next) && !stands && !restart
        });
        if began_beside && found.is_some() != old.is_some() {
            return Some(self.finish_beside(found.as_ref()));
        }
        // What stands in its place is not what is declared, or read what it reads before that changed.
        if old.is_some() && (!stands || restart) {
            let put_back = EngineStep::PutBack { back: self.back(), restarts: restart };
            let is_declared = old.as_ref().is_some_and(|old| is_same(self.spec, old));
            let wait = if is_declared { await_it(self.spec, &self.spec.name) } else { Vec::new() };
            return Some([Step::Engine(put_back)].into_iter().chain(wait).collect());
        }
        None
    }

    /// What is left of an earlier replacement and is not needed any more.
    pub(super) fn leftovers(&self) -> Vec<Step> {
        let ContainerObserved { next, old, failed, .. } = self.observed;
        let name = &self.spec.name;
        let failed = failed.as_ref().map(|failed| &failed.container);
        let all = [(next.as_ref(), next_of(name)), (old.as_ref(), old_of(name)), (failed, failed_of(name))];
        all.into_iter()
            .filter_map(|(found, name)| found.map(|found| self.take_away(found, name)))
            .flatten()
            .collect()
    }

    fn take_away(&self, found: &Found, container: String) -> Vec<Step> {
        let runs = matches!(found.state, State::Running | State::Other(_));
        let stop = runs.then(|| EngineStep::StopContainer {
            container: container.clone(),
            grace_s: self.spec.stop_grace_s,
            why: String::new(),
            restarts: false,
        });
        stop.into_iter().chain([EngineStep::RemoveContainer(container)]).map(Step::Engine).collect()
    }

    /// Why the declared container is not tried now though the one before it runs.
    pub(super) fn held(&self) -> Option<Failure> {
        let failed = self.observed.failed.as_ref()?;
        // A clock that was set back would hold for ever.
        let recent = (0..TRY_AGAIN_AFTER_S).contains(&failed.age_s);
        if !recent || !is_same(self.spec, &failed.container) || failed.container.reads() != self.memory.reads
        {
            return None;
        }
        let name = &self.spec.name;
        let end = match &failed.ended {
            Some(ended) => format!(" ({})", ended.in_words(self.spec.private_log)),
            None => String::new(),
        };
        Some(Failure::new(format!(
            "as declared it did not become ready when it was tried{end}: the container before it was put back; it is \
             tried again when what is declared or what it reads changes, when {} is removed, or an hour after the try",
            failed_of(name)
        )))
    }

    /// Of one that runs, or ran: with the way back.
    pub(super) fn with_way_back(&self, found: &Found, why: &str) -> Vec<Step> {
        let why = &format!("to replace it, because {why}");
        let next =
            Draft { name: next_of(&self.spec.name), ..Draft::of(self.spec).reading(&self.memory.reads) };
        let mut steps = fetch(self.spec, self.observed);
        steps.extend(self.leftovers());
        steps.push(Step::Engine(EngineStep::CreateContainer(Box::new(next))));
        let put_in_place = self.or_back(EngineStep::PutInPlace(self.spec.name.clone()));
        // One that ended by itself is not stopped; after a change it is, so that it is not held back any longer.
        let stop = found.state == State::Running || self.is_restart();
        let stop = stop.then(|| self.or_back(self.stop(why)));
        match self.spec.replace {
            Replace::StopFirst => {
                steps.extend(stop);
                steps.push(put_in_place);
                steps.extend(self.all_or_back(start(self.spec, &self.spec.name)));
            }
            Replace::StartFirst => {
                steps.extend(self.all_or_back(start(self.spec, &next_of(&self.spec.name))));
                steps.extend(stop);
                steps.push(put_in_place);
            }
        }
        steps.push(Step::Engine(EngineStep::RemoveContainer(old_of(&self.spec.name))));
        steps
    }

    /// The new one runs beside the old one already.
    fn finish_beside(&self, found: Option<&Found>) -> Vec<Step> {
        let mut steps = self.all_or_back(await_it(self.spec, &next_of(&self.spec.name)));
        if found.is_some_and(|found| matches!(found.state, State::Running | State::Other(_))) {
            steps.push(self.or_back(self.stop("to replace it by the one that was started beside it")));
        }
        steps.push(self.or_back(EngineStep::PutInPlace(self.spec.name.clone())));
        steps.push(Step::Engine(EngineStep::RemoveContainer(old_of(&self.spec.name))));
        steps
    }

    /// The declared one stands in its place: what it still lacks, with the way back while there is one.
    pub(super) fn judged_where(&self, steps: Vec<Step>) -> Vec<Step> {
        let steps = if self.observed.old.is_some() { self.all_or_back(steps) } else { steps };
        steps.into_iter().chain(self.leftovers()).collect()
    }

    fn stop(&self, why: &str) -> EngineStep {
        EngineStep::StopContainer {
            container: self.spec.name.clone(),
            grace_s: self.spec.stop_grace_s,
            why: why.to_owned(),
            restarts: self.is_restart(),
        }
    }
}
