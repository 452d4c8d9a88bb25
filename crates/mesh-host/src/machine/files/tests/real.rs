//! A folder of a real file system as a ground. What changes a whole file system, or the process, is done in a process and
//! a mount namespace of its own, which end with the test.

use std::{
    env,
    fs::{self, File},
    io::Write as _,
    ops::ControlFlow,
    os::unix::fs::{PermissionsExt as _, chown, lchown, symlink},
    path::{Path, PathBuf},
    process::Command,
    rc::Rc,
};

use rustix::{
    fs::IFlags,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use super::{
    super::{Files, RealFiles, Trouble},
    Ground,
};

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs this very test in a process of its own, with a small file system mounted for it alone. In that process: where it
/// is mounted (nowhere, where there is no root to mount it). In the other one: nothing, once that one has passed.
pub(super) fn apart(test: &str) -> ControlFlow<(), Option<PathBuf>> {
    if !is_root() {
        return ControlFlow::Continue(None);
    }
    if let Some(place) = env::var_os("MESH_TEST_APART") {
        let place = PathBuf::from(place);
        run("mount", &["-t", "tmpfs", "-o", "size=4m,nr_inodes=2000", "none"], &place);
        return ControlFlow::Continue(Some(place));
    }
    let place = tempfile::tempdir().expect("a folder");
    let ended = Command::new("unshare")
        .arg("--mount")
        .arg(env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env("MESH_TEST_APART", place.path())
        .output()
        .expect("unshare(1), of util-linux");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    eprintln!("{said}");
    assert!(ended.status.success() && said.contains("1 passed"), "{test} failed apart");
    ControlFlow::Break(())
}

fn run(program: &str, arguments: &[&str], last: &Path) {
    let ended = Command::new(program).args(arguments).arg(last).output().expect(program);
    assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
}

pub(super) struct Disk {
    root: PathBuf,
    /// Nothing where the root is mounted for this process alone.
    _folder: Option<tempfile::TempDir>,
    is_mounted: bool,
    files: Rc<RealFiles>,
}

impl Disk {
    pub(super) fn new(mounted: Option<&Path>) -> Self {
        let folder = mounted.is_none().then(|| tempfile::tempdir().expect("a folder"));
        let root =
            mounted.map_or_else(|| folder.as_ref().expect("a folder").path().to_owned(), Path::to_owned);
        fs::create_dir(root.join("state")).expect("made");
        let files = RealFiles::new(&root, &root.join("state/saved"));
        let disk = Self { root, _folder: folder, is_mounted: mounted.is_some(), files: Rc::new(files) };
        disk.make("/etc", 0o755, "root");
        disk.put(
            "/etc/passwd",
            "root:x:0:0::/:/bin/sh\nbob:x:1234:1234::/:/bin/sh\nrobert:x:1234:1234::/:/bin/sh\n",
            0o644,
            "root",
        );
        disk.put("/etc/group", "root:x:0:\nbob:x:1234:\nrobert:x:1234:\n", 0o644, "root");
        disk
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn flag(&self, path: &str, flag: IFlags, on: bool) -> bool {
        let Ok(file) = File::open(self.at(path)) else { return false };
        let Ok(mut flags) = rustix::fs::ioctl_getflags(&file) else { return false };
        flags.set(flag, on);
        rustix::fs::ioctl_setflags(&file, flags).is_ok()
    }

    /// Fills the file system until nothing goes in any more: with bytes, or with files.
    fn fill(&self, with_files: bool) {
        let place = self.at("/filling");
        fs::create_dir(&place).expect("made");
        if with_files {
            (0..1_000_000).take_while(|n| File::create(place.join(n.to_string())).is_ok()).for_each(drop);
            return;
        }
        let mut file = File::create(place.join("bytes")).expect("made");
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

fn number(owner: &str) -> u32 {
    if owner == "root" { 0 } else { 1234 }
}

impl Ground for Disk {
    fn name(&self) -> &'static str {
        "on disk"
    }

    fn files(&self) -> Rc<dyn Files> {
        Rc::<RealFiles>::clone(&self.files)
    }

    fn put(&self, path: &str, text: &str, mode: u32, owner: &str) {
        fs::write(self.at(path), text).expect("written");
        chown(self.at(path), Some(number(owner)), Some(number(owner))).expect("owned");
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).expect("set");
    }

    fn make(&self, path: &str, mode: u32, owner: &str) {
        fs::create_dir_all(self.at(path)).expect("made");
        chown(self.at(path), Some(number(owner)), Some(number(owner))).expect("owned");
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).expect("set");
    }

    fn link(&self, path: &str, to: &str, owner: &str) {
        // A link to the root is one to the root of this ground.
        symlink(to, self.at(path)).expect("linked");
        lchown(self.at(path), Some(number(owner)), Some(number(owner))).expect("owned");
    }

    fn name_again(&self, path: &str, other: &str) {
        fs::hard_link(self.at(path), self.at(other)).expect("named");
    }

    fn make_odd(&self, path: &str) {
        run("mkfifo", &[], &self.at(path));
    }

    fn take(&self, path: &str) {
        let at = self.at(path);
        let gone = if at.is_dir() && !at.is_symlink() { fs::remove_dir(&at) } else { fs::remove_file(&at) };
        gone.expect("taken away");
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(folder)).expect("a folder");
        entries.map(|entry| entry.expect("a name").file_name().into_string().expect("text")).collect()
    }

    fn cause(&self, trouble: Trouble, path: &str, on: bool) -> bool {
        match trouble {
            Trouble::Immutable => self.flag(path, IFlags::IMMUTABLE, on),
            Trouble::AppendOnly => self.flag(path, IFlags::APPEND, on),
            _ if !self.is_mounted => false,
            Trouble::ReadOnly => {
                run("mount", &["-o", if on { "remount,ro" } else { "remount,rw" }], &self.root);
                true
            }
            Trouble::Full | Trouble::NoInodes if on => {
                self.fill(trouble == Trouble::NoInodes);
                true
            }
            Trouble::Full | Trouble::NoInodes => {
                fs::remove_dir_all(self.at("/filling")).expect("taken away");
                true
            }
            Trouble::TooManyOpen => {
                let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
                // So few that not one more can be opened.
                let current = if on { Some(1) } else { maximum };
                setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok()
            }
            _ => false,
        }
    }
}
