//! Runs over stretches of batches, shared by all windows over a stream: of 2, 4, 8… batches at
//! whole multiples of their length, each merged once from its halves. So a statement is merged a
//! logarithmic number of times, and a read looks into a logarithmic number of runs.
//!
//! A close waits for its window, so the runs are made earlier: [`StreamSlices::merge_ahead`] makes
//! those that end with a batch once no firing waits for that batch. The few slices that have
//! arrived since are read as they are.

use super::{Slices, StreamSlices};
use crate::windows::window::UNMERGED;
use crate::windows::{Run, Slice};
use parking_lot::RwLockReadGuard;
use rustc_hash::FxHashMap;
use somersault_model::BatchNumber;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Levels {
    runs: FxHashMap<Span, Arc<Run>>,
    /// All runs that windows may need and that end at this batch or before it have been made.
    ahead: Option<BatchNumber>,
    /// The number of batches of the longest window that these runs cover; 0 if there is none.
    longest: i64,
    /// The first batch of the count windows that these runs have covered since the last clean-up.
    counted_from: Option<BatchNumber>,
}

impl Levels {
    /// Records that the runs cover a window of this many batches.
    pub(super) fn note_window(&mut self, batches: i64) {
        self.longest = self.longest.max(batches);
    }

    /// Records that the runs cover a count window that begins at this batch.
    pub(super) fn note_counted(&mut self, from: BatchNumber) {
        let first = self.counted_from.map_or(from, |first| first.min(from));
        self.counted_from = Some(first);
    }

    /// Forgets the runs that hold a batch.
    pub(super) fn forget(&mut self, batch: BatchNumber) {
        let holds = |span: &Span| (span.first..span.end()).contains(&batch.0);
        self.runs.retain(|span, _| !holds(span));
    }

    /// Forgets the runs that begin before a batch.
    pub(super) fn retire(&mut self, below: BatchNumber) {
        self.runs.retain(|span, _| span.first >= below.0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.runs.values().map(|run| run.memory_bytes()).sum()
    }
}

/// 2^level batches, the first of which has a number that is a multiple of that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Span {
    level: u32,
    first: i64,
}

impl Span {
    /// The longest span from `first` on that ends at `hi` or before.
    fn longest(first: i64, hi: BatchNumber) -> Span {
        let mut level = 0;
        while first.rem_euclid(2 << level) == 0 && first + (2 << level) <= hi.0 && level < 40 {
            level += 1;
        }
        Span { level, first }
    }

    /// All spans of two batches and more that end at `end` and are no longer than `longest`.
    fn ending_at(end: i64, longest: i64) -> impl Iterator<Item = Span> {
        let fits = move |level: &u32| 1 << level <= longest && end.rem_euclid(1 << level) == 0;
        (1..40).take_while(fits).map(move |level| Span {
            level,
            first: end - (1 << level),
        })
    }

    fn end(self) -> i64 {
        self.first + (1 << self.level)
    }

    /// The halves of the span, each with the `slices` that are in it.
    fn halves(self, slices: &[Arc<Slice>]) -> [(Span, &[Arc<Slice>]); 2] {
        let level = self.level - 1;
        let middle = self.first + (1 << level);
        let (left, right) = slices.split_at(slices.partition_point(|s| s.batch().0 < middle));
        let half = |first| Span { level, first };
        [(half(self.first), left), (half(middle), right)]
    }
}

impl StreamSlices {
    /// Runs that hold exactly the statements of `slices`, which are those of `lo..hi`.
    pub(super) fn cover(
        &self,
        generation: u64,
        slices: &[Arc<Slice>],
        lo: BatchNumber,
        hi: BatchNumber,
    ) -> Vec<Arc<Run>> {
        let ahead = self.levels.lock().ahead;
        let fresh = slices.iter().rev();
        let fresh = fresh
            .take_while(|slice| Some(slice.batch()) >= ahead)
            .count();
        let merged_up_to = ahead.filter(|_| fresh <= UNMERGED).unwrap_or(hi);
        let mut runs = Vec::new();
        let mut rest = slices;
        let mut first = lo.0;
        while let Some(next) = rest.first() {
            // Stretches without a slice need no run.
            first = first.max(next.batch().0);
            let span = Span::longest(first, hi);
            first = span.end();
            let (these, others) = rest.split_at(rest.partition_point(|s| s.batch().0 < first));
            self.add_runs(generation, span, these, merged_up_to, &mut runs);
            rest = others;
        }
        runs
    }

