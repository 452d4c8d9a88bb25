//! One image of a layout as the single stream that an engine's "load an image" takes.
//!
//! The stream is an OCI archive and a docker-archive at once: the OCI index and blobs for engines that read those
//! (Podman, which then keeps the manifest's digest), and a `manifest.json` over the same blobs for classic Docker (which
//! keeps the config's digest only). It never compresses and never changes a blob. `mesh-host` feeds it to the engine.

use std::io::{self, Write};

use crate::layout::{Image, Layout, LayoutError};
use crate::oci;

/// The content of the file `oci-layout`.
pub const OCI_LAYOUT: &str = "{\"imageLayoutVersion\":\"1.0.0\"}";

impl Layout {
    /// Writes `image` to `out`, so that the engine knows it as `name` (`mesh/store`), tag `bundle`.
    ///
    /// When a blob proves damaged, the error comes before the stream ends, so an engine sees a truncated tar.
    pub fn write_archive(&self, image: &Image, name: &str, mut out: impl Write) -> Result<(), LayoutError> {
        let tagged = format!("{name}:{TAG}");
        let mut index = oci::Index {
            schema_version: 2,
            media_type: oci::INDEX.to_owned(),
            manifests: vec![image.descriptor.clone()],
        };
        index.manifests[0].annotations = [(oci::REF_NAME.to_owned(), tagged.clone())].into();
        let docker = serde_json::json!([{
            "Config": blob_path(&image.manifest.config),
            "RepoTags": [tagged],
            "Layers": image.manifest.layers.iter().map(blob_path).collect::<Vec<_>>(),
        }]);
        let as_bytes = |value: &serde_json::Value| value.to_string().into_bytes();
        let index = serde_json::to_value(&index)
            .map_err(|source| LayoutError::Document { what: "new index".to_owned(), source })?;

        for (path, bytes) in [
            ("oci-layout", OCI_LAYOUT.as_bytes().to_vec()),
            ("index.json", as_bytes(&index)),
            ("manifest.json", as_bytes(&docker)),
        ] {
            append(&mut out, path, bytes.len() as u64, |out| out.write_all(&bytes).map_err(to_output))?;
        }
        for blob in image.blobs() {
            append(&mut out, &blob_path(blob), blob.size, |out| self.copy_blob(blob, out))?;
        }
        // The mark of the archive's end. `tar::Builder` is not used here because it writes this when dropped, so that a
        // stream cut short by a damaged blob would look whole.
        out.write_all(&[0; 1024]).and_then(|()| out.flush()).map_err(to_output)
    }
}

/// The tag a loaded image carries, so that people see where it came from; nothing refers to images by it.
pub const TAG: &str = "bundle";

fn blob_path(blob: &oci::Descriptor) -> String {
    format!("blobs/sha256/{}", blob.digest.hex())
}

/// Writes one entry whose content is produced by writing.
fn append(
    out: &mut dyn Write,
    path: &str,
    size: u64,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), LayoutError>,
) -> Result<(), LayoutError> {
    let mut header = tar::Header::new_gnu();
    header.set_path(path).map_err(to_output)?;
    header.set_mode(0o644);
    header.set_size(size);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    out.write_all(header.as_bytes()).map_err(to_output)?;
    fill(&mut *out)?;
    let padding = usize::try_from(size.next_multiple_of(512) - size).unwrap_or(0);
    out.write_all(&[0; 512][..padding]).map_err(to_output)
}

fn to_output(source: io::Error) -> LayoutError {
    LayoutError::io(std::path::Path::new("the output"), source)
}
