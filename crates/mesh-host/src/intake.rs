//! Whether bytes that arrived are a declaration this node has to follow. Pure: keeps nothing, touches nothing.
//!
//! The order is fixed: size, outer frame, signature, then (of the bytes that verified) mesh, node and key, then the
//! position, then the rest. Called by [`crate::host`] for every frame, and again for the stored one at every start.

use mesh_ids::{Epoch, Fingerprint, Generation, MeshId, NodeName, Position, Sequence};
use mesh_seal::VerifyingKey;
use mesh_wire::{Declaration, DeclarationError, FrameRefusal, Signed, VerifiedBytes};
use serde::Deserialize;

/// What the node was told when it joined: whom it follows.
#[derive(Debug, Clone)]
pub struct Trust {
    /// Its mesh.
    pub mesh: MeshId,
    /// Its name.
    pub node: NodeName,
    /// The fingerprint of its own identity key.
    pub key: Fingerprint,
    /// Who may sign declarations.
    pub declare_keys: Vec<VerifyingKey>,
}

/// What the node holds already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored<'a> {
    /// Nothing yet.
    Nothing,
    /// A declaration.
    Declaration {
        /// Where it stands.
        position: Position,
        /// The frame it came in.
        frame: &'a [u8],
    },
    /// Something that cannot be read, or no longer verifies: only a higher generation than it is followed.
    Unreadable {
        /// The highest position that could still be read.
        known: Option<Position>,
    },
}

/// Why a frame is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The frame does not open.
    #[error(transparent)]
    Frame(#[from] FrameRefusal),
    /// Signed by the right key, and not a declaration for this node that anything can be made of.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// A declaration for this node, newer than what is held, cannot be read.
    #[error("the declaration {offered} is for this node and cannot be read: {why}")]
    Unreadable {
        /// Where it stands.
        offered: Position,
        /// Why.
        why: DeclarationError,
    },
    /// Signed by the right key for somebody else.
    #[error("the declaration is for {what} {found}, this is {mine}")]
    NotMine {
        /// What differs.
        what: &'static str,
        /// Whose it is.
        found: String,
        /// Who this is.
        mine: String,
    },
    /// Older than what is held.
    #[error("the declaration {offered} is older than {held}, which this node holds")]
    Stale {
        /// Where it stands.
        offered: Position,
        /// What is held.
        held: Position,
    },
    /// The position of what is held, with other bytes: two declarations were signed with one number.
    #[error(
        "ALARM: the declaration {0} differs from the one this node holds under the same number: the declare key may be \
         in other hands"
    )]
    Forked(Position),
    /// What was followed last cannot be read or no longer verifies, and this is no higher generation.
    #[error(
        "what this node followed last cannot be read or trusted, so it keeps what runs and follows only a higher generation \
         than {known}: run 'mesh node recover {node}'"
    )]
    NoRecovery {
        /// This node.
        node: NodeName,
        /// What could still be read.
        known: String,
    },
}

impl Refusal {
    /// Whether it says something of the mesh and this node. The others are junk, somebody else's, or old: who can put a
    /// message into the node's queue must not be able to speak in its name.
    pub fn concerns_node(&self) -> bool {
        matches!(self, Self::Unreadable { .. } | Self::Forked(_) | Self::NoRecovery { .. })
    }
}

/// To whom a declaration is and where it stands, whatever else is in it.
#[derive(Deserialize)]
struct Addressed {
    mesh: MeshId,
    node: NodeName,
    key: Fingerprint,
    epoch: Epoch,
    generation: Generation,
    sequence: Sequence,
}

impl Addressed {
    fn position(&self) -> Position {
        Position { epoch: self.epoch, generation: self.generation, sequence: self.sequence }
    }

    fn refuse_others(&self, trust: &Trust) -> Result<(), Refusal> {
        let mine: [(&'static str, String, String); 3] = [
            ("the mesh", self.mesh.to_string(), trust.mesh.to_string()),
            ("the node", self.node.to_string(), trust.node.to_string()),
            ("the node key", self.key.to_string(), trust.key.to_string()),
        ];
        match mine.into_iter().find(|(_, found, mine)| found != mine) {
            Some((what, found, mine)) => Err(Refusal::NotMine { what, found, mine }),
            None => Ok(()),
        }
    }
}

/// What a frame that is followed says.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// What it declares.
    pub declaration: Declaration,
    /// Whether it is the one that is held already.
    pub again: bool,
}

