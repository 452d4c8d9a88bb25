//! The manifest as a whole. One type for the TOML a person writes and for the JSON that travels; the difference is only
//! that in the latter every file has its content in it.

use mesh_ids::{Digest, ModuleName, ModuleVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    build,
    entries::{
        ContainerEntry, DirectoryEntry, FileEntry, ImageEntry, NetworkEntry, PackageEntry, SysctlEntry,
        TimerEntry, UnitEntry, UserEntry, VolumeEntry,
    },
    place::{Key, Problem},
    placement::Placement,
};

/// The most resources of one module.
pub const MAX_RESOURCES: usize = 1000;
/// The most bytes that the contents of one module's files and units have together. A declaration with a few such modules
/// still fits the largest frame a host reads.
pub const MAX_CONTENT_BYTES: usize = 1024 * 1024;

/// What a module is, and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What the module is called. It stands before the names of its containers, volumes and networks: `NAME.web`.
    pub name: ModuleName,
    /// Which version this is, in the author's words.
    pub version: ModuleVersion,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// On which nodes it belongs.
    pub placement: Placement,
    /// Directories.
    #[serde(default, rename = "directory", skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<DirectoryEntry>,
    /// Packages of the machine's package manager.
    #[serde(default, rename = "package", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<PackageEntry>,
    /// System users.
    #[serde(default, rename = "user", skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserEntry>,
    /// Parameters of the kernel.
    #[serde(default, rename = "sysctl", skip_serializing_if = "Vec::is_empty")]
    pub sysctls: Vec<SysctlEntry>,
    /// Files.
    #[serde(default, rename = "file", skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileEntry>,
    /// Images that are fetched before anything needs them.
    #[serde(default, rename = "image", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageEntry>,
    /// Named volumes.
    #[serde(default, rename = "volume", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeEntry>,
    /// Networks of containers.
    #[serde(default, rename = "network", skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkEntry>,
    /// systemd units.
    #[serde(default, rename = "unit", skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitEntry>,
    /// Programs that run at times.
    #[serde(default, rename = "timer", skip_serializing_if = "Vec::is_empty")]
    pub timers: Vec<TimerEntry>,
    /// Containers.
    #[serde(default, rename = "container", skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerEntry>,
}

impl Manifest {
    /// Reads the JSON form, in which every file has its content, and checks it.
    pub fn from_json(json: &serde_json::Value) -> Result<Self, Problem> {
        let manifest: Self = serde_json::from_value(json.clone())
            .map_err(|error| Problem::new([], crate::read::with_suggestion(&error.to_string())))?;
        manifest.check()?;
        manifest.admit()?;
        Ok(manifest)
    }

    /// The JSON form.
    pub fn to_json(&self) -> serde_json::Value {
        // Every member serialises to a JSON value and every map has text as keys, so that this has no other outcome.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// What it is by content: the SHA-256 of its JSON form, members in the order of this type.
    pub fn digest(&self) -> Digest {
        let json = serde_json::to_vec(self).unwrap_or_default();
        Digest::of_sha256(Sha256::digest(&json).into())
    }

    /// Whether it holds together: names, references, sizes, and what each kind of resource requires. Images that the mesh
    /// carries are not looked up here; [`crate::Module::resolve`] does that.
    pub fn check(&self) -> Result<(), Problem> {
        if self.count() == 0 {
            return Err(Problem::new(
                [],
                "the module has no resource: expected at least one [[directory]], [[file]], [[package]], [[sysctl]], \
                 [[timer]], [[unit]], [[user]], [[image]], [[volume]], [[network]] or [[container]]",
            ));
        }
        if self.count() > MAX_RESOURCES {
            return Err(Problem::new(
                [],
                format!("the module has {} resources, more than {MAX_RESOURCES}", self.count()),
            ));
        }
        if let Placement::Nodes(nodes) = &self.placement
            && nodes.is_empty()
        {
            return Err(Problem::new(
                [Key::Name("placement"), Key::Name("nodes")],
                "no node is named: expected at least one, or count = N, or every_node = true",
            ));
        }
        let size = self.content_bytes();
        if size > MAX_CONTENT_BYTES {
            return Err(Problem::new(
                [],
                format!(
                    "the contents of files and units have {size} bytes together, more than {MAX_CONTENT_BYTES}"
                ),
            ));
        }
        build::resources(self, &build::accept_any_carried).map(|_| ())
    }

    fn count(&self) -> usize {
        self.directories.len()
            + self.packages.len()
            + self.users.len()
            + self.sysctls.len()
            + self.files.len()
            + self.images.len()
            + self.volumes.len()
            + self.networks.len()
            + self.units.len()
            + self.timers.len()
            + self.containers.len()
    }

    fn content_bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.files.iter().map(|file| length(&file.content) + length(&file.base64)).sum::<usize>()
            + self.units.iter().map(|unit| length(&unit.content)).sum::<usize>()
            + self.units.iter().flat_map(|unit| unit.drop_ins.values()).map(String::len).sum::<usize>()
    }
}
