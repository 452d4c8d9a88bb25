//! The host itself: intake, ledger and reconcile put together. Called by the run loop, the commands and the bootstrap.
//!
//! It is told what to be by two origins that never touch each other's: what the machine *carries* and what the mesh
//! *assigned*. Both are in the ledger, so a round needs nobody.

mod recovery;
mod refusals;
#[cfg(test)]
mod tests;

use std::time::{Duration, UNIX_EPOCH};

use mesh_ids::{NodeName, Position, ResourceId};
use mesh_wire::{Drift, FailedVersion, Report, Resource, Spec, Upgrade};

use self::refusals::SaidRefusals;
use crate::{
    failure::{During as _, Failure},
    intake::{self, Refusal, Stored, Trust},
    kinds::{
        sysctl::path_of as sysctl_path,
        timer::units_of,
        unit::{drop_in_path, path_of as unit_path},
    },
    ledger::{Folder, Ledger, Lock, Memory, Origin, Record, Since, position_in},
    machine::Machine,
    paths::Paths,
    reconcile::{self, Declared, Desired, Outcome, Patience, Plan, Progress},
    upgrade,
};

/// Numbers of reports are taken in batches, so that a report costs no sync.
const REPORTS_AT_ONCE: u64 = 1000;

/// The host.
pub struct Host {
    paths: Paths,
    machine: Machine,
    lock: Lock,
    ledger: Ledger,
    trust: Option<Trust>,
    carried: Vec<Declared>,
    assigned: Option<Assigned>,
    /// Whether it is not known what was followed last, so that only a higher generation is followed.
    unsure: bool,
    /// Why the last declaration for this node that arrived was refused whole.
    refused: String,
    said_refusals: SaidRefusals,
    outcome: Outcome,
    patience: Patience,
    next_report: u64,
}

/// What the mesh assigned.
#[derive(Debug)]
struct Assigned {
    position: Position,
    not_after: i64,
    resources: Vec<Declared>,
}

/// What came of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It is followed from now on.
    Accepted(Position),
    /// It is not, for this reason.
    Refused(Refusal),
}

impl Host {
    /// Opens the ledger and reads what the machine should be. `trust`: whom a machine that has joined follows.
    pub async fn open(paths: &Paths, machine: Machine, trust: Option<Trust>) -> Result<Self, Failure> {
        let lock = Lock::new(&paths.lock())?;
        let held = lock.hold().await?;
        let ledger = Ledger::open(Box::new(Folder::new(paths.ledger(), paths.ledger_note())))?;
        let mut host = Self {
            paths: paths.clone(),
            machine,
            lock,
            ledger,
            trust,
            carried: Vec::new(),
            assigned: None,
            unsure: false,
            refused: String::new(),
            said_refusals: SaidRefusals::default(),
            outcome: Outcome::default(),
            patience: Patience::default(),
            next_report: 0,
        };
        host.begin_counting()?;
        host.load();
        drop(held);
        Ok(host)
    }

    /// Reports and drifts are numbered from the clock on in a new ledger, and reports where it cannot be read, so that a
    /// machine that lost its old one does not repeat numbers that were already heard.
    fn begin_counting(&mut self) -> Result<(), Failure> {
        let now = self.number_of_now();
        if let Some(left) = self.ledger.left() {
            self.next_report = self.next_report.max(left.reports);
            return Ok(());
        }
        if self.ledger.unreadable().is_none() && self.ledger.memory().reports == 0 {
            // Of a host that was here before, whose ledger nobody wanted any more: what stood there is still a person's.
            let kept = self.machine.files.all_kept()?;
            if !kept.is_empty() {
                self.ledger.write([Record::Salvaged { kept }])?;
            }
            self.ledger.write([Record::Counted { reports: now, drift: now, change: 0, floor: i64::MIN }])?;
            self.ledger.commit()?;
        }
        self.next_report = self.next_report.max(self.ledger.memory().reports);
        Ok(())
    }

    fn number_of_now(&self) -> u64 {
        u64::try_from(self.machine.clock.now()).unwrap_or(0).max(1)
    }

