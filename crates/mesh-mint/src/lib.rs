//! Makes what a bundle's `[[secret]]` asks for: passwords, tokens, keys, an authority and certificates.
//!
//! Bytes in, bytes out: it reads and writes no file and knows no machine; `mesh-host bootstrap` hands in the machine's
//! addresses and the authority's files, and puts the results where the bundle says, mode 0600. Apart from `mesh-bundle`,
//! so that whoever only reads and writes bundles builds no cryptography.

mod authority;

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mesh_bundle::bundle::{Generate, Secret};
use mesh_seal::random_bytes;

/// What the machine adds to what the bundle says.
#[derive(Debug, Clone, Default)]
pub struct Inputs<'a> {
    /// Under which the machine is reached, most useful first. Loopback is added where it belongs.
    pub addresses: &'a [IpAddr],
    /// Seconds since 1970.
    pub now: u64,
    /// For a server's certificate: the content of the two files of its `ca`.
    pub authority: Option<Authority<'a>>,
}

/// A certificate authority's two files.
#[derive(Clone, Copy)]
pub struct Authority<'a> {
    /// The key, PEM.
    pub key: &'a str,
    /// The certificate, PEM.
    pub certificate: &'a str,
}

impl std::fmt::Debug for Authority<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// What was made.
#[derive(Clone, PartialEq, Eq)]
pub struct Minted {
    /// The content of the secret's `path`.
    pub content: Vec<u8>,
    /// The content of its `certificate`, where it has one.
    pub certificate: Option<Vec<u8>>,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The authority's files were not handed in.
    #[error("make {path}: its authority has not been made yet")]
    NoAuthority {
        /// The secret.
        path: String,
    },
    /// Keys or certificates could not be made or read.
    #[error("make {path}")]
    Certificate {
        /// The secret.
        path: String,
        /// Which part failed.
        source: rcgen::Error,
    },
    /// The machine has no address that others could use.
    #[error("make {path}: this machine has no address but loopback")]
    NoAddress {
        /// The secret.
        path: String,
    },
}

/// Makes one secret. Two calls make two different ones: whoever calls looks first whether the file is there.
pub fn generate(secret: &Secret, inputs: &Inputs<'_>) -> Result<Minted, MintError> {
    let path = || secret.path.clone();
    let failed = |source| MintError::Certificate { path: path(), source };
    let plain = |text: String| Minted { content: text.into_bytes(), certificate: None };
    Ok(match &secret.generate {
        Generate::Password | Generate::Token => plain(URL_SAFE_NO_PAD.encode(random_bytes::<32>())),
        Generate::Ed25519 => plain(STANDARD.encode(random_bytes::<32>())),
        Generate::MeshId => plain(format!("{:032x}", u128::from_be_bytes(random_bytes()))),
        Generate::Advertise { port } => {
            let reachable = inputs.addresses.iter().filter(|address| !address.is_loopback());
            let places: Vec<String> =
                reachable.map(|address| std::net::SocketAddr::new(*address, *port).to_string()).collect();
            if places.is_empty() {
                return Err(MintError::NoAddress { path: path() });
            }
            plain(places.join(","))
        }
        Generate::Ca { .. } => authority::make(inputs.now).map_err(failed)?,
        Generate::ServerCertificate { names, .. } => {
            let authority = inputs.authority.ok_or_else(|| MintError::NoAuthority { path: path() })?;
            authority::sign_server(authority, names, inputs.addresses, inputs.now).map_err(failed)?
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn secret(generate: Generate) -> Secret {
        Secret { path: "/s/x".to_owned(), why: "a test".to_owned(), generate }
    }

    fn text(generate: Generate) -> String {
        let inputs = Inputs { addresses: &["10.0.0.7".parse().unwrap()], ..Inputs::default() };
        String::from_utf8(self::generate(&secret(generate), &inputs).unwrap().content).unwrap()
    }

    #[test]
    fn no_two_secrets_are_equal_and_none_ends_in_a_newline() {
        for kind in [Generate::Password, Generate::Token, Generate::Ed25519, Generate::MeshId] {
            let (one, other) = (text(kind.clone()), text(kind.clone()));
            assert_ne!(one, other, "{kind:?}");
            assert_eq!(one.trim(), one, "{kind:?}");
        }
    }

    #[test]
    fn secrets_have_the_form_their_readers_expect() {
        assert_eq!(URL_SAFE_NO_PAD.decode(text(Generate::Password)).unwrap().len(), 32);
        assert_eq!(STANDARD.decode(text(Generate::Ed25519)).unwrap().len(), 32);
        let id = text(Generate::MeshId);
        assert!(
            id.len() == 32 && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)),
            "{id}"
        );
    }

    #[test]
    fn the_machine_is_advertised_under_the_addresses_others_can_use() {
        let addresses: Vec<IpAddr> =
            ["127.0.0.1", "10.0.0.7", "fd00::7"].map(|a| a.parse().unwrap()).to_vec();
        let advertise = secret(Generate::Advertise { port: 5671 });
        let inputs = Inputs { addresses: &addresses, ..Inputs::default() };
        assert_eq!(generate(&advertise, &inputs).unwrap().content, b"10.0.0.7:5671,[fd00::7]:5671");
        let alone = Inputs { addresses: &addresses[..1], ..Inputs::default() };
        assert!(matches!(generate(&advertise, &alone), Err(MintError::NoAddress { .. })));
    }
}
