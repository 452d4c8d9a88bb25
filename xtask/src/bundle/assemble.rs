//! Puts a bundle together: `bundle.toml` with digests, `oci/` with the images, `apt/` with the packages of step 0, `host/`
//! with the host, to which a machine that gets the bundle can be upgraded.
//!
//! It adds digests and nothing else to what `bundle/bundle.in.toml` says. The finished folder takes the old one's place
//! whole, so that a build cut short leaves a bundle that works. [`super::run`] calls it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use mesh_bundle::{Bundle, Image, Layout, LayoutWriter};
use mesh_wire::Spec;
use serde_json::{Value, json};

use super::cache;
use super::debian::{Package, Suite};
use super::image::Kitchen;
use super::recipe::{Base, Debian};

/// Where the source stands in `bundle/`.
const SOURCE: &str = "bundle.in.toml";

/// The resource whose packages the bundle carries, and the Debian release they are of. A machine of another release
/// needs its own package sources for step 0.
const ENGINE: &str = "package:engine";
const ENGINE_SUITE: &str = "bookworm";

/// The host, in `dist/` and in `host/` of the bundle.
const HOST: &str = "mesh-host";

/// Builds every image of the bundle and writes the bundle to `into`.
pub(crate) fn assemble(kitchen: &Kitchen, into: &Path) -> anyhow::Result<()> {
    let source = kitchen.recipes.join(SOURCE);
    let text = fs::read_to_string(&source).with_context(|| format!("read {}", source.display()))?;
    let names = image_names(&text, &source)?;
    let layouts =
        kitchen.images(&names.iter().map(|name| name.trim_start_matches("mesh/")).collect::<Vec<_>>())?;
    let mut cooked = Vec::new();
    for (name, layout) in names.into_iter().zip(layouts) {
        let image = layout.only()?;
        println!("{name}@{}", image.digest());
        cooked.push((name, layout, image));
    }
    let pins: Vec<(&str, &Image)> = cooked.iter().map(|(name, _, image)| (name.as_str(), image)).collect();
    let bundle = pin(&text, &source, &pins)?;

    let toml = bundle.to_toml()?;
    let packages = packages(kitchen, &bundle)?;
    let host = kitchen.dist.join(HOST);
    let host =
        fs::read(&host).with_context(|| format!("read {}: cargo xtask build makes it", host.display()))?;
    if is_there(into, &toml, packages.as_ref(), &host) {
        println!("{}  is up to date", into.display());
        return Ok(());
    }
    let parent = into.parent().context("the bundle stands in a folder")?;
    let work = cache::work_folder(parent, "bundle")?;
    let mut writer = LayoutWriter::create(&work.path().join("oci"))?;
    for (name, layout, image) in &cooked {
        writer.link(name, layout, image)?;
    }
    writer.finish()?;
    if let Some(Packages { suite, wanted, needed }) = &packages {
        suite.fetch(wanted, needed, &work.path().join("apt"))?;
        fs::write(work.path().join("apt/packages.txt"), lines(needed))?;
    }
    fs::write(work.path().join("bundle.toml"), toml)?;
    fs::create_dir(work.path().join("host"))?;
    let program = work.path().join("host").join(HOST);
    fs::write(&program, host)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    // A temporary folder is its maker's alone; apt reads repositories as a user of its own.
    fs::set_permissions(work.path(), fs::Permissions::from_mode(0o755))?;

    let finished = work.keep();
    let old = parent.join(".bundle-old");
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    if into.exists() {
        fs::rename(into, &old)?;
    }
    fs::rename(&finished, into).with_context(|| format!("put the bundle at {}", into.display()))?;
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    println!("{}", into.display());
    Ok(())
}

/// Whether the bundle is there already. Its images are not read: whoever uses one verifies it.
fn is_there(into: &Path, toml: &str, packages: Option<&Packages>, host: &[u8]) -> bool {
    let holds = |name: &str, text: &str| fs::read_to_string(into.join(name)).is_ok_and(|there| there == text);
    holds("bundle.toml", toml)
        && fs::read(into.join("host").join(HOST)).is_ok_and(|there| there == host)
        && packages.is_none_or(|packages| holds("apt/packages.txt", &lines(&packages.needed)))
        && (packages.is_none() || into.join("apt/Packages").exists())
        && Layout::open(&into.join("oci")).and_then(|layout| layout.images()).is_ok()
}

fn lines(packages: &[Package]) -> String {
    packages.iter().map(|package| package.line() + "\n").collect()
}