    /// Takes from the ledger what the machine should be. What is stored is verified again.
    fn load(&mut self) {
        let memory = self.ledger.memory();
        self.carried = memory.carried.iter().cloned().map(Ok).collect();
        (self.assigned, self.unsure) = (None, false);
        if let Some((reason, _)) = self.ledger.unreadable() {
            tracing::error!(reason, "the ledger cannot be read: what runs is kept, nothing is applied");
            self.refused = format!("the ledger of this node cannot be read: {reason}; what runs is kept");
            return;
        }
        let (Some(trust), accepted) = (&self.trust, &memory.accepted) else { return };
        if memory.doubted {
            self.unsure = true;
            recovery::DOUBTED.clone_into(&mut self.refused);
            return;
        }
        let Some(frame) = accepted else { return };
        match intake::accept(frame.as_bytes(), trust, Stored::Nothing) {
            Ok(accepted) => self.assigned = Some(Assigned::of(&accepted)),
            Err(why) => {
                tracing::error!(%why, "the stored declaration does not verify: what runs is kept");
                self.unsure = true;
                self.refused = format!("the stored declaration does not verify: {why}; what runs is kept");
            }
        }
    }

    /// Waits for other processes, and reads the ledger again if one of them wrote it.
    async fn hold(&mut self) -> Result<crate::ledger::Held, Failure> {
        let held = self.lock.hold().await?;
        if !self.ledger.is_ours()? {
            self.ledger = Ledger::open(Box::new(Folder::new(self.paths.ledger(), self.paths.ledger_note())))?;
            self.load();
        }
        Ok(held)
    }

    /// Judges a frame, and has it durable before it says so. What it declares is applied by the next round.
    pub async fn accept(&mut self, frame: &[u8]) -> Result<Taken, Failure> {
        let held = self.hold().await?;
        let Some(trust) = &self.trust else {
            return Err(Failure::new("this machine has joined no mesh"));
        };
        let known = self.assigned.as_ref().map(|assigned| assigned.position);
        let frame_held = self.ledger.memory().accepted.as_deref();
        let stored = match (self.ledger.unreadable(), frame_held, known) {
            (Some((_, known)), ..) => Stored::Unreadable { known },
            _ if self.unsure => Stored::Unreadable { known: frame_held.and_then(position_in) },
            (None, Some(frame), Some(position)) => Stored::Declaration { position, frame: frame.as_bytes() },
            _ => Stored::Nothing,
        };
        let accepted = match intake::accept(frame, trust, stored) {
            Ok(accepted) => accepted,
            Err(refusal) => {
                self.said_refusals.say(&refusal, self.machine.clock.elapsed());
                if refusal.concerns_node() {
                    self.refused = refusal.to_string();
                }
                return Ok(Taken::Refused(refusal));
            }
        };
        let issued = accepted.declaration.issued;
        // The signature verified, so this is JSON; what is not UTF-8 in it could not have been read.
        let text = std::str::from_utf8(frame).during("keep the declaration")?.to_owned();
        let record = Record::Accepted { frame: text, issued };
        let assigned = Assigned::of(&accepted);
        if self.ledger.unreadable().is_some() || self.ledger.memory().doubted {
            self.recover(record, Some(&assigned.resources))?;
        } else if !accepted.again {
            self.ledger.write([record])?;
            self.ledger.commit()?;
        }
        let position = assigned.position;
        (self.assigned, self.unsure) = (Some(assigned), false);
        self.refused.clear();
        drop(held);
        Ok(Taken::Accepted(position))
    }

    /// Makes the machine as declared by both origins.
    pub async fn round(&mut self, progress: Progress<'_>) -> Result<&Outcome, Failure> {
        let held = self.hold().await?;
        self.reconcile(progress).await?;
        drop(held);
        Ok(&self.outcome)
    }

    /// From now on the machine carries these, in this order, and nothing else; makes it so.
    pub async fn carry(
        &mut self,
        resources: Vec<Resource>,
        progress: Progress<'_>,
    ) -> Result<&Outcome, Failure> {
        let held = self.hold().await?;
        self.refuse_unreadable("nothing is applied")?;
        if self.ledger.memory().carried != resources {
            self.ledger.write([Record::Carried { resources }])?;
            self.ledger.commit()?;
            self.load();
        }
        self.reconcile(progress).await?;
        drop(held);
        Ok(&self.outcome)
    }

    async fn reconcile(&mut self, progress: Progress<'_>) -> Result<(), Failure> {
        let desired = desired(&self.carried, self.assigned.as_ref(), self.now());
        let outcome =
            reconcile::round(&self.machine, &mut self.ledger, desired, &mut self.patience, progress).await?;
        for (key @ (origin, id), why) in &outcome.failed {
            if self.outcome.failed.get(key) != Some(why) {
                tracing::warn!(%origin, id, %why, "failed");
            }
        }
        for (origin, id) in self.outcome.failed.keys().filter(|key| !outcome.failed.contains_key(*key)) {
            tracing::info!(%origin, id, "no longer fails");
        }
        self.outcome = outcome;
        Ok(())
    }

