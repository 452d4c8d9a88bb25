//! A disk in memory whose power can be cut between any two acts. What was not synced may then be there, be lost, or be
//! half there; names and contents are lost independently, as on a real one.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use mesh_ids::Digest;
use sha2::{Digest as _, Sha256};

use super::disk::Disk;

/// What becomes of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// All of it arrived.
    Nothing,
    /// None of it arrived.
    Everything,
    /// The names arrived, the contents half.
    Contents,
    /// The contents arrived, the names did not.
    Names,
}

pub(super) const LOSSES: [Loss; 4] = [Loss::Nothing, Loss::Everything, Loss::Contents, Loss::Names];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    Link(PathBuf),
    File(usize),
}

#[derive(Debug, Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What is durable of it.
    synced: Vec<u8>,
}

/// The disk.
#[derive(Debug, Default)]
pub(super) struct PowerDisk {
    entries: RefCell<BTreeMap<PathBuf, Entry>>,
    durable: RefCell<BTreeMap<PathBuf, Entry>>,
    contents: RefCell<Vec<Content>>,
    acts: Cell<u64>,
    fails_at: Cell<u64>,
    stays_off: Cell<bool>,
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, path.display().to_string())
}

impl PowerDisk {
    /// Folders, durable.
    pub(super) fn with_folders(folders: &[&str]) -> Self {
        let disk = Self::default();
        for folder in folders {
            disk.entries.borrow_mut().insert(folder.into(), Entry::Folder);
        }
        disk.settle();
        disk
    }

    /// A file, durable, as a person puts it there.
    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        let number = self.contents.borrow().len();
        self.contents.borrow_mut().push(Content { bytes: bytes.to_vec(), synced: bytes.to_vec() });
        self.entries.borrow_mut().insert(path.into(), Entry::File(number));
        self.settle();
    }

    fn settle(&self) {
        self.durable.borrow_mut().clone_from(&self.entries.borrow());
    }

    /// The power is cut before the `k`-th act from now on, and stays off.
    pub(super) fn cut_before(&self, k: u64) {
        self.acts.set(0);
        self.fails_at.set(k);
        self.stays_off.set(true);
    }

    /// The `k`-th act from now on fails; the others do not.
    pub(super) fn fail_at(&self, k: u64) {
        self.cut_before(k);
        self.stays_off.set(false);
    }

    /// How many acts there were since.
    pub(super) fn acts(&self) -> u64 {
        self.acts.get()
    }

    /// The power is back.
    pub(super) fn restart(&self, loss: Loss) {
        self.cut_before(0);
        if matches!(loss, Loss::Everything | Loss::Names) {
            self.entries.borrow_mut().clone_from(&self.durable.borrow());
        }
        for content in self.contents.borrow_mut().iter_mut().filter(|content| content.bytes != content.synced)
        {
            match loss {
                Loss::Nothing | Loss::Names => {}
                Loss::Everything => content.bytes.clone_from(&content.synced),
                Loss::Contents => content.bytes.truncate(content.bytes.len() / 2),
            }
            content.synced.clone_from(&content.bytes);
        }
        self.settle();
    }

    /// The content of a file, through links, without it being an act.
    pub(super) fn peek(&self, path: &Path) -> Option<Vec<u8>> {
        let file = self.resolve(path)?;
        Some(self.contents.borrow()[file].bytes.clone())
    }

    fn resolve(&self, path: &Path) -> Option<usize> {
        match self.entries.borrow().get(path)? {
            Entry::File(number) => Some(*number),
            Entry::Folder => None,
            Entry::Link(target) => {
                let mut place = path.parent()?.to_owned();
                for part in target.components() {
                    match part {
                        std::path::Component::ParentDir => {
                            place.pop();
                        }
                        part => place.push(part),
                    }
                }
                match self.entries.borrow().get(&place)? {
                    Entry::File(number) => Some(*number),
                    _ => None,
                }
            }
        }
    }

    fn act<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.acts.set(self.acts.get() + 1);
        let (number, fails_at) = (self.acts.get(), self.fails_at.get());
        if fails_at > 0 && (number == fails_at || (self.stays_off.get() && number > fails_at)) {
            return Err(io::Error::other("No space left on device"));
        }
        act()
    }

    fn has_folder(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or_else(|| missing(path))?;
        match self.entries.borrow().get(folder) {
            Some(Entry::Folder) => Ok(()),
            _ => Err(missing(folder)),
        }
    }

    fn name(&self, path: &Path, entry: Entry) -> io::Result<()> {
        self.has_folder(path)?;
        if self.entries.borrow().contains_key(path) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, path.display().to_string()));
        }
        self.entries.borrow_mut().insert(path.to_owned(), entry);
        Ok(())
    }
}

