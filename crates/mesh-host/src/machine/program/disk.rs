//! What the upgrade does to the disk, in the smallest acts. A trait, so that a test can cut the power between any two and
//! lose what was not synced.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use mesh_ids::Digest;
use sha2::{Digest as _, Sha256};

/// Larger files are no host.
const LARGEST: u64 = 256 * 1024 * 1024;

/// What is done to the disk. Nothing is durable until the file, or the folder in which a name was made, moved or removed,
/// is synced.
pub(super) trait Disk {
    /// The content of a small file; none where there is none.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;
    /// The first bytes of a file, through symbolic links; fewer where it has no more.
    fn head(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>>;
    /// The SHA-256 of a file, through symbolic links; none where there is none.
    fn digest(&self, path: &Path) -> io::Result<Option<Digest>>;
    /// Where a symbolic link points; none where there is none, or something else.
    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>>;
    /// The names in a folder; none where there is none.
    fn names(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Makes a folder; one that is there is made.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Writes a file whole, whatever was there.
    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()>;
    /// Copies a file, through symbolic links, and says the SHA-256 of what was copied.
    fn copy(&self, from: &Path, to: &Path, mode: u32) -> io::Result<Digest>;
    /// Gives a file a second name. Fails where that is taken.
    fn name_again(&self, file: &Path, name: &Path) -> io::Result<()>;
    /// Makes a symbolic link. Fails where the name is taken.
    fn link(&self, target: &Path, path: &Path) -> io::Result<()>;
    /// Moves a name over another, in one step for whoever looks.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or symbolic link; one that is not there is removed.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder; one that is not there is removed.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a file's content, or a folder's names, durable.
    fn sync(&self, path: &Path) -> io::Result<()>;
}

type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// The machine's own disk. Remembers the digests of files that did not change, so that a round hashes no program.
#[derive(Debug, Default)]
pub(super) struct RealDisk {
    digests: RefCell<HashMap<PathBuf, (Stamp, Digest)>>,
}

fn stamp(m: &fs::Metadata) -> Stamp {
    (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec())
}

/// None where there is nothing.
fn there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn each_part(file: &mut File, mut act: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Digest> {
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if found.len() > LARGEST {
        return Err(io::Error::other("it is larger than 256 MiB"));
    }
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Digest::of_sha256(hash.finalize().into())),
            n => {
                hash.update(&buffer[..n]);
                act(&buffer[..n])?;
            }
        }
    }
}

fn create(path: &Path, mode: u32) -> io::Result<File> {
    // Anew, so that nothing that runs from it, or is linked to it, is written over.
    there(fs::remove_file(path))?;
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    Ok(file)
}

impl Disk for RealDisk {
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        there(fs::read(path))
    }

    fn head(&self, path: &Path, bytes: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        File::open(path)?.take(bytes as u64).read_to_end(&mut head)?;
        Ok(head)
    }

    fn digest(&self, path: &Path) -> io::Result<Option<Digest>> {
        let Some(mut file) = there(File::open(path))? else { return Ok(None) };
        let stamp = stamp(&file.metadata()?);
        if let Some((known, digest)) = self.digests.borrow().get(path)
            && *known == stamp
        {
            return Ok(Some(digest.clone()));
        }
        let digest = each_part(&mut file, |_| Ok(()))?;
        self.digests.borrow_mut().insert(path.to_owned(), (stamp, digest.clone()));
        Ok(Some(digest))
    }

    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let found = there(fs::symlink_metadata(path))?;
        if found.is_some_and(|found| found.is_symlink()) { fs::read_link(path).map(Some) } else { Ok(None) }
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let Some(entries) = there(fs::read_dir(folder))? else { return Ok(Vec::new()) };
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(error) => Err(error),
            // Everybody may run what is in it, whatever this process gives to what it makes otherwise.
            Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(0o755)),
        }
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        io::Write::write_all(&mut create(path, mode)?, bytes)
    }

    fn copy(&self, from: &Path, to: &Path, mode: u32) -> io::Result<Digest> {
        let mut from = File::open(from)?;
        let mut to = create(to, mode)?;
        each_part(&mut from, |part| io::Write::write_all(&mut to, part))
    }

    fn name_again(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    fn link(&self, target: &Path, path: &Path) -> io::Result<()> {
        symlink(target, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        there(fs::remove_file(path)).map(|_| ())
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        there(fs::remove_dir(path)).map(|_| ())
    }

    fn sync(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
