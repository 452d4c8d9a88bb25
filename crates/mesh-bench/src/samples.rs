//! Numbers of one kind, and what is said of them: median, spread, extremes. Pure.
//!
//! It never throws one away: an outlier of ours is as true as one of a peer. Called by whatever measures.

use serde::Serialize;

/// What was measured, once or more often.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// These; nothing where there are none, or one is not a number.
    pub(crate) fn new(values: Vec<f64>) -> Option<Self> {
        (!values.is_empty() && values.iter().all(|value| value.is_finite())).then_some(Self(values))
    }

    /// The one in the middle; between the two in the middle where their number is even.
    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The value below which `part` (0 to 1) of them lie, interpolated between neighbours (Hyndman and Fan, type 7).
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list of some dozens"
    )]
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = part.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }

    /// The smallest.
    pub(crate) fn least(&self) -> f64 {
        self.0.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The largest.
    pub(crate) fn largest(&self) -> f64 {
        self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Samples {
        Samples::new(values.to_vec()).unwrap()
    }

    fn same(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        assert!(same(of(&[9.0, 1.0, 4.0]).median(), 4.0));
        assert!(same(of(&[9.0, 1.0, 4.0, 5.0]).median(), 4.5));
        assert!(same(of(&[7.0]).median(), 7.0));
        assert!(same(of(&[1.0, 1.0, 1.0, 1000.0]).median(), 1.0), "an outlier does not move it");
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        let samples = of(&[40.0, 10.0, 20.0, 30.0, 50.0]);
        assert!(same(samples.quantile(0.0), 10.0));
        assert!(same(samples.quantile(0.95), 48.0));
        assert!(same(samples.quantile(1.0), 50.0));
        assert!(same(samples.least(), 10.0) && same(samples.largest(), 50.0));
    }

    #[test]
    fn nothing_can_be_said_of_nothing_or_of_what_is_no_number() {
        assert_eq!(Samples::new(Vec::new()), None);
        assert_eq!(Samples::new(vec![1.0, f64::NAN]), None);
    }
}
