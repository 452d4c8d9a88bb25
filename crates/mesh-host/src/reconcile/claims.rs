//! Which resources want the same thing of the machine. The first keeps it; the others are told whose it is. Pure.

use std::collections::BTreeMap;

use mesh_wire::Resource;

use crate::{failure::Failure, for_kind, kinds::Claim, kinds::Kind, ledger::Origin};

/// What only the host itself may touch, with everything in it. Nor may a folder that holds one of these be declared: who
/// closes it locks the host out.
const HOSTS_OWN: [&str; 6] = [
    "/var/lib/mesh-host",
    "/run/mesh-host",
    "/usr/local/bin/mesh-host",
    "/usr/local/lib/mesh-host",
    "/etc/systemd/system/mesh-host.service",
    "/etc/systemd/system/mesh-host.service.d",
];

/// A resource that wants something.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// Whose it is.
    pub origin: Origin,
    /// What it is.
    pub resource: &'a Resource,
    /// Whether the ledger has it already: then it keeps what it has.
    pub held: bool,
}

/// For every resource that has to yield, by its place in the list: why. `lead`: where a path leads on this machine.
pub fn clashes(claimants: &[Claimant<'_>], lead: &dyn Fn(&str) -> String) -> BTreeMap<usize, Failure> {
    let own: Vec<String> = HOSTS_OWN.iter().flat_map(|path| [(*path).to_owned(), lead(path)]).collect();
    let mut places: Vec<usize> = (0..claimants.len()).collect();
    places.sort_by_key(|place| (claimants[*place].origin, !claimants[*place].held, *place));
    let mut owners: BTreeMap<Claim, usize> = BTreeMap::new();
    let mut clashes = BTreeMap::new();
    for place in places {
        // A kind this host does not know claims nothing; it is refused when it is looked at.
        let claims = claims(claimants[place].resource).unwrap_or_default();
        let claims: Vec<Claim> = claims.into_iter().map(|claim| claim.led(lead)).collect();
        if let Some(claim) = claims.iter().find(|claim| is_the_hosts_own(claim, &own)) {
            clashes.insert(place, Failure::new(format!("the {claim} is the host's own, or holds it")));
        } else if claimants[place].resource.observe_only {
            // Who only looks takes nothing, and stands in nobody's way.
        } else if let Some((claim, owner)) = claims.iter().find_map(|c| owners.get(c).map(|owner| (c, owner)))
        {
            let Claimant { origin, resource, .. } = claimants[*owner];
            let words =
                format!("the {claim} belongs to {} ({origin}): one of the two has to yield", resource.id);
            clashes.insert(place, Failure::new(words));
        } else {
            owners.extend(claims.into_iter().map(|claim| (claim, place)));
        }
    }
    clashes
}

pub(super) fn claims(resource: &Resource) -> Result<Vec<Claim>, Failure> {
    for_kind!(&resource.spec, |K, spec| Ok(K::claims(spec)))
}

fn is_the_hosts_own(claim: &Claim, own: &[String]) -> bool {
    let Some(path) = claim.as_path() else { return false };
    let lies_in = |inner: &str, outer: &str| {
        inner
            .strip_prefix(outer.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    own.iter().any(|own| lies_in(path, own) || lies_in(own, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_wire::kinds::{Content, FileSpec, Mode, UnitSpec};

    fn file(id: &str, path: &str) -> Resource {
        let spec = FileSpec {
            path: path.to_owned(),
            content: Content::Text(String::new()),
            mode: Mode::new(0o644),
            owner: "root".to_owned(),
            group: "root".to_owned(),
            check: None,
        };
        Resource { id: id.parse().expect("an id"), after: Vec::new(), observe_only: false, spec: spec.into() }
    }

    fn words(claimants: &[(Origin, &Resource, bool)]) -> Vec<(usize, String)> {
        let list: Vec<Claimant<'_>> = claimants
            .iter()
            .map(|(origin, resource, held)| Claimant { origin: *origin, resource, held: *held })
            .collect();
        clashes(&list, &|path| path.to_owned())
            .into_iter()
            .map(|(place, failure)| (place, failure.to_string()))
            .collect()
    }

    #[test]
    fn what_is_carried_keeps_what_it_has() {
        let (ours, theirs) = (file("ours", "/etc/a"), file("theirs", "/etc/a"));
        let clash = words(&[(Origin::Assigned, &theirs, true), (Origin::Carried, &ours, false)]);
        let why = "the path /etc/a belongs to ours (carried): one of the two has to yield";
        assert_eq!(clash, [(0, why.to_owned())]);
    }

    #[test]
    fn within_a_list_who_has_it_already_keeps_it() {
        let (new, old) = (file("new", "/etc/a"), file("old", "/etc/a"));
        assert_eq!(words(&[(Origin::Assigned, &new, false), (Origin::Assigned, &old, true)])[0].0, 0);
        assert_eq!(words(&[(Origin::Assigned, &new, false), (Origin::Assigned, &old, false)])[0].0, 1);
    }

    #[test]
    fn what_is_only_observed_stands_in_nobodys_way() {
        let observed = Resource { observe_only: true, ..file("observed", "/etc/a") };
        let (kept, own) = (file("kept", "/etc/a"), file("own", "/var/lib/mesh-host/lock"));
        assert!(words(&[(Origin::Carried, &observed, true), (Origin::Assigned, &kept, false)]).is_empty());
        assert!(words(&[(Origin::Carried, &kept, true), (Origin::Assigned, &observed, false)]).is_empty());
        let own = Resource { observe_only: true, ..own };
        assert_eq!(words(&[(Origin::Carried, &own, false)]).len(), 1, "what is the host's own is not shown");
    }

    #[test]
    fn a_file_and_the_unit_it_would_be_clash() {
        let unit = UnitSpec { name: "hello.service".to_owned(), ..UnitSpec::default() };
        let unit = Resource {
            id: "u".parse().expect("an id"),
            after: Vec::new(),
            observe_only: false,
            spec: unit.into(),
        };
        let file = file("f", "/etc/systemd/system/hello.service");
        assert_eq!(words(&[(Origin::Assigned, &unit, false), (Origin::Assigned, &file, false)]).len(), 1);
    }

    #[test]
    fn nobody_may_declare_what_is_the_hosts_own() {
        for path in [
            "/var/lib/mesh-host",
            "/var/lib/mesh-host/lock",
            "/usr/local/bin/mesh-host",
            "/usr/local/bin",
            "/usr/local/lib/mesh-host/x",
            "/etc/systemd/system/mesh-host.service.d/x.conf",
            "/",
        ] {
            assert_eq!(words(&[(Origin::Carried, &file("f", path), false)]).len(), 1, "{path}");
        }
        for path in ["/var/lib/mesh-host-of-mine", "/usr/local/bin/mesh", "/etc/hello.conf"] {
            assert!(words(&[(Origin::Carried, &file("f", path), false)]).is_empty(), "{path}");
        }
    }
}
