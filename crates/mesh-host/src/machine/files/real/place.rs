//! Where a file is, by its folder and its name in it: no symbolic link is followed on the way there, so nothing that is
//! done in the folder can be led elsewhere in between.

use std::{
    cell::OnceCell,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    rc::Rc,
};

use rustix::{
    fs::{AtFlags, FileType, IFlags, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
    process::geteuid,
};

use super::super::{
    links::{Part, follow},
    names::Names,
    split,
    words::Trouble,
};
use crate::failure::Failure;

/// The folder under which everything is: `/` but for tests.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    opened: OnceCell<OwnedFd>,
}

/// A folder that was reached without following a link.
#[derive(Debug)]
pub(super) struct Folder {
    /// Opened with `O_PATH`.
    pub(super) at: OwnedFd,
    /// Its path, without links.
    pub(super) path: String,
}

/// A name in a folder.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: Rc<Folder>,
    pub(super) name: String,
}

/// Why there is no such place.
pub(super) enum NoPlace {
    /// The operating system says so.
    Os(Errno),
    /// A link on the way is not to be followed.
    Refused(Failure),
}

impl NoPlace {
    /// Whether there is nothing at the path, because there is no such folder.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Self::Os(Errno::NOENT | Errno::NOTDIR))
    }

    pub(super) fn failure(self, path: &str) -> Failure {
        match self {
            Self::Os(error) => os_failure(error, path, || None),
            Self::Refused(why) => why,
        }
    }
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Root {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), opened: OnceCell::new() }
    }

    fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        if self.opened.get().is_none() {
            let opened = rustix::fs::open(&self.path, FOLDER, Mode::empty())?;
            let _ = self.opened.set(opened);
        }
        self.opened.get().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Opens a folder whose path has no links; `ELOOP` where it has.
    fn open_folder(&self, folder: &str) -> Result<OwnedFd, Errno> {
        let root = self.fd()?;
        let relative = folder.trim_start_matches('/');
        let relative = if relative.is_empty() { "." } else { relative };
        match rustix::fs::openat2(root, relative, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // A kernel, or a filter around this process, that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => step_by_step(root, relative),
            opened => opened,
        }
    }

    /// Where this path is, once links among its folders are followed.
    pub(super) fn place(&self, path: &str, names: &dyn Fn(u32) -> String) -> Result<Place, NoPlace> {
        let (folder, name) = split(path);
        match self.open_folder(folder) {
            Ok(at) => Ok(place(at, folder, name)),
            // The kernel may refuse to look at somebody else's link before it says that it is one.
            Err(Errno::LOOP | Errno::ACCESS) => {
                let path = self.resolve(path, names).map_err(NoPlace::Refused)?;
                let (folder, name) = split(&path);
                Ok(place(self.open_folder(folder).map_err(NoPlace::Os)?, folder, name))
            }
            Err(error) => Err(NoPlace::Os(error)),
        }
    }

    /// The path without links among its folders.
    pub(super) fn resolve(&self, path: &str, names: &dyn Fn(u32) -> String) -> Result<String, Failure> {
        match self.open_folder(split(path).0) {
            Err(Errno::LOOP | Errno::ACCESS) => follow(path, |at| self.part(at, names)),
            _ => Ok(path.to_owned()),
        }
    }

    fn part(&self, path: &str, names: &dyn Fn(u32) -> String) -> Result<Part, Failure> {
        let look = || {
            if path == "/" {
                return Ok(folder_of(&rustix::fs::fstat(self.fd()?)?, names));
            }
            let (folder, name) = split(path);
            let folder = self.open_folder(folder)?;
            let found = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => folder_of(&found, names),
                FileType::Symlink => {
                    let to = rustix::fs::readlinkat(&folder, name, Vec::new())?;
                    // What is no UTF-8 is not led to: nothing is declared there.
                    let to = to.into_string().map_err(|_| Errno::ILSEQ)?;
                    let owner =
                        (!is_trusted(found.st_uid)).then(|| format!("the user {}", names(found.st_uid)));
                    Part::Link { to, owner }
                }
                _ => Part::Other,
            })
        };
        match look() {
            Ok(part) => Ok(part),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(Part::Nothing),
            Err(error) => Err(os_failure(error, path, || None).during(format!("look at {path}"))),
        }
    }
}

fn place(at: OwnedFd, folder: &str, name: &str) -> Place {
    Place { folder: Rc::new(Folder { at, path: folder.to_owned() }), name: name.to_owned() }
}

