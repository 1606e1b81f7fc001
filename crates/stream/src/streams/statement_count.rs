//! The statements of a stream, numbered from 0 as its batches close: the content of windows of a
//! number of statements (ELEMENTS, TRIPLES).
//!
//! Before changing anything here: the order is that of the batches, and within a batch that of
//! arrival, so that it is the same whatever was open at the same time. Such a window closes where
//! the number of the stream's statements reaches a multiple of its STEP, counted from the stream's
//! first one: like the closes of RANGE, its closes do not depend on when a query was registered.
//! All of a batch's closes are due at the batch's end.

use somersault_model::BatchNumber;
use std::collections::VecDeque;

/// The statement numbers of the batches from the first retained one on.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatementCount {
    /// Each closed batch that is not empty, with the number of its first statement.
    batches: VecDeque<(BatchNumber, u64)>,
    /// The number of statements that all closed batches have had.
    closed: u64,
}

/// A range of statements: the batch and the offset in it where the range begins, and those after
/// which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatementRange {
    pub(crate) lo: BatchNumber,
    /// The number of statements of `lo` that come before the range.
    pub(crate) skip: u32,
    /// The batch after the last one.
    pub(crate) hi: BatchNumber,
    /// The number of statements of the last batch that are in the range or before it.
    pub(crate) upto: u32,
    /// Whether it lacks statements that are no longer kept.
    pub(crate) is_cut: bool,
}

impl StatementCount {
    /// The count of a stream whose closed batches have had this many statements, for
    /// [`StatementCount::add_saved`].
    pub(crate) fn restore(closed: u64) -> StatementCount {
        StatementCount {
            batches: VecDeque::new(),
            closed,
        }
    }

    /// Adds saved batches, each with the number of its first statement, after earlier ones.
    pub(crate) fn add_saved(&mut self, batches: Vec<(BatchNumber, u64)>) {
        self.batches.extend(batches);
    }

