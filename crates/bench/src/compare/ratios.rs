//! The evidence of several rounds of pairs about one figure.

use std::fmt;

/// One figure of two builds; less is better.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    /// Its name.
    pub(super) figure: String,
    /// The figure of the base and of this build, for each round.
    pub(super) rounds: Vec<[f64; 2]>,
}

/// The finding of all rounds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finding {
    /// Less than the base's by more than the tolerance in every round.
    Better,
    /// The rounds disagree, or stay within the tolerance.
    Equal,
    /// More than the base's by more than the tolerance in every round.
    Worse,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Finding::Better => "better",
            Finding::Equal => "equal within noise",
            Finding::Worse => "WORSE",
        })
    }
}

impl Comparison {
    /// This build's figure over the base's, one ratio a round, ascending.
    fn ratios(&self) -> Vec<f64> {
        let mut ratios: Vec<f64> = self
            .rounds
            .iter()
            .map(|&[base, this]| match (base, this) {
                (0.0, 0.0) => 1.0,
                _ => this / base,
            })
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// The median of the rounds' ratios.
    pub(super) fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The least and the greatest ratio of a round.
    pub(super) fn range(&self) -> [f64; 2] {
        let ratios = self.ratios();
        [ratios[0], ratios[ratios.len() - 1]]
    }

    /// The median of one build's figures: 0 for the base, 1 for this build.
    pub(super) fn median_of(&self, build: usize) -> f64 {
        let mut figures: Vec<f64> = self.rounds.iter().map(|round| round[build]).collect();
        figures.sort_by(f64::total_cmp);
        median(&figures)
    }

    /// The finding of the rounds, where a difference of `tolerance` percent does not count.
    pub(super) fn finding(&self, tolerance: f64) -> Finding {
        let [least, most] = self.range();
        if least > 1.0 + tolerance / 100.0 {
            Finding::Worse
        } else if most < 1.0 - tolerance / 100.0 {
            Finding::Better
        } else {
            Finding::Equal
        }
    }
}

/// The middle of ascending figures; of an even number of figures, the mean of the middle two.
fn median(ascending: &[f64]) -> f64 {
    let middle = ascending.len() / 2;
    if ascending.len() % 2 == 1 {
        ascending[middle]
    } else {
        (ascending[middle - 1] + ascending[middle]) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rounds: &[[f64; 2]]) -> Comparison {
        Comparison {
            figure: "L1".to_owned(),
            rounds: rounds.to_vec(),
        }
    }

    #[test]
    fn a_figure_is_worse_only_if_every_round_says_so() {
        let worse = of(&[[10.0, 10.5], [20.0, 24.0], [10.0, 10.4]]);
        assert_eq!(worse.finding(3.0), Finding::Worse);
        assert!((worse.ratio() - 1.05).abs() < 1e-9);
        let noisy = of(&[[10.0, 12.0], [20.0, 24.0], [10.0, 10.2]]);
        assert_eq!(noisy.finding(3.0), Finding::Equal);
        let better = of(&[[10.0, 9.0], [20.0, 19.0]]);
        assert_eq!(better.finding(3.0), Finding::Better);
        assert_eq!(better.finding(6.0), Finding::Equal);
    }

    #[test]
    fn a_figure_that_is_zero_in_both_builds_is_equal() {
        assert_eq!(of(&[[0.0, 0.0]]).finding(3.0), Finding::Equal);
        assert_eq!(of(&[[0.0, 1.0]]).finding(3.0), Finding::Worse);
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_rounds() {
        let three = of(&[[3.0, 1.0], [1.0, 1.0], [2.0, 1.0]]);
        assert!((three.median_of(0) - 2.0).abs() < 1e-9);
        let two = of(&[[3.0, 1.0], [1.0, 2.0]]);
        assert!((two.median_of(0) - 2.0).abs() < 1e-9);
        assert!((two.median_of(1) - 1.5).abs() < 1e-9);
    }
}
