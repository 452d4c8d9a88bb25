//! The repository's only automation: `cargo xtask COMMAND`, each command one module.
//!
//! It runs compilers, tests and the lab and says how long each took. It never does anything a person could not type by
//! hand, and never hides the command it ran. Called by the Makefile, by `.ci/run` and by people.

#![expect(clippy::print_stdout, reason = "a program for a person at a terminal: its output is its interface")]

mod bench;
mod build;
mod bundle;
mod check;
mod counts;
mod elf;
mod fuzz;
mod lab;
mod package;
mod program;
mod setup;
mod stage;
mod test;
mod tree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::setup::Purpose;
use crate::tree::Tree;

/// Build, bundle, raise and check Novox Mesh.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what is missing from Debian, by name, and say so
    Setup {
        /// What the machine is to be able to do
        #[arg(long = "for", value_enum, default_value_t = Purpose::Check)]
        purpose: Purpose,
    },
    /// Build the static programs into dist/
    Build {
        /// Only these programs (all that exist by default)
        programs: Vec<String>,
    },
    /// Build the images and the bundle a host carries
    #[command(visible_alias = "image")]
    Bundle {
        /// Handed on to the bundle's own parser; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Build the Debian package of the host into dist/, from the program that is there
    Package,
    /// Raise a mesh of three real nodes on this machine
    Up {
        /// Handed on to `mesh-lab up`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Take the lab down and leave nothing behind
    Down {
        /// Handed on to `mesh-lab down`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run the tests that need no lab
    Test {
        /// Handed on to `cargo nextest run`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Everything CI runs, in stages, with one pass of the lab
    #[command(visible_alias = "ci")]
    Check {
        /// Run only these stages
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// What is too long for `check`
    CheckLong {
        /// Run only these stages
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Feed what reads foreign bytes with bytes that nobody wrote
    Fuzz {
        /// Only these targets
        targets: Vec<String>,
        /// How long each runs
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Measure, print a table and write JSON
    Bench {
        /// Handed on to the bench program
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Look for known vulnerabilities in what we depend on (needs the advisory database)
    Advisories,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let tree = Tree::find()?;
    match command {
        Command::Setup { purpose } => setup::run(purpose)?,
        Command::Build { programs } => build::run(&tree, &programs)?,
        Command::Bundle { args } => bundle::run(&tree, &args)?,
        Command::Package => package::run(&tree)?,
        Command::Up { args } => return lab::up(&tree, &args),
        Command::Down { args } => lab::down(&tree, &args)?,
        Command::Test { args } => return test::run(&tree, &args),
        Command::Check { only } => return check::run(&tree, &only),
        Command::CheckLong { only } => return check::run_long(&tree, &only),
        Command::Fuzz { targets, seconds } => fuzz::run(&tree, seconds, &targets)?,
        Command::Bench { args } => return bench::run(&tree, &args),
        Command::Advisories => check::advisories(&tree)?,
    }
    Ok(ExitCode::SUCCESS)
}
