//! `bench`: builds what a lab needs and hands over to the bench program, which prints a table and writes JSON.
//!
//! It never measures anything itself; the bench program raises labs of its own and takes them down.

use std::process::ExitCode;

use crate::lab;
use crate::program;
use crate::tree::Tree;

/// `cargo xtask bench [ARGUMENTS…]`.
pub(crate) fn run(tree: &Tree, args: &[String]) -> anyhow::Result<ExitCode> {
    let ready = lab::prepare(tree)?;
    if ready == ExitCode::SUCCESS {
        let mut cargo = tree.cargo();
        cargo.args(["run", "--locked", "--release", "--package", "mesh-bench", "--"]).args(args);
        program::run(&mut cargo)?;
    }
    Ok(ready)
}
