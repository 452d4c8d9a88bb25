//! Debian packages: which versions a recipe needs, and their files, verified, from the mirror this machine's apt uses.
//!
//! It keeps an apt state of its own in the cache (never the machine's), one a suite. Only apt decides what depends on
//! what and only apt talks to a mirror; signatures are checked against Debian's archive keyring. It never installs
//! anything: [`super::image`] has mmdebstrap do that from the files fetched here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use mesh_bundle::hashing::digest_of;

use super::recipe::{Base, Debian};
use crate::program;

/// How long package lists are taken for current. Debian changes stable suites a few times a month.
const LISTS_STAY_FRESH: Duration = Duration::from_hours(24);

/// Debian's code names: what tells a Debian mirror from another apt source of the machine.
const SUITES: [&str; 6] = ["bullseye", "bookworm", "trixie", "forky", "stable", "sid"];

/// Where Debian's own keys are, on Debian and on what derives from it.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// One version of one package.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    /// Its name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// `amd64`, `all`, …
    pub(crate) architecture: String,
}

impl Package {
    /// `name version architecture`, the line of an image's list of packages.
    pub(crate) fn line(&self) -> String {
        format!("{} {} {}", self.name, self.version, self.architecture)
    }

    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        format!("{}_{}_{}.deb", self.name, self.version.replace(':', "%3a"), self.architecture)
    }
}

/// The machine's own words for a Debian mirror.
struct Mirror {
    main: String,
    security: Option<String>,
}

/// One suite, as apt sees it through a state of its own.
pub(crate) struct Suite {
    name: String,
    architecture: String,
    state: PathBuf,
    /// One download at a time: they share a folder.
    download: Mutex<()>,
}

