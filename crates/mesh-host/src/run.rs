//! The daemon: a round when a declaration arrived, when the machine changed, and every half minute in any case.
//!
//! One thread does everything on the machine, one thing at a time, and may wait for a disk. It needs no network: the
//! uplink has a thread of its own ([`beside`]), and a machine that has joined no mesh has none. Ending it leaves everything
//! running.

mod beside;
mod panics;
mod trial;

use std::{rc::Rc, sync::Arc, time::Duration};

use self::{beside::Pulse, trial::Waiting};
pub use self::{panics::end_on_panic, trial::OnTrial};
use mesh_wire::{Boot, Facts, Report};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    time::{Instant, interval, sleep_until},
};

use crate::{
    failure::{During as _, Failure},
    host::{Host, Taken},
    machine::{Machine, facts, watch::FileWatch},
    paths::Paths,
    report::{self, FromLink, HostEnd, LinkState},
    status::Status,
    uplink::Uplink,
};

/// Between two rounds that nothing asked for; up to a sixth of it is added, so that a fleet does not march in step.
const PERIOD: Duration = Duration::from_secs(30);
/// So many rounds may follow each other as fast as changes come; then one every [`REFILL`].
const BURST: u32 = 8;
const REFILL: Duration = Duration::from_secs(2);
/// A change is rarely alone: so long is waited for the others.
const SETTLE: Duration = Duration::from_millis(50);

/// What the daemon is given beside its host.
pub struct Ends {
    /// Towards the uplink.
    pub host: HostEnd,
    /// The uplink; none on a machine that has joined no mesh.
    pub uplink: Option<Uplink>,
    /// Of the link, until the uplink says otherwise.
    pub state: LinkState,
    /// Where this program is on trial.
    pub trial: Option<OnTrial>,
}

/// Why the daemon ends.
enum End {
    /// It was told to.
    Told,
    /// Another program waits to be tried.
    MakesWay,
}

