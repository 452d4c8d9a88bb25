//! A machine in memory, for tests: every operation can be made to fail, or to be the last before a kill.
//!
//! It is as strict as a real one where the host could go wrong: systemd knows only the unit files it has read, a file
//! needs its folder, a directory that is not empty stays. Never used by a program.

mod checks;
mod files;
mod packages;
mod program;
mod sysctls;
mod units;
mod users;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fmt,
    rc::Rc,
};

use mesh_ids::Digest;

pub use self::program::FakeProgram;
use super::{
    Clock, Machine,
    engine::Engine,
    files::{Content, Meta, Trouble},
    users::UserFound,
};
use crate::failure::Failure;

/// What a killed process unwinds with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Killed;

/// Counts operations, and lets one of them fail or be the last.
#[derive(Debug, Default)]
pub struct Faults {
    count: Cell<u64>,
    fail_at: Cell<u64>,
    kill_after: Cell<u64>,
}

impl Faults {
    /// No faults from now on, and counting begins anew.
    pub fn none(&self) {
        self.count.set(0);
        self.fail_at.set(0);
        self.kill_after.set(0);
    }

    /// The `k`-th operation from now on fails; the first is 1.
    pub fn fail_at(&self, k: u64) {
        self.none();
        self.fail_at.set(k);
    }

    /// After the `k`-th operation from now on the process is killed.
    pub fn kill_after(&self, k: u64) {
        self.none();
        self.kill_after.set(k);
    }

    /// How many operations there were.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// One operation. Every one of every door goes through here.
    pub fn operation<T>(&self, what: &str, act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        let number = self.count.get() + 1;
        self.count.set(number);
        if self.fail_at.get() == number {
            return Err(Failure::new(format!("{what}: this operation was made to fail")));
        }
        let done = act();
        if self.kill_after.get() == number {
            // Not a panic: nobody hears of it, as of a real kill.
            std::panic::resume_unwind(Box::new(Killed));
        }
        done
    }
}

/// What is at a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File(Content, Meta),
    /// A directory.
    Directory(Meta),
    /// A symbolic link.
    Link {
        /// Where it leads.
        to: String,
        /// Who made it.
        owner: String,
    },
    /// Something else, e.g. `a device`.
    Other(String),
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(content, meta) => write!(f, "{:?} {meta}", String::from_utf8_lossy(content.bytes())),
            Self::Directory(meta) => write!(f, "directory {meta}"),
            Self::Link { to, owner } => write!(f, "link to {to}, {owner}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Where unit files are, the first counts.
const UNITS: [&str; 2] = ["/etc/systemd/system", "/usr/lib/systemd/system"];

/// What a unit is that does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// It ended, or never began.
    #[default]
    Ended,
    /// It is on its way to run.
    Starting,
    /// It ended badly.
    Failed,
}

/// A unit as systemd has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FakeUnit {
    /// The unit file as it was read last; `None`: it was read when there was none.
    pub read: Option<Digest>,
    /// With which unit file it was started last; `None`: it was stopped since, or never started.
    pub with: Option<Digest>,
    /// Whether it runs.
    pub active: bool,
    /// What it is where it does not run.
    pub idle: Idle,
    /// Whether it starts with the machine.
    pub enabled: bool,
}

/// Everything a test sees of the machine.
#[derive(Debug, Default)]
pub struct World {
    /// The files.
    pub tree: RefCell<BTreeMap<String, Node>>,
    /// What stands in the way of changes at some paths; at `/`: everywhere.
    pub troubles: RefCell<BTreeMap<String, Trouble>>,
    /// What was kept.
    pub kept: RefCell<BTreeMap<Digest, Content>>,
    /// The units systemd knows.
    pub units: RefCell<BTreeMap<String, FakeUnit>>,
    /// Which file a unit reads when it starts, and what it read.
    pub reads: RefCell<BTreeMap<String, (String, Option<Digest>)>>,
    /// The units that do not become ready, and how they end; one that does not end is on its way for ever.
    pub broken: RefCell<BTreeMap<String, Option<String>>>,
    /// How often each unit was started.
    pub starts: RefCell<BTreeMap<String, u32>>,
    /// How often systemd read all unit files.
    pub reloads: Cell<u32>,
    /// The installed packages.
    pub installed: RefCell<BTreeSet<String>>,
    /// The packages that can be installed.
    pub available: RefCell<BTreeSet<String>>,
    /// The checks whose program the machine has.
    pub checkers: RefCell<BTreeSet<String>>,
    /// The host's own program.
    pub program: RefCell<FakeProgram>,
    /// The users, but for root.
    pub users: RefCell<BTreeMap<String, UserFound>>,
    /// The groups and their numbers.
    pub groups: RefCell<BTreeMap<String, u32>>,
    /// The parameters of the kernel.
    pub sysctls: RefCell<BTreeMap<String, String>>,
    /// The clock, in seconds since 1970-01-01 UTC.
    pub now: Cell<i64>,
    /// What goes wrong.
    pub faults: Rc<Faults>,
}

