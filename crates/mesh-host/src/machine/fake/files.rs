//! The files of the machine in memory.

use std::collections::BTreeMap;

use mesh_ids::Digest;

use super::{Doors, Node, World};
use crate::{
    failure::Failure,
    machine::files::{
        Content, Files, Found, Meta, Names, Trouble, Write,
        links::{Part, follow},
        split,
    },
};

/// As much as a real file system takes.
const LONGEST_NAME: usize = 255;

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    /// It is looked at, or read.
    Look,
    /// Its mode or owner is set.
    Set,
    /// It is made, or a new file beside it.
    Make,
    /// It is replaced or removed.
    Replace,
}

impl World {
    /// What stands in the way of this act.
    fn trouble(&self, path: &str, act: Act) -> Result<(), Failure> {
        let troubles = self.troubles.borrow();
        let (folder, name) = split(path);
        if name.len() > LONGEST_NAME {
            return Err(Failure::new(Trouble::NameTooLong.with(path).to_string()));
        }
        let stops = |trouble: Trouble| match trouble {
            Trouble::TooManyOpen => true,
            Trouble::Full | Trouble::NoInodes => act == Act::Make,
            _ => act != Act::Look,
        };
        let everywhere = troubles.get("/").filter(|trouble| stops(**trouble)).map(|trouble| (*trouble, path));
        let here = troubles.get(path).filter(|_| matches!(act, Act::Set | Act::Replace));
        let around = troubles.get(folder).filter(|_| matches!(act, Act::Make | Act::Replace));
        let found =
            everywhere.or(here.map(|trouble| (*trouble, path))).or(around.map(|trouble| (*trouble, folder)));
        found.map_or(Ok(()), |(trouble, path)| Err(Failure::new(trouble.with(path).to_string())))
    }

    /// The path without links, once this act is possible there.
    fn reach(&self, path: &str, act: Act) -> Result<String, Failure> {
        let path = follow(path, |at| Ok(self.part(at)))?;
        self.trouble(&path, act)?;
        if act != Act::Look {
            let folder = split(&path).0;
            match self.tree.borrow().get(folder) {
                Some(Node::Directory(_)) => {}
                None => return Err(Failure::new(Trouble::NoFolder.with(&path).to_string())),
                Some(_) => return Err(Failure::new(Trouble::NotADirectory.with(&path).to_string())),
            }
        }
        Ok(path)
    }

    fn part(&self, path: &str) -> Part {
        let by = |owner: &str| (owner != "root").then(|| format!("the user {owner}"));
        match self.tree.borrow().get(path) {
            None => Part::Nothing,
            Some(Node::Directory(Meta { mode, owner, .. })) => {
                let open = mode.bits() & 0o1022;
                Part::Folder {
                    changed_by: by(owner)
                        .or((open == 0o022 || open == 0o002).then(|| "everybody".to_owned())),
                }
            }
            Some(Node::Link { to, owner }) => Part::Link { to: to.clone(), owner: by(owner) },
            Some(_) => Part::Other,
        }
    }

    fn know_owner(&self, meta: &Meta) -> Result<(), Failure> {
        number(&self.user_numbers(), &meta.owner).ok_or_else(|| Names::missing("user", &meta.owner))?;
        number(&self.groups.borrow(), &meta.group).ok_or_else(|| Names::missing("group", &meta.group))?;
        Ok(())
    }

    fn user_numbers(&self) -> BTreeMap<String, u32> {
        let users = self.users.borrow();
        let numbers = users.iter().map(|(name, user)| (name.clone(), user.uid));
        numbers.chain([("root".to_owned(), 0)]).collect()
    }

    /// As it is found later: called by the first name that has the number.
    fn as_found(&self, meta: &Meta) -> Meta {
        let (users, groups) = (self.user_numbers(), self.groups.borrow());
        Meta { mode: meta.mode, owner: called(&users, &meta.owner), group: called(&groups, &meta.group) }
    }
}

