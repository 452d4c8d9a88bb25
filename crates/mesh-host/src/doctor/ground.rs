//! What the node stands on: clock, disks, memory, engine, control groups, systemd, kernel.

use std::collections::BTreeMap;

use mesh_wire::kinds::Kind;

use super::{Finding, Level, bytes, node::Known, spoken, within};
use crate::{
    failure::Failure,
    machine::{
        Machine,
        health::{self, ControlGroups, Kernel, Memory, Room},
        process, units,
    },
    paths::Paths,
};

const MIB: u64 = 1 << 20;
/// A clock is stepped by a little now and then, and the control plane's may be a little ahead.
const CLOCK_SLACK: i64 = 60;

pub(super) fn not_root() -> Option<Finding> {
    (!process::is_root()).then(|| {
        Finding::warn(
            "user",
            "not root: much of what follows could not be read",
            "run 'mesh-host doctor' as root",
        )
    })
}

pub(super) async fn examine(paths: &Paths, machine: &Machine, node: &Known) -> Vec<Finding> {
    let root = paths.root();
    let rooms = health::rooms(root, &paths.state());
    let rooms: Vec<(String, Option<Room>)> =
        rooms.into_iter().map(|(place, room)| (place.display().to_string(), room)).collect();
    let mut findings = vec![clock(machine.clock.now(), node.floor())];
    findings.extend(disks(&rooms));
    findings.push(memory(health::memory(root)));
    let version = within(10, "the engine", async { Ok(machine.engine.version().await) }).await;
    let engine = match version {
        Ok(Some(version)) => Ok(version),
        Ok(None) => Err(within(10, "the engine", machine.engine.look())
            .await
            .err()
            .unwrap_or_else(|| Failure::new("it does not say its version"))),
        Err(silent) => Err(silent),
    };
    findings.push(judge_engine(engine, needs_engine(node)));
    findings.push(control_groups(&health::control_groups(root)));
    findings.push(systemd(&within(10, "systemd", units::system_state()).await));
    findings.push(kernel(&health::kernel(root)));
    findings
}

/// `floor`: what the mesh signed last was signed then; a clock that shows less is wrong.
fn clock(now: i64, floor: Option<i64>) -> Finding {
    let shown = u64::try_from(now).map_or_else(
        |_| "before 1970".to_owned(),
        |now| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(now);
            humantime::format_rfc3339_seconds(time).to_string()
        },
    );
    match floor {
        Some(floor) if now + CLOCK_SLACK < floor => Finding::fail(
            "clock",
            format!("{shown}, {} before the mesh signed what this machine has", spoken(now.abs_diff(floor))),
            "set the clock, and keep it set: 'timedatectl set-ntp true', or install systemd-timesyncd or chrony",
        ),
        Some(floor) => {
            let since = spoken(now.abs_diff(floor));
            Finding::ok("clock", format!("{shown}, {since} after the mesh signed what this machine has"))
        }
        None => Finding::ok("clock", format!("{shown}; there is nothing yet to compare it with")),
    }
}

/// One finding for each file system, about all the places that are on it.
fn disks(rooms: &[(String, Option<Room>)]) -> Vec<Finding> {
    let mut by_device: BTreeMap<u64, (Vec<&str>, Room)> = BTreeMap::new();
    let mut findings = Vec::new();
    for (place, room) in rooms {
        match room {
            Some(room) => by_device.entry(room.device).or_insert((Vec::new(), *room)).0.push(place),
            None => findings.push(Finding::fail(
                "disk",
                format!("the file system of {place} does not say how it is"),
                "look whether it is mounted, and whether what it is on answers: 'findmnt', 'dmesg'",
            )),
        }
    }
    for (places, room) in by_device.into_values() {
        let places = places.join(", ");
        findings.push(space(&places, &room));
        findings.extend((room.inodes > 0).then(|| inodes(&places, &room)));
    }
    findings
}

fn space(places: &str, room: &Room) -> Finding {
    let found = format!("{places}: {} of {} free", bytes(room.free_bytes), bytes(room.size_bytes));
    let remedy =
        format!("make room on the file system of {places}: 'du -xh / | sort -h', 'podman image prune'");
    if room.read_only {
        let remedy =
            "nothing can be applied or remembered: look in 'dmesg' why, then 'mount -o remount,rw' it";
        Finding::fail("disk", format!("{found}; it is mounted read-only"), remedy)
    } else if room.free_bytes < 64 * MIB {
        Finding::fail("disk", found, remedy)
    } else if room.free_bytes < 512 * MIB || (room.free_bytes < room.size_bytes / 20) {
        Finding::warn("disk", found, remedy)
    } else {
        Finding::ok("disk", found)
    }
}

