//! The ports that resources of this machine bind, and who holds them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, node::Known};
use crate::{
    machine::listeners::{Holder, holders},
    paths::Paths,
};

/// The names of programs that hold ports for containers.
const ENGINES: [&str; 6] = ["conmon", "podman", "rootlessport", "docker-proxy", "dockerd", "slirp4netns"];

pub(super) fn examine(paths: &Paths, known: &Known) -> Vec<Finding> {
    let mut wanted: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for resource in known.resources() {
        for port in resource.spec.binds() {
            wanted.entry(port).or_default().push(resource.id.to_string());
        }
    }
    if wanted.is_empty() {
        return vec![Finding::ok("ports", "nothing here binds one")];
    }
    let held = holders(paths.root(), &wanted.keys().copied().collect());
    wanted.iter().map(|(port, ids)| judge(*port, &ids.join(", "), held.get(port))).collect()
}

fn judge(port: u16, wanted_by: &str, held: Option<&BTreeSet<Holder>>) -> Finding {
    let Some(holders) = held else {
        return Finding::warn(
            "ports",
            format!("{port} of {wanted_by} is held by nobody"),
            "see 'mesh-host status' why its container does not run; an engine that forwards by rules alone holds none",
        );
    };
    let names: Vec<String> =
        holders.iter().map(|holder| format!("{} (process {})", holder.name, holder.process)).collect();
    let stranger =
        holders.iter().find(|holder| !ENGINES.iter().any(|engine| holder.name.starts_with(engine)));
    match stranger {
        Some(stranger) => Finding::fail(
            "ports",
            format!("{port} of {wanted_by} is held by {}", names.join(", ")),
            format!("stop {} or give it another port, or change the port of {wanted_by}", stranger.name),
        ),
        None if names.is_empty() => Finding::ok("ports", format!("{port} of {wanted_by} is held")),
        None => Finding::ok("ports", format!("{port} of {wanted_by} is held by {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_port_is_the_engines_or_it_is_in_the_way() {
        let held = |name: &str| BTreeSet::from([Holder { process: 7, name: name.to_owned() }]);
        let level = |held: Option<&BTreeSet<Holder>>| judge(5671, "container:broker", held).level;
        assert_eq!(level(Some(&held("conmon"))), Level::Ok);
        assert_eq!(level(Some(&BTreeSet::new())), Level::Ok, "held by who cannot be seen");
        assert_eq!(level(None), Level::Warn);
        let stranger = judge(5671, "container:broker", Some(&held("nginx")));
        assert_eq!(stranger.level, Level::Fail);
        assert_eq!(stranger.found, "5671 of container:broker is held by nginx (process 7)");
    }
}
