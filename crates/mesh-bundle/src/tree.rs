//! The files of an image as a sorted tree, and its one tar: entries in path order, times clamped, owners by number.
//!
//! Equal trees give equal bytes whatever order they were built in, which is what makes image digests repeatable. Content
//! that came from a tar on disk stays there and is copied once, on writing. It never touches the machine's own files
//! beyond the tar it was given. Recipes (`xtask`) build trees; [`crate::writer`] writes them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The bytes of one file; two paths that hold the same `Arc` are hard links of each other.
#[derive(Debug)]
pub enum Content {
    /// Held in memory.
    Bytes(Vec<u8>),
    /// A range of a file on disk.
    Stored {
        /// Where it is.
        file: Arc<File>,
        /// Its first byte.
        offset: u64,
        /// Its length.
        size: u64,
    },
}

impl Content {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored { size, .. } => *size,
        }
    }

    /// The whole content in memory.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn reader(&self) -> Box<dyn Read + '_> {
        match self {
            Self::Bytes(bytes) => Box::new(bytes.as_slice()),
            Self::Stored { file, offset, size } => {
                Box::new(FileRange { file: Arc::clone(file), offset: *offset, left: *size })
            }
        }
    }
}

/// Reads a range of a file without moving anybody's position in it.
pub(crate) struct FileRange {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) left: u64,
}

impl Read for FileRange {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

/// What stands at a path.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A folder.
    Directory,
    /// A file.
    File(Arc<Content>),
    /// A symbolic link and where it points.
    Symlink(PathBuf),
    /// Anything else a tar can hold (devices, pipes), kept as its header says.
    Special(Box<tar::Header>),
}

/// One path's owner, mode, time and content.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner by number.
    pub uid: u64,
    /// Group by number.
    pub gid: u64,
    /// Seconds since 1970.
    pub mtime: u64,
    /// Extended attributes by their tar name, such as `SCHILY.xattr.security.capability`.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl Node {
    /// Something owned by root, with time 0 (raised by nothing: clamping only lowers).
    pub fn of_root(kind: Kind, mode: u32) -> Self {
        Self { kind, mode, uid: 0, gid: 0, mtime: 0, xattrs: BTreeMap::new() }
    }
}

/// All paths of an image, relative to its root, without the root itself.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
}

impl Tree {
    /// Reads the entries of a tar; contents stay in `file`.
    pub fn read_tar(file: File) -> io::Result<Self> {
        let file = Arc::new(file);
        let mut tree = Self::default();
        let mut archive = tar::Archive::new(FileRange { file: Arc::clone(&file), offset: 0, left: u64::MAX });
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = relative(&entry.path()?);
            let mut xattrs = BTreeMap::new();
            if let Some(extensions) = entry.pax_extensions()? {
                for extension in extensions {
                    let extension = extension?;
                    if let Ok(key) = extension.key()
                        && key.starts_with("SCHILY.xattr.")
                    {
                        xattrs.insert(key.to_owned(), extension.value_bytes().to_vec());
                    }
                }
            }
            let header = entry.header();
            let kind = match header.entry_type() {
                tar::EntryType::Directory => Kind::Directory,
                tar::EntryType::Symlink => Kind::Symlink(link_of(&entry)?),
                tar::EntryType::Link => {
                    let target = relative(&link_of(&entry)?);
                    let node = tree.nodes.get(&target).cloned().ok_or_else(|| {
                        invalid(format!(
                            "{} is a hard link to {}, which is not there",
                            path.display(),
                            target.display()
                        ))
                    })?;
                    tree.nodes.insert(path, node);
                    continue;
                }
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    Kind::File(Arc::new(Content::Stored {
                        file: Arc::clone(&file),
                        offset: entry.raw_file_position(),
                        size: entry.size(),
                    }))
                }
                _ => Kind::Special(Box::new(header.clone())),
            };
            let node = Node {
                kind,
                mode: header.mode()? & 0o7777,
                uid: header.uid()?,
                gid: header.gid()?,
                mtime: header.mtime()?,
                xattrs,
            };
            if !path.as_os_str().is_empty() {
                tree.nodes.insert(path, node);
            }
        }
        Ok(tree)
    }

    /// What stands at `path`.
    pub fn get(&self, path: impl AsRef<Path>) -> Option<&Node> {
        self.nodes.get(&relative(path.as_ref()))
    }

    /// Puts `node` at `path`, with plain root-owned folders above it where there are none.
    pub fn insert(&mut self, path: impl AsRef<Path>, node: Node) {
        let path = relative(path.as_ref());
        let above: Vec<PathBuf> =
            path.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).map(Into::into).collect();
        for folder in above {
            self.nodes.entry(folder).or_insert_with(|| Node::of_root(Kind::Directory, 0o755));
        }
        self.nodes.insert(path, node);
    }

    /// Takes over everything of another tree, which wins where both have a path.
    pub fn extend(&mut self, other: Self) {
        self.nodes.extend(other.nodes);
    }

    /// Keeps only the paths for which `keep` says yes.
    pub fn retain(&mut self, mut keep: impl FnMut(&Path, &mut Node) -> bool) {
        self.nodes.retain(|path, node| keep(path, node));
    }

    /// All paths in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_path(), node))
    }

    /// Writes the tree's one tar. No time in it is later than `latest` (seconds since 1970).
    pub fn write_tar(&self, out: impl Write, latest: u64) -> io::Result<()> {
        let mut builder = tar::Builder::new(out);
        builder.mode(tar::HeaderMode::Deterministic);
        let mut written: HashMap<*const Content, &Path> = HashMap::new();
        for (path, node) in &self.nodes {
            if !node.xattrs.is_empty() {
                builder.append_pax_extensions(
                    node.xattrs.iter().map(|(key, value)| (key.as_str(), value.as_slice())),
                )?;
            }
            let mut header = match &node.kind {
                Kind::Special(header) => (**header).clone(),
                _ => tar::Header::new_gnu(),
            };
            header.set_mode(node.mode);
            header.set_uid(node.uid);
            header.set_gid(node.gid);
            header.set_mtime(node.mtime.min(latest));
            header.set_size(0);
            match &node.kind {
                Kind::Directory => {
                    header.set_entry_type(tar::EntryType::Directory);
                    let mut slashed = path.clone().into_os_string();
                    slashed.push("/");
                    builder.append_data(&mut header, slashed, io::empty())?;
                }
                Kind::Symlink(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    builder.append_link(&mut header, path, target)?;
                }
                Kind::Special(_) => builder.append_data(&mut header, path, io::empty())?,
                Kind::File(content) => {
                    if let Some(first) = written.get(&Arc::as_ptr(content)) {
                        header.set_entry_type(tar::EntryType::Link);
                        builder.append_link(&mut header, path, first)?;
                    } else {
                        header.set_entry_type(tar::EntryType::Regular);
                        header.set_size(content.size());
                        builder.append_data(&mut header, path, content.reader())?;
                        written.insert(Arc::as_ptr(content), path);
                    }
                }
            }
        }
        builder.into_inner()?.flush()
    }
}