impl Suite {
    /// Prepares the state of suite `name` under `cache`, fetching package lists where they are absent, a day old, or
    /// asked for anew.
    pub(crate) fn open(cache: &Path, name: &str, refresh: bool) -> anyhow::Result<Self> {
        let architecture =
            program::output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
        let state = cache.join("debian").join(format!("{name}-{architecture}"));
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(state.join(folder)).with_context(|| format!("make {}", state.display()))?;
        }
        fs::write(state.join("status"), "")?;
        let suite = Self { name: name.to_owned(), architecture, state, download: Mutex::new(()) };
        fs::write(suite.state.join("apt.conf"), suite.settings())?;
        let fetched = suite.state.join("fetched");
        let fresh = fetched.metadata().and_then(|meta| meta.modified()).ok().and_then(|at| at.elapsed().ok());
        if refresh || fresh.is_none_or(|age| age > LISTS_STAY_FRESH) {
            fs::write(suite.state.join("sources.list"), suite.sources(&find_mirror()?))?;
            match program::run(suite.apt("apt-get").args(["-qq", "--error-on=any", "update"])) {
                Ok(()) => suite.lists_are_new()?,
                Err(error) if fetched.exists() && !refresh => {
                    println!(
                        "The mirror does not answer ({error:#}); going on with the package lists of last time."
                    );
                }
                Err(error) => return Err(error.context(format!("fetch Debian's package lists for {name}"))),
            }
        }
        Ok(suite)
    }

    /// Every package version that an image of `debian` consists of, sorted by name. apt is asked once for each set of
    /// words and package lists.
    pub(crate) fn resolve(&self, debian: &Debian) -> anyhow::Result<Vec<Package>> {
        let wanted = self.wanted(debian);
        let answers = self.state.join("answers");
        let answer = answers.join(&digest_of(wanted.join(" ").as_bytes()).hex()[..32]);
        let text = if let Ok(text) = fs::read_to_string(&answer) {
            text
        } else {
            let mut simulate = self.apt("apt-get");
            let text = program::output(simulate.args(["--simulate", "-qq", "install"]).args(&wanted))
                .with_context(|| format!("find what {} needs in {}", debian.packages.join(" "), self.name))?;
            fs::create_dir_all(&answers)?;
            fs::write(&answer, &text)?;
            text
        };
        let mut found: Vec<Package> = text.lines().filter_map(parse_inst).collect();
        if debian.base == Base::Unpacked {
            found.retain(|package| debian.packages.contains(&package.name));
        }
        found.sort();
        anyhow::ensure!(!found.is_empty(), "apt finds no package in {}: run with --refresh", self.name);
        Ok(found)
    }

    /// Fetches what [`Self::resolve`] answered to the same words, and makes a repository at `into` that holds exactly
    /// `packages` of it.
    pub(crate) fn fetch(&self, debian: &Debian, packages: &[Package], into: &Path) -> anyhow::Result<()> {
        let _alone = self.download.lock().map_err(|_| anyhow::anyhow!("another download failed"))?;
        let mut download = self.apt("apt-get");
        download.args(["-qq", "--yes", "--download-only", "install"]).args(self.wanted(debian));
        program::run(&mut download).context("fetch Debian packages (--refresh fetches the lists anew)")?;
        let exact = packages.iter().map(|p| format!("{}:{}={}", p.name, self.architecture_of(p), p.version));
        let records = program::output(self.apt("apt-cache").args(["--no-all-versions", "show"]).args(exact))?;
        let mut index = String::new();
        let mut left: BTreeSet<&Package> = packages.iter().collect();
        let pool = into.join("pool");
        fs::create_dir_all(&pool)?;
        for record in records.split("\n\n").filter(|record| !record.trim().is_empty()) {
            let package = package_of(record).with_context(|| format!("a record without a name: {record}"))?;
            if !left.remove(&package) {
                continue;
            }
            let file = self.state.join("archives").join(package.file_name());
            let bytes = fs::read(&file).with_context(|| format!("read {}", file.display()))?;
            let wanted = field(record, "SHA256").context("a package record without SHA256")?;
            anyhow::ensure!(
                digest_of(&bytes).hex() == wanted,
                "{} is damaged; remove it and run again",
                file.display()
            );
            let target = pool.join(package.file_name());
            fs::write(&target, &bytes).with_context(|| format!("write {}", target.display()))?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o644))?;
            index.push_str(&with_file_name(record, &format!("pool/{}", package.file_name())));
        }
        anyhow::ensure!(left.is_empty(), "apt has no record of {left:?}");
        self.write_index(into, &index)
    }

    fn lists_are_new(&self) -> anyhow::Result<()> {
        let answers = self.state.join("answers");
        if answers.exists() {
            fs::remove_dir_all(&answers).with_context(|| format!("forget {}", answers.display()))?;
        }
        fs::write(self.state.join("fetched"), "").context("note when the lists were fetched")
    }

    /// `deb` line for a repository that [`Self::fetch`] made. Trusted, because every file in it was checked here against
    /// the checksum in lists that apt has verified.
    pub(crate) fn source_line(&self, repository: &Path) -> String {
        format!("deb [trusted=yes] copy:{} {} main", repository.display(), self.name)
    }

    /// The index twice: under the release's name (`deb … NAME main`), which is how mmdebstrap tells what is essential, and
    /// at the top (`deb … ./`), which needs no name.
    fn write_index(&self, into: &Path, index: &str) -> anyhow::Result<()> {
        let within = format!("main/binary-{}/Packages", self.architecture);
        for (top, packages) in
            [(into.join("dists").join(&self.name), within.as_str()), (into.to_owned(), "Packages")]
        {
            let file = top.join(packages);
            fs::create_dir_all(file.parent().unwrap_or(&top))?;
            fs::write(&file, index)?;
            let release = format!(
                "Origin: Debian\nSuite: {name}\nCodename: {name}\nArchitectures: {architecture}\nComponents: main\n\
                 Date: Wed, 01 Jan 2025 00:00:00 UTC\nSHA256:\n {hash} {size} {packages}\n",
                name = self.name,
                architecture = self.architecture,
                hash = digest_of(index.as_bytes()).hex(),
                size = index.len(),
            );
            fs::write(top.join("Release"), release)?;
        }
        Ok(())
    }

    fn wanted(&self, debian: &Debian) -> Vec<String> {
        let narrow = |which: &str| {
            format!("?narrow(?codename(^{}$),?architecture({}),{which})", self.name, self.architecture)
        };
        let mut wanted = match debian.base {
            Base::Unpacked => Vec::new(),
            Base::Essential => vec![narrow("?essential")],
            Base::Minbase => vec![narrow("?essential"), narrow("?priority(required)"), "apt".to_owned()],
        };
        wanted.extend_from_slice(&debian.packages);
        wanted
    }

    fn architecture_of<'a>(&'a self, package: &'a Package) -> &'a str {
        if package.architecture == "all" { "all" } else { &self.architecture }
    }

    fn sources(&self, mirror: &Mirror) -> String {
        let options =
            if Path::new(KEYRING).exists() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        let main = format!("deb {options}{} {} main\n", mirror.main, self.name);
        let security = mirror.security.as_ref();
        main + &security
            .map_or(String::new(), |uri| format!("deb {options}{uri} {}-security main\n", self.name))
    }

    /// apt over this suite alone: the machine's settings (such as a proxy), but none of its sources, state or packages.
    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.state.join("apt.conf")).env("LC_ALL", "C.UTF-8");
        command
    }

    fn settings(&self) -> String {
        let at = |name: &str| self.state.join(name).display().to_string();
        let options = [
            ("Dir::Etc::sourcelist", at("sources.list")),
            ("Dir::Etc::sourceparts", "/dev/null".to_owned()),
            ("Dir::Etc::preferences", "/dev/null".to_owned()),
            ("Dir::Etc::preferencesparts", "/dev/null".to_owned()),
            ("Dir::State", at("")),
            ("Dir::State::lists", at("lists")),
            ("Dir::State::status", at("status")),
            ("Dir::State::extended_states", at("extended_states")),
            ("Dir::Cache", at("")),
            ("Dir::Cache::archives", at("archives")),
            ("APT::Architecture", self.architecture.clone()),
            ("APT::Install-Recommends", "false".to_owned()),
            ("APT::Sandbox::User", "root".to_owned()),
            ("Acquire::Languages", "none".to_owned()),
            ("Debug::NoLocking", "true".to_owned()),
        ];
        let lines = options.map(|(option, value)| format!("{option} \"{value}\";\n")).concat();
        format!("#clear APT::Update::Post-Invoke-Success;\n{lines}")
    }
}

