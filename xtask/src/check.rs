//! `check`: everything CI runs, in stages that cost the least first; `check-long`: what does not fit there.
//!
//! CI runs nothing else, so what is green here is green there. Called by `make check` and `.ci/run`.

use std::process::ExitCode;

use crate::package::PACKAGE;
use crate::program;
use crate::setup::{self, Purpose};
use crate::stage::{Outcome, Stage, run_stages};
use crate::tree::Tree;
use crate::{fuzz, lab, test};

const STAGES: &[Stage] = &[
    Stage { name: "setup", needs: &[], work: |_| setup::run(Purpose::Check).map(|()| Outcome::Done) },
    Stage { name: "format", needs: &[], work: format },
    Stage { name: "deny", needs: &["setup"], work: deny },
    Stage { name: "lint", needs: &[], work: lint },
    Stage { name: "test", needs: &["setup"], work: test::without_lab },
    lab::BUILD,
    PACKAGE,
    lab::BUNDLE,
    lab::NODES,
    Stage { name: "lab", needs: &["bundle", "nodes", "package"], work: test::in_lab },
];

const LONG_STAGES: &[Stage] = &[
    Stage { name: "setup", needs: &[], work: |_| setup::run(Purpose::Check).map(|()| Outcome::Done) },
    Stage { name: "docs", needs: &[], work: docs },
    Stage { name: "long", needs: &["setup"], work: test::long },
    Stage { name: "fuzz", needs: &["setup"], work: fuzz::stage },
    lab::BUILD,
    PACKAGE,
    lab::BUNDLE,
    lab::NODES,
    Stage { name: "lab", needs: &["bundle", "nodes", "package"], work: test::long_in_lab },
];

/// `cargo xtask check`.
pub(crate) fn run(tree: &Tree, only: &[String]) -> anyhow::Result<ExitCode> {
    run_stages(tree, STAGES, only, true)
}

/// `cargo xtask check-long`.
pub(crate) fn run_long(tree: &Tree, only: &[String]) -> anyhow::Result<ExitCode> {
    run_stages(tree, LONG_STAGES, only, true)
}

/// `cargo xtask advisories`. Apart from the rest because it needs the advisory database, which a machine without a way
/// out cannot fetch, and because a new advisory is news and not a fault of the change at hand.
pub(crate) fn advisories(tree: &Tree) -> anyhow::Result<()> {
    setup::run(Purpose::Check)?;
    program::run(tree.cargo().args(["deny", "check", "advisories"])).map_err(|error| {
        error.context("either an advisory applies (named above), or the advisory database could not be fetched: nothing is proved")
    })
}

fn format(tree: &Tree) -> anyhow::Result<Outcome> {
    program::run(tree.cargo().args(["fmt", "--all", "--check"]))?;
    Ok(Outcome::Done)
}

fn lint(tree: &Tree) -> anyhow::Result<Outcome> {
    let mut cargo = tree.cargo();
    cargo.args(["clippy", "--locked", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]);
    program::run(&mut cargo)?;
    Ok(Outcome::Done)
}

fn docs(tree: &Tree) -> anyhow::Result<Outcome> {
    let mut cargo = tree.cargo();
    cargo.args(["doc", "--locked", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    // The documentation is for those who change the program: links to private items lead somewhere.
    program::run(cargo.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private-intra-doc-links"))?;
    Ok(Outcome::Done)
}

/// Licences, bans and sources, by `deny.toml`. Only errors are shown: duplicate versions are for `cargo deny check bans`.
fn deny(tree: &Tree) -> anyhow::Result<Outcome> {
    // It reads the manifests of all that is locked, also of what is built on other systems only, and fetches nothing
    // itself. Where nothing can be fetched, what is here has to be enough.
    if let Err(error) = program::run(tree.cargo().args(["fetch", "--locked", "--quiet"])) {
        println!("what is locked could not be fetched ({error:#}); going on with what is here");
    }
    let mut cargo = tree.cargo();
    cargo.args(["deny", "--offline", "--log-level", "error", "check", "licenses", "bans", "sources"]);
    program::run(&mut cargo)?;
    Ok(Outcome::Done)
}