/// `./a/b`, `/a/b` and `a/b` are one path; `..` has no place in an image.
fn relative(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

fn link_of<R: Read>(entry: &tar::Entry<'_, R>) -> io::Result<PathBuf> {
    entry
        .link_name()?
        .map(std::borrow::Cow::into_owned)
        .ok_or_else(|| invalid("a link without a target".to_owned()))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn file(bytes: &[u8]) -> Node {
        Node::of_root(Kind::File(Arc::new(Content::Bytes(bytes.to_vec()))), 0o644)
    }

    fn tar_of(tree: &Tree, latest: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        tree.write_tar(&mut bytes, latest).unwrap();
        bytes
    }

    #[test]
    fn the_order_of_insertion_does_not_show() {
        let (mut one, mut other) = (Tree::default(), Tree::default());
        for path in ["a/b", "a-b", "z", "a/a"] {
            one.insert(path, file(path.as_bytes()));
        }
        for path in ["z", "a/a", "/a/b", "./a-b"] {
            let name = path.trim_start_matches(['.', '/']);
            other.insert(path, file(name.as_bytes()));
        }
        assert_eq!(tar_of(&one, 9), tar_of(&other, 9));
    }

    #[test]
    fn no_time_is_later_than_the_clamp() {
        let mut tree = Tree::default();
        let mut late = file(b"x");
        late.mtime = 5_000;
        tree.insert("late", late);
        let bytes = tar_of(&tree, 1_000);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let times: Vec<u64> =
            archive.entries().unwrap().map(|e| e.unwrap().header().mtime().unwrap()).collect();
        assert_eq!(times, [1_000]);
    }

    #[test]
    fn a_tree_survives_its_own_tar_with_links_owners_and_capabilities() {
        let shared = Arc::new(Content::Bytes(vec![7; 3_000]));
        let mut tree = Tree::default();
        for path in ["usr/bin/one", "usr/bin/two"] {
            let mut node = Node::of_root(Kind::File(Arc::clone(&shared)), 0o4755);
            node.uid = 70_000;
            node.xattrs.insert("SCHILY.xattr.security.capability".to_owned(), vec![1, 0, 0, 2, 0, 32, 255]);
            tree.insert(path, node);
        }
        tree.insert("bin", Node::of_root(Kind::Symlink("usr/bin".into()), 0o777));
        tree.insert("d".repeat(150), file(b"a long name"));
        let bytes = tar_of(&tree, 77);
        assert_eq!(
            bytes.windows(3_000).filter(|w| w.iter().all(|b| *b == 7)).count(),
            1,
            "content stands once"
        );

        let mut stored = tempfile::tempfile().unwrap();
        stored.write_all(&bytes).unwrap();
        let read = Tree::read_tar(stored).unwrap();
        assert_eq!(tar_of(&read, 77), bytes);
        assert_eq!(read.get("usr/bin/two").unwrap().uid, 70_000);
    }
}
