//! The kind `unit`: a systemd unit, with its file and its drop-ins where the host writes them. Restarts it when what it
//! reads changed, and judges it by whether it is ready. Never touches a drop-in that is not declared.

use std::{borrow::Cow, collections::BTreeMap};

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
        files::{Content, FileStep, Found, Meta},
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
    /// The folder of its drop-ins; looked at only where one is declared, or was.
    pub folder: Option<Found>,
    /// Its drop-ins that are declared, or were.
    pub drop_ins: BTreeMap<String, Found>,
    /// What systemd says.
    pub found: UnitFound,
}

/// What the machine had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitBefore {
    /// The unit file, where the host writes it.
    pub file: Option<Found>,
    /// Whether the folder of its drop-ins was there, once the host wrote one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_in_folder: Option<bool>,
    /// The drop-ins that the host wrote, until they are again what they were.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drop_ins: BTreeMap<String, Found>,
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

/// The folder of a unit's drop-ins.
fn folder_of(name: &str) -> String {
    format!("{}.d", path_of(name))
}

/// Where a drop-in of a unit is.
pub fn drop_in_path(name: &str, drop_in: &str) -> String {
    format!("{}/{drop_in}", folder_of(name))
}

fn meta(mode: u32) -> Meta {
    Meta { mode: Mode::new(mode), owner: "root".to_owned(), group: "root".to_owned() }
}

impl Kind for Unit {
    type Spec = UnitSpec;
    type Observed = UnitObserved;
    type Before = UnitBefore;

    fn claims(spec: &UnitSpec) -> Vec<Claim> {
        let drop_ins = spec.drop_ins.keys().map(|drop_in| Claim::path(&drop_in_path(&spec.name, drop_in)));
        let unit = [Claim::new("unit", &spec.name), Claim::path(&path_of(&spec.name))];
        unit.into_iter().chain(drop_ins).collect()
    }

    fn subject(spec: &UnitSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &UnitSpec) -> Result<UnitObserved, Failure> {
        Self::observe_since(machine, spec, None).await
    }

    async fn observe_since(
        machine: &Machine,
        spec: &UnitSpec,
        before: Option<&UnitBefore>,
    ) -> Result<UnitObserved, Failure> {
        let look = |path: &str| machine.files.look(path);
        let file = spec.content.as_ref().map(|_| look(&path_of(&spec.name))).transpose()?;
        let mut drop_ins = BTreeMap::new();
        for drop_in in spec.drop_ins.keys().chain(before.iter().flat_map(|before| before.drop_ins.keys())) {
            if !drop_ins.contains_key(drop_in) {
                drop_ins.insert(drop_in.clone(), look(&drop_in_path(&spec.name, drop_in))?);
            }
        }
        let wrote = before.is_some_and(|before| before.drop_in_folder.is_some());
        let folder = (wrote || !drop_ins.is_empty()).then(|| look(&folder_of(&spec.name))).transpose()?;
        Ok(UnitObserved { file, folder, drop_ins, found: machine.units.look(&spec.name).await? })
    }

    fn found(spec: &UnitSpec, observed: &UnitObserved) -> Option<String> {
        let UnitObserved { file, drop_ins, found, .. } = observed;
        let content = spec.content.as_ref().map(|content| Content::new(content.as_bytes()));
        let file = match (&content, file) {
            (Some(content), Some(file)) => found_instead(&path_of(&spec.name), content, &meta(0o644), file),
            _ => None,
        };
        let drop_ins = spec.drop_ins.iter().filter_map(|(drop_in, content)| {
            let content = Content::new(content.as_bytes());
            let now = drop_ins.get(drop_in)?;
            found_instead(&drop_in_path(&spec.name, drop_in), &content, &meta(0o644), now)
        });
        let runs = matches!(found.active, Active::Yes | Active::Starting);
        let active = (spec.active.is_some_and(|active| active != runs))
            .then(|| format!("{} {}", spec.name, if runs { "runs" } else { "does not run" }));
        let enabled = found.enabled.filter(|enabled| spec.enabled.is_some_and(|wanted| wanted != *enabled));
        let enabled = enabled.map(|enabled| {
            format!("{} {} with the machine", spec.name, if enabled { "starts" } else { "does not start" })
        });
        let words: Vec<String> = file.into_iter().chain(drop_ins).chain(active).chain(enabled).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn before(spec: &UnitSpec, observed: &UnitObserved, earlier: Option<&UnitBefore>) -> UnitBefore {
        let mut before = earlier.cloned().unwrap_or_else(|| UnitBefore {
            file: None,
            drop_in_folder: None,
            drop_ins: BTreeMap::new(),
            existed: observed.found.load == Load::Loaded,
            enabled: observed.found.enabled,
            active: matches!(observed.found.active, Active::Yes | Active::Starting),
        });
        if before.file.is_none() {
            before.file.clone_from(&observed.file);
        }
        if before.drop_in_folder.is_none() && !spec.drop_ins.is_empty() {
            before.drop_in_folder = observed.folder.as_ref().map(|folder| *folder != Found::Nothing);
        }
        before.drop_ins.retain(|drop_in, old| {
            spec.drop_ins.contains_key(drop_in)
                || observed.drop_ins.get(drop_in).is_some_and(|now| now != old)
        });
        for (drop_in, now) in spec.drop_ins.keys().filter_map(|name| observed.drop_ins.get_key_value(name)) {
            before.drop_ins.entry(drop_in.clone()).or_insert_with(|| now.clone());
        }
        before
    }

    fn plan(spec: &UnitSpec, observed: &UnitObserved, memory: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let found = &observed.found;
        if spec.content.is_none() && found.load == Load::NotFound && !found.needs_reload {
            return Err(Failure::new(format!("the machine has no unit {}", spec.name)));
        }
        let changed = changed_files(spec, observed, &memory.before)?;
        let mut steps = changed.steps;
        let unit = |step: UnitStep| Step::Unit(step);
        // Its file may have been written and systemd not told.
        let unread = spec.content.is_some() && found.load == Load::NotFound;
        let stale = changed.what.is_some() || found.needs_reload || unread;
        if stale {
            steps.push(unit(UnitStep::Reload));
        } else if let Load::Bad(word) = &found.load {
            return Err(Failure::new(format!("systemd calls the unit {} {word}", spec.name)));
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
                if let Some(why) = changed.what.map(str::to_owned).or_else(|| others(&memory.changed)) {
                    steps.push(unit(UnitStep::Restart(spec.name.clone(), why)));
                } else if spec.active == Some(true) && found.active == Active::Starting {
                    // On its way is not there yet.
                    steps.push(unit(UnitStep::Await(spec.name.clone())));
                }
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
        // A unit that ended badly would be listed as failed after its file is gone.
        if !before.existed && (runs || found.active == Active::Failed) {
            steps.push(Step::Unit(UnitStep::Forget(name())));
        }
        if found.enabled == Some(true) && before.enabled != Some(true) {
            steps.push(Step::Unit(UnitStep::Disable(name())));
        }
        let mut restored = match (&observed.file, &before.file) {
            (Some(file), Some(before)) => restore_steps(&path_of(&spec.name), file, before),
            _ => Vec::new(),
        };
        restored.extend(old_drop_ins(spec, observed, before, |_| true));
        if before.drop_in_folder == Some(false) && matches!(observed.folder, Some(Found::Directory(_))) {
            restored.push(Step::File(FileStep::RemoveDirectory(folder_of(&spec.name))));
        }
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
                let file = "its file is the old one again";
                let why = if spec.content.is_some() { file } else { "its drop-ins are the old ones again" };
                steps.push(Step::Unit(UnitStep::Restart(name(), why.to_owned())));
            }
        }
        Ok(steps)
    }

