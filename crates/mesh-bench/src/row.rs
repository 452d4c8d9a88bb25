//! A row: one figure with its aim and its peer, or why it could not be measured. Pure.
//!
//! Every figure in it was measured in this run; there is no place for a number from anywhere else. Made by
//! [`crate::measure`], shown by [`crate::table`], written by [`crate::record`].

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::samples::Samples;

/// In what a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Milliseconds on the clock.
    Milliseconds,
    /// Milliseconds of processor time, of all cores together.
    CpuMilliseconds,
    /// Millions of bytes.
    Megabytes,
    /// Processor time by time on the clock, in hundredths of one core.
    PercentOfCore,
}

impl Unit {
    /// As a person reads it after the number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::CpuMilliseconds => "ms CPU",
            Self::Megabytes => "MB",
            Self::PercentOfCore => "% of a core",
        }
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Which of the samples is the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Statistic {
    /// The one in the middle.
    Median,
    /// The largest: for what may never be exceeded.
    Largest,
}

/// What the figure is to stay below, in the row's unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Aim {
    /// At most this.
    pub(crate) at_most: f64,
    /// Where it comes from, when it is not one number from the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) because: Option<String>,
}

impl Aim {
    pub(crate) fn at_most(figure: f64) -> Self {
        Self { at_most: figure, because: None }
    }
}

/// Another program that did the same, in the same run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Peer {
    /// Which, with its version.
    pub(crate) name: String,
    /// What it did.
    pub(crate) what: &'static str,
    /// In the row's unit.
    pub(crate) samples: Samples,
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// One word or two, the same in every run.
    pub(crate) name: &'static str,
    /// What was measured, in a line.
    pub(crate) what: String,
    pub(crate) unit: Unit,
    pub(crate) statistic: Statistic,
    pub(crate) samples: Samples,
    pub(crate) aim: Option<Aim>,
    /// The peer, or why it could not be measured; nothing where there is none.
    pub(crate) peer: Option<Result<Peer, String>>,
}

impl Row {
    /// A row with neither aim nor peer, whose figure is the median.
    pub(crate) fn new(name: &'static str, what: impl Into<String>, unit: Unit, samples: Samples) -> Self {
        Self { name, what: what.into(), unit, statistic: Statistic::Median, samples, aim: None, peer: None }
    }

    /// The figure.
    pub(crate) fn figure(&self) -> f64 {
        self.of(&self.samples)
    }

    /// The peer's figure: the same statistic of its samples.
    pub(crate) fn of(&self, samples: &Samples) -> f64 {
        match self.statistic {
            Statistic::Median => samples.median(),
            Statistic::Largest => samples.largest(),
        }
    }

    /// Whether the aim is met; nothing where there is none.
    pub(crate) fn is_met(&self) -> Option<bool> {
        self.aim.as_ref().map(|aim| self.figure() <= aim.at_most)
    }

    /// How many times as much the peer takes.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let peer = self.peer.as_ref()?.as_ref().ok()?;
        let figure = self.figure();
        (figure > 0.0).then(|| self.of(&peer.samples) / figure)
    }
}

/// A row that there is, or is not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// It was measured.
    Measured(Row),
    /// It could not be.
    Missing {
        /// Which row.
        name: &'static str,
        /// Why.
        why: String,
    },
}

impl Line {
    /// What could not be measured of it, with the reason.
    pub(crate) fn missing(&self) -> Option<(String, &str)> {
        match self {
            Self::Missing { name, why } => Some(((*name).to_owned(), why)),
            Self::Measured(row) => {
                let why = row.peer.as_ref()?.as_ref().err()?;
                Some((format!("{} (its peer)", row.name), why))
            }
        }
    }
}

/// In milliseconds.
pub(crate) fn milliseconds(durations: &[Duration]) -> Option<Samples> {
    Samples::new(durations.iter().map(|duration| duration.as_secs_f64() * 1e3).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(values: &[f64]) -> Row {
        Row::new("noop", "a round", Unit::CpuMilliseconds, Samples::new(values.to_vec()).unwrap())
    }

    pub(crate) fn peer(values: &[f64]) -> Peer {
        Peer {
            name: "Other 1.2".to_owned(),
            what: "the same",
            samples: Samples::new(values.to_vec()).unwrap(),
        }
    }

    #[test]
    fn the_aim_is_met_up_to_and_with_its_figure() {
        let with_aim = |figure| Row { aim: Some(Aim::at_most(50.0)), ..row(&[figure]) };
        assert_eq!(with_aim(50.0).is_met(), Some(true));
        assert_eq!(with_aim(50.1).is_met(), Some(false));
        assert_eq!(row(&[1.0]).is_met(), None);
    }

    #[test]
    fn the_largest_sample_decides_where_none_may_exceed_the_aim() {
        let median = Row { aim: Some(Aim::at_most(12.0)), ..row(&[10.0, 11.0, 13.0]) };
        assert_eq!(median.is_met(), Some(true));
        assert_eq!(Row { statistic: Statistic::Largest, ..median }.is_met(), Some(false));
    }

    #[test]
    fn the_ratio_says_how_many_times_as_much_the_peer_takes() {
        let with = |peer| Row { peer: Some(peer), ..row(&[40.0, 20.0, 30.0]) };
        assert_eq!(with(Ok(peer(&[600.0]))).ratio(), Some(20.0));
        assert_eq!(with(Err("no such package".to_owned())).ratio(), None);
        assert_eq!(row(&[1.0]).ratio(), None);
    }

    #[test]
    fn a_row_without_its_peer_is_not_whole() {
        let line = Line::Measured(Row { peer: Some(Err("no pip".to_owned())), ..row(&[1.0]) });
        assert_eq!(line.missing(), Some(("noop (its peer)".to_owned(), "no pip")));
        assert_eq!(Line::Measured(row(&[1.0])).missing(), None);
        let line = Line::Missing { name: "idle", why: "no bundle".to_owned() };
        assert_eq!(line.missing(), Some(("idle".to_owned(), "no bundle")));
    }
}