    /// What [`Self::carry`] would do.
    pub async fn plan_carried(&self, carried: &[Declared]) -> Plan {
        let desired = desired(carried, self.assigned.as_ref(), self.now());
        reconcile::plan(&self.machine, self.ledger.memory(), desired).await
    }

    /// What [`Self::round`] would do.
    pub async fn plan(&self) -> Plan {
        self.plan_carried(&self.carried).await
    }

    /// Takes everything assigned off the machine, and everything carried too if told so; puts back what stood there.
    pub async fn remove_all(&mut self, carried: bool, progress: Progress<'_>) -> Result<&Outcome, Failure> {
        let held = self.hold().await?;
        self.refuse_unreadable("nothing is removed")?;
        if carried {
            self.ledger.write([Record::Carried { resources: Vec::new() }])?;
            self.carried.clear();
        }
        let desired = Desired { carried: &self.carried, assigned: Some(&[]), stale: false, now: self.now() };
        self.outcome =
            reconcile::round(&self.machine, &mut self.ledger, desired, &mut self.patience, progress).await?;
        drop(held);
        Ok(&self.outcome)
    }

    /// The time, but never earlier than what a declaration that verified was issued: a dead clock stops nothing.
    fn now(&self) -> i64 {
        self.machine.clock.now().max(self.ledger.memory().floor)
    }

    /// The newest declaration that was accepted.
    pub fn position(&self) -> Option<Position> {
        self.assigned.as_ref().map(|assigned| assigned.position)
    }

    /// Whether the declaration is past its time.
    pub fn is_stale(&self) -> bool {
        self.assigned.as_ref().is_some_and(|assigned| assigned.not_after < self.now())
    }

    /// Whose declarations are followed; `None` on a machine that has joined no mesh.
    pub fn node(&self) -> Option<&NodeName> {
        self.trust.as_ref().map(|trust| &trust.node)
    }

    /// What the last round did.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Why the last declaration that arrived was refused whole; empty where it was not.
    pub fn refused(&self) -> &str {
        &self.refused
    }

    /// What is remembered.
    pub fn memory(&self) -> &Memory {
        self.ledger.memory()
    }

    /// Everything the machine should be, by origin.
    pub fn declared(&self) -> impl Iterator<Item = (Origin, &Declared)> {
        let carried = self.carried.iter().map(|declared| (Origin::Carried, declared));
        let assigned = self.assigned.iter().flat_map(|assigned| &assigned.resources);
        carried.chain(assigned.map(|declared| (Origin::Assigned, declared)))
    }

    /// What is true of this node now, without a number; facts and boot are the caller's.
    pub fn report(&self) -> Option<Report> {
        let mut report = Report::new(self.node()?.clone());
        let outcome = &self.outcome;
        let upgrade = self.machine.program.state().unwrap_or_default();
        let assigned = outcome.applied.iter().filter(|(origin, _)| *origin == Origin::Assigned);
        // Which version runs is not decided before the trial is over.
        let open = |id: &ResourceId| upgrade.trial.is_some() && self.is_of_host(id);
        report.applied = assigned.filter(|(_, id)| !open(id)).map(|(_, id)| id.to_string()).collect();
        for (key @ (origin, id), why) in &outcome.failed {
            let id = if *origin == Origin::Assigned { id.clone() } else { format!("{origin} {id}") };
            report.failed.insert(id, self.words_of(key, why));
        }
        report.refused.clone_from(&self.refused);
        report.carried = self.carried.iter().flatten().flat_map(|resource| resource.spec.binds()).collect();
        report.carried.sort_unstable();
        report.carried.dedup();
        report.position = self.position();
        report.host_version = Some(env!("CARGO_PKG_VERSION").to_owned());
        report.drift = self.memory().drift.iter().cloned().collect();
        report.upgrade = told(&upgrade);
        Some(report)
    }

    /// Whether a resource is of the kind `host`.
    fn is_of_host(&self, id: &ResourceId) -> bool {
        let declared = self.declared().filter_map(|(_, declared)| declared.as_ref().ok());
        declared.into_iter().any(|resource| resource.id == *id && matches!(resource.spec, Spec::Host(_)))
    }

