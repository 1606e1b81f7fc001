//! A window at one close (S11): the distinct triples of its batches, each with its newest batch, as
//! one run while it is small, beyond that as several that reads merge. Immutable and shared by all
//! queries with the same stream, RANGE and STEP.

use crate::pace::Pace;
use crate::statistics::PredicateStatistics;
use crate::windows::run::Run;
use crate::windows::slice::Slice;
use somersault_model::{BatchNumber, Direction, EventTime, TermId, TripleIds};
use std::sync::{Arc, OnceLock};

/// Up to this many statements (repeats across batches counted) a window is one merged run, or, if
/// it holds many batches, a run that was merged before its close (its base) and the newest slice.
/// Merging costs about 0.03 µs a statement and close; a read of several runs about 0.03 µs a run.
const MERGED_LIMIT: usize = 1 << 14;

/// The number of slices that are read as they are where no run of them has been made.
pub(crate) const UNMERGED: usize = 4;

/// The triples of the batches `lo..hi` of a stream.
#[derive(Debug)]
pub struct WindowVersion {
    lo: BatchNumber,
    hi: BatchNumber,
    runs: Vec<Arc<Run>>,
    slices: Vec<Arc<Slice>>,
    distinct: OnceLock<usize>,
    /// The statements since an earlier version, shared by all queries that keep rows between
    /// closes.
    fresh: OnceLock<Arc<WindowVersion>>,
    /// Whether the first run was made for this window; all others are of slices, or of several
    /// windows.
    has_own_run: bool,
}

/// The content of a window, for comparing a later one with it. It holds no lease: ids of terms that
/// have gone since remain in it, and equal no later id (DI-1).
#[derive(Debug)]
pub struct PastWindow {
    hi: BatchNumber,
    /// The batch, the revision and the triples of each slice.
    slices: Vec<(BatchNumber, u32, Arc<Run>)>,
    runs: Vec<Arc<Run>>,
}

impl PastWindow {
    /// Whether the window held the triple.
    #[inline]
    pub fn contains(&self, triple: TripleIds) -> bool {
        self.runs.iter().any(|run| run.contains(triple))
    }
}

impl WindowVersion {
    /// A window without a statement.
    pub fn empty() -> Arc<WindowVersion> {
        let no_batch = BatchNumber(0);
        Arc::new(WindowVersion::slide(
            Before::default(),
            &[],
            no_batch,
            no_batch,
            Vec::new,
        ))
    }

    /// The window over `lo..hi`, whose slices are given in order, made from the versions in
    /// `before` if that is cheaper. `cover` returns runs that hold exactly the slices' triples; it
    /// is called when the window is too large for one run.
    pub(crate) fn slide(
        before: Before<'_>,
        slices: &[Arc<Slice>],
        lo: BatchNumber,
        hi: BatchNumber,
        cover: impl FnOnce() -> Vec<Arc<Run>>,
    ) -> WindowVersion {
        let slices = with_arrivals(slices);
        let mut has_own_run = false;
        let runs = match &slices[..] {
            [] => Vec::new(),
            [one] => vec![Arc::clone(one.run())],
            _ if statements_of(&slices) > MERGED_LIMIT => cover(),
            _ => {
                has_own_run = true;
                match before.base.and_then(|base| base.reusable(&slices, lo)) {
                    Some(RetainedRun {
                        run,
                        passed: false,
                        fresh: fresh @ ([] | [_]),
                    }) => {
                        let fresh = fresh.iter().map(|slice| slice.run());
                        [run].into_iter().chain(fresh).map(Arc::clone).collect()
                    }
                    kept => {
                        let mut others = before.latest.into_iter().chain(before.amended);
                        let other = || others.find_map(|it| it.reusable(&slices, lo));
                        vec![Arc::new(merged(kept.or_else(other), &slices, lo))]
                    }
                }
            }
        };
        WindowVersion::of((lo, hi), slices, runs, has_own_run)
    }