fn digest(bytes: &[u8]) -> Digest {
    Digest::of_sha256(Sha256::digest(bytes).into())
}

impl Disk for PowerDisk {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.act(|| Ok(self.peek(path)))
    }

    fn head(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>> {
        let mut head = self.act(|| self.peek(path).ok_or_else(|| missing(path)))?;
        head.truncate(bytes);
        Ok(head)
    }

    fn digest(&self, path: &Path) -> io::Result<Option<Digest>> {
        self.act(|| Ok(self.peek(path).map(|bytes| digest(&bytes))))
    }

    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        self.act(|| match self.entries.borrow().get(path) {
            Some(Entry::Link(target)) => Ok(Some(target.clone())),
            _ => Ok(None),
        })
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.act(|| {
            let entries = self.entries.borrow();
            let inside = entries.keys().filter(|path| path.parent() == Some(folder));
            Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
        })
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.act(|| match self.name(path, Entry::Folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            outcome => outcome,
        })
    }

    fn write(&self, path: &Path, bytes: &[u8], _: u32) -> io::Result<()> {
        self.act(|| {
            self.entries.borrow_mut().remove(path);
            let number = self.contents.borrow().len();
            self.name(path, Entry::File(number))?;
            self.contents.borrow_mut().push(Content { bytes: bytes.to_vec(), synced: Vec::new() });
            Ok(())
        })
    }

    fn copy(&self, from: &Path, to: &Path, mode: u32) -> io::Result<Digest> {
        let bytes = self.peek(from).ok_or_else(|| missing(from))?;
        // Half of it first: a disk may be full, or the power cut, in the middle.
        self.write(to, &bytes[..bytes.len() / 2], mode)?;
        self.write(to, &bytes, mode)?;
        Ok(digest(&bytes))
    }

    fn name_again(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.act(|| {
            let number = self.resolve(file).ok_or_else(|| missing(file))?;
            self.name(name, Entry::File(number))
        })
    }

    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        self.act(|| self.name(path, Entry::Link(target.to_owned())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act(|| {
            let entry = self.entries.borrow_mut().remove(from).ok_or_else(|| missing(from))?;
            self.entries.borrow_mut().insert(to.to_owned(), entry);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.act(|| {
            self.entries.borrow_mut().remove(path);
            Ok(())
        })
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.act(|| {
            if self.entries.borrow().keys().any(|other| other.parent() == Some(path)) {
                return Err(io::Error::other("Directory not empty"));
            }
            self.entries.borrow_mut().remove(path);
            Ok(())
        })
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        self.act(|| {
            let entry = self.entries.borrow().get(path).cloned();
            match entry {
                Some(Entry::File(number)) => {
                    let content = &mut self.contents.borrow_mut()[number];
                    content.synced.clone_from(&content.bytes);
                    Ok(())
                }
                Some(Entry::Folder) => {
                    let mut durable = self.durable.borrow_mut();
                    durable.retain(|name, _| name.parent() != Some(path));
                    let entries = self.entries.borrow();
                    let inside = entries.iter().filter(|(name, _)| name.parent() == Some(path));
                    durable.extend(inside.map(|(name, entry)| (name.clone(), entry.clone())));
                    Ok(())
                }
                _ => Err(missing(path)),
            }
        })
    }
}
