//! What an unreadable ledger still says. Pure; it never decides what becomes of it: [`crate::host`] does.
//!
//! Records are taken in their order, those behind the damage too. What is missing among them is not known, so three
//! things that a missing record may have changed are treated so: an accepted declaration is only a bound for the next
//! one; what is carried is the last list that was read, and where a newer list may be missing, what was last applied goes
//! before what the list says; an entry is what was known of its resource, which may have been removed since.

use mesh_ids::Position;
use mesh_wire::Resource;

use super::{Memory, Origin, Record, State, journal::Piece, record::position_in};

/// The state of a ledger of which these pieces are left.
pub(super) fn unreadable(reason: String, pieces: Option<Vec<Piece<'_>>>) -> State {
    let mut left = Left::default();
    let is_ours = pieces.is_some();
    pieces.unwrap_or_default().into_iter().for_each(|piece| left.take(piece));
    if left.list_outdated {
        left.carry_what_was_applied();
    }
    let Left { memory, known, .. } = left;
    State::Unreadable { reason, known, left: is_ours.then(|| Box::new(memory)) }
}

/// The state of a ledger that was whole up to an append that could neither be done nor undone.
pub(super) fn interrupted(reason: String, memory: Memory) -> State {
    let known = memory.accepted.as_deref().and_then(position_in);
    State::Unreadable { reason, known, left: Some(Box::new(memory)) }
}

/// The state of a ledger that was there and is not. `known`: the generation that was followed, as it was noted beside it.
pub(super) fn gone(known: Option<Position>) -> State {
    let reason = "it is gone, though there was one".to_owned();
    State::Unreadable { reason, known, left: Some(Box::default()) }
}

#[derive(Default)]
struct Left {
    memory: Memory,
    /// The highest position of everything that was accepted since the mesh was last left.
    known: Option<Position>,
    /// Whether a newer list of what is carried may be missing.
    list_outdated: bool,
}

impl Left {
    fn take(&mut self, piece: Piece<'_>) {
        let record = match piece {
            Piece::Whole(payload) => serde_json::from_slice::<Record>(payload).ok(),
            // A snapshot has one list, before all entries.
            Piece::Lost { appended: false } if !self.memory.carried.is_empty() => return,
            Piece::Lost { .. } => None,
        };
        let Some(record) = record else {
            self.list_outdated = true;
            return;
        };
        match &record {
            Record::Accepted { frame, .. } => self.known = self.known.max(position_in(frame)),
            Record::Left => self.known = None,
            Record::Carried { .. } => self.list_outdated = false,
            // It was removed because a newer list did not have it.
            Record::Removed { origin: Origin::Carried, id } if self.list_outdated => {
                self.memory.carried.retain(|resource| resource.id != *id);
            }
            _ => {}
        }
        self.memory.take(record);
    }

    /// What runs is kept: neither is a carried resource forgotten because the list that had it is missing, nor is an
    /// older form of one brought back because the list that was read is the older one.
    fn carry_what_was_applied(&mut self) {
        let Memory { entries, carried, .. } = &mut self.memory;
        let mut applied: Vec<_> = entries.values().filter(|entry| entry.origin == Origin::Carried).collect();
        applied.sort_by_key(|entry| entry.place);
        for entry in applied {
            let resource: &Resource = &entry.resource;
            match carried.iter_mut().find(|listed| listed.id == resource.id) {
                Some(listed) => listed.clone_from(resource),
                None => carried.push(resource.clone()),
            }
        }
    }
}
