//! Logs refused frames, without letting whoever floods the node's queue flood its log: each kind of reason once a
//! minute, with how many there were since.

use std::{
    mem::{Discriminant, discriminant},
    time::Duration,
};

use crate::intake::Refusal;

const PERIOD: Duration = Duration::from_mins(1);

/// What was said of each kind of reason. As many as there are kinds.
#[derive(Debug, Default)]
pub(super) struct SaidRefusals(Vec<Said>);

#[derive(Debug)]
struct Said {
    kind: Discriminant<Refusal>,
    at: Duration,
    since: u64,
}

impl SaidRefusals {
    /// Says why a frame was refused, if this kind of reason was not said within the last minute; whether it did.
    pub(super) fn say(&mut self, refusal: &Refusal, now: Duration) -> bool {
        let kind = discriminant(refusal);
        match self.0.iter_mut().find(|said| said.kind == kind) {
            Some(said) if now < said.at + PERIOD => {
                said.since += 1;
                return false;
            }
            Some(said) => {
                tracing::warn!(%refusal, others = said.since, "declarations were refused");
                (said.at, said.since) = (now, 0);
            }
            None => {
                tracing::warn!(%refusal, "a declaration was refused");
                self.0.push(Said { kind, at: now, since: 0 });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use mesh_wire::FrameRefusal;

    use super::*;

    #[test]
    fn a_kind_of_reason_is_said_once_a_minute() {
        let mut said = SaidRefusals::default();
        let junk = |size| Refusal::Frame(FrameRefusal::TooLarge { size });
        let fork = Refusal::Forked(mesh_ids::Position::default());
        let at = |s| Duration::from_secs(s);
        assert!(said.say(&junk(1), at(5)));
        assert!((6..65).all(|s| !said.say(&junk(2), at(s))));
        assert!(said.say(&fork, at(7)), "another kind");
        assert!(said.say(&junk(3), at(65)));
        assert!(!said.say(&junk(4), at(66)));
    }
}
