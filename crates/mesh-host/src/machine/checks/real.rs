//! The machine's own programs that check files.
//!
//! The candidate stands under its own name in a folder that is new, and root's alone. Beside it are links to everything
//! that is beside the real file, so that what a configuration includes by a relative path is found.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use mesh_ids::Digest;
use mesh_wire::kinds::Check;
use sha2::{Digest as _, Sha256};

use super::Checks;
use crate::{
    failure::{During as _, Failure},
    machine::{files::Content, tool::Tool},
};

/// They read a few files; nginx and haproxy may ask for names.
const PATIENCE: Duration = Duration::from_secs(30);
/// So many neighbours are linked; a configuration has fewer.
const MOST_NEIGHBOURS: usize = 10_000;

/// The machine's own programs.
#[derive(Debug)]
pub struct RealChecks {
    root: PathBuf,
    folder: PathBuf,
}

/// The program of a check and what it is told before the candidate; none where this program reads it itself.
fn program(check: Check) -> Option<(Tool, &'static [&'static str])> {
    let tool = |name, package| Tool { name, package, patience: PATIENCE };
    match check {
        Check::Json | Check::Toml => None,
        Check::IniSystemdUnit => {
            Some((tool("systemd-analyze", "systemd"), &["verify", "--man=no", "--recursive-errors=no"]))
        }
        Check::Nginx => Some((tool("nginx", "nginx"), &["-t", "-q", "-c"])),
        Check::Haproxy => Some((tool("haproxy", "haproxy"), &["-c", "-f"])),
        Check::Sshd => Some((tool("sshd", "openssh-server"), &["-t", "-f"])),
        Check::Sudoers => Some((tool("visudo", "sudo"), &["-c", "-f"])),
    }
}

impl RealChecks {
    /// The programs of the machine under `root`; `folder` is the host's own, and best in memory.
    pub fn new(root: &Path, folder: &Path) -> Self {
        Self { root: root.to_owned(), folder: folder.to_owned() }
    }

    /// The candidate in a mirror of its folder.
    fn mirror(&self, path: &str, content: &Content) -> io::Result<Mirror> {
        let place = self.root.join(path.trim_start_matches('/'));
        let name = place.file_name().unwrap_or_default();
        let digest = Digest::of_sha256(Sha256::digest(path).into());
        let mirror = Mirror { folder: self.folder.join(&digest.hex()[..16]) };
        // What a kill left.
        mirror.clear()?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&mirror.folder)?;
        let neighbours = match place.parent().map(fs::read_dir) {
            Some(Ok(entries)) => entries.take(MOST_NEIGHBOURS).collect::<io::Result<Vec<_>>>()?,
            _ => Vec::new(),
        };
        for neighbour in neighbours.iter().filter(|neighbour| neighbour.file_name() != name) {
            symlink(neighbour.path(), mirror.folder.join(neighbour.file_name()))?;
        }
        let candidate = mirror.folder.join(name);
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&candidate)?
            .write_all(content.bytes())?;
        Ok(mirror)
    }
}

/// A folder that goes when it is no longer looked at.
struct Mirror {
    folder: PathBuf,
}

impl Mirror {
    /// Removes the folder; links in it are removed and not followed.
    fn clear(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            tracing::warn!(%error, folder = %self.folder.display(), "what was checked could not be removed");
        }
    }
}

#[async_trait(?Send)]
impl Checks for RealChecks {
    async fn check(&self, check: Check, path: &str, content: &Content) -> Result<(), Failure> {
        let Some((tool, before)) = program(check) else { return Ok(()) };
        let mirror = self.mirror(path, content).during("write the candidate")?;
        let name = Path::new(path).file_name().unwrap_or_default();
        let candidate = mirror.folder.join(name);
        let arguments = before.iter().map(|word| (*word).as_ref());
        let arguments: Vec<&std::ffi::OsStr> = arguments.chain([candidate.as_os_str()]).collect();
        let ended = tool.run(&arguments).await?;
        if ended.code == Some(0) {
            return Ok(());
        }
        // Where the candidate stood says nothing to a person: the file it is to be does.
        let said = ended.words.replace(&candidate.display().to_string(), path);
        let said = if said.is_empty() { "without a word" } else { &said };
        Err(Failure::new(format!("{} refuses it: {said}", tool.name)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, RealChecks) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/x")).unwrap();
        fs::write(root.path().join("etc/x/neighbour"), "n").unwrap();
        fs::write(root.path().join("etc/x/a.service"), "as it stands").unwrap();
        let checks = RealChecks::new(root.path(), &root.path().join("run/check"));
        (root, checks)
    }

    #[test]
    fn a_candidate_stands_among_links_to_its_neighbours_and_goes() {
        let (root, checks) = machine();
        for _ in 0..2 {
            let mirror = checks.mirror("/etc/x/a.service", &Content::new(b"new")).unwrap();
            assert_eq!(fs::read_to_string(mirror.folder.join("a.service")).unwrap(), "new");
            assert_eq!(fs::read_to_string(mirror.folder.join("neighbour")).unwrap(), "n");
            // A kill leaves it; the next one is another all the same.
            std::mem::forget(mirror);
        }
        drop(checks.mirror("/etc/x/a.service", &Content::new(b"new")).unwrap());
        assert_eq!(fs::read_dir(root.path().join("run/check")).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(root.path().join("etc/x/a.service")).unwrap(), "as it stands");
        assert_eq!(fs::read_to_string(root.path().join("etc/x/neighbour")).unwrap(), "n");
        assert_eq!(fs::read_dir(root.path().join("etc/x")).unwrap().count(), 2);
    }

    /// Each program that this machine has, with what it takes and what it does not; one that is missing says so.
    #[tokio::test]
    async fn programs_say_what_they_refuse() {
        let cases = [
            (
                Check::IniSystemdUnit,
                "/etc/x/a.service",
                "[Service]\nExecStart=/bin/true\n",
                "[Service]\nExecStart=true\nNoSuchKey=1\n",
            ),
            (Check::Sudoers, "/etc/x/sudoers", "root ALL=(ALL) ALL\n", "root ALL=(ALL ALL\n"),
            (Check::Haproxy, "/etc/x/haproxy.cfg", "global\n  maxconn 10\n", "nonsense here\n"),
            (Check::Nginx, "/etc/x/nginx.conf", "events {}\n", "events {\n"),
        ];
        for (check, path, good, bad) in cases {
            let (_root, checks) = machine();
            let taken = checks.check(check, path, &Content::new(good.as_bytes())).await;
            let refused =
                checks.check(check, path, &Content::new(bad.as_bytes())).await.unwrap_err().to_string();
            if let Err(why) = &taken
                && why.to_string().starts_with("this machine has no ")
            {
                assert_eq!(refused, why.to_string());
                continue;
            }
            assert_eq!(taken, Ok(()), "{check}");
            assert!(
                refused.contains(" refuses it: ") && !refused.contains("/run/check/"),
                "{check}: {refused}"
            );
        }
    }
}
