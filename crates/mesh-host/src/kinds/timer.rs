//! The kind `timer`: `NAME.timer` and `NAME.service` of systemd, both the host's, the timer enabled and running.
//!
//! Each of the two is kept and given up as a `unit` is ([`super::unit`]). A run that has begun is left to its end when what
//! is declared changes, and is stopped when the resource is removed.

mod unit_file;

use std::borrow::Cow;

use mesh_wire::kinds::{TimerSpec, UnitSpec};
use serde::{Deserialize, Serialize};

use super::{
    Claim, Kind, Memory,
    unit::{Unit, UnitBefore, UnitObserved},
};
use crate::{
    failure::Failure,
    machine::{Machine, files::FileStep, units::UnitStep},
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Timer;

/// What the machine has of the two units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimerObserved {
    /// `NAME.timer`.
    pub timer: UnitObserved,
    /// `NAME.service`.
    pub service: UnitObserved,
}

/// What the machine had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimerBefore {
    /// `NAME.timer`.
    pub timer: UnitBefore,
    /// `NAME.service`.
    pub service: UnitBefore,
}

/// The names of the two units: what is timed, and what runs.
pub fn units_of(name: &str) -> [String; 2] {
    [format!("{name}.timer"), format!("{name}.service")]
}

/// The two units, as if each were declared by itself.
fn units(spec: &TimerSpec) -> (UnitSpec, UnitSpec) {
    let [timer, service] = units_of(&spec.name);
    let unit = |name, content, wanted| UnitSpec {
        name,
        content: Some(content),
        enabled: wanted,
        active: wanted,
        ..UnitSpec::default()
    };
    (unit(timer, unit_file::timer(spec), Some(true)), unit(service, unit_file::service(spec), None))
}

impl Kind for Timer {
    type Spec = TimerSpec;
    type Observed = TimerObserved;
    type Before = TimerBefore;

    fn claims(spec: &TimerSpec) -> Vec<Claim> {
        let (timer, service) = units(spec);
        Unit::claims(&timer).into_iter().chain(Unit::claims(&service)).collect()
    }

    fn subject(spec: &TimerSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &TimerSpec) -> Result<TimerObserved, Failure> {
        let (timer, service) = units(spec);
        Ok(TimerObserved {
            timer: Unit::observe(machine, &timer).await?,
            service: Unit::observe(machine, &service).await?,
        })
    }

    fn found(spec: &TimerSpec, observed: &TimerObserved) -> Option<String> {
        let (timer, service) = units(spec);
        let found = [Unit::found(&timer, &observed.timer), Unit::found(&service, &observed.service)];
        let words: Vec<String> = found.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn before(spec: &TimerSpec, observed: &TimerObserved, earlier: Option<&TimerBefore>) -> TimerBefore {
        let (timer, service) = units(spec);
        TimerBefore {
            timer: Unit::before(&timer, &observed.timer, earlier.map(|before| &before.timer)),
            service: Unit::before(&service, &observed.service, earlier.map(|before| &before.service)),
        }
    }

    fn plan(spec: &TimerSpec, observed: &TimerObserved, memory: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let (timer, service) = units(spec);
        let plan = |unit: &UnitSpec, observed: &UnitObserved, before: &UnitBefore| {
            let (changed, reads) = (memory.changed.clone(), memory.reads.clone());
            let memory = Memory { before: before.clone(), applied: None, changed, reads };
            Unit::plan(unit, observed, &memory)
        };
        let mut steps = plan(&service, &observed.service, &memory.before.service)?;
        // The next run is another one anyway.
        steps.retain(|step| !step.restarts());
        steps.extend(plan(&timer, &observed.timer, &memory.before.timer)?);
        Ok(in_order(steps))
    }

    fn remove(
        spec: &TimerSpec,
        observed: &TimerObserved,
        before: &TimerBefore,
    ) -> Result<Vec<Step>, Failure> {
        let (timer, service) = units(spec);
        // The timer first, so that it starts nothing meanwhile.
        let mut steps = Unit::remove(&timer, &observed.timer, &before.timer)?;
        steps.extend(Unit::remove(&service, &observed.service, &before.service)?);
        Ok(steps)
    }

    fn restart(spec: &TimerSpec, observed: &TimerObserved, before: &TimerBefore) -> Option<Step> {
        Unit::restart(&units(spec).0, &observed.timer, &before.timer)
    }
}

/// What is to be kept is kept before anything is written; systemd reads both files at once.
fn in_order(mut steps: Vec<Step>) -> Vec<Step> {
    let rank = |step: &Step| match step {
        Step::File(FileStep::Keep(_)) => 0,
        Step::File(_) => 1,
        Step::Unit(UnitStep::Reload) => 2,
        _ => 3,
    };
    steps.sort_by_key(rank);
    steps.dedup_by(|one, other| one == other && rank(one) == 2);
    steps
}
