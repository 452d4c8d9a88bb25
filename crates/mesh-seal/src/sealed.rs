//! HPKE (RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305): bytes that one node alone can open, and only in the place
//! they were meant for (the associated data).

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hpke::{
    Deserializable as _, Kem as _, OpModeR, OpModeS, Serializable as _, aead::ChaCha20Poly1305,
    kdf::HkdfSha256, kem::X25519HkdfSha256,
};
use zeroize::Zeroizing;

use crate::keys::InvalidKey;

type Kem = X25519HkdfSha256;

/// Which protocol this is, bound into every key schedule.
const INFO: &[u8] = b"novox-mesh seal 1";

/// The bytes could not be opened: another key's, another place's, or damaged. Which of these is not to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sealed bytes do not open with this key in this place")]
pub struct OpenFailed;

/// The public half: seals. Its text is the standard base64 of its 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct SealingKey(<Kem as hpke::Kem>::PublicKey);

impl SealingKey {
    /// Seals these bytes so that they open only with the other half and the same associated data.
    pub fn seal(&self, associated: &[u8], bytes: &[u8]) -> Result<Sealed, OpenFailed> {
        let (encapsulated, text) = hpke::single_shot_seal::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeS::Base,
            &self.0,
            INFO,
            bytes,
            associated,
        )
        .map_err(|_| OpenFailed)?;
        Ok(Sealed([encapsulated.to_bytes().as_slice(), &text].concat()))
    }
}

impl FromStr for SealingKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| InvalidKey("a sealing key"))?;
        <Kem as hpke::Kem>::PublicKey::from_bytes(&bytes).map(Self).map_err(|_| InvalidKey("a sealing key"))
    }
}

impl fmt::Display for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0.to_bytes()))
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealingKey({self})")
    }
}

/// The secret half: opens. Never printed.
pub struct OpeningKey(<Kem as hpke::Kem>::PrivateKey);

impl OpeningKey {
    /// A new key from the operating system's random source.
    pub fn generate() -> Self {
        let seed = Zeroizing::new(crate::random_bytes::<32>());
        Self(Kem::derive_keypair(seed.as_slice()).0)
    }

    /// Reads what [`Self::to_text`] wrote; white space around it is ignored.
    pub fn from_text(text: &str) -> Result<Self, InvalidKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| InvalidKey("an opening key"))?);
        <Kem as hpke::Kem>::PrivateKey::from_bytes(&bytes).map(Self).map_err(|_| InvalidKey("an opening key"))
    }

    /// The secret bytes as standard base64, to be kept in a 0600 file.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.to_bytes()))
    }

    /// The public half.
    pub fn sealing_key(&self) -> SealingKey {
        SealingKey(Kem::sk_to_pk(&self.0))
    }

    /// Opens what was sealed to this key with this associated data.
    pub fn open(&self, associated: &[u8], sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, OpenFailed> {
        let (encapsulated, text) = sealed.0.split_at_checked(32).ok_or(OpenFailed)?;
        let encapsulated =
            <Kem as hpke::Kem>::EncappedKey::from_bytes(encapsulated).map_err(|_| OpenFailed)?;
        hpke::single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeR::Base,
            &self.0,
            &encapsulated,
            INFO,
            text,
            associated,
        )
        .map(Zeroizing::new)
        .map_err(|_| OpenFailed)
    }
}

impl fmt::Debug for OpeningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpeningKey(of {})", self.sealing_key())
    }
}

/// Encapsulated key and ciphertext, as one run of bytes. Its text is their standard base64.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl FromStr for Sealed {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        STANDARD.decode(text).map(Self).map_err(|_| InvalidKey("sealed bytes"))
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(&self.0))
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_open_only_with_their_key_and_in_their_place() -> Result<(), Box<dyn std::error::Error>> {
        let key = OpeningKey::from_text(&OpeningKey::generate().to_text())?;
        let public: SealingKey = key.sealing_key().to_string().parse()?;
        let sealed: Sealed = public.seal(b"node-1", b"secret")?.to_string().parse()?;
        assert_eq!(key.open(b"node-1", &sealed)?.as_slice(), b"secret");
        assert_eq!(key.open(b"node-2", &sealed), Err(OpenFailed));
        assert_eq!(OpeningKey::generate().open(b"node-1", &sealed), Err(OpenFailed));
        assert_eq!(key.open(b"node-1", &Sealed(vec![1; 20])), Err(OpenFailed));
        Ok(())
    }

    #[test]
    fn an_opening_key_does_not_print_itself() {
        let key = OpeningKey::generate();
        assert!(!format!("{key:?}").contains(key.to_text().as_str()));
    }
}
