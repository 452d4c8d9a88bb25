//! `fuzz`: everything that reads what others wrote, fed with bytes that nobody wrote, guided by coverage (libFuzzer).
//!
//! The targets stand in `fuzz/`, a workspace of its own. They are built with the coverage instrumentation that libFuzzer
//! asks for, by the same compiler as everything else; what they learn is kept between runs beside the target folder's
//! other contents. An input that breaks a target is kept, and named in the failure. Called by a person and by
//! `check-long`.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::program;
use crate::setup::{self, Purpose};
use crate::stage::Outcome;
use crate::tree::Tree;

/// A target, and the folders whose files it begins with.
struct Target {
    name: &'static str,
    seeds: &'static [&'static str],
}

const TARGETS: &[Target] = &[
    Target { name: "declaration", seeds: &["crates/mesh-wire/tests/golden/written"] },
    Target { name: "intake", seeds: &["crates/mesh-wire/tests/golden/written"] },
    Target { name: "ledger", seeds: &["crates/mesh-host/tests/golden/ledger"] },
    Target { name: "manifest", seeds: &["examples/hello"] },
    Target { name: "spec", seeds: &["crates/mesh-wire/tests/golden/written"] },
    Target { name: "statement", seeds: &["crates/mesh-wire/tests/golden/written"] },
    Target { name: "token", seeds: &["crates/mesh-wire/tests/golden/written"] },
];

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

/// What libFuzzer needs of the compiler (the flags of `cargo fuzz` without a sanitizer: the tree has no unsafe code).
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1";

/// How long each target runs in `check-long`, in seconds.
const SECONDS: u64 = 60;

/// What a target came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    executions: u64,
    coverage: u64,
    inputs: u64,
}

impl Figures {
    /// Takes over what a line of libFuzzer says, e.g. `#8192 pulse cov: 1017 ft: 2741 corp: 214/13Kb …`.
    fn take(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix('#') else { return };
        let mut words = rest.split_whitespace();
        let Some(Ok(executions)) = words.next().map(str::parse) else { return };
        self.executions = executions;
        let words: Vec<&str> = words.collect();
        for pair in words.windows(2) {
            match pair[0] {
                "cov:" => self.coverage = pair[1].parse().unwrap_or(self.coverage),
                "corp:" => {
                    let inputs = pair[1].split('/').next().and_then(|number| number.parse().ok());
                    self.inputs = inputs.unwrap_or(self.inputs);
                }
                _ => {}
            }
        }
    }
}

/// `cargo xtask fuzz [TARGET…]`: each for so many seconds.
pub(crate) fn run(tree: &Tree, seconds: u64, only: &[String]) -> anyhow::Result<()> {
    for name in only {
        let known: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        anyhow::ensure!(known.contains(&name.as_str()), "no target {name}: there are {}", known.join(", "));
    }
    setup::run(Purpose::Long)?;
    build(tree)?;
    let wanted = |target: &&Target| only.is_empty() || only.iter().any(|name| name == target.name);
    let mut rows = Vec::new();
    for target in TARGETS.iter().filter(wanted) {
        rows.push((target.name, fuzz(tree, target, seconds)?));
    }
    println!("\n{:<12} {:>12} {:>9} {:>7}", "target", "executions", "coverage", "inputs");
    for (name, Figures { executions, coverage, inputs }) in rows {
        println!("{name:<12} {executions:>12} {coverage:>9} {inputs:>7}");
    }
    Ok(())
}

/// The stage `fuzz` of `check-long`.
pub(crate) fn stage(tree: &Tree) -> anyhow::Result<Outcome> {
    run(tree, SECONDS, &[])?;
    Ok(Outcome::Done)
}

fn build(tree: &Tree) -> anyhow::Result<()> {
    let mut cargo = tree.cargo();
    cargo.current_dir(tree.root.join("fuzz"));
    cargo.env("CARGO_TARGET_DIR", tree.target.join("fuzz")).env("RUSTFLAGS", FLAGS);
    program::run(cargo.args(["build", "--locked", "--release", "--target", TRIPLE]))
}

fn fuzz(tree: &Tree, target: &Target, seconds: u64) -> anyhow::Result<Figures> {
    let place = tree.target.join("fuzz");
    let (corpus, broken) = (place.join("corpus").join(target.name), place.join("broken").join(target.name));
    for folder in [&corpus, &broken] {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    let mut command = Command::new(place.join(TRIPLE).join("release").join(target.name));
    // The slash at its end makes it a folder for libFuzzer.
    command.arg(format!("-artifact_prefix={}/", broken.display()));
    command.args([
        format!("-max_total_time={seconds}"),
        "-timeout=10".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]);
    command.arg(&corpus).args(target.seeds.iter().map(|seeds| Path::new(&tree.root).join(seeds)));
    let mut figures = Figures::default();
    let good = program::watch(&mut command, |line| figures.take(line))?;
    anyhow::ensure!(good, "{} broke; its input is in {}", target.name, broken.display());
    anyhow::ensure!(figures.executions > 0, "{} says nothing of how often it ran", target.name);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn the_figures_of_a_line_are_read_and_other_lines_change_nothing() {
        let mut figures = Figures::default();
        figures.take("#8192\tpulse  cov: 1017 ft: 2741 corp: 214/13Kb lim: 80 exec/s: 4096 rss: 48Mb");
        let read = Figures { executions: 8192, coverage: 1017, inputs: 214 };
        assert_eq!(figures, read);
        figures.take("INFO: seed corpus: files: 23");
        figures.take("stat::number_of_executed_units: 9");
        assert_eq!(figures, read);
        figures.take("#9000\tDONE   cov: 1020 ft: 2750 corp: 215/13Kb lim: 80 exec/s: 4096 rss: 48Mb");
        assert_eq!(figures, Figures { executions: 9000, coverage: 1020, inputs: 215 });
    }
}
