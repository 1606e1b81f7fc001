//! The dull twin of the engine: language.md, *What a window holds, and when*, computed from the
//! whole history each time. It is slow and short on purpose; when it and the engine differ, it is
//! read first and believed.

use crate::algebra::{Bag, Seen, Stored};
use crate::model::{
    Absorbs, Changes, FIRST_DERIVED, LONG_MS, Late, QueryModel, Report, Statement, StreamModel,
    Triple,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stream::Stream;

mod due;
mod stream;
#[cfg(test)]
mod tests;
mod windows;

/// A bug that is planted in the twin, so that a run sees the engine as faulty: a checker is trusted
/// once it has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Windows miss the statements at t − R.
    OpenOnTheLeft,
    /// Windows hold the statements at t too.
    ClosedOnTheRight,
    /// A window is a bag: a triple counts as often as it came.
    Bag,
    /// All windows of a query have the length of the first.
    OneSize,
    /// Statements in one window of a query are in all its windows.
    Leak,
    /// A statement that came too late empties the windows of its stream for a while.
    LateWipes,
    /// Late statements that were taken amend no firing.
    Unamended,
    /// A close is due before the last stream has reached it.
    Hasty,
    /// Absorbed statements are stored one batch too late.
    StoredLate,
    /// An update is never sent, as if the engine had lost one that it acknowledged.
    LostUpdate,
    /// A firing is seen twice.
    RepeatedFiring,
    /// Windows of a number of statements count a repeated triple once.
    RepeatsUncounted,
    /// Of several closes within a batch each shows the whole batch.
    WholeBatches,
    /// ALL holds statements from before the registration, too.
    AllFromTheBeginning,
    /// Derived statements are visible one step too early.
    DerivedEarly,
    /// Derived statements arrive in the stream as facts, and are in no window.
    DerivedUnseen,
    /// `f:timestamp` gives the oldest time.
    OldestTimestamp,
    /// A triple of a template that says GRAPH comes without it.
    NoTemplateGraph,
    /// REPORT is ignored: every firing is reported.
    ReportedAll,
    /// The newest firing of a query that skips is skipped as well.
    NewestSkipped,
    /// Queries that differ in constants alone all get the answer of one of them.
    OneForAll,
    /// A FILTER outside of all blocks is ignored.
    FiltersIgnored,
    /// A repeated triple leaves a window with the first of its statements.
    DuplicateLost,
    /// A replacement starts as a new query does.
    HandedOverLate,
    /// A stream is only as far as its newest statement, so that a silent one makes no close due.
    NeverCloses,
}

/// More consecutive closes than this, due at once and with nothing in their windows, may be
/// skipped.
const LONGEST_EMPTY_RUN: usize = 64;

/// A registered query, and the answers that it owes.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) model: QueryModel,
    pub(crate) paused: bool,
    /// It fires only for closes after this: the latest time of its streams when it was registered
    /// or resumed.
    after: i64,
    /// Its newest close so far, or the time after which its first close comes; `None` until all of
    /// its streams have a time.
    fired_through: Option<i64>,
    /// The closes that have been due since then.
    closes: Vec<i64>,
    /// The due firings that have not arrived, in the order in which they will.
    pub(crate) due: VecDeque<Due>,
    /// The number of closes that have become due.
    pub(crate) made: u64,
    /// For a query that derives a stream: the closes whose statements are not in the stream.
    underived: VecDeque<Due>,
    /// The whole answer of the previous firing; with REPORT ON CHANGE there may be none, or it may
    /// be unknown.
    before: Before,
    /// For each window, the start of the batch that was open at its registration.
    since: Vec<i64>,
    /// The time from which on its windows must be complete, as KEEP promises.
    promised: i64,
    /// Whether KEEP of a stream is so short that windows may lack their beginning.
    short_keep: bool,
}

/// The previous answer of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Before {
    Nothing,
    Answer(Bag),
    /// A firing may have been skipped as empty, or not reported.
    Unsure,
}

/// A firing that is due, with the statements that it may see.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) close_ms: i64,
    /// Counts the firings of one close.
    pub(crate) ordinal: u32,
    /// Whether the firing happened before, without the late statements.
    pub(crate) is_amended: bool,
    stored: Arc<Stored>,
    /// The statements that each stream had taken.
    taken: BTreeMap<usize, Arc<Vec<Statement>>>,
    /// Whether it may be skipped as empty.
    pub(crate) may_be_passed: bool,
}

