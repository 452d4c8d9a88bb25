//! The machine's own files.
//!
//! Files are written beside their place, synced, and renamed into it. The digest of a file that did not change (same
//! inode, size, mtime and ctime) is remembered, so that a round over a thousand files reads none of them.

mod batch;
mod place;

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    str::FromStr as _,
    time::{Duration, SystemTime},
};

use mesh_ids::Digest;
use mesh_wire::kinds::Mode;
use rustix::{
    fs::{AtFlags, FileType, Gid, Stat, Uid},
    io::Errno,
};
use sha2::{Digest as _, Sha256};

use self::{
    batch::{name_beside, remove_beside},
    place::{NoPlace, Place, Root, named},
};
use super::{Content, Files, Found, Meta, Write, names::Names};
use crate::failure::{During as _, Failure};

/// The largest file of which a copy is kept.
const LARGEST_KEPT: u64 = 64 * 1024 * 1024;
/// How much older than its hashing a file's last change must be for the digest to be trusted later: the kernel's clock
/// for files ticks every few milliseconds, and two writes within a tick look the same.
const TICK: Duration = Duration::from_millis(50);

/// The machine's own files.
#[derive(Debug)]
pub struct RealFiles {
    root: Root,
    saved: PathBuf,
    users: RefCell<Names>,
    groups: RefCell<Names>,
    digests: RefCell<HashMap<String, (Stamp, Digest)>>,
    /// Folders out of which something was removed that is not durable yet.
    unsettled: RefCell<BTreeSet<String>>,
}

/// What tells one state of a file from another: device, inode, size, and the times of its last changes.
type Stamp = (u64, u64, i64, i64, u64, i64, u64);

fn stamp(m: &Stat) -> Stamp {
    (m.st_dev, m.st_ino, m.st_size, m.st_mtime, m.st_mtime_nsec, m.st_ctime, m.st_ctime_nsec)
}

fn kind(m: &Stat) -> FileType {
    FileType::from_raw_mode(m.st_mode)
}

impl RealFiles {
    /// The files under `root` (`/` but for tests); what is kept goes to the folder `saved`.
    pub fn new(root: &Path, saved: &Path) -> Self {
        Self {
            root: Root::new(root),
            saved: saved.to_owned(),
            users: RefCell::new(Names::new(&root.join("etc/passwd"))),
            groups: RefCell::new(Names::new(&root.join("etc/group"))),
            digests: RefCell::default(),
            unsettled: RefCell::default(),
        }
    }

    fn place(&self, path: &str) -> Result<Place, NoPlace> {
        self.root.place(path, &named(&self.users))
    }

    /// The place of something that has to be there.
    fn there(&self, path: &str) -> Result<Place, Failure> {
        self.place(path).map_err(|no| no.failure(path))
    }

    fn meta(&self, m: &Stat) -> Meta {
        Meta {
            mode: Mode::new(m.st_mode),
            owner: self.users.borrow_mut().name(m.st_uid),
            group: self.groups.borrow_mut().name(m.st_gid),
        }
    }

    fn numbers(&self, meta: &Meta) -> (Option<u32>, Option<u32>) {
        let user = self.users.borrow_mut().number(&meta.owner);
        (user, self.groups.borrow_mut().number(&meta.group))
    }

    fn owner(&self, meta: &Meta) -> Result<(Uid, Gid), Failure> {
        let (user, group) = self.numbers(meta);
        let user = user.ok_or_else(|| Names::missing("user", &meta.owner))?;
        let group = group.ok_or_else(|| Names::missing("group", &meta.group))?;
        Ok((Uid::from_raw(user), Gid::from_raw(group)))
    }