    /// Each retained closed batch that is not empty, with the number of its first statement.
    pub(crate) fn batches(&self) -> impl Iterator<Item = (BatchNumber, u64)> + '_ {
        self.batches.iter().copied()
    }

    /// The number of statements that all closed batches have had.
    pub(crate) fn closed(&self) -> u64 {
        self.closed
    }

    /// Counts the next batch that closes.
    pub(crate) fn close(&mut self, batch: BatchNumber, statements: usize) {
        self.batches.push_back((batch, self.closed));
        self.closed += statements as u64;
    }

    /// Forgets the batches below this one, which are no longer asked for.
    pub(crate) fn release(&mut self, below: BatchNumber) {
        let gone = self.batches.partition_point(|(batch, _)| *batch < below);
        self.batches.drain(..gone);
    }

    /// The first batch that is known and not empty.
    pub(crate) fn first(&self) -> Option<BatchNumber> {
        self.batches.front().map(|(batch, _)| *batch)
    }

    /// The number of statements that the batches before this one have had.
    fn before(&self, batch: BatchNumber) -> u64 {
        let at = self.batches.partition_point(|(other, _)| *other < batch);
        self.batches
            .get(at)
            .map_or(self.closed, |(_, first)| *first)
    }

    /// The batch of a statement and its offset there; for a statement that is no longer known, the
    /// first known position.
    fn position_of(&self, number: u64) -> Option<(BatchNumber, u32)> {
        if number >= self.closed {
            return None;
        }
        let after = self.batches.partition_point(|(_, first)| *first <= number);
        let (batch, first) = *self.batches.get(after.saturating_sub(1))?;
        let place = u32::try_from(number.saturating_sub(first));
        Some((
            batch,
            place.expect("a batch has fewer than 2^32 statements"),
        ))
    }

    /// The number of closes that a window with this STEP has at the end of a batch.
    pub(crate) fn closes_at(&self, batch: BatchNumber, step: u64) -> u64 {
        self.before(batch.next()) / step - self.before(batch) / step
    }

    /// The first closed batch, from this one on, at whose end a window with this STEP closes.
    pub(crate) fn next_close(&self, from: BatchNumber, step: u64) -> Option<BatchNumber> {
        let reached = (self.before(from) / step + 1) * step;
        self.position_of(reached - 1).map(|(batch, _)| batch)
    }

    /// The content of a window of the last `count` statements when the batches before `end` are
    /// closed: at the `ordinal`-th of its closes at the end of the batch before, or at its latest
    /// one. Statements below `kept` may not be read.
    pub(crate) fn content(
        &self,
        end: BatchNumber,
        ordinal: u32,
        (count, step): (u64, u64),
        kept: BatchNumber,
    ) -> StatementRange {
        let before = self.before(BatchNumber(end.0 - 1)) / step;
        let closes = self.before(end) / step;
        let to = closes.min(before.saturating_add(1 + u64::from(ordinal))) * step;
        let wanted = to.saturating_sub(count);
        let kept_from = self.before(kept);
        let from = wanted.max(kept_from).min(to);
        let is_cut = wanted < from;
        let places = || {
            Some((
                self.position_of(from)?,
                self.position_of(to.checked_sub(1)?)?,
            ))
        };
        match places() {
            Some(((lo, skip), (last, place))) if from < to => StatementRange {
                lo,
                skip,
                hi: last.next(),
                upto: place + 1,
                is_cut,
            },
            _ => StatementRange {
                lo: end,
                skip: 0,
                hi: end,
                upto: 0,
                is_cut,
            },
        }
    }

    /// The first batch that such a window may read at a close from the end of the batch before
    /// `end` on; None where no statement is known yet, so that any that comes may be read.
    pub(crate) fn needed_from(
        &self,
        end: BatchNumber,
        (count, step): (u64, u64),
    ) -> Option<BatchNumber> {
        let shown = self.before(BatchNumber(end.0 - 1)) / step * step;
        self.position_of(shown.saturating_sub(count))
            .map(|(batch, _)| batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the plain list of statements, each with its batch.
        #[test]
        fn a_window_is_the_end_of_the_list(
            sizes in prop::collection::vec(0usize..6, 1..20),
            count in 1u64..12,
            step in 1u64..9,
            kept in 0i64..8,
        ) {
            let mut numbered = StatementCount::default();
            let mut list: Vec<(i64, u32)> = Vec::new();
            for (batch, size) in sizes.iter().enumerate() {
                let (batch, before) = (batch as i64, list.len() as u64);
                list.extend((0..*size as u32).map(|place| (batch, place)));
                if *size > 0 {
                    numbered.close(BatchNumber(batch), *size);
                }
                let total = list.len() as u64;
                let closes: Vec<u64> = (before + 1..=total).filter(|n| n % step == 0).collect();
                prop_assert_eq!(numbered.closes_at(BatchNumber(batch), step), closes.len() as u64);
                let next = (!closes.is_empty()).then_some(BatchNumber(batch));
                prop_assert_eq!(numbered.next_close(BatchNumber(batch), step), next);
                let needed = numbered.needed_from(BatchNumber(batch + 1), (count, step));
                for ordinal in 0..closes.len().max(1) {
                    let latest = total - total % step;
                    let to = closes.get(ordinal).copied().unwrap_or(latest);
                    let mut expected = list[to.saturating_sub(count) as usize..to as usize].to_vec();
                    if let Some((first, _)) = expected.first() {
                        prop_assert!(needed.is_some_and(|needed| needed.0 <= *first));
                    }
                    let whole = expected.len();
                    expected.retain(|(batch, _)| *batch >= kept);
                    let end = BatchNumber(batch + 1);
                    let range = numbered.content(end, ordinal as u32, (count, step), BatchNumber(kept));
                    let seen: Vec<(i64, u32)> = (list.iter().copied())
                        .filter(|(batch, place)| {
                            let after = (*batch, *place) >= (range.lo.0, range.skip);
                            after && (*batch, *place) < (range.hi.0 - 1, range.upto)
                        })
                        .collect();
                    prop_assert_eq!(&seen, &expected, "{:?}", range);
                    prop_assert_eq!(range.is_cut, expected.len() < whole);
                }
            }
        }
    }
}
