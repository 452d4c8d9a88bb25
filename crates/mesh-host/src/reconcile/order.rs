//! In which order resources are applied: the order of the list, but for what waits for another. Pure.

use std::collections::{BTreeMap, BTreeSet};

use mesh_ids::ResourceId;
use mesh_wire::{Resource, Spec};

/// The order, and what has none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Places in the given list, in the order of application.
    pub sequence: Vec<usize>,
    /// Places in the given list that cannot be ordered, and why.
    pub refused: BTreeMap<usize, String>,
}

/// What a resource waits for: `after`, and what it is restarted for.
pub fn waits_for(resource: &Resource) -> impl Iterator<Item = &ResourceId> {
    resource.after.iter().chain(restart_on(resource))
}

/// What a resource is restarted for.
pub fn restart_on(resource: &Resource) -> &[ResourceId] {
    match &resource.spec {
        Spec::Unit(unit) => &unit.restart_on,
        Spec::Container(container) => &container.restart_on,
        _ => &[],
    }
}

/// Orders the resources of one origin. `unreadable`: ids that are declared too, and could not be read.
pub fn order(resources: &[&Resource], unreadable: &BTreeSet<&str>) -> Order {
    let places: BTreeMap<&ResourceId, usize> =
        resources.iter().enumerate().map(|(place, resource)| (&resource.id, place)).collect();
    let mut walk = Walk {
        resources,
        places,
        unreadable,
        state: vec![State::New; resources.len()],
        order: Order::default(),
    };
    for place in 0..resources.len() {
        walk.visit(place);
    }
    walk.order
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

struct Walk<'a> {
    resources: &'a [&'a Resource],
    places: BTreeMap<&'a ResourceId, usize>,
    unreadable: &'a BTreeSet<&'a str>,
    state: Vec<State>,
    order: Order,
}

impl Walk<'_> {
    /// Depth first, with a stack of its own: a declaration may be a chain of thousands.
    fn visit(&mut self, start: usize) {
        let mut stack = vec![(start, 0)];
        while let Some((place, next)) = stack.pop() {
            if self.state[place] == State::Done {
                continue;
            }
            self.state[place] = State::Open;
            let Some(needed) = waits_for(self.resources[place]).nth(next) else {
                self.state[place] = State::Done;
                if !self.order.refused.contains_key(&place) {
                    self.order.sequence.push(place);
                }
                continue;
            };
            stack.push((place, next + 1));
            match self.places.get(needed) {
                Some(needed) if self.state[*needed] == State::New => stack.push((*needed, 0)),
                Some(needed) if self.state[*needed] == State::Open => self.refuse_circle(&stack, *needed),
                Some(_) => {}
                None if self.unreadable.contains(needed.as_str()) => {
                    self.refuse(place, format!("it waits for {needed}, which could not be read"));
                }
                None => self.refuse(place, format!("it waits for {needed}, which is not declared")),
            }
        }
    }

    fn refuse(&mut self, place: usize, why: String) {
        self.order.refused.entry(place).or_insert(why);
    }

    fn refuse_circle(&mut self, stack: &[(usize, usize)], closing: usize) {
        let first = stack.iter().position(|(place, _)| *place == closing).unwrap_or(0);
        // Of the stack, only what is open is on the path; the rest was already left.
        let circle: Vec<usize> = stack[first..].iter().map(|(place, _)| *place).collect();
        let names: Vec<&str> =
            circle.iter().chain([&closing]).map(|place| self.resources[*place].id.as_str()).collect();
        let why = format!("it waits for itself: {}", names.join(" -> "));
        for place in circle {
            self.refuse(place, why.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_wire::kinds::VolumeSpec;
    use proptest::prelude::*;

    fn resource(id: &str, after: &[&str]) -> Resource {
        Resource {
            id: id.parse().expect("an id"),
            after: after.iter().map(|id| id.parse().expect("an id")).collect(),
            observe_only: false,
            spec: VolumeSpec { name: "x".to_owned(), released: false }.into(),
        }
    }

    fn ordered(resources: &[Resource]) -> (Vec<String>, Vec<(String, String)>) {
        let list: Vec<&Resource> = resources.iter().collect();
        let Order { sequence, refused } = order(&list, &BTreeSet::from(["torn"]));
        let name = |place: usize| resources[place].id.to_string();
        (
            sequence.into_iter().map(name).collect(),
            refused.into_iter().map(|(p, why)| (name(p), why)).collect(),
        )
    }

    #[test]
    fn the_order_of_the_list_holds_but_for_what_waits() {
        let (sequence, refused) = ordered(&[resource("a", &["c"]), resource("b", &[]), resource("c", &[])]);
        assert_eq!(sequence, ["c", "a", "b"]);
        assert!(refused.is_empty());
    }

    #[test]
    fn a_circle_is_refused_by_name_and_takes_nothing_else_with_it() {
        let list = [
            resource("a", &["b"]),
            resource("b", &["c"]),
            resource("c", &["a"]),
            resource("d", &["a"]),
            resource("e", &[]),
        ];
        let (sequence, refused) = ordered(&list);
        assert_eq!(sequence, ["d", "e"], "d is ordered, and blocked later by what it waits for");
        let why = "it waits for itself: a -> b -> c -> a".to_owned();
        assert_eq!(refused, ["a", "b", "c"].map(|id| (id.to_owned(), why.clone())));
        assert_eq!(ordered(&[resource("a", &["a"])]).1[0].1, "it waits for itself: a -> a");
    }

    #[test]
    fn what_waits_for_something_unknown_is_refused_by_name() {
        let (sequence, refused) =
            ordered(&[resource("a", &["ghost"]), resource("b", &["torn"]), resource("c", &[])]);
        assert_eq!(sequence, ["c"]);
        assert_eq!(refused[0].1, "it waits for ghost, which is not declared");
        assert_eq!(refused[1].1, "it waits for torn, which could not be read");
    }

    proptest! {
        #[test]
        fn nothing_is_applied_before_what_it_waits_for(edges in proptest::collection::vec((0usize..12, 0usize..12), 0..30)) {
            let resources: Vec<Resource> = (0..12).map(|place| {
                let after: Vec<String> = edges.iter().filter(|(from, _)| *from == place).map(|(_, to)| to.to_string()).collect();
                resource(&place.to_string(), &after.iter().map(String::as_str).collect::<Vec<_>>())
            }).collect();
            let list: Vec<&Resource> = resources.iter().collect();
            let Order { sequence, refused } = order(&list, &BTreeSet::new());
            prop_assert_eq!(sequence.len() + refused.len(), 12);
            for (at, place) in sequence.iter().enumerate() {
                for needed in waits_for(&resources[*place]) {
                    let needed: usize = needed.as_str().parse()?;
                    prop_assert!(sequence[..at].contains(&needed) || refused.contains_key(&needed));
                }
            }
        }
    }
}
