//! A program in a unit of its own, made for it and gone after it, as `systemd-run --wait` makes one: it lives on when the
//! host ends, and is not bound by what the host's own unit may do.
//!
//! A unit has one name for one purpose, so that there are never two of them at once: one that an earlier host started is
//! waited for, and only then the next is begun. What it says goes to files, not to the host, which may be gone by then;
//! a program that says too much loses what it said first. Called by: the package manager's door.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zbus::{OwnedObjectPath, Variant};

use super::real::{Bus, Listed, QUESTION};
use crate::failure::{During as _, Failure};

const SERVICE: &str = "org.freedesktop.systemd1.Service";
/// How often systemd is asked meanwhile.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Beyond its own time: for systemd to end it, and to say so.
const GRACE: Duration = Duration::from_mins(2);
/// How long a program that is told to end may take until it is killed.
const STOP_WITHIN: Duration = Duration::from_mins(1);
/// What a program says is kept up to here; beyond it, its file begins anew.
const MOST_SAID: u64 = 1 << 20;
/// How much of it is handed back.
const TAIL: u64 = 64 * 1024;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Task {
    /// The name of its unit: one for each purpose.
    pub unit: &'static str,
    /// What it is for, for people who look at units.
    pub description: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its environment, `NAME=value`, and nothing else.
    pub environment: Vec<String>,
    /// How long it may take.
    pub patience: Duration,
    /// The files for what it says: `.out` and `.err` are added to this.
    pub said: PathBuf,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ended {
    /// Whether it did what it was run for.
    pub success: bool,
    /// How it ended, in words: `ended with 100`.
    pub how: String,
    /// The end of what it said on standard output.
    pub output: String,
    /// The end of what it said on standard error.
    pub errors: String,
}

/// What there is of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// There is none, or it was never started.
    Gone,
    /// It runs, or is about to.
    Runs,
    /// It ended and is still there to be asked: whether well, and how.
    Ended(bool, String),
}

/// The acts on a transient unit.
#[async_trait(?Send)]
pub(super) trait Door {
    async fn start(&self, task: &Task) -> Result<(), Failure>;
    async fn look(&self, unit: &str) -> Result<Look, Failure>;
    /// Takes away what is left of one that ended.
    async fn clear(&self, unit: &str) -> Result<(), Failure>;
}

/// Whether this machine was booted with systemd (sd_booted(3)).
pub fn is_booted() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Runs it in a unit of its own and waits for its end; for the end of one like it first.
pub async fn run_apart(task: &Task) -> Result<Ended, Failure> {
    run(&Systemd::default(), task).await
}

/// Waits for the end of one that an earlier host started; whether there was one.
async fn settle(door: &impl Door, task: &Task) -> Result<bool, Failure> {
    let running = match door.look(task.unit).await? {
        Look::Gone => return Ok(false),
        Look::Ended(..) => false,
        Look::Runs => true,
    };
    if running {
        tracing::info!(unit = task.unit, "waiting for what an earlier mesh-host began");
        if let Look::Ended(_, how) = wait(door, task, task.patience + GRACE).await? {
            tracing::info!(unit = task.unit, "what an earlier mesh-host began {how}");
        }
    }
    clear_away(door, task).await?;
    Ok(running)
}

/// Takes away what is left of it, and waits until nothing is: its name is needed again at once.
async fn clear_away(door: &impl Door, task: &Task) -> Result<(), Failure> {
    door.clear(task.unit).await?;
    let end = Instant::now() + STOP_WITHIN;
    let mut ticks = interval(ASK_EVERY);
    loop {
        ticks.tick().await;
        let left = door.look(task.unit).await;
        if matches!(left, Ok(Look::Gone)) {
            return Ok(());
        }
        if Instant::now() >= end {
            let words =
                format!("systemd does not forget {0}, which ended: 'systemctl status {0}'", task.unit);
            return Err(left.err().unwrap_or_else(|| Failure::new(words)));
        }
    }
}