    /// The window over `lo..hi`, whose slices are given in order, as one run: the base of a window
    /// that begins at `lo` and ends a little later. `None` if that window would be too large for
    /// one run, or empty.
    pub(crate) fn base(
        before: Before<'_>,
        slices: &[Arc<Slice>],
        lo: BatchNumber,
        hi: BatchNumber,
    ) -> Option<WindowVersion> {
        let slices = with_arrivals(slices);
        if slices.is_empty() || statements_of(&slices) > MERGED_LIMIT {
            return None;
        }
        let mut versions = before.base.into_iter().chain(before.latest);
        let kept = versions.find_map(|version| version.reusable(&slices, lo));
        let run = Arc::new(merged(kept, &slices, lo));
        Some(WindowVersion::of((lo, hi), slices, vec![run], true))
    }

    /// The window over `lo..hi`, whose slices are given in order, for a single reader.
    pub(crate) fn unshared(
        slices: Vec<Arc<Slice>>,
        lo: BatchNumber,
        hi: BatchNumber,
    ) -> WindowVersion {
        let has_own_run = slices.len() > UNMERGED && statements_of(&slices) <= MERGED_LIMIT;
        let runs = if has_own_run {
            vec![Arc::new(merged(None, &slices, lo))]
        } else {
            slices.iter().map(|slice| Arc::clone(slice.run())).collect()
        };
        WindowVersion::of((lo, hi), slices, runs, has_own_run)
    }

    fn of(
        (lo, hi): (BatchNumber, BatchNumber),
        slices: Vec<Arc<Slice>>,
        runs: Vec<Arc<Run>>,
        has_own_run: bool,
    ) -> WindowVersion {
        WindowVersion {
            lo,
            hi,
            runs,
            slices,
            distinct: OnceLock::new(),
            fresh: OnceLock::new(),
            has_own_run,
        }
    }

