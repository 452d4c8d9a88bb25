//! What a manifest may not say though it reads well: what its machines would refuse one by one otherwise.
//!
//! Asked of a manifest that somebody hands in, never of one that was kept: what was accepted once goes on being read. Called
//! by `from_toml` and `from_json`.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::IpAddr,
};

use crate::{
    Manifest,
    place::{Key, Problem},
    read::quoted,
};

/// Where the machine has the files of units.
const UNITS: &str = "/etc/systemd/system/";

impl Manifest {
    pub(crate) fn admit(&self) -> Result<(), Problem> {
        self.one_owner_a_path()?;
        self.owners()?;
        self.names()?;
        for (index, network) in self.networks.iter().enumerate() {
            if let Some(subnet) = &network.subnet {
                check_subnet(subnet).map_err(|reason| {
                    Problem::new([Key::Name("network"), Key::Index(index), Key::Name("subnet")], reason)
                })?;
            }
        }
        for (index, container) in self.containers.iter().enumerate() {
            if let Some((name, _)) = container.environment.iter().find(|(_, value)| value.contains('\0')) {
                return Err(Problem::new(
                    [Key::Name("container"), Key::Index(index), Key::Name("environment")],
                    format!("the variable {} holds a NUL, which no environment can", quoted(name)),
                ));
            }
        }
        Ok(())
    }

    /// A directory, a file and the file of a unit cannot be at one path.
    fn one_owner_a_path(&self) -> Result<(), Problem> {
        let directories = self.directories.iter().map(|entry| entry.path.clone());
        let files = self.files.iter().map(|entry| entry.path.clone());
        let units = self.units.iter().map(|entry| match entry.content {
            Some(_) => format!("{UNITS}{}", entry.name),
            None => String::new(),
        });
        let timers = self.timers.iter().map(|entry| format!("{UNITS}{}.timer", entry.name));
        let timed = self.timers.iter().map(|entry| format!("{UNITS}{}.service", entry.name));
        let drop_ins = self.units.iter().enumerate().flat_map(|(index, entry)| {
            let path = move |drop_in| format!("{UNITS}{}.d/{drop_in}", entry.name);
            entry.drop_ins.keys().map(move |drop_in| ("unit", index, path(drop_in)))
        });
        let sysctls = self.sysctls.iter().map(|entry| format!("/etc/sysctl.d/90-mesh-{}.conf", entry.name));
        let of = |kind: &'static str| move |(index, path)| (kind, index, path);
        let all = directories
            .enumerate()
            .map(of("directory"))
            .chain(files.enumerate().map(of("file")))
            .chain(units.enumerate().map(of("unit")))
            .chain(timers.enumerate().map(of("timer")))
            .chain(timed.enumerate().map(of("timer")))
            .chain(drop_ins)
            .chain(sysctls.enumerate().map(of("sysctl")));
        let mut held: BTreeMap<String, &str> = BTreeMap::new();
        for (kind, index, path) in all.filter(|(_, _, path)| !path.is_empty()) {
            let place = quoted(&path);
            match held.entry(path) {
                Entry::Vacant(free) => drop(free.insert(kind)),
                Entry::Occupied(holder) => {
                    return Err(Problem::new(
                        [Key::Name(kind), Key::Index(index)],
                        format!("the {kind} cannot be at {place}: a {} of this module is", holder.get()),
                    ));
                }
            }
        }
        Ok(())
    }

    fn owners(&self) -> Result<(), Problem> {
        let directories = self.directories.iter().enumerate();
        let directories = directories.map(|(index, entry)| ("directory", index, &entry.owner, &entry.group));
        let files = self.files.iter().enumerate();
        let files = files.map(|(index, entry)| ("file", index, &entry.owner, &entry.group));
        for (kind, index, owner, group) in directories.chain(files) {
            for (member, name) in [("owner", owner), ("group", group)] {
                if let Some(name) = name
                    && (name.is_empty() || name.chars().any(|c| c.is_control() || c == ':' || c == '/'))
                {
                    return Err(Problem::new(
                        [Key::Name(kind), Key::Index(index), Key::Name(member)],
                        format!("{} is not the name of a user or a group", quoted(name)),
                    ));
                }
            }
        }
        Ok(())
    }

    /// In the engine the module's name stands before each, so that an empty one would pass there.
    fn names(&self) -> Result<(), Problem> {
        let volumes = self.volumes.iter().enumerate().map(|(index, entry)| ("volume", index, &entry.name));
        let networks = self.networks.iter().enumerate().map(|(index, entry)| ("network", index, &entry.name));
        let containers =
            self.containers.iter().enumerate().map(|(index, entry)| ("container", index, &entry.name));
        match volumes.chain(networks).chain(containers).find(|(_, _, name)| name.is_empty()) {
            Some((kind, index, _)) => Err(Problem::new(
                [Key::Name(kind), Key::Index(index), Key::Name("name")],
                format!("the {kind} has no name: expected letters, digits, '.', '_' and '-'"),
            )),
            None => Ok(()),
        }
    }
}

/// The machine compares the subnet with the engine's word for it, which has no bits beyond the prefix.
fn check_subnet(subnet: &str) -> Result<(), String> {
    let wrong = || format!("{} is not a subnet: expected one such as 10.90.0.0/24", quoted(subnet));
    let (address, length) = subnet.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let (bits, width) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let length: u32 = length.parse().map_err(|_| wrong())?;
    if length == 0 || length > width || format!("{address}/{length}") != subnet {
        return Err(wrong());
    }
    if bits.trailing_zeros() < width - length {
        return Err(format!(
            "{} has bits beyond its prefix of {length}: expected a subnet such as 10.90.0.0/24",
            quoted(subnet)
        ));
    }
    Ok(())
}
