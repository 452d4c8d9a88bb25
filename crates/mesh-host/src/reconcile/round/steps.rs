//! The steps of a round: many resources together where one sync or one reload does for all of them.

use mesh_wire::{Resource, Spec};

use super::{Key, Round, Todo};
use crate::{
    failure::Failure,
    machine::{
        files::{FileStep, Write},
        units::UnitStep,
    },
    reconcile::{order::waits_for, prepare::Prepared},
    step::Step,
};

/// A resource with steps to take.
pub(super) struct Job<'a> {
    pub(super) todo: Todo<'a>,
    pub(super) rank: Rank,
    pub(super) prepared: Prepared,
    pub(super) failed: Option<Failure>,
}

/// Jobs of the first three ranks are taken together, rank by rank: many files cost one sync, many units one reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Directory,
    File,
    Unit,
    Alone,
}

impl Rank {
    pub(super) fn of(resource: &Resource) -> Self {
        match resource.spec {
            Spec::Directory(_) => Self::Directory,
            Spec::File(_) => Self::File,
            Spec::Unit(_) | Spec::Timer(_) => Self::Unit,
            _ => Self::Alone,
        }
    }
}

impl<'a> Round<'a> {
    /// Takes the steps of all jobs.
    pub(super) async fn run(&mut self, jobs: &mut [Job<'a>]) {
        for rank in [Rank::Directory, Rank::File, Rank::Unit, Rank::Alone] {
            let places: Vec<usize> = (0..jobs.len()).filter(|place| jobs[*place].rank == rank).collect();
            for place in &places {
                let blocking = waits_for(jobs[*place].todo.resource)
                    .find(|id| jobs.iter().any(|job| job.failed.is_some() && job.todo.resource.id == **id));
                if let Some(id) = blocking {
                    jobs[*place].failed = Some(Failure::new(format!("it waits for {id}, which failed")));
                }
            }
            // First everything up to the content of files, for all jobs; the contents together; then the rest.
            let mut writes: Vec<(usize, Write)> = Vec::new();
            let mut later: Vec<(usize, Step)> = Vec::new();
            for place in places {
                let steps = std::mem::take(&mut jobs[place].prepared.steps);
                let mut written = false;
                for step in steps {
                    match step {
                        Step::File(FileStep::Write(write)) => {
                            written = true;
                            writes.push((place, write));
                        }
                        step if written || matches!(step, Step::Unit(_)) => later.push((place, step)),
                        step => self.take_for(jobs, place, &step).await,
                    }
                }
            }
            self.write(jobs, writes);
            // Every unit file is written now: once they are read, they are for all units.
            later.sort_by_key(|(_, step)| *step != Step::Unit(UnitStep::Reload));
            for (place, step) in later {
                self.take_for(jobs, place, &step).await;
            }
        }
        if let Err(why) = self.reload_if_due().await {
            let units = jobs.iter_mut().filter(|job| job.rank == Rank::Unit && job.failed.is_none());
            units.for_each(|job| job.failed = Some(why.clone()));
        }
    }

    /// Writes the files of several jobs together.
    fn write(&mut self, jobs: &mut [Job<'a>], mut writes: Vec<(usize, Write)>) {
        writes.retain(|(place, _)| jobs[*place].failed.is_none());
        for (place, write) in &writes {
            let todo = jobs[*place].todo;
            (self.progress)(todo.origin, &todo.resource.id, &Step::File(FileStep::Write(write.clone())));
            self.reload_due |= touches_units(&write.path);
        }
        let (places, writes): (Vec<usize>, Vec<Write>) = writes.into_iter().unzip();
        self.outcome.steps += writes.len();
        for ((place, write), done) in places.iter().zip(&writes).zip(self.scope.machine.files.write(&writes))
        {
            jobs[*place].failed = done.err().map(|why| why.during(format!("write {}", write.path)));
        }
    }

    async fn take_for(&mut self, jobs: &mut [Job<'a>], place: usize, step: &Step) {
        if jobs[place].failed.is_none() {
            jobs[place].failed = self.take(&jobs[place].todo.key(), step).await.err();
        }
    }

    /// Takes one step.
    pub(super) async fn take(&mut self, key: &Key, step: &Step) -> Result<(), Failure> {
        (self.progress)(key.0, &key.1, step);
        self.outcome.steps += 1;
        match step {
            Step::Unit(UnitStep::Reload) => {
                self.reload_due = true;
                return Ok(());
            }
            Step::Unit(UnitStep::Start(_) | UnitStep::Restart(..) | UnitStep::Enable(_)) => {
                self.reload_if_due().await?;
            }
            Step::File(step) => self.reload_due |= touches_units(step.path()),
            _ => {}
        }
        step.apply(self.scope.machine).await
    }

    pub(super) async fn reload_if_due(&mut self) -> Result<(), Failure> {
        if !self.reload_due {
            return Ok(());
        }
        self.reload_due = false;
        Step::Unit(UnitStep::Reload).apply(self.scope.machine).await
    }
}

/// Whether a resource may be taken together with these: what it waits for is settled, or of a lower rank.
pub(super) fn joins(next: &Todo<'_>, jobs: &[Job<'_>]) -> bool {
    let rank = Rank::of(next.resource);
    waits_for(next.resource).all(|needed| {
        jobs.iter()
            .filter(|job| job.todo.origin == next.origin && job.todo.resource.id == *needed)
            .all(|job| job.rank < rank && rank != Rank::Alone)
    })
}

/// Whether systemd has to read its unit files again when something at this path changed.
fn touches_units(path: &str) -> bool {
    ["/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/", "/run/systemd/system/"]
        .iter()
        .any(|folder| path.starts_with(folder))
}
