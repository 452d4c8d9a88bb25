//! The machine's dpkg and apt.
//!
//! What is installed is read from dpkg's own status file, and read again only when that changed. Installing goes through
//! apt-get with nobody to ask; a folder of packages becomes the only source, in a configuration of its own.

use std::{
    cell::RefCell,
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    rc::Rc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::{process::Command, time::timeout};

use super::{Installed, Packages};
use crate::{
    failure::{During as _, Failure},
    machine::units::transient::{Ended, Task, is_booted, run_apart},
};

/// For installing and removing; downloads included.
const PATIENCE: Duration = Duration::from_mins(15);
/// The unit in which the package manager runs: one name, so that there are never two of them.
const UNIT: &str = "mesh-host-packages.service";
/// What apt says has to be run by hand where dpkg was interrupted.
const FINISH: &str = "dpkg --configure -a";
const FINISH_ARGUMENTS: [&str; 4] = ["--force-confdef", "--force-confold", "--configure", "-a"];
/// What is kept of what a program said when it failed.
const MOST_WORDS: usize = 600;

/// The machine's dpkg and apt.
#[derive(Debug)]
pub struct RealPackages {
    root: PathBuf,
    status: RefCell<Status>,
}

#[derive(Debug, Default)]
struct Status {
    stamp: Option<(u64, u64, i64, i64)>,
    installed: Rc<Installed>,
}

impl RealPackages {
    /// The packages of the machine under `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), status: RefCell::default() }
    }

    /// Runs a program of the package manager and waits for its end: in a unit of its own, so that neither the end of the
    /// host nor what its unit may not do breaks a package's scripts half-way.
    async fn run(&self, program: &str, arguments: &[String]) -> Result<Ended, Failure> {
        let place = self.root.join("run/mesh-host");
        if self.root != Path::new("/") || !is_booted() {
            tracing::info!(
                program,
                "runs as a child of mesh-host, since there is no systemd to run it apart"
            );
            return run_as_child(program, arguments).await;
        }
        fs::create_dir_all(&place).during(format!("make {}", place.display()))?;
        let task = Task {
            unit: UNIT,
            description: format!("Packages for mesh-host: {program}"),
            program: Path::new("/usr/bin").join(program),
            arguments: arguments.to_vec(),
            environment: ENVIRONMENT.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            patience: PATIENCE,
            said: place.join("packages"),
        };
        run_apart(&task).await
    }

    async fn apt(&self, arguments: &[String]) -> Result<(), Failure> {
        let mut ended = self.run("apt-get", arguments).await?;
        // dpkg was killed, or the machine was, between two packages: what is begun has to be finished first.
        if !ended.success && ended.errors.contains(FINISH) {
            tracing::info!("finishing what dpkg had begun");
            let finished = self.run("dpkg", &FINISH_ARGUMENTS.map(str::to_owned)).await?;
            if !finished.success {
                return Err(failure(FINISH, &finished));
            }
            ended = self.run("apt-get", arguments).await?;
        }
        if ended.success { Ok(()) } else { Err(failure("apt-get", &ended)) }
    }

    fn refresh(&self) -> io::Result<()> {
        let path = self.root.join("var/lib/dpkg/status");
        let found = fs::metadata(&path)?;
        let stamp = Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()));
        let mut status = self.status.borrow_mut();
        if status.stamp != stamp {
            status.installed = Rc::new(installed(&String::from_utf8_lossy(&fs::read(&path)?)));
            status.stamp = stamp;
        }
        Ok(())
    }

    /// A private configuration of apt whose only source is this folder.
    fn configure(&self, folder: &str) -> io::Result<Vec<String>> {
        let place = self.root.join("run/mesh-host/apt");
        fs::create_dir_all(place.join("lists/partial"))?;
        fs::create_dir_all(place.join("archives/partial"))?;
        fs::write(place.join("sources.list"), source(&self.root, folder)?)?;
        let place = place.display();
        let options = [
            format!("Dir::Etc::SourceList={place}/sources.list"),
            "Dir::Etc::SourceParts=-".to_owned(),
            format!("Dir::State::Lists={place}/lists"),
            format!("Dir::Cache::Archives={place}/archives"),
            "Dir::Cache::PkgCache=".to_owned(),
            "Dir::Cache::SrcPkgCache=".to_owned(),
            // What is on the machine is trusted whatever its clock says.
            "Acquire::Check-Date=false".to_owned(),
            "Acquire::Check-Valid-Until=false".to_owned(),
            // The folder may be readable by root alone.
            "APT::Sandbox::User=root".to_owned(),
        ];
        Ok(options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect())
    }
}

/// The line of a source list for this folder: of the machine's own suite where the folder has suites, otherwise flat.
fn source(root: &Path, folder: &str) -> io::Result<String> {
    let place = root.join(folder.trim_start_matches('/'));
    let mut suites = Vec::new();
    match fs::read_dir(place.join("dists")) {
        Ok(entries) => {
            suites.extend(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(format!("deb [trusted=yes] file:{folder} ./\n"));
        }
        Err(error) => return Err(error),
    }
    let os_release = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
    let mine = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or_default();
    let mine = mine.trim_matches('"');
    let suite = match suites.as_slice() {
        [only] => only,
        several => several.iter().find(|suite| *suite == mine).ok_or_else(|| {
            io::Error::other(format!("it has packages for {}, this machine is {mine}", several.join(", ")))
        })?,
    };
    let release = fs::read_to_string(place.join("dists").join(suite).join("Release"))?;
    let components =
        release.lines().find_map(|line| line.strip_prefix("Components:")).unwrap_or("main").trim();
    Ok(format!("deb [trusted=yes] file:{folder} {suite} {components}\n"))
}

/// The installed packages of dpkg's status file, with their versions.
fn installed(status: &str) -> Installed {
    let mut found = Installed::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if let (Some(name), Some("install ok installed" | "hold ok installed"), Some(version)) =
            (field("Package:"), field("Status:"), field("Version:"))
        {
            found.insert(name.to_owned(), version.to_owned());
        }
    }
    found
}

