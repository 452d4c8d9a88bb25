//! A mesh to test with: it signs declarations for one node. Only in tests.

use mesh_ids::{Epoch, Generation, Sequence};
use mesh_seal::SigningKey;
use mesh_wire::{Declaration, Resource, Signed};

use crate::intake::Trust;

/// When every declaration of it is issued, and until when it holds.
pub(crate) const ISSUED: i64 = 1_900_000_000;
pub(crate) const NOT_AFTER: i64 = 1_900_100_000;

/// A mesh with one node.
pub(crate) struct TestMesh {
    pub(crate) declare: SigningKey,
    pub(crate) trust: Trust,
}

impl TestMesh {
    pub(crate) fn new() -> Self {
        let (declare, node) = (SigningKey::from_seed(&[1; 32]), SigningKey::from_seed(&[2; 32]));
        let trust = Trust {
            mesh: "0123456789abcdef0123456789abcdef".parse().expect("a mesh"),
            node: "node-1".parse().expect("a node"),
            key: node.verifying_key().fingerprint(),
            declare_keys: vec![declare.verifying_key()],
        };
        Self { declare, trust }
    }

    /// A declaration for the node, without resources.
    pub(crate) fn declaration(&self, generation: u64, sequence: u64) -> Declaration {
        Declaration {
            format: 1,
            mesh: self.trust.mesh.clone(),
            node: self.trust.node.clone(),
            key: self.trust.key.clone(),
            epoch: Epoch::new(1),
            generation: Generation::new(generation),
            sequence: Sequence::new(sequence),
            issued: ISSUED,
            not_after: NOT_AFTER,
            resources: Vec::new(),
        }
    }

    /// A declaration, signed, as it travels.
    pub(crate) fn frame(&self, declaration: &Declaration) -> Vec<u8> {
        let bytes = declaration.to_bytes().expect("JSON");
        serde_json::to_vec(&Signed::new(bytes, &self.declare)).expect("JSON")
    }

    /// An empty declaration, signed.
    pub(crate) fn at(&self, generation: u64, sequence: u64) -> Vec<u8> {
        self.frame(&self.declaration(generation, sequence))
    }

    /// A declaration of these resources, signed.
    pub(crate) fn with(&self, generation: u64, sequence: u64, resources: &[Resource]) -> Vec<u8> {
        let mut declaration = self.declaration(generation, sequence);
        declaration.resources = resources.iter().map(|resource| resource.to_raw().expect("JSON")).collect();
        self.frame(&declaration)
    }
}
