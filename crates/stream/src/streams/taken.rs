//! The sequence numbers that one source of a stream has used, to recognise repeats (S13).
//!
//! Before changing anything here: the numbers follow from the log alone. Every push record with a
//! number adds it, in the order of the log, so that live and recovered state are equal. A number
//! that is no longer known is neither taken nor a repeat: [`Sequence::Forgotten`] is refused,
//! because either of the other answers could lose or duplicate a push.

use std::collections::VecDeque;

/// At most this many separate runs of numbers are remembered for each source.
pub(crate) const REMEMBERED_RUNS: usize = 1_024;

/// The state of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// No push had it.
    Free,
    /// A push had it.
    Taken,
    /// It lies below the floor.
    Forgotten,
}

/// A set of numbers, exact from its floor on. Consecutive numbers cost one run, however many they
/// are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenNumbers {
    /// The state of numbers below this one is not known.
    floor: u64,
    /// Runs of taken numbers, first and last, ascending; at least one free number lies between two
    /// runs.
    runs: VecDeque<(u64, u64)>,
}

impl TakenNumbers {
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn find(&self, number: u64) -> Sequence {
        if number < self.floor {
            return Sequence::Forgotten;
        }
        match self.runs.get(self.run_from(number)) {
            Some((first, _)) if *first <= number => Sequence::Taken,
            _ => Sequence::Free,
        }
    }

    /// Adds a number. Above the bound the lowest run is forgotten.
    pub(crate) fn take(&mut self, number: u64) {
        if self.find(number) != Sequence::Free {
            return;
        }
        let at = self.run_from(number);
        let joins_before = at > 0 && self.runs[at - 1].1 + 1 == number;
        let joins_after = (self.runs.get(at)).is_some_and(|(first, _)| *first - 1 == number);
        match (joins_before, joins_after) {
            (true, true) => {
                let (_, last) = self.runs[at];
                self.runs[at - 1].1 = last;
                self.runs.remove(at);
            }
            (true, false) => self.runs[at - 1].1 = number,
            (false, true) => self.runs[at].0 = number,
            (false, false) => self.runs.insert(at, (number, number)),
        }
        if self.runs.len() > REMEMBERED_RUNS
            && let Some((_, last)) = self.runs.pop_front()
        {
            self.floor = last + 1;
        }
    }

    /// The highest number that was taken.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.runs.back().map(|(_, last)| *last)
    }

    /// The runs of taken numbers, ascending.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.runs.iter().copied()
    }

    /// The numbers with this floor and these runs; `None` if no numbers have them.
    pub(crate) fn restore(floor: u64, runs: Vec<(u64, u64)>) -> Option<TakenNumbers> {
        let fits = |(first, last): &(u64, u64)| floor <= *first && first <= last;
        // A free number lies between two runs.
        let is_apart = |pair: &[(u64, u64)]| pair[0].1 < pair[1].0.saturating_sub(1);
        let runs_hold = runs.iter().all(fits) && runs.windows(2).all(is_apart);
        runs_hold.then(|| TakenNumbers {
            floor,
            runs: runs.into(),
        })
    }

    /// The first run that ends at or after a number.
    fn run_from(&self, number: u64) -> usize {
        self.runs.partition_point(|(_, last)| *last < number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_without_gaps_cost_one_run() {
        let mut taken = TakenNumbers::default();
        (1..100_000).for_each(|number| taken.take(number));
        assert_eq!(taken.runs, [(1, 99_999)]);
        assert_eq!(taken.find(1), Sequence::Taken);
        assert_eq!(taken.find(0), Sequence::Free);
        assert_eq!(taken.find(u64::MAX), Sequence::Free);
        taken.take(u64::MAX);
        assert_eq!(taken.find(u64::MAX), Sequence::Taken);
    }

    #[test]
    fn runs_that_no_numbers_have_are_not_restored() {
        for runs in [
            vec![(3, 2)],
            vec![(1, 4)],
            vec![(2, 4), (5, 6)],
            vec![(8, 9), (3, 4)],
        ] {
            assert_eq!(TakenNumbers::restore(2, runs), None);
        }
    }

    proptest! {
        /// Against the plain set of all numbers.
        #[test]
        fn known_numbers_are_those_of_the_set(
            numbers in prop::collection::vec(0u64..6_000, 1..4_000),
        ) {
            let mut taken = TakenNumbers::default();
            let mut set = BTreeSet::new();
            for number in numbers {
                match taken.find(number) {
                    Sequence::Free => prop_assert!(set.insert(number)),
                    Sequence::Taken => prop_assert!(set.contains(&number)),
                    Sequence::Forgotten => prop_assert!(number < taken.floor()),
                }
                taken.take(number);
                prop_assert!(taken.runs.len() <= REMEMBERED_RUNS);
            }
            for number in taken.floor()..6_000 {
                prop_assert_eq!(taken.find(number) == Sequence::Taken, set.contains(&number));
            }
            prop_assert_eq!(taken.highest(), set.last().copied());
            let restored = TakenNumbers::restore(taken.floor(), taken.runs().collect());
            prop_assert_eq!(restored, Some(taken));
        }
    }
}