/// The outcome of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Refused,
    Taken { accepted: u64, dropped: u64 },
}

/// All streams, queries and stored graphs.
#[derive(Debug, Clone)]
pub struct Twin {
    streams: BTreeMap<usize, Stream>,
    pub(crate) queries: BTreeMap<u8, Query>,
    stored: Arc<Stored>,
    plant: Option<Plant>,
}

impl Twin {
    /// Streams without any input so far.
    pub fn new(streams: &[StreamModel], plant: Option<Plant>) -> Self {
        Self {
            streams: streams.iter().map(Stream::new).enumerate().collect(),
            queries: BTreeMap::new(),
            stored: Arc::default(),
            plant,
        }
    }

    /// The contents of the stored graphs.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Whether such a stream exists, derived or not.
    pub(crate) fn has_stream(&self, stream: usize) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Whether some query derives a stream.
    pub(crate) fn derives(&self) -> bool {
        self.queries.keys().any(|number| *number >= FIRST_DERIVED)
    }

    /// Whether a query windows the stream that this one derives.
    pub(crate) fn is_windowed(&self, number: u8) -> bool {
        let mut windows = (self.queries.values()).flat_map(|query| &query.model.windows);
        number >= FIRST_DERIVED && windows.any(|window| window.stream == usize::from(number))
    }

    /// The outcome of a push if it is sent now.
    pub(crate) fn verdict(&self, stream: usize, source: u8, statements: &[Statement]) -> Verdict {
        let stream = &self.streams[&stream];
        let accepted = stream.sorted(source, statements).taken.len();
        let dropped = (statements.len() - accepted) as u64;
        match stream.model.late {
            Late::Reject if dropped > 0 => Verdict::Refused,
            _ => Verdict::Taken {
                accepted: accepted as u64,
                dropped,
            },
        }
    }

    /// Takes a push that is not refused.
    pub(crate) fn push(&mut self, stream: usize, source: u8, statements: &[Statement]) {
        let amended = self.stream_mut(stream).push(source, statements);
        self.amend(stream, &amended);
        self.settle();
    }

    fn stream_mut(&mut self, stream: usize) -> &mut Stream {
        (self.streams.get_mut(&stream)).expect("a scenario names existing streams")
    }

    /// Takes a heartbeat; closed batches are then stored, due or not.
    pub(crate) fn advance(&mut self, to: &[(usize, i64)]) {
        for (stream, to_ms) in to {
            self.stream_mut(*stream).advance(*to_ms);
        }
        self.make_due();
        self.store_closed(i64::MAX);
        // An advance waits for the statements derived from it.
        self.settle();
        self.store_closed(i64::MAX);
    }

    pub(crate) fn register(&mut self, number: u8, model: &QueryModel) {
        self.insert(number, model);
        self.resume(number);
    }

    fn insert(&mut self, number: u8, model: &QueryModel) {
        if model.derives.is_some() {
            let stream = Stream::new(&stream_of(model));
            self.streams.insert(number.into(), stream);
        }
        let query = Query {
            model: model.clone(),
            paused: true,
            after: i64::MIN,
            fired_through: None,
            closes: Vec::new(),
            due: VecDeque::new(),
            made: 0,
            underived: VecDeque::new(),
            before: Before::Nothing,
            since: (model.windows.iter())
                .map(|window| self.streams[&window.stream].open_since())
                .collect(),
            promised: i64::MIN,
            short_keep: (model.windows.iter()).any(|window| {
                let reach_ms = window.range_ms + window.until_ms + window.step_ms;
                self.streams[&window.stream].model.keep_ms < 2 * reach_ms
            }),
        };
        self.queries.insert(number, query);
    }

    /// Replaces a query that derives nothing.
    pub(crate) fn replace(&mut self, number: u8, model: &QueryModel) {
        let after = match self.plant {
            Some(Plant::HandedOverLate) => self.newest_time(model),
            _ => self.handed_over_after(number, model),
        };
        self.insert(number, model);
        self.begin(number, after);
    }

