//! Reports that wait together, folded into one a node. Pure.
//!
//! A report is whole: the newest says everything the older ones did, but for drift, which a node forgets once the broker
//! has it; so the newest carries the drift of those it stands for. A node that says too much costs the others one write
//! a batch.

use std::collections::BTreeMap;

use mesh_ids::{Epoch, Generation, NodeName};
use mesh_wire::{Drift, MAX_DRIFT, Report};

/// Numbers of reports and drift rise within one history of a node; across histories nothing is comparable.
type History = (NodeName, Option<(Epoch, Generation)>);

/// One report for each history of each node, in the order in which they were first heard.
pub(super) fn fold(reports: impl IntoIterator<Item = Report>) -> Vec<Report> {
    let mut places: BTreeMap<History, usize> = BTreeMap::new();
    let mut folded: Vec<Report> = Vec::new();
    for report in reports {
        let history = report.position.map(|position| (position.epoch, position.generation));
        let key = (report.node.clone(), history);
        let Some(place) = places.get(&key) else {
            places.insert(key, folded.len());
            folded.push(report);
            continue;
        };
        let known = &mut folded[*place];
        let (newer, older) =
            if count(&report) >= count(known) { (report, known.clone()) } else { (known.clone(), report) };
        *known = standing_for(newer, older.drift);
    }
    folded
}

fn count(report: &Report) -> Option<u64> {
    report.boot.as_ref().map(|boot| boot.count)
}

fn standing_for(mut newer: Report, older: Vec<Drift>) -> Report {
    let known: BTreeMap<u64, Drift> = newer.drift.drain(..).map(|drift| (drift.number, drift)).collect();
    let mut all: BTreeMap<u64, Drift> = older.into_iter().map(|drift| (drift.number, drift)).collect();
    all.extend(known);
    newer.drift = all.into_values().take(MAX_DRIFT).collect();
    newer
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use mesh_ids::{Position, Sequence};
    use mesh_wire::Boot;

    use super::*;

    fn report(node: &str, generation: u64, count: u64, drift: &[(u64, Option<i64>)]) -> Report {
        let mut report = Report::new(node.parse().unwrap());
        report.position = Some(Position {
            epoch: Epoch::new(1),
            generation: Generation::new(generation),
            sequence: Sequence::new(1),
        });
        report.boot = Some(Boot { id: "b".to_owned(), count });
        report.refused = count.to_string();
        report.drift = (drift.iter())
            .map(|(number, repaired_at)| Drift {
                number: *number,
                resource: "file:/a".parse().unwrap(),
                noticed_at: 1,
                found: Vec::new(),
                repaired_at: *repaired_at,
            })
            .collect();
        report
    }

    #[test]
    fn the_newest_of_a_node_stands_for_all_and_carries_their_drift() {
        let folded = fold([
            report("a", 1, 1, &[(1, None)]),
            report("b", 1, 7, &[]),
            report("a", 1, 3, &[(1, Some(5)), (2, None)]),
            report("a", 1, 2, &[(1, None), (3, None)]),
        ]);
        let said: Vec<_> =
            folded.iter().map(|report| (report.node.as_str(), report.refused.as_str())).collect();
        assert_eq!(said, [("a", "3"), ("b", "7")]);
        let drift: Vec<_> = folded[0].drift.iter().map(|drift| (drift.number, drift.repaired_at)).collect();
        assert_eq!(
            drift,
            [(1, Some(5)), (2, None), (3, None)],
            "as the newest knows it, and what only an older one says"
        );
    }

    #[test]
    fn another_history_is_never_folded_in() {
        let folded = fold([report("a", 1, 9, &[(1, None)]), report("a", 2, 1, &[(1, None)])]);
        assert_eq!(folded.len(), 2);
    }
}
