//! `setup`: installs what is missing from Debian, by name, and says what each package is for.
//!
//! It never removes or upgrades anything, never starts a service, never fetches from anywhere but the package sources the
//! machine already trusts, and never asks. The servers among the packages are for tests, which start their own; those of
//! the mesh are images of the bundle. Called by a person and as the first stage of `up` and `check`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::ValueEnum;

use crate::program;

/// What the machine is to be able to do; each includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Purpose {
    /// Compile the programs
    Build,
    /// Build images and raise the lab
    Lab,
    /// Run every test
    Check,
    /// Run what is too long for every change
    Long,
}

/// A package of Debian, since which purpose it is needed, and why.
const PACKAGES: &[(&str, Purpose, &str)] = &[
    ("gcc", Purpose::Build, "links Rust programs, compiles the few C files of ring"),
    ("libc6-dev", Purpose::Build, "the static C library the programs carry"),
    ("ca-certificates", Purpose::Build, "cargo fetches crates over TLS"),
    ("podman", Purpose::Lab, "runs the lab's nodes, and containers inside them"),
    ("runc", Purpose::Lab, "the runtime that works with cgroups of both versions"),
    ("netavark", Purpose::Lab, "podman's networks"),
    ("aardvark-dns", Purpose::Lab, "names on podman's networks"),
    ("iptables", Purpose::Lab, "netavark's rules"),
    ("nftables", Purpose::Lab, "cuts and heals nodes"),
    ("iproute2", Purpose::Lab, "looks at and shapes the lab's networks"),
    ("mmdebstrap", Purpose::Lab, "builds images from Debian packages"),
    ("debian-archive-keyring", Purpose::Lab, "verifies those packages"),
    ("skopeo", Purpose::Lab, "reads images given with --image"),
    ("postgresql", Purpose::Check, "the server the stores' tests run on"),
    ("g++", Purpose::Long, "compiles libFuzzer"),
    ("rabbitmq-server", Purpose::Check, "the server the link's tests run on"),
];

/// Installs what is missing for the purpose.
pub(crate) fn run(purpose: Purpose) -> anyhow::Result<()> {
    install_packages(purpose)?;
    if purpose >= Purpose::Check {
        install_tools()?;
    }
    Ok(())
}

fn install_packages(purpose: Purpose) -> anyhow::Result<()> {
    let missing: Vec<_> =
        PACKAGES.iter().filter(|(name, since, _)| *since <= purpose && !is_installed(name)).collect();
    if missing.is_empty() {
        println!("every Debian package is there");
        return Ok(());
    }
    for (name, _, why) in &missing {
        println!("missing: {name} ({why})");
    }
    let names: Vec<_> = missing.iter().map(|(name, _, _)| *name).collect();
    let by_hand = format!("apt-get update && apt-get install --no-install-recommends {}", names.join(" "));
    if !program::succeeds(Command::new("apt-get").arg("--version")) {
        bail!("this machine has no apt-get; install what these Debian packages hold: {}", names.join(" "));
    }
    if !is_root() {
        bail!("installing packages needs root; run as root: {by_hand}");
    }
    program::run(apt().arg("update"))?;
    let _services_stay_down = NoServices::begin()?;
    program::run(apt().args(["install", "--yes", "--no-install-recommends"]).args(&names))
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["--quiet", "--option=Dpkg::Use-Pty=0"]);
    apt
}

/// While it lives, Debian's packages start no service: a server on its usual port is in the way of whoever wants it.
struct NoServices;

impl NoServices {
    /// Debian's way to forbid it (invoke-rc.d(8)). A policy that stands there already is the machine's, and stays.
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    fn begin() -> anyhow::Result<Option<Self>> {
        if Path::new(Self::POLICY).exists() {
            return Ok(None);
        }
        let write = || {
            fs::write(Self::POLICY, "#!/bin/sh\nexit 101\n")?;
            fs::set_permissions(Self::POLICY, fs::Permissions::from_mode(0o755))
        };
        write().with_context(|| format!("write {}", Self::POLICY))?;
        Ok(Some(Self))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(Self::POLICY) {
            println!(
                "{} could not be removed ({error}): do it by hand, or no service starts after its installation",
                Self::POLICY
            );
        }
    }
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    query.output().is_ok_and(|said| said.status.success() && said.stdout == b"installed")
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|text| {
        text.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
    })
}

/// A tool built from its crate when the machine has none, and the features it is built with. A build without optimisation
/// takes two minutes on two cores instead of ten, and these tools spend their time elsewhere.
const TOOLS: &[(&str, &[&str], &str)] = &[
    ("nextest", &["--no-default-features", "--features", "default-no-update"], "runs the tests"),
    ("deny", &[], "judges licences, bans and sources"),
];

fn install_tools() -> anyhow::Result<()> {
    for (tool, features, why) in TOOLS {
        if program::succeeds(Command::new("cargo").args([tool, "--version"])) {
            println!("cargo-{tool} is there");
            continue;
        }
        println!("missing: cargo-{tool} ({why}); building it takes some minutes, once");
        let mut cargo = Command::new("cargo");
        cargo.env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.args(["install", "--locked", "--debug"]).args(*features);
        program::run(cargo.arg(format!("cargo-{tool}")))?;
    }
    Ok(())
}
