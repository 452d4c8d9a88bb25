//! `bundle`: the images (from the recipes in `bundle/`) and the bundle a host carries.
//!
//! It decides nothing about what is in an image or in the bundle: recipes and `bundle/bundle.toml.in` do. Called by
//! `cargo xtask bundle` and by `up`.

mod clean;
mod debian;
mod image;
mod recipe;

use std::fs;
use std::path::PathBuf;

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
    let mut kitchen =
        Kitchen::new(tree.root.join("bundle"), tree.dist.clone(), cache()?, cli.refresh, cli.again);
    match cli.what {
        None => anyhow::bail!("the bundle is not built yet"),
        Some(What::Nodes { names }) => {
            let names = if names.is_empty() { NODE_IMAGES.map(str::to_owned).to_vec() } else { names };
            names.iter().try_for_each(|name| {
                write_archive(&mut kitchen, name, &tree.dist.join("node-images").join(format!("{name}.tar")))
            })
        }
        Some(What::Image { name, out }) => write_archive(&mut kitchen, &name, &out),
    }
}

/// Where images and packages are kept between builds, outside the checkout.
fn cache() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("NOVOX_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("novox-mesh")))
        .or_else(|| Some(set("HOME")?.join(".cache/novox-mesh")))
        .context("say where to keep images in NOVOX_CACHE: neither XDG_CACHE_HOME nor HOME is set")
}

fn write_archive(kitchen: &mut Kitchen, name: &str, out: &std::path::Path) -> anyhow::Result<()> {
    let layout = kitchen.image(name)?;
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