    /// This version's one run, and those of `slices` that it does not hold, if it holds all others.
    fn reusable<'a>(
        &'a self,
        slices: &'a [Arc<Slice>],
        lo: BatchNumber,
    ) -> Option<RetainedRun<'a>> {
        let [run] = &self.runs[..] else {
            return None;
        };
        let gone = self.slices.partition_point(|slice| slice.batch() < lo);
        let kept = &self.slices[gone..];
        let (old, fresh) = slices.split_at_checked(kept.len())?;
        let same = old.iter().zip(kept).all(|(a, b)| Arc::ptr_eq(a, b));
        let after = fresh.first().is_none_or(|slice| slice.batch() >= self.hi);
        (same && after && !kept.is_empty()).then_some(RetainedRun {
            run,
            passed: gone > 0,
            fresh,
        })
    }

    /// The content of the window, for comparing a later version with it.
    pub fn past(&self) -> PastWindow {
        let slices = self.slices.iter();
        PastWindow {
            hi: self.hi,
            slices: slices
                .map(|slice| (slice.batch(), slice.revision(), Arc::clone(slice.run())))
                .collect(),
            runs: self.runs.clone(),
        }
    }

    /// The statements since an earlier version of the same window, if it has merely slid: whatever
    /// of the earlier one has not passed is still there, and has not been amended. A triple in the
    /// result may have been in the earlier version, too. Made once for all callers with the same
    /// earlier version.
    pub fn since(&self, earlier: &PastWindow) -> Option<Arc<WindowVersion>> {
        let passed = earlier
            .slices
            .partition_point(|(batch, ..)| *batch < self.lo);
        let kept = &earlier.slices[passed..];
        let (old, fresh) = self.slices.split_at_checked(kept.len())?;
        let same = old.iter().zip(kept).all(|(slice, (batch, revision, run))| {
            let is_its = (slice.batch(), slice.revision()) == (*batch, *revision);
            // Part of a batch is cut again if no reader has held the window meanwhile.
            is_its && (Arc::ptr_eq(slice.run(), run) || slice.run().triples().eq(run.triples()))
        });
        let after = fresh.first().is_none_or(|s| s.batch() >= earlier.hi);
        if !same || !after {
            return None;
        }
        let make = || {
            let fresh = WindowVersion::unshared(fresh.to_vec(), earlier.hi, self.hi);
            Arc::new(fresh)
        };
        let shared = self.fresh.get_or_init(make);
        Some(match shared.lo == earlier.hi {
            true => Arc::clone(shared),
            false => make(),
        })
    }

    /// The first batch, and the one after the last.
    pub fn batches(&self) -> (BatchNumber, BatchNumber) {
        (self.lo, self.hi)
    }

    /// As [`Snapshot::neighbours`](crate::Snapshot::neighbours).
    #[inline]
    pub fn neighbours<'a>(
        &'a self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.union(scratch, |run| run.neighbours(vertex, predicate, direction))
    }

    /// An upper bound of the length of [`WindowVersion::neighbours`]; exact for one run.
    #[inline]
    pub fn neighbour_estimate(
        &self,
        vertex: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> usize {
        let lengths = (self.runs.iter()).map(|r| r.neighbours(vertex, predicate, direction).len());
        lengths.sum()
    }

    /// Whether the window holds the triple.
    #[inline]
    pub fn contains(&self, triple: TripleIds) -> bool {
        self.runs.iter().any(|run| run.contains(triple))
    }

    /// The predicates of the edges from or to a vertex, ascending.
    pub fn predicates_of<'a>(
        &'a self,
        vertex: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.union(scratch, |run| run.predicates_of(vertex, direction))
    }

    /// All vertices that have such an edge, ascending.
    pub fn vertices_with<'a>(
        &'a self,
        predicate: TermId,
        direction: Direction,
        scratch: &'a mut Vec<TermId>,
    ) -> &'a [TermId] {
        self.union(scratch, |run| run.vertices_with(predicate, direction))
    }

    /// Appends the edges of a predicate, vertices ascending, for as long as the pace allows. Both
    /// columns have the same length.
    pub fn edges(
        &self,
        predicate: TermId,
        direction: Direction,
        pace: &mut Pace<'_>,
        vertices: &mut Vec<TermId>,
        neighbours: &mut Vec<TermId>,
    ) {
        let lists = (self.runs.iter()).map(|run| run.lists_of(predicate, direction).peekable());
        let mut lists: Vec<_> = lists.collect();
        while let Some(vertex) = (lists.iter_mut())
            .filter_map(|lists| lists.peek().map(|(vertex, _)| *vertex))
            .min()
        {
            if pace.ends(neighbours.len()) {
                return;
            }
            let start = neighbours.len();
            let mut parts = 0;
            for lists in &mut lists {
                if let Some((_, list)) = lists.next_if(|(other, _)| *other == vertex) {
                    neighbours.extend_from_slice(list);
                    parts += 1;
                }
            }
            if parts > 1 {
                let mut all = neighbours.split_off(start);
                all.sort_unstable();
                all.dedup();
                neighbours.append(&mut all);
            }
            vertices.resize(neighbours.len(), vertex);
        }
    }

    /// All predicates, ascending.
    pub fn predicates(&self) -> Vec<TermId> {
        let mut scratch = Vec::new();
        self.union(&mut scratch, Run::predicates).to_vec()
    }

    /// Numbers for one predicate: exact for a window of one run, upper bounds beyond.
    pub fn predicate_statistics(&self, predicate: TermId) -> PredicateStatistics {
        let mut sum = PredicateStatistics::default();
        for run in &self.runs {
            let part = run.predicate_statistics(predicate);
            sum.statements += part.statements;
            sum.subjects += part.subjects;
            sum.objects += part.objects;
        }
        sum
    }

    /// The number of distinct triples. For a window of several runs the first call reads all of it;
    /// [`WindowVersion::len_estimate`] never does.
    pub fn len(&self) -> usize {
        if let [] | [_] = &self.runs[..] {
            return self.len_estimate();
        }
        *self.distinct.get_or_init(|| {
            let mut triples: Vec<_> = self.runs.iter().flat_map(|run| run.triples()).collect();
            triples.sort_unstable();
            triples.dedup();
            triples.len()
        })
    }

    /// An upper bound of [`WindowVersion::len`]; exact for one run.
    pub fn len_estimate(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }

    /// Whether the window holds nothing.
    pub fn is_empty(&self) -> bool {
        self.runs.iter().all(|run| run.is_empty())
    }

    /// The newest batch of the window that holds the triple.
    pub fn newest_batch_of(&self, triple: TripleIds) -> Option<BatchNumber> {
        // Runs are of stretches of batches, one after the other.
        let mut newest = self.runs.iter().rev();
        newest.find_map(|run| run.newest_batch_of(triple))
    }

    /// The event time of the newest arrival of the triple in the window (`f:timestamp`).
    pub fn newest_time_of(&self, triple: TripleIds) -> Option<EventTime> {
        let batch = self.newest_batch_of(triple)?;
        let at = self
            .slices
            .binary_search_by_key(&batch, |slice| slice.batch());
        self.slices[at.ok()?].newest_time_of(triple)
    }

    /// The slices of the window, oldest first.
    pub fn slices(&self) -> &[Arc<Slice>] {
        &self.slices
    }

    /// The number of runs that a read looks into.
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    pub(crate) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Whether it is too large for a run of its own.
    pub(crate) fn is_covered(&self) -> bool {
        self.slices.len() > 1 && !self.has_own_run
    }

    /// The run that was made for this window, if it has one.
    pub(crate) fn own_run(&self) -> Option<&Arc<Run>> {
        self.runs.first().filter(|_| self.has_own_run)
    }

    /// The run that was made of the newest statements, if there is one.
    pub(crate) fn fresh_run(&self) -> Option<&Arc<Run>> {
        self.fresh.get()?.own_run()
    }

    /// The union of one list of each run: borrowed where at most one has members.
    #[inline]
    fn union<'a>(
        &'a self,
        scratch: &'a mut Vec<TermId>,
        list: impl Fn(&'a Run) -> &'a [TermId],
    ) -> &'a [TermId] {
        let mut lists = (self.runs.iter())
            .map(|r| list(r))
            .filter(|ids| !ids.is_empty());
        let Some(first) = lists.next() else {
            return &[];
        };
        let Some(second) = lists.next() else {
            return first;
        };
        scratch.clear();
        for ids in [first, second].into_iter().chain(lists) {
            scratch.extend_from_slice(ids);
        }
        // Ascending stretches: the stable sort merges them.
        scratch.sort();
        scratch.dedup();
        scratch
    }
}

