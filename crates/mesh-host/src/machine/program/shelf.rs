//! The programs on the disk: the installed one, the others on a shelf beside it, and the file that remembers upgrades.
//! Every act leaves, at whatever point it is cut short, an installed program that is whole and proved.
//!
//! The installed program is a symbolic link to the shelf, or a file that a person put there. A link is replaced in one
//! step and without room on the disk, and `ls -l` says what is installed; the file of a person gets a second name on the
//! shelf before the link takes its first one.

use std::{
    cell::RefCell,
    io,
    path::{Path, PathBuf},
};

use mesh_ids::Digest;

use super::{disk::Disk, elf};
use crate::{
    failure::{During as _, Failure},
    paths::Paths,
    upgrade::{Next, Start, State, short},
};

/// The name of the program in its folder.
const NAME: &str = "mesh-host";

/// Where everything is.
#[derive(Debug)]
pub(super) struct Shelf<D> {
    pub(super) disk: D,
    /// What the service starts.
    program: PathBuf,
    /// A folder a program, named after the digest.
    folder: PathBuf,
    /// What is remembered.
    state: PathBuf,
    /// What was decided and could not be written yet. It holds for this process all the same.
    unwritten: RefCell<Option<State>>,
}

impl<D: Disk> Shelf<D> {
    pub(super) fn new(disk: D, paths: &Paths) -> Self {
        Self {
            disk,
            program: paths.program(),
            folder: paths.programs(),
            state: paths.upgrade(),
            unwritten: RefCell::default(),
        }
    }

    /// The program of this digest on the shelf.
    pub(super) fn beside(&self, digest: &Digest) -> PathBuf {
        self.folder.join(digest.hex()).join(NAME)
    }

