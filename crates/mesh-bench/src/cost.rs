//! What one command on a node costs: time on the clock, and processor time of it and of all it started and waited for.
//!
//! The node's shell counts, so that neither the engine's way into the node nor this program is in the figure.

use std::time::Duration;

use anyhow::{Context as _, bail};
use mesh_lab::Node;

use crate::program::last_lines;

/// What a command took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Time on the clock.
    pub(crate) wall: Duration,
    /// Processor time, in the program and in the kernel for it.
    pub(crate) cpu: Duration,
}

/// Where what the command says is kept, until the next one.
const SAID: &str = "/run/mesh-bench.said";

/// Seconds on the clock, in the program, in the kernel; then the exit code of the command.
const SCRIPT: &str = r#"TIMEFORMAT='%3R %3U %3S'; { time "$@" >/run/mesh-bench.said 2>&1; } 2>&1; echo "$?""#;

/// Runs the command on the node, for at most a minute. It has to succeed, and to say `expected` where that is not empty.
pub(crate) fn of(node: &Node, command: &[&str], expected: &str) -> anyhow::Result<Cost> {
    let shown = command.join(" ");
    let shell = ["bash", "-c", SCRIPT, "bash"];
    let counted = node.run(shell.iter().chain(command)).with_context(|| format!("time `{shown}`"))?;
    let (cost, code) = read(&counted).with_context(|| format!("read the time of `{shown}`: {counted:?}"))?;
    let said = if code != 0 || !expected.is_empty() { node.read(SAID)? } else { String::new() };
    if code != 0 {
        bail!("`{shown}` on {} ended with {code}: {}", node.name(), last_lines(&said));
    }
    if !said.contains(expected) {
        bail!("`{shown}` on {} did not say {expected:?} but {:?}", node.name(), last_lines(&said));
    }
    Ok(cost)
}

/// Runs it `count` times.
pub(crate) fn of_many(
    node: &Node,
    count: usize,
    command: &[&str],
    expected: &str,
) -> anyhow::Result<Vec<Cost>> {
    (0..count).map(|_| of(node, command, expected)).collect()
}

fn read(counted: &str) -> Option<(Cost, i32)> {
    let mut words = counted.split_whitespace();
    let mut seconds = || words.next()?.parse::<f64>().ok().filter(|s| *s >= 0.0).map(Duration::from_secs_f64);
    let (wall, user, system) = (seconds()?, seconds()?, seconds()?);
    Some((Cost { wall, cpu: user + system }, words.next()?.parse().ok()?))
}

/// The processor times.
pub(crate) fn cpu(costs: &[Cost]) -> Vec<Duration> {
    costs.iter().map(|cost| cost.cpu).collect()
}

/// The times on the clock.
pub(crate) fn wall(costs: &[Cost]) -> Vec<Duration> {
    costs.iter().map(|cost| cost.wall).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shells_times_are_read_and_anything_else_is_not_taken_for_them() {
        let cost = Cost { wall: Duration::from_millis(1500), cpu: Duration::from_millis(690) };
        assert_eq!(read("1.500 0.480 0.210\n0\n"), Some((cost, 0)));
        assert_eq!(read("1.500 0.480 0.210\n3\n"), Some((cost, 3)));
        assert_eq!(read("bash: no: command not found"), None);
        assert_eq!(read("1.5 0.4"), None);
    }
}
