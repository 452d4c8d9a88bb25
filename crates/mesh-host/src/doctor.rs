//! What is wrong with this machine as a node, and what a person can do about it. Looks only: it writes nothing, starts
//! nothing, takes no lock, and waits for nothing longer than a few seconds.
//!
//! It works on a machine that has joined no mesh, has no engine or no systemd, and beside a running host. What was found
//! is looked up first ([`examine`]), then judged without touching anything more. Called by `mesh-host doctor`.

mod broker;
mod ground;
mod node;
mod ports;

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;

use crate::{failure::Failure, machine::Machine, paths::Paths};

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be, or not needed here.
    Ok,
    /// Works, and will be in the way of something sooner or later.
    Warn,
    /// In the way of something now.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two; stays the same for programs.
    pub check: &'static str,
    /// How well it is.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What a person can do; none where nothing needs doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, found: found.into(), remedy: None }
    }

    fn warn(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Fail, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// Looks at everything, and says of each what was found, in the order a person would look.
pub async fn examine(paths: &Paths, machine: &Machine) -> Vec<Finding> {
    let node = node::Known::read(paths);
    let mut findings = Vec::new();
    findings.extend(ground::not_root());
    findings.extend(ground::examine(paths, machine, &node).await);
    findings.extend(node::examine(&node, machine, paths).await);
    findings.extend(ports::examine(paths, &node));
    findings.extend(broker::examine(&node).await);
    findings
}

/// The worst of these; well where there are none.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
}

/// Does not wait longer than this for what may never come.
async fn within<T>(
    seconds: u64,
    what: &str,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match timeout(Duration::from_secs(seconds), work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Failure::new(format!("{what} did not answer within {seconds} s"))),
    }
}

/// A length of time for people: its two largest parts.
fn spoken(seconds: u64) -> String {
    let text = humantime::format_duration(Duration::from_secs(seconds)).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// A number of bytes for people.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn bytes(count: u64) -> String {
    match count {
        0..0x400 => format!("{count} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", count as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests;