    /// What is remembered of upgrades.
    pub(super) fn state(&self) -> Result<State, Failure> {
        let unwritten = self.unwritten.borrow().clone();
        if let Some(state) = unwritten {
            self.write_state(&state)?;
            *self.unwritten.borrow_mut() = None;
        }
        let path = self.state.display();
        let Some(bytes) = self.disk.read(&self.state).during(format!("read {path}"))? else {
            return Ok(State::default());
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            Failure::new(format!(
                "what is remembered of upgrades cannot be read, so none is begun: {path}: {error}; without that file a \
                 version that failed is no longer known to have"
            ))
        })
    }

    /// Remembers what this makes of it.
    pub(super) fn change(&self, change: impl FnOnce(State) -> State) -> Result<(), Failure> {
        let before = self.state()?;
        let after = change(before.clone());
        if after == before { Ok(()) } else { self.write_state(&after) }
    }

    fn write_state(&self, state: &State) -> Result<(), Failure> {
        let new = self.state.with_extension("json.new");
        let write = || {
            let bytes = serde_json::to_vec(state)?;
            self.disk.write(&new, &bytes, 0o600)?;
            self.disk.sync(&new)?;
            self.disk.rename(&new, &self.state)?;
            self.sync_folder_of(&self.state)
        };
        write().during(format!("write {}", self.state.display()))
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        path.parent().map_or(Ok(()), |folder| self.disk.sync(folder))
    }

    /// The installed program.
    pub(super) fn installed(&self) -> Result<Digest, Failure> {
        let path = self.program.display();
        let digest = self.disk.digest(&self.program).during(format!("read {path}"))?;
        digest.ok_or_else(|| {
            Failure::new(format!("there is no program at {path}, where the service starts it"))
        })
    }

    /// Whether the program of this digest is on the shelf, whole.
    pub(super) fn has(&self, digest: &Digest) -> Result<bool, Failure> {
        let path = self.beside(digest);
        let found = self.disk.digest(&path).during(format!("read {}", path.display()))?;
        Ok(found.as_ref() == Some(digest))
    }

    /// The folder of the shelf to which the installed program is a link, if it is one.
    fn linked(&self) -> io::Result<Option<String>> {
        let target = self.disk.link_target(&self.program)?;
        let folder = target.as_deref().and_then(Path::parent).and_then(Path::file_name);
        Ok(folder.map(|name| name.to_string_lossy().into_owned()))
    }

    /// Puts a program on the shelf.
    pub(super) fn install(&self, source: &Path, wanted: &Digest) -> Result<(), Failure> {
        let header =
            |path: &Path| self.disk.head(path, elf::HEADER_BYTES).during(format!("read {}", path.display()));
        if let Some(complaint) = elf::complaint(&header(source)?, &header(&self.program)?) {
            return Err(Failure::new(format!("{}: {complaint}", source.display())));
        }
        let installed = self.installed()?;
        let linked = self.linked().during(format!("look at {}", self.program.display()))?;
        let used = linked.iter().map(String::as_str).chain([installed.hex()]);
        self.tidy(&used.collect::<Vec<_>>())?;
        let make = || {
            let above = self.folder.parent().unwrap_or(&self.folder);
            self.disk.make_folder(above)?;
            self.disk.make_folder(&self.folder)?;
            self.sync_folder_of(above)?;
            self.sync_folder_of(&self.folder)
        };
        make().during(format!("make {}", self.folder.display()))?;
        if linked.is_none() {
            self.take_over(&installed).during(format!("keep {}", self.program.display()))?;
        }
        let copied = self.copy(source, wanted).during(format!("copy {}", source.display()))?;
        if copied == *wanted {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} has the digest {copied}, declared is {wanted}: it is another program, or was cut short",
            source.display()
        )))
    }

    /// Gives the installed program, which a person put there, a name on the shelf.
    fn take_over(&self, installed: &Digest) -> io::Result<()> {
        let name = self.beside(installed);
        let folder = self.folder.join(installed.hex());
        self.disk.make_folder(&folder)?;
        self.disk.remove(&name)?;
        if self.disk.name_again(&self.program, &name).is_err() {
            // Another file system.
            let new = folder.join("new");
            self.disk.copy(&self.program, &new, 0o755)?;
            self.disk.sync(&new)?;
            self.disk.rename(&new, &name)?;
        }
        self.disk.sync(&folder)?;
        self.disk.sync(&self.folder)
    }

    /// Copies a program onto the shelf; it gets its name there once it is whole and the one wanted.
    fn copy(&self, source: &Path, wanted: &Digest) -> io::Result<Digest> {
        let folder = self.folder.join(wanted.hex());
        let new = folder.join("new");
        let copy = || {
            self.disk.make_folder(&folder)?;
            let copied = self.disk.copy(source, &new, 0o755)?;
            if copied == *wanted {
                self.disk.sync(&new)?;
                self.disk.rename(&new, &folder.join(NAME))?;
                self.disk.sync(&folder)?;
                self.disk.sync(&self.folder)?;
            }
            Ok(copied)
        };
        let copied = copy();
        if !copied.as_ref().is_ok_and(|copied| copied == wanted) {
            // A full disk is not left full.
            let _ = self.disk.remove(&new).and_then(|()| self.disk.remove_folder(&folder));
        }
        copied
    }

    /// Removes every program but these from the shelf.
    fn tidy(&self, used: &[&str]) -> Result<(), Failure> {
        let tidy = || {
            for name in self.disk.names(&self.folder)? {
                if used.contains(&name.as_str()) {
                    continue;
                }
                let folder = self.folder.join(name);
                for inside in self.disk.names(&folder)? {
                    self.disk.remove(&folder.join(inside))?;
                }
                self.disk.remove_folder(&folder)?;
            }
            Ok(())
        };
        let outcome: io::Result<()> = tidy();
        outcome.during(format!("remove old versions from {}", self.folder.display()))
    }

    /// The service starts: decides who serves, and remembers it first.
    pub(super) fn begin(&self, start: impl FnOnce(Digest) -> Start) -> Result<Next, Failure> {
        let before = self.state()?;
        if before.trial.is_none() {
            return Ok(Next::Serve);
        }
        let (mut after, mut next) = before.clone().start(start(self.installed()?));
        if let Next::Try(digest) = &next
            && !self.has(digest)?
        {
            let why = format!("its copy beside the installed one ({}) is gone or damaged", short(digest));
            (after, next) = (after.give_up(&why), Next::Serve);
        }
        let written = self.write_state(&after);
        if written.is_err() {
            // It may be on the disk all the same. What failed is not to be tried again, and what is not tried now is not
            // to be taken for tried.
            let holds = if next == Next::Serve { after } else { before };
            *self.unwritten.borrow_mut() = Some(holds);
        }
        written.map(|()| next)
    }

    /// Installs a program of the shelf.
    pub(super) fn switch_to(&self, digest: &Digest) -> Result<(), Failure> {
        let target = Path::new("../lib/mesh-host").join(digest.hex()).join(NAME);
        let new = self.program.with_file_name(".mesh-host-new");
        let switch = || {
            if self.disk.link_target(&self.program)?.as_ref() != Some(&target) {
                self.disk.remove(&new)?;
                self.disk.link(&target, &new)?;
                self.disk.rename(&new, &self.program)?;
            }
            self.sync_folder_of(&self.program)
        };
        switch().during(format!("install {}", self.program.display()))
    }

    /// What only this process knew is gone.
    #[cfg(test)]
    pub(super) fn is_another_process(&self) {
        *self.unwritten.borrow_mut() = None;
    }

    /// Forgets upgrades, and removes every program that is not installed.
    pub(super) fn forget(&self) -> Result<(), Failure> {
        let forget = || {
            self.disk.remove(&self.state)?;
            self.linked()
        };
        let linked = forget().during(format!("remove {}", self.state.display()))?;
        self.tidy(&linked.iter().map(String::as_str).collect::<Vec<_>>())?;
        if linked.is_none() {
            self.disk.remove_folder(&self.folder).during(format!("remove {}", self.folder.display()))?;
        }
        Ok(())
    }
}
