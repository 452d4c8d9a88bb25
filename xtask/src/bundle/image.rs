//! Cooks one image from its recipe: packages by mmdebstrap, then our own files, then one layer written by `mesh-bundle`.
//!
//! Finished images are kept in the cache under a key made of everything that goes into them (the recipe, its files, the
//! package versions, this code's version), so a key never means two things and an old entry is never wrong. Everything
//! here works the same without a cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Context as _;
use mesh_bundle::hashing::digest_of;
use mesh_bundle::tree::{Content, Kind, Node};
use mesh_bundle::{ImageDraft, Layout, LayoutWriter, Tree, oci};

use super::cache;
use super::clean::clean;
use super::debian::{Package, Suite};
use super::recipe::{Base, Debian, Recipe, User, mode};
use crate::program;

/// The one time in every image: 2025-01-01. Fixed, so that equal package versions give equal digests on any day.
const EPOCH: u64 = 1_735_689_600;
/// The same in RFC 3339.
const CREATED: &str = "2025-01-01T00:00:00Z";
/// Raised when this code changes what comes out of the same recipe.
const COOK: &str = "1";

/// The kitchen: where things are, and the suites opened so far.
pub(crate) struct Kitchen {
    /// `bundle/`.
    pub(crate) recipes: PathBuf,
    /// `dist/`.
    pub(crate) dist: PathBuf,
    /// The cache of images and packages.
    pub(crate) cache: PathBuf,
    /// Fetch package lists even when they are fresh.
    pub(crate) refresh: bool,
    /// Cook even when the cache has it.
    pub(crate) again: bool,
    suites: Mutex<BTreeMap<String, Arc<Suite>>>,
}

impl Kitchen {
    /// Nothing opened yet.
    pub(crate) fn new(recipes: PathBuf, dist: PathBuf, cache: PathBuf, refresh: bool, again: bool) -> Self {
        Self { recipes, dist, cache, refresh, again, suites: Mutex::default() }
    }

    /// The suite, opened once.
    pub(crate) fn suite(&self, name: &str) -> anyhow::Result<Arc<Suite>> {
        let mut suites = self.suites.lock().map_err(|_| anyhow::anyhow!("another image failed"))?;
        if let Some(suite) = suites.get(name) {
            return Ok(Arc::clone(suite));
        }
        let suite = Arc::new(Suite::open(&self.cache, name, self.refresh)?);
        suites.insert(name.to_owned(), Arc::clone(&suite));
        Ok(suite)
    }

    /// The layouts of these images, in order; two are cooked at a time, since installing packages keeps one core busy.
    pub(crate) fn images(&self, names: &[&str]) -> anyhow::Result<Vec<Layout>> {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some((at, name)) =
                        Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, names.get(at)?)))
                    {
                        let layout = self.image(name).with_context(|| format!("build the image {name}"));
                        if let Ok(mut done) = done.lock() {
                            done.insert(at, layout);
                        }
                    }
                });
            }
        });
        done.into_inner()
            .map_err(|_| anyhow::anyhow!("a build of an image panicked"))?
            .into_values()
            .collect()
    }

    /// The layout that holds the recipe's image alone, from the cache or cooked now.
    pub(crate) fn image(&self, name: &str) -> anyhow::Result<Layout> {
        let recipe = Recipe::read(&self.recipes, name)?;
        let packages = match &recipe.content.debian {
            Some(debian) => self.suite(&debian.suite)?.resolve(debian)?,
            None => Vec::new(),
        };
        let kept = self.cache.join("images").join(format!("{name}-{}", self.key(&recipe, &packages)?));
        if !self.again
            && let Ok(layout) = Layout::open(&kept)
        {
            match layout.verify() {
                Ok(()) => return Ok(layout),
                Err(error) => println!("{name}: the cached image is not used: {error}"),
            }
        }
        println!("{name}: cooking from {} packages", packages.len());
        let begun = Instant::now();
        let folder = self.cache.join("images");
        let work = cache::work_folder(&folder, "cooking")?;
        let tree = self.tree(&recipe, &packages, work.path())?;
        let layout = work.path().join("layout");
        write_image(&recipe, &packages, &tree, &layout)?;
        if kept.exists() {
            fs::remove_dir_all(&kept)?;
        }
        fs::rename(&layout, &kept).with_context(|| format!("keep {}", kept.display()))?;
        cache::prune(&folder, name)?;
        println!("{name}: cooked in {:.1} s", begun.elapsed().as_secs_f64());
        Ok(Layout::open(&kept)?)
    }

    fn key(&self, recipe: &Recipe, packages: &[Package]) -> anyhow::Result<String> {
        let architecture = mesh_bundle::layout::architecture();
        let mut lines =
            vec![COOK.to_owned(), EPOCH.to_string(), architecture.to_owned(), recipe.text.clone()];
        for file in &recipe.content.file {
            lines.push(format!("{} {}", file.path, digest_of(&recipe.bytes_of(file, &self.dist)?)));
        }
        lines.extend(packages.iter().map(Package::line));
        Ok(digest_of(lines.join("\n").as_bytes()).hex()[..cache::KEY_LENGTH].to_owned())
    }

    fn tree(&self, recipe: &Recipe, packages: &[Package], work: &Path) -> anyhow::Result<Tree> {
        let mut tree = match &recipe.content.debian {
            Some(debian) => install(&*self.suite(&debian.suite)?, debian, packages, work)?,
            None => Tree::default(),
        };
        let content = &recipe.content;
        clean(&mut tree, &content.drop, &content.keep);
        let owners = Owners::read(&tree);
        for directory in &content.directory {
            let mut node = Node::of_root(Kind::Directory, mode(&directory.mode)?);
            if let Some(owner) = &directory.owner {
                (node.uid, node.gid) = owners.find(owner)?;
            }
            tree.insert(&directory.path, node);
        }
        for file in &content.file {
            let bytes = recipe.bytes_of(file, &self.dist)?;
            tree.insert(
                &file.path,
                Node::of_root(Kind::File(Arc::new(Content::Bytes(bytes))), mode(&file.mode)?),
            );
        }
        for link in &content.link {
            tree.insert(&link.path, Node::of_root(Kind::Symlink(link.to.clone().into()), 0o777));
        }
        Ok(tree)
    }
}

