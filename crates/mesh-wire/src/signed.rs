//! The outer frame of a declaration: bytes and the signature over exactly those bytes. Never re-encodes them.

use mesh_seal::{Purpose, Signature, SigningKey, VerifyingKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base64_bytes;

/// The largest frame a host reads. A frame larger than this is refused unread.
pub const MAX_FRAME_BYTES: usize = 4 * 1024 * 1024;

/// What a declaration is given beyond its resources, at most: who it is for and where it stands, the signature, and room
/// for what every node may be told besides its modules.
const ENVELOPE_BYTES: usize = 32 * 1024;

/// How large the frame is at most whose declaration has resources of this many bytes of JSON, each with its comma. To be
/// asked before anything is declared: what is larger than [`MAX_FRAME_BYTES`] never reaches its node.
pub const fn frame_bytes(resources: usize) -> usize {
    // Standard base64: four characters for every three bytes begun.
    resources.saturating_add(ENVELOPE_BYTES).div_ceil(3).saturating_mul(4)
}

/// A declaration and the signature over it, as they travel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signed {
    /// The declaration's bytes, exactly as signed. Standard base64 in JSON.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub declaration: Vec<u8>,
    /// The Ed25519 signature over those bytes. Standard base64 in JSON.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub signature: Vec<u8>,
}

/// Why a frame was not opened. Nothing of what it carries was parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameRefusal {
    /// Larger than [`MAX_FRAME_BYTES`].
    #[error("the message is {size} bytes, more than the {MAX_FRAME_BYTES} a host reads")]
    TooLarge {
        /// How many bytes it had.
        size: usize,
    },
    /// Not the JSON of a [`Signed`].
    #[error("the message is not a signed declaration: {0}")]
    Malformed(String),
    /// No declare key that this node trusts made the signature.
    #[error("the signature is not that of a declare key this node trusts")]
    WrongSignature,
}

impl Signed {
    /// Signs these bytes.
    pub fn new(declaration: Vec<u8>, key: &SigningKey) -> Self {
        let signature = key.sign(Purpose::Declaration, &declaration).to_bytes().to_vec();
        Self { declaration, signature }
    }

    /// Reads a frame and gives out its bytes once one of the keys verified them; only then may they be parsed.
    pub fn open(frame: &[u8], trusted: &[VerifyingKey]) -> Result<VerifiedBytes, FrameRefusal> {
        if frame.len() > MAX_FRAME_BYTES {
            return Err(FrameRefusal::TooLarge { size: frame.len() });
        }
        let signed: Self =
            serde_json::from_slice(frame).map_err(|e| FrameRefusal::Malformed(e.to_string()))?;
        signed.verify(trusted)
    }

    /// The bytes, once one of the keys verified them.
    pub fn verify(self, trusted: &[VerifyingKey]) -> Result<VerifiedBytes, FrameRefusal> {
        let signature = Signature::from_bytes(&self.signature).map_err(|_| FrameRefusal::WrongSignature)?;
        if trusted.iter().any(|key| key.verify(Purpose::Declaration, &self.declaration, &signature).is_ok()) {
            Ok(VerifiedBytes(self.declaration))
        } else {
            Err(FrameRefusal::WrongSignature)
        }
    }
}

/// Bytes whose signature verified. Only [`Signed::open`] and [`Signed::verify`] make them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBytes(Vec<u8>);

impl VerifiedBytes {
    /// The bytes as they arrived.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}
