//! Runs a program of this machine to its end: an argument vector, a deadline, and the command named in errors.
//!
//! The only place of this crate that starts processes; what runs on nodes goes through the lab. Peers are fetched by it.

use std::io::{Read as _, Seek as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mesh_lab::wait_for;

/// Runs it; what it printed. Any exit code but 0 is an error that ends with what it said last.
pub(crate) fn run(command: &mut Command, deadline: Duration) -> anyhow::Result<String> {
    let line = std::iter::once(command.get_program()).chain(command.get_args());
    let line = line.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(err.try_clone()?)
        .spawn()
        .with_context(|| format!("start `{line}`"))?;
    let ended = wait_for(&format!("`{line}` to end"), deadline, || {
        child.try_wait().map_err(|error| error.to_string())?.ok_or_else(|| "it still runs".to_owned())
    });
    if ended.is_err() {
        // Too late for it to matter whether it can still be ended: the deadline is the error.
        let _ = child.kill();
        let _ = child.wait();
    }
    let status = ended?;
    let read = |file: &mut std::fs::File| -> std::io::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (out, err) = (read(&mut out)?, read(&mut err)?);
    if !status.success() {
        bail!(
            "`{line}` ended with {status}: {}",
            last_lines(if err.trim().is_empty() { &out } else { &err })
        );
    }
    Ok(out)
}

/// The end of a text, for errors.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join("; ")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn sh(script: &str, deadline: Duration) -> anyhow::Result<String> {
        run(Command::new("sh").args(["-c", script]), deadline)
    }

    #[test]
    fn a_program_hands_back_what_it_printed_and_a_failure_what_it_said() {
        assert_eq!(sh("echo out; echo err >&2", Duration::from_secs(10)).unwrap(), "out\n");
        let error =
            sh("echo 'no such package' >&2; exit 3", Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("exit status: 3: no such package"), "{error}");
    }

    #[test]
    fn a_program_that_hangs_is_ended_at_the_deadline_and_named() {
        let error = sh("exec sleep 600", Duration::from_millis(200)).unwrap_err().to_string();
        assert!(error.contains("`sh -c exec sleep 600`"), "{error}");
    }
}
