//! `bench`: builds what a lab needs and hands over to the bench program, which prints a table and writes JSON.
//!
//! It never measures anything itself; the bench program raises labs of its own and takes them down.

use std::process::{Command, ExitCode};

use crate::build;
use crate::lab;
use crate::program;
use crate::tree::Tree;

/// `cargo xtask bench [ARGUMENTS…]`.
pub(crate) fn run(tree: &Tree, args: &[String]) -> anyhow::Result<ExitCode> {
    let ready = lab::prepare(tree)?;
    if ready == ExitCode::SUCCESS {
        // As the programs are built, whose libraries it shares.
        build::deliver(tree, &["mesh-bench"])?;
        program::run(Command::new(tree.dist.join("mesh-bench")).args(args).current_dir(&tree.root))?;
    }
    Ok(ready)
}
