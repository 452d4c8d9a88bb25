//! `build`: the static programs into `dist/`, each verified to be static before it gets there.
//!
//! It never puts a program into `dist/` that it did not verify, and replaces one in a single step, so that a running
//! copy is left alone. Called by a person, and by the stages of `up` and `check`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::elf;
use crate::program;
use crate::tree::Tree;

/// The programs the repository delivers; each is a package of the same name, built once it exists.
const PROGRAMS: [&str; 4] = ["mesh", "mesh-host", "mesh-control", "mesh-lab"];

/// Builds the named programs, or all that exist.
pub(crate) fn deliver(tree: &Tree, wanted: &[&str]) -> anyhow::Result<()> {
    let target = host_triple()?;
    let mut cargo = tree.cargo();
    cargo.args(["build", "--locked", "--release", "--target", &target]);
    for program in wanted {
        cargo.args(["--package", program, "--bin", program]);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rustflags().join("\x1f")).env_remove("RUSTFLAGS");
    program::run(&mut cargo)?;

    fs::create_dir_all(&tree.dist).with_context(|| format!("make {}", tree.dist.display()))?;
    for program in wanted {
        let built = tree.target.join(&target).join("release").join(program);
        let bytes = fs::read(&built).with_context(|| format!("read {}", built.display()))?;
        elf::ensure_static(&bytes).with_context(|| format!("refuse to deliver {program}"))?;
        let place = tree.dist.join(program);
        let fresh = tree.dist.join(format!(".{program}.new"));
        fs::copy(&built, &fresh).with_context(|| format!("write {}", fresh.display()))?;
        fs::rename(&fresh, &place).with_context(|| format!("put {} in place", place.display()))?;
        println!("dist/{program}: {:.1} MB, static", megabytes(bytes.len()));
    }
    Ok(())
}

/// `cargo xtask build [PROGRAM…]`.
pub(crate) fn run(tree: &Tree, named: &[String]) -> anyhow::Result<()> {
    let wanted: Vec<&str> = if named.is_empty() {
        PROGRAMS.into_iter().filter(|program| tree.has_package(program)).collect()
    } else {
        named.iter().map(String::as_str).collect()
    };
    for program in &wanted {
        if !PROGRAMS.contains(program) {
            bail!("no program {program}: there are {}", PROGRAMS.join(", "));
        }
    }
    if wanted.is_empty() {
        bail!("there is no program to build yet");
    }
    deliver(tree, &wanted)
}

/// The triple of this machine. It is given to cargo by name, so that the flags below reach the programs but not the
/// build scripts and macros, which must stay dynamic.
fn host_triple() -> anyhow::Result<String> {
    let text = program::output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host triple")?.to_owned())
}

/// Static, and without the paths of the machine that built it: two machines must get the same bytes. The checkout's own
/// path needs no mapping, because cargo names its files relative to the root.
fn rustflags() -> Vec<String> {
    let mut flags = vec!["-C".to_owned(), "target-feature=+crt-static".to_owned()];
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cargo_home = variable("CARGO_HOME").or_else(|| variable("HOME").map(|home| home.join(".cargo")));
    flags.extend(cargo_home.map(|home| format!("--remap-path-prefix={}=/cargo", home.display())));
    flags
}

#[expect(clippy::cast_precision_loss, reason = "a size for a person to read, to one digit")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}
