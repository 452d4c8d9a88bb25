//! The kind `user`: a system user with a group of its name. Never touches root, a password, or what is in a home.
//!
//! A user that is there already is adopted: its number and its first group have to be as declared or not declared at all,
//! what else is declared is changed, and removal puts exactly that back.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use mesh_wire::kinds::{Mode, UserSpec};
use serde::{Deserialize, Serialize};

use super::{Claim, Kind, Memory};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        files::{FileStep, Found, Meta},
        users::{NewUser, UserChange, UserFound, UserStep},
    },
    step::Step,
};

/// The home of a user that has none, and its shell.
const NO_HOME: &str = "/nonexistent";
const NO_SHELL: &str = "/usr/sbin/nologin";

/// The kind.
#[derive(Debug)]
pub struct User;

/// What the machine has of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserObserved {
    /// The user.
    pub user: Option<UserFound>,
    /// The number of the group of its name.
    pub group: Option<u32>,
    /// The declared groups that the machine does not have.
    pub missing: Vec<String>,
    /// What is where its home is declared, or was.
    pub homes: BTreeMap<String, Found>,
}

/// What the machine had before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserBefore {
    /// Whether there was such a user.
    pub existed: bool,
    /// The home of a user that was there, from when one is declared until it has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// The shell of a user that was there, from when one is declared until it has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// The number of the group of its name, if there was one.
    pub group: Option<u32>,
    /// Of every group that is declared: whether the user was in it. One that is no longer, until it is out of it.
    pub groups: BTreeMap<String, bool>,
    /// Of every home that was declared: whether something was there.
    pub homes: BTreeMap<String, bool>,
}

impl Kind for User {
    type Spec = UserSpec;
    type Observed = UserObserved;
    type Before = UserBefore;

    fn claims(spec: &UserSpec) -> Vec<Claim> {
        vec![Claim::new("user", &spec.name), Claim::new("group", &spec.name)]
    }

    fn subject(spec: &UserSpec) -> Cow<'_, str> {
        Cow::Borrowed(&spec.name)
    }

    async fn observe(machine: &Machine, spec: &UserSpec) -> Result<UserObserved, Failure> {
        Self::observe_since(machine, spec, None).await
    }

    async fn observe_since(
        machine: &Machine,
        spec: &UserSpec,
        before: Option<&UserBefore>,
    ) -> Result<UserObserved, Failure> {
        let mut missing = Vec::new();
        for name in &spec.groups {
            if machine.users.group(name)?.is_none() {
                missing.push(name.clone());
            }
        }
        let mut homes = BTreeMap::new();
        for home in spec.home.iter().chain(before.iter().flat_map(|before| before.homes.keys())) {
            if !homes.contains_key(home) {
                homes.insert(home.clone(), machine.files.look(home)?);
            }
        }
        let user = machine.users.look(&spec.name)?;
        Ok(UserObserved { user, group: machine.users.group(&spec.name)?, missing, homes })
    }

    fn found(spec: &UserSpec, observed: &UserObserved) -> Option<String> {
        let name = &spec.name;
        let Some(user) = &observed.user else { return Some(format!("there is no user {name}")) };
        let other = |what: &str, declared: &Option<String>, now: &str| {
            let other = declared.as_ref().is_some_and(|declared| declared != now);
            other.then(|| format!("the {what} of {name} is {now}"))
        };
        let home = other("home", &spec.home, &user.home);
        let shell = other("shell", &spec.shell, &user.shell);
        let out = spec.groups.iter().filter(|group| !user.groups.contains(*group));
        let out = out.map(|group| format!("{name} is not in {group}"));
        let words: Vec<String> = home.into_iter().chain(shell).chain(out).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    fn before(spec: &UserSpec, observed: &UserObserved, earlier: Option<&UserBefore>) -> UserBefore {
        let user = observed.user.as_ref();
        let mut before = earlier.cloned().unwrap_or_else(|| UserBefore {
            existed: user.is_some(),
            home: None,
            shell: None,
            group: observed.group,
            groups: BTreeMap::new(),
            homes: BTreeMap::new(),
        });
        if let (true, Some(user)) = (before.existed, user) {
            keep_old(&mut before.home, spec.home.as_ref(), &user.home);
            keep_old(&mut before.shell, spec.shell.as_ref(), &user.shell);
        }
        let is_in = |name: &String| user.is_some_and(|user| user.groups.contains(name));
        // A group that is no longer declared, and that it was put into, is forgotten once it is out of it.
        before.groups.retain(|name, was_in| spec.groups.contains(name) || (!*was_in && is_in(name)));
        for name in &spec.groups {
            before.groups.entry(name.clone()).or_insert_with(|| is_in(name));
        }
        if let Some((home, found)) = spec.home.as_ref().and_then(|home| observed.homes.get_key_value(home)) {
            before.homes.entry(home.clone()).or_insert(*found != Found::Nothing);
        }
        before
    }

    fn plan(spec: &UserSpec, observed: &UserObserved, memory: &Memory<Self>) -> Result<Vec<Step>, Failure> {
        let before = &memory.before;
        may_be(spec, observed)?;
        let mut steps = Vec::new();
        let adopted = observed.user.as_ref().filter(|_| before.existed);
        let wanted = |declared: &Option<String>, old: &Option<String>, has: Option<&String>, none: &str| {
            declared.as_ref().or(old.as_ref()).or(has).cloned().unwrap_or_else(|| none.to_owned())
        };
        let home = wanted(&spec.home, &before.home, adopted.map(|user| &user.home), NO_HOME);
        let shell = wanted(&spec.shell, &before.shell, adopted.map(|user| &user.shell), NO_SHELL);
        match &observed.user {
            None => {
                if observed.group.is_none() {
                    steps.push(user(UserStep::MakeGroup(spec.name.clone(), spec.gid.or(before.group))));
                }
                let groups = spec.groups.iter().cloned().collect();
                let new = NewUser { name: spec.name.clone(), uid: spec.uid, home, shell, groups };
                steps.push(user(UserStep::MakeUser(new)));
            }
            Some(found) => {
                if observed.group.is_none() && !before.existed {
                    steps.push(user(UserStep::MakeGroup(spec.name.clone(), Some(found.gid))));
                }
                let mut groups = out_of(&found.groups, before);
                groups.extend(spec.groups.iter().cloned());
                steps.extend(change(&spec.name, found, &home, &shell, groups));
            }
        }
        if let Some(home) = &spec.home
            && observed.homes.get(home) == Some(&Found::Nothing)
        {
            let group = own_group(spec, observed, before);
            let meta = Meta { mode: Mode::new(0o750), owner: spec.name.clone(), group };
            steps.push(Step::File(FileStep::MakeDirectory(home.clone(), meta)));
        }
        Ok(steps)
    }

    fn remove(spec: &UserSpec, observed: &UserObserved, before: &UserBefore) -> Result<Vec<Step>, Failure> {
        let mut steps = Vec::new();
        let made = before.homes.iter().filter(|(_, was_there)| !**was_there).map(|(home, _)| home);
        for home in made.filter(|home| matches!(observed.homes.get(*home), Some(Found::Directory(_)))) {
            steps.push(Step::File(FileStep::RemoveDirectory(home.clone())));
        }
        match &observed.user {
            Some(found) if before.existed => {
                let home = before.home.as_ref().unwrap_or(&found.home);
                let shell = before.shell.as_ref().unwrap_or(&found.shell);
                steps.extend(change(&spec.name, found, home, shell, out_of(&found.groups, before)));
            }
            Some(found) if found.uid == 0 => {
                return Err(Failure::new(format!(
                    "the user {} has become root: it is not deleted",
                    spec.name
                )));
            }
            Some(_) => steps.push(user(UserStep::DeleteUser(spec.name.clone()))),
            // An adopted user that somebody deleted is not made again.
            None => {}
        }
        if !before.existed {
            match (before.group, observed.group) {
                (None, Some(_)) => steps.push(user(UserStep::DeleteGroup(spec.name.clone()))),
                (Some(gid), found) if observed.user.is_some() || found.is_none() => {
                    steps.push(user(UserStep::KeepGroup(spec.name.clone(), gid)));
                }
                _ => {}
            }
        }
        Ok(steps)
    }
}

