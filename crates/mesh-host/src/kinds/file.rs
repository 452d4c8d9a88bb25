//! The kind `file`: a regular file with exactly this content, mode and owner. Never replaces what is not a regular file.

use std::borrow::Cow;

use mesh_wire::kinds::{Check, FileSpec};

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        checks::CheckStep,
        files::{Content, FileStep, Found, Meta, Write},
    },
    step::Step,
};

/// The kind.
#[derive(Debug)]
pub struct File;

impl Kind for File {
    type Spec = FileSpec;
    type Observed = Found;
    type Before = Found;

    fn claims(spec: &FileSpec) -> Vec<Claim> {
        vec![Claim::path(&spec.path)]
    }

    fn subject(spec: &FileSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.path)
    }

    async fn observe(machine: &Machine, spec: &FileSpec) -> Result<Found, Failure> {
        look_as(machine, &spec.path, &spec.owner, &spec.group)
    }

    fn found(spec: &FileSpec, observed: &Found) -> Option<String> {
        let content = spec.content.bytes().ok()?;
        let meta = Meta { mode: spec.mode, owner: spec.owner.clone(), group: spec.group.clone() };
        found_instead(&spec.path, &Content::new(&content), &meta, observed)
    }

    fn before(_: &FileSpec, observed: &Found, earlier: Option<&Found>) -> Found {
        earlier.unwrap_or(observed).clone()
    }

    fn plan(spec: &FileSpec, observed: &Found, memory: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let content = spec.content.bytes().map_err(|e| Failure::new(e.to_string()))?;
        let meta = Meta { mode: spec.mode, owner: spec.owner.clone(), group: spec.group.clone() };
        let content = Content::new(&content);
        let mut steps = write_steps(&spec.path, &content, &meta, observed, &memory.before)?;
        if let Some(check) = spec.check
            && steps.iter().any(Step::writes)
        {
            // Before anything of it is put anywhere.
            steps.splice(0..0, checked(check, &spec.path, content)?);
        }
        Ok(steps)
    }

    fn remove(spec: &FileSpec, observed: &Found, before: &Found) -> Result<Vec<Step>, Failure> {
        Ok(restore_steps(&spec.path, observed, before))
    }
}

/// Reads what this program can read itself; what it cannot is the step that asks another one.
fn checked(check: Check, path: &str, content: Content) -> Result<Option<Step>, Failure> {
    match check {
        Check::Json => serde_json::from_slice::<serde::de::IgnoredAny>(content.bytes())
            .map(|_| None)
            .map_err(|error| Failure::new(format!("it is not json: {error}"))),
        Check::Toml => {
            let text = std::str::from_utf8(content.bytes())
                .map_err(|_| Failure::new("it is not toml: it is not UTF-8"))?;
            toml::from_str::<serde::de::IgnoredAny>(text).map(|_| None).map_err(|error| {
                let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
                let line = before.matches('\n').count() + 1;
                Failure::new(format!("it is not toml: {} at line {line}", error.message()))
            })
        }
        Check::IniSystemdUnit | Check::Nginx | Check::Haproxy | Check::Sshd | Check::Sudoers => {
            Ok(Some(Step::Check(CheckStep { check, path: path.to_owned(), content })))
        }
    }
}

/// What is at a path, its owners called as the declaration calls them: one number may have several names.
pub(super) fn look_as(machine: &Machine, path: &str, owner: &str, group: &str) -> Result<Found, Failure> {
    let mut found = machine.files.look(path)?;
    if let Found::File { meta, .. } | Found::Directory(meta) = &mut found
        && (meta.owner != owner || meta.group != group)
    {
        let declared = Meta { mode: meta.mode, owner: owner.to_owned(), group: group.to_owned() };
        if machine.files.is_same_owner(meta, &declared) {
            *meta = declared;
        }
    }
    Ok(found)
}

/// What makes the file at `path` as given. What stood there before is kept first.
pub(super) fn write_steps(
    path: &str,
    content: &Content,
    meta: &Meta,
    observed: &Found,
    before: &Found,
) -> Result<Vec<Step>, Failure> {
    let write = Step::File(FileStep::Write(Write {
        path: path.to_owned(),
        content: content.clone(),
        meta: meta.clone(),
    }));
    match observed {
        Found::Nothing => Ok(vec![write]),
        Found::File { content: found, .. } if *found != content.digest() => {
            let keep = matches!(before, Found::File { content, .. } if content == found);
            let keep = keep.then(|| Step::File(FileStep::Keep(path.to_owned())));
            Ok(keep.into_iter().chain([write]).collect())
        }
        Found::File { meta: found, .. } if found != meta => {
            Ok(vec![Step::File(FileStep::SetMeta(path.to_owned(), meta.clone()))])
        }
        Found::File { .. } => Ok(Vec::new()),
        Found::Directory(_) => {
            Err(Failure::new(format!("at {path} is a directory: remove it, or declare another path")))
        }
        Found::Other(what) => {
            Err(Failure::new(format!("at {path} is {what}: remove it, or declare another path")))
        }
    }
}

/// What is at `path` instead of this file, in words.
pub(super) fn found_instead(path: &str, content: &Content, meta: &Meta, observed: &Found) -> Option<String> {
    match observed {
        Found::Nothing => Some(format!("{path} is not there")),
        Found::File { content: found, meta: has } if *found != content.digest() => {
            Some(format!("{path} holds something else ({has})"))
        }
        Found::File { meta: has, .. } if has != meta => Some(format!("{path} has {has}")),
        Found::File { .. } => None,
        Found::Directory(_) => Some(format!("{path} is a directory")),
        Found::Other(what) => Some(format!("{path} is {what}")),
    }
}

/// What puts the file at `path` back to what it was.
pub(super) fn restore_steps(path: &str, observed: &Found, before: &Found) -> Vec<Step> {
    let step = match (observed, before) {
        (Found::File { .. }, Found::Nothing) => FileStep::RemoveFile(path.to_owned()),
        (Found::File { content, meta }, Found::File { content: old, meta: old_meta }) if content == old => {
            if meta == old_meta {
                return Vec::new();
            }
            FileStep::SetMeta(path.to_owned(), old_meta.clone())
        }
        (Found::File { .. } | Found::Nothing, Found::File { content, meta }) => {
            FileStep::Restore { path: path.to_owned(), content: content.clone(), meta: meta.clone() }
        }
        // Somebody put something else there: it is not the host's.
        _ => return Vec::new(),
    };
    vec![Step::File(step)]
}
