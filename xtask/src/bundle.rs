//! `bundle`: the images (from the recipes in `bundle/`) and the bundle a host carries.
//!
//! It decides nothing about what is in an image or in the bundle: recipes and `bundle/bundle.in.toml` do. Called by
//! `cargo xtask bundle` and by `up`.

mod assemble;
mod cache;
mod clean;
mod compare;
mod debian;
mod image;
mod recipe;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mesh_bundle::Layout;

use crate::tree::Tree;
use image::Kitchen;

#[derive(Parser)]
#[command(name = "cargo xtask bundle", disable_help_subcommand = true)]
struct Cli {
    /// Fetch Debian's package lists even if those at hand are less than a day old
    #[arg(long, global = true)]
    refresh: bool,
    /// Build images even if the cache has them
    #[arg(long, global = true)]
    again: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Build the images of the lab's machines into dist/node-images/
    Nodes {
        /// Which (all by default)
        names: Vec<String>,
    },
    /// Build one image by its recipe's name and write it as an OCI archive
    Image {
        /// A folder of `bundle/`
        name: String,
        /// The archive
        out: PathBuf,
    },
    /// Name the packages by which the images of two bundles (or layouts, or archives) differ
    Diff {
        /// A bundle, an OCI layout or an OCI archive
        left: PathBuf,
        /// Another
        right: PathBuf,
    },
}

/// The images of the lab's machines, which no bundle carries.
const NODE_IMAGES: [&str; 2] = ["node", "node-bare"];

/// `cargo xtask bundle [ARGUMENTS…]`.
pub(crate) fn run(tree: &Tree, args: &[String]) -> anyhow::Result<()> {
    let words = std::iter::once("cargo xtask bundle").chain(args.iter().map(String::as_str));
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            println!("{error}");
            return Ok(());
        }
        Err(error) => anyhow::bail!("{error}"),
    };
    let kitchen =
        Kitchen::new(tree.root.join("bundle"), tree.dist.clone(), cache::place()?, cli.refresh, cli.again);
    match cli.what {
        None => {
            assemble::assemble(&kitchen, &tree.dist.join("bundle"))?;
            nodes(&kitchen, tree, &NODE_IMAGES)
        }
        Some(What::Nodes { names }) if names.is_empty() => nodes(&kitchen, tree, &NODE_IMAGES),
        Some(What::Nodes { names }) => {
            nodes(&kitchen, tree, &names.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Some(What::Image { name, out }) => write_archive(&kitchen.image(&name)?, &name, &out),
        Some(What::Diff { left, right }) => {
            let lines = compare::compare(&open_any(&left)?, &open_any(&right)?)?;
            for line in &lines {
                println!("{line}");
            }
            anyhow::ensure!(lines.is_empty(), "{} and {} differ", left.display(), right.display());
            println!("no difference");
            Ok(())
        }
    }
}

fn nodes(kitchen: &Kitchen, tree: &Tree, names: &[&str]) -> anyhow::Result<()> {
    let folder = tree.dist.join("node-images");
    let layouts = kitchen.images(names)?;
    names
        .iter()
        .zip(layouts)
        .try_for_each(|(name, layout)| write_archive(&layout, name, &folder.join(format!("{name}.tar"))))
}

/// A bundle's layout, or the layout or archive itself.
fn open_any(path: &Path) -> anyhow::Result<Layout> {
    let inside = path.join("oci");
    Ok(Layout::open(if inside.is_dir() { &inside } else { path })?)
}

fn write_archive(layout: &Layout, name: &str, out: &Path) -> anyhow::Result<()> {
    let image = layout.only()?;
    let same = Layout::open(out)
        .and_then(|present| present.only())
        .is_ok_and(|there| there.digest() == image.digest());
    if !same {
        if let Some(folder) = out.parent() {
            fs::create_dir_all(folder)?;
        }
        let unfinished = out.with_extension("unfinished");
        let file = fs::File::create(&unfinished).with_context(|| format!("make {}", unfinished.display()))?;
        layout.write_archive(
            &image,
            &format!("mesh/{name}"),
            std::io::BufWriter::with_capacity(1 << 20, file),
        )?;
        fs::rename(&unfinished, out)?;
    }
    println!("{}  mesh/{name}@{}  config {}", out.display(), image.digest(), image.config());
    Ok(())
}
