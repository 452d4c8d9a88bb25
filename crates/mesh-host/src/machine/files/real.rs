//! The machine's own files.
//!
//! Files are written beside their place, synced, and renamed into it. The digest of a file that did not change (same
//! inode, size, mtime and ctime) is remembered, so that a round over a thousand files reads none of them.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write as _},
    os::{
        fd::AsFd,
        unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    },
    path::{Path, PathBuf},
    str::FromStr as _,
    time::{Duration, SystemTime},
};

use mesh_ids::Digest;
use mesh_wire::kinds::Mode;
use rustix::{
    fs::{Gid, OFlags, Uid},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use super::{Content, Files, Found, Meta, Write, names::Names};
use crate::failure::{During as _, Failure};

/// From so many files on, one sync of the file system is cheaper than one of each file.
const MANY: usize = 4;
/// The largest file of which a copy is kept.
const LARGEST_KEPT: u64 = 64 * 1024 * 1024;
/// How much older than its hashing a file's last change must be for the digest to be trusted later: the kernel's clock
/// for files ticks every few milliseconds, and two writes within a tick look the same.
const TICK: Duration = Duration::from_millis(50);

/// The machine's own files.
#[derive(Debug)]
pub struct RealFiles {
    root: PathBuf,
    saved: PathBuf,
    users: RefCell<Names>,
    groups: RefCell<Names>,
    digests: RefCell<HashMap<String, (Stamp, Digest)>>,
    /// Folders out of which something was removed that is not durable yet.
    unsettled: RefCell<BTreeSet<PathBuf>>,
}

type Stamp = (u64, u64, u64, i64, i64, i64, i64);

fn stamp(m: &Metadata) -> Stamp {
    (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec())
}

impl RealFiles {
    /// The files under `root` (`/` but for tests); what is kept goes to the folder `saved`.
    pub fn new(root: &Path, saved: &Path) -> Self {
        Self {
            root: root.to_owned(),
            saved: saved.to_owned(),
            users: RefCell::new(Names::new(&root.join("etc/passwd"))),
            groups: RefCell::new(Names::new(&root.join("etc/group"))),
            digests: RefCell::default(),
            unsettled: RefCell::default(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn meta(&self, m: &Metadata) -> Meta {
        Meta {
            mode: Mode::new(m.mode()),
            owner: self.users.borrow_mut().name(m.uid()),
            group: self.groups.borrow_mut().name(m.gid()),
        }
    }

    fn owner(&self, meta: &Meta) -> Result<(Uid, Gid), Failure> {
        let no = |what: &str, name: &str| Failure::new(format!("the machine has no {what} {name:?}"));
        let user = self.users.borrow_mut().number(&meta.owner).ok_or_else(|| no("user", &meta.owner))?;
        let group = self.groups.borrow_mut().number(&meta.group).ok_or_else(|| no("group", &meta.group))?;
        Ok((Uid::from_raw(user), Gid::from_raw(group)))
    }

    fn digest(&self, path: &str, at: &Path, seen: &Metadata) -> io::Result<Digest> {
        if let Some((known, digest)) = self.digests.borrow().get(path)
            && *known == stamp(seen)
        {
            return Ok(digest.clone());
        }
        let mut file = open(at)?;
        let mut hash = Sha256::new();
        let mut buffer =
            vec![0; usize::try_from(seen.size() + 1).unwrap_or(usize::MAX).clamp(512, 64 * 1024)];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                n => hash.update(&buffer[..n]),
            }
        }
        let digest = Digest::of_sha256(hash.finalize().into());
        // What was seen before it was opened is what was read, if it is still the same now.
        if stamp(seen) == stamp(&file.metadata()?) && is_settled(seen) {
            self.digests.borrow_mut().insert(path.to_owned(), (stamp(seen), digest.clone()));
        }
        Ok(digest)
    }

    /// Writes the file beside its place, with its mode and owner. Not synced.
    fn stage(&self, write: &Write) -> Result<Staged, Failure> {
        let owner = self.owner(&write.meta)?;
        let place = self.at(&write.path);
        match fs::symlink_metadata(&place) {
            Ok(found) if !found.is_file() => {
                return Err(Failure::new("something other than a regular file is there"));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).during("look at it"),
            _ => {}
        }
        let folder = place.parent().ok_or_else(|| Failure::new("it has no folder"))?.to_owned();
        let beside = folder.join(name_beside(&place));
        let file = stage_at(&beside, write, owner).map_err(|error| {
            let _ = fs::remove_file(&beside);
            Failure::of("write the new file beside it", &error)
        })?;
        Ok(Staged { file, beside, place, folder })
    }
}

/// A file that is written and not yet in its place.
struct Staged {
    file: File,
    beside: PathBuf,
    place: PathBuf,
    folder: PathBuf,
}

/// The same for the same file, so that what a kill left is found and replaced.
fn name_beside(place: &Path) -> String {
    let name = place.file_name().unwrap_or_default().as_encoded_bytes();
    let digest = Digest::of_sha256(Sha256::digest(name).into());
    format!(".mesh-host-new-{}", &digest.hex()[..16])
}

fn stage_at(beside: &Path, write: &Write, (user, group): (Uid, Gid)) -> io::Result<File> {
    let make = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside);
    let mut file = match make() {
        // What a kill left.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(beside)?;
            make()?
        }
        opened => opened?,
    };
    file.write_all(write.content.bytes())?;
    // The owner first: changing it clears the set-user-ID bit.
    rustix::fs::fchown(&file, Some(user), Some(group))?;
    rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(write.meta.mode.bits()))?;
    Ok(file)
}

