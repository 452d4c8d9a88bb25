//! What a person writes to say what a module is and where it belongs: `module.toml`.
//!
//! Vocabulary only: reads and checks text, and turns a module into the resources of a node. It opens no file (the reader
//! of a manifest is handed the files it names by its caller), decides no placement and knows no node.
//! The CLI reads manifests with it, inventory keeps and declares them.

mod admit;
mod build;
mod catalogue;
mod entries;
mod manifest;
mod module;
mod place;
mod placement;
mod read;
mod schema;

pub use catalogue::{Catalogue, CatalogueError};
pub use entries::{
    ContainerEntry, DirectoryEntry, FileEntry, NetworkEntry, PackageEntry, UnitEntry, VolumeEntry,
};
pub use manifest::{MAX_CONTENT_BYTES, MAX_RESOURCES, Manifest};
pub use module::{Module, engine_name, owner_of};
pub use place::{Key, Problem};
pub use placement::Placement;
pub use read::ManifestError;
pub use schema::schema_text;
