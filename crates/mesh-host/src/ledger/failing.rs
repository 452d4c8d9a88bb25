//! Since when something fails, and what it failed with first: kept until it no longer fails, over restarts too. The first
//! cause is often the real one, and what follows is its consequence. Bounded in number and in length.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Origin;
use crate::failure::Failure;

/// A cause is kept up to so many bytes.
const LONGEST: usize = 600;
/// So many failures are remembered at most; of others only what they fail with now is known.
const MOST: usize = 1000;

/// A failing, by whose and which: an id that could not be read has no other name than its place.
pub type Failing = BTreeMap<(Origin, String), Since>;

/// Since when and with what first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Since {
    /// In seconds since 1970-01-01 UTC.
    pub at: i64,
    /// The first cause, perhaps cut.
    pub first: String,
}

/// What a host that does not know it may pass over: a version that is put back after an upgrade reads on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "snake_case")]
pub enum Note {
    /// Something fails that did not.
    Failing {
        /// Whose.
        origin: Origin,
        /// Which.
        id: String,
        /// Since when, in seconds since 1970-01-01 UTC.
        since: i64,
        /// Why.
        first: String,
    },
    /// It no longer does.
    Mended {
        /// Whose.
        origin: Origin,
        /// Which.
        id: String,
    },
    /// What a newer host noted.
    #[serde(other)]
    Newer,
}

impl Note {
    /// That this fails.
    pub fn failing(origin: Origin, id: &str, since: i64, why: &Failure) -> Self {
        let mut first = why.to_string();
        if first.len() > LONGEST {
            first.truncate(first.floor_char_boundary(LONGEST));
            first.push('…');
        }
        Self::Failing { origin, id: id.to_owned(), since, first }
    }
}

/// Takes in what was noted.
pub(super) fn take(failing: &mut Failing, note: Note) {
    match note {
        Note::Failing { origin, id, since, first } if failing.len() < MOST => {
            failing.entry((origin, id)).or_insert(Since { at: since, first });
        }
        Note::Mended { origin, id } => {
            failing.remove(&(origin, id));
        }
        Note::Failing { .. } | Note::Newer => {}
    }
}

/// The notes from which this comes out again.
pub(super) fn notes(failing: &Failing) -> impl Iterator<Item = Note> {
    failing.iter().map(|((origin, id), Since { at, first })| Note::Failing {
        origin: *origin,
        id: id.clone(),
        since: *at,
        first: first.clone(),
    })
}

impl Since {
    /// The first cause, where what it fails with now is another.
    pub fn other_than(&self, now: &str) -> Option<&str> {
        let kept = self.first.trim_end_matches('…');
        (!now.starts_with(kept)).then_some(self.first.as_str())
    }
}
