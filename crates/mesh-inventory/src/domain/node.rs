//! Whether a node is heard. A heartbeat comes every 10 s.

use std::{fmt, time::Duration};

use mesh_ids::{NodeName, Timestamp};

use super::Change;

/// Silent for longer than this, a heartbeat is missing: one period and half of the next.
const QUIET_AFTER: Duration = Duration::from_secs(15);
/// Silent for longer than this, two heartbeats are missing and the node counts as gone.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(25);

/// Whether a node is heard. Since when it is not stands beside it: the moment it was last heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeState {
    /// Invited or just joined; nothing heard from it yet.
    Joining,
    /// Heard within the time of a heartbeat.
    Connected,
    /// A heartbeat is missing.
    Quiet,
    /// Silent for so long that it counts as gone.
    Unreachable,
}

impl NodeState {
    /// Every state.
    pub const ALL: &[Self] = &[Self::Joining, Self::Connected, Self::Quiet, Self::Unreachable];

    /// The state as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Connected => "connected",
            Self::Quiet => "quiet",
            Self::Unreachable => "unreachable",
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What comes of hearing a node at `at`: it is connected; a change where it was not.
pub(crate) fn hear(
    node: &NodeName,
    state: NodeState,
    last_heard: Option<Timestamp>,
    at: Timestamp,
) -> Option<Change> {
    let connected = || Change::Connected {
        node: node.clone(),
        silent_for: last_heard.map(|last_heard| at.since(last_heard)),
    };
    (state != NodeState::Connected).then(connected)
}

/// What comes of the silence of a node. It is counted from when the node was last heard, or from when this control plane
/// began to listen where that is later: a node cannot be blamed for what nobody was there to hear. Silence only ever makes
/// a state worse; hearing makes it better.
pub(crate) fn judge(
    node: &NodeName,
    state: NodeState,
    last_heard: Option<Timestamp>,
    listening_since: Timestamp,
    now: Timestamp,
) -> Option<(NodeState, Change)> {
    let last_heard = last_heard?;
    let silent_for = now.since(last_heard.max(listening_since));
    let (node, worse) = (node.clone(), matches!(state, NodeState::Connected | NodeState::Quiet));
    if worse && silent_for > UNREACHABLE_AFTER {
        Some((NodeState::Unreachable, Change::Unreachable { node, last_heard }))
    } else if state == NodeState::Connected && silent_for > QUIET_AFTER {
        Some((NodeState::Quiet, Change::Quiet { node, last_heard }))
    } else {
        None
    }
}

/// How long a node has been silent, from when it was last heard whoever listened; nothing while no heartbeat is missing.
pub(crate) fn disconnected_for(last_heard: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let silent_for = now.since(last_heard?);
    (silent_for > QUIET_AFTER).then_some(silent_for)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node() -> NodeName {
        "node-1".parse().unwrap()
    }

    const fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_s(1_000_000 + seconds)
    }

    fn judged(state: NodeState, heard: i64, listening: i64, now: i64) -> Option<NodeState> {
        judge(&node(), state, Some(at(heard)), at(listening), at(now)).map(|(state, _)| state)
    }

    #[test]
    fn a_silent_node_is_quiet_and_then_unreachable() {
        use NodeState::{Connected, Joining, Quiet, Unreachable};
        assert_eq!(judged(Connected, 100, 0, 115), None);
        assert_eq!(judged(Connected, 100, 0, 116), Some(Quiet));
        assert_eq!(judged(Quiet, 100, 0, 125), None);
        assert_eq!(judged(Quiet, 100, 0, 126), Some(Unreachable));
        assert_eq!(judged(Connected, 100, 0, 500), Some(Unreachable));
        assert_eq!(judged(Unreachable, 100, 0, 500), None);
        assert_eq!(judged(Joining, 100, 0, 500), None);
        assert_eq!(judge(&node(), Connected, None, at(0), at(500)), None, "never heard");
    }

    #[test]
    fn a_control_plane_that_was_away_gives_everyone_time_to_speak() {
        use NodeState::{Connected, Quiet, Unreachable};
        assert_eq!(judged(Connected, 100, 400, 415), None);
        assert_eq!(judged(Connected, 100, 400, 416), Some(Quiet));
        assert_eq!(judged(Unreachable, 100, 400, 401), None, "what was known stays known");
        assert_eq!(disconnected_for(Some(at(100)), at(401)), Some(Duration::from_secs(301)));
    }

    #[test]
    fn a_node_that_is_heard_again_says_how_long_it_was_not() {
        let heard = hear(&node(), NodeState::Unreachable, Some(at(0)), at(61));
        assert_eq!(
            heard,
            Some(Change::Connected { node: node(), silent_for: Some(Duration::from_secs(61)) })
        );
        assert_eq!(hear(&node(), NodeState::Connected, Some(at(0)), at(61)), None, "no event a heartbeat");
        assert_eq!(
            hear(&node(), NodeState::Joining, None, at(61)),
            Some(Change::Connected { node: node(), silent_for: None })
        );
    }

    proptest! {
        #[test]
        fn silence_never_makes_a_state_better(state in 0usize..4, heard in 0i64..100, listening in 0i64..100, now in 0i64..200) {
            let state = NodeState::ALL[state];
            if let Some(judged) = judged(state, heard, listening, now) {
                prop_assert!(judged > state);
            }
        }
    }
}