/// The files of exactly `packages`.
fn install(suite: &Suite, debian: &Debian, packages: &[Package], work: &Path) -> anyhow::Result<Tree> {
    let repository = work.join("repository");
    suite.fetch(debian, packages, &repository)?;
    let root = work.join("root.tar");
    if debian.base == Base::Unpacked {
        let mut tree = Tree::default();
        for package in packages {
            let out = fs::File::create(&root).with_context(|| format!("make {}", root.display()))?;
            let file = repository.join("pool").join(package.file_name());
            program::run(Command::new("dpkg-deb").arg("--fsys-tarfile").arg(file).stdout(out))?;
            tree.extend(read_tree(&root)?);
            fs::remove_file(&root)?;
        }
        return Ok(tree);
    }
    let mut command = Command::new("mmdebstrap");
    command.arg("--quiet");
    command.arg(if debian.base == Base::Minbase { "--variant=minbase" } else { "--variant=essential" });
    command.arg(format!("--include={}", debian.packages.join(",")));
    // Debian 12 has its folders merged from outside the packages; from Debian 13 on the packages do it themselves.
    if packages.iter().any(|package| package.name == "usr-is-merged") {
        command.arg("--hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr");
    }
    for user in &debian.user {
        command.arg(format!("--essential-hook={}", add_user(user)?));
    }
    command.arg(&debian.suite).arg(&root).arg(suite.source_line(&repository));
    command.env("SOURCE_DATE_EPOCH", EPOCH.to_string()).env("LC_ALL", "C.UTF-8").env("TMPDIR", work);
    let log = work.join("log");
    let said = fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
    command.stdout(said.try_clone()?).stderr(said);
    if let Err(error) = program::run(&mut command) {
        return Err(error.context(fs::read_to_string(&log).unwrap_or_default()));
    }
    fs::remove_dir_all(&repository)?;
    read_tree(&root)
}

fn read_tree(tar: &Path) -> anyhow::Result<Tree> {
    let file = fs::File::open(tar).with_context(|| format!("open {}", tar.display()))?;
    Tree::read_tar(file).with_context(|| format!("read {}", tar.display()))
}

/// A line of shell for mmdebstrap, which hands the image's folder in as `$1`. Packages that want the account find it.
fn add_user(user: &User) -> anyhow::Result<String> {
    let User { name, id, home } = user;
    anyhow::ensure!(
        name.bytes().all(|b| b.is_ascii_lowercase())
            && home.bytes().all(|b| b.is_ascii_lowercase() || b == b'/'),
        "user {name}: name and home are lower-case letters"
    );
    Ok(format!(
        "echo '{name}:x:{id}:' >>\"$1/etc/group\" && echo '{name}:!::' >>\"$1/etc/gshadow\" \
         && echo '{name}:x:{id}:{id}::{home}:/usr/sbin/nologin' >>\"$1/etc/passwd\" \
         && echo '{name}:!:::::::' >>\"$1/etc/shadow\""
    ))
}

