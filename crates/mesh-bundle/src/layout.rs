//! Reads an OCI image layout: a folder, or the same thing as one uncompressed tar (an OCI archive).
//!
//! Every blob is hashed while it is read and refused by name when it is not what it is called; nothing else of the input
//! is believed. It never writes and never reaches beyond the layout. `mesh-host` calls it to load images by digest,
//! `xtask` to assemble and compare bundles.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_ids::Digest;

use crate::hashing::HashingReader;
use crate::oci;
use crate::tree::FileRange;

/// The most a manifest, config or index may weigh. The largest of ours is below 20 KB.
const LARGEST_DOCUMENT: u64 = 4 << 20;

/// Why a layout cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The operating system refused.
    #[error("read or write {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Neither folder nor tar of a layout.
    #[error(
        "{path} is no OCI image layout: it has no {missing}; an image saved in another form can be turned into one with `skopeo copy … oci-archive:FILE`"
    )]
    NotALayout {
        /// The folder or tar.
        path: PathBuf,
        /// What was looked for.
        missing: &'static str,
    },
    /// A document that is not what it should be.
    #[error("{what} is no valid OCI document")]
    Document {
        /// Which one.
        what: String,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// A document too large to be one.
    #[error("{0} is larger than {LARGEST_DOCUMENT} bytes, which no OCI document needs")]
    Oversize(Digest),
    /// Content that is not what its name says.
    #[error("blob {blob} is damaged: its content is {found}; fetch or build it again")]
    Damaged {
        /// Its name.
        blob: Digest,
        /// What it really is.
        found: Digest,
    },
    /// Content that is not there.
    #[error("blob {0} is missing")]
    Missing(Digest),
    /// No such image.
    #[error("there is no image {wanted}; there are: {present}")]
    NoImage {
        /// What was asked for.
        wanted: String,
        /// What there is.
        present: String,
    },
    /// More than one image where one was meant.
    #[error("there is more than one image ({present}); say which")]
    Ambiguous {
        /// What there is.
        present: String,
    },
}

impl LayoutError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}

/// One image of a layout, its manifest read and verified.
#[derive(Clone, Debug)]
pub struct Image {
    /// `org.opencontainers.image.ref.name` in the index, if any.
    pub name: Option<String>,
    /// As the index names it.
    pub descriptor: oci::Descriptor,
    /// The manifest itself.
    pub manifest: oci::Manifest,
}

impl Image {
    /// The manifest's digest: what a reference `NAME@sha256:…` carries.
    pub fn digest(&self) -> &Digest {
        &self.descriptor.digest
    }

    /// The config's digest: the engine's image id.
    pub fn config(&self) -> &Digest {
        &self.manifest.config.digest
    }

    /// Every blob it needs: manifest, config, layers.
    pub fn blobs(&self) -> impl Iterator<Item = &oci::Descriptor> {
        std::iter::once(&self.descriptor)
            .chain(std::iter::once(&self.manifest.config))
            .chain(&self.manifest.layers)
    }

    /// The Debian packages it was built from, by name, where our recipes built it.
    pub fn packages(&self) -> BTreeMap<&str, &str> {
        let lines = self.manifest.annotations.get(oci::PACKAGES).map_or("", String::as_str).lines();
        lines.filter_map(|line| line.split_once(' ')).collect()
    }
}

enum Source {
    Folder(PathBuf),
    Tar { file: Arc<File>, entries: HashMap<String, (u64, u64)> },
}

/// An OCI image layout, opened for reading.
pub struct Layout {
    path: PathBuf,
    source: Source,
    index: oci::Index,
}

impl Layout {
    /// Opens a folder or an OCI archive.
    pub fn open(path: &Path) -> Result<Self, LayoutError> {
        let source = if path.is_dir() {
            Source::Folder(path.to_owned())
        } else {
            let file = Arc::new(File::open(path).map_err(|source| LayoutError::io(path, source))?);
            let entries = tar_entries(&file).map_err(|_| LayoutError::NotALayout {
                path: path.to_owned(),
                missing: "readable tar structure",
            })?;
            Source::Tar { file, entries }
        };
        let mut layout = Self {
            path: path.to_owned(),
            source,
            index: oci::Index { schema_version: 2, media_type: oci::INDEX.to_owned(), manifests: Vec::new() },
        };
        for missing in ["oci-layout", "index.json"] {
            let mut bytes = Vec::new();
            let Some(reader) = layout.open_entry(missing)? else {
                return Err(LayoutError::NotALayout { path: path.to_owned(), missing });
            };
            reader
                .take(LARGEST_DOCUMENT)
                .read_to_end(&mut bytes)
                .map_err(|source| LayoutError::io(path, source))?;
            if missing == "index.json" {
                layout.index = parse(&bytes, || format!("{}/index.json", path.display()))?;
            }
        }
        Ok(layout)
    }

