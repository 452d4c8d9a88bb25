//! Content addresses: digests of blobs, references of images, fingerprints of keys. Computes none of them.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Why a text is not a digest, a fingerprint or an image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {what}")]
pub struct InvalidDigest {
    what: &'static str,
    text: String,
}

impl InvalidDigest {
    fn new(what: &'static str, text: &str) -> Self {
        Self { what, text: text.chars().take(200).collect() }
    }
}

fn is_hex64(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

macro_rules! text_type {
    ($type:ident, $pattern:literal) => {
        impl TryFrom<String> for $type {
            type Error = InvalidDigest;

            fn try_from(text: String) -> Result<Self, InvalidDigest> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> String {
                value.to_string()
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

/// `sha256:` and 64 lower-case hexadecimal digits: the address of a blob in an OCI layout.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest with its algorithm, `sha256:…`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 64 hexadecimal digits alone.
    pub fn hex(&self) -> &str {
        &self.0["sha256:".len()..]
    }

    /// The digest whose 32 bytes are these.
    pub fn of_sha256(bytes: [u8; 32]) -> Self {
        Self(format!("sha256:{}", hex(&bytes)))
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        match text.strip_prefix("sha256:") {
            Some(digits) if is_hex64(digits) => Ok(Self(text.to_owned())),
            _ => Err(InvalidDigest::new("a digest: sha256: and 64 lower-case hexadecimal digits", text)),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type!(Digest, "^sha256:[0-9a-f]{64}$");

/// The SHA-256 of a public key, as 64 lower-case hexadecimal digits: how a key is named to people and to machines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint whose 32 bytes are these.
    pub fn of_sha256(bytes: [u8; 32]) -> Self {
        Self(hex(&bytes))
    }

    /// The 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Fingerprint {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        if is_hex64(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidDigest::new("a fingerprint: 64 lower-case hexadecimal digits", text))
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_type!(Fingerprint, "^[0-9a-f]{64}$");

/// An image by content: `NAME@sha256:…`, the digest being that of the image's manifest. A tag never stands alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageRef {
    name: String,
    digest: Digest,
}

impl ImageRef {
    /// What the image is called, e.g. `mesh/store` or `registry.example/app`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The digest of its manifest.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl FromStr for ImageRef {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let invalid = || InvalidDigest::new("an image by content: NAME@sha256:DIGEST", text);
        let (name, digest) = text.split_once('@').ok_or_else(invalid)?;
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"./_-:".contains(&b);
        if name.is_empty() || name.len() > 255 || !name.bytes().all(allowed) || name.starts_with(['/', '-']) {
            return Err(invalid());
        }
        Ok(Self { name: name.to_owned(), digest: digest.parse().map_err(|_| invalid())? })
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.digest)
    }
}

text_type!(ImageRef, "^[a-z0-9._][a-z0-9./_:-]*@sha256:[0-9a-f]{64}$");

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_its_digest_is_refused() {
        let digest = format!("sha256:{}", "a".repeat(64));
        assert!(format!("mesh/store@{digest}").parse::<ImageRef>().is_ok());
        for bad in ["mesh/store", "mesh/store:latest", "@sha256:aa", "mesh/store@sha256:abc", "Mesh@x"] {
            assert!(bad.parse::<ImageRef>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_printed_as_it_was_read() {
        let digest = Digest::of_sha256([0xab; 32]);
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }
}
