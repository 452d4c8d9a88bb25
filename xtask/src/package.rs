//! `package`: the Debian package of the host into `dist/`, from the program that `build` left there.
//!
//! Written here byte by byte: an `ar` archive of two uncompressed `tar` archives (deb(5)), every time and owner fixed, so
//! that the same program gives the same package on every machine. It holds the program, its unit file, with the very text
//! that `mesh-host join` writes where no package is, and three scripts as short as they can be. Never installs anything.
//! Called by a person and by `check`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use tar::{EntryType, Header};

use crate::elf;
use crate::stage::{Outcome, Stage};
use crate::tree::Tree;

/// The package, once the programs are there.
pub(crate) const PACKAGE: Stage =
    Stage { name: "package", needs: &["build"], work: |tree| run(tree).map(|()| Outcome::Done) };

/// Of everything in it: 2025-01-01, as the files of the images.
const EPOCH: u64 = 1_735_689_600;
/// The same text as the host installs by itself.
const UNIT: &str = include_str!("../../crates/mesh-host/src/mesh-host.service");
const LICENSE: &str = include_str!("../../LICENSE");
/// The scripts dpkg runs, by their names.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("package/postinst")),
    ("prerm", include_str!("package/prerm")),
    ("postrm", include_str!("package/postrm")),
];

/// `cargo xtask package`: builds it twice, and refuses two that differ.
pub(crate) fn run(tree: &Tree) -> anyhow::Result<()> {
    let program = tree.dist.join("mesh-host");
    let program = fs::read(&program)
        .with_context(|| format!("read {}: `cargo xtask build mesh-host` makes it", program.display()))?;
    let package = write(&program)?;
    ensure!(package == write(&program)?, "the same program gave two packages");
    let place = tree.dist.join(file_name()?);
    for old in older(&tree.dist)? {
        fs::remove_file(&old).with_context(|| format!("remove {}", old.display()))?;
    }
    let fresh = place.with_extension("unfinished");
    fs::write(&fresh, &package).with_context(|| format!("write {}", fresh.display()))?;
    fs::rename(&fresh, &place).with_context(|| format!("put {} in place", place.display()))?;
    println!("{}: {} bytes, the same each time", place.display(), package.len());
    Ok(())
}

fn file_name() -> anyhow::Result<String> {
    Ok(format!("mesh-host_{}_{}.deb", env!("CARGO_PKG_VERSION"), architecture()?))
}

/// Packages of the host that an earlier build left.
fn older(dist: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dist).with_context(|| format!("list {}", dist.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("mesh-host_") && path.extension().is_some_and(|extension| extension == "deb") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Debian's word for what this program was built for.
fn architecture() -> anyhow::Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => anyhow::bail!("no name of Debian's is known here for {other}"),
    }
}

/// The package around this program.
fn write(program: &[u8]) -> anyhow::Result<Vec<u8>> {
    elf::ensure_static(program).context("refuse to pack the program")?;
    let copyright = format!("Novox Mesh, under the Apache License 2.0:\n\n{LICENSE}");
    // The folders of /usr/local are the machine's: a package that named them would take them with it when it goes.
    let files: [(&str, &[u8], u32); 3] = [
        ("usr/lib/systemd/system/mesh-host.service", UNIT.as_bytes(), 0o644),
        ("usr/local/bin/mesh-host", program, 0o755),
        ("usr/share/doc/mesh-host/copyright", copyright.as_bytes(), 0o644),
    ];
    let mut data = Tar::default();
    let named = ["usr", "usr/lib", "usr/lib/systemd", "usr/lib/systemd/system", "usr/share", "usr/share/doc"];
    for folder in named.into_iter().chain(["usr/share/doc/mesh-host"]) {
        data.folder(folder)?;
    }
    for (path, bytes, mode) in files {
        data.file(path, bytes, mode)?;
    }
    let size: usize = files.iter().map(|(_, bytes, _)| bytes.len()).sum();
    let mut control = Tar::default();
    control.file("control", describe(size)?.as_bytes(), 0o644)?;
    for (name, text) in SCRIPTS {
        control.file(name, text.as_bytes(), 0o755)?;
    }
    let mut archive = b"!<arch>\n".to_vec();
    member(&mut archive, "debian-binary", b"2.0\n");
    member(&mut archive, "control.tar", &control.finish());
    member(&mut archive, "data.tar", &data.finish());
    Ok(archive)
}

