//! The keys behind a join token. The token's secret is never sent: a key for the MAC and the password of the one-shot
//! broker account are derived from it (HKDF-SHA256), and only those are stored by the issuer.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::keys::InvalidKey;

/// The MAC is not of these bytes by this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the code that proves possession of the token does not verify")]
pub struct WrongMac;

/// The 32 secret bytes in a join token. Never printed: the token's text is written from [`Self::as_bytes`].
#[derive(Clone)]
pub struct TokenSecret(Zeroizing<[u8; 32]>);

impl TokenSecret {
    /// A new secret from the operating system's random source.
    pub fn generate() -> Self {
        Self(Zeroizing::new(crate::random_bytes()))
    }

    /// The secret whose bytes are these.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes, to be put into the token and nowhere else.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What is derived from it for the token of this id.
    pub fn derive(&self, token_id: &str) -> TokenKeys {
        let hkdf = Hkdf::<Sha256>::new(Some(token_id.as_bytes()), self.0.as_slice());
        let expand = |label: &[u8]| {
            let mut key = Zeroizing::new([0; 32]);
            // 32 bytes are far below HKDF's limit of 255 blocks: this cannot fail, and a zero key is refused below.
            let done = hkdf.expand(label, key.as_mut_slice()).is_ok();
            debug_assert!(done, "HKDF gives 32 bytes");
            key
        };
        TokenKeys {
            mac: expand(b"novox-mesh join mac 1"),
            password: Zeroizing::new(
                URL_SAFE_NO_PAD.encode(expand(b"novox-mesh join password 1").as_slice()),
            ),
        }
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(…)")
    }
}

/// The two keys that both sides derive, or that the issuer stored.
#[derive(Clone)]
pub struct TokenKeys {
    mac: Zeroizing<[u8; 32]>,
    password: Zeroizing<String>,
}

impl TokenKeys {
    /// The MAC key as bytes, for the issuer's store.
    pub fn mac_key(&self) -> &[u8; 32] {
        &self.mac
    }

    /// The keys from what the issuer stored.
    pub fn from_stored(mac: &[u8], password: &str) -> Result<Self, InvalidKey> {
        let mac = mac.try_into().map_err(|_| InvalidKey("a MAC key"))?;
        Ok(Self { mac: Zeroizing::new(mac), password: Zeroizing::new(password.to_owned()) })
    }

    /// The password of the one-shot broker account.
    pub fn broker_password(&self) -> &str {
        &self.password
    }

    /// The code over these bytes: HMAC-SHA256.
    pub fn mac(&self, bytes: &[u8]) -> [u8; 32] {
        self.hmac(bytes).finalize().into_bytes().into()
    }

    /// Whether this code is of these bytes; in constant time.
    pub fn verify_mac(&self, bytes: &[u8], code: &[u8]) -> Result<(), WrongMac> {
        self.hmac(bytes).verify_slice(code).map_err(|_| WrongMac)
    }

    fn hmac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        // RFC 2104: a key shorter than the hash's block of 64 bytes is padded with zeros.
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(self.mac.as_slice());
        Hmac::<Sha256>::new(&(*block).into()).chain_update(b"novox-mesh join 1\0").chain_update(bytes)
    }
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_bound_to_its_bytes_and_its_token() {
        let secret = TokenSecret::generate();
        let keys = secret.derive("t1");
        let code = keys.mac(b"request");
        assert_eq!(secret.derive("t1").verify_mac(b"request", &code), Ok(()));
        assert_eq!(keys.verify_mac(b"requesT", &code), Err(WrongMac));
        assert_eq!(secret.derive("t2").verify_mac(b"request", &code), Err(WrongMac));
        assert_eq!(TokenSecret::generate().derive("t1").verify_mac(b"request", &code), Err(WrongMac));
    }

    #[test]
    fn the_two_derived_keys_differ_and_neither_is_the_secret() {
        let secret = TokenSecret::from_bytes([9; 32]);
        let keys = secret.derive("t1");
        assert_ne!(keys.mac_key(), secret.as_bytes());
        assert_ne!(keys.broker_password(), URL_SAFE_NO_PAD.encode(keys.mac_key()));
    }
}