/// Runs until it is told to end, or another program is to be tried.
pub async fn run(paths: &Paths, machine: Machine, host: Host, ends: Ends) -> Result<(), Failure> {
    let Ends { host: link, uplink, state, trial } = ends;
    let mut end = signal(SignalKind::terminate()).during("listen to signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).during("listen to signals")?;
    let tasks = tokio::task::LocalSet::new();
    let pulse = Pulse::default();
    let seen = pulse.clone();
    let mut ended = beside::start(move || beside::outwards(uplink, seen))?;
    tasks.spawn_local(async move { pulse.beat().await });
    let changes = Rc::new(Notify::new());
    listen(&tasks, &machine, &changes);
    let watch = FileWatch::new(paths.root())?;
    let mut daemon = Daemon {
        paths: paths.clone(),
        waiting: Waiting::new(Rc::clone(&machine.program)),
        machine,
        host,
        link,
        state,
        trial,
        watch,
        boot_id: facts::boot_id(),
        trouble: String::new(),
        has_more: false,
        said: None,
        shown: None,
        facts: Facts::default(),
        tokens: BURST,
        again: None,
    };
    let end = tasks
        .run_until(async {
            tokio::select! {
                outcome = daemon.work(&changes) => outcome.map(|()| End::MakesWay),
                _ = end.recv() => Ok(End::Told),
                _ = interrupt.recv() => Ok(End::Told),
                _ = &mut ended => Err(Failure::new("the thread of the uplink has ended")),
            }
        })
        .await?;
    if matches!(end, End::Told) && daemon.trial.is_some() {
        daemon.machine.program.told_to_end()?;
    }
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    tracing::info!("ends; everything it keeps runs on");
    Ok(())
}

/// Passes on what systemd and the engine say.
fn listen(tasks: &tokio::task::LocalSet, machine: &Machine, changes: &Rc<Notify>) {
    let (units, notify) = (Rc::clone(&machine.units), Rc::clone(changes));
    tasks.spawn_local(async move {
        loop {
            units.changed().await;
            notify.notify_one();
        }
    });
    let (engine, notify) = (Rc::clone(&machine.engine), Rc::clone(changes));
    tasks.spawn_local(async move {
        loop {
            engine.changed().await;
            notify.notify_one();
        }
    });
}

fn period() -> Duration {
    let [jitter] = mesh_seal::random_bytes::<1>();
    PERIOD + PERIOD / 6 * u32::from(jitter) / 256
}

struct Daemon {
    paths: Paths,
    machine: Machine,
    host: Host,
    link: HostEnd,
    state: LinkState,
    /// Where this program is on trial, until it proved itself.
    trial: Option<OnTrial>,
    waiting: Waiting,
    watch: FileWatch,
    boot_id: String,
    /// Why nothing is applied at all.
    trouble: String,
    /// Whether the last report had no room for all drift.
    has_more: bool,
    /// The last report, without its number.
    said: Option<Report>,
    /// The last status.
    shown: Option<Status>,
    facts: Facts,
    /// How many rounds may follow at once.
    tokens: u32,
    /// When something is tried again that did not stay as declared.
    again: Option<Instant>,
}

impl Daemon {
    /// Until another program is to be tried.
    async fn work(&mut self, changes: &Notify) -> Result<(), Failure> {
        let mut hangup = signal(SignalKind::hangup()).during("listen to signals")?;
        let mut refill = interval(REFILL);
        let _ = self.link.accepted.send(self.host.position());
        self.round("the host started").await;
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        let mut next = Instant::now() + period();
        let mut due: Option<(Instant, &str)> = None;
        loop {
            if self.settle_upgrade().await? {
                return Ok(());
            }
            let soonest = self.again.map_or(next, |again| again.min(next));
            let soonest = self.trial.as_ref().map_or(soonest, |trial| trial.until().min(soonest));
            let at = due.filter(|_| self.tokens > 0).map_or(soonest, |(at, _)| at.min(soonest));
            tokio::select! {
                biased;
                said = self.link.from_link.recv(), if !self.link.from_link.is_closed() => {
                    if let Some(said) = said && self.hear(said).await {
                        self.round("a declaration arrived").await;
                    }
                }
                _ = hangup.recv() => due = Some((Instant::now(), "told to")),
                () = sleep_until(at) => {
                    let reason = due.take().map_or("it is time", |(_, reason)| reason);
                    self.tokens = self.tokens.saturating_sub(1);
                    self.round(reason).await;
                    next = Instant::now() + period();
                }
                heard = self.watch.changed() => {
                    heard?;
                    due = due.or(Some((Instant::now() + SETTLE, "a file changed")));
                }
                () = changes.notified() => due = due.or(Some((Instant::now() + SETTLE, "a unit or container changed"))),
                _ = refill.tick() => self.tokens = (self.tokens + 1).min(BURST),
            }
        }
    }

    /// Takes what the uplink says; whether there is something new to apply.
    async fn hear(&mut self, said: FromLink) -> bool {
        match said {
            FromLink::Frame { bytes, taken } => {
                let accepted = self.host.accept(&bytes).await;
                // Dropped or answered, it is done with.
                let _ = taken.send(());
                match accepted {
                    Ok(Taken::Accepted(position)) => {
                        tracing::info!(%position, "follows a declaration");
                        let _ = self.link.accepted.send(Some(position));
                        return true;
                    }
                    Ok(Taken::Refused(_)) => self.tell().await,
                    Err(why) => self.suffer(&why),
                }
            }
            FromLink::Confirmed(report) => {
                if let Err(why) = self.host.confirmed(&report).await {
                    self.suffer(&why);
                } else if self.has_more {
                    self.tell().await;
                }
            }
            FromLink::State(state) => {
                self.machine.program.is_connected(matches!(state, LinkState::Connected { .. }));
                if let Some(trial) = &mut self.trial {
                    trial.heard_link(&state);
                }
                self.state = state;
            }
        }
        self.show();
        false
    }

    /// Whether this program ends for another one to be tried. Fails where it is on trial and is given up.
    async fn settle_upgrade(&mut self) -> Result<bool, Failure> {
        let now = Instant::now();
        let Some(trial) = &mut self.trial else {
            let Some(other) = self.waiting.wants_way(now) else { return Ok(false) };
            tracing::info!(version = other.version, digest = %other.digest, "ends for another version to be tried");
            return Ok(true);
        };
        if trial.settle(&*self.machine.program, now)? {
            self.trial = None;
            self.tell().await;
            self.show();
        }
        Ok(false)
    }

    async fn round(&mut self, reason: &str) {
        let began = Instant::now();
        let outcome = self.host.round(&mut |_, id, step| tracing::info!(%id, "{step}")).await;
        if let Some(trial) = &mut self.trial {
            trial.heard_round(outcome.as_ref().map(|_| ()));
        }
        match outcome {
            Ok(outcome) => {
                let (steps, failed) = (outcome.steps, outcome.failed.len());
                self.trouble.clear();
                self.again = outcome.again_in.map(|wait| began + began.elapsed() + wait);
                let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                if steps > 0 {
                    tracing::info!(reason, steps, failed, took_ms, "round");
                } else {
                    tracing::debug!(reason, failed, took_ms, "round");
                }
            }
            Err(why) => self.suffer(&why),
        }
        self.watch.set(self.host.watched_paths().iter().map(String::as_str));
        self.facts = facts::facts(self.paths.root(), self.machine.engine.version().await);
        self.tell().await;
        self.show();
    }

    /// Nothing is applied: said once, and shown for as long as it lasts.
    fn suffer(&mut self, why: &Failure) {
        if self.trouble != why.to_string() {
            tracing::error!(%why, "nothing is applied");
            self.trouble = why.to_string();
        }
    }

    /// Reports, if something changed since the last report.
    async fn tell(&mut self) {
        let Some(mut report) = self.host.report() else { return };
        if report.refused.is_empty() {
            report.refused.clone_from(&self.trouble);
        }
        report.facts = Some(self.facts.clone());
        self.has_more = report::fit(&mut report);
        if self.said.as_ref() == Some(&report) {
            return;
        }
        let numbered = self.host.number_report().await;
        let count = match numbered {
            Ok(count) => count,
            Err(why) => return self.suffer(&why),
        };
        self.said = Some(report.clone());
        report.boot = Some(Boot { id: self.boot_id.clone(), count });
        let _ = self.link.report.send(Some(Arc::new(report)));
    }

    /// Writes the status file, if something changed.
    fn show(&mut self) {
        let status = Status::of(&self.host, &self.state, &self.trouble);
        if self.shown.as_ref() != Some(&status) {
            if let Err(why) = status.write(&self.machine) {
                tracing::warn!(%why, "the status file is not written");
            }
            self.shown = Some(status);
        }
    }
}
