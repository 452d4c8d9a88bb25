//! What of a node a module has to itself: ports, paths, units. Names in the engine need no claim, a module's name stands
//! before them; packages are shared.

use std::{collections::BTreeMap, fmt};

use mesh_ids::ResourceId;
use mesh_wire::{Resource, kinds::Spec};

/// Something that one module on a node may have, and no other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// A port of the machine.
    Port(u16),
    /// A path of the machine.
    Path(String),
    /// A systemd unit.
    Unit(String),
    /// A user, with the group of its name.
    User(String),
    /// A parameter of the kernel.
    Sysctl(String),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "the port {port}"),
            Self::Path(path) => write!(f, "the path {path}"),
            Self::Unit(unit) => write!(f, "the unit {unit}"),
            Self::User(name) => write!(f, "the user {name}"),
            Self::Sysctl(key) => write!(f, "the kernel's parameter {key}"),
        }
    }
}

/// What these resources claim, and which of them does.
pub(crate) fn claims(resources: &[Resource]) -> BTreeMap<Claim, &ResourceId> {
    let mut claims = BTreeMap::new();
    // Who only looks takes nothing.
    for resource in resources.iter().filter(|resource| !resource.observe_only) {
        for port in resource.spec.binds() {
            claims.insert(Claim::Port(port), &resource.id);
        }
        claims.extend(of_kind(&resource.spec).into_iter().map(|claim| (claim, &resource.id)));
    }
    claims
}

fn of_kind(spec: &Spec) -> Vec<Claim> {
    match spec {
        Spec::File(file) => vec![Claim::Path(file.path.clone())],
        Spec::Directory(directory) => vec![Claim::Path(directory.path.clone())],
        Spec::Unit(unit) => {
            let drop_in = |name| Claim::Path(format!("/etc/systemd/system/{}.d/{name}", unit.name));
            [Claim::Unit(unit.name.clone())].into_iter().chain(unit.drop_ins.keys().map(drop_in)).collect()
        }
        Spec::Timer(timer) => {
            ["timer", "service"].map(|kind| Claim::Unit(format!("{}.{kind}", timer.name))).to_vec()
        }
        Spec::User(user) => vec![Claim::User(user.name.clone())],
        Spec::Sysctl(sysctl) => {
            let parameters = sysctl.settings.keys().map(|key| Claim::Sysctl(key.clone()));
            parameters.chain([Claim::Path(format!("/etc/sysctl.d/90-mesh-{}.conf", sysctl.name))]).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_a_resource_has_to_itself_is_claimed_in_words() {
        let cases = [
            (r#"{"kind": "user", "spec": {"name": "app"}}"#, vec!["the user app"]),
            (
                r#"{"kind": "sysctl", "spec": {"name": "s", "settings": {"vm.swappiness": "1"}}}"#,
                vec!["the path /etc/sysctl.d/90-mesh-s.conf", "the kernel's parameter vm.swappiness"],
            ),
            (
                r#"{"kind": "timer", "spec": {"name": "t", "calendar": "daily", "command": ["/bin/true"]}}"#,
                vec!["the unit t.service", "the unit t.timer"],
            ),
            (
                r#"{"kind": "unit", "spec": {"name": "a.service", "drop_ins": {"x.conf": ""}}}"#,
                vec!["the path /etc/systemd/system/a.service.d/x.conf", "the unit a.service"],
            ),
        ];
        for (json, expected) in cases {
            let json = json.replacen('{', r#"{"id": "r", "#, 1);
            let resource: Resource = serde_json::from_str(&json).unwrap();
            let list = [resource];
            let words: Vec<String> = claims(&list).keys().map(ToString::to_string).collect();
            assert_eq!(words, expected, "{json}");
        }
    }
}
