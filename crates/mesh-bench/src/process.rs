//! A process of a node, seen from this machine, whose kernel it shares: its memory and its processor time.
//!
//! It only reads `/proc` and can send one signal; nothing is started in the node for it, so looking costs the node
//! nothing. Processor time is counted by the kernel in nanoseconds (`schedstat`), which ticks of 10 ms would hide.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use mesh_lab::Node;
use rustix::process::{Pid, Signal, kill_process};

/// How long one of the kernel's ticks is for programs, whatever it is inside (USER_HZ, 100 on every architecture of Debian).
const TICK: Duration = Duration::from_millis(10);

/// A process of a node.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    id: u32,
    folder: PathBuf,
}

impl Process {
    /// The one process of this name on the node, or in a container on it.
    pub(crate) fn on(node: &Node, name: &str) -> anyhow::Result<Self> {
        let space = node.run(["readlink", "/proc/1/ns/pid"])?;
        let mut found: Vec<Self> =
            fs::read_dir("/proc")?.flatten().filter_map(|entry| Self::at(&entry.path())).collect();
        found.retain(|process| process.name().is_some_and(|said| said == name) && process.is_in(&space));
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => bail!("no {name} runs on {}", node.name()),
            more => bail!("{} processes called {name} run on {}", more.len(), node.name()),
        }
    }

    fn at(folder: &Path) -> Option<Self> {
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        Some(Self { id, folder: folder.to_owned() })
    }

    fn name(&self) -> Option<String> {
        Some(fs::read_to_string(self.folder.join("comm")).ok()?.trim().to_owned())
    }

    /// Whether it, or one it descends from, lives in this space of process numbers. A container on a node has a space of
    /// its own, but was started from the node's.
    fn is_in(&self, space: &str) -> bool {
        let own = fs::read_link(self.folder.join("ns/pid"));
        if own.is_ok_and(|own| own.as_os_str() == space) {
            return true;
        }
        let parent = self.stat().and_then(|stat| stat.parent().ok());
        parent.filter(|parent| *parent > 0).is_some_and(|parent| {
            Self::at(&Path::new("/proc").join(parent.to_string())).is_some_and(|process| process.is_in(space))
        })
    }

    fn stat(&self) -> Option<Stat> {
        Stat::of(&fs::read_to_string(self.folder.join("stat")).ok()?)
    }

    /// What of its memory is in the machine's, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        let path = self.folder.join("status");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        resident_bytes(&text).with_context(|| format!("{} does not say VmRSS", path.display()))
    }

    /// Tells it to look at everything now.
    pub(crate) fn hang_up(&self) -> anyhow::Result<()> {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw).context("a process has a number")?;
        kill_process(id, Signal::HUP).with_context(|| format!("signal process {}", self.id))
    }

    /// Nanoseconds of processor time by thread.
    fn threads(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let folder = self.folder.join("task");
        let entries =
            fs::read_dir(&folder).with_context(|| format!("read {}: it has ended", folder.display()))?;
        let mut threads = BTreeMap::new();
        for entry in entries.flatten() {
            // One that ended between the two looks has used what it used before.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
            let used = text.split_whitespace().next().and_then(|first| first.parse().ok());
            let used = used.context("this kernel does not count processor time by thread (schedstat)")?;
            threads.insert(entry.file_name().to_string_lossy().into_owned(), used);
        }
        Ok(threads)
    }
}

/// `/proc/PID/stat` after the name, which may hold anything (proc_pid_stat(5)).
struct Stat(Vec<String>);

impl Stat {
    fn of(text: &str) -> Option<Self> {
        Some(Self(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect()))
    }

    fn field(&self, number: usize) -> anyhow::Result<u64> {
        let field = self.0.get(number - 3).and_then(|field| field.parse().ok());
        field.with_context(|| format!("field {number} of a process's stat is no number"))
    }

    fn parent(&self) -> anyhow::Result<u64> {
        self.field(4)
    }

    /// Of the children it waited for: in ticks, in the programs and in the kernel.
    fn children(&self) -> anyhow::Result<u64> {
        Ok(self.field(16)? + self.field(17)?)
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Adds up what a process uses from now on, its children included. A thread that ends takes with it only what it used
/// since the last look, so look often.
#[derive(Debug)]
pub(crate) struct Meter {
    process: Process,
    threads: BTreeMap<String, u64>,
    children: u64,
    used: Duration,
}

impl Meter {
    /// Begins.
    pub(crate) fn on(process: &Process) -> anyhow::Result<Self> {
        let children = process.stat().context("it has ended")?.children()?;
        Ok(Self { threads: process.threads()?, process: process.clone(), children, used: Duration::ZERO })
    }

    /// Everything since it began.
    pub(crate) fn used(&mut self) -> anyhow::Result<Duration> {
        let threads = self.process.threads()?;
        let children = self.process.stat().context("it has ended")?.children()?;
        self.used += Duration::from_nanos(growth(&self.threads, &threads));
        self.used += TICK * u32::try_from(children.saturating_sub(self.children)).unwrap_or(u32::MAX);
        (self.threads, self.children) = (threads, children);
        Ok(self.used)
    }
}

/// What threads used between two looks; one that is new used all of it in between.
fn growth(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> u64 {
    after.iter().map(|(thread, used)| used.saturating_sub(before.get(thread).copied().unwrap_or(0))).sum()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn own() -> Process {
        Process::at(&Path::new("/proc").join(std::process::id().to_string())).unwrap()
    }

    #[test]
    fn a_name_with_a_parenthesis_does_not_shift_the_fields() {
        let stat = Stat::of("7 (a) b)) S 42 7 7 0 -1 0 1 2 3 4 50 60 700 800 20 0").unwrap();
        assert_eq!(stat.parent().unwrap(), 42);
        assert_eq!(stat.children().unwrap(), 1500);
        assert!(Stat::of("7 (a) S 42").unwrap().children().is_err());
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        assert_eq!(resident_bytes("VmPeak: 9 kB\nVmRSS:\t    2048 kB\n"), Some(2_097_152));
        assert_eq!(resident_bytes("VmPeak: 9 kB\n"), None);
        assert!(own().resident_bytes().unwrap() > 100_000);
    }

    #[test]
    fn threads_that_come_and_go_count_for_what_they_used() {
        let look =
            |list: &[(&str, u64)]| list.iter().map(|(name, used)| ((*name).to_owned(), *used)).collect();
        assert_eq!(growth(&look(&[("1", 100), ("2", 50)]), &look(&[("1", 130), ("3", 7)])), 37);
    }

    #[test]
    fn a_meter_counts_what_the_process_does_and_its_children_do() {
        let mut meter = Meter::on(&own()).unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(30) {
            std::hint::black_box(0);
        }
        let used = meter.used().unwrap();
        assert!(used >= Duration::from_millis(5), "{used:?}");
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        std::process::Command::new("sh").args(["-c", script]).status().unwrap();
        assert!(meter.used().unwrap() >= used + TICK, "children count");
    }

    #[test]
    fn a_process_is_in_the_space_of_the_one_it_descends_from() {
        let space = fs::read_link("/proc/self/ns/pid").unwrap();
        assert!(own().is_in(space.to_str().unwrap()));
        assert!(!own().is_in("pid:[1]"));
    }
}