impl World {
    /// A bare machine: `/etc`, systemd's folder, and a few packages to be had.
    pub fn bare() -> Rc<Self> {
        let world = Self::default();
        for path in [
            "/",
            "/etc",
            "/etc/systemd",
            "/etc/systemd/system",
            "/usr",
            "/usr/lib",
            "/usr/lib/systemd",
            UNITS[1],
            "/etc/sysctl.d",
            "/opt",
        ] {
            world.tree.borrow_mut().insert(path.to_owned(), Node::Directory(root(0o755)));
        }
        world.available.borrow_mut().extend(["curl", "jq", "tree"].map(str::to_owned));
        let kernel = [
            ("net.ipv4.ip_forward", "0"),
            ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
            ("vm.swappiness", "60"),
        ];
        world.sysctls.borrow_mut().extend(kernel.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let groups = [("root", 0), ("adm", 4), ("video", 44)];
        world.groups.borrow_mut().extend(groups.map(|(name, gid)| (name.to_owned(), gid)));
        world.now.set(1_900_000_000);
        Rc::new(world)
    }

    /// The machine's doors. `engine`: that of its containers.
    pub fn machine(self: &Rc<Self>, engine: Rc<dyn Engine>) -> Machine {
        let doors = Rc::new(Doors(Rc::clone(self)));
        Machine {
            checks: Rc::clone(&doors) as _,
            files: Rc::clone(&doors) as _,
            units: Rc::clone(&doors) as _,
            packages: Rc::clone(&doors) as _,
            users: Rc::clone(&doors) as _,
            sysctls: Rc::clone(&doors) as _,
            engine,
            program: Rc::clone(&doors) as _,
            clock: doors,
        }
    }

    /// Puts a file there, as a person would.
    pub fn put(&self, path: &str, content: &str, mode: u32) {
        let node = Node::File(Content::new(content.as_bytes()), root(mode));
        self.tree.borrow_mut().insert(path.to_owned(), node);
    }

    /// The text of a file.
    pub fn text(&self, path: &str) -> Option<String> {
        match self.tree.borrow().get(path) {
            Some(Node::File(content, _)) => Some(String::from_utf8_lossy(content.bytes()).into_owned()),
            _ => None,
        }
    }

    /// Everything that counts as the state of the machine, for comparison.
    pub fn picture(&self) -> String {
        let units = self.units.borrow();
        // A unit that neither runs nor starts with the machine and has no file is none.
        let units: BTreeMap<_, _> = units
            .iter()
            .filter(|(_, unit)| {
                unit.active || unit.idle != Idle::Ended || unit.enabled || unit.read.is_some()
            })
            .collect();
        let intended = self.program.borrow().state.trial.clone();
        let (tree, installed, sysctls) = (self.tree.borrow(), self.installed.borrow(), self.sysctls.borrow());
        let (users, groups) = (self.users.borrow(), self.groups.borrow());
        format!("{tree:#?}\n{units:#?}\n{installed:#?}\n{users:#?}\n{groups:#?}\n{sysctls:#?}\n{intended:#?}")
    }
}

/// Mode and root's ownership.
pub fn root(mode: u32) -> Meta {
    Meta { mode: mesh_wire::kinds::Mode::new(mode), owner: "root".to_owned(), group: "root".to_owned() }
}

/// The doors of a [`World`].
#[derive(Debug)]
struct Doors(Rc<World>);

impl Clock for Doors {
    fn now(&self) -> i64 {
        self.0.now.get()
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs(u64::try_from(self.0.now.get()).unwrap_or(0))
    }
}
