//! Writes an OCI image layout in which equal content has equal digests.
//!
//! Layers are not compressed: what a bundle is judged by is the time until a node runs, gzip on two cores costs more of
//! it than reading the bytes does, and one compressor less is one version less on which a digest could depend. It never
//! reads a clock: the one time in an image is handed in. `xtask` calls it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use mesh_ids::Digest;

use crate::hashing::HashingWriter;
use crate::layout::{Image, Layout, LayoutError};
use crate::oci;
use crate::tree::Tree;

/// What is to become one image.
pub struct ImageDraft<'a> {
    /// Its name in the layout, such as `mesh/store`.
    pub name: &'a str,
    /// `amd64`, `arm64`, …
    pub architecture: &'a str,
    /// The clamp of all times, seconds since 1970.
    pub epoch: u64,
    /// The same time in RFC 3339.
    pub created: &'a str,
    /// What the engine runs.
    pub run: oci::Run,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The files.
    pub tree: &'a Tree,
}

/// A layout being written.
pub struct LayoutWriter {
    root: PathBuf,
    images: BTreeMap<String, oci::Descriptor>,
}

impl LayoutWriter {
    /// Makes the folder `root` with an empty layout in it.
    pub fn create(root: &Path) -> Result<Self, LayoutError> {
        let blobs = root.join("blobs/sha256");
        fs::create_dir_all(&blobs).map_err(|source| LayoutError::io(&blobs, source))?;
        Ok(Self { root: root.to_owned(), images: BTreeMap::new() })
    }

    /// Writes one image; answers its manifest's and its config's digest.
    pub fn add(&mut self, draft: &ImageDraft<'_>) -> Result<(Digest, Digest), LayoutError> {
        let layer = self.write_blob(oci::LAYER, |out| draft.tree.write_tar(out, draft.epoch))?;
        let config = oci::Config {
            created: draft.created.to_owned(),
            architecture: draft.architecture.to_owned(),
            os: "linux".to_owned(),
            config: draft.run.clone(),
            rootfs: oci::RootFs { kind: "layers".to_owned(), diff_ids: vec![layer.digest.clone()] },
        };
        let config = self.write_json(oci::CONFIG, &config)?;
        let config_digest = config.digest.clone();
        let manifest = oci::Manifest {
            schema_version: 2,
            media_type: oci::MANIFEST.to_owned(),
            config,
            layers: vec![layer],
            annotations: draft.annotations.clone(),
        };
        let manifest = self.write_json(oci::MANIFEST, &manifest)?;
        let digest = manifest.digest.clone();
        self.name_image(draft.name, manifest);
        Ok((digest, config_digest))
    }

    /// Takes an image over from another layout under `name`, verifying every blob on the way.
    pub fn copy(&mut self, name: &str, from: &Layout, image: &Image) -> Result<(), LayoutError> {
        for blob in image.blobs() {
            let copied =
                self.write_blob(&blob.media_type, |out| from.copy_blob(blob, out).map_err(io::Error::other))?;
            if copied.digest != blob.digest {
                return Err(LayoutError::Damaged { blob: blob.digest.clone(), found: copied.digest });
            }
        }
        self.name_image(name, image.descriptor.clone());
        Ok(())
    }

    /// As [`Self::copy`], but blobs become hard links where the file system can, and are not read: for a layout that was
    /// just verified.
    pub fn link(&mut self, name: &str, from: &Layout, image: &Image) -> Result<(), LayoutError> {
        let linked = from.folder().is_some_and(|folder| {
            image.blobs().all(|blob| {
                let place = Path::new("blobs/sha256").join(blob.digest.hex());
                let (there, here) = (folder.join(&place), self.root.join(&place));
                here.exists() || fs::hard_link(there, here).is_ok()
            })
        });
        if !linked {
            return self.copy(name, from, image);
        }
        self.name_image(name, image.descriptor.clone());
        Ok(())
    }

    /// Writes the index, sorted by name; without it the folder is no layout.
    pub fn finish(self) -> Result<(), LayoutError> {
        let index = oci::Index {
            schema_version: 2,
            media_type: oci::INDEX.to_owned(),
            manifests: self.images.into_values().collect(),
        };
        let path = self.root.join("index.json");
        fs::write(&path, to_json(&index)?).map_err(|source| LayoutError::io(&path, source))?;
        let path = self.root.join("oci-layout");
        fs::write(&path, crate::archive::OCI_LAYOUT).map_err(|source| LayoutError::io(&path, source))
    }

    fn name_image(&mut self, name: &str, mut manifest: oci::Descriptor) {
        manifest.annotations = BTreeMap::from([(oci::REF_NAME.to_owned(), name.to_owned())]);
        self.images.insert(name.to_owned(), manifest);
    }

    fn write_json(
        &self,
        media_type: &str,
        value: &impl serde::Serialize,
    ) -> Result<oci::Descriptor, LayoutError> {
        let bytes = to_json(value)?;
        self.write_blob(media_type, |out| out.write_all(&bytes))
    }

    fn write_blob(
        &self,
        media_type: &str,
        fill: impl FnOnce(&mut HashingWriter<BufWriter<File>>) -> io::Result<()>,
    ) -> Result<oci::Descriptor, LayoutError> {
        let blobs = self.root.join("blobs/sha256");
        let unnamed = blobs.join(".unnamed");
        let failed = |source| LayoutError::io(&unnamed, source);
        let mut out =
            HashingWriter::new(BufWriter::with_capacity(1 << 20, File::create(&unnamed).map_err(failed)?));
        fill(&mut out).map_err(failed)?;
        let (digest, size, mut written) = out.finish();
        written.flush().map_err(failed)?;
        fs::rename(&unnamed, blobs.join(digest.hex())).map_err(failed)?;
        Ok(oci::Descriptor {
            media_type: media_type.to_owned(),
            digest,
            size,
            platform: None,
            annotations: BTreeMap::new(),
        })
    }
}

fn to_json(value: &impl serde::Serialize) -> Result<Vec<u8>, LayoutError> {
    serde_json::to_vec(value)
        .map_err(|source| LayoutError::Document { what: "new document".to_owned(), source })
}
