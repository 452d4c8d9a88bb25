//! `mesh-bench`: measures the mesh on real nodes, beside its peers; a table on standard output and JSON in a file.
//!
//! It works inside labs of its own, so that neither `/etc` nor the systemd of this machine is touched, and shows no figure
//! that was not measured in this run. A row that could not be measured is said with its reason and makes the exit code 1;
//! an aim that is missed is shown as such and does not. Called by `cargo xtask bench`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a person at a terminal")]

mod cost;
mod ground;
mod machine;
mod measure;
mod peer;
mod process;
mod program;
mod record;
mod row;
mod samples;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use mesh_lab::Progress;

use crate::ground::Ground;
use crate::machine::Machine;
use crate::measure::Measure;

/// Measure the mesh on real nodes, beside its peers.
#[derive(Parser)]
#[command(name = "mesh-bench", version, max_term_width = 100)]
struct Cli {
    /// Only these, with commas between
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Measure>,
    /// Where the programs, the bundle and the node images are
    #[arg(long, env = "MESH_DIST", default_value = "dist", value_name = "FOLDER")]
    dist: PathBuf,
    /// Where the figures go as JSON [default: bench.json in that folder]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("mesh-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let machine = Machine::this();
    let cache = cache_folder()?;
    let mut ground = Ground::new(&cli.dist, cache, Progress::to(std::io::stderr()));
    let lines = measure::all(&mut ground, &cli.only);
    drop(ground);
    println!("{}", table::text(&machine, &lines));
    let path = cli.json.clone().unwrap_or_else(|| cli.dist.join("bench.json"));
    record::write(&path, &machine, &lines)?;
    println!("written to {}", path.display());
    let whole = lines.iter().all(|line| line.missing().is_none());
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where peers are kept between runs: `$XDG_CACHE_HOME/novox-mesh/bench`, else below `~/.cache`.
fn cache_folder() -> anyhow::Result<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    let base = base.context("neither XDG_CACHE_HOME nor HOME names a folder; set one of them")?;
    Ok(base.join("novox-mesh/bench"))
}