fn number(names: &BTreeMap<String, u32>, name: &str) -> Option<u32> {
    names.get(name).copied().or_else(|| name.parse().ok())
}

fn called(names: &BTreeMap<String, u32>, name: &str) -> String {
    let number = number(names, name);
    let first = names.iter().find(|(_, other)| Some(**other) == number);
    first.map_or_else(|| name.to_owned(), |(name, _)| name.clone())
}

fn beside(path: &str) -> String {
    let (folder, name) = split(path);
    format!("{}/.mesh-host-new-{name}", folder.trim_end_matches('/'))
}

impl Doors {
    fn stage(&self, write: &Write) -> Result<String, Failure> {
        let world = &self.0;
        world.know_owner(&write.meta)?;
        let path = world.reach(&write.path, Act::Make)?;
        if world.troubles.borrow().get(split(&path).0) == Some(&Trouble::AppendOnly) {
            return Err(Failure::new(Trouble::AppendOnly.with(split(&path).0).to_string()));
        }
        let mut tree = world.tree.borrow_mut();
        if !matches!(tree.get(&path), None | Some(Node::File(..))) {
            return Err(Failure::new("something other than a regular file is there"));
        }
        tree.insert(beside(&path), Node::File(write.content.clone(), world.as_found(&write.meta)));
        Ok(path)
    }

    fn put_in_place(&self, path: &str) -> Result<(), Failure> {
        let reached = self.0.reach(path, Act::Replace);
        let mut tree = self.0.tree.borrow_mut();
        let new = tree.remove(&beside(path));
        let reached = reached.map_err(|why| why.during("put it in its place"))?;
        tree.extend(new.map(|new| (reached, new)));
        Ok(())
    }

    /// Takes away what could not be completed.
    fn spoil(&self, staged: &mut [Result<String, Failure>], why: &Failure) {
        for one in staged {
            if let Ok(path) = one {
                self.0.tree.borrow_mut().remove(&beside(path));
                *one = Err(why.clone());
            }
        }
    }
}

impl Files for Doors {
    fn resolve(&self, path: &str) -> Result<String, Failure> {
        follow(path, |at| Ok(self.0.part(at)))
    }

    fn look(&self, path: &str) -> Result<Found, Failure> {
        self.0.faults.operation("look", || {
            let path = self.0.reach(path, Act::Look).map_err(|why| why.during(format!("look at {path}")))?;
            Ok(match self.0.tree.borrow().get(&path) {
                None => Found::Nothing,
                Some(Node::File(content, meta)) => {
                    Found::File { meta: meta.clone(), content: content.digest() }
                }
                Some(Node::Directory(meta)) => Found::Directory(meta.clone()),
                Some(Node::Link { .. }) => Found::Other("a symbolic link".to_owned()),
                Some(Node::Other(what)) => Found::Other(what.clone()),
            })
        })
    }

    fn is_same_owner(&self, one: &Meta, other: &Meta) -> bool {
        let (users, groups) = (self.0.user_numbers(), self.0.groups.borrow());
        let numbers = |meta: &Meta| (number(&users, &meta.owner), number(&groups, &meta.group));
        numbers(one) == numbers(other)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.0.faults.operation("read", || {
            let path = self.0.reach(path, Act::Look)?;
            match self.0.tree.borrow().get(&path) {
                Some(Node::File(content, _)) => Ok(content.bytes().to_vec()),
                _ => Err(Failure::new(format!("{path} is no file"))),
            }
        })
    }

    fn write(&self, writes: &[Write]) -> Vec<Result<(), Failure>> {
        let faults = &self.0.faults;
        let mut staged: Vec<Result<String, Failure>> = (writes.iter())
            .map(|write| faults.operation("write the new file beside it", || self.stage(write)))
            .collect();
        if let Err(why) = faults.operation("make it durable", || Ok(())) {
            self.spoil(&mut staged, &why);
        }
        for one in &mut staged {
            if let Ok(path) = one
                && let Err(why) = faults.operation("put it in its place", || self.put_in_place(path))
            {
                self.0.tree.borrow_mut().remove(&beside(path));
                *one = Err(why);
            }
        }
        if let Err(why) = faults.operation("make its place durable", || Ok(())) {
            self.spoil(&mut staged, &why);
        }
        staged.into_iter().map(|one| one.map(|_| ())).collect()
    }

