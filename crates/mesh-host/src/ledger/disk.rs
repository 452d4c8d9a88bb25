//! Where the ledger's file is. A trait, so that a test can lose what was not synced.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// One file that is appended to, or replaced whole.
pub trait Disk {
    /// The whole file; none where there is none.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>>;
    /// Appends. Not durable until [`Self::sync`].
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Cuts the file to this length. Not durable until [`Self::sync`].
    fn truncate(&mut self, length: u64) -> io::Result<()>;
    /// Makes durable what was appended.
    fn sync(&mut self) -> io::Result<()>;
    /// Replaces the whole file: afterwards the old or the new one is there, whole; the new one once this returned.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// What was noted beside the file when it was begun; nothing where none ever was.
    fn begun(&mut self) -> io::Result<Option<String>>;
    /// Notes it, durably, where the file itself is not.
    fn begin(&mut self, words: &str) -> io::Result<()>;
    /// Gives the file, if it is there, a second name, under which a person can look at it once it was replaced.
    fn set_aside(&mut self) -> io::Result<()>;
    /// Whether the file is still the one this process last read or wrote.
    fn is_ours(&mut self) -> io::Result<bool>;
}

/// A file `journal` in a folder of its own, mode 0700, and a note beside the folder.
#[derive(Debug)]
pub struct Folder {
    place: PathBuf,
    note: PathBuf,
    file: Option<File>,
    length: u64,
}

impl Folder {
    /// The ledger in this folder. `note`: a file that says that there is one.
    pub fn new(folder: PathBuf, note: PathBuf) -> Self {
        Self { place: folder, note, file: None, length: 0 }
    }

    fn journal(&self) -> PathBuf {
        self.place.join("journal")
    }

    fn open(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().append(true).open(self.journal())?);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("the ledger is not open"))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.place)?.sync_all()
    }
}

impl Disk for Folder {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.file = None;
        match fs::read(self.journal()) {
            Ok(bytes) => {
                self.length = bytes.len() as u64;
                self.open()?;
                Ok(Some(bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.open()?.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.open()?.set_len(length)?;
        self.length = length;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.open()?.sync_data()
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.place)?;
        let new = self.place.join("journal.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        self.file = None;
        fs::rename(&new, self.journal())?;
        self.sync_folder()?;
        if let Some(parent) = self.place.parent() {
            // The folder itself may be new.
            File::open(parent)?.sync_all()?;
        }
        self.length = bytes.len() as u64;
        self.open()?;
        Ok(())
    }

    fn begun(&mut self) -> io::Result<Option<String>> {
        read_note(&self.note)
    }

    fn begin(&mut self, words: &str) -> io::Result<()> {
        let new = self.note.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(words.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.note)?;
        self.note.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        if !self.journal().exists() {
            return Ok(());
        }
        for number in 1..1000 {
            let aside = self.place.join(format!("journal.unreadable-{number}"));
            if !aside.exists() {
                return fs::hard_link(self.journal(), aside);
            }
        }
        Err(io::Error::other("there are a thousand unreadable ledgers beside it"))
    }

    fn is_ours(&mut self) -> io::Result<bool> {
        let there = match self.journal().metadata() {
            // Somebody took it away: it is read again, and found to be gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            there => there?,
        };
        let ours = self.open()?.metadata()?;
        Ok((there.ino(), there.len()) == (ours.ino(), self.length))
    }
}

/// The file of a ledger for who only looks: nothing is written, also not where the ledger would repair itself.
#[derive(Debug)]
pub(super) struct Glance {
    pub(super) folder: PathBuf,
    pub(super) note: PathBuf,
}

impl Glance {
    fn refuse<T>() -> io::Result<T> {
        Err(io::Error::other("the ledger was opened only to look at it"))
    }
}

impl Disk for Glance {
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.folder.join("journal")) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Self::refuse()
    }

    // The torn end of a ledger that is being written to: it is cut off in what was read, and nowhere else.
    fn truncate(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn replace(&mut self, _: &[u8]) -> io::Result<()> {
        Self::refuse()
    }

    fn begun(&mut self) -> io::Result<Option<String>> {
        read_note(&self.note)
    }

    // A ledger that is being begun has its note a moment later, from who begins it.
    fn begin(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        Self::refuse()
    }

    fn is_ours(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}

fn read_note(note: &Path) -> io::Result<Option<String>> {
    match fs::read(note) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
