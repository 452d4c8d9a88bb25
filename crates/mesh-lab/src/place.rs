//! Where a lab keeps what is not in the engine: its nodes' journals, tokens not yet used, and the lock of whoever
//! works on it. `$XDG_STATE_HOME/novox-mesh/lab/NAME`.
//!
//! It never holds what the engine knows (nodes, addresses, what is cut), which would only ever be a second opinion.

use std::env;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::error::LabError;
use crate::wait::wait_for;

/// The name of a lab.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabName(String);

impl LabName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that nobody else has, for a test: `what` and the number of this process.
    pub fn unique(what: &str) -> Self {
        Self(format!("{what}-{}", std::process::id()))
    }
}

impl Default for LabName {
    fn default() -> Self {
        Self("mesh".to_owned())
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LabName {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good = (1..=30).contains(&text.len())
            && text.bytes().all(inner)
            && !text.starts_with('-')
            && !text.ends_with('-');
        if good { Ok(Self(text.to_owned())) } else { Err(LabError::BadName(text.to_owned())) }
    }
}

/// A base folder by the desktop's rules: the variable, else below the home folder.
fn base_folder(variable: &str, below_home: &str) -> Result<PathBuf, LabError> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home))).ok_or_else(|| {
        LabError::Unable { why: format!("neither {variable} nor HOME names a folder; set one of them") }
    })
}

/// A lab's folder.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    labs: PathBuf,
    name: LabName,
}

/// Holds the right to change a lab; the system takes it back when the process ends, however it ends.
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Place {
    pub(crate) fn of(name: &LabName) -> Result<Self, LabError> {
        Ok(Self {
            labs: base_folder("XDG_STATE_HOME", ".local/state")?.join("novox-mesh/lab"),
            name: name.clone(),
        })
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.labs.join(self.name.as_str())
    }

    /// Where a node's journal lies, readable also when the node is not running.
    pub(crate) fn journal(&self, node: &str) -> PathBuf {
        self.root().join("journal").join(node)
    }

    /// A token that was made for a node and may not have been used yet.
    pub(crate) fn token(&self, node: &str) -> PathBuf {
        self.root().join("token").join(node)
    }

    /// Says that the command line's context of this name is the lab's own.
    pub(crate) fn context_mark(&self) -> PathBuf {
        self.root().join("context")
    }

    pub(crate) fn make_journal(&self, node: &str) -> Result<PathBuf, LabError> {
        let journal = self.journal(node);
        fs::create_dir_all(&journal).map_err(LabError::file("make", &journal))?;
        Ok(journal)
    }

    /// The right to change the lab, waited for if somebody has it.
    pub(crate) fn lock(&self, deadline: Duration) -> Result<Lock, LabError> {
        fs::create_dir_all(&self.labs).map_err(LabError::file("make", &self.labs))?;
        let path = self.labs.join(format!("{}.lock", self.name));
        let waited =
            wait_for("the lab's lock", deadline, || try_lock(&path).ok_or_else(|| "it is held".to_owned()));
        match waited {
            Ok(file) => Ok(Lock { path, _file: file.map_err(LabError::file("lock", &self.root()))? }),
            Err(_) => Err(LabError::Busy { lab: self.name.to_string(), deadline }),
        }
    }

    /// Removes everything, the lock last.
    pub(crate) fn remove(&self, lock: &Lock) -> Result<(), LabError> {
        let root = self.root();
        for result in [fs::remove_dir_all(&root), fs::remove_file(&lock.path)] {
            match result {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LabError::file("remove", &root)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// One try: nothing if somebody holds it. A lock file that was removed in between is no lock.
fn try_lock(path: &Path) -> Option<io::Result<File>> {
    let open = || fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = match open() {
        Ok(file) => file,
        Err(error) => return Some(Err(error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return None,
        Err(TryLockError::Error(error)) => return Some(Err(error)),
    }
    let same = match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(there)) => held.ino() == there.ino(),
        _ => false,
    };
    same.then_some(Ok(file))
}

/// Writes a file that only its owner may read, in one step.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), LabError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(LabError::file("make", folder))?;
    }
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let written = fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&fresh, path));
    written.map_err(LabError::file("write", path))
}

/// A file's text; nothing where there is no file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, LabError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LabError::file("read", path)(error)),
    }
}

/// Removes a file; one that is not there is removed already.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), LabError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LabError::file("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn place(labs: &Path) -> Place {
        Place { labs: labs.to_owned(), name: "one".parse().unwrap() }
    }

    #[test]
    fn a_lab_name_becomes_a_host_name_and_a_file_name_so_it_is_plain() {
        assert!("mesh-2".parse::<LabName>().is_ok());
        for bad in ["", "Mesh", "-a", "a-", "../x", "a b", &"x".repeat(31)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_one_may_work_on_a_lab_and_the_next_may_once_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let held = place.lock(Duration::ZERO).unwrap();
        assert!(matches!(place.lock(Duration::from_millis(150)), Err(LabError::Busy { .. })));
        drop(held);
        assert!(place.lock(Duration::ZERO).is_ok());
    }

    #[test]
    fn removing_leaves_nothing_and_a_lock_on_a_removed_file_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        let held = place.lock(Duration::ZERO).unwrap();
        place.make_journal("node-1").unwrap();
        place.remove(&held).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let _next = place.lock(Duration::ZERO).unwrap();
        assert!(
            matches!(place.lock(Duration::ZERO), Err(LabError::Busy { .. })),
            "the new file is the lock now"
        );
    }

    #[test]
    fn what_is_private_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token/node-2");
        write_private(&path, b"secret").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_if_there(&path).unwrap().as_deref(), Some("secret"));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing half-written stays");
    }
}
