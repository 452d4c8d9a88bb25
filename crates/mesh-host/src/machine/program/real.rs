//! The host's program on this machine.

use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
};

use mesh_ids::Digest;
use mesh_wire::kinds::HostSource;

use super::{
    Program, ProgramFound, alarm,
    disk::{Disk as _, RealDisk},
    shelf::Shelf,
};
use crate::{
    failure::{During as _, Failure},
    machine::facts::boot_id,
    paths::Paths,
    upgrade::{Intention, Next, Start, State},
};

/// The SHA-256 of the program that runs.
pub fn own_digest() -> Result<Digest, Failure> {
    let own = RealDisk::default().digest(Path::new("/proc/self/exe")).during("read this program")?;
    own.ok_or_else(|| Failure::new("read this program: it cannot be found"))
}

/// The host's program on this machine.
#[derive(Debug)]
pub struct RealProgram {
    shelf: Shelf<RealDisk>,
    bundled: PathBuf,
    on_trial: Cell<bool>,
    connected: Cell<bool>,
}

impl RealProgram {
    /// The program at these places.
    pub fn new(paths: &Paths) -> Self {
        Self {
            shelf: Shelf::new(RealDisk::default(), paths),
            bundled: paths.bundle().join("host/mesh-host"),
            on_trial: Cell::new(false),
            connected: Cell::new(false),
        }
    }

    /// The program of this digest that lies beside the installed one.
    pub fn beside(&self, digest: &Digest) -> PathBuf {
        self.shelf.beside(digest)
    }
}

impl Program for RealProgram {
    fn look(&self, wanted: &Digest) -> Result<ProgramFound, Failure> {
        let state = self.state()?;
        let tried = state.trial.as_ref().filter(|_| self.on_trial.get());
        let runs = match tried {
            Some(trial) => trial.intention.digest.clone(),
            None => self.shelf.installed()?,
        };
        let beside = self.shelf.has(wanted)?;
        Ok(ProgramFound { runs, beside, connected: self.connected.get(), state })
    }

    fn state(&self) -> Result<State, Failure> {
        self.shelf.state()
    }

    fn install(&self, source: &HostSource, wanted: &Digest) -> Result<(), Failure> {
        match source {
            HostSource::Path(path) => self.shelf.install(Path::new(path), wanted),
            HostSource::Bundle => self.shelf.install(&self.bundled, wanted),
        }
    }

    fn intend(&self, intention: &Intention) -> Result<(), Failure> {
        self.shelf.change(|state| state.intend(intention.clone()))
    }

    fn withdraw(&self) -> Result<(), Failure> {
        self.shelf.change(State::withdraw)
    }

    fn begin(&self) -> Result<Next, Failure> {
        // The first word is the time since the machine was started, in seconds (proc(5)).
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let at_s = uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
        self.shelf.begin(|installed| Start { installed, boot: boot_id(), at_s })
    }

    fn told_to_end(&self) -> Result<(), Failure> {
        self.shelf.change(State::told_to_end)
    }

    fn give_up(&self, why: &str) -> Result<(), Failure> {
        self.shelf.change(|state| state.give_up(why))
    }

    fn keep(&self) -> Result<(), Failure> {
        let Some(trial) = self.state()?.trial else { return Ok(()) };
        let digest = trial.intention.digest;
        self.shelf.switch_to(&digest)?;
        self.shelf.change(|state| state.keep(&digest))?;
        alarm::disarm();
        self.on_trial.set(false);
        Ok(())
    }

    fn is_on_trial(&self) {
        self.on_trial.set(true);
    }

    fn is_connected(&self, connected: bool) {
        self.connected.set(connected);
    }

    fn forget(&self) -> Result<(), Failure> {
        self.shelf.forget()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use sha2::{Digest as _, Sha256};
    use tempfile::TempDir;

    use super::*;

    /// A file that looks like a program of this machine.
    fn program(end: &str) -> Vec<u8> {
        let mut bytes = fs::read("/proc/self/exe").expect("this program");
        bytes.truncate(64);
        bytes.extend(end.bytes());
        bytes
    }

    fn digest(bytes: &[u8]) -> Digest {
        Digest::of_sha256(Sha256::digest(bytes).into())
    }

    /// A machine with a program that a person installed.
    fn machine() -> (TempDir, Paths) {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = Paths::under(folder.path());
        for inside in ["usr/local/bin", "var/lib/mesh-host"] {
            fs::create_dir_all(folder.path().join(inside)).expect("a folder");
        }
        fs::write(paths.program(), program("old")).expect("a program");
        (folder, paths)
    }

    fn intend(real: &RealProgram, wanted: &[u8], source: &Path) -> Intention {
        let intention = Intention {
            version: "2".to_owned(),
            digest: digest(wanted),
            retry: 0,
            login: false,
            ledger_format: 1,
        };
        fs::write(source, wanted).expect("written");
        let from = HostSource::Path(source.display().to_string());
        real.install(&from, &intention.digest).expect("put beside");
        real.intend(&intention).expect("intended");
        intention
    }

    #[test]
    fn a_program_is_put_beside_tried_kept_and_followed_by_another_one() {
        let (folder, paths) = machine();
        let source = folder.path().join("source");
        for (number, version) in ["new", "newer", "newest"].into_iter().enumerate() {
            let real = RealProgram::new(&paths);
            let wanted = program(version);
            let before = fs::read(paths.program()).expect("installed");
            let intention = intend(&real, &wanted, &source);
            let beside = real.beside(&intention.digest);
            assert_eq!(fs::metadata(&beside).expect("there").permissions().mode() & 0o7777, 0o755);
            assert_eq!(real.begin().expect("decided"), Next::Try(intention.digest.clone()));
            assert_eq!(fs::read(paths.program()).expect("installed"), before, "not before it proved itself");
            let on_trial = RealProgram::new(&paths);
            on_trial.is_on_trial();
            assert_eq!(on_trial.look(&intention.digest).expect("looked").runs, intention.digest);
            on_trial.keep().expect("kept");
            assert_eq!(fs::read(paths.program()).expect("installed"), wanted);
            let found = RealProgram::new(&paths).look(&intention.digest).expect("looked");
            assert_eq!((found.runs, found.beside, found.state), (intention.digest, true, State::default()));
            assert_eq!(fs::read_dir(paths.programs()).expect("a folder").count(), 2, "after {}", number + 1);
        }
        let link = fs::read_link(paths.program()).expect("a link");
        assert!(link.starts_with("../lib/mesh-host/"), "{}", link.display());
    }

    #[test]
    fn what_failed_is_remembered_by_the_next_process_and_refused_by_it() {
        let (folder, paths) = machine();
        let real = RealProgram::new(&paths);
        let intention = intend(&real, &program("bad"), &folder.path().join("source"));
        real.begin().expect("decided");
        let next = RealProgram::new(&paths);
        assert_eq!(next.begin().expect("decided"), Next::Serve, "it ended in the same boot");
        let state = RealProgram::new(&paths).state().expect("read");
        assert!(state.failed(&intention.digest).is_some() && state.trial.is_none());
        next.intend(&intention).expect("asked");
        assert_eq!(next.begin().expect("decided"), Next::Serve);
        assert_eq!(fs::read(paths.program()).expect("installed"), program("old"));
    }
}
