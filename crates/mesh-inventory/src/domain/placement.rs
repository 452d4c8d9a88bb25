//! On which nodes a module belongs: the same answer for the same question, and no more movement than necessary.

use std::collections::BTreeSet;

use mesh_ids::NodeName;
use mesh_manifest::Placement;

use super::Refusal;

/// A node that a module may be placed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub node: NodeName,
    /// Whether it has joined. One that was only invited is used where it is named, and not chosen.
    pub joined: bool,
    /// Whether it is heard now. One that is not keeps what it has, and is given nothing new while another can take it.
    pub connected: bool,
    /// How many other modules it has.
    pub modules: usize,
}

/// Chooses. What is on a node stays there as long as it may.
pub(crate) fn choose(
    placement: &Placement,
    candidates: &[Candidate],
    current: &BTreeSet<NodeName>,
) -> Result<BTreeSet<NodeName>, Refusal> {
    let joined = candidates.iter().filter(|candidate| candidate.joined);
    match placement {
        Placement::Nodes(nodes) => {
            let unknown = |node: &&NodeName| !candidates.iter().any(|candidate| candidate.node == **node);
            match nodes.iter().find(unknown) {
                Some(node) => Err(Refusal::UnknownNode {
                    node: node.clone(),
                    known: candidates.iter().map(|candidate| candidate.node.clone()).collect(),
                }),
                None => Ok(nodes.clone()),
            }
        }
        Placement::EveryNode => Ok(joined.map(|candidate| candidate.node.clone()).collect()),
        Placement::Count(count) => {
            let wanted = usize::try_from(count.get()).unwrap_or(usize::MAX);
            let mut ranked: Vec<&Candidate> = joined.collect();
            if ranked.len() < wanted {
                return Err(Refusal::TooFewNodes { wanted, have: ranked.len() });
            }
            ranked.sort_by_key(|candidate| {
                (!current.contains(&candidate.node), !candidate.connected, candidate.modules, &candidate.node)
            });
            Ok(ranked.into_iter().take(wanted).map(|candidate| candidate.node.clone()).collect())
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(number: usize, modules: usize) -> Candidate {
        Candidate { node: name(number), joined: true, connected: true, modules }
    }

    fn name(number: usize) -> NodeName {
        format!("node-{number}").parse().unwrap()
    }

    fn count(count: u32) -> Placement {
        Placement::Count(count.try_into().unwrap())
    }

    fn names(numbers: &[usize]) -> BTreeSet<NodeName> {
        numbers.iter().map(|number| name(*number)).collect()
    }

    #[test]
    fn the_emptiest_connected_nodes_are_chosen() {
        let mut candidates = vec![candidate(1, 3), candidate(2, 0), candidate(3, 0), candidate(4, 1)];
        candidates[1].connected = false;
        assert_eq!(choose(&count(2), &candidates, &names(&[])), Ok(names(&[3, 4])));
        assert_eq!(choose(&count(4), &candidates, &names(&[])), Ok(names(&[1, 2, 3, 4])));
        assert_eq!(
            choose(&count(5), &candidates, &names(&[])),
            Err(Refusal::TooFewNodes { wanted: 5, have: 4 })
        );
        candidates[2].joined = false;
        assert_eq!(choose(&Placement::EveryNode, &candidates, &names(&[])), Ok(names(&[1, 2, 4])));
    }

    #[test]
    fn a_node_that_is_not_there_is_refused_by_name() {
        let placement = Placement::Nodes(names(&[1, 9]));
        let refused = choose(&placement, &[candidate(1, 0)], &names(&[])).unwrap_err();
        assert_eq!(refused, Refusal::UnknownNode { node: name(9), known: vec![name(1)] });
    }

    proptest! {
        #[test]
        fn nothing_moves_without_need(
            load in prop::collection::vec(0usize..5, 3..10), wanted in 1u32..4, now in prop::collection::btree_set(0usize..12, 0..6)
        ) {
            let mut candidates: Vec<_> = load.iter().enumerate().map(|(n, load)| candidate(n, *load)).collect();
            let now: BTreeSet<_> = now.into_iter().map(name).collect();
            let chosen = choose(&count(wanted), &candidates, &now).unwrap();
            prop_assert_eq!(chosen.len(), wanted as usize);
            let still_there = now.iter().filter(|node| candidates.iter().any(|c| c.node == **node)).count();
            prop_assert_eq!(chosen.intersection(&now).count(), still_there.min(wanted as usize));
            prop_assert_eq!(&choose(&count(wanted), &candidates, &chosen).unwrap(), &chosen, "stable");
            candidates.reverse();
            prop_assert_eq!(&choose(&count(wanted), &candidates, &now).unwrap(), &chosen, "order of asking");
        }
    }
}