    fn digest(&self, path: &str, place: &Place, seen: &Stat) -> io::Result<Digest> {
        if let Some((known, digest)) = self.digests.borrow().get(path)
            && *known == stamp(seen)
        {
            return Ok(digest.clone());
        }
        let mut file = place.open()?;
        let mut hash = Sha256::new();
        let size = usize::try_from(seen.st_size).unwrap_or(usize::MAX).saturating_add(1);
        let mut buffer = vec![0; size.clamp(512, 64 * 1024)];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                n => hash.update(&buffer[..n]),
            }
        }
        let digest = Digest::of_sha256(hash.finalize().into());
        // What was seen before it was opened is what was read, if it is still the same now.
        if stamp(seen) == stamp(&rustix::fs::fstat(&file)?) && is_settled(seen) {
            self.digests.borrow_mut().insert(path.to_owned(), (stamp(seen), digest.clone()));
        }
        Ok(digest)
    }

    /// Sets mode and owner where the file is. Its other names, if it has any, would be changed with it.
    fn set_in_place(&self, place: &Place, meta: &Meta) -> Result<(), Failure> {
        let (user, group) = self.owner(meta)?;
        let set = || {
            let file = place.open()?;
            let found = rustix::fs::fstat(&file)?;
            if !matches!(kind(&found), FileType::RegularFile | FileType::Directory) {
                return Err(Errno::NOTSUP);
            }
            rustix::fs::fchown(&file, Some(user), Some(group))?;
            rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(meta.mode.bits()))?;
            rustix::fs::fsync(&file)
        };
        set().map_err(|error| place.failure(error))
    }

    fn forget_folder_of(&self, place: &Place) {
        self.unsettled.borrow_mut().insert(place.folder.path.clone());
    }

    fn open_folder(&self, folder: &str) -> Result<File, NoPlace> {
        let inside = self.place(&format!("{}/.", folder.trim_end_matches('/')))?;
        inside.folder.open().map_err(NoPlace::Os)
    }
}

/// Whether the last change is long enough ago for another one to be told from it.
#[expect(clippy::disallowed_methods, reason = "compared with the clock of the file system, and nothing else")]
fn is_settled(m: &Stat) -> bool {
    let seconds = Duration::from_secs(u64::try_from(m.st_ctime).unwrap_or(0));
    let changed = SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(m.st_ctime_nsec);
    SystemTime::now().duration_since(changed).is_ok_and(|age| age > TICK)
}

impl Files for RealFiles {
    fn resolve(&self, path: &str) -> Result<String, Failure> {
        self.root.resolve(path, &named(&self.users))
    }

    fn look(&self, path: &str) -> Result<Found, Failure> {
        let looked = match self.place(path) {
            Ok(place) => match place.stat() {
                Ok(found) => Some((place, found)),
                // A file where a folder should be means that there is nothing under it.
                Err(Errno::NOENT | Errno::NOTDIR) => None,
                Err(error) => return Err(place.failure(error).during(format!("look at {path}"))),
            },
            Err(no) if no.is_nothing() => None,
            Err(no) => return Err(no.failure(path).during(format!("look at {path}"))),
        };
        let Some((place, found)) = looked else {
            self.digests.borrow_mut().remove(path);
            return Ok(Found::Nothing);
        };
        Ok(match kind(&found) {
            FileType::RegularFile => {
                let content = self.digest(path, &place, &found);
                let content =
                    content.map_err(|error| place.io_failure(&error).during(format!("read {path}")))?;
                Found::File { meta: self.meta(&found), content }
            }
            FileType::Directory => Found::Directory(self.meta(&found)),
            FileType::Symlink => Found::Other("a symbolic link".to_owned()),
            FileType::Fifo | FileType::Socket => Found::Other("a pipe or socket".to_owned()),
            _ => Found::Other("a device".to_owned()),
        })
    }

    fn is_same_owner(&self, one: &Meta, other: &Meta) -> bool {
        self.numbers(one) == self.numbers(other)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let place = self.there(path).map_err(|why| why.during(format!("read {path}")))?;
        let read = || {
            let mut bytes = Vec::new();
            place.open()?.read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        };
        read().during(format!("read {path}"))
    }

