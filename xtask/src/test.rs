//! `test`: the tests that need no lab; also the two test stages of `check`.
//!
//! Which tests belong to the lab is said once, in `.config/nextest.toml`; this module only picks the profile.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::counts::Counts;
use crate::program;
use crate::stage::Outcome;
use crate::tree::Tree;

/// `cargo xtask test [ARGUMENTS OF NEXTEST…]`.
pub(crate) fn run(tree: &Tree, args: &[String]) -> anyhow::Result<ExitCode> {
    let mut cargo = tree.cargo();
    cargo.args(["nextest", "run", "--workspace"]).args(args);
    let good = program::watch(&mut cargo, |_| {})?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The stage `test`: everything but the lab, and no fewer tests than there were.
pub(crate) fn without_lab(tree: &Tree) -> anyhow::Result<Outcome> {
    let counts = nextest(tree, "ci", &[])?;
    let floor_file = tree.root.join(".ci/test-floor");
    let floor =
        std::fs::read_to_string(&floor_file).with_context(|| format!("read {}", floor_file.display()))?;
    let floor: u64 =
        floor.trim().parse().with_context(|| format!("read the number in {}", floor_file.display()))?;
    anyhow::ensure!(
        counts.passed + counts.failed >= floor,
        "only {} tests ran where .ci/test-floor says at least {floor}: tests have been lost, or lower the floor in the same change",
        counts.passed + counts.failed,
    );
    Ok(Outcome::Tested(counts))
}

/// The stage `lab`: the system tests on real nodes, with the programs of `dist/` and the bundle.
pub(crate) fn in_lab(tree: &Tree) -> anyhow::Result<Outcome> {
    Ok(Outcome::Tested(nextest(tree, "lab", &[])?))
}

fn nextest(tree: &Tree, profile: &str, variables: &[(&str, &str)]) -> anyhow::Result<Counts> {
    let mut cargo = tree.cargo();
    cargo.envs(variables.iter().copied());
    cargo.args(["nextest", "run", "--locked", "--workspace", "--no-fail-fast", "--profile", profile]);
    let mut counts = None;
    let good = program::watch(&mut cargo, |line| counts = Counts::from_summary(line).or(counts))?;
    let counts = counts.context("the tests could not be run")?;
    anyhow::ensure!(good || counts.failed > 0, "nextest failed although no test did");
    Ok(counts)
}

/// Tests that have a larger figure to offer offer it.
const LONG: &[(&str, &str)] = &[("MESH_LONG", "1")];

/// The stage `long` of `check-long`: everything but the lab, with the figures of the long run.
pub(crate) fn long(tree: &Tree) -> anyhow::Result<Outcome> {
    Ok(Outcome::Tested(nextest(tree, "long", LONG)?))
}

/// The stage `lab` of `check-long`: the system tests with the figures of the long run.
pub(crate) fn long_in_lab(tree: &Tree) -> anyhow::Result<Outcome> {
    Ok(Outcome::Tested(nextest(tree, "lab", LONG)?))
}