pub(super) async fn run(door: &impl Door, task: &Task) -> Result<Ended, Failure> {
    settle(door, task).await?;
    for end in ["out", "err"] {
        let begin = || {
            let mut new = OpenOptions::new();
            new.write(true).create(true).truncate(true).mode(0o600).open(said(task, end)).map(drop)
        };
        begin().during(format!("make {}", said(task, end).display()))?;
    }
    if let Err(why) = door.start(task).await {
        // The answer may be what was lost, and not the unit.
        match door.look(task.unit).await {
            Ok(Look::Runs | Look::Ended(..)) => {}
            _ => return Err(why),
        }
    }
    let (success, how) = match wait(door, task, task.patience + GRACE).await? {
        Look::Ended(success, how) => (success, how),
        _ => (false, "was stopped by somebody else".to_owned()),
    };
    let ended = Ended { success, how, output: tail(task, "out"), errors: tail(task, "err") };
    clear_away(door, task).await?;
    for end in ["out", "err"] {
        let _ = std::fs::remove_file(said(task, end));
    }
    Ok(ended)
}

/// Waits until it neither runs nor is about to. That systemd cannot be asked for a while is no answer: the program may be
/// replacing systemd itself.
async fn wait(door: &impl Door, task: &Task, within: Duration) -> Result<Look, Failure> {
    let end = Instant::now() + within;
    let mut ticks = interval(ASK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let silent = match door.look(task.unit).await {
            Ok(Look::Runs) => String::new(),
            Ok(over) => return Ok(over),
            Err(why) => format!(" ({why})"),
        };
        for end in ["out", "err"] {
            bound(&said(task, end));
        }
        if Instant::now() >= end {
            let (unit, seconds) = (task.unit, within.as_secs());
            let words = format!("{unit} has not ended after {seconds} s{silent}: 'systemctl status {unit}'");
            return Err(Failure::new(words));
        }
    }
}

fn said(task: &Task, end: &str) -> PathBuf {
    task.said.with_extension(end)
}

/// Lets the file begin anew where it became too long. systemd opened it for appending, so what follows is at its end.
fn bound(file: &Path) {
    if let Ok(found) = file.metadata()
        && found.len() > MOST_SAID
    {
        let _ = OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(0));
    }
}

/// The end of what it said; nothing where that cannot be read.
fn tail(task: &Task, end: &str) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(said(task, end))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// The machine's systemd, with a connection that is made anew after each failure.
#[derive(Default)]
struct Systemd(tokio::sync::Mutex<Option<Bus>>);

/// One property of a unit that is to be made.
type Property = (&'static str, Variant<'static>);

impl Systemd {
    async fn with_bus<T>(&self, act: impl AsyncFnOnce(&Bus) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut kept = self.0.lock().await;
        let bus = match kept.take() {
            Some(bus) if !bus.connection.is_closed() => bus,
            _ => Bus::connect().await?,
        };
        let outcome = act(&bus).await;
        if outcome.is_ok() {
            *kept = Some(bus);
        }
        outcome
    }
}

/// What the unit is made of (org.freedesktop.systemd1(5), systemd.service(5), systemd.exec(5)).
fn properties(task: &Task) -> Vec<Property> {
    let program = task.program.display().to_string();
    let mut command = vec![program.clone()];
    command.extend(task.arguments.iter().cloned());
    // Otherwise systemd would replace what looks like a variable in an argument.
    let flags = vec!["no-env-expand".to_owned()];
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let append = |end: &str| said(task, end).display().to_string();
    vec![
        ("Description", task.description.clone().into()),
        ("Type", "exec".into()),
        ("ExecStartEx", vec![(program, command, flags)].into()),
        ("Environment", task.environment.clone().into()),
        ("StandardInput", "null".into()),
        ("StandardOutputFileToAppend", append("out").into()),
        ("StandardErrorFileToAppend", append("err").into()),
        ("RuntimeMaxUSec", microseconds(task.patience).into()),
        ("TimeoutStopUSec", microseconds(STOP_WITHIN).into()),
        // How it ended can be asked until somebody did: also by the next host, should this one be killed.
        ("RemainAfterExit", true.into()),
    ]
}

