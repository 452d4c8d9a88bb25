//! The kind `timer`.

mod calendar;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{check_name, check_path, unit::UnitSpec, user::check_user};

/// A program that runs at times of the calendar, or again and again: `NAME.timer` and `NAME.service` of systemd, both
/// written by the host, the timer enabled and running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimerSpec {
    /// Its name, without a type.
    pub name: String,
    /// When it runs, as systemd.time(7) writes calendar events: `daily`, `Mon..Fri *-*-* 08:30:00`. Either this or
    /// `interval_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<String>,
    /// How long after its last start it runs again, and after the timer's start for the first time, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u64>,
    /// Whether it runs at once where the machine was off when it should have run. With `calendar` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub persistent: bool,
    /// By how much each run is delayed at most, at random, in seconds: so that not all machines run it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub randomized_delay_s: Option<u64>,
    /// The program, by an absolute path, and its arguments, each exactly as the program gets it.
    pub command: Vec<String>,
    /// The user by whom it runs; root where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Variables of its environment. No secrets: whoever may read the unit file sees them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// In which folder it runs; `/` where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
}

/// Ten years, in seconds.
const LONGEST_S: u64 = 10 * 365 * 24 * 60 * 60;
/// The most bytes of a command, and of an environment. systemd reads lines of up to 1 MiB, and every byte may be four.
const MOST_BYTES: usize = 64 * 1024;

impl TimerSpec {
    pub(super) fn check(&self) -> Result<(), String> {
        check_name("timer", &self.name)?;
        if UnitSpec::is_typed(&self.name) {
            return Err(format!("{:?} has a type: expected the name alone", self.name));
        }
        match (&self.calendar, self.interval_s) {
            (Some(event), None) => calendar::check(event)?,
            (None, Some(1..=LONGEST_S)) => {}
            (None, Some(_)) => return Err("interval_s is 0, or longer than ten years".to_owned()),
            _ => return Err("expected exactly one of calendar and interval_s".to_owned()),
        }
        if self.persistent && self.calendar.is_none() {
            return Err(
                "persistent goes with calendar only: an interval begins when the timer starts".to_owned()
            );
        }
        if self.randomized_delay_s.is_some_and(|delay| delay > LONGEST_S) {
            return Err("randomized_delay_s is longer than ten years".to_owned());
        }
        self.user.as_deref().map_or(Ok(()), |user| check_user("user", user))?;
        self.check_command()?;
        self.check_environment()?;
        match &self.working_directory {
            Some(path) if path.contains('\\') || path.ends_with(char::is_whitespace) => Err(format!(
                "working_directory: systemd cannot be told {path:?}: it has a '\\', or a space at its end"
            )),
            Some(path) if path != "/" => {
                check_path(path).map_err(|reason| format!("working_directory: {reason}"))
            }
            _ => Ok(()),
        }
    }

    fn check_command(&self) -> Result<(), String> {
        let Some(program) = self.command.first() else {
            return Err("command is empty: expected a program by its absolute path".to_owned());
        };
        check_path(program).map_err(|reason| format!("command: {reason}"))?;
        // systemd takes none of these in the path of a program, or leaves a '$' in it as it is in some versions only.
        if program.contains(['"', '\'', '\\', '$']) {
            return Err(format!(
                "command: systemd runs no program whose path holds quotes, '\\' or '$': {program:?}"
            ));
        }
        if self.command.iter().any(|argument| argument.contains('\0')) {
            return Err("command: an argument holds a NUL, which none can".to_owned());
        }
        if self.command.iter().map(String::len).sum::<usize>() > MOST_BYTES {
            return Err(format!("command has more than {MOST_BYTES} bytes"));
        }
        Ok(())
    }

    fn check_environment(&self) -> Result<(), String> {
        for (name, value) in &self.environment {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(allowed)
            {
                return Err(format!(
                    "environment: {:?} is not the name of a variable: letters, digits and '_', not first a digit",
                    name.chars().take(100).collect::<String>()
                ));
            }
            if value.chars().any(|c| c.is_control() && !"\t\n".contains(c)) {
                return Err(format!(
                    "environment: {name} holds control characters other than tabs and newlines"
                ));
            }
        }
        if self.environment.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MOST_BYTES {
            return Err(format!("environment has more than {MOST_BYTES} bytes"));
        }
        Ok(())
    }
}