/// Keeps what a user had before something else was declared, until nothing else is and it has that again.
fn keep_old(old: &mut Option<String>, declared: Option<&String>, now: &String) {
    match (declared, &*old) {
        (Some(_), None) => *old = Some(now.clone()),
        (None, Some(was)) if was == now => *old = None,
        _ => {}
    }
}

/// These groups without those that the user was put into.
fn out_of(groups: &BTreeSet<String>, before: &UserBefore) -> BTreeSet<String> {
    groups.iter().filter(|name| before.groups.get(*name) != Some(&false)).cloned().collect()
}

fn user(step: UserStep) -> Step {
    Step::User(step)
}

/// Why the user cannot be as declared, where it cannot.
fn may_be(spec: &UserSpec, observed: &UserObserved) -> Result<(), Failure> {
    let name = &spec.name;
    if let Some(found) = &observed.user {
        if found.uid == 0 {
            return Err(Failure::new(format!(
                "the user {name} is root by another name: declare another one"
            )));
        }
        let numbers = [("uid", found.uid, spec.uid), ("gid", found.gid, spec.gid)];
        if let Some((what, has, Some(wanted))) =
            numbers.into_iter().find(|(_, has, wanted)| wanted.is_some_and(|wanted| wanted != *has))
        {
            // Its files would be somebody else's.
            return Err(Failure::new(format!(
                "the machine has a user {name} whose {what} is {has}, not {wanted}: declare that, or another name"
            )));
        }
    } else if let (Some(has), Some(wanted)) = (observed.group, spec.gid)
        && has != wanted
    {
        return Err(Failure::new(format!(
            "the machine has a group {name} whose gid is {has}, not {wanted}: declare that, or another name"
        )));
    }
    if let Some(missing) = observed.missing.first() {
        return Err(Failure::new(format!(
            "the machine has no group {missing}: let it wait for the package or user that makes it"
        )));
    }
    match spec.home.as_ref().and_then(|home| observed.homes.get_key_value(home)) {
        Some((home, Found::File { .. } | Found::Other(_))) => {
            Err(Failure::new(format!("at {home} is no directory: declare another home")))
        }
        _ => Ok(()),
    }
}

/// The group that owns a home: that of its name, or where an adopted user has none, its first one by number.
fn own_group(spec: &UserSpec, observed: &UserObserved, before: &UserBefore) -> String {
    match &observed.user {
        Some(found) if before.existed && observed.group != Some(found.gid) => found.gid.to_string(),
        _ => spec.name.clone(),
    }
}

/// What gives a user this home, this shell and these groups.
fn change(name: &str, found: &UserFound, home: &str, shell: &str, groups: BTreeSet<String>) -> Option<Step> {
    let change = UserChange {
        home: (found.home != home).then(|| home.to_owned()),
        shell: (found.shell != shell).then(|| shell.to_owned()),
        groups: (found.groups != groups).then_some(groups),
    };
    (change != UserChange::default()).then(|| user(UserStep::Change(name.to_owned(), change)))
}
