//! Users and groups of the machine, through its own programs: they lock the files of users, and know what belongs
//! together. Never writes these files itself, never sets a password, never deletes a home.

mod real;

use std::{collections::BTreeSet, fmt};

use async_trait::async_trait;
pub use real::RealUsers;

use super::Machine;
use crate::failure::Failure;

/// A user as the machine has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserFound {
    /// Its number.
    pub uid: u32,
    /// The number of its first group.
    pub gid: u32,
    /// Its home.
    pub home: String,
    /// Its login shell.
    pub shell: String,
    /// The groups it is in beside its first one.
    pub groups: BTreeSet<String>,
}

/// A user to be made. Its first group has its name, and is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    /// Its name.
    pub name: String,
    /// Its number, where it is given.
    pub uid: Option<u32>,
    /// Its home, which is not made.
    pub home: String,
    /// Its login shell.
    pub shell: String,
    /// The groups it is in beside its own.
    pub groups: BTreeSet<String>,
}

/// What becomes other of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserChange {
    /// Its home, whose content stays where it is.
    pub home: Option<String>,
    /// Its login shell.
    pub shell: Option<String>,
    /// All groups it is in beside its first one.
    pub groups: Option<BTreeSet<String>>,
}

/// The machine's users and groups.
#[async_trait(?Send)]
pub trait Users {
    /// The user of this name.
    fn look(&self, name: &str) -> Result<Option<UserFound>, Failure>;
    /// The number of the group of this name.
    fn group(&self, name: &str) -> Result<Option<u32>, Failure>;
    /// Makes a system group; one that is there stays as it is.
    async fn make_group(&self, name: &str, gid: Option<u32>) -> Result<(), Failure>;
    /// Makes a system user without a password.
    async fn make_user(&self, user: &NewUser) -> Result<(), Failure>;
    /// Changes a user.
    async fn change_user(&self, name: &str, change: &UserChange) -> Result<(), Failure>;
    /// Deletes a user and no file of it; the group of its name may go with it. One that is not there is deleted.
    async fn delete_user(&self, name: &str) -> Result<(), Failure>;
    /// Deletes a group; one that is not there is deleted.
    async fn delete_group(&self, name: &str) -> Result<(), Failure>;
}

/// One act on users and groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserStep {
    /// Make the group, with this number where it is given.
    MakeGroup(String, Option<u32>),
    /// Make the group again should it have gone with its user.
    KeepGroup(String, u32),
    /// Make the user.
    MakeUser(NewUser),
    /// Change the user.
    Change(String, UserChange),
    /// Delete the user.
    DeleteUser(String),
    /// Delete the group.
    DeleteGroup(String),
}

fn list(groups: &BTreeSet<String>) -> String {
    if groups.is_empty() {
        return "no further groups".to_owned();
    }
    format!("the groups {}", groups.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
}

impl fmt::Display for UserStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MakeGroup(name, None) => write!(f, "make the group {name}"),
            Self::MakeGroup(name, Some(gid)) => write!(f, "make the group {name} (gid {gid})"),
            Self::KeepGroup(name, gid) => write!(f, "keep the group {name} (gid {gid})"),
            Self::MakeUser(NewUser { name, uid, home, shell, groups }) => {
                let uid = uid.map_or_else(String::new, |uid| format!("uid {uid}, "));
                write!(f, "make the user {name} ({uid}home {home}, shell {shell}, {})", list(groups))
            }
            Self::Change(name, UserChange { home, shell, groups }) => {
                let home = home.as_ref().map(|home| format!("home {home}"));
                let shell = shell.as_ref().map(|shell| format!("shell {shell}"));
                let words = home.into_iter().chain(shell).chain(groups.as_ref().map(list));
                write!(f, "change the user {name}: {}", words.collect::<Vec<_>>().join(", "))
            }
            Self::DeleteUser(name) => write!(f, "delete the user {name}"),
            Self::DeleteGroup(name) => write!(f, "delete the group {name}"),
        }
    }
}

impl UserStep {
    /// Does it.
    pub async fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        let users = &machine.users;
        match self {
            Self::MakeGroup(name, gid) => users.make_group(name, *gid).await,
            Self::KeepGroup(name, gid) => users.make_group(name, Some(*gid)).await,
            Self::MakeUser(user) => users.make_user(user).await,
            Self::Change(name, change) => users.change_user(name, change).await,
            Self::DeleteUser(name) => users.delete_user(name).await,
            Self::DeleteGroup(name) => users.delete_group(name).await,
        }
    }
}
