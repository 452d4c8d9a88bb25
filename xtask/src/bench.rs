//! `bench`: builds the static programs and hands over to the bench program, which prints a table and writes JSON.
//!
//! It never measures anything itself. The bench program is the package named below; it appears with its first figure.

use anyhow::bail;

use crate::build;
use crate::program;
use crate::tree::Tree;

const BENCH: &str = "mesh-bench";

/// `cargo xtask bench [ARGUMENTS…]`.
pub(crate) fn run(tree: &Tree, args: &[String]) -> anyhow::Result<()> {
    if !tree.has_package(BENCH) {
        bail!("there is nothing to measure yet: the package {BENCH} does not exist");
    }
    build::run(tree, &[])?;
    let mut cargo = tree.cargo();
    cargo.args(["run", "--locked", "--release", "--package", BENCH, "--"]).args(args);
    program::run(&mut cargo)
}
