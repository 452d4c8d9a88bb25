//! Files and directories. Never follows a symbolic link at the end of a path, nor one on the way that anybody but root
//! can change; never leaves a half-written file.

pub mod links;
mod names;
mod real;
#[cfg(test)]
mod tests;
mod words;

use std::{fmt, rc::Rc};

use mesh_ids::Digest;
use mesh_wire::kinds::Mode;
pub(crate) use names::Names;
pub use real::RealFiles;
use serde::{Deserialize, Serialize};
pub use words::Trouble;

use super::Machine;
use crate::failure::Failure;

/// Who may do what with a file, and whose it is. Owners by name; by number where the machine has no name for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Its permission bits.
    pub mode: Mode,
    /// The user.
    pub owner: String,
    /// The group.
    pub group: String,
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mode {}, {}:{}", self.mode, self.owner, self.group)
    }
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A regular file.
    File {
        /// Whose, and with which mode.
        meta: Meta,
        /// The SHA-256 of its content.
        content: Digest,
    },
    /// A directory.
    Directory(Meta),
    /// Something the host neither makes nor replaces, e.g. `a symbolic link`.
    Other(String),
}

/// Bytes that are not printed: a file may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Content(Rc<[u8]>);

impl Content {
    /// These bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Their SHA-256.
    pub fn digest(&self) -> Digest {
        use sha2::Digest as _;
        Digest::of_sha256(sha2::Sha256::digest(&self.0).into())
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// A file to be written whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub path: String,
    /// What it holds.
    pub content: Content,
    /// Whose, and with which mode.
    pub meta: Meta,
}

/// Files, directories, and the store of what was replaced.
pub trait Files {
    /// The path without symbolic links among its folders: what is owned is what is there, whichever way leads to it.
    /// Refuses a link that anybody but root can change. A folder that is not there is taken as it is written.
    fn resolve(&self, path: &str) -> Result<String, Failure>;
    /// What is at this path. Symbolic links at its end are found, not followed.
    fn look(&self, path: &str) -> Result<Found, Failure>;
    /// Whether both name the same user and the same group, by whatever name or number.
    fn is_same_owner(&self, one: &Meta, other: &Meta) -> bool;
    /// The content of a regular file.
    fn read(&self, path: &str) -> Result<Vec<u8>, Failure>;
    /// Replaces each file atomically and durably: all are written, then synced together, then put in place. One outcome
    /// for each, in order. Refuses a path at which something other than a regular file is.
    fn write(&self, writes: &[Write]) -> Vec<Result<(), Failure>>;
    /// Sets mode and owner of a file or directory. Another name of the same file (a hard link) keeps what it had.
    fn set_meta(&self, path: &str, meta: &Meta) -> Result<(), Failure>;
    /// Makes a directory whose parent exists.
    fn make_directory(&self, path: &str, meta: &Meta) -> Result<(), Failure>;
    /// Removes a regular file; one that is not there is removed. Durable after the next [`Files::settle`].
    fn remove_file(&self, path: &str) -> Result<(), Failure>;
    /// Removes an empty directory; one that is not there is removed, one that is not empty stays. Durable after the next
    /// [`Files::settle`].
    fn remove_directory(&self, path: &str) -> Result<(), Failure>;
    /// Takes away what a kill while this path was written left beside it.
    fn sweep(&self, path: &str);
    /// Makes every removal durable, all together.
    fn settle(&self) -> Result<(), Failure>;
    /// Keeps a copy of a regular file, durably, under the digest of its content.
    fn keep(&self, path: &str) -> Result<Digest, Failure>;
    /// What was kept under this digest.
    fn kept(&self, content: &Digest) -> Result<Content, Failure>;
    /// Everything that is kept.
    fn all_kept(&self) -> Result<Vec<Digest>, Failure>;
    /// Forgets what was kept, but for these.
    fn forget_kept_but(&self, needed: &[Digest]) -> Result<(), Failure>;
}

/// The folder of an absolute path, and the name in it.
pub fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        None => ("/", path),
        Some(("", name)) => ("/", name),
        Some((folder, name)) => (folder, name),
    }
}

/// What a person named to be read: a file, or stdin where it is `-`.
pub fn read_input(path: &std::path::Path) -> std::io::Result<Vec<u8>> {
    if path == std::path::Path::new("-") {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    }
}

/// One act on files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileStep {
    /// Keep a copy of what is there.
    Keep(String),
    /// Write the file.
    Write(Write),
    /// Put back what was kept.
    Restore {
        /// Where.
        path: String,
        /// What was there.
        content: Digest,
        /// Whose, and with which mode.
        meta: Meta,
    },
    /// Set mode and owner.
    SetMeta(String, Meta),
    /// Make the directory.
    MakeDirectory(String, Meta),
    /// Remove the file.
    RemoveFile(String),
    /// Remove the directory if it is empty.
    RemoveDirectory(String),
}

impl fmt::Display for FileStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(path) => write!(f, "keep a copy of {path}"),
            Self::Write(Write { path, content, meta }) => {
                write!(f, "write {path} ({} bytes, {meta})", content.bytes().len())
            }
            Self::Restore { path, meta, .. } => write!(f, "put back what was at {path} ({meta})"),
            Self::SetMeta(path, meta) => write!(f, "set {path} to {meta}"),
            Self::MakeDirectory(path, meta) => write!(f, "make the directory {path} ({meta})"),
            Self::RemoveFile(path) => write!(f, "remove {path}"),
            Self::RemoveDirectory(path) => write!(f, "remove the directory {path} if it is empty"),
        }
    }
}

impl FileStep {
    /// What it touches.
    pub fn path(&self) -> &str {
        match self {
            Self::Write(Write { path, .. })
            | Self::Restore { path, .. }
            | Self::Keep(path)
            | Self::SetMeta(path, _)
            | Self::MakeDirectory(path, _)
            | Self::RemoveFile(path)
            | Self::RemoveDirectory(path) => path,
        }
    }

    /// Does it.
    pub fn apply(&self, machine: &Machine) -> Result<(), Failure> {
        let files = &machine.files;
        match self {
            Self::Keep(path) => files.keep(path).map(|_| ()),
            Self::Write(write) => files.write(std::slice::from_ref(write)).into_iter().collect(),
            Self::Restore { path, content, meta } => {
                let write = Write { path: path.clone(), content: files.kept(content)?, meta: meta.clone() };
                files.write(&[write]).into_iter().collect()
            }
            Self::SetMeta(path, meta) => files.set_meta(path, meta),
            Self::MakeDirectory(path, meta) => files.make_directory(path, meta),
            Self::RemoveFile(path) => files.remove_file(path),
            Self::RemoveDirectory(path) => files.remove_directory(path),
        }
    }
}
