//! Where a declaration stands: epoch, generation, sequence. Compared in that order and never wrapped around.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $type(u64);

        impl $type {
            /// This number.
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// The number itself.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The following one; `None` past the last.
            pub const fn next(self) -> Option<Self> {
                match self.0.checked_add(1) {
                    Some(next) => Some(Self(next)),
                    None => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// Of the mesh: rises when a declare key leaked, so that what it signed is forgotten.
    Epoch
}
number! {
    /// Of one node: rises when its ledger was lost or the control plane was restored.
    Generation
}
number! {
    /// Of one node within a generation: rises with every declaration.
    Sequence
}

/// The place of a declaration in a node's history. A host accepts only what stands above what it holds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Of the mesh. Compared first.
    pub epoch: Epoch,
    /// Of this node. Compared second.
    pub generation: Generation,
    /// Within the generation. Compared last.
    pub sequence: Sequence,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.generation, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_generation_outranks_any_sequence() {
        let at = |epoch, generation, sequence| Position {
            epoch: Epoch::new(epoch),
            generation: Generation::new(generation),
            sequence: Sequence::new(sequence),
        };
        assert!(at(1, 1, u64::MAX) < at(1, 2, 0));
        assert!(at(1, u64::MAX, u64::MAX) < at(2, 0, 0));
    }
}