fn inodes(places: &str, room: &Room) -> Finding {
    let found = format!("{places}: {} more files of {} possible", room.free_inodes, room.inodes);
    let remedy = format!("remove files on the file system of {places}: 'du -x --inodes / | sort -n'");
    if room.free_inodes < 1000 {
        Finding::fail("inodes", found, remedy)
    } else if room.free_inodes < room.inodes / 20 {
        Finding::warn("inodes", found, remedy)
    } else {
        Finding::ok("inodes", found)
    }
}

fn memory(memory: Memory) -> Finding {
    let Memory { total_bytes, available_bytes } = memory;
    let found = format!("{} of {} available", bytes(available_bytes), bytes(total_bytes));
    let remedy =
        "see what takes it: 'ps aux --sort -rss', 'podman stats --no-stream'; give containers limits";
    if total_bytes == 0 {
        Finding::warn("memory", "the kernel does not say how much there is", "look whether /proc is mounted")
    } else if available_bytes < 32 * MIB {
        Finding::fail("memory", found, remedy)
    } else if available_bytes < total_bytes / 20 || available_bytes < 96 * MIB {
        Finding::warn("memory", found, remedy)
    } else {
        Finding::ok("memory", found)
    }
}

/// Whether anything on this machine is the engine's.
fn needs_engine(node: &Known) -> bool {
    node.resources().any(|resource| {
        matches!(
            resource.spec.kind(),
            Kind::Container | Kind::Volume | Kind::Network | Kind::Database | Kind::Vhost
        )
    })
}

fn judge_engine(engine: Result<String, Failure>, needed: bool) -> Finding {
    let remedy = "'apt-get install podman' and 'systemctl enable --now podman.socket'; where it is installed, see \
                  'systemctl status podman.socket' (Docker: docker.socket)";
    match engine {
        Ok(version) => Finding::ok("engine", version),
        Err(why) if needed => Finding::fail("engine", why.to_string(), remedy),
        Err(why) => Finding::warn("engine", format!("{why}; nothing here needs one yet"), remedy),
    }
}

fn control_groups(found: &ControlGroups) -> Finding {
    let remedy = "boot with 'systemd.unified_cgroup_hierarchy=1' on the kernel's command line";
    match found {
        ControlGroups::Unified(controllers) => {
            let missing: Vec<&str> = ["cpu", "memory", "pids"]
                .into_iter()
                .filter(|it| !controllers.iter().any(|has| has == it))
                .collect();
            if missing.is_empty() {
                return Finding::ok("cgroups", "version 2");
            }
            Finding::warn(
                "cgroups",
                format!("version 2 without {}: such limits of containers do nothing", missing.join(", ")),
                "enable them in the kernel ('cgroup_enable=memory' on its command line), or in the container this \
                 machine is",
            )
        }
        ControlGroups::Hybrid => {
            Finding::warn("cgroups", "versions 1 and 2 beside each other: some engines refuse that", remedy)
        }
        ControlGroups::Legacy => {
            Finding::warn("cgroups", "version 1 alone: newer systemd and engines refuse it", remedy)
        }
        ControlGroups::Missing => {
            Finding::fail("cgroups", "none are mounted in /sys/fs/cgroup: no engine works so", remedy)
        }
    }
}

fn systemd(state: &Result<units::SystemState, Failure>) -> Finding {
    match state {
        Err(why) => Finding::fail(
            "systemd",
            why.to_string(),
            "mesh-host runs as its unit and keeps units through it: boot the machine with systemd",
        ),
        Ok(units::SystemState { version, state }) => {
            let found = format!("{version}, {state}");
            match state.as_str() {
                "running" | "starting" | "initializing" => Finding::ok("systemd", found),
                "degraded" => {
                    Finding::warn("systemd", format!("{found}: some unit failed"), "see 'systemctl --failed'")
                }
                _ => Finding::warn("systemd", found, "see 'systemctl status' and 'systemctl list-jobs'"),
            }
        }
    }
}