/// The earlier versions from which a version may be made.
#[derive(Clone, Copy, Default)]
pub(crate) struct Before<'a> {
    /// The base that was made before the version's last batch arrived.
    pub(crate) base: Option<&'a WindowVersion>,
    /// The newest version before it.
    pub(crate) latest: Option<&'a WindowVersion>,
    /// The version of an amended close before it.
    pub(crate) amended: Option<&'a WindowVersion>,
}

/// The part of an earlier version that goes into a later one.
struct RetainedRun<'a> {
    run: &'a Arc<Run>,
    /// Whether the run also holds slices that the later version does not.
    passed: bool,
    /// The slices of the later version that the run does not hold.
    fresh: &'a [Arc<Slice>],
}

/// One run of all slices, or of the kept run and the slices that it does not hold.
fn merged(kept: Option<RetainedRun<'_>>, slices: &[Arc<Slice>], lo: BatchNumber) -> Run {
    let (kept, fresh) = kept.map_or((None, slices), |kept| (Some(&**kept.run), kept.fresh));
    let fresh = fresh.iter().map(|slice| &**slice.run());
    let parts: Vec<&Run> = kept.into_iter().chain(fresh).collect();
    Run::merge(&parts, lo)
}

/// The slices that are not empty.
fn with_arrivals(slices: &[Arc<Slice>]) -> Vec<Arc<Slice>> {
    let slices = slices.iter().filter(|slice| slice.arrivals() > 0);
    slices.map(Arc::clone).collect()
}

/// The number of statements in these slices; repeats in several slices count each time.
fn statements_of(slices: &[Arc<Slice>]) -> usize {
    slices.iter().map(|slice| slice.run().len()).sum()
}
