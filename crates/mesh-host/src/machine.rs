//! The only door to the operating system: traits, each with a real and a fake implementation.
//!
//! Nothing outside this folder, the ledger and the key store names `std::fs` or `std::process`. Nothing here knows what
//! a resource is.

pub mod checks;
pub mod engine;
pub mod facts;
pub mod fake;
pub mod files;
pub mod health;
pub mod listeners;
pub mod packages;
pub mod process;
pub mod program;
pub mod routes;
pub mod sysctls;
mod tool;
pub mod traces;
pub mod units;
pub mod users;
pub mod watch;

use std::{
    path::PathBuf,
    rc::Rc,
    sync::OnceLock,
    time::{Duration, Instant},
};

use crate::paths::Paths;

/// Everything the host can see and touch.
#[derive(Clone)]
pub struct Machine {
    /// The programs that check files.
    pub checks: Rc<dyn checks::Checks>,
    /// Files and directories.
    pub files: Rc<dyn files::Files>,
    /// systemd.
    pub units: Rc<dyn units::Units>,
    /// The package manager.
    pub packages: Rc<dyn packages::Packages>,
    /// Users and groups.
    pub users: Rc<dyn users::Users>,
    /// The parameters of the kernel.
    pub sysctls: Rc<dyn sysctls::Sysctls>,
    /// The container engine.
    pub engine: Rc<dyn engine::Engine>,
    /// The host's own program.
    pub program: Rc<dyn program::Program>,
    /// The wall clock.
    pub clock: Rc<dyn Clock>,
}

impl Machine {
    /// This machine.
    pub fn real(paths: &Paths) -> Self {
        let units: Rc<dyn units::Units> = Rc::new(units::RealUnits::default());
        let starts_engine = Some(Rc::clone(&units));
        Self::of(paths, units, starts_engine)
    }

    /// This machine, for who only looks: an engine that does not listen is not started.
    pub fn real_as_it_is(paths: &Paths) -> Self {
        Self::of(paths, Rc::new(units::RealUnits::default()), None)
    }

    fn of(paths: &Paths, units: Rc<dyn units::Units>, starts_engine: Option<Rc<dyn units::Units>>) -> Self {
        let images = engine::images::ImageStore::new(&paths.bundle(), &paths.images());
        let sockets = engine::socket::SOCKETS.iter().map(PathBuf::from).collect();
        Self {
            checks: Rc::new(checks::RealChecks::new(paths.root(), &paths.checks())),
            files: Rc::new(files::RealFiles::new(paths.root(), &paths.saved())),
            packages: Rc::new(packages::RealPackages::new(paths.root())),
            users: Rc::new(users::RealUsers::new(paths.root())),
            sysctls: Rc::new(sysctls::RealSysctls::new(paths.root())),
            engine: Rc::new(engine::socket::EngineSocket::new(sockets, starts_engine, images)),
            program: Rc::new(program::RealProgram::new(paths)),
            units,
            clock: Rc::new(SystemClock),
        }
    }
}

/// The time of day.
pub trait Clock {
    /// Seconds since 1970-01-01 UTC.
    fn now(&self) -> i64;

    /// Time that only goes on, from some beginning.
    fn elapsed(&self) -> Duration {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        BEGAN.get_or_init(Instant::now).elapsed()
    }
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one wall clock of this program")]
    fn now(&self) -> i64 {
        let now = std::time::SystemTime::now();
        // Before 1970 there is nothing to tell apart.
        now.duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
    }
}