/// The bundle that the source describes, with these images' digests in it.
fn pin(text: &str, source: &Path, images: &[(&str, &Image)]) -> anyhow::Result<Bundle> {
    let mut value: Value =
        toml::from_str(text).with_context(|| format!("understand {}", source.display()))?;
    for carried in each(&mut value, "image") {
        let name = carried["name"].as_str().unwrap_or_default().to_owned();
        let (_, image) = images
            .iter()
            .find(|(known, _)| *known == name)
            .with_context(|| format!("{}: no recipe makes the image {name:?}", source.display()))?;
        let why = image.manifest.annotations.get(mesh_bundle::oci::WHY).cloned().unwrap_or_default();
        *carried = json!({ "name": name, "digest": image.digest(), "config": image.config(), "why": why });
    }
    for resource in each(&mut value, "resource") {
        if let Some(named) = resource.pointer_mut("/spec/image")
            && let Some(name) = named.as_str()
            && let Some((_, image)) = images.iter().find(|(known, _)| *known == name)
        {
            *named = json!(format!("{name}@{}", image.digest()));
        }
    }
    let mut bundle: Bundle =
        serde_json::from_value(value).with_context(|| format!("understand {}", source.display()))?;
    bundle.write_catalogue();
    bundle.check().map_err(|(field, reason)| anyhow::anyhow!("{}: {field}: {reason}", source.display()))?;
    Ok(bundle)
}

fn image_names(text: &str, source: &Path) -> anyhow::Result<Vec<String>> {
    let mut value: Value =
        toml::from_str(text).with_context(|| format!("understand {}", source.display()))?;
    Ok(each(&mut value, "image").filter_map(|image| Some(image["name"].as_str()?.to_owned())).collect())
}

fn each<'a>(value: &'a mut Value, list: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten()
}

/// What the engine needs beyond the smallest Debian there is.
struct Packages {
    suite: Arc<Suite>,
    wanted: Debian,
    needed: Vec<Package>,
}

fn packages(kitchen: &Kitchen, bundle: &Bundle) -> anyhow::Result<Option<Packages>> {
    let engine = bundle.resources.iter().find_map(|carried| match &carried.resource.spec {
        Spec::Package(package) if carried.resource.id.to_string() == ENGINE => Some(&package.names),
        _ => None,
    });
    let Some(names) = engine else { return Ok(None) };
    let suite = kitchen.suite(ENGINE_SUITE)?;
    let minimal = Debian {
        suite: ENGINE_SUITE.to_owned(),
        base: Base::Minbase,
        packages: vec!["usr-is-merged".to_owned()],
        user: Vec::new(),
    };
    let present = suite.resolve(&minimal)?;
    let wanted = Debian { packages: [minimal.packages.as_slice(), names.as_slice()].concat(), ..minimal };
    let mut needed = suite.resolve(&wanted)?;
    needed.retain(|package| !present.contains(package));
    Ok(Some(Packages { suite, wanted, needed }))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use mesh_bundle::{ImageDraft, Tree, oci};

    use super::*;

    /// The images' digests are made up here, so that this shows changes of the bundle and not of Debian.
    #[test]
    fn the_bundle_is_what_was_agreed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let source = root.join("bundle").join(SOURCE);
        let text = fs::read_to_string(&source).unwrap();
        let names = image_names(&text, &source).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut writer = LayoutWriter::create(folder.path()).unwrap();
        for name in &names {
            let annotations = BTreeMap::from([(oci::WHY.to_owned(), format!("why {name} is there"))]);
            let (architecture, created) = ("amd64", "1970-01-01T00:00:00Z");
            let (run, tree) = (oci::Run::default(), &Tree::default());
            writer
                .add(&ImageDraft { name, architecture, epoch: 0, created, run, annotations, tree })
                .unwrap();
        }
        writer.finish().unwrap();
        let layout = Layout::open(folder.path()).unwrap();
        let images: Vec<(String, Image)> =
            names.iter().map(|name| (name.clone(), layout.find_name(name).unwrap())).collect();
        let pins: Vec<(&str, &Image)> = images.iter().map(|(name, image)| (name.as_str(), image)).collect();
        let written = pin(&text, &source, &pins).unwrap().to_toml().unwrap();
        Bundle::parse(&written, Path::new("bundle.toml")).unwrap();

        let golden: PathBuf = root.join("xtask/tests/golden/bundle.toml");
        if std::env::var_os("MESH_BLESS").is_some() {
            fs::create_dir_all(golden.parent().unwrap()).unwrap();
            fs::write(&golden, &written).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap();
        assert!(written == expected, "bundle.toml changed; MESH_BLESS=1 accepts this:\n{written}");
    }

    #[test]
    fn an_image_without_a_recipe_is_refused_by_name() {
        let text = "format = 1\n[[image]]\nname = \"mesh/none\"\n";
        let refusal = pin(text, Path::new("bundle.in.toml"), &[]).unwrap_err().to_string();
        assert_eq!(refusal, "bundle.in.toml: no recipe makes the image \"mesh/none\"");
    }
}
