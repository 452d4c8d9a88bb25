//! What could not be done, in words for a person. Never holds a secret. Travels as data, up to the report.

use std::fmt;

/// What could not be done and why. Reads `what was tried: why not: why that not`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    /// A failure in these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// The same failure, with what was being done before it.
    #[must_use]
    pub fn during(self, what: impl fmt::Display) -> Self {
        Self(format!("{what}: {}", self.0))
    }

    /// Turns any error, with the chain of its causes, into a failure of `what`.
    pub fn of(what: impl fmt::Display, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut words = format!("{what}: {error}");
        let mut cause = error.source();
        while let Some(next) = cause {
            let text = next.to_string();
            // Many libraries repeat their source in their own text; once is enough.
            if !words.ends_with(&text) {
                words = format!("{words}: {text}");
            }
            cause = next.source();
        }
        Self(words)
    }
}

/// Says what was being done when something went wrong.
pub trait During<T> {
    /// The value, or a [`Failure`] that begins with `what`.
    fn during(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: std::error::Error + 'static> During<T> for Result<T, E> {
    fn during(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::of(what, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_reads_from_the_outside_in() {
        let error = std::io::Error::other("the disk is gone");
        let failure = Failure::of("write /etc/motd", &error).during("apply file:/etc/motd");
        assert_eq!(failure.to_string(), "apply file:/etc/motd: write /etc/motd: the disk is gone");
    }
}
