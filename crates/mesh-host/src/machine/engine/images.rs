//! Images that are on the machine without being in the engine: the bundle's, and those a person gave instead.
//!
//! Never changes them, and holds no more than a few blocks of one in memory.

use std::{
    io,
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
        match std::fs::read_dir(&self.archives) {
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
