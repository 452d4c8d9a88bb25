//! How a machine becomes a node: the token a person carries, the request the machine sends, the reply it gets.

use std::{collections::BTreeMap, fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mesh_ids::{Fingerprint, MeshId, NodeName};
use mesh_seal::{TokenSecret, fingerprint_of};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{base64_bytes, statement::Facts};

/// The exchange to which a joining machine publishes its request.
pub const ENROL_EXCHANGE: &str = "enrol";
/// The routing key of a request.
pub const ENROL_KEY: &str = "enrol";

/// The broker account a token opens, once.
pub fn token_account(token_id: &str) -> String {
    format!("j-{token_id}")
}

/// The queue in which the reply for this token arrives.
pub fn reply_queue(token_id: &str) -> String {
    format!("reply.{token_id}")
}

/// Why a text is not a join token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// It does not begin as a token does.
    #[error("this is not a join token: one begins with mjt1. and stands alone on its line")]
    NotAToken,
    /// A character was lost or changed on the way.
    #[error("the join token is damaged: its checksum does not match; copy the whole line again")]
    Damaged,
    /// It was made by a version this program does not know.
    #[error("read the join token: {0}")]
    Malformed(String),
}

/// What a join token holds. As text: `mjt1.` then the JSON in base64url, a dot, and eight hexadecimal digits of its
/// SHA-256, so that a lost character is seen before anything is tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JoinToken {
    /// Which token: what the issuer stored it under.
    pub id: String,
    /// 32 secret bytes.
    #[serde(with = "secret_bytes")]
    pub secret: TokenSecret,
    /// The mesh to join.
    pub mesh: MeshId,
    /// The name the node will have.
    pub node: NodeName,
    /// Where the broker listens, as `host:port`, the likeliest first.
    pub brokers: Vec<String>,
    /// The name in the broker's certificate.
    pub server_name: String,
    /// The SHA-256 of the SubjectPublicKeyInfo of the CA that signed it.
    pub ca_pin: Fingerprint,
    /// The declare key whose signature the reply carries, as base64.
    pub declare_key: String,
    /// When the token expires, in seconds since 1970-01-01 UTC.
    pub expires: i64,
}

mod secret_bytes {
    use base64::Engine as _;
    use serde::Deserialize as _;

    use super::{TokenSecret, URL_SAFE_NO_PAD};

    pub(super) fn serialize<S: serde::Serializer>(secret: &TokenSecret, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&URL_SAFE_NO_PAD.encode(secret.as_bytes()))
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(d: D) -> Result<TokenSecret, D::Error> {
        let text = String::deserialize(d)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(serde::de::Error::custom)?;
        let bytes = bytes.try_into().map_err(|_| serde::de::Error::custom("a secret has 32 bytes"))?;
        Ok(TokenSecret::from_bytes(bytes))
    }
}

const TOKEN_PREFIX: &str = "mjt1.";

impl JoinToken {
    /// The token as one line. Whoever has it can join.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(self)?);
        Ok(format!("{TOKEN_PREFIX}{payload}.{}", checksum(&payload)))
    }
}

fn checksum(payload: &str) -> String {
    fingerprint_of(payload.as_bytes()).as_str()[..8].to_owned()
}

impl FromStr for JoinToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let rest = text.trim().strip_prefix(TOKEN_PREFIX).ok_or(InvalidToken::NotAToken)?;
        let (payload, sum) = rest.rsplit_once('.').ok_or(InvalidToken::Damaged)?;
        if checksum(payload) != sum {
            return Err(InvalidToken::Damaged);
        }
        let json = URL_SAFE_NO_PAD.decode(payload).map_err(|e| InvalidToken::Malformed(e.to_string()))?;
        serde_json::from_slice(&json).map_err(|e| InvalidToken::Malformed(e.to_string()))
    }
}

/// What a joining machine sends, inside an [`Enrol`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnrolRequest {
    /// The token it holds.
    pub token: String,
    /// The name in the token.
    pub node: NodeName,
    /// Its identity key (Ed25519), as base64.
    pub identity_key: String,
    /// The key its secrets are sealed to (X25519), as base64.
    pub sealing_key: String,
    /// The key of its tunnel (X25519), as base64.
    pub tunnel_key: String,
    /// 16 random bytes as base64; the reply repeats them.
    pub nonce: String,
    /// What the machine is.
    pub facts: Facts,
    /// The version of the host.
    pub host_version: String,
}

/// A request with the two proofs over its bytes: of the token, and of the identity key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enrol {
    /// The JSON of an [`EnrolRequest`], exactly as proven.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub request: Vec<u8>,
    /// HMAC-SHA256 with the key derived from the token.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub mac: Vec<u8>,
    /// Ed25519 by the identity key, for the purpose of enrolling.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub signature: Vec<u8>,
}

/// A reply and the declare key's signature over its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnrolAnswer {
    /// The JSON of an [`EnrolReply`], exactly as signed.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub reply: Vec<u8>,
    /// Ed25519 by the declare key, for the purpose of answering.
    #[serde(with = "base64_bytes")]
    #[schemars(with = "String")]
    pub signature: Vec<u8>,
}

/// What the control plane answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnrolReply {
    /// The nonce of the request.
    pub nonce: String,
    /// What came of it.
    pub outcome: EnrolOutcome,
}

/// What came of a request to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum EnrolOutcome {
    /// The machine is a node now.
    Joined {
        /// Its broker account.
        account: String,
        /// That account's password, sealed to the machine's sealing key with [`password_place`] as associated data.
        password: String,
        /// The declare keys to trust, as base64.
        declare_keys: Vec<String>,
        /// Labels the issuer fixed.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
    },
    /// It is not.
    Refused {
        /// Why, as a stable word.
        code: EnrolRefusal,
        /// Why and what to do, for a person.
        reason: String,
    },
}

/// Why a request to join was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnrolRefusal {
    /// Past its time, by the control plane's clock.
    Expired,
    /// Used by another identity key.
    Used,
    /// Never issued, or withdrawn.
    Unknown,
    /// The proofs do not verify, or the request is not the token's.
    Invalid,
    /// Another node has the name.
    NameTaken,
}

impl fmt::Display for EnrolRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the token has expired",
            Self::Used => "the token was used by another machine",
            Self::Unknown => "the token is not known",
            Self::Invalid => "the request does not prove possession of the token",
            Self::NameTaken => "another node has this name",
        })
    }
}

/// The associated data of a node's sealed broker password: for this mesh, this node, this use.
pub fn password_place(mesh: &MeshId, node: &NodeName) -> Vec<u8> {
    format!("novox-mesh\0{mesh}\0{node}\0broker-password").into_bytes()
}
