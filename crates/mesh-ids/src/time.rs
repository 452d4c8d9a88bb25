//! A moment on the wall clock, to the millisecond. Reads no clock: whoever decides is handed the moment.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC. As text: RFC 3339 in UTC.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment this many milliseconds after 1970-01-01 UTC.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// The moment this many seconds after 1970-01-01 UTC.
    pub const fn from_unix_s(s: i64) -> Self {
        Self(s.saturating_mul(1000))
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970-01-01 UTC, rounded down.
    pub const fn unix_s(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// How long after `earlier` this is; nothing where it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }

    /// The moment this much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// Where a program gets the moment from: handed in, so that a test sets it and a seed replays a run.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(ms(after)),
            Err(before) => Self(-ms(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let ms = Duration::from_millis(time.0.unsigned_abs());
        let moment = if time.0 < 0 { UNIX_EPOCH.checked_sub(ms) } else { UNIX_EPOCH.checked_add(ms) };
        // What does not fit into the operating system's clock was never read from it.
        moment.unwrap_or(UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}Z",
            of_day / 3600,
            of_day / 60 % 60,
            of_day % 60
        )
    }
}

/// The date that many days after 1970-01-01. Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`: years begin in March, so that the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_printed_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_123, "2024-02-29T23:59:59.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_unix_ms(ms).to_string(), text);
        }
    }

    #[test]
    fn what_lies_ahead_is_no_time_ago() {
        let (early, late) = (Timestamp::from_unix_s(10), Timestamp::from_unix_s(12));
        assert_eq!(late.since(early), Duration::from_secs(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early.plus(Duration::from_secs(2)), late);
    }
}
