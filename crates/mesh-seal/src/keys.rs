//! Ed25519: who says this. Verification is strict (no small-order keys, no malleable signatures).

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ed25519_dalek::{Signer as _, SigningKey as Secret, VerifyingKey as Public};
use mesh_ids::Fingerprint;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// What a signature is for. A signature made for one purpose never verifies for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A declaration, by the declare key. Over the bytes exactly as sent.
    Declaration,
    /// A report or a heartbeat, by a node's identity key. Over the body exactly as sent.
    Statement,
    /// The request to join, by a node's identity key.
    Enrol,
    /// The answer to a request to join, by the declare key.
    EnrolReply,
}

impl Purpose {
    /// What is put before the bytes. The first two have nothing before them because their wire form says so: both
    /// are JSON objects, so they begin with `{` or white space and never with one of the other prefixes; and the
    /// two are signed by different keys.
    const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Declaration | Self::Statement => b"",
            Self::Enrol => b"novox-mesh enrol 1\0",
            Self::EnrolReply => b"novox-mesh enrol-reply 1\0",
        }
    }

    fn message(self, bytes: &[u8]) -> Vec<u8> {
        [self.prefix(), bytes].concat()
    }
}

/// Why a text or some bytes are not a key or a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read {0}: not the base64 of the right number of bytes, or not a point of the curve")]
pub struct InvalidKey(pub(crate) &'static str);

/// The signature is not this key's over these bytes for this purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not verify")]
pub struct WrongSignature;

/// The secret half. Wiped from memory when dropped; never printed.
#[derive(Clone)]
pub struct SigningKey(Secret);

impl SigningKey {
    /// A new key from the operating system's random source.
    pub fn generate() -> Self {
        Self::from_seed(&crate::random_bytes())
    }

    /// The key whose 32 secret bytes are these.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(Secret::from_bytes(seed))
    }

    /// The 32 secret bytes, to be kept in a 0600 file.
    pub fn to_seed(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Reads what [`Self::to_text`] wrote; white space around it is ignored.
    pub fn from_text(text: &str) -> Result<Self, InvalidKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| InvalidKey("a signing key"))?);
        let seed =
            Zeroizing::new(<[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| InvalidKey("a signing key"))?);
        Ok(Self::from_seed(&seed))
    }

    /// The 32 secret bytes as standard base64.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.to_seed().as_slice()))
    }

    /// The public half.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    /// Signs these bytes for this purpose.
    pub fn sign(&self, purpose: Purpose, bytes: &[u8]) -> Signature {
        Signature(self.0.sign(&purpose.message(bytes)).to_bytes())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.verifying_key().fingerprint())
    }
}

/// The public half. Its text is the standard base64 of its 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(Public);

impl VerifyingKey {
    /// The key whose 32 bytes are these, if they are one and it is not of small order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKey> {
        let bytes = bytes.try_into().map_err(|_| InvalidKey("a public key"))?;
        let key = Public::from_bytes(bytes).map_err(|_| InvalidKey("a public key"))?;
        if key.is_weak() { Err(InvalidKey("a public key")) } else { Ok(Self(key)) }
    }

    /// Its 32 bytes.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// How the key is named: the SHA-256 of its bytes.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint_of(self.0.as_bytes())
    }

    /// Whether this key signed these bytes for this purpose.
    pub fn verify(
        &self,
        purpose: Purpose,
        bytes: &[u8],
        signature: &Signature,
    ) -> Result<(), WrongSignature> {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify_strict(&purpose.message(bytes), &signature).map_err(|_| WrongSignature)
    }
}

impl FromStr for VerifyingKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::from_bytes(&STANDARD.decode(text.trim()).map_err(|_| InvalidKey("a public key"))?)
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.as_bytes()))
    }
}

/// 64 bytes that only the holder of a signing key can make.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);

impl Signature {
    /// The signature whose 64 bytes are these. Whether it verifies is another question.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidKey> {
        bytes.try_into().map(Self).map_err(|_| InvalidKey("a signature"))
    }

    /// Its 64 bytes.
    pub fn to_bytes(self) -> [u8; 64] {
        self.0
    }
}

impl FromStr for Signature {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::from_bytes(&STANDARD.decode(text).map_err(|_| InvalidKey("a signature"))?)
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fingerprint of any public bytes: their SHA-256. Also used for the SubjectPublicKeyInfo of a pinned CA.
pub fn fingerprint_of(bytes: &[u8]) -> Fingerprint {
    Fingerprint::of_sha256(Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_signature_for_one_purpose_does_not_verify_for_another() {
        let key = SigningKey::generate();
        let signature = key.sign(Purpose::Enrol, b"{}");
        let public = key.verifying_key();
        assert_eq!(public.verify(Purpose::Enrol, b"{}", &signature), Ok(()));
        for other in [Purpose::Declaration, Purpose::Statement, Purpose::EnrolReply] {
            assert_eq!(public.verify(other, b"{}", &signature), Err(WrongSignature));
        }
    }

    #[test]
    fn a_key_survives_its_text_and_does_not_print_itself() {
        let key = SigningKey::generate();
        let again = SigningKey::from_text(&format!(" {}\n", *key.to_text()));
        assert_eq!(again.map(|k| k.verifying_key()), Ok(key.verifying_key()));
        assert!(!format!("{key:?}").contains(key.to_text().as_str()));
        assert!(SigningKey::from_text("AAAA").is_err());
    }

    #[test]
    fn a_key_of_small_order_is_refused() {
        let mut identity = [0; 32];
        identity[0] = 1;
        assert!(VerifyingKey::from_bytes(&identity).is_err());
    }

    proptest! {
        #[test]
        fn no_changed_bit_verifies(bytes in proptest::collection::vec(any::<u8>(), 1..200), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let key = SigningKey::from_seed(&[7; 32]);
            let signature = key.sign(Purpose::Declaration, &bytes);
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] ^= 1 << bit;
            prop_assert!(key.verifying_key().verify(Purpose::Declaration, &changed, &signature).is_err());
            let mut other = signature.to_bytes();
            other[at.index(64)] ^= 1 << bit;
            let other = Signature::from_bytes(&other)?;
            prop_assert!(key.verifying_key().verify(Purpose::Declaration, &bytes, &other).is_err());
        }
    }
}
