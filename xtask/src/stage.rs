//! Stages: named pieces of work run one after the other, timed, and summed up in a table at the end.
//!
//! A stage that fails never stops the stages that do not need it, so that one run shows every failure. Called by `check`
//! and by `up`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::tree::Tree;

/// One piece of work.
pub(crate) struct Stage {
    /// One word, for the table and for `--only`.
    pub(crate) name: &'static str,
    /// Stages without which this one makes no sense.
    pub(crate) needs: &'static [&'static str],
    /// The work; the counts are those of the tests it ran.
    pub(crate) work: fn(&Tree) -> anyhow::Result<Outcome>,
}

/// What a stage came to, when it could do its work at all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what it is for.
    Done,
    /// It ran tests.
    Tested(Counts),
}

enum Ending {
    Passed(Outcome),
    Failed(String),
    Skipped(String),
}

/// Runs the stages, prints the table and, if asked, the closing line of test counts.
pub(crate) fn run_stages(
    tree: &Tree,
    stages: &[Stage],
    only: &[String],
    closing_line: bool,
) -> anyhow::Result<ExitCode> {
    for name in only {
        let known = || stages.iter().map(|stage| stage.name).collect::<Vec<_>>().join(", ");
        anyhow::ensure!(
            stages.iter().any(|stage| stage.name == name),
            "no stage {name}: there are {}",
            known()
        );
    }
    let begun = Instant::now();
    let mut endings: Vec<(&'static str, Ending, Duration)> = Vec::new();
    for stage in stages {
        if !only.is_empty() && !only.iter().any(|name| name == stage.name) {
            continue;
        }
        let missing = stage.needs.iter().find(|need| {
            endings.iter().any(|(name, ending, _)| name == *need && !matches!(ending, Ending::Passed(_)))
        });
        println!("\n== {} ==", stage.name);
        let from = Instant::now();
        let ending = match missing {
            Some(need) => Ending::Skipped(format!("needs {need}")),
            None => match (stage.work)(tree) {
                Ok(outcome) => Ending::Passed(outcome),
                Err(error) => {
                    println!("error: {error:#}");
                    Ending::Failed(format!("{error:#}"))
                }
            },
        };
        endings.push((stage.name, ending, from.elapsed()));
    }
    print_table(&endings, begun.elapsed());
    let (counts, good) = sum(&endings);
    if closing_line {
        println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_table(endings: &[(&'static str, Ending, Duration)], total: Duration) {
    println!();
    for (name, ending, took) in endings {
        let words = match ending {
            Ending::Passed(Outcome::Done) => "ok".to_owned(),
            Ending::Passed(Outcome::Tested(counts)) if counts.failed == 0 => {
                format!("ok, {} tests", counts.passed)
            }
            Ending::Passed(Outcome::Tested(counts)) => format!("FAILED, {} of its tests", counts.failed),
            Ending::Failed(why) => format!("FAILED: {}", why.lines().next().unwrap_or_default()),
            Ending::Skipped(why) => format!("not run: {why}"),
        };
        println!("{:>9}  {name:<10} {words}", readable(*took));
    }
    println!("{:>9}  in all", readable(total));
}

/// The tests of all stages, and whether everything is well. A stage that failed without a failing test (a lint, a build)
/// counts as one failure, so that the closing line never looks better than the exit code.
fn sum(endings: &[(&'static str, Ending, Duration)]) -> (Counts, bool) {
    let mut counts = Counts::default();
    for (_, ending, _) in endings {
        match ending {
            Ending::Passed(Outcome::Tested(tested)) => counts += *tested,
            Ending::Passed(_) => {}
            Ending::Failed(_) | Ending::Skipped(_) => counts.failed += 1,
        }
    }
    (counts, counts.failed == 0)
}

fn readable(took: Duration) -> String {
    let seconds = took.as_secs();
    if seconds >= 60 {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    } else {
        format!("{:.1} s", took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Ending, Outcome, readable, sum};
    use crate::counts::Counts;

    #[test]
    fn a_failed_stage_without_tests_counts_as_a_failure() {
        let tested = Counts { passed: 4, failed: 0, skipped: 1 };
        let endings = [
            ("test", Ending::Passed(Outcome::Tested(tested)), Duration::ZERO),
            ("lint", Ending::Failed("a warning".to_owned()), Duration::ZERO),
        ];
        assert_eq!(sum(&endings), (Counts { failed: 1, ..tested }, false));
        assert_eq!(sum(&endings[..1]), (tested, true));
    }

    #[test]
    fn a_failed_test_fails_the_run() {
        let tested = Counts { passed: 4, failed: 1, skipped: 0 };
        assert!(!sum(&[("test", Ending::Passed(Outcome::Tested(tested)), Duration::ZERO)]).1);
    }

    #[test]
    fn times_are_readable() {
        assert_eq!(readable(Duration::from_millis(1_250)), "1.2 s");
        assert_eq!(readable(Duration::from_secs(125)), "2 min 05 s");
    }
}