fn kernel(kernel: &Kernel) -> Finding {
    let mut lacks = Vec::new();
    let mut remedies = Vec::new();
    if !kernel.overlay {
        lacks.push("no overlay file system, so engines copy every image whole".to_owned());
        remedies.push("'modprobe overlay'");
    }
    if (1..8192).contains(&kernel.watches) || (1..64).contains(&kernel.watchers) {
        lacks.push(format!(
            "only {} watches by {} watchers, so drift is noticed late",
            kernel.watches, kernel.watchers
        ));
        remedies.push("raise fs.inotify.max_user_watches and fs.inotify.max_user_instances by 'sysctl'");
    }
    if !kernel.tun {
        lacks.push("no /dev/net/tun, so no tunnels between machines".to_owned());
        remedies.push("'modprobe tun'");
    }
    let release = &kernel.release;
    if lacks.is_empty() {
        return Finding::ok("kernel", format!("{release}, with what the host and an engine need"));
    }
    let found = format!("{release}: {}", lacks.join("; "));
    Finding { check: "kernel", level: Level::Warn, found, remedy: Some(remedies.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room = Room {
        device: 1,
        size_bytes: 40 << 30,
        free_bytes: 20 << 30,
        inodes: 1_000_000,
        free_inodes: 900_000,
        read_only: false,
    };

    #[test]
    fn a_clock_behind_what_was_signed_is_wrong() {
        let level = |now, floor| clock(now, floor).level;
        assert_eq!(level(2_000, Some(1_000)), Level::Ok);
        assert_eq!(level(990, Some(1_000)), Level::Ok, "a little");
        assert_eq!(level(900, Some(1_000)), Level::Fail);
        assert_eq!(level(900, None), Level::Ok, "nothing to compare with");
        let behind = clock(0, Some(86_400 * 400));
        assert!(behind.found.starts_with("1970-01-01T00:00:00Z, 1year 1month before"), "{}", behind.found);
    }

    #[test]
    fn a_full_or_dead_disk_fails_and_one_that_fills_up_warns() {
        let level = |room: Room| space("/", &room).level;
        assert_eq!(level(ROOMY), Level::Ok);
        assert_eq!(level(Room { free_bytes: 1 << 30, ..ROOMY }), Level::Warn, "less than a twentieth");
        assert_eq!(level(Room { free_bytes: 20 << 20, ..ROOMY }), Level::Fail);
        assert_eq!(level(Room { read_only: true, ..ROOMY }), Level::Fail);
        assert_eq!(inodes("/", &Room { free_inodes: 10, ..ROOMY }).level, Level::Fail);
        assert_eq!(inodes("/", &Room { free_inodes: 2_000, ..ROOMY }).level, Level::Warn);
        assert_eq!(disks(&[("/x".to_owned(), None)])[0].level, Level::Fail);
    }

    #[test]
    fn places_on_one_file_system_are_one_finding() {
        let other = Room { device: 2, inodes: 0, ..ROOMY };
        let rooms = [("/", ROOMY), ("/var/lib/mesh-host", ROOMY), ("/var/lib/containers", other)];
        let rooms = rooms.map(|(place, room)| (place.to_owned(), Some(room)));
        let found: Vec<_> = disks(&rooms).into_iter().map(|it| (it.check, it.found)).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].1.starts_with("/, /var/lib/mesh-host: 20.0 GiB of 40.0 GiB free"), "{found:?}");
        assert_eq!(
            (found[1].0, found[2].0),
            ("inodes", "disk"),
            "a file system without a limit has no inodes"
        );
    }

    #[test]
    fn an_engine_is_missed_where_something_needs_it() {
        let none = || Err(Failure::new("this machine has no container engine"));
        assert_eq!(judge_engine(Ok("podman 4.3.1".to_owned()), true).level, Level::Ok);
        assert_eq!(judge_engine(none(), false).level, Level::Warn);
        assert_eq!(judge_engine(none(), true).level, Level::Fail);
    }

    #[test]
    fn little_memory_old_control_groups_and_a_poor_kernel_are_said() {
        let mib = |total, available| {
            memory(Memory { total_bytes: total * MIB, available_bytes: available * MIB }).level
        };
        assert_eq!(
            (mib(2048, 1024), mib(2048, 90), mib(2048, 20), mib(0, 0)),
            (Level::Ok, Level::Warn, Level::Fail, Level::Warn)
        );
        let unified =
            |names: &[&str]| ControlGroups::Unified(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(control_groups(&unified(&["cpu", "memory", "pids"])).level, Level::Ok);
        assert_eq!(control_groups(&unified(&["cpu"])).level, Level::Warn);
        assert_eq!(control_groups(&ControlGroups::Hybrid).level, Level::Warn);
        assert_eq!(control_groups(&ControlGroups::Missing).level, Level::Fail);
        let good =
            Kernel { release: "6.1".to_owned(), overlay: true, tun: true, watches: 65_536, watchers: 128 };
        assert_eq!(kernel(&good).level, Level::Ok);
        for bad in [
            Kernel { overlay: false, ..good.clone() },
            Kernel { tun: false, ..good.clone() },
            Kernel { watches: 100, ..good.clone() },
        ] {
            assert_eq!(kernel(&bad).level, Level::Warn);
        }
        let state = |word: &str| Ok(units::SystemState { version: "252".to_owned(), state: word.to_owned() });
        assert_eq!(systemd(&state("running")).level, Level::Ok);
        assert_eq!(systemd(&state("degraded")).level, Level::Warn);
        assert_eq!(systemd(&Err(Failure::new("connect to systemd"))).level, Level::Fail);
    }
}