    fn write(&self, writes: &[Write]) -> Vec<Result<(), Failure>> {
        self.write_all(writes)
    }

    fn set_meta(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        let place = self.there(path)?;
        let found = place.stat().map_err(|error| place.failure(error))?;
        if kind(&found) == FileType::RegularFile && found.st_nlink > 1 {
            // Its other names are not the host's: they keep the file as it is.
            let content = Content::new(&self.read(path)?);
            let write = Write { path: path.to_owned(), content, meta: meta.clone() };
            return self.write_all(&[write]).into_iter().collect();
        }
        self.set_in_place(&place, meta).map_err(|why| why.during("set mode and owner"))
    }

    fn make_directory(&self, path: &str, meta: &Meta) -> Result<(), Failure> {
        self.owner(meta)?;
        let place = self.there(path)?;
        match rustix::fs::mkdirat(&place.folder.at, &place.name, rustix::fs::Mode::from_raw_mode(0o700)) {
            Err(error) if error != Errno::EXIST => return Err(place.failure(error).during("make it")),
            _ => {}
        }
        self.set_in_place(&place, meta).map_err(|why| why.during("set mode and owner"))?;
        let synced = place.folder.open().and_then(|folder| rustix::fs::fsync(&folder));
        synced.map_err(|error| place.failure(error).during("make it durable"))
    }

    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        let place = match self.place(path) {
            Ok(place) => place,
            Err(no) if no.is_nothing() => return Ok(()),
            Err(no) => return Err(no.failure(path)),
        };
        match place.stat() {
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(place.failure(error).during("look at it")),
            Ok(found) if kind(&found) != FileType::RegularFile => {
                return Err(Failure::new("it is not a regular file"));
            }
            Ok(_) => {}
        }
        let removed = rustix::fs::unlinkat(&place.folder.at, &place.name, AtFlags::empty());
        removed.map_err(|error| place.failure(error).during("remove it"))?;
        self.forget_folder_of(&place);
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> Result<(), Failure> {
        let place = match self.place(path) {
            Ok(place) => place,
            Err(no) if no.is_nothing() => return Ok(()),
            Err(no) => return Err(no.failure(path)),
        };
        match rustix::fs::unlinkat(&place.folder.at, &place.name, AtFlags::REMOVEDIR) {
            Ok(()) => {
                self.forget_folder_of(&place);
                Ok(())
            }
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => Ok(()),
            Err(error) => Err(place.failure(error).during("remove it")),
        }
    }

    fn sweep(&self, path: &str) {
        if let Ok(place) = self.place(path) {
            remove_beside(&place.folder, &name_beside(&place.name));
        }
    }

    fn settle(&self) -> Result<(), Failure> {
        let folders = self.unsettled.borrow().clone();
        let many = folders.len() > batch::MANY;
        let mut synced = BTreeSet::new();
        for folder in &folders {
            let opened = match self.open_folder(folder) {
                Ok(opened) => opened,
                // It was removed itself: the folder it was in is among them.
                Err(no) if no.is_nothing() => continue,
                Err(no) => return Err(no.failure(folder).during("make removals durable")),
            };
            let mut sync = || {
                if !many {
                    return rustix::fs::fsync(&opened);
                }
                let is_new = synced.insert(rustix::fs::fstat(&opened)?.st_dev);
                if is_new { rustix::fs::syncfs(&opened) } else { Ok(()) }
            };
            sync().map_err(io::Error::from).during("make removals durable")?;
        }
        self.unsettled.borrow_mut().clear();
        Ok(())
    }

    fn keep(&self, path: &str) -> Result<Digest, Failure> {
        let place = self.there(path).map_err(|why| why.during("keep a copy"))?;
        let keep = || {
            let mut file = place.open()?;
            if file.metadata()?.len() > LARGEST_KEPT {
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
            File::open(&self.saved)?.sync_all()?;
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
