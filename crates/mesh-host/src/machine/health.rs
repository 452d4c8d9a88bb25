//! How the machine is: room on its file systems, memory, what its kernel offers. Reads only, and never waits for long: what
//! cannot be read is told as missing, because a doctor has to say what it sees of a machine that is ill.
//!
//! Called by: `mesh-host doctor`.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::StatVfsMountFlags;

/// The room on one file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Which file system: equal for two paths on the same one.
    pub device: u64,
    /// Its size.
    pub size_bytes: u64,
    /// What is free for everybody.
    pub free_bytes: u64,
    /// How many files it can hold; 0 where it has no such limit.
    pub inodes: u64,
    /// How many more it can hold.
    pub free_inodes: u64,
    /// Whether nothing can be written to it.
    pub read_only: bool,
}

/// The room where this path is, or will be: on the file system of its nearest folder that exists.
fn room(path: &Path) -> Option<Room> {
    let there = path.ancestors().find(|place| place.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(Room {
        device: fs::metadata(there).ok()?.dev(),
        size_bytes: found.f_blocks * found.f_frsize,
        free_bytes: found.f_bavail * found.f_frsize,
        inodes: found.f_files,
        free_inodes: found.f_favail,
        read_only: found.f_flag.contains(StatVfsMountFlags::RDONLY),
    })
}

/// Where an engine keeps images and containers.
const STORES: [&str; 2] = ["var/lib/containers", "var/lib/docker"];
/// How long a file system may take to say how it is. One on a server that is away takes for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// The room at the root, at `state`, and at the store of each engine that is there; none where its file system did not
/// answer.
pub fn rooms(root: &Path, state: &Path) -> Vec<(PathBuf, Option<Room>)> {
    let own = [root.to_owned(), state.to_owned()].map(|place| (place, true));
    let stores = STORES.map(|store| (root.join(store), false));
    let asked: Vec<_> =
        own.into_iter().chain(stores).map(|(place, always)| (ask(&place, always), place)).collect();
    let end = Instant::now() + PATIENCE;
    let answered = asked.into_iter().filter_map(|(asked, place)| {
        match asked.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(answer) => Some((place, answer)),
            Err(RecvTimeoutError::Timeout) => Some((place, None)),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    });
    answered.collect()
}

/// Asks on a thread of its own, which is left behind where no answer comes. It hangs up where the place is not there,
/// unless it is `always` asked for.
fn ask(place: &Path, always: bool) -> Receiver<Option<Room>> {
    let (say, answer) = sync_channel(1);
    let place = place.to_owned();
    thread::spawn(move || {
        if always || place.is_dir() {
            let _ = say.send(room(&place));
        }
    });
    answer
}

/// Memory of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// What a program could still get without swapping.
    pub available_bytes: u64,
}

/// The memory of the machine, by its kernel.
pub fn memory(root: &Path) -> Memory {
    let meminfo = read(root, "proc/meminfo");
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
    };
    Memory { total_bytes: bytes("MemTotal:"), available_bytes: bytes("MemAvailable:") }
}

/// How the kernel's control groups are mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlGroups {
    /// Version 2 alone, with these controllers.
    Unified(Vec<String>),
    /// Both versions.
    Hybrid,
    /// Version 1 alone.
    Legacy,
    /// None are mounted where they belong.
    Missing,
}

/// How the kernel's control groups are mounted.
pub fn control_groups(root: &Path) -> ControlGroups {
    let place = root.join("sys/fs/cgroup");
    if let Ok(controllers) = fs::read_to_string(place.join("cgroup.controllers")) {
        return ControlGroups::Unified(controllers.split_whitespace().map(str::to_owned).collect());
    }
    let mounts = read(root, "proc/self/mountinfo");
    let has = |kind: &str| {
        let kinds = mounts.lines().filter_map(|line| line.split_once(" - "));
        kinds.into_iter().any(|(_, right)| right.split(' ').next() == Some(kind))
    };
    match (has("cgroup"), has("cgroup2")) {
        (true, true) => ControlGroups::Hybrid,
        (true, false) => ControlGroups::Legacy,
        (false, _) => ControlGroups::Missing,
    }
}

/// What the kernel offers of what the host and an engine need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// Its release.
    pub release: String,
    /// Whether it can stack file systems, as engines do with images.
    pub overlay: bool,
    /// Whether programs can make tunnels.
    pub tun: bool,
    /// How many paths one user may watch; 0 where that could not be read.
    pub watches: u64,
    /// How many watchers one user may have; 0 where that could not be read.
    pub watchers: u64,
}

/// What the kernel offers.
pub fn kernel(root: &Path) -> Kernel {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    // What is loaded or built in, else what could be loaded.
    let overlay = read(root, "proc/filesystems").lines().any(|line| line.ends_with("\toverlay"))
        || ["modules.builtin", "modules.dep"]
            .iter()
            .any(|list| read(root, &format!("lib/modules/{release}/{list}")).contains("/overlay.ko"));
    let number = |path: &str| read(root, path).trim().parse().unwrap_or(0);
    Kernel {
        overlay,
        tun: root.join("dev/net/tun").exists(),
        watches: number("proc/sys/fs/inotify/max_user_watches"),
        watchers: number("proc/sys/fs/inotify/max_user_instances"),
        release,
    }
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_room_memory_and_a_kernel() {
        let root = Path::new("/");
        let here = room(root).expect("the root is there");
        assert!(here.size_bytes >= here.free_bytes && here.size_bytes > 0, "{here:?}");
        assert_eq!(room(Path::new("/a folder/that is not there")).map(|room| room.device), Some(here.device));
        let state = Path::new("/var/lib/a folder that is not there");
        let rooms = rooms(root, state);
        let at = |place: &Path| rooms.iter().find(|(at, _)| at == place).and_then(|(_, room)| *room);
        assert!(at(root).is_some() && at(state).is_some(), "{rooms:?}");
        let memory = memory(root);
        assert!(memory.total_bytes > memory.available_bytes && memory.available_bytes > 0, "{memory:?}");
        assert!(!kernel(root).release.is_empty());
    }

    #[test]
    fn control_groups_are_told_apart() {
        let root = tempfile::tempdir().expect("a folder");
        let mounts = |kinds: &[&str]| {
            let lines: Vec<String> =
                kinds.iter().map(|kind| format!("1 2 0:3 / /sys/fs/cgroup rw - {kind} {kind} rw")).collect();
            fs::create_dir_all(root.path().join("proc/self")).expect("a folder");
            fs::write(root.path().join("proc/self/mountinfo"), lines.join("\n")).expect("a file");
            control_groups(root.path())
        };
        assert_eq!(mounts(&["tmpfs"]), ControlGroups::Missing);
        assert_eq!(mounts(&["cgroup"]), ControlGroups::Legacy);
        assert_eq!(mounts(&["cgroup", "cgroup2"]), ControlGroups::Hybrid);
        let place = root.path().join("sys/fs/cgroup");
        fs::create_dir_all(&place).expect("a folder");
        fs::write(place.join("cgroup.controllers"), "cpu memory pids\n").expect("a file");
        assert_eq!(
            mounts(&["cgroup2"]),
            ControlGroups::Unified(["cpu", "memory", "pids"].map(str::to_owned).to_vec())
        );
    }
}