/// What dpkg is told of it (deb-control(5)). `size`: of its files, in bytes.
fn describe(size: usize) -> anyhow::Result<String> {
    Ok(format!(
        "Package: mesh-host\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: The Novox Mesh authors <authors@novox-mesh.invalid>\n\
         Installed-Size: {}\n\
         Depends: systemd\n\
         Recommends: podman\n\
         Section: admin\n\
         Priority: optional\n\
         Description: keeps this machine as its mesh declares it\n \
         The one program of Novox Mesh that runs on every machine. It applies what was declared\n \
         and signed for the machine, repairs drift, and says what is true. Installing the package\n \
         starts nothing: 'mesh-host join' or 'mesh-host bootstrap' does.\n",
        env!("CARGO_PKG_VERSION"),
        architecture()?,
        size.div_ceil(1024),
    ))
}

/// Appends a member to an `ar` archive (ar(5)).
fn member(archive: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    let header = format!("{name:<16}{EPOCH:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(bytes);
    if bytes.len() % 2 == 1 {
        archive.push(b'\n');
    }
}

/// A `tar` archive as dpkg reads it: names begin with `./`, everything is root's.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn folder(&mut self, path: &str) -> anyhow::Result<()> {
        self.entry(EntryType::Directory, &format!("./{path}/"), &[], 0o755)
    }

    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
        self.entry(EntryType::Regular, &format!("./{path}"), bytes, mode)
    }

    fn entry(&mut self, kind: EntryType, name: &str, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        // `set_path` would drop the leading `./`, which dpkg shows.
        let place = header.as_gnu_mut().context("the header is GNU's")?;
        ensure!(name.len() < place.name.len(), "{name} is too long");
        place.name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        header.set_mtime(EPOCH);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        Ok(())
    }

    /// Two empty blocks are its end.
    fn finish(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use std::process::Command;

    use super::*;

    /// The smallest static program there is: a header without a table.
    fn program() -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf
    }

    fn dpkg_deb(arguments: &[&str], package: &Path) -> String {
        let output = Command::new("dpkg-deb").args(arguments).arg(package).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn dpkg_reads_what_is_written_and_every_file_is_roots() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("x.deb");
        let package = write(&program()).unwrap();
        assert_eq!(package, write(&program()).unwrap(), "the same each time");
        fs::write(&place, &package).unwrap();

        let field = |name: &str| dpkg_deb(&["--show", &format!("--showformat=${{{name}}}")], &place);
        assert_eq!(
            (field("Package"), field("Version")),
            ("mesh-host".into(), env!("CARGO_PKG_VERSION").into())
        );
        let listed = dpkg_deb(&["--contents"], &place);
        let lines: Vec<&str> = listed.lines().collect();
        assert!(lines.iter().all(|line| line.contains(" root/root ")), "{listed}");
        let ends =
            |mode: &str, path: &str| lines.iter().any(|line| line.starts_with(mode) && line.ends_with(path));
        assert!(ends("-rwxr-xr-x", " ./usr/local/bin/mesh-host"), "{listed}");
        assert!(ends("-rw-r--r--", " ./usr/lib/systemd/system/mesh-host.service"), "{listed}");
        assert!(!listed.contains("./usr/local/\n"), "the folder is the machine's");

        let out = folder.path().join("out");
        let output = Command::new("dpkg-deb").arg("--raw-extract").arg(&place).arg(&out).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(fs::read_to_string(out.join("usr/lib/systemd/system/mesh-host.service")).unwrap(), UNIT);
        assert_eq!(fs::read(out.join("usr/local/bin/mesh-host")).unwrap(), program());
        assert_eq!(fs::read_to_string(out.join("DEBIAN/postrm")).unwrap(), SCRIPTS[2].1);
    }

    #[test]
    fn a_program_that_is_not_static_is_not_packed() {
        assert!(write(b"#!/bin/sh\n").unwrap_err().to_string().contains("refuse to pack"));
    }
}
