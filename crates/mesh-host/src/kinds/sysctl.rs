//! The kind `sysctl`: parameters of the kernel, set at once and kept in one file for the next start of the machine.
//!
//! A value is tried on the running kernel before it is kept. Never touches a parameter that is not declared.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use mesh_wire::kinds::{Mode, SysctlSpec};
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
        sysctls::{SysctlStep, plain},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Sysctl;

/// What the machine has of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysctlObserved {
    /// The file that keeps them.
    pub file: Found,
    /// The parameters that the kernel has, with their values: those that are declared, and those that were.
    pub values: BTreeMap<String, String>,
}

/// What the machine had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlBefore {
    /// The file that keeps the settings.
    pub file: Found,
    /// The values of the parameters, until they have them again.
    pub values: BTreeMap<String, String>,
}

/// Where the settings of this name are kept (sysctl.d(5)).
pub fn path_of(name: &str) -> String {
    format!("/etc/sysctl.d/90-mesh-{name}.conf")
}

/// The file that keeps these settings: the same for the same settings.
fn content(spec: &SysctlSpec) -> Content {
    let mut text = "# Kept by mesh-host, which undoes what is changed here.\n".to_owned();
    for (key, value) in &spec.settings {
        let _ = writeln!(text, "{key} = {value}");
    }
    Content::new(text.as_bytes())
}

fn meta() -> Meta {
    Meta { mode: Mode::new(0o644), owner: "root".to_owned(), group: "root".to_owned() }
}

fn set(key: &str, value: &str) -> Step {
    Step::Sysctl(SysctlStep { key: key.to_owned(), value: value.to_owned() })
}

impl Kind for Sysctl {
    type Spec = SysctlSpec;
    type Observed = SysctlObserved;
    type Before = SysctlBefore;

    fn claims(spec: &SysctlSpec) -> Vec<Claim> {
        let parameters = spec.settings.keys().map(|key| Claim::new("sysctl", key));
        parameters.chain([Claim::path(&path_of(&spec.name))]).collect()
    }

    fn subject(spec: &SysctlSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &SysctlSpec) -> Result<SysctlObserved, Failure> {
        Self::observe_since(machine, spec, None).await
    }

    async fn observe_since(
        machine: &Machine,
        spec: &SysctlSpec,
        before: Option<&SysctlBefore>,
    ) -> Result<SysctlObserved, Failure> {
        let mut values = BTreeMap::new();
        for key in spec.settings.keys().chain(before.iter().flat_map(|before| before.values.keys())) {
            if !values.contains_key(key)
                && let Some(value) = machine.sysctls.look(key)?
            {
                values.insert(key.clone(), value);
            }
        }
        Ok(SysctlObserved { file: machine.files.look(&path_of(&spec.name))?, values })
    }

    fn found(spec: &SysctlSpec, observed: &SysctlObserved) -> Option<String> {
        let other = |(key, value): (&String, &String)| {
            let now = observed.values.get(key)?;
            (*now != plain(value)).then(|| format!("{key} is {now}"))
        };
        let file = found_instead(&path_of(&spec.name), &content(spec), &meta(), &observed.file);
        let words: Vec<String> = spec.settings.iter().filter_map(other).chain(file).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn before(spec: &SysctlSpec, observed: &SysctlObserved, earlier: Option<&SysctlBefore>) -> SysctlBefore {
        let mut before = earlier
            .cloned()
            .unwrap_or_else(|| SysctlBefore { file: observed.file.clone(), values: BTreeMap::new() });
        // A parameter that is no longer declared and has its old value, or is gone, is no longer this resource's.
        before.values.retain(|key, old| {
            spec.settings.contains_key(key) || observed.values.get(key).is_some_and(|now| now != old)
        });
        for (key, value) in spec.settings.keys().filter_map(|key| observed.values.get_key_value(key)) {
            before.values.entry(key.clone()).or_insert_with(|| value.clone());
        }
        before
    }

    fn plan(
        spec: &SysctlSpec,
        observed: &SysctlObserved,
        memory: &Memory<Self>,
    ) -> Result<Vec<Step>, Failure> {
        let mut steps = put_back(observed, &memory.before, |key| !spec.settings.contains_key(key));
        for (key, value) in &spec.settings {
            match observed.values.get(key) {
                None => {
                    return Err(Failure::new(format!(
                        "the kernel has no parameter {key}: is a module of it not loaded?"
                    )));
                }
                Some(now) if *now != plain(value) => steps.push(set(key, value)),
                Some(_) => {}
            }
        }
        let path = path_of(&spec.name);
        steps.extend(write_steps(&path, &content(spec), &meta(), &observed.file, &memory.before.file)?);
        Ok(steps)
    }

    fn remove(
        spec: &SysctlSpec,
        observed: &SysctlObserved,
        before: &SysctlBefore,
    ) -> Result<Vec<Step>, Failure> {
        let mut steps = restore_steps(&path_of(&spec.name), &observed.file, &before.file);
        steps.extend(put_back(observed, before, |_| true));
        Ok(steps)
    }
}

/// What gives these parameters their old values; one that the kernel no longer has needs none.
fn put_back(observed: &SysctlObserved, before: &SysctlBefore, which: impl Fn(&str) -> bool) -> Vec<Step> {
    let other = |(key, old): &(&String, &String)| {
        which(key) && observed.values.get(*key).is_some_and(|now| now != *old)
    };
    before.values.iter().filter(other).map(|(key, old)| set(key, old)).collect()
}
