//! The few OCI image documents a bundle needs, as they stand on disk. Field order here is the order written, so equal
//! images give equal bytes; fields that are not understood are ignored when read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use mesh_ids::Digest;

/// Media type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an index (also called manifest list).
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of an image's configuration.
pub const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// Media type of a layer that is not compressed.
pub const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// The annotation that gives an image of a layout its name.
pub const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Our annotation of a manifest: one line a Debian package, `name version architecture`.
pub const PACKAGES: &str = "mesh.packages";
/// Our annotation of a manifest: why the image exists.
pub const WHY: &str = "org.opencontainers.image.description";

/// Names a blob with its size and meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What the blob is.
    pub media_type: String,
    /// The blob's digest.
    pub digest: Digest,
    /// The blob's size in bytes.
    pub size: u64,
    /// For a manifest within an index: the machine it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Names and remarks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The machine a manifest is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `amd64`, `arm64`, …
    pub architecture: String,
    /// `linux`.
    pub os: String,
}

/// `index.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Always 2.
    pub schema_version: u32,
    /// [`INDEX`].
    #[serde(default = "index_media_type")]
    pub media_type: String,
    /// The manifests.
    pub manifests: Vec<Descriptor>,
}

fn index_media_type() -> String {
    INDEX.to_owned()
}

/// An image's manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Always 2.
    pub schema_version: u32,
    /// [`MANIFEST`].
    #[serde(default)]
    pub media_type: String,
    /// The configuration; its digest is the engine's image id.
    pub config: Descriptor,
    /// The layers, lowest first.
    pub layers: Vec<Descriptor>,
    /// Names and remarks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// An image's configuration, as far as we write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// RFC 3339; the clamp of all times within.
    pub created: String,
    /// `amd64`, `arm64`, …
    pub architecture: String,
    /// `linux`.
    pub os: String,
    /// What the engine runs.
    pub config: Run,
    /// The layers by the digest of their plain tar.
    pub rootfs: RootFs,
}

/// What an engine runs of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Run {
    /// `uid`, `name` or `uid:gid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// `NAME=value`, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The program and its first arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    /// Further arguments, which who runs the image may replace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
    /// Where the program starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The signal that asks the program to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
}

/// The layers of an image by content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// Always `layers`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The digest of each layer's plain tar, lowest first.
    pub diff_ids: Vec<Digest>,
}
