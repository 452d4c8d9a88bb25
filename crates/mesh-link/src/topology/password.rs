//! A broker password as the broker keeps it, so that nobody else needs to keep the password itself.
//!
//! The form is RabbitMQ's (password hashing, SHA-256): base64 of four bytes of salt and the SHA-256 of salt and
//! password. LavinMQ reads it too. One hash is enough here because the passwords are random, of 256 bits.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

/// What the broker calls this form.
pub(super) const ALGORITHM: &str = "rabbit_password_hashing_sha256";

/// The salted hash of a broker password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Hashes with this salt. The same salt must be kept with the hash, so that it is seen as unchanged.
    pub fn of(password: &str, salt: [u8; 4]) -> Self {
        let hash = Sha256::new().chain_update(salt).chain_update(password.as_bytes()).finalize();
        Self(STANDARD.encode([salt.as_slice(), &hash].concat()))
    }

    /// Reads what [`Self::as_str`] gave.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Its text, to be stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_brokers() {
        // The example of RabbitMQ's guide to password hashing.
        let hash = PasswordHash::of("test12", [0x90, 0x8D, 0xC6, 0x0A]);
        assert_eq!(hash.as_str(), "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
    }
}
