//! A recipe: what one image is made of, read from `bundle/<name>/recipe.toml`. It only reads; [`super::image`] cooks.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mesh_bundle::oci;
use serde::Deserialize;

/// The parsed recipe and the folder it stands in.
pub(crate) struct Recipe {
    /// The folder's name, which is also the image's: `store` becomes `mesh/store`.
    pub(crate) name: String,
    /// The folder, in which the recipe's files are found.
    pub(crate) folder: PathBuf,
    /// The recipe's own text, for the cache's key.
    pub(crate) text: String,
    /// What it says.
    pub(crate) content: Content,
}

/// `recipe.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    /// Why the image exists, in a sentence.
    pub(crate) why: String,
    /// The Debian packages, or none for an image of files only.
    pub(crate) debian: Option<Debian>,
    /// Paths to drop beyond those that every image drops; `*` stands for any part of one name.
    #[serde(default)]
    pub(crate) drop: Vec<String>,
    /// Exceptions to all dropping.
    #[serde(default)]
    pub(crate) keep: Vec<String>,
    /// Folders to make.
    #[serde(default)]
    pub(crate) directory: Vec<Directory>,
    /// Files to add.
    #[serde(default)]
    pub(crate) file: Vec<File>,
    /// Symbolic links to add.
    #[serde(default)]
    pub(crate) link: Vec<Link>,
    /// What the engine runs.
    #[serde(default)]
    pub(crate) run: Run,
}

/// Which packages, from where.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Debian {
    /// `bookworm` or `trixie`.
    pub(crate) suite: String,
    /// How much comes without being named.
    pub(crate) base: Base,
    /// Beyond the base, with everything they depend on and nothing they merely recommend.
    pub(crate) packages: Vec<String>,
    /// Accounts whose numbers are fixed before packages would choose one.
    #[serde(default)]
    pub(crate) user: Vec<User>,
}

/// An account of the system, with a group of the same name and number.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    /// Its name: lower-case letters.
    pub(crate) name: String,
    /// Its number.
    pub(crate) id: u32,
    /// Its home.
    pub(crate) home: String,
}

/// How much comes without being named.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Base {
    /// Nothing, not even what the packages depend on: their files are unpacked and no script of theirs runs.
    Unpacked,
    /// What Debian marks essential.
    Essential,
    /// That, what has priority "required", and apt: a machine that can install more.
    Minbase,
}

/// A folder of the image.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    /// Where, absolute.
    pub(crate) path: String,
    /// Octal permission bits.
    pub(crate) mode: String,
    /// `user` by name, as known inside the image.
    pub(crate) owner: Option<String>,
}

/// A file of the image.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Where, absolute.
    pub(crate) path: String,
    /// Octal permission bits.
    pub(crate) mode: String,
    /// A file beside the recipe.
    pub(crate) from: Option<String>,
    /// A program that `cargo xtask build` left in `dist/`.
    pub(crate) dist: Option<String>,
    /// The content itself.
    pub(crate) text: Option<String>,
}

/// A symbolic link of the image.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Link {
    /// Where, absolute.
    pub(crate) path: String,
    /// Where it points.
    pub(crate) to: String,
}

/// What the engine runs.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    user: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    entrypoint: Vec<String>,
    #[serde(default)]
    cmd: Vec<String>,
    working_dir: Option<String>,
    stop_signal: Option<String>,
}

impl Run {
    /// In the words of the image's configuration.
    pub(crate) fn to_oci(&self) -> oci::Run {
        oci::Run {
            user: self.user.clone(),
            env: self.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            entrypoint: self.entrypoint.clone(),
            cmd: self.cmd.clone(),
            working_dir: self.working_dir.clone(),
            stop_signal: self.stop_signal.clone(),
        }
    }
}

impl Recipe {
    /// Reads `bundle/<name>/recipe.toml`.
    pub(crate) fn read(bundle: &Path, name: &str) -> anyhow::Result<Self> {
        let folder = bundle.join(name);
        let path = folder.join("recipe.toml");
        let text =
            fs::read_to_string(&path).with_context(|| format!("read the recipe {}", path.display()))?;
        let content =
            toml::from_str(&text).with_context(|| format!("understand the recipe {}", path.display()))?;
        Ok(Self { name: name.to_owned(), folder, text, content })
    }

    /// The image's name.
    pub(crate) fn image_name(&self) -> String {
        format!("mesh/{}", self.name)
    }

    /// The bytes of one of its files.
    pub(crate) fn bytes_of(&self, file: &File, dist: &Path) -> anyhow::Result<Vec<u8>> {
        let path = match (&file.from, &file.dist, &file.text) {
            (Some(from), None, None) => self.folder.join(from),
            (None, Some(program), None) => dist.join(program),
            (None, None, Some(text)) => return Ok(text.clone().into_bytes()),
            _ => anyhow::bail!(
                "{}: file {}: exactly one of from, dist, text",
                self.folder.display(),
                file.path
            ),
        };
        fs::read(&path).with_context(|| match &file.dist {
            Some(program) => format!("read {} (built by `cargo xtask build {program}`)", path.display()),
            None => format!("read {}", path.display()),
        })
    }
}

/// Octal text as a number.
pub(crate) fn mode(text: &str) -> anyhow::Result<u32> {
    u32::from_str_radix(text, 8).with_context(|| format!("{text:?} is no octal mode"))
}
