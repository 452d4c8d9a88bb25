//! Waiting with a deadline, for a condition that says why it does not hold yet.
//!
//! Never sleeps blind: the pause lies between two looks at the condition. Called by the library and by system tests.

#![expect(
    clippy::disallowed_methods,
    reason = "the one pause of this crate, between two looks at a condition"
)]

use std::time::{Duration, Instant};

use crate::error::LabError;

/// How often a condition is looked at. Most conditions cost an engine call of 0.1 s themselves.
const PERIOD: Duration = Duration::from_millis(100);

/// Looks at `condition` until it holds; after `deadline` says what was waited for and why it did not hold (`Err`).
pub fn wait_for<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl FnMut() -> Result<T, String>,
) -> Result<T, LabError> {
    let end = Instant::now() + deadline;
    loop {
        match condition() {
            Ok(value) => return Ok(value),
            Err(last) if Instant::now() >= end => {
                return Err(LabError::NeverCame { what: what.to_owned(), deadline, last });
            }
            Err(_) => pause(PERIOD),
        }
    }
}

pub(crate) fn pause(period: Duration) {
    std::thread::sleep(period);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reason_stands_in_the_error() {
        let mut looks = 0;
        let waited = wait_for("the third look", Duration::from_millis(250), || -> Result<(), String> {
            looks += 1;
            Err(format!("look {looks} of many"))
        });
        let error = waited.map_err(|error| error.to_string());
        assert!(
            error.clone().is_err_and(|e| e.starts_with("waited 0.2 s for the third look: look ")),
            "{error:?}"
        );
    }

    #[test]
    fn the_value_is_handed_back_once_it_is_there() {
        let mut looks = 0;
        let value = wait_for("a value", Duration::from_secs(5), || {
            looks += 1;
            if looks == 3 { Ok(looks) } else { Err("not yet".to_owned()) }
        });
        assert!(matches!(value, Ok(3)));
    }
}
