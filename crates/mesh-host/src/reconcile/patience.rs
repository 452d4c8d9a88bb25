//! How soon something that does not stay as declared is tried again. Pure; kept in memory only: a host that was started
//! anew tries at once.

use std::{collections::BTreeMap, time::Duration};

use mesh_ids::{Digest, ResourceId};
use mesh_wire::Resource;
use sha2::{Digest as _, Sha256};

use crate::{failure::Failure, ledger::Origin};

/// So many tries come as fast as there is reason for them.
const FREE: u32 = 3;
/// The wait after that, doubled with every further try up to [`LONGEST`].
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_mins(1);
/// What was tried so long ago does not count any more.
const FORGIVEN: Duration = Duration::from_mins(10);

/// The tries of everything that was tried more than once.
#[derive(Debug, Default)]
pub struct Patience {
    tries: BTreeMap<(Origin, ResourceId), Tries>,
}

#[derive(Debug)]
struct Tries {
    declared: Digest,
    count: u32,
    last: Duration,
    cause: Option<Failure>,
}

/// Why something is not tried now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotYet {
    /// For a person. The same words until it is tried again.
    pub why: Failure,
    /// How long from now.
    pub wait: Duration,
}

impl Patience {
    /// Whether a resource may be tried at `now` (of a clock that only goes on).
    pub fn may_try(
        &self,
        origin: Origin,
        resource: &Resource,
        seen: &Seen,
        now: Duration,
    ) -> Result<(), NotYet> {
        let Some(tries) = self.tries.get(&(origin, resource.id.clone())) else { return Ok(()) };
        let elapsed = now.saturating_sub(tries.last);
        let wait = tries.wait().saturating_sub(elapsed);
        if elapsed > FORGIVEN || wait.is_zero() || tries.declared != digest(resource, seen) {
            return Ok(());
        }
        let cause =
            tries.cause.as_ref().map_or("it does not stay as declared".to_owned(), ToString::to_string);
        Err(NotYet { why: Failure::new(format!("{cause} (tried again, ever more rarely)")), wait })
    }

    /// Something is tried.
    pub fn tried(&mut self, origin: Origin, resource: &Resource, seen: &Seen, now: Duration) {
        let key = (origin, resource.id.clone());
        let declared = digest(resource, seen);
        let recent = |tries: &Tries| tries.declared == declared && now.saturating_sub(tries.last) <= FORGIVEN;
        let count = self.tries.remove(&key).filter(recent).map_or(1, |tries| tries.count.saturating_add(1));
        self.tries.insert(key, Tries { declared, count, last: now, cause: None });
    }

    /// It failed.
    pub fn failed(&mut self, origin: Origin, id: &ResourceId, cause: &Failure) {
        if let Some(tries) = self.tries.get_mut(&(origin, id.clone())) {
            tries.cause = Some(cause.clone());
        }
    }

    /// What was tried long ago is forgotten.
    pub fn forget_old(&mut self, now: Duration) {
        self.tries.retain(|_, tries| now.saturating_sub(tries.last) <= FORGIVEN);
    }
}

/// The changes of other resources that it is started with.
type Seen = BTreeMap<ResourceId, u64>;

fn digest(resource: &Resource, seen: &Seen) -> Digest {
    // A resource is text and numbers: that it could not be written is not to be feared.
    let json = serde_json::to_vec(&(resource, seen)).unwrap_or_default();
    Digest::of_sha256(Sha256::digest(&json).into())
}

impl Tries {
    fn wait(&self) -> Duration {
        match self.count.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(beyond) => SHORTEST.saturating_mul(1 << beyond.min(10)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_wire::kinds::VolumeSpec;

    fn volume(name: &str) -> Resource {
        let spec = VolumeSpec { name: name.to_owned(), released: false }.into();
        Resource { id: "v".parse().expect("an id"), after: Vec::new(), observe_only: false, spec }
    }

    #[test]
    fn the_first_tries_are_free_and_the_waits_then_grow_to_a_minute() {
        let (mut patience, resource) = (Patience::default(), volume("a"));
        let (mut now, mut waits) = (Duration::ZERO, Vec::new());
        for _ in 0..10 {
            if let Err(not_yet) = patience.may_try(Origin::Carried, &resource, &Seen::new(), now) {
                waits.push(not_yet.wait.as_secs());
                now += not_yet.wait;
                assert_eq!(patience.may_try(Origin::Carried, &resource, &Seen::new(), now), Ok(()));
            }
            patience.tried(Origin::Carried, &resource, &Seen::new(), now);
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60]);
        now += FORGIVEN + Duration::from_secs(1);
        patience.tried(Origin::Carried, &resource, &Seen::new(), now);
        assert_eq!(
            patience.may_try(Origin::Carried, &resource, &Seen::new(), now),
            Ok(()),
            "long ago is forgiven"
        );
    }

    #[test]
    fn what_is_declared_otherwise_is_tried_at_once() {
        let (mut patience, now) = (Patience::default(), Duration::from_secs(5));
        for _ in 0..9 {
            patience.tried(Origin::Assigned, &volume("a"), &Seen::new(), now);
        }
        patience.failed(Origin::Assigned, &volume("a").id, &Failure::new("no space"));
        let not_yet =
            patience.may_try(Origin::Assigned, &volume("a"), &Seen::new(), now).expect_err("not yet");
        assert_eq!(not_yet.why.to_string(), "no space (tried again, ever more rarely)");
        let changed = Seen::from([("conf".parse().expect("an id"), 7)]);
        assert_eq!(
            patience.may_try(Origin::Assigned, &volume("a"), &changed, now),
            Ok(()),
            "what it reads changed"
        );
        assert_eq!(patience.may_try(Origin::Assigned, &volume("b"), &Seen::new(), now), Ok(()));
        assert_eq!(
            patience.may_try(Origin::Carried, &volume("a"), &Seen::new(), now),
            Ok(()),
            "another origin's"
        );
    }
}