    /// Adds the runs of a span, whose existing slices are `slices`: one run, unless the span ends
    /// after `merged_up_to` and its run has not been made.
    fn add_runs(
        &self,
        generation: u64,
        span: Span,
        slices: &[Arc<Slice>],
        merged_up_to: BatchNumber,
        runs: &mut Vec<Arc<Run>>,
    ) {
        let is_there = || self.levels.lock().runs.contains_key(&span);
        if slices.len() < 2 || span.end() <= merged_up_to.0 || is_there() {
            runs.extend(self.merged(generation, span, slices));
            return;
        }
        for (half, slices) in span.halves(slices) {
            self.add_runs(generation, half, slices, merged_up_to, runs);
        }
    }

    /// The run of a span, whose existing slices are `slices`.
    fn merged(&self, generation: u64, span: Span, slices: &[Arc<Slice>]) -> Option<Arc<Run>> {
        match slices {
            [] => return None,
            [one] => return Some(Arc::clone(one.run())),
            _ => {}
        }
        if let Some(run) = self.levels.lock().runs.get(&span) {
            return Some(Arc::clone(run));
        }
        let halves = span.halves(slices);
        let [left, right] = halves.map(|(half, slices)| self.merged(generation, half, slices));
        let run = match (left, right) {
            (Some(left), Some(right)) => {
                Arc::new(Run::merge(&[&left, &right], BatchNumber(i64::MIN)))
            }
            (one, other) => return one.or(other),
        };
        // A slice may have been replaced meanwhile: then other windows must not get this run.
        let state: RwLockReadGuard<'_, Slices> = self.state.read();
        let oldest = state.by_batch.first_key_value();
        let kept = oldest.is_some_and(|(batch, _)| batch.0 <= span.first);
        if state.generation == generation && kept {
            self.levels.lock().runs.insert(span, Arc::clone(&run));
        }
        Some(run)
    }

    /// Makes the runs that windows may need and that end with a batch before `hi`. All slices
    /// before `hi` have arrived.
    pub(super) fn merge_ahead(&self, hi: BatchNumber) {
        let (from, longest) = {
            let mut levels = self.levels.lock();
            if levels.ahead >= Some(hi) {
                return;
            }
            if levels.longest < 2 {
                levels.ahead = Some(hi);
                return;
            }
            // Batches before the first window are merged by windows.
            let before = levels.ahead.map_or(hi.0 - 1, |ahead| ahead.0);
            (before.max(hi.0 - levels.longest), levels.longest)
        };
        for slice in self.range(BatchNumber(from), hi).1 {
            for span in Span::ending_at(slice.batch().next().0, longest) {
                let ends = (span.first, span.end());
                let (generation, slices) = self.range(BatchNumber(ends.0), BatchNumber(ends.1));
                self.merged(generation, span, &slices);
            }
        }
        let mut levels = self.levels.lock();
        levels.ahead = levels.ahead.max(Some(hi));
    }

    /// Forgets merged runs that all windows have passed. Without this the runs of a whole KEEP
    /// would stay, which are several times its slices.
    pub(super) fn forget_passed(&self) {
        if self.levels.lock().runs.is_empty() {
            return;
        }
        let (mut first, mut longest) = (None, 0);
        for (key, view) in &*self.views.lock() {
            // The needs of a window that is being made right now are unknown: a later call forgets
            // the runs.
            let Some(view) = view.try_lock() else {
                return;
            };
            if let Some((_, latest)) = &view.latest
                && latest.is_covered()
            {
                let lo = latest.batches().0;
                first = Some(first.map_or(lo, |first: BatchNumber| first.min(lo)));
                longest = longest.max(key.range);
            }
        }
        let mut levels = self.levels.lock();
        levels.longest = longest;
        let counted = levels.counted_from.take();
        let first = first.into_iter().chain(counted).min();
        // If no window reads them for now, they stay until their slices go.
        if let Some(first) = first {
            levels.runs.retain(|span, _| span.end() > first.0);
        }
    }
}
