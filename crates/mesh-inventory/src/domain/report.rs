//! What a report changes of what is known about a node.

use std::collections::BTreeMap;

use mesh_ids::{NodeName, Position, ResourceId, Timestamp};
use mesh_wire::{MAX_DRIFT, Report};

use super::Change;

/// What is known from the reports so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Held {
    /// The number of the newest report.
    pub count: Option<u64>,
    pub position: Option<Position>,
    pub applied: Vec<String>,
    pub failed: BTreeMap<String, String>,
    pub refused: String,
    /// The highest number of drift counted.
    pub drift: u64,
    /// Drift that was found and not yet repaired.
    pub open: BTreeMap<u64, OpenDrift>,
}

/// Drift that was found and not yet repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenDrift {
    pub resource: ResourceId,
}

/// What comes of a report.
#[derive(Debug, PartialEq)]
pub(crate) enum Weighed {
    /// It is older than what is known, or the same again.
    OlderNews,
    /// This is known now, and this is to be recorded.
    News(Box<Held>, Vec<Change>),
}

/// Weighs a report against what is known. Reports may come twice and out of order; their number tells, and so does the
/// number of each drift.
pub(crate) fn weigh(node: &NodeName, mut held: Held, report: &Report) -> Weighed {
    let count = report.boot.as_ref().map(|boot| boot.count);
    // A ledger that begins anew counts anew, and its report may be here before the news that it was to.
    if let (Some(known), Some(position)) = (held.position, report.position)
        && (position.epoch, position.generation) > (known.epoch, known.generation)
    {
        (held.count, held.drift) = (None, 0);
        held.open.clear();
    }
    if let (Some(held), Some(count)) = (held.count, count)
        && count <= held
    {
        return Weighed::OlderNews;
    }
    let mut changes = Vec::new();
    let mut applied = report.applied.clone();
    applied.sort();
    applied.dedup();
    let said = (&report.position, &applied, &report.failed, &report.refused);
    if said != (&held.position, &held.applied, &held.failed, &held.refused) {
        changes.push(Change::Reported {
            node: node.clone(),
            position: report.position,
            applied: applied.len(),
            failed: report.failed.clone(),
            refused: report.refused.clone(),
        });
    }
    // No node keeps more, and the store counts no further: the rest is not a host's.
    let mut drift: Vec<_> = report.drift.iter().filter(|drift| i64::try_from(drift.number).is_ok()).collect();
    drift.sort_by_key(|drift| drift.number);
    for drift in drift.into_iter().take(MAX_DRIFT) {
        let is_new = drift.number > held.drift;
        if is_new {
            held.drift = drift.number;
            held.open.insert(drift.number, OpenDrift { resource: drift.resource.clone() });
            if held.open.len() > MAX_DRIFT {
                held.open.pop_first();
            }
            changes.push(Change::DriftFound {
                node: node.clone(),
                resource: drift.resource.clone(),
                number: drift.number,
                noticed: Timestamp::from_unix_s(drift.noticed_at),
                found: drift.found.clone(),
            });
        }
        if let Some(repaired) = drift.repaired_at
            && held.open.remove(&drift.number).is_some()
        {
            changes.push(Change::DriftRepaired {
                node: node.clone(),
                resource: drift.resource.clone(),
                number: drift.number,
                repaired: Timestamp::from_unix_s(repaired),
            });
        }
    }
    held.count = count.or(held.count);
    held.position = report.position;
    held.applied = applied;
    held.failed.clone_from(&report.failed);
    held.refused.clone_from(&report.refused);
    Weighed::News(Box::new(held), changes)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use mesh_wire::{Boot, Drift};
    use proptest::prelude::*;

    fn node() -> NodeName {
        "node-1".parse().unwrap()
    }

    fn report(count: u64, drift: Vec<Drift>) -> Report {
        Report { boot: Some(Boot { id: "b".to_owned(), count }), drift, ..Report::new(node()) }
    }

    fn drift(number: u64, repaired_at: Option<i64>) -> Drift {
        let found = vec!["write /a".to_owned()];
        Drift { number, resource: "file:/a".parse().unwrap(), noticed_at: 5, found, repaired_at }
    }

    fn words(changes: &[Change]) -> Vec<String> {
        let word = |change: &Change| match change {
            Change::DriftFound { number, .. } => format!("found {number}"),
            Change::DriftRepaired { number, .. } => format!("repaired {number}"),
            Change::Reported { .. } => "reported".to_owned(),
            other => format!("{other:?}"),
        };
        changes.iter().map(word).collect()
    }

    fn news(held: Held, report: &Report) -> (Held, Vec<String>) {
        match weigh(&node(), held, report) {
            Weighed::News(held, changes) => (*held, words(&changes)),
            Weighed::OlderNews => panic!("older news"),
        }
    }

    #[test]
    fn a_node_that_invents_drift_is_heard_so_far_and_no_further() {
        let invented = |from: u64| (from..from + 2000).map(|number| drift(number, None)).collect::<Vec<_>>();
        let (held, said) = news(Held::default(), &report(1, invented(1)));
        assert_eq!((held.open.len(), said.len()), (MAX_DRIFT, MAX_DRIFT));
        let (held, said) = news(held, &report(2, invented(10_000)));
        assert_eq!((held.open.len(), said.len()), (MAX_DRIFT, MAX_DRIFT));
        let (_, said) = news(held, &report(3, vec![drift(u64::MAX, None), drift(u64::MAX, None)]));
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn drift_is_counted_once_and_repaired_once() {
        let (held, said) = news(Held::default(), &report(1, vec![drift(1, Some(6)), drift(2, None)]));
        assert_eq!(said, ["found 1", "repaired 1", "found 2"]);
        let again = report(2, vec![drift(1, Some(6)), drift(2, None)]);
        let (held, said) = news(held, &again);
        assert_eq!(said, Vec::<String>::new());
        let (held, said) = news(held, &report(3, vec![drift(2, Some(9))]));
        assert_eq!(said, ["repaired 2"]);
        let (_, said) = news(held, &report(4, vec![drift(2, Some(9))]));
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn older_news_is_dropped_and_the_same_again_is_no_event() {
        let mut first = report(2, Vec::new());
        first.applied = vec!["b".to_owned(), "a".to_owned()];
        let (held, said) = news(Held::default(), &first);
        assert_eq!(said, ["reported"]);
        assert_eq!(held.applied, ["a", "b"]);
        assert_eq!(weigh(&node(), held.clone(), &first), Weighed::OlderNews);
        assert_eq!(weigh(&node(), held.clone(), &report(1, Vec::new())), Weighed::OlderNews);
        first.boot = Some(Boot { id: "b".to_owned(), count: 3 });
        assert_eq!(news(held, &first).1, Vec::<String>::new());
    }

    #[test]
    fn a_report_of_a_higher_generation_is_news_whatever_its_number() {
        let at = |generation| Position {
            generation: mesh_ids::Generation::new(generation),
            ..Position::default()
        };
        let told = |count, generation| Report {
            position: Some(at(generation)),
            ..report(count, vec![drift(1, None)])
        };
        let (held, said) = news(Held::default(), &told(9, 1));
        assert_eq!(said, ["reported", "found 1"]);
        let (held, said) = news(held, &told(1, 2));
        assert_eq!(said, ["reported", "found 1"]);
        assert_eq!(weigh(&node(), held, &told(1, 2)), Weighed::OlderNews);
    }

    proptest! {
        #[test]
        fn however_reports_are_repeated_each_drift_is_found_and_repaired_once(order in prop::collection::vec(0u64..6, 1..40)) {
            // Report k speaks of drift k and of k - 1, which is repaired by then.
            let mut held = Held::default();
            let mut said = Vec::new();
            for (count, k) in order.iter().enumerate() {
                let about = vec![drift(k + 1, Some(9)), drift(k + 2, None)];
                let (next, more) = news(held, &report(count as u64 + 1, about));
                held = next;
                said.extend(more);
            }
            let mut once = said.clone();
            once.sort();
            once.dedup();
            prop_assert_eq!(once.len(), said.len(), "{:?}", said);
        }
    }
}
