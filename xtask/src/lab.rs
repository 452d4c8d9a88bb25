//! `up` and `down`: from sources to a mesh of three real nodes on this machine, and back to nothing.
//!
//! The lab itself is the program `mesh-lab`; this module only sees to it that what it needs is built first.

use std::process::{Command, ExitCode};

use anyhow::ensure;

use crate::program;
use crate::setup::{self, Purpose};
use crate::stage::{Outcome, Stage, run_stages};
use crate::tree::Tree;
use crate::{build, bundle};

/// The static programs.
pub(crate) const BUILD: Stage =
    Stage { name: "build", needs: &["setup"], work: |tree| build::run(tree, &[]).map(|()| Outcome::Done) };

/// The bundle the first node carries.
pub(crate) const BUNDLE: Stage =
    Stage { name: "bundle", needs: &["build"], work: |tree| bundle::run(tree, &[]).map(|()| Outcome::Done) };

/// The images the lab's nodes boot.
pub(crate) const NODES: Stage = Stage {
    name: "nodes",
    needs: &["setup"],
    work: |tree| bundle::run(tree, &["nodes".to_owned()]).map(|()| Outcome::Done),
};

/// What stands before the lab can be raised, in order.
const GROUND: [Stage; 4] = [
    Stage { name: "setup", needs: &[], work: |_| setup::run(Purpose::Lab).map(|()| Outcome::Done) },
    BUILD,
    BUNDLE,
    NODES,
];

/// Builds what stands before a lab.
pub(crate) fn prepare(tree: &Tree) -> anyhow::Result<ExitCode> {
    run_stages(tree, &GROUND, &[], false)
}

/// `cargo xtask up`: the stages above, then `mesh-lab up`.
pub(crate) fn up(tree: &Tree, args: &[String]) -> anyhow::Result<ExitCode> {
    let ready = prepare(tree)?;
    if ready != ExitCode::SUCCESS {
        return Ok(ready);
    }
    mesh_lab(tree, "up", args)?;
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask down`: works with the programs as they are, so that what an older build raised can be taken down.
pub(crate) fn down(tree: &Tree, args: &[String]) -> anyhow::Result<()> {
    if !tree.dist.join("mesh-lab").is_file() {
        build::run(tree, &["mesh-lab".to_owned()])?;
    }
    mesh_lab(tree, "down", args)
}

fn mesh_lab(tree: &Tree, verb: &str, args: &[String]) -> anyhow::Result<()> {
    let program = tree.dist.join("mesh-lab");
    ensure!(program.is_file(), "there is no dist/mesh-lab: run `make build`");
    program::run(Command::new(program).arg(verb).args(args).current_dir(&tree.root))
}