    /// What is remembered of upgrades of the host; nothing where that cannot be read.
    pub fn upgrade(&self) -> upgrade::State {
        self.machine.program.state().unwrap_or_default()
    }

    /// Since when this fails, and with what it began.
    pub fn failing_since(&self, key: &(Origin, String)) -> Option<&Since> {
        self.memory().failing.get(key)
    }

    fn words_of(&self, key: &(Origin, String), why: &Failure) -> String {
        let why = why.to_string();
        let Some(since) = self.failing_since(key) else { return why };
        let seconds = u64::try_from(since.at).unwrap_or(0);
        let time = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
        match since.other_than(&why) {
            None => format!("{why} (failing since {time})"),
            Some(first) => format!("{why} (failing since {time}, at first with: {first})"),
        }
    }

    /// The number of the next report.
    pub async fn number_report(&mut self) -> Result<u64, Failure> {
        let _held = self.hold().await?;
        if self.ledger.unreadable().is_some() {
            self.next_report = self.next_report.max(self.number_of_now());
        } else if self.next_report >= self.ledger.memory().reports {
            let reports = self.next_report + REPORTS_AT_ONCE;
            self.ledger.write([Record::Counted { reports, drift: 0, change: 0, floor: i64::MIN }])?;
            self.ledger.commit()?;
        }
        self.next_report += 1;
        Ok(self.next_report)
    }

    /// The paths that resources own, to be watched.
    pub fn watched_paths(&self) -> Vec<String> {
        let resources = self.declared().filter_map(|(_, declared)| declared.as_ref().ok());
        resources
            .flat_map(|resource| match &resource.spec {
                Spec::File(file) => vec![file.path.clone()],
                Spec::Directory(directory) => vec![directory.path.clone()],
                Spec::Sysctl(sysctl) => vec![sysctl_path(&sysctl.name)],
                Spec::Unit(unit) => {
                    let file = unit.content.as_ref().map(|_| unit_path(&unit.name));
                    file.into_iter()
                        .chain(unit.drop_ins.keys().map(|name| drop_in_path(&unit.name, name)))
                        .collect()
                }
                Spec::Timer(timer) => units_of(&timer.name).iter().map(|unit| unit_path(unit)).collect(),
                _ => Vec::new(),
            })
            .collect()
    }

    /// Forgets what the mesh declared, once nothing of it is left on the machine.
    pub fn forget_assigned(&mut self) -> Result<(), Failure> {
        self.refuse_unreadable("nothing is forgotten")?;
        self.ledger.write([Record::Left])?;
        self.ledger.commit()?;
        self.assigned = None;
        Ok(())
    }

    /// Ends without letting another process at the machine: the lock is the caller's.
    pub async fn close(self) -> Result<crate::ledger::Held, Failure> {
        self.lock.hold().await
    }

    /// Forgets the drift that a confirmed report carried, as far as nothing new is known of it.
    pub async fn confirmed(&mut self, report: &Report) -> Result<(), Failure> {
        let held = self.hold().await?;
        let same = |drift: &&Drift| self.memory().drift.contains(drift);
        let numbers: Vec<u64> = report.drift.iter().filter(same).map(|drift| drift.number).collect();
        if !numbers.is_empty() {
            self.ledger.write([Record::Delivered { numbers }])?;
            self.ledger.commit()?;
        }
        drop(held);
        Ok(())
    }
}

/// How it stands with upgrades, for the report.
fn told(state: &upgrade::State) -> Option<Upgrade> {
    let on_trial = state.trial.is_some() && state.waiting().is_none();
    let failed = state.failed.iter().map(|failed| FailedVersion {
        version: failed.version.clone(),
        digest: failed.digest.clone(),
        reason: failed.why.clone(),
    });
    let told = Upgrade { on_trial, failed: failed.collect() };
    (told != Upgrade::default()).then_some(told)
}

fn desired<'a>(carried: &'a [Declared], assigned: Option<&'a Assigned>, now: i64) -> Desired<'a> {
    Desired {
        carried,
        assigned: assigned.map(|assigned| assigned.resources.as_slice()),
        stale: assigned.is_some_and(|assigned| assigned.not_after < now),
        now,
    }
}

impl Assigned {
    fn of(accepted: &intake::Accepted) -> Self {
        let declaration = &accepted.declaration;
        Self {
            position: declaration.position(),
            not_after: declaration.not_after,
            resources: declaration.resources(),
        }
    }
}