/// Opens without following a symbolic link, and without waiting should it be a pipe.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Whether the last change is long enough ago for another one to be told from it.
#[expect(clippy::disallowed_methods, reason = "compared with the clock of the file system, and nothing else")]
fn is_settled(m: &Metadata) -> bool {
    let seconds = Duration::from_secs(u64::try_from(m.ctime()).unwrap_or(0));
    let changed =
        SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(u64::try_from(m.ctime_nsec()).unwrap_or(0));
    SystemTime::now().duration_since(changed).is_ok_and(|age| age > TICK)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Syncs each, or where there are many, each file system once.
fn sync_all<'a, F: AsFd + 'a>(files: impl Iterator<Item = (u64, &'a F)> + Clone) -> io::Result<()> {
    if files.clone().count() <= MANY {
        return files.into_iter().try_for_each(|(_, file)| Ok(rustix::fs::fsync(file)?));
    }
    let by_device: BTreeMap<u64, &F> = files.collect();
    by_device.into_values().try_for_each(|file| Ok(rustix::fs::syncfs(file)?))
}

fn sync_staged(staged: &[&Staged]) -> io::Result<()> {
    let devices = staged.iter().map(|s| Ok(s.file.metadata()?.dev())).collect::<io::Result<Vec<u64>>>()?;
    sync_all(devices.into_iter().zip(staged.iter().map(|s| &s.file)))
}

fn sync_folders(staged: &[&Staged]) -> io::Result<()> {
    let mut folders: BTreeMap<&Path, File> = BTreeMap::new();
    for one in staged {
        if !folders.contains_key(one.folder.as_path()) {
            folders.insert(&one.folder, File::open(&one.folder)?);
        }
    }
    let devices = folders.values().map(|f| Ok(f.metadata()?.dev())).collect::<io::Result<Vec<u64>>>()?;
    sync_all(devices.into_iter().zip(folders.values()))
}

impl Files for RealFiles {
    fn look(&self, path: &str) -> Result<Found, Failure> {
        let at = self.at(path);
        let found = match fs::symlink_metadata(&at) {
            Ok(found) => found,
            // A file where a folder should be means that there is nothing under it.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.digests.borrow_mut().remove(path);
                return Ok(Found::Nothing);
            }
            Err(error) => return Err(error).during(format!("look at {path}")),
        };
        let kind = found.file_type();
        Ok(if kind.is_file() {
            let content = self.digest(path, &at, &found).during(format!("read {path}"))?;
            Found::File { meta: self.meta(&found), content }
        } else if kind.is_dir() {
            Found::Directory(self.meta(&found))
        } else if kind.is_symlink() {
            Found::Other("a symbolic link".to_owned())
        } else if kind.is_fifo() || kind.is_socket() {
            Found::Other("a pipe or socket".to_owned())
        } else {
            Found::Other("a device".to_owned())
        })
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let read = || {
            let mut bytes = Vec::new();
            open(&self.at(path))?.read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        read().during(format!("read {path}"))
    }

    fn write(&self, writes: &[Write]) -> Vec<Result<(), Failure>> {
        let mut staged: Vec<Result<Staged, Failure>> = writes.iter().map(|write| self.stage(write)).collect();
        let spoil = |staged: &mut Vec<Result<Staged, Failure>>, error: &io::Error, what: &str| {
            for one in staged.iter_mut() {
                if let Ok(done) = one {
                    let _ = fs::remove_file(&done.beside);
                    *one = Err(Failure::of(what, error));
                }
            }
        };
        if let Err(error) = sync_staged(&staged.iter().flatten().collect::<Vec<_>>()) {
            spoil(&mut staged, &error, "make it durable");
        }
        for one in &mut staged {
            if let Ok(done) = one
                && let Err(error) = fs::rename(&done.beside, &done.place)
            {
                let _ = fs::remove_file(&done.beside);
                *one = Err(Failure::of("put it in its place", &error));
            }
        }
        if let Err(error) = sync_folders(&staged.iter().flatten().collect::<Vec<_>>()) {
            spoil(&mut staged, &error, "make its place durable");
        }
        staged.into_iter().map(|one| one.map(|_| ())).collect()
    }

    fn set_meta(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        let (user, group) = self.owner(meta)?;
        let set = || {
            let file = open(&self.at(path))?;
            rustix::fs::fchown(&file, Some(user), Some(group))?;
            rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(meta.mode.bits()))?;
            file.sync_all()
        };
        set().during("set mode and owner")
    }

    fn make_directory(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        let at = self.at(path);
        match fs::DirBuilder::new().mode(0o700).create(&at) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).during("make it");
            }
            _ => {}
        }
        self.set_meta(path, meta)?;
        at.parent().map_or(Ok(()), sync_folder).during("make it durable")
    }

    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        let at = self.at(path);
        match fs::symlink_metadata(&at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).during("look at it"),
            Ok(found) if !found.is_file() => return Err(Failure::new("it is not a regular file")),
            Ok(_) => {}
        }
        fs::remove_file(&at).during("remove it")?;
        self.unsettled.borrow_mut().extend(at.parent().map(Path::to_owned));
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> Result<(), Failure> {
        let at = self.at(path);
        match rustix::fs::rmdir(&at) {
            Ok(()) => {
                self.unsettled.borrow_mut().extend(at.parent().map(Path::to_owned));
                Ok(())
            }
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => Ok(()),
            Err(error) => Err(io::Error::from(error)).during("remove it"),
        }
    }

    fn settle(&self) -> Result<(), Failure> {
        let settle = || {
            let mut folders = Vec::new();
            for folder in self.unsettled.borrow().iter() {
                match File::open(folder) {
                    Ok(opened) => folders.push((opened.metadata()?.dev(), opened)),
                    // It was removed itself: the folder it was in is among them.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            sync_all(folders.iter().map(|(device, folder)| (*device, folder)))
        };
        settle().during("make removals durable")?;
        self.unsettled.borrow_mut().clear();
        Ok(())
    }

    fn keep(&self, path: &str) -> Result<Digest, Failure> {
        let keep = || {
            let mut file = open(&self.at(path))?;
            if file.metadata()?.size() > LARGEST_KEPT {
                return Err(io::Error::other("it is larger than 64 MiB: move it away first"));
            }
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let digest = Digest::of_sha256(Sha256::digest(&bytes).into());
            let kept = self.saved.join(digest.hex());
            if kept.exists() {
                return Ok(digest);
            }
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.saved)?;
            let new = self.saved.join("new");
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&new, &kept)?;
            sync_folder(&self.saved)?;
            Ok(digest)
        };
        keep().during("keep a copy")
    }

    fn kept(&self, content: &Digest) -> Result<Content, Failure> {
        let bytes = fs::read(self.saved.join(content.hex())).during("read the copy that was kept")?;
        let found = Content::new(&bytes);
        if found.digest() == *content {
            Ok(found)
        } else {
            Err(Failure::new("the copy that was kept is damaged"))
        }
    }

    fn all_kept(&self) -> Result<Vec<Digest>, Failure> {
        let entries = match fs::read_dir(&self.saved) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).during("list what was kept"),
        };
        let mut kept = Vec::new();
        for entry in entries {
            let name = entry.during("list what was kept")?.file_name();
            let digest = name.to_str().and_then(|name| Digest::from_str(&format!("sha256:{name}")).ok());
            kept.extend(digest);
        }
        Ok(kept)
    }

    fn forget_kept_but(&self, needed: &[Digest]) -> Result<(), Failure> {
        for digest in self.all_kept()?.iter().filter(|digest| !needed.contains(digest)) {
            fs::remove_file(self.saved.join(digest.hex())).during("remove what was kept")?;
        }
        Ok(())
    }
}
