//! Images that are on the machine without being in the engine: the bundle's, and those a person gave instead.
//!
//! Never changes them, and holds no more than a few blocks of one in memory.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use mesh_bundle::{Digest, Image, Layout};
use mesh_ids::ImageRef;
use tokio::sync::mpsc;

use crate::failure::{During as _, Failure};

/// Blocks of this many bytes go to the engine, and at most [`BLOCKS`] wait.
const BLOCK: usize = 256 * 1024;
const BLOCKS: usize = 4;

/// Where images lie.
#[derive(Debug, Clone)]
pub struct ImageStore {
    /// OCI layouts: folders, or archives.
    places: Vec<PathBuf>,
    /// A folder of OCI archives, each `*.tar`.
    archives: PathBuf,
}

impl ImageStore {
    /// The images of this bundle, and the archives in this folder. Neither has to exist.
    pub fn new(bundle: &Path, archives: &Path) -> Self {
        Self { places: vec![bundle.join("oci")], archives: archives.to_owned() }
    }

    /// The image with this digest of its manifest or config, and the layout it is in.
    pub fn find(&self, digest: &Digest) -> Result<Option<(Layout, Image)>, Failure> {
        for place in self.places()? {
            let layout = Layout::open(&place).during(format!("read the images in {}", place.display()))?;
            if let Ok(image) = layout.find(digest) {
                return Ok(Some((layout, image)));
            }
        }
        Ok(None)
    }

    fn places(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut places: Vec<PathBuf> = self.places.iter().filter(|place| place.exists()).cloned().collect();
        match fs::read_dir(&self.archives) {
            Ok(entries) => {
                let mut archives: Vec<PathBuf> = entries
                    .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                    .filter(|path| path.extension().is_some_and(|extension| extension == "tar"))
                    .collect();
                archives.sort();
                // What a person gave goes before what the bundle has.
                archives.append(&mut places);
                Ok(archives)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(places),
            Err(error) => Err(Failure::of(format!("list {}", self.archives.display()), &error)),
        }
    }
}

/// Puts the bundle at `from` where the host finds it from now on. Whole or not at all.
pub fn take_bundle(from: &Path, to: &Path, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let what = || format!("copy the bundle to {}", to.display());
    let real = |path: &Path| fs::canonicalize(path).ok();
    if real(from) == real(to) {
        return Ok(());
    }
    let same = |name: &str| fs::read(from.join(name)).ok() == fs::read(to.join(name)).ok();
    // The file names every image by its digest: equal files, equal bundles.
    if to.join("bundle.toml").exists() && same("bundle.toml") {
        return Ok(());
    }
    tell(&format!("copy the bundle to {}", to.display()));
    let new = to.with_extension("new");
    let _ = fs::remove_dir_all(&new);
    copy_folder(from, &new).during(what())?;
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).during(what()),
        _ => fs::rename(&new, to).during(what()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
}

/// Keeps the one image of an archive or layout in `folder`, every blob verified, as `name`. The digests are those of
/// its manifest and of its config.
pub fn keep_archive(from: &Path, folder: &Path, name: &str) -> Result<(Digest, Digest), Failure> {
    let what = || format!("keep the image in {}", from.display());
    let layout = Layout::open(from).during(what())?;
    let image = layout.only().during(what())?;
    fs::create_dir_all(folder).during(what())?;
    let path = folder.join(format!("{}.tar", name.replace('/', "-")));
    let new = path.with_extension("new");
    let mut file = io::BufWriter::new(fs::File::create(&new).during(what())?);
    layout.write_archive(&image, name, &mut file).during(what())?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error).during(what())?;
    file.sync_all().and_then(|()| fs::rename(&new, &path)).during(what())?;
    Ok((image.digest().clone(), image.config().clone()))
}

/// The archive of an image, block by block, as an engine loads it. A damaged image ends it with the error, early.
pub fn archive(layout: Layout, image: Image, name: &ImageRef) -> mpsc::Receiver<io::Result<Bytes>> {
    let (blocks, received) = mpsc::channel(BLOCKS);
    let name = name.name().to_owned();
    tokio::task::spawn_blocking(move || {
        let out = Blocks { blocks: blocks.clone(), held: Vec::with_capacity(BLOCK) };
        if let Err(error) = layout.write_archive(&image, &name, out) {
            let failure = Failure::of(format!("read the image {name}"), &error);
            // Nobody listens where the engine gave up: it says why.
            let _ = blocks.blocking_send(Err(io::Error::other(failure)));
        }
    });
    received
}

struct Blocks {
    blocks: mpsc::Sender<io::Result<Bytes>>,
    held: Vec<u8>,
}

impl io::Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= BLOCK {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let block = Bytes::from(std::mem::replace(&mut self.held, Vec::with_capacity(BLOCK)));
        self.blocks.blocking_send(Ok(block)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }
}
