//! Waiting without sleeping blind: a condition, a deadline, and the name of what never came true.
//!
//! Never returns quietly when the deadline passed: it panics, which is what a test wants.
//! Called by: tests.

use std::fmt::Display;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

/// How often a condition is tried. Short beside any deadline, long beside the cost of asking.
const PERIOD: Duration = Duration::from_millis(10);

/// What a condition may answer: done with a value, or not yet and why.
pub trait Outcome {
    /// What [`wait_for`] hands back once the condition holds.
    type Value;
    /// `Err` says, for the message, which part does not hold yet.
    fn outcome(self) -> Result<Self::Value, String>;
}

impl Outcome for bool {
    type Value = ();
    fn outcome(self) -> Result<(), String> {
        if self { Ok(()) } else { Err("it was false".to_owned()) }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;
    fn outcome(self) -> Result<T, String> {
        self.ok_or_else(|| "there was none".to_owned())
    }
}

impl<T, E: Display> Outcome for Result<T, E> {
    type Value = T;
    fn outcome(self) -> Result<T, String> {
        self.map_err(|why| why.to_string())
    }
}

/// Several named parts: all must hold, and the message names those that did not.
impl<const N: usize> Outcome for [(&str, bool); N] {
    type Value = ();
    fn outcome(self) -> Result<(), String> {
        let missing: Vec<&str> = self.iter().filter(|(_, holds)| !holds).map(|(part, _)| *part).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("never came true: {}", missing.join(", "))) }
    }
}

/// Tries `condition` every few milliseconds until it holds, and panics after `deadline` with `what` it waited for,
/// the condition's last answer and the caller's place.
#[track_caller]
pub fn wait_for<O: Outcome>(
    what: &str,
    deadline: Duration,
    condition: impl AsyncFnMut() -> O,
) -> impl Future<Output = O::Value> {
    wait_from(Location::caller(), what, deadline, condition)
}

async fn wait_from<O: Outcome>(
    caller: &Location<'_>,
    what: &str,
    deadline: Duration,
    mut condition: impl AsyncFnMut() -> O,
) -> O::Value {
    let end = Instant::now() + deadline;
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = String::from("the condition was never asked");
    loop {
        ticks.tick().await;
        match timeout_at(end, condition()).await.map(Outcome::outcome) {
            Ok(Ok(value)) => return value,
            Ok(Err(why)) => last = why,
            Err(_) => last = format!("the condition did not answer in time (before that: {last})"),
        }
        assert!(Instant::now() < end, "waited {deadline:?} for {what}, at {caller}: {last}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    async fn message_of(waiting: impl Future<Output = ()> + 'static) -> String {
        let local = tokio::task::LocalSet::new();
        let waiting = local.spawn_local(waiting);
        let failed = local.run_until(waiting).await.expect_err("it should have panicked");
        *failed.into_panic().downcast::<String>().expect("a panic message")
    }

    #[tokio::test]
    async fn the_value_is_handed_back_once_it_is_there() {
        let mut asked = 0;
        let value = wait_for("a third answer", Duration::from_secs(5), async || {
            asked += 1;
            (asked == 3).then_some(asked)
        })
        .await;
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn the_part_that_never_came_true_is_named() {
        let message = message_of(async {
            wait_for("the node", SHORT, async || [("heard", true), ("applied", false)]).await;
        })
        .await;
        assert!(message.contains("waited 50ms for the node"), "{message}");
        assert!(message.contains("never came true: applied"), "{message}");
        assert!(message.contains("wait.rs"), "{message}");
    }

    #[tokio::test]
    async fn a_condition_that_hangs_does_not_outlast_the_deadline() {
        let message = message_of(async {
            wait_for("an answer", SHORT, async || -> bool { std::future::pending().await }).await;
        })
        .await;
        assert!(message.contains("did not answer in time"), "{message}");
    }
}
