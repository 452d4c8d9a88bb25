//! How far a module is on a node, from what was declared and what the node reported.

use std::collections::BTreeMap;

use mesh_ids::{ModuleName, Position};
use mesh_manifest::owner_of;

/// How far a module is on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceState {
    /// Declared; the node has not reported it yet.
    Pending,
    /// The node reported all of it.
    Applied,
    /// The node reported that part of it failed or that it refused the declaration, or none could be issued that carries it.
    Failed,
    /// To be taken away; the node has not reported that yet.
    Removing,
}

/// A module on a node, as it was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The declaration that carries the decision; `None` before it was issued.
    pub position: Option<Position>,
    /// Whether the decision is that it goes.
    pub leaving: bool,
}

/// How far it is, and what failed.
pub(crate) fn instance_state(
    module: &ModuleName,
    assignment: &Assignment,
    reported: Option<Position>,
    failed: &BTreeMap<String, String>,
    refused: &str,
    undeclared: &str,
) -> (InstanceState, BTreeMap<String, String>) {
    if assignment.position.is_none() && !undeclared.is_empty() {
        return (InstanceState::Failed, [("declaration".to_owned(), undeclared.to_owned())].into());
    }
    let spoken_of = matches!((assignment.position, reported), (Some(told), Some(said)) if said >= told);
    if !spoken_of {
        let state = if assignment.leaving { InstanceState::Removing } else { InstanceState::Pending };
        return (state, BTreeMap::new());
    }
    let mut of_module: BTreeMap<String, String> = failed
        .iter()
        .filter(|(id, _)| id.parse().ok().and_then(|id| owner_of(&id)).as_ref() == Some(module))
        .map(|(id, reason)| (id.clone(), reason.clone()))
        .collect();
    if !refused.is_empty() {
        of_module.insert("declaration".to_owned(), refused.to_owned());
    }
    let state = match (of_module.is_empty(), assignment.leaving) {
        (false, _) => InstanceState::Failed,
        (true, false) => InstanceState::Applied,
        (true, true) => InstanceState::Removing,
    };
    (state, of_module)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mesh_ids::{Epoch, Generation, Sequence};

    fn at(sequence: u64) -> Position {
        Position { epoch: Epoch::new(1), generation: Generation::new(1), sequence: Sequence::new(sequence) }
    }

    #[test]
    fn a_module_is_pending_until_the_node_spoke_of_its_declaration() {
        let state =
            |position: Option<Position>, reported: Option<Position>, failed: &[(&str, &str)], refused| {
                let failed = failed.iter().map(|(id, why)| ((*id).to_owned(), (*why).to_owned())).collect();
                let assignment = Assignment { position, leaving: false };
                instance_state(&"hello".parse().unwrap(), &assignment, reported, &failed, refused, "").0
            };
        assert_eq!(state(None, Some(at(5)), &[], ""), InstanceState::Pending);
        assert_eq!(state(Some(at(5)), Some(at(4)), &[], ""), InstanceState::Pending);
        assert_eq!(state(Some(at(5)), None, &[], ""), InstanceState::Pending);
        assert_eq!(state(Some(at(5)), Some(at(5)), &[], ""), InstanceState::Applied);
        assert_eq!(state(Some(at(5)), Some(at(6)), &[("hello/file:/a", "no")], ""), InstanceState::Failed);
        assert_eq!(
            state(Some(at(5)), Some(at(6)), &[("hello-2/file:/a", "no")], ""),
            InstanceState::Applied,
            "another's"
        );
        assert_eq!(state(Some(at(5)), Some(at(6)), &[], "older"), InstanceState::Failed);
    }
    #[test]
    fn what_cannot_be_declared_failed_until_a_declaration_carries_it() {
        let of = |position| {
            let assignment = Assignment { position, leaving: false };
            let none = BTreeMap::new();
            instance_state(&"hello".parse().unwrap(), &assignment, Some(at(4)), &none, "", "too large")
        };
        let why = [("declaration".to_owned(), "too large".to_owned())].into();
        assert_eq!(of(None), (InstanceState::Failed, why));
        assert_eq!(of(Some(at(4))).0, InstanceState::Applied, "an earlier declaration carries it");
    }
}
