//! Which image a node boots from, and getting it into the engine: by digest, and only when it is not there yet.
//!
//! It never builds images (`cargo xtask bundle` does) and never fetches one. [`crate::lab`] calls it.

use std::io;
use std::path::{Path, PathBuf};

use mesh_bundle::{Image, Layout};

use crate::engine::Engine;
use crate::error::LabError;
use crate::progress::Progress;

/// What a node is to have when it boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// A container engine.
    Ready,
    /// None: the host has to raise one (step 0 of the bootstrap).
    Bare,
}

impl NodeKind {
    /// The image's name in a layout, and of its archive.
    fn name(self) -> &'static str {
        match self {
            Self::Ready => "node",
            Self::Bare => "node-bare",
        }
    }
}

/// Where images for nodes are looked for, below `dist/`.
const FOLDER: &str = "node-images";

/// The engine's id of the node image, loaded first if the engine does not have it.
pub(crate) fn provide(
    engine: &Engine,
    source: &Path,
    kind: NodeKind,
    progress: &Progress,
) -> Result<String, LabError> {
    let (path, layout, image) = find(source, kind)?;
    let id = image.config().hex().to_owned();
    if engine.has_image(&id)? {
        return Ok(id);
    }
    let name = format!("mesh-lab/{}", kind.name());
    progress.step(&format!("image: loading {} ({})", path.display(), image.config()));
    engine.load_image(move |out| layout.write_archive(&image, &name, out).map_err(io::Error::other))?;
    if engine.has_image(&id)? {
        Ok(id)
    } else {
        Err(LabError::Unreadable {
            command: "podman load".to_owned(),
            why: format!("it loaded {} and then had no image {id}", path.display()),
        })
    }
}

/// Removes the node images this module loaded.
pub(crate) fn remove_all(engine: &Engine, progress: &Progress) -> Result<(), LabError> {
    for kind in [NodeKind::Ready, NodeKind::Bare] {
        let name = format!("localhost/mesh-lab/{}:{}", kind.name(), mesh_bundle::archive::TAG);
        if engine.has_image(&name)? {
            progress.step(&format!("image: removing {name}"));
            engine.remove_image(&name)?;
        }
    }
    Ok(())
}

/// Where the images stand when nobody names another place.
pub(crate) fn default_source(dist: &Path) -> PathBuf {
    dist.join(FOLDER)
}

/// `source` is one layout or archive with the image, or a folder of archives named after the images.
fn find(source: &Path, kind: NodeKind) -> Result<(PathBuf, Layout, Image), LabError> {
    let name = kind.name();
    let within = source.join(format!("{name}.tar"));
    let path = if within.exists() { within.clone() } else { source.to_owned() };
    if !path.is_file() && !path.join("index.json").exists() {
        return Err(LabError::NotBuilt {
            path: within,
            next: "`cargo xtask bundle` builds it, `--image` names another",
        });
    }
    let fail = |source| LabError::Image { path: path.clone(), source };
    let layout = Layout::open(&path).map_err(fail)?;
    let image = layout.find_name(&format!("mesh/{name}")).or_else(|_| layout.only()).map_err(fail)?;
    Ok((path.clone(), layout, image))
}
