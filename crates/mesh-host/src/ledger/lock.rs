//! One process at a time changes the machine and writes the ledger: the daemon, or a command a person runs.

use std::{
    fs::{DirBuilder, File, OpenOptions},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
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

/// The lock file of the host. It is never removed: a removed one locks nothing.
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
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path);
        let file = open.during(format!("open {}", self.path.display()))?;
        let (end, mut ticks, mut said) = (Instant::now() + PATIENCE, interval(PERIOD), false);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Held { _file: file }),
                Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                    if !said {
                        tracing::info!("waiting for another mesh-host that is changing this machine");
                        said = true;
                    }
                    ticks.tick().await;
                }
                Err(Errno::WOULDBLOCK) => {
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
}