    /// Where it is, if it is a folder.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.source {
            Source::Folder(folder) => Some(folder),
            Source::Tar { .. } => None,
        }
    }

    /// Every image that is for this machine's architecture, or does not say for which it is.
    pub fn images(&self) -> Result<Vec<Image>, LayoutError> {
        let mut images = Vec::new();
        for descriptor in &self.index.manifests {
            let name = descriptor.annotations.get(oci::REF_NAME).cloned();
            if is_index(descriptor) {
                let inner: oci::Index = parse(&self.document(descriptor)?, || descriptor.digest.to_string())?;
                for descriptor in inner.manifests.into_iter().filter(for_this_machine) {
                    images.push(self.image(name.clone(), descriptor)?);
                }
            } else if for_this_machine(descriptor) {
                images.push(self.image(name, descriptor.clone())?);
            }
        }
        Ok(images)
    }

    /// The image whose manifest (or else config) has this digest.
    pub fn find(&self, digest: &Digest) -> Result<Image, LayoutError> {
        let images = self.images()?;
        let by_manifest = images.iter().find(|image| image.digest() == digest);
        let found = by_manifest.or_else(|| images.iter().find(|image| image.config() == digest)).cloned();
        found.ok_or_else(|| no_image(digest.as_str(), &images))
    }

    /// The image with this name.
    pub fn find_name(&self, name: &str) -> Result<Image, LayoutError> {
        let images = self.images()?;
        let found = images.iter().find(|image| image.name.as_deref() == Some(name)).cloned();
        found.ok_or_else(|| no_image(name, &images))
    }

    /// The one image, where there is exactly one (as in an archive given in place of a bundle's image).
    pub fn only(&self) -> Result<Image, LayoutError> {
        let mut images = self.images()?;
        match images.len() {
            1 => Ok(images.remove(0)),
            0 => Err(no_image("at all", &images)),
            _ => Err(LayoutError::Ambiguous { present: present(&images) }),
        }
    }

    /// Writes a blob to `out`. An error after the last byte still means: do not use what was written.
    pub fn copy_blob(
        &self,
        blob: &oci::Descriptor,
        out: &mut (impl Write + ?Sized),
    ) -> Result<(), LayoutError> {
        let name = format!("blobs/sha256/{}", blob.digest.hex());
        let reader = self.open_entry(&name)?.ok_or_else(|| LayoutError::Missing(blob.digest.clone()))?;
        let mut reader = HashingReader::new(reader.take(blob.size));
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read =
                reader.read(&mut buffer).map_err(|source| LayoutError::io(&self.path.join(&name), source))?;
            if read == 0 {
                break;
            }
            out.write_all(&buffer[..read])
                .map_err(|source| LayoutError::io(Path::new("the output"), source))?;
        }
        let found = reader.finish();
        if found == blob.digest {
            Ok(())
        } else {
            Err(LayoutError::Damaged { blob: blob.digest.clone(), found })
        }
    }

    /// Reads every blob of every image once; the first damaged or missing one is the error.
    pub fn verify(&self) -> Result<(), LayoutError> {
        for image in self.images()? {
            for blob in image.blobs() {
                self.copy_blob(blob, &mut io::sink())?;
            }
        }
        Ok(())
    }

    pub(crate) fn document(&self, blob: &oci::Descriptor) -> Result<Vec<u8>, LayoutError> {
        if blob.size > LARGEST_DOCUMENT {
            return Err(LayoutError::Oversize(blob.digest.clone()));
        }
        let mut bytes = Vec::new();
        self.copy_blob(blob, &mut bytes)?;
        Ok(bytes)
    }

    fn image(&self, name: Option<String>, descriptor: oci::Descriptor) -> Result<Image, LayoutError> {
        let manifest = parse(&self.document(&descriptor)?, || descriptor.digest.to_string())?;
        Ok(Image { name, descriptor, manifest })
    }

    fn open_entry(&self, name: &str) -> Result<Option<Box<dyn Read + '_>>, LayoutError> {
        match &self.source {
            Source::Folder(root) => match File::open(root.join(name)) {
                Ok(file) => Ok(Some(Box::new(file))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(LayoutError::io(&root.join(name), error)),
            },
            Source::Tar { file, entries } => Ok(entries.get(name).map(|(offset, size)| {
                Box::new(FileRange { file: Arc::clone(file), offset: *offset, left: *size }) as Box<dyn Read>
            })),
        }
    }
}

fn tar_entries(file: &Arc<File>) -> io::Result<HashMap<String, (u64, u64)>> {
    let mut entries = HashMap::new();
    let mut archive = tar::Archive::new(io::BufReader::new(File::try_clone(file)?));
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let name = entry.path()?.to_string_lossy().trim_start_matches("./").to_owned();
        entries.insert(name, (entry.raw_file_position(), entry.size()));
    }
    Ok(entries)
}

fn parse<T: serde::de::DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, LayoutError> {
    serde_json::from_slice(bytes).map_err(|source| LayoutError::Document { what: what(), source })
}

fn is_index(descriptor: &oci::Descriptor) -> bool {
    descriptor.media_type == oci::INDEX || descriptor.media_type.contains("manifest.list")
}

fn for_this_machine(descriptor: &oci::Descriptor) -> bool {
    descriptor
        .platform
        .as_ref()
        .is_none_or(|platform| platform.architecture == architecture() && platform.os == "linux")
}

/// This machine's architecture in OCI's words.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn no_image(wanted: &str, images: &[Image]) -> LayoutError {
    LayoutError::NoImage { wanted: wanted.to_owned(), present: present(images) }
}

fn present(images: &[Image]) -> String {
    let names: Vec<String> = images
        .iter()
        .map(|i| format!("{}@{}", i.name.as_deref().unwrap_or("(no name)"), i.digest()))
        .collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
