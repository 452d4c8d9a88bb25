//! Where on the machine a declared path leads. From here on a resource is what it is there: the ledger, the claims and
//! the steps know the path without symbolic links, so that two ways to one file are seen to be one, and what was put
//! somewhere is taken away there, wherever the way leads by then.

use std::{borrow::Cow, cell::RefCell, collections::BTreeMap};

use mesh_wire::{Spec, UnreadableResource};

use super::{Declared, Desired};
use crate::{
    failure::Failure,
    machine::{Machine, files::split},
};

/// Finds where paths lead. What it found in a folder is remembered for as long as it lives: one round.
pub(crate) struct Ways<'a> {
    machine: &'a Machine,
    folders: RefCell<BTreeMap<String, Result<String, Failure>>>,
}

impl<'a> Ways<'a> {
    pub(crate) fn of(machine: &'a Machine) -> Self {
        Self { machine, folders: RefCell::default() }
    }

    /// The path without links among its folders.
    pub(crate) fn lead(&self, path: &str) -> Result<String, Failure> {
        let (folder, name) = split(path);
        let known = self.folders.borrow().get(folder).cloned();
        let leads_to = known.unwrap_or_else(|| {
            let probe = format!("{}/x", folder.trim_end_matches('/'));
            let found = self.machine.files.resolve(&probe).map(|path| split(&path).0.to_owned());
            self.folders.borrow_mut().insert(folder.to_owned(), found.clone());
            found
        })?;
        Ok(format!("{}/{name}", leads_to.trim_end_matches('/')))
    }

    /// The same resources, where they are on this machine. One whose path is not to be followed cannot be told to be
    /// anything: it fails, and what there was of it stays.
    pub(crate) fn lead_all<'d>(&self, list: &'d [Declared]) -> Cow<'d, [Declared]> {
        let mut led = Cow::Borrowed(list);
        for (place, declared) in list.iter().enumerate() {
            let Some(path) = declared.as_ref().ok().and_then(|resource| path_of(&resource.spec)) else {
                continue;
            };
            match self.lead(path) {
                Ok(found) if found == path => {}
                Ok(found) => {
                    if let Ok(resource) = &mut led.to_mut()[place]
                        && let Some(path) = path_in(&mut resource.spec)
                    {
                        *path = found;
                    }
                }
                Err(why) => {
                    let id = declared
                        .as_ref()
                        .map_or_else(|bad| bad.id.clone(), |resource| resource.id.to_string());
                    led.to_mut()[place] = Err(UnreadableResource { id, reason: why.to_string() });
                }
            }
        }
        led
    }
}

/// What is desired, where it is on this machine.
pub(super) struct Led<'a> {
    carried: Cow<'a, [Declared]>,
    assigned: Option<Cow<'a, [Declared]>>,
    desired: Desired<'a>,
}

impl<'a> Led<'a> {
    pub(super) fn of(ways: &Ways<'_>, desired: Desired<'a>) -> Self {
        let carried = ways.lead_all(desired.carried);
        let assigned = desired.assigned.map(|assigned| ways.lead_all(assigned));
        Self { carried, assigned, desired }
    }

    pub(super) fn desired(&self) -> Desired<'_> {
        Desired { carried: &self.carried, assigned: self.assigned.as_deref(), ..self.desired }
    }
}

fn path_of(spec: &Spec) -> Option<&str> {
    match spec {
        Spec::File(file) => Some(&file.path),
        Spec::Directory(directory) => Some(&directory.path),
        _ => None,
    }
}

fn path_in(spec: &mut Spec) -> Option<&mut String> {
    match spec {
        Spec::File(file) => Some(&mut file.path),
        Spec::Directory(directory) => Some(&mut directory.path),
        _ => None,
    }
}
