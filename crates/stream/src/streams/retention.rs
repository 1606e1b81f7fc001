//! The retained past of a stream: the number of its statements, and its first batch. Only numbers
//! are kept here; the slices are elsewhere.
//!
//! Before changing anything here: `from` moves only when a plan record is applied, because the
//! content of a window must follow from the log alone. The slices that still exist
//! (`retired_below`) also depend on the pace of firings.

use somersault_model::{BatchNumber, EventTime};
use std::collections::BTreeMap;

/// The batches of a stream that windows and firings still need.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// The time from which the next close of some group needs it.
    windows: Option<EventTime>,
    /// The first batch that an unfinished firing reads.
    firings: Option<BatchNumber>,
}

impl Needs {
    pub(crate) fn new(windows: Option<EventTime>, firings: Option<BatchNumber>) -> Needs {
        Needs { windows, firings }
    }

    pub(super) fn windows(&self) -> Option<EventTime> {
        self.windows
    }

    pub(super) fn firings(&self) -> Option<BatchNumber> {
        self.firings
    }
}

/// The kept past of a stream.
#[derive(Debug)]
pub(super) struct Retention {
    /// The number of statements that each batch that is open, or whose slice is not retired, holds;
    /// empty ones are not listed.
    held: BTreeMap<BatchNumber, u64>,
    /// The sum of `held`.
    statements: u64,
    /// The sum of `held` from `from` on.
    retained: u64,
    /// The first batch that a newly registered window may see.
    from: BatchNumber,
    /// The bound below which the driver was last told to retire.
    retired_below: BatchNumber,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            held: BTreeMap::new(),
            statements: 0,
            retained: 0,
            from: BatchNumber(i64::MIN),
            retired_below: BatchNumber(i64::MIN),
        }
    }
}

impl Retention {
    pub(super) fn from(&self) -> BatchNumber {
        self.from
    }

    pub(super) fn statements(&self) -> u64 {
        self.statements
    }

    /// The retention that begins with this batch, for [`Retention::hold_more`]. All slices before
    /// it are retired: no firing that reads them is left.
    pub(super) fn restore(from: BatchNumber) -> Retention {
        Retention {
            from,
            retired_below: from,
            ..Retention::default()
        }
    }

    /// The number of statements in each batch that a window may see, empty ones left out.
    pub(super) fn held(&self) -> impl Iterator<Item = (BatchNumber, u64)> + '_ {
        let held = self.held.range(self.from..);
        held.map(|(batch, count)| (*batch, *count))
    }

    /// Counts statements that were added to a batch.
    pub(super) fn hold_more(&mut self, batch: BatchNumber, count: u64) {
        if count > 0 {
            *self.held.entry(batch).or_default() += count;
        }
        self.statements += count;
        self.retained += count;
    }

    /// Sets the number of statements in a batch to `count`. Returns what it was before.
    pub(super) fn replace_count(&mut self, batch: BatchNumber, count: u64) -> u64 {
        let before = self.held.remove(&batch).unwrap_or_default();
        self.statements -= before;
        self.retained -= before;
        self.hold_more(batch, count);
        before
    }

    /// The first batch from `from` on that holds a statement, among those that a window may see.
    pub(super) fn first_held(&self, from: BatchNumber) -> Option<BatchNumber> {
        let from = from.max(self.from);
        self.held.range(from..).next().map(|(batch, _)| *batch)
    }

    /// The last batch before `to` that holds a statement, among those that a window may see.
    pub(super) fn last_held(&self, to: BatchNumber) -> Option<BatchNumber> {
        let from = self.from.min(to);
        let mut held = self.held.range(from..to);
        held.next_back().map(|(batch, _)| *batch)
    }

    /// The number of statements in the batches from this one on.
    pub(super) fn statements_from(&self, batch: BatchNumber) -> u64 {
        self.held.range(batch..).map(|(_, count)| count).sum()
    }

    /// Drops what neither windows nor KEEP need. KEEP yields to a limit on the number of
    /// statements, windows do not.
    pub(super) fn release_unneeded(
        &mut self,
        by_windows: BatchNumber,
        by_keep: BatchNumber,
        is_over_limit: impl Fn(u64) -> bool,
    ) {
        let mut from = self.from.max(by_windows.min(by_keep));
        let mut statements = self.retained;
        for (batch, count) in self.held.range(self.from..) {
            if *batch >= from {
                if !is_over_limit(statements) || *batch >= by_windows {
                    break;
                }
                from = batch.next();
            }
            statements -= count;
        }
        self.from = from;
        self.retained = statements;
    }

    /// The number below which the driver may retire batches now, if it is higher than the one last
    /// told: below the logical bound and below what running firings read.
    pub(super) fn retire(&mut self, by_firings: Option<BatchNumber>) -> Option<BatchNumber> {
        let below = self.from.min(by_firings.unwrap_or(self.from));
        if below <= self.retired_below {
            return None;
        }
        self.retired_below = below;
        let kept = self.held.split_off(&below);
        let retired = std::mem::replace(&mut self.held, kept);
        self.statements -= retired.values().sum::<u64>();
        (!retired.is_empty()).then_some(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_yields_to_the_limit_and_windows_do_not() {
        let mut retention = Retention::default();
        (0..5).for_each(|batch| retention.hold_more(BatchNumber(batch), 10));
        let (by_windows, by_keep) = (BatchNumber(3), BatchNumber(0));
        retention.release_unneeded(by_windows, by_keep, |_| false);
        assert_eq!(retention.first_held(BatchNumber(0)), Some(BatchNumber(0)));
        // Two batches have to go, and no more than these go.
        retention.release_unneeded(by_windows, by_keep, |statements| statements > 30);
        assert_eq!(retention.first_held(BatchNumber(0)), Some(BatchNumber(2)));
        retention.release_unneeded(by_windows, by_keep, |_| true);
        assert_eq!(retention.first_held(BatchNumber(0)), Some(BatchNumber(3)));
        assert_eq!(retention.retire(None), Some(BatchNumber(3)));
        assert_eq!(retention.statements(), 20);
    }
}