#[async_trait(?Send)]
impl Door for Systemd {
    async fn start(&self, task: &Task) -> Result<(), Failure> {
        let none: Vec<(String, Vec<(String, Variant<'static>)>)> = Vec::new();
        let body = (task.unit, "fail", properties(task), none);
        self.with_bus(async |bus| {
            let _: OwnedObjectPath = bus.manager("StartTransientUnit", &body, QUESTION).await?;
            Ok(())
        })
        .await
        .map_err(|why| why.during(format!("start {}", task.unit)))
    }

    async fn look(&self, unit: &str) -> Result<Look, Failure> {
        self.with_bus(async |bus| {
            let listed: Vec<Listed> = bus.manager("ListUnitsByNames", &(vec![unit],), QUESTION).await?;
            let Some((_, _, load, active, sub, _, path, job, ..)) = listed.into_iter().next() else {
                return Ok(Look::Gone);
            };
            if load == "not-found" {
                return Ok(Look::Gone);
            }
            match state(&active, &sub, job) {
                State::Gone => Ok(Look::Gone),
                State::Runs => Ok(Look::Runs),
                State::Well => Ok(Look::Ended(true, "ended well".to_owned())),
                State::Badly => {
                    let result = bus.property(path.as_str(), SERVICE, "Result").await?;
                    let status = bus.property(path.as_str(), SERVICE, "ExecMainStatus").await?;
                    let (result, status) = (String::try_from(result), i32::try_from(status));
                    Ok(Look::Ended(false, badly(&result.unwrap_or_default(), status.unwrap_or(-1))))
                }
            }
        })
        .await
        .map_err(|why| why.during(format!("look at {unit}")))
    }

    async fn clear(&self, unit: &str) -> Result<(), Failure> {
        self.with_bus(async |bus| {
            // The one that ended well is stopped, the one that did not is forgotten; the other act fails, as it may.
            let stopped: Result<OwnedObjectPath, _> =
                bus.manager("StopUnit", &(unit, "replace"), QUESTION).await;
            let forgotten: Result<(), _> = bus.manager("ResetFailedUnit", &(unit,), QUESTION).await;
            match (stopped, forgotten) {
                (Err(why), Err(_)) if bus.connection.is_closed() => Err(why),
                _ => Ok(()),
            }
        })
        .await
    }
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Gone,
    Runs,
    Well,
    Badly,
}

/// By systemd's words for it, and the number of the job that is underway for it; 0: none.
fn state(active: &str, sub: &str, job: u32) -> State {
    match (active, sub) {
        ("active", "exited") => State::Well,
        ("failed", _) => State::Badly,
        // It was made, and systemd did not come to it yet.
        ("inactive", _) if job != 0 => State::Runs,
        ("inactive", _) => State::Gone,
        _ => State::Runs,
    }
}

/// systemd's word for a bad end (systemd.service(5), `$SERVICE_RESULT`), for people.
fn badly(result: &str, status: i32) -> String {
    match result {
        "exit-code" => format!("ended with {status}"),
        "timeout" => "took too long and was ended".to_owned(),
        "signal" | "core-dump" => format!("was ended by signal {status}"),
        "oom-kill" => "was ended because memory ran out".to_owned(),
        "resources" => "could not be started: systemd lacks what it needs for it".to_owned(),
        other => format!("failed ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, fs};

    use super::*;

    /// A systemd that says these things in turn, and remembers what was done.
    #[derive(Default)]
    struct Told {
        looks: RefCell<VecDeque<Result<Look, Failure>>>,
        acts: RefCell<Vec<&'static str>>,
        says: RefCell<Option<(PathBuf, String)>>,
        refuses: bool,
    }

    #[async_trait(?Send)]
    impl Door for Told {
        async fn start(&self, _: &Task) -> Result<(), Failure> {
            self.acts.borrow_mut().push("start");
            if let Some((file, text)) = &*self.says.borrow() {
                fs::write(file, text).expect("a file");
            }
            if self.refuses { Err(Failure::new("the connection broke")) } else { Ok(()) }
        }

        async fn look(&self, _: &str) -> Result<Look, Failure> {
            self.looks.borrow_mut().pop_front().expect("it looks once too often")
        }

        async fn clear(&self, _: &str) -> Result<(), Failure> {
            self.acts.borrow_mut().push("clear");
            Ok(())
        }
    }

    const RUNS: Result<Look, Failure> = Ok(Look::Runs);
    const GONE: Result<Look, Failure> = Ok(Look::Gone);
    const WELL: Result<Look, Failure> = Ok(Look::Ended(true, String::new()));

    fn told(looks: impl IntoIterator<Item = Result<Look, Failure>>) -> Told {
        Told { looks: RefCell::new(looks.into_iter().collect()), ..Told::default() }
    }

    fn task(folder: &Path) -> Task {
        Task {
            unit: "mesh-host-packages.service",
            description: "a test".to_owned(),
            program: PathBuf::from("/usr/bin/apt-get"),
            arguments: vec!["install".to_owned(), "$HOME %n".to_owned()],
            environment: Vec::new(),
            patience: Duration::from_mins(15),
            said: folder.join("packages"),
        }
    }

    #[tokio::test]
    async fn what_an_earlier_host_began_is_waited_for_and_never_joined_by_a_second() {
        let folder = tempfile::tempdir().expect("a folder");
        let looks = [RUNS, RUNS, WELL, WELL, GONE, RUNS, WELL, GONE];
        let door = told(looks);
        assert!(run(&door, &task(folder.path())).await.expect("it runs").success);
        assert_eq!(*door.acts.borrow(), ["clear", "start", "clear"]);
        let door = told([WELL, GONE, RUNS, WELL, GONE]);
        run(&door, &task(folder.path())).await.expect("it runs");
        assert_eq!(*door.acts.borrow(), ["clear", "start", "clear"], "one that ended unseen");
    }

    #[tokio::test]
    async fn the_words_of_a_failure_are_kept_and_the_files_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let badly = Ok(Look::Ended(false, badly("exit-code", 100)));
        let door = told([GONE, RUNS, badly, GONE]);
        let text = format!("{}E: Unable to locate package x\n", "filler\n".repeat(20_000));
        *door.says.borrow_mut() = Some((folder.path().join("packages.err"), text));
        let ended = run(&door, &task(folder.path())).await.expect("it runs");
        assert!(!ended.success && ended.how == "ended with 100", "{ended:?}");
        assert!(ended.errors.ends_with("Unable to locate package x\n"), "the end is what counts");
        assert!(ended.errors.len() <= 64 * 1024);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0);
    }

    #[tokio::test]
    async fn that_systemd_is_away_for_a_while_is_no_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let away = || Err(Failure::new("connect to systemd"));
        let door = told([GONE, away(), away(), RUNS, WELL, GONE]);
        assert!(run(&door, &task(folder.path())).await.expect("it runs").success);
        // The answer to the start was lost, the unit was not.
        let looks = [GONE, RUNS, RUNS, WELL, GONE];
        let door = Told { refuses: true, ..told(looks) };
        assert!(run(&door, &task(folder.path())).await.expect("it runs").success);
        let door = Told { refuses: true, ..told([GONE, GONE]) };
        assert!(run(&door, &task(folder.path())).await.is_err(), "it was not started");
    }

    #[tokio::test]
    async fn waiting_ends_and_says_what_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let door = told([RUNS]);
        let why = wait(&door, &task(folder.path()), Duration::ZERO).await.expect_err("it runs on");
        assert!(why.to_string().starts_with("mesh-host-packages.service has not ended after 0 s"), "{why}");
    }

    #[test]
    fn what_is_said_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("packages.out");
        fs::write(&file, vec![b'x'; 100]).expect("a file");
        bound(&file);
        assert_eq!(file.metadata().expect("it is there").len(), 100);
        fs::write(&file, vec![b'x'; 2 << 20]).expect("a file");
        bound(&file);
        assert_eq!(file.metadata().expect("it is there").len(), 0);
    }

    #[test]
    fn a_unit_that_was_made_and_not_begun_is_about_to_run() {
        assert_eq!(state("inactive", "dead", 7), State::Runs);
        assert_eq!(state("inactive", "dead", 0), State::Gone);
        assert_eq!(state("activating", "start", 7), State::Runs);
        assert_eq!(state("active", "running", 0), State::Runs);
        assert_eq!(state("active", "exited", 0), State::Well);
        assert_eq!(state("deactivating", "stop-sigterm", 0), State::Runs);
        assert_eq!(state("failed", "failed", 0), State::Badly);
    }
}