/// The mirror of `MESH_DEBIAN_MIRROR` (and `MESH_DEBIAN_SECURITY_MIRROR`), or else the first Debian mirror among the
/// machine's apt sources.
fn find_mirror() -> anyhow::Result<Mirror> {
    if let Ok(main) = std::env::var("MESH_DEBIAN_MIRROR") {
        return Ok(Mirror { main, security: std::env::var("MESH_DEBIAN_SECURITY_MIRROR").ok() });
    }
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Identifier: Packages"]);
    let text = program::output(&mut command)?;
    let targets = || {
        text.lines()
            .filter_map(|line| line.rsplit_once(" main").map(|(front, _)| front))
            .filter_map(|l| l.split_once(' '))
    };
    let main = targets().find(|(_, release)| SUITES.contains(release)).map(|(uri, _)| uri.to_owned());
    let security = targets()
        .find(|(_, release)| release.strip_suffix("-security").is_some_and(|suite| SUITES.contains(&suite)))
        .map(|(uri, _)| uri.to_owned());
    let main = main.context(
        "none of this machine's apt sources is a Debian mirror; name one in MESH_DEBIAN_MIRROR \
         (and its security archive in MESH_DEBIAN_SECURITY_MIRROR)",
    )?;
    Ok(Mirror { main, security })
}

/// `Inst NAME (VERSION ORIGIN [ARCHITECTURE])`, as apt writes when it only simulates.
fn parse_inst(line: &str) -> Option<Package> {
    let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
    let (version, rest) = rest.split_once(' ')?;
    let (_, architecture) = rest.split_once('[')?;
    let (architecture, _) = architecture.split_once(']')?;
    let own = |text: &str| text.to_owned();
    Some(Package { name: own(name), version: own(version), architecture: own(architecture) })
}

fn field<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn package_of(record: &str) -> Option<Package> {
    let own = |name| field(record, name).map(str::to_owned);
    Some(Package { name: own("Package")?, version: own("Version")?, architecture: own("Architecture")? })
}

/// The record as it stands, but for where its file is.
fn with_file_name(record: &str, file: &str) -> String {
    let mut text = String::new();
    for line in record.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("Filename: ") {
            text.push_str("Filename: ");
            text.push_str(file);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_says_what_it_would_install() {
        let line = "Inst libllvm19 (1:19.1.7-3+b1 Debian:13.1/stable [amd64]) []";
        let package = parse_inst(line);
        assert_eq!(package.as_ref().map(Package::line), Some("libllvm19 1:19.1.7-3+b1 amd64".to_owned()));
        assert_eq!(package.map(|p| p.file_name()), Some("libllvm19_1%3a19.1.7-3+b1_amd64.deb".to_owned()));
        assert_eq!(parse_inst("Conf libllvm19 (1:19.1.7-3+b1 Debian:13.1/stable [amd64])"), None);
    }

    #[test]
    fn a_record_keeps_everything_but_the_place_of_its_file() {
        let record = "Package: a\nFilename: pool/main/a.deb\nDescription: one\n two\n";
        assert_eq!(
            with_file_name(record, "pool/a.deb"),
            "Package: a\nFilename: pool/a.deb\nDescription: one\n two\n\n"
        );
    }
}
