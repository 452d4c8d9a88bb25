//! A container as it is to be made. Pure.

use std::{collections::BTreeMap, fmt};

use mesh_ids::ImageRef;
use mesh_wire::kinds::{ContainerSpec, Mount, Port};
use sha2::{Digest as _, Sha256};

use super::{LABEL_KIND, LABEL_SPEC};

/// A container as it is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its name, which is also its host name: some servers name their data after it.
    pub name: String,
    /// Its image.
    pub image: ImageRef,
    /// What it runs instead of the image's command.
    pub command: Vec<String>,
    /// Its environment. Not printed.
    pub environment: BTreeMap<String, String>,
    /// What is mounted into it.
    pub mounts: Vec<Mount>,
    /// Which of its ports are the machine's.
    pub ports: Vec<Port>,
    /// The networks it is in; the engine's own where none is named.
    pub networks: Vec<String>,
    /// By which user it runs.
    pub user: Option<String>,
    /// The most memory it may use.
    pub memory_bytes: Option<u64>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl Draft {
    /// The container that is declared.
    pub fn of(spec: &ContainerSpec) -> Self {
        Self {
            name: spec.name.clone(),
            image: spec.image.clone(),
            command: spec.command.clone(),
            environment: spec.environment.clone(),
            mounts: spec.mounts.clone(),
            ports: spec.ports.clone(),
            networks: spec.networks.clone(),
            user: spec.user.clone(),
            memory_bytes: spec.memory_bytes,
            labels: labels("container", &Self::fingerprint(spec)),
        }
    }

    /// What of a declared container decides whether one that exists is the same: everything that is given to the engine
    /// when it is made. How it is waited for and how long it may take to stop can change without replacing it.
    pub fn fingerprint(spec: &ContainerSpec) -> String {
        let relevant = ContainerSpec { ready: None, stop_grace_s: 0, restart_on: Vec::new(), ..spec.clone() };
        // A spec came from JSON and has maps with text keys only: it can be written again.
        let json = serde_json::to_vec(&relevant).unwrap_or_default();
        mesh_ids::Digest::of_sha256(Sha256::digest(json).into()).hex().to_owned()
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.name, self.image)
    }
}

/// The labels of a thing that was made for a resource.
pub fn labels(kind: &str, fingerprint: &str) -> BTreeMap<String, String> {
    [(LABEL_KIND, kind), (LABEL_SPEC, fingerprint)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}
