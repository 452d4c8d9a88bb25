//! Why a machine could not join, in words that say what to do, and what each failure leaves open.

use mesh_ids::{MeshId, NodeName};
use mesh_link::{DialError, DialFailure, TlsRefusal};
use mesh_wire::EnrolRefusal;

use crate::failure::Failure;

/// Why the machine is no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JoinError {
    /// It is one already, by another token.
    AlreadyJoined {
        /// Of which mesh.
        mesh: MeshId,
        /// Under which name.
        node: NodeName,
    },
    /// By this machine's own clock the token is past its time.
    ExpiredHere {
        /// When it ended, in seconds since 1970-01-01 UTC.
        expired: i64,
        /// What the clock says.
        now: i64,
    },
    /// No address led to the mesh's broker.
    NotReached(DialError),
    /// The broker does not know the token's account.
    TokenNotLetIn,
    /// The connection failed before the request was sent.
    Broken(String),
    /// The request found no queue, or a full one.
    NobodyListens,
    /// The request may have arrived, and no answer came.
    Unanswered(String),
    /// The control plane said no, and signed that.
    Refused {
        /// Why, as a stable word.
        code: EnrolRefusal,
        /// Why and what to do.
        reason: String,
    },
    /// Something on this machine failed before the request was sent.
    Machine(Failure),
    /// Something on this machine failed after the control plane let it in.
    Kept(Failure),
}

impl JoinError {
    /// Nothing that can be believed came in time.
    pub(super) fn silence(unbelieved: usize) -> Self {
        Self::Unanswered(match unbelieved {
            0 => "the control plane did not answer".to_owned(),
            count => format!(
                "the control plane did not answer ({count} messages that it did not sign for this attempt were ignored)"
            ),
        })
    }

    /// Whether it is certain now that the control plane has not taken this machine's keys for the token's; otherwise they
    /// are kept for a retry. `kept`: whether they are of an earlier attempt, which left that open: then nothing that this
    /// one ran into settles it but the control plane's own word.
    pub fn settles(&self, kept: bool) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Unanswered(_) | Self::Kept(_) => false,
            _ => !kept,
        }
    }

    /// The exit code of a program that ends with it: 1 failed, 3 refused, 4 not reachable.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Machine(_) | Self::Kept(_) => 1,
            Self::AlreadyJoined { .. }
            | Self::ExpiredHere { .. }
            | Self::TokenNotLetIn
            | Self::Refused { .. } => 3,
            Self::NotReached(error) => match error.foremost() {
                Some(DialFailure::Tls(TlsRefusal::Handshake(_))) | None => 4,
                Some(DialFailure::Tls(_)) => 3,
                Some(_) => 4,
            },
            Self::Broken(_) | Self::NobodyListens | Self::Unanswered(_) => 4,
        }
    }

    /// What a person can do about it.
    fn advice(&self) -> &'static str {
        match self {
            Self::AlreadyJoined { .. } => "run 'mesh-host leave' first if it is to change",
            Self::ExpiredHere { .. } => {
                "ask for a new token with 'mesh node invite'; if the clock is wrong, set it and try again"
            }
            Self::TokenNotLetIn => {
                "it was used, withdrawn, or has expired by the mesh's clock: ask for a new one with 'mesh node invite'"
            }
            Self::NotReached(error) => match error.foremost() {
                Some(DialFailure::Tls(TlsRefusal::PinMismatch | TlsRefusal::UnknownIssuer)) => {
                    "check that the token is of this mesh and that nothing between intercepts TLS; nothing was sent"
                }
                Some(DialFailure::Tls(TlsRefusal::WrongName(_))) => {
                    "the broker's certificate was made for other names: invite again from the control node"
                }
                Some(DialFailure::Tls(TlsRefusal::Expired | TlsRefusal::NotYetValid)) => {
                    "compare this machine's clock with the control node's"
                }
                Some(DialFailure::Resolve(_)) => "check the name and this machine's resolver",
                _ => "check that the control node is up and that this machine can reach that port",
            },
            Self::NobodyListens | Self::Broken(_) => {
                "check on the control node that broker and control plane are up, then try again with the same token"
            }
            Self::Unanswered(_) | Self::Kept(_) => {
                "the request may have arrived, so this machine keeps the keys it made: run the same command again"
            }
            // The control plane's words say the rest.
            Self::Refused { code: EnrolRefusal::Expired, .. } => "this machine's clock may be behind",
            Self::Refused { .. } | Self::Machine(_) => "",
        }
    }
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AlreadyJoined { mesh, node } => {
                write!(f, "this machine is the node {node} of mesh {mesh}")?;
            }
            Self::ExpiredHere { expired, now } => {
                let ago = humantime::format_duration(std::time::Duration::from_secs(now.abs_diff(*expired)));
                write!(f, "the token expired {ago} ago by this machine's clock")?;
            }
            Self::NotReached(error) => write!(f, "reach the mesh's broker: {error}")?,
            Self::TokenNotLetIn => f.write_str("the broker does not let this token in")?,
            Self::NobodyListens => f.write_str("the broker has nobody who takes requests to join")?,
            Self::Refused { code, reason } if reason.is_empty() => write!(f, "{code}")?,
            Self::Broken(reason) | Self::Unanswered(reason) | Self::Refused { reason, .. } => {
                f.write_str(reason)?;
            }
            Self::Machine(failure) | Self::Kept(failure) => write!(f, "{failure}")?,
        }
        let advice = self.advice();
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}

impl std::error::Error for JoinError {}

impl From<Failure> for JoinError {
    fn from(failure: Failure) -> Self {
        Self::Machine(failure)
    }
}
