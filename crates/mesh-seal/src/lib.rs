//! Signs, verifies, seals and opens bytes. Knows nothing of what the bytes mean, does no I/O, keeps no key on disk.
//!
//! The host, the control plane and the tools call it; it is the one place that names the cryptographic libraries.

mod keys;
mod scram;
mod sealed;
mod token;

pub use keys::{InvalidKey, Purpose, Signature, SigningKey, VerifyingKey, WrongSignature, fingerprint_of};
pub use scram::ScramVerifier;
pub use sealed::{OpenFailed, OpeningKey, Sealed, SealingKey};
pub use token::{TokenKeys, TokenSecret, WrongMac};

/// Bytes from the operating system's random source.
///
/// # Panics
/// When the operating system has none to give: no key may be made then.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    #[expect(clippy::expect_used, reason = "without random bytes nothing that follows is safe to do")]
    getrandom::fill(&mut bytes).expect("read random bytes from the operating system");
    bytes
}