    /// The time after which a replacement would fire. Closes that the replaced query has answered,
    /// or passed while it was paused, do not come again, and neither do closes that the
    /// replacement's own streams have passed.
    fn handed_over_after(&self, number: u8, model: &QueryModel) -> Option<i64> {
        let old = &self.queries[&number];
        let reached = |model: &QueryModel| {
            let own = model.windows.iter().map(|w| &self.streams[&w.stream]);
            let times = own.clone().map(|stream| stream.complete_through);
            (
                times.min().flatten(),
                own.filter_map(|stream| stream.begin).max(),
            )
        };
        let newest = self.newest_time(model);
        let passed = match old.paused {
            true => newest,
            false => {
                let ((had, _), (reached, begun)) = (reached(&old.model), reached(model));
                had.max(reached).max(begun.min(newest))
            }
        };
        passed.max(Some(old.after)).max(old.closes.last().copied())
    }

    /// Whether no stream of a replacement has reached the time that the replaced query has reached.
    pub(crate) fn is_behind(&self, number: u8, model: &QueryModel) -> bool {
        self.handed_over_after(number, model) > self.newest_time(model).max(Some(i64::MIN))
    }

    /// The latest time of the streams of a query.
    fn newest_time(&self, model: &QueryModel) -> Option<i64> {
        let times = (model.windows.iter()).map(|w| self.streams[&w.stream].complete_through);
        times.max().flatten()
    }

    /// Drops a query, and the stream that it derives. The stream's timeless statements are stored,
    /// also those of its open batch.
    pub(crate) fn drop(&mut self, number: u8) {
        self.queries.remove(&number);
        if number < FIRST_DERIVED {
            return;
        }
        if let Some(stream) = self.streams.remove(&number.into()) {
            stream.store_waiting(Arc::make_mut(&mut self.stored));
        }
    }

    /// A resumed query starts as a new one does.
    pub(crate) fn resume(&mut self, number: u8) {
        if let Some(query) = self.queries.get(&number).filter(|query| query.paused) {
            self.begin(number, self.newest_time(&query.model));
        }
    }

    /// A query that is paused fires for closes after a time.
    fn begin(&mut self, number: u8, after: Option<i64>) {
        if let Some(query) = self.queries.get_mut(&number) {
            query.after = after.unwrap_or(i64::MIN);
            query.paused = false;
            query.fired_through = None;
            query.closes.clear();
        }
        self.settle();
    }

    pub(crate) fn pause(&mut self, number: u8) {
        if let Some(query) = self.queries.get_mut(&number) {
            query.paused = true;
        }
    }

    pub(crate) fn update(&mut self, insert: bool, graph: Option<u8>, triple: Triple) {
        self.store_closed(i64::MAX);
        let graph = Arc::make_mut(&mut self.stored).entry(graph).or_default();
        match insert {
            true => graph.insert(triple),
            false => graph.remove(&triple),
        };
    }

    /// After a restart of the engine, closed batches are stored.
    pub(crate) fn restarted(&mut self) {
        self.store_closed(i64::MAX);
    }

    /// Stores the timeless statements of batches that are closed and end at or before `through_ms`.
    fn store_closed(&mut self, through_ms: i64) {
        let behind = i64::from(self.plant == Some(Plant::StoredLate));
        let stored = Arc::make_mut(&mut self.stored);
        for stream in self.streams.values_mut() {
            stream.show(through_ms, behind, stored);
        }
    }

    /// The next due firing that has not arrived.
    pub(crate) fn take_due(&mut self, number: u8) -> Result<Option<Due>, String> {
        let query = self.queries.get_mut(&number);
        Ok(query.ok_or("it is not registered")?.due.pop_front())
    }

    /// From now on it is undefined which firings of the query are due.
    pub(crate) fn forgive(&mut self, number: u8) {
        if let Some(query) = self.queries.get_mut(&number) {
            query.due.clear();
        }
    }

    /// Whether a bug has the newest firing of a query skipped.
    pub(crate) fn skips_newest(&self, number: u8) -> bool {
        let query = self.queries.get(&number);
        query.is_some_and(|query| query.model.skips && query.due.len() == 1)
    }