    fn set_meta(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        self.0.faults.operation("set mode and owner", || {
            self.0.know_owner(meta)?;
            let path = self.0.reach(path, Act::Set).map_err(|why| why.during("set mode and owner"))?;
            match self.0.tree.borrow_mut().get_mut(&path) {
                Some(Node::File(_, known) | Node::Directory(known)) => {
                    *known = self.0.as_found(meta);
                    Ok(())
                }
                _ => Err(Failure::new(format!("there is nothing at {path}"))),
            }
        })
    }

    fn make_directory(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        self.0.faults.operation("make a directory", || {
            self.0.know_owner(meta)?;
            let path = self.0.reach(path, Act::Make).map_err(|why| why.during("make it"))?;
            let made = Node::Directory(self.0.as_found(meta));
            self.0.tree.borrow_mut().entry(path).or_insert(made);
            Ok(())
        })
    }

    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        self.0.faults.operation("remove a file", || {
            let path = self.resolve(path)?;
            let there = self.0.tree.borrow().get(&path).cloned();
            match there {
                None => Ok(()),
                Some(Node::File(..)) => {
                    let path = self.0.reach(&path, Act::Replace).map_err(|why| why.during("remove it"))?;
                    self.0.tree.borrow_mut().remove(&path);
                    Ok(())
                }
                Some(_) => Err(Failure::new("it is not a regular file")),
            }
        })
    }

    fn remove_directory(&self, path: &str) -> Result<(), Failure> {
        self.0.faults.operation("remove a directory", || {
            let path = self.resolve(path)?;
            let inside = format!("{path}/");
            let is_empty = !self.0.tree.borrow().keys().any(|other| other.starts_with(&inside));
            if is_empty && self.0.tree.borrow().contains_key(&path) {
                let path = self.0.reach(&path, Act::Replace).map_err(|why| why.during("remove it"))?;
                self.0.tree.borrow_mut().remove(&path);
            }
            Ok(())
        })
    }

    fn sweep(&self, path: &str) {
        let swept = self.0.faults.operation("sweep", || self.resolve(path));
        if let Ok(path) = swept {
            self.0.tree.borrow_mut().remove(&beside(&path));
        }
    }

    fn settle(&self) -> Result<(), Failure> {
        self.0.faults.operation("make removals durable", || Ok(()))
    }

    fn keep(&self, path: &str) -> Result<Digest, Failure> {
        self.0.faults.operation("keep a copy", || {
            let path = self.0.reach(path, Act::Look).map_err(|why| why.during("keep a copy"))?;
            match self.0.tree.borrow().get(&path) {
                Some(Node::File(content, _)) => {
                    self.0.kept.borrow_mut().insert(content.digest(), content.clone());
                    Ok(content.digest())
                }
                _ => Err(Failure::new(format!("{path} is no file"))),
            }
        })
    }

    fn kept(&self, content: &Digest) -> Result<Content, Failure> {
        self.0.faults.operation("read what was kept", || {
            let kept = self.0.kept.borrow().get(content).cloned();
            kept.ok_or_else(|| Failure::new("nothing was kept under this digest"))
        })
    }

    fn all_kept(&self) -> Result<Vec<Digest>, Failure> {
        self.0.faults.operation("list what was kept", || Ok(self.0.kept.borrow().keys().cloned().collect()))
    }

    fn forget_kept_but(&self, needed: &[Digest]) -> Result<(), Failure> {
        self.0.faults.operation("forget what was kept", || {
            self.0.kept.borrow_mut().retain(|digest, _| needed.contains(digest));
            Ok(())
        })
    }
}
