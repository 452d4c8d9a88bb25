//! What identity decides, without a database, a clock or a source of randomness.

mod change;
mod invitation;
mod issuing;
mod joining;
mod password;

use mesh_ids::NodeName;

pub(crate) use change::Change;
pub use invitation::RESERVED_NAMES;
pub(crate) use invitation::check_invitation;
pub use issuing::Stage;
pub(crate) use issuing::{Content, KEPT, VALID_FOR, next_position, still_good};
pub(crate) use joining::{Decision, Proven, RETRY_FOR, Token, decide, read_request};
pub(crate) use password::{NewPassword, token_hash};

/// Why something cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A node has the name.
    #[error("there is a node {node} already; remove it first, or choose another name")]
    NameTaken {
        /// The name.
        node: NodeName,
    },
    /// The interface uses the name itself.
    #[error("no node can be called {node}: the interface uses the word itself; choose another name")]
    Reserved {
        /// The name.
        node: NodeName,
    },
    /// There is no such node.
    #[error("there is no node {node}")]
    NoSuchNode {
        /// The name.
        node: NodeName,
    },
    /// The token would be good for too short or too long.
    #[error("a join token can be used for 60 s to 7 days, not for {seconds} s")]
    LifeTime {
        /// What was asked for.
        seconds: u64,
    },
    /// A label does not fit.
    #[error("the label {key:?} does not fit: {rule}")]
    Label {
        /// Its key.
        key: String,
        /// What fits.
        rule: &'static str,
    },
    /// An administrator's token that could be guessed.
    #[error("the administrator's token is shorter than 32 characters")]
    WeakToken,
    /// The declaration is larger than a host reads.
    #[error("the declaration for {node} has {size} bytes as it travels, more than the {most} a host reads")]
    TooLarge {
        /// For which node.
        node: NodeName,
        /// How large it is.
        size: usize,
        /// How large it may be.
        most: usize,
    },
    /// There is no number left for a declaration; the generation has to be raised.
    #[error("the sequence of {node} is used up; begin its history anew: mesh node recover {node}")]
    SequenceUsedUp {
        /// Of which node.
        node: NodeName,
    },
}
