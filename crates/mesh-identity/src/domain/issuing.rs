//! Which position the next declaration of a node has, and whether there is to be a next one.

use std::time::Duration;

use mesh_ids::{Epoch, Generation, Position, Sequence, Timestamp};
use mesh_seal::VerifyingKey;
use mesh_wire::Resource;

/// The epoch of every declaration until a declare key has to be forgotten.
pub(crate) const FIRST_EPOCH: Epoch = Epoch::new(1);
/// For how long a declaration is fresh. After that a host keeps what runs and begins nothing destructive.
pub(crate) const VALID_FOR: Duration = Duration::from_hours(90 * 24);
/// An unchanged declaration is issued anew when it is fresh for less than this.
const RENEW_BEFORE: Duration = Duration::from_hours(60 * 24);
/// How many declarations of a node are kept.
pub(crate) const KEPT: i64 = 8;

/// Which part of a node's resources a declaration holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// What the node needs to be reached, and nothing else.
    Foundation,
    /// Everything.
    Rest,
}

impl Stage {
    /// The stage as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foundation => "foundation",
            Self::Rest => "rest",
        }
    }
}

/// What a declaration says, by content: two with the same are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content(pub String);

impl Content {
    /// Of these resources for this stage, signed by this key: what another key signed has to be signed anew.
    pub(crate) fn of(
        resources: &[Resource],
        stage: Stage,
        key: &VerifyingKey,
    ) -> Result<Self, serde_json::Error> {
        let json = serde_json::to_vec(&(resources, stage.as_str(), key.to_string()))?;
        Ok(Self(mesh_seal::fingerprint_of(&json).to_string()))
    }
}

/// The position after the newest one, in this generation; `None` where the numbers are used up.
pub(crate) fn next_position(newest: Option<Position>, generation: Generation) -> Option<Position> {
    let first = Position { epoch: FIRST_EPOCH, generation, sequence: Sequence::new(1) };
    match newest {
        Some(newest) if (newest.epoch, newest.generation) >= (FIRST_EPOCH, generation) => {
            Some(Position { sequence: newest.sequence.next()?, ..newest })
        }
        _ => Some(first),
    }
}

/// Whether the newest declaration still says it all: same content, same generation, and fresh for long enough.
pub(crate) fn still_good(
    newest: (&Content, Position, Timestamp),
    content: &Content,
    generation: Generation,
    now: Timestamp,
) -> bool {
    let (held, position, not_after) = newest;
    held == content && position.generation >= generation && not_after.since(now) >= RENEW_BEFORE
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(generation: u64, sequence: u64) -> Position {
        let (generation, sequence) = (Generation::new(generation), Sequence::new(sequence));
        Position { epoch: FIRST_EPOCH, generation, sequence }
    }

    #[test]
    fn a_sequence_begins_with_one_in_each_generation_and_ends_some_day() {
        assert_eq!(next_position(None, Generation::new(1)), Some(at(1, 1)));
        assert_eq!(next_position(Some(at(1, 7)), Generation::new(1)), Some(at(1, 8)));
        assert_eq!(next_position(Some(at(1, 7)), Generation::new(2)), Some(at(2, 1)));
        assert_eq!(next_position(Some(at(1, u64::MAX)), Generation::new(1)), None);
    }

    #[test]
    fn what_is_unchanged_is_issued_anew_only_before_it_is_stale() {
        let content = |text: &str| Content(text.to_owned());
        let day = |days: u64| Timestamp::default().plus(Duration::from_hours(24 * days));
        let good = |held: &str, generation, now| {
            let newest = (&content(held), at(1, 1), Timestamp::default().plus(VALID_FOR));
            still_good(newest, &content("a"), Generation::new(generation), now)
        };
        assert!(good("a", 1, day(0)) && good("a", 1, day(30)));
        assert!(!good("a", 1, day(31)), "nearly stale");
        assert!(!good("b", 1, day(0)), "other content");
        assert!(!good("a", 2, day(0)), "another generation");
    }

    #[test]
    fn the_content_is_that_of_resources_stage_and_key() {
        let key = |seed: u8| mesh_seal::SigningKey::from_seed(&[seed; 32]).verifying_key();
        let empty = Content::of(&[], Stage::Foundation, &key(1)).unwrap();
        assert_eq!(empty, Content::of(&[], Stage::Foundation, &key(1)).unwrap());
        assert_ne!(empty, Content::of(&[], Stage::Rest, &key(1)).unwrap());
        assert_ne!(empty, Content::of(&[], Stage::Foundation, &key(2)).unwrap());
    }

    proptest! {
        #[test]
        fn every_position_stands_above_the_one_before(raises in prop::collection::vec(any::<bool>(), 0..60)) {
            let (mut generation, mut newest) = (Generation::new(1), None);
            for raise in raises {
                if raise {
                    generation = generation.next().unwrap();
                }
                let next = next_position(newest, generation).unwrap();
                prop_assert!(Some(next) > newest);
                newest = Some(next);
            }
        }
    }
}
