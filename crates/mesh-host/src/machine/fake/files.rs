//! The files of the machine in memory.

use mesh_ids::Digest;

use super::{Doors, Node};
use crate::{
    failure::Failure,
    machine::files::{Content, Files, Found, Meta, Write},
};

impl Doors {
    fn folder_exists(&self, path: &str) -> Result<(), Failure> {
        let folder =
            path.rsplit_once('/').map_or("/", |(folder, _)| if folder.is_empty() { "/" } else { folder });
        match self.0.tree.borrow().get(folder) {
            Some(Node::Directory(_)) => Ok(()),
            _ => Err(Failure::new(format!("there is no folder {folder}"))),
        }
    }

    fn write_one(&self, write: &Write) -> Result<(), Failure> {
        self.folder_exists(&write.path)?;
        let mut tree = self.0.tree.borrow_mut();
        if matches!(tree.get(&write.path), Some(Node::Directory(_) | Node::Other(_))) {
            return Err(Failure::new("something other than a regular file is there"));
        }
        tree.insert(write.path.clone(), Node::File(write.content.clone(), write.meta.clone()));
        Ok(())
    }
}

impl Files for Doors {
    fn look(&self, path: &str) -> Result<Found, Failure> {
        self.0.faults.operation("look", || {
            Ok(match self.0.tree.borrow().get(path) {
                None => Found::Nothing,
                Some(Node::File(content, meta)) => {
                    Found::File { meta: meta.clone(), content: content.digest() }
                }
                Some(Node::Directory(meta)) => Found::Directory(meta.clone()),
                Some(Node::Other(what)) => Found::Other(what.clone()),
            })
        })
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.0.faults.operation("read", || match self.0.tree.borrow().get(path) {
            Some(Node::File(content, _)) => Ok(content.bytes().to_vec()),
            _ => Err(Failure::new(format!("{path} is no file"))),
        })
    }

    fn write(&self, writes: &[Write]) -> Vec<Result<(), Failure>> {
        writes.iter().map(|write| self.0.faults.operation("write", || self.write_one(write))).collect()
    }

    fn set_meta(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        self.0.faults.operation("set mode and owner", || match self.0.tree.borrow_mut().get_mut(path) {
            Some(Node::File(_, known) | Node::Directory(known)) => {
                known.clone_from(meta);
                Ok(())
            }
            _ => Err(Failure::new(format!("there is nothing at {path}"))),
        })
    }

    fn make_directory(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        self.0.faults.operation("make a directory", || {
            self.folder_exists(path)?;
            self.0.tree.borrow_mut().entry(path.to_owned()).or_insert(Node::Directory(meta.clone()));
            Ok(())
        })
    }

    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        self.0.faults.operation("remove a file", || {
            let mut tree = self.0.tree.borrow_mut();
            match tree.get(path) {
                None => Ok(()),
                Some(Node::File(..)) => {
                    tree.remove(path);
                    Ok(())
                }
                Some(_) => Err(Failure::new("it is not a regular file")),
            }
        })
    }

    fn remove_directory(&self, path: &str) -> Result<(), Failure> {
        self.0.faults.operation("remove a directory", || {
            let mut tree = self.0.tree.borrow_mut();
            let inside = format!("{path}/");
            if !tree.keys().any(|other| other.starts_with(&inside)) {
                tree.remove(path);
            }
            Ok(())
        })
    }

    fn settle(&self) -> Result<(), Failure> {
        self.0.faults.operation("make removals durable", || Ok(()))
    }

    fn keep(&self, path: &str) -> Result<Digest, Failure> {
        self.0.faults.operation("keep a copy", || match self.0.tree.borrow().get(path) {
            Some(Node::File(content, _)) => {
                self.0.kept.borrow_mut().insert(content.digest(), content.clone());
                Ok(content.digest())
            }
            _ => Err(Failure::new(format!("{path} is no file"))),
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
