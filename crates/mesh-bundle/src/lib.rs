//! The bundle a host carries: its file (`bundle.toml`), its images (an OCI image layout) and the secrets it asks for.
//!
//! `xtask` writes bundles with it, `mesh-host` reads them. It never talks to an engine or to a network, and it never
//! decides what a bundle contains: that stands in `bundle/` at the root of the repository.
//!
//! - [`mod@bundle`] — `bundle.toml`
//! - [`mod@hashing`] — digests of what passes by
//! - [`mod@tree`] — the files of an image, and the one byte sequence (a tar) that stands for them
//! - [`mod@layout`] — reading an OCI layout, as a folder or as one tar, every blob verified while it is read
//! - [`mod@writer`] — writing an OCI layout so that equal content gives equal digests
//! - [`mod@archive`] — one image as the stream an engine loads

pub mod archive;
pub mod bundle;
pub mod hashing;
pub mod layout;
pub mod oci;
pub mod tree;
pub mod writer;

pub use bundle::{Bundle, BundleError};
pub use layout::{Image, Layout, LayoutError};
pub use mesh_ids::Digest;
pub use tree::Tree;
pub use writer::{ImageDraft, LayoutWriter};
