//! Debian packages for a node that reaches no package source: resolved against what the node has, fetched by this
//! machine, installed there.
//!
//! apt works on a state of its own in the cache; this machine's packages and its lists stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use mesh_lab::{Node, package_source};

use crate::ground::put_folder;
use crate::program;

/// Lists of packages are some ten megabytes.
const FETCH: Duration = Duration::from_mins(10);
const INSTALL: Duration = Duration::from_mins(5);

/// Installs packages and what they need on the node; what is there already is left as it is.
pub(crate) fn install(node: &Node, cache: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let names = packages.join(", ");
    let folder = fetch(node, cache, packages).with_context(|| format!("fetch {names} from Debian"))?;
    let place = "/opt/bench-packages";
    put_folder(node, &folder, place)?;
    let script = format!(
        "DEBIAN_FRONTEND=noninteractive apt-get install --quiet --yes --no-install-recommends {place}/*.deb"
    );
    node.run_telling(["sh", "-c", &script], INSTALL, &mut |_| {})
        .with_context(|| format!("install {names}"))?;
    Ok(())
}

/// The folder of exactly the packages the node lacks.
fn fetch(node: &Node, cache: &Path, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let suite = node.run(["sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME"])?;
    let apt = Apt::prepare(node, &cache.join("apt").join(&suite), &suite, packages)?;
    let mut wanted = vec!["install", "--download-only", "--yes", "--no-install-recommends"];
    wanted.extend(packages);
    if apt.has_lists() && apt.run(&wanted).is_ok() {
        return Ok(apt.archives);
    }
    // Old lists name packages that the server no longer has. What was fetched by them would be in the way of the newer.
    apt.run(&["update"])?;
    fs::remove_dir_all(&apt.archives)?;
    apt.make_folders()?;
    apt.run(&wanted)?;
    Ok(apt.archives)
}

/// apt with a state of its own, and the node's idea of what is installed.
struct Apt {
    folder: PathBuf,
    archives: PathBuf,
}

impl Apt {
    fn prepare(node: &Node, folder: &Path, suite: &str, packages: &[&str]) -> anyhow::Result<Self> {
        let apt = Self { folder: folder.to_owned(), archives: folder.join(packages.join("+")) };
        apt.make_folders()?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        write("sources.list", package_source(suite)? + "\n")?;
        write("status", node.read("/var/lib/dpkg/status")?)?;
        Ok(apt)
    }

    fn make_folders(&self) -> anyhow::Result<()> {
        for folder in [self.folder.join("lists/partial"), self.archives.join("partial")] {
            fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        }
        Ok(())
    }

    fn has_lists(&self) -> bool {
        let lists = fs::read_dir(self.folder.join("lists"));
        lists.is_ok_and(|mut lists| {
            lists.any(|list| list.is_ok_and(|list| list.file_name().to_string_lossy().ends_with("_Packages")))
        })
    }

    fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
        let of_its_own = [
            ("Dir::State::status", self.folder.join("status")),
            ("Dir::State::lists", self.folder.join("lists")),
            ("Dir::Cache", self.folder.clone()),
            ("Dir::Cache::archives", self.archives.clone()),
            ("Dir::Etc::sourcelist", self.folder.join("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".into()),
        ];
        for (name, path) in of_its_own {
            apt.arg(format!("--option={name}={}", path.display()));
        }
        // Its downloading user may not write below a home folder; and without files for people.
        apt.args(["--option=APT::Sandbox::User=root", "--option=Acquire::Languages=none"]);
        apt.arg("--option=Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false");
        program::run(apt.args(args), FETCH)
    }
}
