//! The answered firings of one query that a restart would execute again, and when it no longer has
//! to: the source of `Delivered` marks (S12).
//!
//! Before changing anything here: a mark says that whole SNs are done, so firings are counted by SN
//! and never listed. One SN may have a million of them.

use somersault_model::{EventTime, Sn};
use std::collections::VecDeque;

/// A mark is due when this many firings have left the kept ones since the last mark.
const FIRINGS_PER_MARK: usize = 16;

/// The answered firings since the last mark, in the order in which they became due.
#[derive(Debug, Default)]
pub(crate) struct AnsweredFirings {
    sns: VecDeque<OfSn>,
    /// The total number of firings.
    firings: usize,
}

/// The answered firings of one SN.
#[derive(Debug)]
struct OfSn {
    sn: Sn,
    /// The close of the last firing.
    close: EventTime,
    firings: usize,
}

impl AnsweredFirings {
    /// Adds an answered firing, where `kept` firings are kept, and all from the SN `needed` on.
    /// Returns the close and the SN for a mark, if it is time for one.
    pub(crate) fn add(
        &mut self,
        (close, sn): (EventTime, Sn),
        kept: usize,
        needed: Option<Sn>,
    ) -> Option<(EventTime, Sn)> {
        self.firings += 1;
        match self.sns.back_mut() {
            Some(last) if last.sn == sn => {
                last.close = close;
                last.firings += 1;
            }
            _ => self.sns.push_back(OfSn {
                sn,
                close,
                firings: 1,
            }),
        }
        if self.firings < kept + FIRINGS_PER_MARK {
            return None;
        }
        let mut mark = None;
        // The newest SN may have more firings to come.
        while self.sns.len() > 1
            && let Some(oldest) = self.sns.front()
            && self.firings - oldest.firings >= kept
            && needed.is_none_or(|needed| oldest.sn < needed)
        {
            mark = Some((oldest.close, oldest.sn));
            self.firings -= oldest.firings;
            self.sns.pop_front();
        }
        mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The dull twin: a list of all of them.
    fn add_to_list(
        list: &mut Vec<(EventTime, Sn)>,
        firing: (EventTime, Sn),
        kept: usize,
        needed: Option<Sn>,
    ) -> Option<(EventTime, Sn)> {
        list.push(firing);
        if list.len() < kept + FIRINGS_PER_MARK {
            return None;
        }
        let newest = list.last().map(|(_, sn)| *sn)?;
        let may_go = |at: usize| {
            let (_, sn) = list[at - 1];
            let is_needed = needed.is_some_and(|needed| sn >= needed);
            sn != newest && sn != list[at].1 && list.len() - at >= kept && !is_needed
        };
        let gone = (1..list.len()).rev().find(|at| may_go(*at))?;
        list.drain(..gone).next_back()
    }

    proptest! {
        #[test]
        fn marks_are_those_of_a_list(
            sizes in prop::collection::vec(1usize..40, 1..30),
            kept in 0usize..40,
            needed in prop::collection::vec(prop::option::of(0u64..30), 30),
        ) {
            let (mut answered, mut list) = (AnsweredFirings::default(), Vec::new());
            let mut close = 0;
            for (sn, size) in sizes.into_iter().enumerate() {
                let needed = needed[sn].map(Sn);
                for _ in 0..size {
                    close += 1;
                    let firing = (EventTime(close), Sn(sn as u64));
                    let mark = answered.add(firing, kept, needed);
                    prop_assert_eq!(mark, add_to_list(&mut list, firing, kept, needed));
                }
            }
        }
    }

    #[test]
    fn a_million_firings_of_one_sn_are_one_entry() {
        // A walk over all of them each time would take 10^12 steps.
        let mut answered = AnsweredFirings::default();
        for close in 0..1_000_000 {
            assert_eq!(answered.add((EventTime(close), Sn(4)), 64, None), None);
        }
        assert_eq!(answered.sns.len(), 1);
        for close in 1_000_000..1_000_063 {
            assert_eq!(answered.add((EventTime(close), Sn(5)), 64, None), None);
        }
        let mark = answered.add((EventTime(1_000_063), Sn(5)), 64, None);
        assert_eq!(mark, Some((EventTime(999_999), Sn(4))));
    }
}
