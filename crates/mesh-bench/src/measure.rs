//! The measurements: which there are, which rows each comes to, and running them one after the other.
//!
//! A measurement that fails never stops the others; its rows are there as missing, with the reason. One file for those
//! that share what they measure on.

mod change;
mod files;
mod idle;

use clap::ValueEnum;

use crate::ground::Ground;
use crate::row::{Line, Row};

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Measure {
    /// The first durable apply of 1,000 files
    First,
    /// A round over 1,000 files when nothing is to be done
    Noop,
    /// From declared to applied as a watcher sees it: a changed file that restarts a unit
    Change,
    /// The same for a new unit
    Unit,
    /// A connected host that keeps 100 resources and has nothing to do
    Idle,
    /// A changed file that restarts a unit, beside those 100 resources
    ChangeBeside,
    /// A control plane with nothing to do
    Control,
}

impl Measure {
    /// The names of its rows.
    fn rows(self) -> &'static [&'static str] {
        match self {
            Self::First => &["first-wall", "first-cpu"],
            Self::Noop => &["noop", "noop-round"],
            Self::Change => &["change"],
            Self::Unit => &["unit", "reload"],
            Self::Idle => &["idle-memory", "idle-cpu"],
            Self::ChangeBeside => &["change-beside"],
            Self::Control => &["control-memory"],
        }
    }

    fn take(self, ground: &mut Ground) -> anyhow::Result<Vec<Row>> {
        match self {
            Self::First => files::first(ground),
            Self::Noop => files::noop(ground),
            Self::Change => change::changed_file(ground),
            Self::Unit => change::new_unit(ground),
            Self::Idle => idle::host(ground),
            Self::ChangeBeside => change::changed_file_beside(ground),
            Self::Control => idle::control(ground),
        }
    }
}

/// Takes these, or all; in an order in which no lab is raised twice.
pub(crate) fn all(ground: &mut Ground, only: &[Measure]) -> Vec<Line> {
    let wanted = Measure::value_variants().iter().filter(|one| only.is_empty() || only.contains(one));
    wanted.flat_map(|measure| lines(*measure, measure.take(ground))).collect()
}

/// What a measurement came to, as lines: a row for each of its names.
fn lines(measure: Measure, taken: anyhow::Result<Vec<Row>>) -> Vec<Line> {
    let (rows, why) = match taken {
        Ok(rows) => (rows, "it was not measured".to_owned()),
        Err(error) => (Vec::new(), format!("{error:#}")),
    };
    let line = |name: &'static str| match rows.iter().find(|row| row.name == name) {
        Some(row) => Line::Measured(row.clone()),
        None => Line::Missing { name, why: why.clone() },
    };
    measure.rows().iter().map(|name| line(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::row::tests::row;

    #[test]
    fn no_two_rows_have_the_same_name() {
        let names: Vec<&str> =
            Measure::value_variants().iter().flat_map(|measure| measure.rows()).copied().collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }

    #[test]
    fn every_row_of_a_measurement_is_there_or_said_to_be_missing() {
        let failed = lines(Measure::First, Err(anyhow::anyhow!("no engine").context("raise the lab")));
        let why = || "raise the lab: no engine".to_owned();
        assert_eq!(
            failed,
            [
                Line::Missing { name: "first-wall", why: why() },
                Line::Missing { name: "first-cpu", why: why() }
            ]
        );
        let half = lines(Measure::Noop, Ok(vec![row(&[1.0])]));
        assert_eq!(half[0], Line::Measured(row(&[1.0])));
        assert!(matches!(&half[1], Line::Missing { name: "noop-round", .. }), "{half:?}");
    }
}
