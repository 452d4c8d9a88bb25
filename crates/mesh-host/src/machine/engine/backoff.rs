//! When a container that ended by itself is started again: at once the first time, then ever later. Pure.

use std::{collections::BTreeMap, time::Duration};

/// A container that ran this long was well: its next end counts as the first.
const WELL_AFTER: Duration = Duration::from_secs(30);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);

/// The starts of containers so far. Times are since the program started; nothing of it survives a restart.
#[derive(Debug, Default)]
pub(super) struct Backoff(BTreeMap<String, Starts>);

#[derive(Debug)]
struct Starts {
    last: Duration,
    /// How many starts in a row came soon after the start before.
    in_a_row: u32,
}

impl Starts {
    fn wait(&self) -> Duration {
        match self.in_a_row {
            0 => Duration::ZERO,
            n => LONGEST.min(FIRST.saturating_mul(2u32.saturating_pow(n - 1))),
        }
    }
}

impl Backoff {
    /// How much longer `name`, which ended by itself, is to be left alone.
    pub(super) fn wait(&self, name: &str, now: Duration) -> Option<Duration> {
        let starts = self.0.get(name)?;
        let left = (starts.last + starts.wait()).saturating_sub(now);
        (!left.is_zero()).then_some(left)
    }

    /// `name` is started.
    pub(super) fn started(&mut self, name: &str, now: Duration) {
        let starts = self.0.entry(name.to_owned()).and_modify(|starts| {
            let well = now.saturating_sub(starts.last) >= WELL_AFTER.max(starts.wait() * 2);
            starts.in_a_row = if well { 0 } else { starts.in_a_row.saturating_add(1) };
            starts.last = now;
        });
        starts.or_insert(Starts { last: now, in_a_row: 0 });
    }

    /// How long ago `name` was started.
    pub(super) fn since_start(&self, name: &str, now: Duration) -> Option<Duration> {
        self.0.get(name).map(|starts| now.saturating_sub(starts.last))
    }

    /// `name` was stopped on purpose: whatever it was that made it end, it has its chance.
    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(backoff: &mut Backoff, now: &mut Duration, times: usize) -> Vec<u64> {
        let mut start = || {
            let wait = backoff.wait("a", *now).unwrap_or_default();
            *now += wait;
            assert_eq!(backoff.wait("a", *now), None, "no longer than it said");
            backoff.started("a", *now);
            wait.as_secs()
        };
        (0..times).map(|_| start()).collect()
    }

    #[test]
    fn a_container_that_keeps_ending_is_started_ever_later() {
        let mut backoff = Backoff::default();
        let mut now = Duration::ZERO;
        assert_eq!(starts(&mut backoff, &mut now, 10), [0, 0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.wait("b", now), None, "another container is not held up");
        now += Duration::from_secs(1000);
        assert_eq!(starts(&mut backoff, &mut now, 3), [0, 0, 1], "it was well in between");
        backoff.forget("a");
        assert_eq!(starts(&mut backoff, &mut now, 2), [0, 0]);
    }
}
