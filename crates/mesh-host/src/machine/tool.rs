//! A fixed program of the machine, by an argument vector: with a deadline, with nobody to ask, never through a shell.
//!
//! Only programs that this one names itself are run, from the folders of the machine's own packages.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use crate::failure::{During as _, Failure};

/// Where the machine's packages put programs.
const FOLDERS: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// What is kept of what a program said when it failed, in bytes.
const MOST_WORDS: usize = 600;

/// A program of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tool {
    /// Its name.
    pub(super) name: &'static str,
    /// The package that has it, for a person.
    pub(super) package: &'static str,
    /// How long it may take.
    pub(super) patience: Duration,
}

/// How a program ended that ran to its end.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code; `None` where a signal ended it.
    pub(super) code: Option<i32>,
    /// What it said, on one line.
    pub(super) words: String,
}

impl Tool {
    fn path(self) -> Option<PathBuf> {
        FOLDERS.iter().map(|folder| Path::new(folder).join(self.name)).find(|path| path.is_file())
    }

    /// Runs it to its end. Fails only where it could not be run, or did not end in time.
    pub(super) async fn run<A: AsRef<OsStr>>(self, arguments: &[A]) -> Result<Ended, Failure> {
        let Self { name, package, patience } = self;
        let path = self.path().ok_or_else(|| {
            Failure::new(format!("this machine has no {name}: install the package {package}"))
        })?;
        let running = Command::new(path)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .current_dir("/")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let ended = timeout(patience, running).await;
        let ended =
            ended.map_err(|_| Failure::new(format!("{name} took longer than {} s", patience.as_secs())))?;
        let Output { status, stdout, stderr } = ended.during(format!("run {name}"))?;
        let said = if stderr.iter().all(u8::is_ascii_whitespace) { stdout } else { stderr };
        Ok(Ended { code: status.code(), words: one_line(&String::from_utf8_lossy(&said)) })
    }
}

/// The end of what was said, on one line.
fn one_line(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    let start = line.ceil_char_boundary(line.len().saturating_sub(MOST_WORDS));
    line[start..].chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn tool(name: &'static str, patience: Duration) -> Tool {
        Tool { name, package: "coreutils", patience }
    }

    #[tokio::test]
    async fn a_program_that_is_missing_or_late_is_said_in_words() {
        let minute = Duration::from_mins(1);
        let missing = tool("mesh-has-no-such-program", minute).run::<&str>(&[]).await;
        let words = missing.err().map(|why| why.to_string());
        let expected = "this machine has no mesh-has-no-such-program: install the package coreutils";
        assert_eq!(words.as_deref(), Some(expected));
        let late = tool("sleep", Duration::from_millis(20)).run(&["60"]).await;
        assert_eq!(late.err().map(|why| why.to_string()).as_deref(), Some("sleep took longer than 0 s"));
    }

    #[tokio::test]
    async fn arguments_are_no_shells() {
        let ended = tool("printf", Duration::from_mins(1)).run(&["%s\\n", "$HOME; `id`"]).await;
        let ended = ended.map(|ended| (ended.code, ended.words));
        assert_eq!(ended, Ok((Some(0), "$HOME; `id`".to_owned())));
    }

    #[test]
    fn the_end_of_what_was_said_is_kept_on_one_line() {
        assert_eq!(one_line("a\n\n  b\tc \n"), "a; b c");
        let long = format!("{}é{}", "x".repeat(1000), "y".repeat(MOST_WORDS - 1));
        assert_eq!(one_line(&long), "y".repeat(MOST_WORDS - 1), "never within a character");
    }
}
