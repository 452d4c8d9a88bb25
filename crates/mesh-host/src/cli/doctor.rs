//! `mesh-host doctor`: what is wrong with this machine, and what a person can do about it.

use std::fmt::Write as _;

use clap::Args;

use super::{Ended, Exit, output::print};
use crate::{
    doctor::{Finding, Level, examine, worst},
    machine::Machine,
    paths::Paths,
};

#[derive(Debug, Args)]
#[command(after_help = "\
It looks and touches nothing: on any machine, joined or not, while the host runs or does not.
Each line is ok, warn or fail and says what was found; under it stands what can be done.
It ends with 1 where something fails, otherwise with 0.

Examples:
  mesh-host doctor
  mesh-host doctor --json")]
pub(super) struct Doctor {
    /// For programs.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) async fn run(self, paths: &Paths) -> Result<Exit, Ended> {
        let findings = examine(paths, &Machine::real_as_it_is(paths)).await;
        let worst = worst(&findings);
        if self.json {
            let json = serde_json::json!({ "worst": worst, "checks": findings });
            let json = serde_json::to_string_pretty(&json);
            print(json.map_err(|error| Ended::new(Exit::Failed, format!("write JSON: {error}")))?);
        } else {
            print(text(&findings).trim_end());
        }
        Ok(if worst == Level::Fail { Exit::Failed } else { Exit::Done })
    }
}

fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { check, level, found, remedy } in findings {
        let level = match level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "fail",
        };
        let _ = writeln!(text, "{level:<5} {check:<12} {found}");
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "{:18} -> {remedy}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_under_its_line() {
        let finding = |level, remedy: Option<&str>| Finding {
            check: "disk",
            level,
            found: "/: full".to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        assert_eq!(
            text(&[finding(Level::Ok, None), finding(Level::Fail, Some("make room"))]),
            "ok    disk         /: full\nfail  disk         /: full\n                   -> make room\n"
        );
    }
}
