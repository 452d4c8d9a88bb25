//! What a node is told: who it is for, where it stands, and the ordered list of resources the node then owns.
//!
//! Always whole: the newest declaration is enough. A resource that cannot be read is refused by name and does not
//! take the others with it; anything else that cannot be read refuses the declaration.

use mesh_ids::{Epoch, Fingerprint, Generation, MeshId, NodeName, Position, ResourceId, Sequence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{kinds::Spec, signed::VerifiedBytes};

/// The format this crate writes, and the newest it reads.
pub const FORMAT: u32 = 1;

/// A declaration, as signed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The format of what follows: 1.
    pub format: u32,
    /// The mesh it belongs to.
    pub mesh: MeshId,
    /// The node it is for.
    pub node: NodeName,
    /// The fingerprint of that node's identity key.
    pub key: Fingerprint,
    /// Of the mesh.
    pub epoch: Epoch,
    /// Of the node.
    pub generation: Generation,
    /// Within the generation.
    pub sequence: Sequence,
    /// When it was issued, in seconds since 1970-01-01 UTC.
    pub issued: i64,
    /// After this time (seconds since 1970-01-01 UTC) the node keeps what runs and begins nothing destructive.
    pub not_after: i64,
    /// What the node owns, in the order in which it is applied.
    #[schemars(with = "Vec<Resource>")]
    pub resources: Vec<Box<RawValue>>,
}

/// One resource: what it is called, what it needs first, and what it is.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Resource {
    /// Unique within the declaration.
    pub id: ResourceId,
    /// What has to be applied before it, by id. A failure there blocks this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<ResourceId>,
    /// Whether the node only looks at it and reports what is other than declared: it then makes, repairs and removes nothing
    /// of it. Absent where the node keeps it as declared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observe_only: bool,
    /// Its kind and what the kind needs to know: the members `kind` and `spec`.
    #[serde(flatten)]
    pub spec: Spec,
}

/// A resource that could not be read. The rest of the declaration stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableResource {
    /// Its id; where even that cannot be read, its place in the list (`resource 3`).
    pub id: String,
    /// What is wrong with it, for a person.
    pub reason: String,
}

/// Why a declaration as a whole cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    /// Not the JSON of a declaration, or with members this version does not know.
    #[error("read the declaration: {0}")]
    Malformed(String),
    /// A format newer than this program.
    #[error("the declaration has format {0}; this host reads formats up to {FORMAT}: upgrade mesh-host")]
    UnknownFormat(u32),
    /// Two resources share an id.
    #[error("two resources are called {0}")]
    DuplicateId(ResourceId),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame<'a> {
    id: ResourceId,
    kind: String,
    #[serde(default)]
    after: Vec<ResourceId>,
    #[serde(default)]
    observe_only: bool,
    #[serde(borrow)]
    spec: &'a RawValue,
}

impl Declaration {
    /// Reads bytes whose signature verified.
    pub fn read(bytes: &VerifiedBytes) -> Result<Self, DeclarationError> {
        /// Only what every format has.
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let malformed = |e: serde_json::Error| DeclarationError::Malformed(e.to_string());
        let Any { format } = serde_json::from_slice(bytes.as_slice()).map_err(malformed)?;
        if format != FORMAT {
            return Err(DeclarationError::UnknownFormat(format));
        }
        let declaration: Self = serde_json::from_slice(bytes.as_slice()).map_err(malformed)?;
        let mut seen = std::collections::BTreeSet::new();
        for resource in declaration.resources().into_iter().flatten() {
            if !seen.insert(resource.id.clone()) {
                return Err(DeclarationError::DuplicateId(resource.id));
            }
        }
        Ok(declaration)
    }

    /// The bytes to sign.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Where it stands.
    pub fn position(&self) -> Position {
        Position { epoch: self.epoch, generation: self.generation, sequence: self.sequence }
    }

    /// Its resources in order, each read or refused by itself.
    pub fn resources(&self) -> Vec<Result<Resource, UnreadableResource>> {
        self.resources.iter().enumerate().map(|(index, raw)| Resource::read(raw.get(), index)).collect()
    }
}

impl Resource {
    /// Reads one resource from its JSON; `index` names it where its id cannot be read.
    pub fn read(json: &str, index: usize) -> Result<Self, UnreadableResource> {
        #[derive(Deserialize)]
        struct Named {
            id: ResourceId,
        }
        let unreadable = |error: serde_json::Error| UnreadableResource {
            id: serde_json::from_str::<Named>(json)
                .map_or_else(|_| format!("resource {}", index + 1), |named| named.id.to_string()),
            reason: format!("read the resource: {error}"),
        };
        let frame: Frame<'_> = serde_json::from_str(json).map_err(unreadable)?;
        let spec = Spec::read(&frame.kind, frame.spec.get())
            .map_err(|reason| UnreadableResource { id: frame.id.to_string(), reason })?;
        Ok(Self { id: frame.id, after: frame.after, observe_only: frame.observe_only, spec })
    }

    /// The resource as it stands in a declaration.
    pub fn to_raw(&self) -> Result<Box<RawValue>, serde_json::Error> {
        serde_json::value::to_raw_value(self)
    }
}

impl<'de> Deserialize<'de> for Resource {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Through a value rather than raw text, so that formats other than JSON (the bundle's TOML) are read too.
        let value = serde_json::Value::deserialize(deserializer)?;
        Self::read(&value.to_string(), 0)
            .map_err(|e| serde::de::Error::custom(format!("{}: {}", e.id, e.reason)))
    }
}
