//! Users and groups in memory, as the machine's programs keep them: no number twice, no group that is not there, and a
//! user's own group goes with it.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::Doors;
use crate::{
    failure::Failure,
    machine::users::{NewUser, UserChange, UserFound, Users},
};

impl Doors {
    fn groups_exist(&self, groups: &BTreeSet<String>) -> Result<(), Failure> {
        let known = self.0.groups.borrow();
        match groups.iter().find(|name| !known.contains_key(*name)) {
            Some(name) => Err(Failure::new(format!("group '{name}' does not exist"))),
            None => Ok(()),
        }
    }
}

/// The number that the machine chooses: the highest of system accounts that is free.
fn free(taken: impl Fn(u32) -> bool) -> u32 {
    (100..1000).rev().find(|number| !taken(*number)).unwrap_or(100)
}

#[async_trait(?Send)]
impl Users for Doors {
    fn look(&self, name: &str) -> Result<Option<UserFound>, Failure> {
        self.0.faults.operation("look at a user", || Ok(self.0.users.borrow().get(name).cloned()))
    }

    fn group(&self, name: &str) -> Result<Option<u32>, Failure> {
        self.0.faults.operation("look at a group", || Ok(self.0.groups.borrow().get(name).copied()))
    }

    async fn make_group(&self, name: &str, gid: Option<u32>) -> Result<(), Failure> {
        self.0.faults.operation("make a group", || {
            let mut groups = self.0.groups.borrow_mut();
            if groups.contains_key(name) {
                return Ok(());
            }
            let taken = |gid: u32| groups.values().any(|other| *other == gid);
            let gid = gid.unwrap_or_else(|| free(taken));
            if taken(gid) {
                return Err(Failure::new(format!("GID '{gid}' already exists")));
            }
            groups.insert(name.to_owned(), gid);
            Ok(())
        })
    }

    async fn make_user(&self, user: &NewUser) -> Result<(), Failure> {
        self.0.faults.operation("make a user", || {
            let NewUser { name, uid, home, shell, groups } = user.clone();
            self.groups_exist(&groups)?;
            let gid = self.0.groups.borrow().get(&name).copied();
            let gid = gid.ok_or_else(|| Failure::new(format!("group '{name}' does not exist")))?;
            let mut users = self.0.users.borrow_mut();
            let taken = |uid: u32| users.values().any(|other| other.uid == uid);
            let uid = uid.unwrap_or_else(|| free(taken));
            if users.contains_key(&name) || taken(uid) {
                return Err(Failure::new(format!("user '{name}' or UID {uid} already exists")));
            }
            users.insert(name, UserFound { uid, gid, home, shell, groups });
            Ok(())
        })
    }

    async fn change_user(&self, name: &str, change: &UserChange) -> Result<(), Failure> {
        self.0.faults.operation("change a user", || {
            let UserChange { home, shell, groups } = change.clone();
            self.groups_exist(groups.as_ref().unwrap_or(&BTreeSet::new()))?;
            let mut users = self.0.users.borrow_mut();
            let user = users.get_mut(name);
            let user = user.ok_or_else(|| Failure::new(format!("user '{name}' does not exist")))?;
            user.home = home.unwrap_or_else(|| user.home.clone());
            user.shell = shell.unwrap_or_else(|| user.shell.clone());
            user.groups = groups.unwrap_or_else(|| user.groups.clone());
            Ok(())
        })
    }

    async fn delete_user(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("delete a user", || {
            if let Some(user) = self.0.users.borrow_mut().remove(name) {
                self.0.groups.borrow_mut().retain(|group, gid| group != name || *gid != user.gid);
            }
            Ok(())
        })
    }

    async fn delete_group(&self, name: &str) -> Result<(), Failure> {
        self.0.faults.operation("delete a group", || {
            let mut groups = self.0.groups.borrow_mut();
            if let Some(gid) = groups.get(name)
                && let Some((user, _)) = self.0.users.borrow().iter().find(|(_, user)| user.gid == *gid)
            {
                return Err(Failure::new(format!("cannot remove the primary group of user '{user}'")));
            }
            groups.remove(name);
            Ok(())
        })
    }
}
