//! How many tests ran: read from the test runner's summary, added up over the stages, printed as one plain line.
//!
//! It never guesses: a run without a summary has no counts. Called by the stages that run tests.

use std::ops::AddAssign;

/// Tests passed, failed and skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// Reads nextest's summary line, for example `Summary [ 1.2s] 5 tests run: 4 passed (1 slow), 1 failed, 0 skipped`;
    /// `None` for any other line.
    pub(crate) fn from_summary(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let (_, items) = line.strip_prefix("Summary ").and_then(|rest| rest.split_once(" run: "))?;
        let mut counts = Self::default();
        for item in items.split(',') {
            let mut words = item.split_whitespace();
            let number: u64 = words.next()?.parse().ok()?;
            match words.next()? {
                // Inside the brackets behind those that passed.
                "flaky)" | "slow)" | "leaky)" => {}
                "passed" => counts.passed += number,
                "skipped" => counts.skipped += number,
                // failed, timed out, exec failed, leaky counted as failures: none of them is a pass.
                _ => counts.failed += number,
            }
        }
        Some(counts)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn a_summary_is_read() {
        let read = Counts::from_summary("     Summary [   0.004s] 3 tests run: 3 passed, 7 skipped");
        assert_eq!(read, Some(Counts { passed: 3, failed: 0, skipped: 7 }));
    }

    #[test]
    fn whatever_did_not_pass_counts_as_failed() {
        let line = "Summary [ 61.0s] 9/12 tests run: 5 passed (1 slow), 2 failed, 1 timed out, 1 exec failed, 0 skipped";
        assert_eq!(Counts::from_summary(line), Some(Counts { passed: 5, failed: 4, skipped: 0 }));
    }

    #[test]
    fn other_lines_have_no_counts() {
        assert_eq!(Counts::from_summary("        PASS [   0.004s] xtask elf::tests::x"), None);
        assert_eq!(Counts::from_summary("Summary of nothing"), None);
    }
}
