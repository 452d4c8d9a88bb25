//! Files that are written together: each beside its place, all synced, then each renamed into its place.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Write as _},
    rc::Rc,
};

use mesh_ids::Digest;
use rustix::{
    fs::{AtFlags, FileType, Gid, OFlags, Uid},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::{
    super::{Write, split},
    RealFiles,
    place::{Folder, Place},
};
use crate::failure::Failure;

/// From so many files on, one sync of the file system is cheaper than one of each file.
pub(super) const MANY: usize = 4;
/// So many folders are held open at once: a process may have about a thousand descriptors.
const MOST_FOLDERS: usize = 128;

/// A file that is written and not yet in its place.
pub(super) struct Staged {
    /// `None` where another file on the same file system stands for it.
    file: Option<File>,
    beside: String,
    place: Place,
}

/// What is held open while files are written together.
#[derive(Default)]
struct Batch {
    folders: BTreeMap<String, Rc<Folder>>,
    /// Of many files, one of each file system: opened before the others were written, so that syncing its file system
    /// tells of an error of any of them.
    devices: BTreeMap<u64, File>,
    many: bool,
}

impl RealFiles {
    /// Writes all of these. One outcome each, in order.
    pub(super) fn write_all(&self, writes: &[Write]) -> Vec<Result<(), Failure>> {
        let mut outcomes = Vec::with_capacity(writes.len());
        let mut rest = writes;
        while !rest.is_empty() {
            let mut folders = BTreeSet::new();
            let mut fits = 0;
            for write in rest {
                folders.insert(split(&write.path).0);
                if folders.len() > MOST_FOLDERS {
                    break;
                }
                fits += 1;
            }
            let (now, later) = rest.split_at(fits);
            outcomes.extend(self.write_together(now));
            rest = later;
        }
        outcomes
    }

    fn write_together(&self, writes: &[Write]) -> Vec<Result<(), Failure>> {
        let mut batch = Batch { many: writes.len() > MANY, ..Batch::default() };
        let mut staged: Vec<Result<Staged, Failure>> =
            writes.iter().map(|write| self.stage(write, &mut batch)).collect();
        if let Err(error) = batch.sync_files(staged.iter().flatten()) {
            spoil(&mut staged, error, "make it durable");
        }
        for one in &mut staged {
            if let Ok(done) = one
                && let Err(error) = done.put_in_place()
            {
                done.take_away();
                *one = Err(done.place.failure(error).during("put it in its place"));
            }
        }
        if let Err(error) = batch.sync_folders(staged.iter().flatten()) {
            spoil(&mut staged, error, "make its place durable");
        }
        staged.into_iter().map(|one| one.map(|_| ())).collect()
    }

    /// Writes the file beside its place, with its mode and owner. Not synced.
    fn stage(&self, write: &Write, batch: &mut Batch) -> Result<Staged, Failure> {
        let owner = self.owner(&write.meta)?;
        let place = self.place_in(&write.path, batch)?;
        match place.stat() {
            Ok(found) if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile => {
                return Err(Failure::new("something other than a regular file is there"));
            }
            Err(error) if error != Errno::NOENT => return Err(place.failure(error).during("look at it")),
            _ => {}
        }
        let beside = name_beside(&place.name);
        let at = Place { folder: Rc::clone(&place.folder), name: beside.clone() };
        let staged = stage_at(&at, write, owner).map_err(|error| {
            remove_beside(&at.folder, &beside);
            place.io_failure(&error).during("write the new file beside it")
        });
        let file = staged?;
        let file = if batch.many {
            let device = rustix::fs::fstat(&file).map_err(|error| place.failure(error))?.st_dev;
            batch.devices.entry(device).or_insert(file);
            None
        } else {
            Some(file)
        };
        Ok(Staged { file, beside, place })
    }

    fn place_in(&self, path: &str, batch: &mut Batch) -> Result<Place, Failure> {
        let (folder, name) = split(path);
        if let Some(folder) = batch.folders.get(folder) {
            return Ok(Place { folder: Rc::clone(folder), name: name.to_owned() });
        }
        let place = self.place(path).map_err(|no| no.failure(path))?;
        // In an append-only folder the new file could be neither put in its place nor taken away again.
        if let Some((trouble, protected)) = place.folder.protected() {
            return Err(Failure::new(trouble.with(&protected).to_string()));
        }
        batch.folders.insert(folder.to_owned(), Rc::clone(&place.folder));
        Ok(place)
    }
}

fn spoil(staged: &mut [Result<Staged, Failure>], error: Errno, what: &str) {
    for one in staged {
        if let Ok(done) = one {
            done.take_away();
            *one = Err(done.place.failure(error).during(what));
        }
    }
}

impl Staged {
    fn put_in_place(&self) -> Result<(), Errno> {
        let folder = &self.place.folder.at;
        rustix::fs::renameat(folder, &self.beside, folder, &self.place.name)
    }

    fn take_away(&self) {
        remove_beside(&self.place.folder, &self.beside);
    }
}

/// Takes away a new file that is not to be, if it is there. Whether that worked does not matter: the next one replaces it.
pub(super) fn remove_beside(folder: &Folder, name: &str) {
    let _ = rustix::fs::unlinkat(&folder.at, name, AtFlags::empty());
}

/// The same for the same file, so that what a kill left is found and replaced.
pub(super) fn name_beside(name: &str) -> String {
    let digest = Digest::of_sha256(Sha256::digest(name.as_bytes()).into());
    format!(".mesh-host-new-{}", &digest.hex()[..16])
}

fn stage_at(at: &Place, write: &Write, (user, group): (Uid, Gid)) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(&at.folder.at, &at.name, flags, rustix::fs::Mode::from_raw_mode(0o600));
    let opened = match open() {
        // What a kill left.
        Err(Errno::EXIST) => {
            rustix::fs::unlinkat(&at.folder.at, &at.name, AtFlags::empty())?;
            open()?
        }
        opened => opened?,
    };
    let mut file = File::from(opened);
    file.write_all(write.content.bytes())?;
    // The owner first: changing it clears the set-user-ID bit.
    rustix::fs::fchown(&file, Some(user), Some(group))?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(write.meta.mode.bits()))?;
    Ok(file)
}

impl Batch {
    fn sync_files<'a>(&self, staged: impl Iterator<Item = &'a Staged>) -> Result<(), Errno> {
        self.devices.values().try_for_each(rustix::fs::syncfs)?;
        staged.filter_map(|one| one.file.as_ref()).try_for_each(rustix::fs::fsync)
    }

    fn sync_folders<'a>(&self, staged: impl Iterator<Item = &'a Staged>) -> Result<(), Errno> {
        let mut folders: BTreeMap<&str, &Folder> = BTreeMap::new();
        staged.for_each(|one| {
            folders.insert(&one.place.folder.path, &one.place.folder);
        });
        if folders.len() > MANY {
            // One more sync of each file system: what was renamed is in folders of the same ones.
            return self.devices.values().try_for_each(rustix::fs::syncfs);
        }
        folders.values().try_for_each(|folder| rustix::fs::fsync(folder.open()?))
    }
}
