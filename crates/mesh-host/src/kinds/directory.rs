//! The kind `directory`: a directory with this mode and owner. Removed only where the host made it and it is empty.

use std::borrow::Cow;

use mesh_wire::kinds::DirectorySpec;

use super::{Claim, Kind, Memory, file::look_as};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        files::{FileStep, Found, Meta},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct Directory;

impl Kind for Directory {
    type Spec = DirectorySpec;
    type Observed = Found;
    type Before = Found;

    fn claims(spec: &DirectorySpec) -> Vec<Claim> {
        vec![Claim::path(&spec.path)]
    }

    fn subject(spec: &DirectorySpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.path)
    }

    async fn observe(machine: &Machine, spec: &DirectorySpec) -> Result<Found, Failure> {
        look_as(machine, &spec.path, &spec.owner, &spec.group)
    }

    fn before(_: &DirectorySpec, observed: &Found, earlier: Option<&Found>) -> Found {
        earlier.unwrap_or(observed).clone()
    }

    fn plan(spec: &DirectorySpec, observed: &Found, _: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let path = &spec.path;
        let meta = Meta { mode: spec.mode, owner: spec.owner.clone(), group: spec.group.clone() };
        match observed {
            Found::Nothing => Ok(vec![Step::File(FileStep::MakeDirectory(path.clone(), meta))]),
            Found::Directory(found) if *found == meta => Ok(Vec::new()),
            Found::Directory(_) => Ok(vec![Step::File(FileStep::SetMeta(path.clone(), meta))]),
            Found::File { .. } => {
                Err(Failure::new(format!("at {path} is a file: remove it, or declare another path")))
            }
            Found::Other(what) => {
                Err(Failure::new(format!("at {path} is {what}: remove it, or declare another path")))
            }
        }
    }

    fn remove(spec: &DirectorySpec, observed: &Found, before: &Found) -> Result<Vec<Step>, Failure> {
        let path = spec.path.clone();
        let step = match (observed, before) {
            (Found::Directory(_), Found::Nothing) => FileStep::RemoveDirectory(path),
            (Found::Directory(meta), Found::Directory(old)) if meta != old => {
                FileStep::SetMeta(path, old.clone())
            }
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Step::File(step)])
    }
}
