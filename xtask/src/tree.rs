//! Where things are: the root of the checkout, the target folder, `dist/`, and which packages exist yet.
//!
//! It only looks; it never makes or removes anything. Every other module asks it for paths instead of building its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The checkout and the folders that belong to it.
pub(crate) struct Tree {
    /// The folder that holds the virtual manifest.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target: PathBuf,
    /// Where the finished static programs stand.
    pub(crate) dist: PathBuf,
}

impl Tree {
    /// Finds the checkout this program was built from.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(1)
            .context("xtask stands in a folder of the checkout")?
            .to_path_buf();
        let dist = root.join("dist");
        let target = target_folder(&root);
        Ok(Self { root, target, dist })
    }

    /// Whether a package of that name exists in this tree.
    pub(crate) fn has_package(&self, name: &str) -> bool {
        self.root.join("crates").join(name).join("Cargo.toml").is_file()
    }

    /// `cargo` with this tree as its place and its target folder set.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}

/// `CARGO_TARGET_DIR` if set, else the cache that checkouts of one person share if it exists, else `target/`.
fn target_folder(root: &Path) -> PathBuf {
    if let Some(set) = std::env::var_os("CARGO_TARGET_DIR").filter(|set| !set.is_empty()) {
        return root.join(set);
    }
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|set| !set.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    match cache.map(|cache| cache.join("novox-mesh/target")) {
        Some(shared) if shared.is_dir() => shared,
        _ => root.join("target"),
    }
}
