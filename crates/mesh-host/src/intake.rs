//! Whether bytes that arrived are a declaration this node has to follow. Pure: keeps nothing, touches nothing.
//!
//! The order is fixed: size, outer frame, signature, then (of the bytes that verified) mesh, node and key, then the
//! position, then the rest. Called by [`crate::host`] for every frame, and again for the stored one at every start.

use mesh_ids::{Fingerprint, MeshId, NodeName, Position};
use mesh_seal::VerifyingKey;
use mesh_wire::{Declaration, DeclarationError, FrameRefusal, Signed};

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
    /// A ledger that cannot be read: only a higher generation than what could still be read of it is followed.
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
    /// The declaration cannot be read.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
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
    /// The ledger cannot be read, and this is no higher generation.
    #[error(
        "the ledger of this node cannot be read, so it keeps what runs and follows only a higher generation than {known}: \
         run 'mesh node recover {node}'"
    )]
    NoRecovery {
        /// This node.
        node: NodeName,
        /// What could still be read.
        known: String,
    },
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
    let declaration = Declaration::read(&verified)?;
    let mine: [(&'static str, String, String); 3] = [
        ("the mesh", declaration.mesh.to_string(), trust.mesh.to_string()),
        ("the node", declaration.node.to_string(), trust.node.to_string()),
        ("the node key", declaration.key.to_string(), trust.key.to_string()),
    ];
    if let Some((what, found, mine)) = mine.into_iter().find(|(_, found, mine)| found != mine) {
        return Err(Refusal::NotMine { what, found, mine });
    }
    let offered = declaration.position();
    match stored {
        Stored::Nothing => {}
        Stored::Declaration { position, .. } if offered > position => {}
        Stored::Declaration { position, frame } if offered == position => {
            // The signature of what is stored was verified when it was loaded.
            let held = serde_json::from_slice::<Signed>(frame).map(|signed| signed.declaration);
            if held.ok().as_deref() != Some(verified.as_slice()) {
                return Err(Refusal::Forked(position));
            }
            return Ok(Accepted { declaration, again: true });
        }
        Stored::Declaration { position, .. } => return Err(Refusal::Stale { offered, held: position }),
        Stored::Unreadable { known } => {
            let known = known.unwrap_or_default();
            if (offered.epoch, offered.generation) <= (known.epoch, known.generation) {
                let known = known.generation.to_string();
                return Err(Refusal::NoRecovery { node: trust.node.clone(), known });
            }
        }
    }
    Ok(Accepted { declaration, again: false })
}
