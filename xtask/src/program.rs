//! Running another program: print the command as a person would type it, run it, and say which one failed.
//!
//! It never swallows output and never runs anything through a shell. Called by every other module.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// Runs the command with our own output; an exit status other than 0 is an error that names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let line = printable(command);
    println!("$ {line}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("start `{line}`"))?;
    anyhow::ensure!(status.success(), "`{line}` ended with {status}");
    Ok(())
}

/// Runs the command, hands each line of its standard error on to our own output and to `each`, and says whether it
/// succeeded.
pub(crate) fn watch(command: &mut Command, mut each: impl FnMut(&str)) -> anyhow::Result<bool> {
    let line = printable(command);
    println!("$ {line}");
    let mut child = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start `{line}`"))?;
    if let Some(stderr) = child.stderr.take() {
        for read in BufReader::new(stderr).lines() {
            let read = read.with_context(|| format!("read what `{line}` says"))?;
            println!("{read}");
            each(&read);
        }
    }
    Ok(child.wait().with_context(|| format!("wait for `{line}`"))?.success())
}

/// Whether the command can be started and says yes; it prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What the command prints on its standard output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let line = printable(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("start `{line}`"))?;
    anyhow::ensure!(output.status.success(), "`{line}` ended with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("read what `{line}` prints"))
}

fn printable(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