    fn restart(spec: &UnitSpec, observed: &UnitObserved, before: &UnitBefore) -> Option<Step> {
        let runs = matches!(observed.found.active, Active::Yes | Active::Starting);
        let why = "it may run with what was removed".to_owned();
        (before.existed && before.active && runs)
            .then(|| Step::Unit(UnitStep::Restart(spec.name.clone(), why)))
    }
}

/// The steps on files, and what of the unit they change.
struct Changed {
    steps: Vec<Step>,
    what: Option<&'static str>,
}

fn changed_files(spec: &UnitSpec, observed: &UnitObserved, before: &UnitBefore) -> Result<Changed, Failure> {
    let changes = |step: &Step| step.writes() || matches!(step, Step::File(FileStep::RemoveFile(_)));
    let mut steps = Vec::new();
    if let (Some(content), Some(file)) = (&spec.content, &observed.file) {
        let before = before.file.as_ref().unwrap_or(&Found::Nothing);
        let content = Content::new(content.as_bytes());
        steps.extend(write_steps(&path_of(&spec.name), &content, &meta(0o644), file, before)?);
    }
    let file_changed = steps.iter().any(changes);
    let mut drop_ins = Vec::new();
    for (drop_in, content) in &spec.drop_ins {
        let now = observed.drop_ins.get(drop_in).unwrap_or(&Found::Nothing);
        let old = before.drop_ins.get(drop_in).unwrap_or(&Found::Nothing);
        let content = Content::new(content.as_bytes());
        drop_ins.extend(write_steps(&drop_in_path(&spec.name, drop_in), &content, &meta(0o644), now, old)?);
    }
    drop_ins.extend(old_drop_ins(spec, observed, before, |drop_in| !spec.drop_ins.contains_key(drop_in)));
    let what = match (file_changed, drop_ins.iter().any(changes)) {
        (true, _) => Some("its file changed"),
        (false, true) => Some("its drop-ins changed"),
        (false, false) => None,
    };
    steps.extend(drop_ins);
    // What is to be kept is kept before anything is written.
    steps.sort_by_key(|step| !matches!(step, Step::File(FileStep::Keep(_))));
    match &observed.folder {
        Some(Found::Nothing) if !spec.drop_ins.is_empty() => {
            let folder = FileStep::MakeDirectory(folder_of(&spec.name), meta(0o755));
            steps.insert(0, Step::File(folder));
        }
        Some(Found::File { .. } | Found::Other(_)) => {
            let folder = folder_of(&spec.name);
            return Err(Failure::new(format!("at {folder} is no directory: remove what is there")));
        }
        _ => {}
    }
    Ok(Changed { steps, what })
}

/// What makes these drop-ins what they were.
fn old_drop_ins(
    spec: &UnitSpec,
    observed: &UnitObserved,
    before: &UnitBefore,
    which: impl Fn(&str) -> bool,
) -> Vec<Step> {
    let old = before.drop_ins.iter().filter(|(drop_in, _)| which(drop_in));
    old.flat_map(|(drop_in, old)| {
        let now = observed.drop_ins.get(drop_in).unwrap_or(&Found::Nothing);
        restore_steps(&drop_in_path(&spec.name, drop_in), now, old)
    })
    .collect()
}

/// Why a unit is restarted for other resources.
fn others(changed: &[mesh_ids::ResourceId]) -> Option<String> {
    let names: Vec<&str> = changed.iter().map(AsRef::as_ref).collect();
    (!names.is_empty()).then(|| format!("{} changed", names.join(", ")))
}