/// What a package manager is told about the one who asks: nobody.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("DEBIAN_PRIORITY", "critical"),
    ("APT_LISTCHANGES_FRONTEND", "none"),
    ("NEEDRESTART_MODE", "l"),
    ("LC_ALL", "C.UTF-8"),
];

/// Runs it as a child of this process, which a machine without systemd has to do with: it ends with the host.
async fn run_as_child(program: &str, arguments: &[String]) -> Result<Ended, Failure> {
    let running = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(ENVIRONMENT)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let minutes = PATIENCE.as_secs() / 60;
    let ended = timeout(PATIENCE, running).await;
    let ended = ended.map_err(|_| Failure::new(format!("{program} took longer than {minutes} minutes")))?;
    let Output { status, stdout, stderr } = ended.during(format!("run {program}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let how =
        status.code().map_or_else(|| "was ended by a signal".to_owned(), |code| format!("ended with {code}"));
    Ok(Ended { success: status.success(), how, output: text(stdout), errors: text(stderr) })
}

/// What it said when it failed, in one line.
fn failure(program: &str, ended: &Ended) -> Failure {
    let said = if ended.errors.trim().is_empty() { &ended.output } else { &ended.errors };
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = said.join("; ");
    let start = said.char_indices().rev().take(MOST_WORDS).last().map_or(0, |(at, _)| at);
    match &said[start..] {
        "" => Failure::new(format!("{program} {}", ended.how)),
        said => Failure::new(format!("{program} failed: {said}")),
    }
}

fn arguments(options: &[String], command: &str, names: &[String]) -> Vec<String> {
    let fixed = [
        "-q",
        "-y",
        "--no-install-recommends",
        "-o",
        "DPkg::Lock::Timeout=120",
        "-o",
        "Dpkg::Options::=--force-confdef",
        "-o",
        "Dpkg::Options::=--force-confold",
        "-o",
        "Dpkg::Use-Pty=0",
        // Otherwise a name with a '.' that is not there is taken for a regular expression.
        "-o",
        "APT::Cmd::Pattern-Only=true",
    ];
    let mut arguments: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
    arguments.extend(options.iter().cloned());
    arguments.push(command.to_owned());
    if !names.is_empty() {
        arguments.push("--".to_owned());
        arguments.extend(names.iter().cloned());
    }
    arguments
}

#[async_trait(?Send)]
impl Packages for RealPackages {
    async fn look(&self) -> Result<Rc<Installed>, Failure> {
        self.refresh().during("read what dpkg has installed")?;
        Ok(Rc::clone(&self.status.borrow().installed))
    }

    async fn install(&self, names: &[String], repository: Option<&str>) -> Result<(), Failure> {
        if let Some(folder) = repository {
            let options = self.configure(folder).during("configure apt for the folder")?;
            self.apt(&arguments(&options, "update", &[])).await?;
            return self.apt(&arguments(&options, "install", names)).await;
        }
        if self.apt(&arguments(&[], "install", names)).await.is_ok() {
            return Ok(());
        }
        // The lists may be missing or old.
        self.apt(&arguments(&[], "update", &[])).await?;
        self.apt(&arguments(&[], "install", names)).await
    }

    async fn remove(&self, names: &[String]) -> Result<(), Failure> {
        self.apt(&arguments(&[], "remove", names)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(output: &str, errors: &str) -> Ended {
        let (output, errors) = (output.to_owned(), errors.to_owned());
        Ended { success: false, how: "ended with 100".to_owned(), output, errors }
    }

    #[test]
    fn a_failure_is_what_was_said_last_and_otherwise_how_it_ended() {
        let said = failure("apt-get", &ended("Reading lists\n", "E: Unable to locate package x\n\n"));
        assert_eq!(said.to_string(), "apt-get failed: E: Unable to locate package x");
        assert_eq!(failure("apt-get", &ended("done\n", " \n")).to_string(), "apt-get failed: done");
        assert_eq!(failure("apt-get", &ended("", "")).to_string(), "apt-get ended with 100");
        let long = failure("apt-get", &ended("", &"ä".repeat(5_000))).to_string();
        assert_eq!(long.chars().count(), "apt-get failed: ".len() + MOST_WORDS);
    }

    #[test]
    fn only_what_is_installed_counts() {
        let status = "Package: a\nStatus: install ok installed\nVersion: 1\nDescription: x\n y\n\nPackage: b\nStatus: deinstall ok config-files\nVersion: 2\n\nPackage: c\nStatus: hold ok installed\nVersion: 3\n";
        let found = installed(status);
        assert_eq!(found.get("a").map(String::as_str), Some("1"));
        assert!(!found.contains_key("b") && found.contains_key("c"));
    }
}
