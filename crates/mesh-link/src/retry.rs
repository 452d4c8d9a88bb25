//! When to try again. Pure: events and the time go in, at most one effect comes out; chance is handed in as a seed.
//!
//! For ever, with full jitter: each wait is drawn evenly between nothing and a ceiling that doubles, so that machines
//! that lost the same broker do not come back together. Unreachable: the ceiling grows from 1 s to 10 s, and a hint
//! that a route changed ends the wait and begins the counting anew, since what failed before says nothing about the new
//! route. Refused: it grows from 1 s to 5 min and no hint ends it, since no route makes an account valid. Never has two
//! timers: a timer carries its number, and an old number is ignored.
//! Called by: [`crate::supervise`].

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// The first ceiling of both kinds of wait.
const FIRST_CEILING: Duration = Duration::from_secs(1);
/// The last ceiling of a wait for a broker that cannot be reached.
const UNREACHABLE_CEILING: Duration = Duration::from_secs(10);
/// The last ceiling of a wait for a broker that does not let us in.
const REFUSED_CEILING: Duration = Duration::from_mins(5);
/// Less than this would be a loop.
const SHORTEST: Duration = Duration::from_millis(50);
/// A connection that held this long was a good one: counting begins anew after it.
const GOOD: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Cut, down, or not found.
    Unreachable,
    /// Not let in.
    Refused,
}

impl Cause {
    const fn ceiling(self) -> Duration {
        match self {
            Self::Unreachable => UNREACHABLE_CEILING,
            Self::Refused => REFUSED_CEILING,
        }
    }
}

/// Which timer: an effect names it, and its event brings the name back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer(u64);

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The program began.
    Started,
    /// A connection was opened.
    Opened,
    /// None could be opened.
    NotOpened(Cause),
    /// The open one was lost.
    Lost(Cause),
    /// A timer went off.
    Elapsed(Timer),
    /// Something about the network changed.
    Hint,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Open a connection now; whatever was left of an older one is to be dropped first.
    Open,
    /// Report [`Event::Elapsed`] with this timer after this long. It replaces every older timer.
    Wait(Timer, Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Idle,
    Opening { hinted: bool },
    Open { since: Duration },
    Waiting { timer: Timer, cause: Cause },
}

/// The state between two events.
#[derive(Debug)]
pub struct Retry {
    phase: Phase,
    failures: u32,
    last_timer: u64,
    chance: SmallRng,
}

impl Retry {
    /// Nothing open, nothing tried.
    pub fn new(seed: u64) -> Self {
        Self { phase: Phase::Idle, failures: 0, last_timer: 0, chance: SmallRng::seed_from_u64(seed) }
    }

    /// One event at a time since any fixed moment.
    pub fn step(&mut self, event: Event, now: Duration) -> Option<Effect> {
        match (self.phase, event) {
            (Phase::Idle, Event::Started) => Some(self.open()),
            // Also where the hint came while opening: that attempt was failing on the old route.
            (Phase::Opening { hinted: true }, Event::NotOpened(Cause::Unreachable))
            | (Phase::Waiting { cause: Cause::Unreachable, .. }, Event::Hint) => {
                self.failures = 0;
                Some(self.open())
            }
            (Phase::Opening { .. }, Event::Opened) => {
                self.phase = Phase::Open { since: now };
                None
            }
            (Phase::Opening { .. }, Event::NotOpened(cause)) => Some(self.wait(cause)),
            (Phase::Opening { .. }, Event::Hint) => {
                self.phase = Phase::Opening { hinted: true };
                None
            }
            (Phase::Open { since }, Event::Lost(cause)) => {
                if now.saturating_sub(since) >= GOOD {
                    self.failures = 0;
                }
                Some(self.wait(cause))
            }
            (Phase::Waiting { timer, .. }, Event::Elapsed(elapsed)) if timer == elapsed => Some(self.open()),
            _ => None,
        }
    }

    fn open(&mut self) -> Effect {
        self.phase = Phase::Opening { hinted: false };
        Effect::Open
    }

