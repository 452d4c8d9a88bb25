//! The images a mesh carries, by name: what `image = "mesh/hello"` means today.

use std::collections::BTreeMap;

use mesh_ids::{Digest, ImageRef};
use serde::Deserialize;

/// The images that are carried, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue(BTreeMap<String, ImageRef>);

/// The text is not a list of images.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the catalogue of images: {0}")]
pub struct CatalogueError(String);

impl Catalogue {
    /// The catalogue of these images.
    pub fn new(images: impl IntoIterator<Item = ImageRef>) -> Self {
        Self(images.into_iter().map(|image| (image.name().to_owned(), image)).collect())
    }

    /// Reads `[[image]]` tables with `name` and `digest`, as a bundle lists its images; whatever else stands there is
    /// not this reader's business.
    pub fn from_toml(text: &str) -> Result<Self, CatalogueError> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            image: Vec<Image>,
        }
        #[derive(Deserialize)]
        struct Image {
            name: String,
            digest: Digest,
        }
        let list: List = toml::from_str(text).map_err(|error| CatalogueError(error.to_string()))?;
        let images = list.image.iter().map(|image| format!("{}@{}", image.name, image.digest).parse());
        let images: Result<Vec<ImageRef>, _> = images.collect();
        images.map(Self::new).map_err(|error| CatalogueError(error.to_string()))
    }

    /// The image of this name.
    pub fn get(&self, name: &str) -> Option<&ImageRef> {
        self.0.get(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
