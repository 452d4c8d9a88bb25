//! CFEngine, from Debian: the agent that has checked files the longest.

use std::path::Path;

use anyhow::Context as _;
use mesh_lab::Node;

use super::debian;
use crate::cost::{self, Cost};
use crate::ground::put_text;
use crate::workload;

const POLICY: &str = "/opt/bench-cfengine/thousand.cf";
/// Without its locks, which would make it skip within a minute what it has just checked.
const RUN: [&str; 4] = ["cf-agent", "--no-lock", "--file", POLICY];

/// Installed on a node.
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
        let said = node.run(["cf-agent", "--version"])?;
        let version = said.split_whitespace().last().context("cf-agent does not say its version")?;
        Ok(Self { node, name: format!("CFEngine {version}") })
    }

    /// Applies a policy of the thousand files below a new folder.
    pub(crate) fn first(&self, folder: &str) -> anyhow::Result<Cost> {
        put_text(self.node, workload::policy(folder), POLICY)?;
        self.node.run(["sh", "-c", &workload::make_folders(folder)])?;
        cost::of(self.node, &RUN, "")
    }

    /// Applies the last policy again, where all of it is there.
    pub(crate) fn again(&self, count: usize) -> anyhow::Result<Vec<Cost>> {
        cost::of_many(self.node, count, &RUN, "")
    }
}