fn write_image(recipe: &Recipe, packages: &[Package], tree: &Tree, into: &Path) -> anyhow::Result<()> {
    let mut annotations = BTreeMap::from([(oci::WHY.to_owned(), recipe.content.why.clone())]);
    if !packages.is_empty() {
        let lines: Vec<String> = packages.iter().map(Package::line).collect();
        annotations.insert(oci::PACKAGES.to_owned(), lines.join("\n"));
    }
    let mut writer = LayoutWriter::create(into)?;
    writer.add(&ImageDraft {
        name: &recipe.image_name(),
        architecture: mesh_bundle::layout::architecture(),
        epoch: EPOCH,
        created: CREATED,
        run: recipe.content.run.to_oci(),
        annotations,
        tree,
    })?;
    Ok(writer.finish()?)
}

/// The users of the image, by name.
struct Owners(BTreeMap<String, (u64, u64)>);

impl Owners {
    fn read(tree: &Tree) -> Self {
        let bytes = match tree.get("etc/passwd").map(|node| &node.kind) {
            Some(Kind::File(content)) => content.read().unwrap_or_default(),
            _ => Vec::new(),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let users = text.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            Some((
                (*fields.first()?).to_owned(),
                (fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?),
            ))
        });
        Self(users.collect())
    }

    fn find(&self, name: &str) -> anyhow::Result<(u64, u64)> {
        self.0.get(name).copied().with_context(|| format!("the image has no user {name:?}"))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn kitchen(root: &Path, again: bool) -> Kitchen {
        Kitchen::new(root.join("bundle"), root.join("dist"), root.join("cache"), false, again)
    }

    /// A recipe without packages, as the control plane's is.
    fn prepare(root: &Path) {
        fs::create_dir_all(root.join("bundle/control")).unwrap();
        fs::create_dir_all(root.join("dist")).unwrap();
        fs::write(root.join("dist/program"), "static").unwrap();
        let recipe = "why = \"a test\"\n[[file]]\npath = \"/program\"\nmode = \"0755\"\ndist = \"program\"\n\
                      [[directory]]\npath = \"/tmp\"\nmode = \"1777\"\n[run]\nentrypoint = [\"/program\"]\n";
        fs::write(root.join("bundle/control/recipe.toml"), recipe).unwrap();
    }

    fn digest(root: &Path, again: bool) -> String {
        kitchen(root, again).image("control").unwrap().only().unwrap().digest().to_string()
    }

    #[test]
    fn the_same_recipe_gives_the_same_digest_with_the_cache_without_it_and_elsewhere() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        prepare(here.path());
        prepare(there.path());
        let first = digest(here.path(), false);
        assert_eq!(digest(here.path(), false), first);
        assert_eq!(digest(here.path(), true), first);
        assert_eq!(digest(there.path(), false), first);
    }

    #[test]
    fn a_changed_program_is_another_image() {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let first = digest(root.path(), false);
        fs::write(root.path().join("dist/program"), "static!").unwrap();
        assert_ne!(digest(root.path(), false), first);
    }

    #[test]
    fn a_damaged_cache_is_cooked_anew_and_never_believed() {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        let layout = kitchen(root.path(), false).image("control").unwrap();
        let image = layout.only().unwrap();
        let key = fs::read_dir(root.path().join("cache/images")).unwrap().next().unwrap().unwrap().path();
        let blob = key.join("blobs/sha256").join(image.manifest.layers[0].digest.hex());
        let mut bytes = fs::read(&blob).unwrap();
        bytes[700] ^= 1;
        fs::write(&blob, bytes).unwrap();
        let again = kitchen(root.path(), false).image("control").unwrap();
        again.verify().unwrap();
        assert_eq!(again.only().unwrap().digest(), image.digest());
    }

    #[test]
    fn a_program_that_was_not_built_is_named_with_what_builds_it() {
        let root = tempfile::tempdir().unwrap();
        prepare(root.path());
        fs::remove_file(root.path().join("dist/program")).unwrap();
        let refusal = format!("{:#}", kitchen(root.path(), false).image("control").err().unwrap());
        assert!(refusal.contains("cargo xtask build program"), "{refusal}");
    }
}
