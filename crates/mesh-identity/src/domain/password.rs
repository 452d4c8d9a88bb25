//! The password of a node's broker account: made once, known to the node alone. Kept are its hash, as the broker keeps it,
//! and its sealed form.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use sha2::{Digest as _, Sha256};

/// A new password, made of random bytes that are handed in.
pub(crate) struct NewPassword {
    /// The password itself, to be sealed and forgotten.
    pub text: String,
    /// As RabbitMQ keeps it (`rabbit_password_hashing_sha256`): the base64 of four bytes of salt and of the SHA-256 over
    /// salt and password. Source: <https://www.rabbitmq.com/docs/passwords>
    pub hash: String,
}

impl NewPassword {
    pub(crate) fn of(random: [u8; 32], salt: [u8; 4]) -> Self {
        let text = URL_SAFE_NO_PAD.encode(random);
        let digest = Sha256::new().chain_update(salt).chain_update(&text).finalize();
        let hash = STANDARD.encode([salt.as_slice(), digest.as_slice()].concat());
        Self { text, hash }
    }
}

/// The SHA-256 of a token that has at least 128 bits of chance in it, which nobody finds by trying.
pub(crate) fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.trim().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_one_the_broker_makes() {
        // The worked example of https://www.rabbitmq.com/docs/passwords: "test12" with the salt 908D C60A.
        let digest = Sha256::new().chain_update([0x90, 0x8d, 0xc6, 0x0a]).chain_update("test12").finalize();
        let hash = STANDARD.encode([[0x90, 0x8d, 0xc6, 0x0a].as_slice(), digest.as_slice()].concat());
        assert_eq!(hash, "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR");
        let password = NewPassword::of([1; 32], [0x90, 0x8d, 0xc6, 0x0a]);
        let again =
            Sha256::new().chain_update([0x90, 0x8d, 0xc6, 0x0a]).chain_update(&password.text).finalize();
        assert!(password.hash.starts_with("kI3GC"));
        assert_eq!(STANDARD.decode(&password.hash).as_deref().map(|hash| &hash[4..]), Ok(again.as_slice()));
    }
}