    /// The rows that are due. `complete_from_ms` is what the engine reports with the firing. If
    /// KEEP is short and the windows of several streams may lack different parts, there is nothing
    /// to compare, and this returns `None`.
    pub(crate) fn answer(
        &mut self,
        number: u8,
        due: &Due,
        complete_from_ms: Option<i64>,
    ) -> Result<Option<Bag>, String> {
        let query = &self.queries[&number];
        if complete_from_ms > Some(query.promised) {
            return Err(format!(
                "it is reported complete from {complete_from_ms:?} on only, but all statements from {} on are kept",
                query.promised
            ));
        }
        let streams: BTreeSet<usize> = query.model.windows.iter().map(|w| w.stream).collect();
        let from_ms = match complete_from_ms {
            Some(_) if query.short_keep && streams.len() > 1 => return Ok(None),
            Some(from_ms) if query.short_keep => from_ms,
            _ => i64::MIN,
        };
        let now = self.whole_answer(query, due, from_ms);
        let (before, reports) = self.compare(number, &now);
        if !reports {
            return Err("it was reported, although REPORT leaves it out".to_owned());
        }
        let before = match before {
            Before::Answer(before) => before,
            Before::Nothing | Before::Unsure => Bag::new(),
        };
        Ok(Some(match self.queries[&number].model.changes {
            None => now,
            Some(Changes::New) => without(now, &before),
            Some(Changes::Gone) => without(before, &now),
        }))
    }

    /// The whole answer of a firing, over the statements that are complete.
    fn whole_answer(&self, query: &Query, due: &Due, complete_from_ms: i64) -> Bag {
        let windows = self.contents(query, due, complete_from_ms);
        let alike = |other: &&Query| {
            query.model.family.is_some() && other.model.family == query.model.family
        };
        let asked = match self.plant {
            Some(Plant::OneForAll) => self.queries.values().find(alike).unwrap_or(query),
            _ => query,
        };
        let unfiltered = (self.plant == Some(Plant::FiltersIgnored)).then(|| {
            let mut model = asked.model.clone();
            model.pattern.filters.clear();
            model
        });
        let seen = Seen {
            query: unfiltered.as_ref().unwrap_or(&asked.model),
            windows: &windows,
            stored: &due.stored,
        };
        let answer = seen.answer();
        match (self.plant, &query.model.derives) {
            (Some(Plant::NoTemplateGraph), None) => (answer.into_iter())
                .map(|(mut row, times)| {
                    row.truncate(3);
                    (row, times)
                })
                .collect(),
            _ => answer,
        }
    }

    /// Records the answer of a firing: the previous answer, and whether this one is to be reported.
    fn compare(&mut self, number: u8, now: &Bag) -> (Before, bool) {
        let reports_all = self.plant == Some(Plant::ReportedAll);
        let query = (self.queries.get_mut(&number)).expect("its firing is due");
        let before = std::mem::replace(&mut query.before, Before::Answer(now.clone()));
        let report = query.model.report;
        // An answer of ASK is never empty.
        let is_empty = now.is_empty();
        let is_same = matches!(&before, Before::Answer(before) if before == now);
        let reports = reports_all || !(report.non_empty && is_empty || report.on_change && is_same);
        (before, reports)
    }

    /// Whether a firing that is due, and did not come before a later one or at the end, may have
    /// been left out.
    pub(crate) fn may_be_left_out(&mut self, number: u8, due: &Due) -> bool {
        let query = &self.queries[&number];
        let report = query.model.report;
        if query.model.skips {
            // The newest is never skipped.
            return !query.due.is_empty();
        }
        if report == Report::default() {
            return due.may_be_passed;
        }
        let now = self.whole_answer(query, due, i64::MIN);
        let (before, reports) = self.compare(number, &now);
        let is_unsure = before == Before::Unsure || due.may_be_passed;
        if is_unsure && let Some(query) = self.queries.get_mut(&number) {
            query.before = Before::Unsure;
        }
        is_unsure || !reports
    }
}

/// The rows of one bag that another has not.
fn without(mut bag: Bag, other: &Bag) -> Bag {
    for (row, times) in &mut bag {
        *times = times.saturating_sub(other.get(row).copied().unwrap_or(0));
    }
    bag.retain(|_, times| *times > 0);
    bag
}

/// The stream that a query derives: BATCH divides all closes, and they are whole multiples of their
/// STEP.
pub(crate) fn stream_of(model: &QueryModel) -> StreamModel {
    let steps = model.windows.iter().map(|window| window.step_ms);
    let derived = model.derives.as_ref();
    StreamModel {
        batch_ms: model.every_ms.unwrap_or_else(|| steps.fold(0, divisor)),
        absorbs: derived.map_or(Absorbs::Nothing, |derived| derived.absorbs.clone()),
        into: derived.and_then(|derived| derived.into),
        lateness_ms: 0,
        late: Late::Reject,
        keep_ms: LONG_MS,
    }
}

/// The greatest common divisor.
fn divisor(a: i64, b: i64) -> i64 {
    match b {
        0 => a,
        _ => divisor(b, a % b),
    }
}