/// Judges a frame.
pub fn accept(frame: &[u8], trust: &Trust, stored: Stored<'_>) -> Result<Accepted, Refusal> {
    let verified = Signed::open(frame, &trust.declare_keys)?;
    let declaration = Declaration::read(&verified);
    let addressed = match serde_json::from_slice::<Addressed>(verified.as_slice()) {
        Ok(addressed) => addressed,
        Err(error) => {
            return Err(declaration
                .err()
                .unwrap_or_else(|| DeclarationError::Malformed(error.to_string()))
                .into());
        }
    };
    addressed.refuse_others(trust)?;
    let offered = addressed.position();
    let again = is_again(offered, &verified, trust, stored)?;
    match declaration {
        Ok(declaration) => Ok(Accepted { declaration, again }),
        Err(why) => Err(Refusal::Unreadable { offered, why }),
    }
}

/// Whether it is what is held already; an error where it does not stand above that.
fn is_again(
    offered: Position,
    verified: &VerifiedBytes,
    trust: &Trust,
    stored: Stored<'_>,
) -> Result<bool, Refusal> {
    match stored {
        Stored::Nothing => {}
        Stored::Declaration { position, .. } if offered > position => {}
        Stored::Declaration { position, frame } if offered == position => {
            // The signature of what is stored was verified when it was loaded.
            let held = serde_json::from_slice::<Signed>(frame).map(|signed| signed.declaration);
            if held.ok().as_deref() != Some(verified.as_slice()) {
                return Err(Refusal::Forked(position));
            }
            return Ok(true);
        }
        Stored::Declaration { position, .. } => return Err(Refusal::Stale { offered, held: position }),
        Stored::Unreadable { known } => {
            // Where nothing could be read, the first generation is what may have been followed.
            let first =
                Position { epoch: offered.epoch, generation: Generation::new(1), ..Position::default() };
            let known = known.unwrap_or(first);
            if (offered.epoch, offered.generation) <= (known.epoch, known.generation) {
                let known = known.generation.to_string();
                return Err(Refusal::NoRecovery { node: trust.node.clone(), known });
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use mesh_seal::SigningKey;

    use super::*;
    use crate::test_mesh::TestMesh;

    fn mesh() -> TestMesh {
        TestMesh::new()
    }

    fn declaration(mesh: &TestMesh, generation: u64, sequence: u64) -> Declaration {
        mesh.declaration(generation, sequence)
    }

    trait Judge {
        fn judge(&self, frame: &[u8]) -> Result<Accepted, Refusal>;
        fn judge_after(&self, held: &[u8], frame: &[u8]) -> Result<Accepted, Refusal>;
    }

    impl Judge for TestMesh {
        fn judge(&self, frame: &[u8]) -> Result<Accepted, Refusal> {
            accept(frame, &self.trust, Stored::Nothing)
        }

        /// Judges `frame` while `held` is held.
        fn judge_after(&self, held: &[u8], frame: &[u8]) -> Result<Accepted, Refusal> {
            let position = self.judge(held).expect("it is followed").declaration.position();
            accept(frame, &self.trust, Stored::Declaration { position, frame: held })
        }
    }

    #[test]
    fn what_is_for_another_mesh_node_or_key_is_refused_though_the_signature_is_right() {
        let mesh = mesh();
        let mut others = [(); 3].map(|()| declaration(&mesh, 1, 1));
        others[0].mesh = "ffffffffffffffffffffffffffffffff".parse().expect("a mesh");
        others[1].node = "node-10".parse().expect("a node");
        others[2].key = SigningKey::from_seed(&[3; 32]).verifying_key().fingerprint();
        for (other, what) in others.iter().zip(["the mesh", "the node", "the node key"]) {
            let refusal = mesh.judge(&mesh.frame(other)).expect_err(what);
            assert!(matches!(&refusal, Refusal::NotMine { what: found, .. } if *found == what), "{refusal}");
        }
    }

    #[test]
    fn only_what_stands_above_is_followed_and_the_same_again() {
        let mesh = mesh();
        let held = mesh.at(2, 5);
        for (generation, sequence) in [(2, 6), (3, 0), (2, u64::MAX)] {
            let accepted = mesh.judge_after(&held, &mesh.at(generation, sequence)).expect("it is followed");
            assert!(!accepted.again);
        }
        for (generation, sequence) in [(2, 4), (1, 6), (0, u64::MAX)] {
            let refusal = mesh.judge_after(&held, &mesh.at(generation, sequence)).expect_err("it is older");
            assert!(matches!(refusal, Refusal::Stale { .. }), "{refusal}");
        }
        assert!(mesh.judge_after(&held, &held).is_ok_and(|accepted| accepted.again));
    }

    #[test]
    fn the_same_number_with_other_bytes_raises_an_alarm() {
        let mesh = mesh();
        let mut other = declaration(&mesh, 1, 1);
        other.not_after += 1;
        let refusal = mesh.judge_after(&mesh.at(1, 1), &mesh.frame(&other)).expect_err("a fork");
        assert!(
            matches!(refusal, Refusal::Forked(_)) && refusal.to_string().starts_with("ALARM"),
            "{refusal}"
        );
    }

    #[test]
    fn every_changed_bit_of_a_frame_is_refused() {
        let mesh = mesh();
        let bytes = declaration(&mesh, 1, 1).to_bytes().expect("JSON");
        let signed = Signed::new(bytes, &mesh.declare);
        for bit in 0..signed.declaration.len() * 8 {
            let mut changed = signed.clone();
            changed.declaration[bit / 8] ^= 1 << (bit % 8);
            let frame = serde_json::to_vec(&changed).expect("JSON");
            assert!(
                matches!(mesh.judge(&frame), Err(Refusal::Frame(FrameRefusal::WrongSignature))),
                "bit {bit}"
            );
        }
        for bit in 0..signed.signature.len() * 8 {
            let mut changed = signed.clone();
            changed.signature[bit / 8] ^= 1 << (bit % 8);
            let frame = serde_json::to_vec(&changed).expect("JSON");
            assert!(mesh.judge(&frame).is_err(), "bit {bit} of the signature");
        }
    }

    #[test]
    fn every_cut_frame_is_refused_and_so_is_what_follows_one() {
        let mesh = mesh();
        let frame = mesh.at(1, 1);
        for length in 0..frame.len() {
            assert!(mesh.judge(&frame[..length]).is_err(), "{length} bytes");
        }
        assert!(mesh.judge(&[frame.as_slice(), b"{}"].concat()).is_err(), "trailing bytes");
    }

    #[test]
    fn an_oversized_frame_is_refused_unread() {
        let mesh = mesh();
        let refusal = mesh.judge(&vec![b' '; 5 * 1024 * 1024]).expect_err("5 MiB");
        assert!(matches!(refusal, Refusal::Frame(FrameRefusal::TooLarge { .. })), "{refusal}");
    }

    #[test]
    fn the_signature_comes_before_the_body_and_the_position_before_nothing_else() {
        let mesh = mesh();
        // Signed by nobody, for another node, unreadable: of all that is wrong, the signature is what is said.
        let stranger = SigningKey::from_seed(&[9; 32]);
        let frame = serde_json::to_vec(&Signed::new(b"not even JSON".to_vec(), &stranger)).expect("JSON");
        assert!(matches!(mesh.judge(&frame), Err(Refusal::Frame(FrameRefusal::WrongSignature))));
        let frame = serde_json::to_vec(&Signed::new(b"not even JSON".to_vec(), &mesh.declare)).expect("JSON");
        assert!(matches!(mesh.judge(&frame), Err(Refusal::Declaration(DeclarationError::Malformed(_)))));
    }

    #[test]
    fn after_a_lost_ledger_only_a_higher_generation_is_followed() {
        let mesh = mesh();
        let known = mesh.judge(&mesh.at(4, 9)).expect("it is followed").declaration.position();
        for (generation, followed) in [(3, false), (4, false), (5, true)] {
            for sequence in [0, 9, 10] {
                let frame = mesh.at(generation, sequence);
                let judged = accept(&frame, &mesh.trust, Stored::Unreadable { known: Some(known) });
                assert_eq!(judged.is_ok(), followed, "{generation}.{sequence}");
            }
        }
        for (generation, followed) in [(1, false), (2, true)] {
            let judged = accept(&mesh.at(generation, 5), &mesh.trust, Stored::Unreadable { known: None });
            assert_eq!(judged.is_ok(), followed, "{generation} after nothing could be read");
        }
    }

    #[test]
    fn all_orders_of_six_declarations_end_at_the_highest() {
        let mesh = mesh();
        let frames: Vec<Vec<u8>> =
            [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)].map(|(g, s)| mesh.at(g, s)).into();
        let mut orders = 0;
        permute(&mut (0..6).collect(), 0, &mut |order| {
            orders += 1;
            let mut held: Option<&Vec<u8>> = None;
            for place in order {
                let judged = match held {
                    None => mesh.judge(&frames[*place]),
                    Some(held) => mesh.judge_after(held, &frames[*place]),
                };
                if judged.is_ok() {
                    held = Some(&frames[*place]);
                }
            }
            assert_eq!(held, frames.last());
        });
        assert_eq!(orders, 720);
    }

    fn permute(places: &mut Vec<usize>, from: usize, each: &mut impl FnMut(&[usize])) {
        if from == places.len() {
            return each(places);
        }
        for other in from..places.len() {
            places.swap(from, other);
            permute(places, from + 1, each);
            places.swap(from, other);
        }
    }
}
