//! Hears of changes to files as they happen (inotify). Folders are watched, because files are replaced rather than
//! changed. What is missed here is found by the next periodic round.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    mem::MaybeUninit,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use tokio::io::unix::AsyncFd;

use crate::failure::{During as _, Failure};

/// What may be a change of something owned.
const EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::EXCL_UNLINK);

/// The watched paths.
#[derive(Debug)]
pub struct FileWatch {
    root: PathBuf,
    inotify: AsyncFd<OwnedFd>,
    /// By watch: the folder, and the names in it that count.
    folders: BTreeMap<i32, (PathBuf, BTreeSet<Vec<u8>>)>,
}

impl FileWatch {
    /// Watches nothing yet. Paths are under `root`.
    #[expect(
        deprecated,
        reason = "unsound only for types whose descriptor may change; an OwnedFd's does not, and the successor is unsafe"
    )]
    pub fn new(root: &Path) -> Result<Self, Failure> {
        let open = || -> io::Result<_> {
            AsyncFd::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?)
        };
        let inotify = open().during("watch files")?;
        Ok(Self { root: root.to_owned(), inotify, folders: BTreeMap::new() })
    }

    /// From now on watches these, and nothing else. A path whose folder does not exist is not watched.
    pub fn set<'a>(&mut self, paths: impl Iterator<Item = &'a str>) {
        let mut wanted: BTreeMap<PathBuf, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for path in paths {
            let path = self.root.join(path.trim_start_matches('/'));
            if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
                wanted.entry(folder.to_owned()).or_default().insert(name.as_encoded_bytes().to_vec());
            }
        }
        let mut folders = BTreeMap::new();
        for (folder, names) in wanted {
            // Asked again for a folder that is watched, the kernel answers with the same watch; for one that was
            // removed and made again, with a new one.
            match inotify::add_watch(&self.inotify, &folder, EVENTS) {
                Ok(watch) => {
                    folders.insert(watch, (folder, names));
                }
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => {
                    tracing::warn!(folder = %folder.display(), %error, "changes here are only found periodically");
                }
            }
        }
        for watch in self.folders.keys().filter(|watch| !folders.contains_key(watch)) {
            // One whose folder is gone is gone already.
            let _ = inotify::remove_watch(&self.inotify, *watch);
        }
        self.folders = folders;
    }

    /// Waits until something that counts may have changed. Cancel-safe.
    pub async fn changed(&mut self) -> Result<(), Failure> {
        loop {
            let counts = self.drain().await.during("watch files")?;
            if counts {
                return Ok(());
            }
        }
    }

    async fn drain(&mut self) -> io::Result<bool> {
        let mut ready = self.inotify.readable_mut().await?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(ready.get_inner(), &mut buffer);
        let mut counts = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let folder = self.folders.get(&event.wd());
                    // Without a name it is the folder itself; too many events say nothing of where.
                    counts |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                        || folder.is_some_and(|(_, names)| {
                            event.file_name().is_none_or(|name| names.contains(name.to_bytes()))
                        });
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

    use tokio::time::timeout;

    use super::*;

    async fn heard(watch: &mut FileWatch) -> bool {
        timeout(Duration::from_secs(5), watch.changed()).await.is_ok_and(|outcome| outcome.is_ok())
    }

    #[tokio::test]
    async fn a_change_a_removal_and_a_new_mode_are_heard_and_neighbours_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        fs::write(&path, "1").expect("written");
        let mut watch = FileWatch::new(folder.path()).expect("a watch");
        watch.set(["/a"].into_iter());
        fs::write(folder.path().join("b"), "1").expect("written");
        assert!(timeout(Duration::from_millis(100), watch.changed()).await.is_err(), "a neighbour was heard");
        fs::write(&path, "2").expect("written");
        assert!(heard(&mut watch).await, "a change");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        assert!(heard(&mut watch).await, "a mode");
        fs::remove_file(&path).expect("removed");
        assert!(heard(&mut watch).await, "a removal");
    }

    #[tokio::test]
    async fn a_folder_that_was_made_again_is_watched_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).expect("made");
        let mut watch = FileWatch::new(folder.path()).expect("a watch");
        watch.set(["/inner/a"].into_iter());
        fs::remove_dir(&inner).expect("removed");
        assert!(heard(&mut watch).await, "the folder went");
        fs::create_dir(&inner).expect("made");
        watch.set(["/inner/a"].into_iter());
        fs::write(inner.join("a"), "1").expect("written");
        assert!(heard(&mut watch).await, "a file in the new folder");
    }
}
