//! A module whose images are all known by content: what is kept, compared and declared.

use mesh_ids::{Digest, ModuleName, ResourceId};
use mesh_wire::Resource;

use crate::{
    Catalogue, Manifest, build,
    place::{Key, Problem},
    read::{closest, quoted},
};

/// A manifest that was checked and whose images are given by content. The same for every node.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    manifest: Manifest,
    digest: Digest,
    resources: Vec<Resource>,
    declared_bytes: usize,
}

impl Module {
    /// Looks every carried image up and checks the whole.
    pub fn resolve(mut manifest: Manifest, catalogue: &Catalogue) -> Result<Self, Problem> {
        let containers = manifest.containers.iter_mut().map(|entry| &mut entry.image);
        let containers = containers.enumerate().map(|(index, image)| ("container", index, image));
        let images = manifest.images.iter_mut().map(|entry| &mut entry.image);
        let images = images.enumerate().map(|(index, image)| ("image", index, image));
        for (kind, index, named) in containers.chain(images).filter(|(.., image)| !image.contains('@')) {
            let Some(image) = catalogue.get(named) else {
                let known: Vec<&str> = catalogue.names().collect();
                let hint = closest(named, known.iter().copied())
                    .map_or_else(String::new, |name| format!("; did you mean {name}?"));
                return Err(Problem::new(
                    [Key::Name(kind), Key::Index(index), Key::Name("image")],
                    format!(
                        "the mesh carries no image {}: expected one of {}, or an image by content, \
                         NAME@sha256:DIGEST{hint}",
                        quoted(named),
                        known.join(", "),
                    ),
                ));
            };
            *named = image.to_string();
        }
        Self::of_resolved(manifest)
    }

    /// The module of a manifest whose images are all given by content already: one that was kept.
    pub fn of_resolved(manifest: Manifest) -> Result<Self, Problem> {
        manifest.check()?;
        let resources = build::resources(&manifest, &build::by_content)?;
        let length = |resource: &Resource| resource.to_raw().map(|json| json.get().len() + 1);
        let declared_bytes = resources
            .iter()
            .map(length)
            .sum::<Result<_, _>>()
            .map_err(|error| Problem::new([], format!("a resource cannot be declared: {error}")))?;
        Ok(Self { digest: manifest.digest(), manifest, resources, declared_bytes })
    }

    /// The manifest, every image by content.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What it is called.
    pub fn name(&self) -> &ModuleName {
        &self.manifest.name
    }

    /// The digest of the manifest with every image by content.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// What a node that has the module owns, in the order in which it is applied.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// How many bytes its resources have in a declaration: their JSON, each with its comma.
    pub fn declared_bytes(&self) -> usize {
        self.declared_bytes
    }
}

/// The name in the engine of what a module calls `name`. A module's name has no dot in it, so that two modules never
/// share one, and none is ever that of something carried, whose names have no dot.
pub fn engine_name(module: &ModuleName, name: &str) -> String {
    format!("{module}.{name}")
}

/// The module that a resource of a declaration belongs to.
pub fn owner_of(id: &ResourceId) -> Option<ModuleName> {
    id.as_str().split_once('/')?.0.parse().ok()
}