    fn wait(&mut self, cause: Cause) -> Effect {
        let doubled =
            FIRST_CEILING.saturating_mul(1_u32.checked_shl(self.failures.min(30)).unwrap_or(u32::MAX));
        let ceiling = doubled.min(cause.ceiling());
        self.failures = self.failures.saturating_add(1);
        self.last_timer += 1;
        let timer = Timer(self.last_timer);
        self.phase = Phase::Waiting { timer, cause };
        let drawn = self.chance.random_range(Duration::ZERO..=ceiling);
        Effect::Wait(timer, drawn.max(SHORTEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn opening(seed: u64) -> Retry {
        let mut retry = Retry::new(seed);
        assert_eq!(retry.step(Event::Started, NOW), Some(Effect::Open));
        retry
    }

    /// The same after so many failures that waits are at their longest.
    fn opening_after_many(seed: u64) -> Retry {
        let mut retry = opening(seed);
        for _ in 0..10 {
            let Some(Effect::Wait(timer, _)) = retry.step(Event::NotOpened(Cause::Unreachable), NOW) else {
                panic!("no wait");
            };
            retry.step(Event::Elapsed(timer), NOW);
        }
        retry
    }

    /// The waits of so many failures in a row.
    fn waits(seed: u64, cause: Cause, count: usize) -> Vec<Duration> {
        let mut retry = opening(seed);
        let mut waits = Vec::new();
        for _ in 0..count {
            let Some(Effect::Wait(timer, wait)) = retry.step(Event::NotOpened(cause), NOW) else {
                panic!("a failure must lead to a wait");
            };
            waits.push(wait);
            assert_eq!(retry.step(Event::Elapsed(timer), NOW), Some(Effect::Open));
        }
        waits
    }

    fn longest(cause: Cause, at: usize) -> Duration {
        (0..200).map(|seed| waits(seed, cause, at + 1)[at]).max().unwrap_or_default()
    }

    #[test]
    fn the_ceiling_doubles_up_to_its_cause_and_stays_there() {
        for (at, ceiling) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 10), (40, 10)] {
            let longest = longest(Cause::Unreachable, at);
            let ceiling = Duration::from_secs(ceiling);
            assert!(longest <= ceiling && longest > ceiling.mul_f64(0.9), "{at}: {longest:?} of {ceiling:?}");
        }
        let longest = longest(Cause::Refused, 40);
        assert!(longest <= REFUSED_CEILING && longest > REFUSED_CEILING.mul_f64(0.9), "{longest:?}");
    }

    #[test]
    fn machines_that_lost_the_same_broker_do_not_come_back_together() {
        let mut first: Vec<_> = (0..1000).map(|seed| waits(seed, Cause::Unreachable, 5)[4]).collect();
        first.sort();
        // Evenly drawn: each tenth of the time holds about a tenth of the machines.
        for tenth in 0..10 {
            let from = Duration::from_secs(tenth);
            let inside =
                first.iter().filter(|wait| **wait >= from && **wait < from + Duration::from_secs(1)).count();
            assert!((60..=150).contains(&inside), "{inside} in second {tenth}");
        }
    }

    #[test]
    fn the_same_seed_replays_the_same_waits() {
        assert_eq!(waits(7, Cause::Unreachable, 20), waits(7, Cause::Unreachable, 20));
        assert_ne!(waits(7, Cause::Unreachable, 20), waits(8, Cause::Unreachable, 20));
    }

    #[test]
    fn a_hint_ends_a_wait_and_the_old_timer_is_ignored() {
        let mut retry = opening(1);
        let Some(Effect::Wait(old, _)) = retry.step(Event::NotOpened(Cause::Unreachable), NOW) else {
            panic!("no wait");
        };
        assert_eq!(retry.step(Event::Hint, NOW), Some(Effect::Open));
        assert_eq!(retry.step(Event::Elapsed(old), NOW), None, "two attempts at once");
        assert!(
            matches!(retry.step(Event::NotOpened(Cause::Unreachable), NOW), Some(Effect::Wait(new, _)) if new != old)
        );
        assert_eq!(retry.step(Event::Elapsed(old), NOW), None, "an old timer woke a new wait");
    }

    #[test]
    fn a_hint_does_not_make_an_account_valid() {
        let mut retry = opening(1);
        assert!(retry.step(Event::NotOpened(Cause::Refused), NOW).is_some());
        assert_eq!(retry.step(Event::Hint, NOW), None);
    }

    #[test]
    fn a_hint_during_an_attempt_is_not_lost() {
        let mut retry = opening(1);
        assert_eq!(retry.step(Event::Hint, NOW), None);
        assert_eq!(retry.step(Event::NotOpened(Cause::Unreachable), NOW), Some(Effect::Open));
        assert!(matches!(retry.step(Event::NotOpened(Cause::Unreachable), NOW), Some(Effect::Wait(..))));
    }

    /// A route that has just come may carry nothing for a moment: the next attempts follow soon, however long the old
    /// one was dead.
    #[test]
    fn after_a_hint_counting_begins_anew() {
        for (seed, hinted_while_opening) in (0..100).map(|seed| (seed, seed % 2 == 0)) {
            let mut retry = opening_after_many(seed);
            if !hinted_while_opening {
                retry.step(Event::NotOpened(Cause::Unreachable), NOW);
            }
            retry.step(Event::Hint, NOW);
            if hinted_while_opening {
                retry.step(Event::NotOpened(Cause::Unreachable), NOW);
            }
            let Some(Effect::Wait(_, wait)) = retry.step(Event::NotOpened(Cause::Unreachable), NOW) else {
                panic!("no wait");
            };
            assert!(wait <= FIRST_CEILING, "{wait:?}");
        }
    }

    #[test]
    fn a_broker_that_lets_in_and_throws_out_is_not_hammered() {
        let mut retry = opening(1);
        let mut total = Duration::ZERO;
        for _ in 0..50 {
            assert_eq!(retry.step(Event::Opened, total), None);
            let Some(Effect::Wait(timer, wait)) = retry.step(Event::Lost(Cause::Unreachable), total) else {
                panic!("no wait");
            };
            total += wait;
            assert_eq!(retry.step(Event::Elapsed(timer), total), Some(Effect::Open));
        }
        assert!(total > Duration::from_mins(2), "50 attempts in {total:?}");
    }

    #[test]
    fn after_a_good_connection_counting_begins_anew() {
        for seed in 0..100 {
            let mut retry = opening_after_many(seed);
            retry.step(Event::Opened, NOW);
            let Some(Effect::Wait(_, wait)) = retry.step(Event::Lost(Cause::Unreachable), GOOD) else {
                panic!("no wait");
            };
            assert!(wait <= FIRST_CEILING, "{wait:?}");
        }
    }

    #[test]
    fn whatever_happens_there_is_one_attempt_or_one_timer() {
        let mut chance = SmallRng::seed_from_u64(3);
        for seed in 0..2000 {
            let mut retry = Retry::new(seed);
            let mut effect = retry.step(Event::Started, NOW);
            let (mut attempt, mut timers, mut open) = (false, Vec::new(), false);
            for step in 0..100_u64 {
                match effect {
                    Some(Effect::Open) => {
                        assert!(!attempt && !open, "seed {seed} step {step}: a second attempt");
                        attempt = true;
                    }
                    Some(Effect::Wait(timer, _)) => {
                        assert!(!attempt && !open, "seed {seed} step {step}: a wait beside an attempt");
                        timers.push(timer);
                    }
                    None => {}
                }
                let cause = if chance.random_bool(0.3) { Cause::Refused } else { Cause::Unreachable };
                let event = match chance.random_range(0..4) {
                    0 => Event::Hint,
                    1 if !timers.is_empty() => Event::Elapsed(timers[chance.random_range(0..timers.len())]),
                    _ if attempt => {
                        attempt = false;
                        open = chance.random_bool(0.5);
                        if open { Event::Opened } else { Event::NotOpened(cause) }
                    }
                    _ if open => {
                        open = false;
                        Event::Lost(cause)
                    }
                    _ => match timers.last() {
                        Some(timer) => Event::Elapsed(*timer),
                        None => Event::Hint,
                    },
                };
                effect = retry.step(event, Duration::from_secs(step));
            }
        }
    }
}
