//! Which nodes are behind their newest declaration, judged by the heartbeats. Asks nobody: says when to ask.
//!
//! In a calm mesh a heartbeat costs a comparison and no query: the newest position of a node is remembered until a
//! newer declaration is offered.

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_ids::{NodeName, Position};
use tokio::time::Instant;

/// What was offered less long ago is still on its way: a node says at once when it accepted something, and in any case
/// within ten seconds.
const ON_ITS_WAY: Duration = Duration::from_secs(15);

/// What is known of each node.
#[derive(Debug, Default)]
pub(super) struct Behind {
    nodes: BTreeMap<NodeName, Known>,
}

#[derive(Debug, Default)]
struct Known {
    newest: Option<Position>,
    offered: Option<Instant>,
}

/// What a heartbeat asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Judgement {
    /// The node holds the newest, or it is on its way.
    Fine,
    /// The newest has to be looked up, and offered again if it is newer than what the node holds.
    LookUp,
}

impl Behind {
    /// A declaration was handed over for the node: what was the newest is no longer.
    pub(super) fn offered(&mut self, node: &NodeName) {
        let known = self.nodes.entry(node.clone()).or_default();
        *known = Known { newest: None, offered: Some(Instant::now()) };
    }

    /// When something was offered to the node last.
    pub(super) fn last_offered(&self, node: &NodeName) -> Option<Instant> {
        self.nodes.get(node)?.offered
    }

    /// The newest was looked up after `offered`; what was offered since is newer than what was found.
    pub(super) fn learned(&mut self, node: &NodeName, newest: Option<Position>, offered: Option<Instant>) {
        let known = self.nodes.entry(node.clone()).or_default();
        if known.offered == offered {
            known.newest = newest;
        }
    }

    /// The node is no more.
    pub(super) fn forget(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// The node said that it holds this.
    pub(super) fn judge(&self, node: &NodeName, accepted: Option<Position>) -> Judgement {
        let Some(known) = self.nodes.get(node) else { return Judgement::LookUp };
        if known.offered.is_some_and(|offered| offered.elapsed() < ON_ITS_WAY) {
            return Judgement::Fine;
        }
        match known.newest {
            Some(newest) if accepted >= Some(newest) => Judgement::Fine,
            _ => Judgement::LookUp,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use mesh_ids::{Epoch, Generation, Sequence};

    use super::*;

    fn at(sequence: u64) -> Position {
        Position { epoch: Epoch::new(1), generation: Generation::new(1), sequence: Sequence::new(sequence) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_calm_mesh_asks_once_and_a_lost_declaration_is_noticed() {
        let node: NodeName = "node-1".parse().unwrap();
        let mut behind = Behind::default();
        assert_eq!(behind.judge(&node, Some(at(1))), Judgement::LookUp, "nothing is known after a start");
        let offered = behind.last_offered(&node);
        behind.learned(&node, Some(at(1)), offered);
        assert_eq!(behind.judge(&node, Some(at(1))), Judgement::Fine);
        behind.offered(&node);
        assert_eq!(behind.judge(&node, Some(at(1))), Judgement::Fine, "on its way");
        tokio::time::advance(ON_ITS_WAY).await;
        assert_eq!(behind.judge(&node, Some(at(1))), Judgement::LookUp, "it should have arrived");
        let offered = behind.last_offered(&node);
        behind.learned(&node, Some(at(2)), offered);
        behind.learned(&node, Some(at(1)), None);
        assert_eq!(behind.judge(&node, Some(at(1))), Judgement::LookUp);
        assert_eq!(behind.judge(&node, Some(at(2))), Judgement::Fine);
        assert_eq!(behind.judge(&node, None), Judgement::LookUp, "a node that lost its ledger");
    }
}
