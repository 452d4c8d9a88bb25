//! What this machine needs before it can run nodes, and getting it.
//!
//! It installs what is missing by name from the machine's own Debian sources when it may, and says so; it never removes,
//! upgrades or adds a source. [`crate::lab`] calls it first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::Engine;
use crate::error::LabError;
use crate::process::Call;
use crate::progress::Progress;

/// A package, the files of which one shows that it is there, and what it is for.
struct Need {
    package: &'static str,
    shown_by: &'static [&'static str],
    why: &'static str,
}

const NEEDS: &[Need] = &[
    Need { package: "podman", shown_by: &["bin/podman"], why: "runs the nodes" },
    Need {
        package: "runc",
        shown_by: &["bin/runc", "sbin/runc"],
        why: "the runtime for every kind of control groups",
    },
    Need {
        package: "netavark",
        shown_by: &["lib/podman/netavark", "libexec/podman/netavark"],
        why: "the nodes' network",
    },
    Need {
        package: "aardvark-dns",
        shown_by: &["lib/podman/aardvark-dns", "libexec/podman/aardvark-dns"],
        why: "the nodes' names",
    },
    Need { package: "iptables", shown_by: &["sbin/iptables", "bin/iptables"], why: "the network's rules" },
];

/// Where Debian and people install to.
const PREFIXES: [&str; 3] = ["/usr", "/usr/local", "/"];

/// The engine, installed first if it is not there.
pub(crate) fn engine(progress: &Progress) -> Result<Engine, LabError> {
    let missing = missing(Path::exists);
    if !missing.is_empty() {
        install(&missing, progress)?;
    }
    Engine::open()
}

fn missing(exists: impl Fn(&Path) -> bool) -> Vec<&'static Need> {
    let is_there = |need: &&Need| {
        need.shown_by.iter().any(|file| PREFIXES.iter().any(|prefix| exists(&Path::new(prefix).join(file))))
    };
    NEEDS.iter().filter(|need| !is_there(need)).collect()
}

fn install(missing: &[&Need], progress: &Progress) -> Result<(), LabError> {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let reasons: Vec<String> =
        missing.iter().map(|need| format!("{} ({})", need.package, need.why)).collect();
    if !Path::new("/usr/bin/apt-get").exists() || !is_root() {
        return Err(LabError::Unable {
            why: format!(
                "missing: {}; install them with this system's packages (on Debian, as root: apt-get install {})",
                reasons.join(", "),
                packages.join(" ")
            ),
        });
    }
    progress.step(&format!("engine: installing {}", reasons.join(", ")));
    let apt = |args: &[&str]| {
        let call = Call::new("apt-get", Duration::from_mins(10)).args(args);
        call.environment("DEBIAN_FRONTEND", "noninteractive").run()
    };
    apt(&["update", "--quiet"])?;
    let mut args = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    args.extend(packages);
    apt(&args).map(drop)
}

/// Where packages for a node may come from: the source of Debian packages this machine itself uses, as a line for apt.
/// The lab knows no server's name of its own.
pub fn package_source(suite: &str) -> Result<String, LabError> {
    let folder = Path::new("/etc/apt/sources.list.d");
    let listed =
        std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let mut files: Vec<PathBuf> = listed.unwrap_or_default();
    files.sort();
    files.insert(0, "/etc/apt/sources.list".into());
    let mut texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    let server = texts.find_map(|text| debian_server(&text));
    let server = server.ok_or_else(|| LabError::Unable {
        why: "its apt knows no source of Debian packages, from which a node could install any; a lab without --bare needs \
              none"
            .to_owned(),
    })?;
    Ok(format!("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {server} {suite} main"))
}

/// The first server in apt's source lists (either form) whose address ends in Debian's folder.
fn debian_server(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let relevant = lines.filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"));
    relevant
        .flat_map(str::split_whitespace)
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .map(str::to_owned)
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debians_server_is_found_in_both_forms_of_source_lists_and_others_are_passed_over() {
        let old = "# deb http://old.example/debian x main\ndeb [arch=amd64] http://one.example/debian bookworm main\n";
        assert_eq!(debian_server(old).as_deref(), Some("http://one.example/debian"));
        let new = "Types: deb\nURIs: http://two.example/debian/\nSuites: bookworm\n";
        assert_eq!(debian_server(new).as_deref(), Some("http://two.example/debian/"));
        assert_eq!(debian_server("deb http://three.example/cloud-sdk stable main\n"), None);
    }

    #[test]
    fn what_is_missing_is_named_and_what_is_there_in_any_usual_place_is_not() {
        let there = ["/usr/local/bin/podman", "/usr/sbin/runc", "/usr/libexec/podman/netavark"];
        let names: Vec<&str> = missing(|path| there.iter().any(|file| Path::new(file) == path))
            .iter()
            .map(|need| need.package)
            .collect();
        assert_eq!(names, ["aardvark-dns", "iptables"]);
    }
}
