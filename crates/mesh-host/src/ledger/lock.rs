//! One process at a time changes the machine and writes the ledger: the daemon, or a command a person runs.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use tokio::time::{Instant, interval};

use crate::failure::{During as _, Failure};

/// How long a process waits for another one: longer than any single step may take.
const PATIENCE: Duration = Duration::from_mins(15);
const PERIOD: Duration = Duration::from_millis(50);

/// The lock file of the host. Only leaving removes it, while it holds it: who waited for it then makes a new one.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
}

/// Held until it is dropped, or its process ends.
#[derive(Debug)]
pub struct Held {
    _file: File,
}

impl Lock {
    /// The lock at this path; its folder is made, for root alone.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let folder = path.parent().unwrap_or(path);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.during(format!("make {}", folder.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    /// Waits until no other process holds it.
    pub async fn hold(&self) -> Result<Held, Failure> {
        let mut file = self.open()?;
        let (end, mut ticks, mut said) = (Instant::now() + PATIENCE, interval(PERIOD), false);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if self.is_at_its_place(&file) => return Ok(Held { _file: file }),
                // Who left the mesh took it away meanwhile: what was locked locks nothing any more.
                Ok(()) if Instant::now() < end => file = self.open()?,
                Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                    if !said {
                        tracing::info!("waiting for another mesh-host that is changing this machine");
                        said = true;
                    }
                    ticks.tick().await;
                }
                Ok(()) | Err(Errno::WOULDBLOCK) => {
                    return Err(Failure::new(
                        "another mesh-host has been changing this machine for 15 minutes",
                    ));
                }
                Err(error) => {
                    return Err(std::io::Error::from(error)).during(format!("lock {}", self.path.display()));
                }
            }
        }
    }

    fn open(&self) -> Result<File, Failure> {
        // Its folder, too, may have been taken away.
        Self::new(&self.path)?;
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        open.during(format!("open {}", self.path.display()))
    }

    fn is_at_its_place(&self, file: &File) -> bool {
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let here = file.metadata().map(identity).ok();
        here.is_some() && here == self.path.metadata().map(identity).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_that_was_removed_meanwhile_is_not_taken_for_the_lock() {
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("state/lock");
        let lock = Lock::new(&path).expect("a lock");
        let first = lock.hold().await.expect("held");
        // Who waits has the file open already.
        let waits = async {
            let other = Lock::new(&path).expect("a lock");
            other.hold().await.expect("held")
        };
        let ends = async {
            tokio::task::yield_now().await;
            std::fs::remove_dir_all(root.path().join("state")).expect("removed");
            drop(first);
        };
        let (second, ()) = tokio::join!(waits, ends);
        let file = File::open(&path).expect("there is a lock again");
        let taken = flock(&file, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(taken, Err(Errno::WOULDBLOCK), "it is not the one that is held");
        drop(second);
    }
}
