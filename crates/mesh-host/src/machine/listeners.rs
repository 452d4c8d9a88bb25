//! Who holds a port of the machine, by what the kernel shows of its sockets. Opens none, connects to none.
//!
//! Called by: `mesh-host doctor`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Its number.
    pub process: u32,
    /// The kernel's name for it: at most 15 bytes of its program's.
    pub name: String,
}

/// Of these ports, those that somebody holds, and who; a holder that cannot be found is left out.
pub fn holders(root: &Path, ports: &BTreeSet<u16>) -> BTreeMap<u16, BTreeSet<Holder>> {
    let mut held: BTreeMap<u16, BTreeSet<Holder>> = BTreeMap::new();
    let mut sockets: BTreeMap<u64, u16> = BTreeMap::new();
    for (table, is_tcp) in [("tcp", true), ("tcp6", true), ("udp", false), ("udp6", false)] {
        let text = fs::read_to_string(root.join("proc/net").join(table)).unwrap_or_default();
        for (port, inode) in text.lines().filter_map(|line| listening(line, is_tcp)) {
            if ports.contains(&port) {
                held.entry(port).or_default();
                sockets.insert(inode, port);
            }
        }
    }
    if sockets.is_empty() {
        return held;
    }
    let Ok(processes) = fs::read_dir(root.join("proc")) else { return held };
    for process in processes.flatten() {
        let Some(number) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            let Some(port) = socket_at(&descriptor.path()).and_then(|inode| sockets.get(&inode)) else {
                continue;
            };
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let holder = Holder { process: number, name: name.trim().to_owned() };
            held.entry(*port).or_default().insert(holder);
        }
    }
    held
}

/// The local port and the inode of a line of `/proc/net/{tcp,udp}` (proc(5)) whose socket takes what arrives.
fn listening(line: &str, is_tcp: bool) -> Option<(u16, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    // TCP_LISTEN; a UDP socket that is bound and not connected is in the state TCP_CLOSE.
    if *state != if is_tcp { "0A" } else { "07" } {
        return None;
    }
    let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    Some((port, inode.parse().ok()?))
}

fn socket_at(descriptor: &Path) -> Option<u64> {
    let target = fs::read_link(descriptor).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn who_holds_a_port_is_found_and_a_connection_holds_none() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let udp_port = udp.local_addr().expect("an address").port();
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        let client_port = client.local_addr().expect("an address").port();
        let wanted = BTreeSet::from([port, udp_port, client_port]);
        let held = holders(Path::new("/"), &wanted);
        for port in [port, udp_port] {
            assert!(held[&port].iter().any(|holder| holder.process == std::process::id()), "{held:?}");
        }
        assert!(!held.contains_key(&client_port) || client_port == udp_port, "{held:?}");
    }
}
