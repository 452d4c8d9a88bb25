//! CFEngine, from Debian: the agent that has checked files the longest.

use std::path::Path;

use anyhow::Context as _;
use mesh_lab::Node;

use super::debian;
use crate::cost::{self, Cost};
use crate::ground::put_text;
use crate::workload;

/// The folder of its files, below the workload's base.
pub(crate) const FOLDER: &str = "cfengine";
const POLICY: &str = "/opt/bench-cfengine/thousand.cf";
/// Without its locks, which would make it skip within a minute what it has just checked.
const RUN: [&str; 4] = ["cf-agent", "--no-lock", "--file", POLICY];

/// Installed on a node, with the policy of the thousand files.
pub(crate) struct CfEngine<'a> {
    node: &'a Node,
    /// With its version.
    pub(crate) name: String,
}

impl<'a> CfEngine<'a> {
    /// Installs it.
    pub(crate) fn install(node: &'a Node, cache: &Path) -> anyhow::Result<Self> {
        if node.exec(["cf-agent", "--version"])?.code != 0 {
            debian::install(node, cache, &["cfengine3"])?;
        }
        put_text(node, workload::policy(FOLDER), POLICY)?;
        let said = node.run(["cf-agent", "--version"])?;
        let version = said.split_whitespace().last().context("cf-agent does not say its version")?;
        Ok(Self { node, name: format!("CFEngine {version}") })
    }

    /// Applies the policy where nothing of it is there yet.
    pub(crate) fn first(&self, count: usize) -> anyhow::Result<Vec<Cost>> {
        let fresh = workload::make_folders(FOLDER);
        let once = |_| {
            self.node.run(["sh", "-c", &fresh])?;
            cost::of(self.node, &RUN, "")
        };
        (0..count).map(once).collect()
    }

    /// Applies it where all of it is there.
    pub(crate) fn again(&self, count: usize) -> anyhow::Result<Vec<Cost>> {
        cost::of(self.node, &RUN, "")?;
        cost::of_many(self.node, count, &RUN, "")
    }
}
