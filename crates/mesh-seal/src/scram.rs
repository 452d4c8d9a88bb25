//! What PostgreSQL keeps instead of a password (RFC 5803, SCRAM-SHA-256): made here so that a password never travels to
//! the server, and compared here to see whether a server still holds the verifier of the password in a file.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::keys::InvalidKey;

/// The number of rounds that PostgreSQL uses by default (`scram_iterations`).
const ROUNDS: u32 = 4096;
/// More than anybody uses: a verifier that asks for more is not worked through.
const MOST_ROUNDS: u32 = 1_000_000;

/// A verifier: proves that somebody knows a password without holding it. Its text is what PostgreSQL takes in place of
/// a password, `SCRAM-SHA-256$4096:SALT$STORED:SERVER`. Not printed by accident: it can be guessed against.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramVerifier {
    rounds: u32,
    salt: Vec<u8>,
    stored: [u8; 32],
    server: [u8; 32],
}

impl ScramVerifier {
    /// The verifier of this password with a new salt from the operating system's random source. The password has to be
    /// printable ASCII, for which SASLprep (RFC 4013) changes nothing; the caller checks that.
    pub fn new(password: &str) -> Self {
        Self::with_salt(password, &crate::random_bytes::<16>(), ROUNDS)
    }

    fn with_salt(password: &str, salt: &[u8], rounds: u32) -> Self {
        let salted = stretch(password.as_bytes(), salt, rounds);
        let stored = Sha256::digest(mac(salted.as_slice(), &[b"Client Key"])).into();
        let server = mac(salted.as_slice(), &[b"Server Key"]);
        Self { rounds, salt: salt.to_vec(), stored, server }
    }

    /// Whether it is a verifier of this password.
    pub fn verifies(&self, password: &str) -> bool {
        // Both sides are in hands that hold the password anyway: no need for constant time.
        Self::with_salt(password, &self.salt, self.rounds) == *self
    }

    /// Its text, for the server.
    pub fn to_text(&self) -> Zeroizing<String> {
        let [salt, stored, server] =
            [self.salt.as_slice(), &self.stored, &self.server].map(|bytes: &[u8]| STANDARD.encode(bytes));
        Zeroizing::new(format!("SCRAM-SHA-256${}:{salt}${stored}:{server}", self.rounds))
    }
}

/// `Hi` of RFC 5802: PBKDF2 with HMAC-SHA-256 and one block.
fn stretch(password: &[u8], salt: &[u8], rounds: u32) -> Zeroizing<[u8; 32]> {
    let mut last = mac(password, &[salt, &1u32.to_be_bytes()]);
    let mut sum = Zeroizing::new(last);
    for _ in 1..rounds {
        last = mac(password, &[&last]);
        for (sum, byte) in sum.iter_mut().zip(last) {
            *sum ^= byte;
        }
    }
    sum
}

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // RFC 2104: a key longer than the hash's block of 64 bytes is hashed, a shorter one is padded with zeros.
    let mut block = Zeroizing::new([0; 64]);
    if key.len() > 64 {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let start = Hmac::<Sha256>::new(&(*block).into());
    parts.iter().fold(start, Mac::chain_update).finalize().into_bytes().into()
}

impl FromStr for ScramVerifier {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let invalid = InvalidKey("a SCRAM verifier");
        let fields = || {
            let (rounds, rest) = text.strip_prefix("SCRAM-SHA-256$")?.split_once(':')?;
            let (salt, keys) = rest.split_once('$')?;
            let (stored, server) = keys.split_once(':')?;
            let decode = |text: &str| STANDARD.decode(text).ok();
            Some(Self {
                rounds: rounds.parse().ok().filter(|rounds| (1..=MOST_ROUNDS).contains(rounds))?,
                salt: decode(salt)?,
                stored: decode(stored)?.try_into().ok()?,
                server: decode(server)?.try_into().ok()?,
            })
        };
        fields().ok_or(invalid)
    }
}

impl fmt::Debug for ScramVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramVerifier(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange in section 3 of RFC 7677.
    #[test]
    fn the_exchange_of_the_rfc_verifies() -> Result<(), InvalidKey> {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").map_err(|_| InvalidKey("a salt"))?;
        let verifier = ScramVerifier::with_salt("pencil", &salt, 4096);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = mac(&verifier.server, &[message.as_bytes()]);
        assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        Ok(())
    }

    #[test]
    fn a_verifier_survives_its_text_and_knows_its_password_only() -> Result<(), InvalidKey> {
        for password in ["pencil", &"long".repeat(40)] {
            let verifier: ScramVerifier = ScramVerifier::new(password).to_text().parse()?;
            assert!(verifier.verifies(password));
            assert!(!verifier.verifies("Pencil"));
            assert!(!format!("{verifier:?}").contains(&STANDARD.encode(verifier.stored)));
        }
        assert_ne!(ScramVerifier::new("pencil"), ScramVerifier::new("pencil"), "two salts");
        Ok(())
    }

    #[test]
    fn what_is_no_verifier_is_refused() {
        for bad in ["", "md5aabb", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA=="] {
            assert!(bad.parse::<ScramVerifier>().is_err(), "{bad}");
        }
    }
}
