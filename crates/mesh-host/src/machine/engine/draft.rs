//! A container as it is to be made. Pure.

use std::{collections::BTreeMap, fmt};

use mesh_wire::kinds::{ContainerSpec, Replace};
use sha2::{Digest as _, Sha256};

use super::{LABEL_KIND, LABEL_READS, LABEL_SPEC};

/// A container as it is to be made.
#[derive(Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its name in the engine. What it calls itself, and what others in its networks call it, is the declared name.
    pub name: String,
    /// What is declared of it. Its environment is not printed.
    pub spec: ContainerSpec,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl Draft {
    /// The container that is declared.
    pub fn of(spec: &ContainerSpec) -> Self {
        let mut labels = labels("container", &Self::fingerprint(spec));
        labels.extend(spec.labels.clone());
        Self { name: spec.name.clone(), spec: spec.clone(), labels }
    }

    /// The same, that finds what it reads in this state.
    #[must_use]
    pub fn reading(mut self, state: &str) -> Self {
        if !state.is_empty() {
            self.labels.insert(LABEL_READS.to_owned(), state.to_owned());
        }
        self
    }

    /// What of a declared container decides whether one that exists is the same: everything that is given to the engine
    /// when it is made. How it is waited for and how long it may take to stop can change without replacing it.
    pub fn fingerprint(spec: &ContainerSpec) -> String {
        let relevant = ContainerSpec {
            ready: None,
            health: None,
            private_log: false,
            replace: Replace::default(),
            stop_grace_s: 0,
            restart_on: Vec::new(),
            ..spec.clone()
        };
        // A spec came from JSON and has maps with text keys only: it can be written again.
        let json = serde_json::to_vec(&relevant).unwrap_or_default();
        mesh_ids::Digest::of_sha256(Sha256::digest(json).into()).hex().to_owned()
    }
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {}", self.spec.name, self.spec.image)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft({} as {}, {:?})", self, self.name, self.labels)
    }
}

/// The labels of a thing that was made for a resource.
pub fn labels(kind: &str, fingerprint: &str) -> BTreeMap<String, String> {
    [(LABEL_KIND, kind), (LABEL_SPEC, fingerprint)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
}
