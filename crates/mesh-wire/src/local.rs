//! A list of resources in a file, for a machine that has joined no mesh (`mesh-host apply --local`, `mesh-host plan`).
//! Unsigned: whoever can write the file on the machine is already root there.

use mesh_ids::ResourceId;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Resource, UnreadableResource};

/// Why a file is not a list of resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalError {
    /// Not JSON of the form `{"resources": [...]}`.
    #[error("read the list of resources: {0}")]
    Malformed(String),
    /// Two resources share an id.
    #[error("two resources are called {0}")]
    DuplicateId(ResourceId),
}

/// `{"resources": [...]}`, each resource as in a declaration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalDeclaration {
    resources: Vec<Box<RawValue>>,
}

impl LocalDeclaration {
    /// Reads the JSON of such a list.
    pub fn read(json: &[u8]) -> Result<Self, LocalError> {
        let local: Self = serde_json::from_slice(json).map_err(|e| LocalError::Malformed(e.to_string()))?;
        let mut seen = std::collections::BTreeSet::new();
        for resource in local.resources().into_iter().flatten() {
            if !seen.insert(resource.id.clone()) {
                return Err(LocalError::DuplicateId(resource.id));
            }
        }
        Ok(local)
    }

    /// Its resources in order, each read or refused by itself.
    pub fn resources(&self) -> Vec<Result<Resource, UnreadableResource>> {
        self.resources.iter().enumerate().map(|(index, raw)| Resource::read(raw.get(), index)).collect()
    }
}