fn step_by_step(root: BorrowedFd<'_>, relative: &str) -> Result<OwnedFd, Errno> {
    let mut at = rustix::fs::openat(root, ".", FOLDER, Mode::empty())?;
    for part in relative.split('/').filter(|part| *part != ".") {
        // With O_PATH a link is opened itself, and O_DIRECTORY then refuses it as no directory.
        let opened = rustix::fs::openat(&at, part, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        at = match opened {
            Err(Errno::NOTDIR) => {
                let found = rustix::fs::statat(&at, part, AtFlags::SYMLINK_NOFOLLOW)?;
                let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
                return Err(if is_link { Errno::LOOP } else { Errno::NOTDIR });
            }
            opened => opened?,
        };
    }
    Ok(at)
}

/// Root, and who runs this: what they made is nobody else's doing.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn folder_of(found: &Stat, names: &dyn Fn(u32) -> String) -> Part {
    let mode = found.st_mode;
    let sticky = mode & 0o1000 != 0;
    let changed_by = if !is_trusted(found.st_uid) {
        Some(format!("the user {}", names(found.st_uid)))
    } else if mode & 0o002 != 0 && !sticky {
        Some("everybody".to_owned())
    } else if mode & 0o020 != 0 && found.st_gid != 0 && !sticky {
        Some(format!("the group {}", found.st_gid))
    } else {
        None
    };
    Part::Folder { changed_by }
}

impl Place {
    /// Where this is, for a person.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.folder.path.trim_end_matches('/'), self.name)
    }

    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.folder.at, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Opens without following a symbolic link, and without waiting should it be a pipe.
    pub(super) fn open(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder.at, &self.name, flags, Mode::empty()).map(File::from)
    }

    /// What an error about this place is.
    pub(super) fn failure(&self, error: Errno) -> Failure {
        let path = self.path();
        if error == Errno::NOSPC {
            return Failure::new(full(&self.folder).with(&path).to_string());
        }
        os_failure(error, &path, || self.protected().or_else(|| self.folder.protected()))
    }

    /// The same of an error that says no more than its number.
    pub(super) fn io_failure(&self, error: &io::Error) -> Failure {
        match Errno::from_io_error(error) {
            Some(error) => self.failure(error),
            None => Failure::new(error.to_string()),
        }
    }

    fn protected(&self) -> Option<(Trouble, String)> {
        Some((protection(&self.open().ok()?)?, self.path()))
    }
}

impl Folder {
    /// Opened to be read or synced.
    pub(super) fn open(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.at, ".", flags, Mode::empty()).map(File::from)
    }

    /// Whether `chattr` protects it, and how.
    pub(super) fn protected(&self) -> Option<(Trouble, String)> {
        Some((protection(&self.open().ok()?)?, self.path.clone()))
    }
}

fn protection(file: &File) -> Option<Trouble> {
    // A file system that knows no such flags protects nothing by them.
    let flags = rustix::fs::ioctl_getflags(file).ok()?;
    if flags.contains(IFlags::IMMUTABLE) {
        Some(Trouble::Immutable)
    } else if flags.contains(IFlags::APPEND) {
        Some(Trouble::AppendOnly)
    } else {
        None
    }
}

/// The words for an error. `protected`: what `chattr` protects there.
fn os_failure(error: Errno, path: &str, protected: impl FnOnce() -> Option<(Trouble, String)>) -> Failure {
    let trouble = match error {
        Errno::PERM | Errno::ACCESS => match protected() {
            Some((trouble, path)) => return Failure::new(trouble.with(&path).to_string()),
            None => Trouble::NotAllowed,
        },
        Errno::ROFS => Trouble::ReadOnly,
        Errno::NOSPC => Trouble::Full,
        Errno::DQUOT => Trouble::OverQuota,
        Errno::MFILE | Errno::NFILE => Trouble::TooManyOpen,
        Errno::NAMETOOLONG => Trouble::NameTooLong,
        Errno::NOENT => Trouble::NoFolder,
        Errno::NOTDIR => Trouble::NotADirectory,
        Errno::BUSY => Trouble::Mounted,
        Errno::IO => Trouble::Broken,
        other => return Failure::new(io::Error::from(other).to_string()),
    };
    Failure::new(trouble.with(path).to_string())
}

/// Whether a full file system lacks inodes rather than space.
fn full(folder: &Folder) -> Trouble {
    let counted = folder.open().and_then(|folder| rustix::fs::fstatvfs(&folder));
    match counted {
        Ok(counted) if counted.f_files > 0 && counted.f_ffree == 0 => Trouble::NoInodes,
        _ => Trouble::Full,
    }
}

/// The name of a user.
pub(super) fn named(users: &std::cell::RefCell<Names>) -> impl Fn(u32) -> String + '_ {
    |number| users.borrow_mut().name(number)
}
