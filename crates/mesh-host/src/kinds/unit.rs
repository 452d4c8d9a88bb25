//! The kind `unit`: a systemd unit, with its file where the host writes it. Restarts it when what it reads changed.

use std::borrow::Cow;

use mesh_wire::kinds::{Mode, UnitSpec};
use serde::{Deserialize, Serialize};

use super::{
    Claim, Kind, Memory,
    file::{found_instead, restore_steps, write_steps},
};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        files::{Content, Found, Meta},
        units::{Active, Load, UnitFound, UnitStep},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Unit;

/// What the machine has of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitObserved {
    /// The unit file in the folder of the machine's owner; looked at only where content is declared.
    pub file: Option<Found>,
    /// What systemd says.
    pub found: UnitFound,
}

/// What the machine had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitBefore {
    /// The unit file, where the host writes it.
    pub file: Option<Found>,
    /// Whether there was such a unit.
    pub existed: bool,
    /// Whether it started with the machine.
    pub enabled: Option<bool>,
    /// Whether it ran.
    pub active: bool,
}

/// Where the unit files of the machine's owner are (systemd.unit(5)).
pub fn path_of(name: &str) -> String {
    format!("/etc/systemd/system/{name}")
}

fn meta() -> Meta {
    Meta { mode: Mode::new(0o644), owner: "root".to_owned(), group: "root".to_owned() }
}

impl Kind for Unit {
    type Spec = UnitSpec;
    type Observed = UnitObserved;
    type Before = UnitBefore;

    fn claims(spec: &UnitSpec) -> Vec<Claim> {
        vec![Claim::new("unit", &spec.name), Claim::path(&path_of(&spec.name))]
    }

    fn subject(spec: &UnitSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &UnitSpec) -> Result<UnitObserved, Failure> {
        let file = spec.content.as_ref().map(|_| machine.files.look(&path_of(&spec.name))).transpose()?;
        Ok(UnitObserved { file, found: machine.units.look(&spec.name).await? })
    }

    fn found(spec: &UnitSpec, observed: &UnitObserved) -> Option<String> {
        let UnitObserved { file, found } = observed;
        let content = spec.content.as_ref().map(|content| Content::new(content.as_bytes()));
        let file = match (&content, file) {
            (Some(content), Some(file)) => found_instead(&path_of(&spec.name), content, &meta(), file),
            _ => None,
        };
        let runs = matches!(found.active, Active::Yes | Active::Starting);
        let active = (spec.active.is_some_and(|active| active != runs))
            .then(|| format!("{} {}", spec.name, if runs { "runs" } else { "does not run" }));
        let enabled = found.enabled.filter(|enabled| spec.enabled.is_some_and(|wanted| wanted != *enabled));
        let enabled = enabled.map(|enabled| {
            format!("{} {} with the machine", spec.name, if enabled { "starts" } else { "does not start" })
        });
        let words: Vec<String> = file.into_iter().chain(active).chain(enabled).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn before(_: &UnitSpec, observed: &UnitObserved, earlier: Option<&UnitBefore>) -> UnitBefore {
        let mut before = earlier.cloned().unwrap_or_else(|| UnitBefore {
            file: None,
            existed: observed.found.load == Load::Loaded,
            enabled: observed.found.enabled,
            active: matches!(observed.found.active, Active::Yes | Active::Starting),
        });
        if before.file.is_none() {
            before.file.clone_from(&observed.file);
        }
        before
    }

    fn plan(spec: &UnitSpec, observed: &UnitObserved, memory: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let UnitObserved { file, found } = observed;
        let mut steps = Vec::new();
        if let (Some(content), Some(file)) = (&spec.content, file) {
            let before = memory.before.file.as_ref().unwrap_or(&Found::Nothing);
            let content = Content::new(content.as_bytes());
            steps.extend(write_steps(&path_of(&spec.name), &content, &meta(), file, before)?);
        }
        let written = steps.iter().any(Step::writes);
        let unit = |step: UnitStep| Step::Unit(step);
        // Its file may have been written and systemd not told.
        let unread = spec.content.is_some() && found.load == Load::NotFound;
        let stale = written || found.needs_reload || unread;
        if stale {
            steps.push(unit(UnitStep::Reload));
        } else {
            match &found.load {
                Load::Loaded => {}
                Load::NotFound => {
                    return Err(Failure::new(format!("the machine has no unit {}", spec.name)));
                }
                Load::Bad(word) => {
                    return Err(Failure::new(format!("systemd calls the unit {} {word}", spec.name)));
                }
            }
        }
        match (spec.enabled, found.enabled) {
            (Some(true), None) if !stale => {
                return Err(Failure::new(format!(
                    "{} cannot be enabled: it has no [Install] section, or is generated",
                    spec.name
                )));
            }
            (Some(true), Some(false) | None) => steps.push(unit(UnitStep::Enable(spec.name.clone()))),
            (Some(false), Some(true)) => steps.push(unit(UnitStep::Disable(spec.name.clone()))),
            _ => {}
        }
        let runs = matches!(found.active, Active::Yes | Active::Starting);
        match (spec.active, runs) {
            (Some(true), false) => steps.push(unit(UnitStep::Start(spec.name.clone()))),
            (Some(false), true) => steps.push(unit(UnitStep::Stop(spec.name.clone()))),
            (Some(false) | None, false) => {}
            (Some(true) | None, true) => {
                let why = if written {
                    Some("its file changed".to_owned())
                } else if memory.changed.is_empty() {
                    None
                } else {
                    let names: Vec<&str> = memory.changed.iter().map(AsRef::as_ref).collect();
                    Some(format!("{} changed", names.join(", ")))
                };
                steps.extend(why.map(|why| unit(UnitStep::Restart(spec.name.clone(), why))));
            }
        }
        Ok(steps)
    }

    fn remove(spec: &UnitSpec, observed: &UnitObserved, before: &UnitBefore) -> Result<Vec<Step>, Failure> {
        let name = || spec.name.clone();
        let found = &observed.found;
        let runs = matches!(found.active, Active::Yes | Active::Starting | Active::Stopping);
        let mut steps = Vec::new();
        // What ran before runs on unless its file goes or comes back, then it is started with the old one.
        if runs && !before.active {
            steps.push(Step::Unit(UnitStep::Stop(name())));
        }
        if found.enabled == Some(true) && before.enabled != Some(true) {
            steps.push(Step::Unit(UnitStep::Disable(name())));
        }
        let restored = match (&observed.file, &before.file) {
            (Some(file), Some(before)) => restore_steps(&path_of(&spec.name), file, before),
            _ => Vec::new(),
        };
        let replaced = !restored.is_empty();
        steps.extend(restored);
        if replaced || found.needs_reload {
            steps.push(Step::Unit(UnitStep::Reload));
        }
        if before.existed && before.enabled == Some(true) && found.enabled != Some(true) {
            steps.push(Step::Unit(UnitStep::Enable(name())));
        }
        if before.existed && before.active {
            if !runs {
                steps.push(Step::Unit(UnitStep::Start(name())));
            } else if replaced || found.needs_reload {
                steps.push(Step::Unit(UnitStep::Restart(name(), "its file is the old one again".to_owned())));
            }
        }
        Ok(steps)
    }
}
