//! What the machine is: operating system, processors, memory, disks, addresses. Reads only; what cannot be read is left
//! empty, because a report without it is better than none.

use std::{collections::BTreeSet, fs, path::Path};

use mesh_wire::{Disk, Facts};

/// What the machine under `root` is. `engine`: the container engine, which is asked elsewhere.
pub fn facts(root: &Path, engine: Option<String>) -> Facts {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let kernel = rustix::system::uname();
    Facts {
        os: os_name(&read("etc/os-release")),
        kernel: kernel.release().to_string_lossy().into_owned(),
        architecture: kernel.machine().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(0, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory(&read("proc/meminfo")),
        disks: disks(&read("proc/self/mountinfo")),
        engine,
        addresses: addresses(&read("proc/net/fib_trie"), &read("proc/net/if_inet6")),
    }
}

/// The kernel's name for this boot.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn os_name(os_release: &str) -> String {
    let line = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    line.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The file systems that hold a machine's data: on a block device, or the root whatever it is on.
fn disks(mountinfo: &str) -> Vec<Disk> {
    let mut seen = BTreeSet::new();
    let mut disks: Vec<Disk> = Vec::new();
    for line in mountinfo.lines() {
        // proc(5): id parent major:minor root mount options… - type source options
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let fields: Vec<&str> = left.split(' ').collect();
        let (Some(device), Some(mount)) = (fields.get(2), fields.get(4)) else { continue };
        let source = right.split(' ').nth(1).unwrap_or_default();
        // A file that is mounted over another (as containers do) is no disk.
        let is_disk = *mount == "/" || (source.starts_with("/dev/") && Path::new(mount).is_dir());
        if !is_disk || !seen.insert(*device) {
            continue;
        }
        let Ok(found) = rustix::fs::statvfs(*mount) else { continue };
        let size = found.f_blocks * found.f_frsize;
        let step = (size / 64).max(1);
        let free = found.f_bavail * found.f_frsize / step * step;
        disks.push(Disk { mount: (*mount).to_owned(), size_bytes: size, free_bytes: free });
    }
    disks.sort_by(|a, b| a.mount.cmp(&b.mount));
    disks
}

/// The addresses of the interfaces, from what the kernel shows of its routes: no library of the system is needed.
fn addresses(fib_trie: &str, if_inet6: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    let mut last = "";
    for line in fib_trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address;
        } else if line == "/32 host LOCAL" && !last.starts_with("127.") {
            found.insert(last.to_owned());
        }
    }
    for line in if_inet6.lines() {
        let Some(digits) = line.split(' ').next().and_then(|hex| u128::from_str_radix(hex, 16).ok()) else {
            continue;
        };
        let address = std::net::Ipv6Addr::from(digits);
        if !address.is_loopback() && !address.is_unicast_link_local() {
            found.insert(address.to_string());
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_memory_and_a_root() {
        let facts = facts(Path::new("/"), None);
        assert!(!facts.kernel.is_empty() && facts.cpus > 0 && facts.memory_bytes > 0, "{facts:?}");
        assert!(facts.disks.iter().any(|disk| disk.mount == "/" && disk.size_bytes > 0), "{facts:?}");
    }

    #[test]
    fn addresses_are_read_without_loopback_and_link_local() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        let inet6 = "fe800000000000000000000000000001 02 40 20 80 eth0\nfd000000000000000000000000000005 02 40 00 80 eth0\n00000000000000000000000000000001 01 80 10 80 lo\n";
        assert_eq!(addresses(trie, inet6), ["10.0.0.7", "fd00::5"]);
        assert_eq!(
            os_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)"
        );
    }
}
