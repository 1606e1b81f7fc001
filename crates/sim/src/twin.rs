//! The dull twin of the engine: language.md, *Windows, exactly*, computed from the whole history each time.
//! It is slow and short on purpose; when it and the engine differ, it is read first and believed.

use crate::algebra::{Bag, Seen, Stored};
use crate::model::{
    Changes, Dialect, Extent, Late, QueryModel, Statement, StreamModel, Triple, WindowModel,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use stream::Stream;

mod stream;
#[cfg(test)]
mod tests;

/// More consecutive closes than this, due at once and with nothing in their windows, may be passed in bulk.
const BULK_RUN: usize = 64;

/// A bug that is planted in the twin, so that a run sees the engine as faulty: a checker is trusted once it has failed.
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
    /// What is in one window of a query is in all of them.
    Leak,
    /// A statement that came too late empties the windows of its stream for a while.
    LateWipes,
    /// What came late and was taken makes no firing happen again.
    Unamended,
    /// A close is due before the last stream has reached it.
    Hasty,
    /// Absorbed statements are stored one batch too late.
    StoredLate,
    /// An update is never sent, as if the engine had lost one that it acknowledged.
    LostUpdate,
    /// A firing is seen twice.
    RepeatedFiring,
}

/// A registered query, and the answers that it owes.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) model: QueryModel,
    pub(crate) paused: bool,
    /// It fires after this only: the latest time of its streams when it was registered or resumed.
    after: i64,
    next: Option<i64>,
    /// The closes that have been due since then.
    closes: Vec<i64>,
    /// The firings that are due and have not come, in the order in which they will.
    pub(crate) due: VecDeque<Due>,
    /// The whole answer of the firing before.
    before: Bag,
    /// From when on its windows must be complete, as KEEP promises.
    promised: i64,
    /// Whether KEEP of a stream is so short that windows may lack their beginning.
    short_keep: bool,
}

/// A firing that is due: what it may see.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) close_ms: i64,
    /// Whether it happened before, without what came late.
    pub(crate) is_amended: bool,
    stored: Arc<Stored>,
    /// How many statements each stream had taken.
    taken: Vec<usize>,
    /// Whether it may be passed in bulk.
    pub(crate) may_be_passed: bool,
}

/// What becomes of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Refused,
    Taken { accepted: u64, dropped: u64 },
}

/// All streams, queries and stored graphs.
#[derive(Debug, Clone)]
pub struct Twin {
    streams: Vec<Stream>,
    pub(crate) queries: BTreeMap<u8, Query>,
    stored: Arc<Stored>,
    plant: Option<Plant>,
}

impl Twin {
    /// Streams of which nobody has heard yet.
    pub fn new(streams: &[StreamModel], plant: Option<Plant>) -> Self {
        Self {
            streams: streams.iter().map(Stream::new).collect(),
            queries: BTreeMap::new(),
            stored: Arc::default(),
            plant,
        }
    }

    /// What the stored graphs hold.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// What becomes of a push if it is sent now.
    pub(crate) fn verdict(&self, stream: usize, source: u8, statements: &[Statement]) -> Verdict {
        let stream = &self.streams[stream];
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
        let amended = self.streams[stream].push(source, statements);
        self.amend(stream, &amended);
        self.make_due();
    }

    /// What came late is stored if it is timeless, and the firings that should have seen it in a window happen again.
    fn amend(&mut self, stream: usize, late: &[Statement]) {
        let stored = Arc::make_mut(&mut self.stored);
        (late.iter()).for_each(|statement| self.streams[stream].store(statement, stored));
        if self.plant == Some(Plant::Unamended) {
            return;
        }
        let due = self.due_at(0, true);
        for query in self.queries.values_mut().filter(|query| !query.paused) {
            let model = &query.model;
            let shows = |close_ms: i64| {
                (model
                    .windows
                    .iter()
                    .filter(|window| window.stream == stream))
                .any(|window| {
                    let (from_ms, to_ms) = window.span(model.origin_ms, close_ms);
                    (late.iter()).any(|statement| (from_ms..to_ms).contains(&statement.at_ms))
                })
            };
            let closes = query.closes.iter().filter(|close_ms| shows(**close_ms));
            query.due.extend(closes.map(|close_ms| Due {
                close_ms: *close_ms,
                ..due.clone()
            }));
        }
    }

    /// A firing that sees what there is now.
    fn due_at(&self, close_ms: i64, is_amended: bool) -> Due {
        Due {
            close_ms,
            is_amended,
            stored: Arc::clone(&self.stored),
            taken: (self.streams.iter())
                .map(|stream| stream.taken.len())
                .collect(),
            may_be_passed: false,
        }
    }

    /// Takes a heartbeat; what is closed is then stored, due or not.
    pub(crate) fn advance(&mut self, to: &[(usize, i64)]) {
        for (stream, to_ms) in to {
            self.streams[*stream].advance(*to_ms);
        }
        self.make_due();
        self.store_closed(i64::MAX);
    }

    pub(crate) fn register(&mut self, number: u8, model: &QueryModel) {
        let query = Query {
            model: model.clone(),
            paused: true,
            after: i64::MIN,
            next: None,
            closes: Vec::new(),
            due: VecDeque::new(),
            before: Bag::new(),
            promised: i64::MIN,
            short_keep: (model.windows.iter()).any(|window| {
                let reach_ms = window.range_ms + window.until_ms + window.step_ms;
                self.streams[window.stream].model.keep_ms < 2 * reach_ms
            }),
        };
        self.queries.insert(number, query);
        self.resume(number);
    }

    /// A query that is resumed begins like one that is new.
    pub(crate) fn resume(&mut self, number: u8) {
        let Some(query) = self.queries.get_mut(&number).filter(|query| query.paused) else {
            return;
        };
        let streams = || (query.model.windows.iter()).map(|window| &self.streams[window.stream]);
        query.after = streams()
            .filter_map(|stream| stream.complete_through)
            .max()
            .unwrap_or(i64::MIN);
        query.paused = false;
        query.next = None;
        query.closes.clear();
        self.make_due();
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

    /// The engine was restarted: what is closed is then stored.
    pub(crate) fn restarted(&mut self) {
        self.store_closed(i64::MAX);
    }

    /// What a query fires for next, and the streams that may be said to hold it up: of those that have not reached that
    /// close, or have no time, the ones that are furthest behind.
    pub(crate) fn waits_for(&self, number: u8) -> (Option<i64>, Vec<usize>) {
        let query = &self.queries[&number];
        if query.paused {
            return (None, Vec::new());
        }
        let streams: BTreeSet<usize> = query.model.windows.iter().map(|w| w.stream).collect();
        let time = |stream: &usize| self.streams[*stream].complete_through;
        let least = streams.iter().map(time).min().flatten();
        let furthest_behind = (streams.into_iter())
            .filter(|stream| time(stream) == least && (least.is_none() || least < query.next))
            .collect();
        (query.next, furthest_behind)
    }

    /// Makes every close due that all streams of its query have reached, in the order of closes.
    fn make_due(&mut self) {
        let mut made: BTreeMap<u8, usize> = BTreeMap::new();
        while let Some((close_ms, numbers)) = self.next_due() {
            self.store_closed(close_ms);
            let due = self.due_at(close_ms, false);
            for number in numbers {
                let query = self.queries.get_mut(&number).expect("it was just found");
                query.next = Some(query.model.first_close_after(close_ms));
                query.closes.push(close_ms);
                query.due.push_back(due.clone());
                *made.entry(number).or_default() += 1;
            }
        }
        // The last of a run fires in any case. Queries that fire together pass together, so that the longest run counts.
        let is_jump = made.values().any(|count| *count > BULK_RUN);
        for (number, count) in made.iter().filter(|_| is_jump) {
            let query = &self.queries[number];
            // What KEEP had let go of when the query began is in no window.
            let from_ms = if query.short_keep {
                query.promised
            } else {
                i64::MIN
            };
            let run = query.due.len() - count..query.due.len() - 1;
            let is_empty = |due: &Due| {
                let contents = self.contents(&query.model, due, from_ms);
                contents.iter().all(Vec::is_empty)
            };
            let may_be_passed: Vec<bool> = query.due.range(run.clone()).map(is_empty).collect();
            let query = self.queries.get_mut(number).expect("it was just found");
            for (due, may) in query.due.range_mut(run).zip(may_be_passed) {
                due.may_be_passed = may;
            }
        }
    }

    /// The earliest close that is due and has not been made so, with its queries.
    fn next_due(&mut self) -> Option<(i64, Vec<u8>)> {
        let mut due: BTreeMap<i64, Vec<u8>> = BTreeMap::new();
        for (number, query) in self.queries.iter_mut().filter(|(_, query)| !query.paused) {
            let streams =
                || (query.model.windows.iter()).map(|window| &self.streams[window.stream]);
            let times = streams().map(|stream| stream.complete_through);
            let reached = match self.plant {
                Some(Plant::Hasty) => times.max().flatten(),
                _ => times.min().flatten(),
            };
            let begin = streams().map(|stream| stream.begin).max().flatten();
            let (Some(reached), Some(begin)) = (reached, begin) else {
                continue;
            };
            let next = match query.next {
                Some(next) => next,
                None => {
                    // Only now that all streams have a time is anything kept for the query.
                    let kept = streams().filter_map(Stream::kept_from);
                    query.promised = kept.max().unwrap_or(begin);
                    query.model.first_close_after(query.after.max(begin))
                }
            };
            query.next = Some(next);
            if next <= reached {
                due.entry(next).or_default().push(*number);
            }
        }
        due.pop_first()
    }

    /// Stores what is timeless in batches that are over and end at or before `through_ms`.
    fn store_closed(&mut self, through_ms: i64) {
        let behind = i64::from(self.plant == Some(Plant::StoredLate));
        let stored = Arc::make_mut(&mut self.stored);
        for stream in &mut self.streams {
            stream.show(through_ms, behind, stored);
        }
    }

    /// What each window shows at a firing, of what is complete.
    fn contents(&self, model: &QueryModel, due: &Due, complete_from_ms: i64) -> Vec<Vec<Triple>> {
        let content = |window: &WindowModel| {
            let stream = &self.streams[window.stream];
            let taken = &stream.taken[..due.taken[window.stream]];
            let (from_ms, to_ms) = window.span(model.origin_ms, due.close_ms);
            let from_ms = match self.plant {
                Some(Plant::OneSize) => to_ms - model.windows[0].range_ms,
                _ => from_ms,
            };
            let (from_ms, to_ms) = match self.plant {
                Some(Plant::OpenOnTheLeft) => (from_ms + 1, to_ms),
                Some(Plant::ClosedOnTheRight) => (from_ms, to_ms + 1),
                Some(Plant::LateWipes)
                    if stream
                        .late_at
                        .iter()
                        .any(|at| (from_ms..to_ms).contains(at)) =>
                {
                    (to_ms, to_ms)
                }
                _ => (from_ms, to_ms),
            };
            let inside = (taken.iter())
                .filter(|statement| {
                    (from_ms.max(complete_from_ms)..to_ms).contains(&statement.at_ms)
                })
                .map(|statement| statement.triple);
            match self.plant {
                Some(Plant::Bag) => inside.collect(),
                _ => inside
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect::<Vec<_>>(),
            }
        };
        let contents: Vec<Vec<Triple>> = model.windows.iter().map(content).collect();
        match self.plant {
            Some(Plant::Leak) => {
                let all: BTreeSet<Triple> = contents.iter().flatten().copied().collect();
                vec![all.into_iter().collect(); contents.len()]
            }
            _ => contents,
        }
    }

    /// The rows that are due. `complete_from_ms` is what the engine says of the firing: where KEEP is short and the windows of several
    /// streams may each lack another part, nothing is to be compared, and this gives `None`.
    pub(crate) fn answer(
        &mut self,
        number: u8,
        due: &Due,
        complete_from_ms: Option<i64>,
    ) -> Result<Option<Bag>, String> {
        let query = &self.queries[&number];
        if complete_from_ms > Some(query.promised) {
            return Err(format!(
                "it is complete from {complete_from_ms:?} on only, but everything from {} on is kept",
                query.promised
            ));
        }
        let streams: BTreeSet<usize> = query.model.windows.iter().map(|w| w.stream).collect();
        let from_ms = match complete_from_ms {
            Some(_) if query.short_keep && streams.len() > 1 => return Ok(None),
            Some(from_ms) if query.short_keep => from_ms,
            _ => i64::MIN,
        };
        let windows = self.contents(&query.model, due, from_ms);
        let seen = Seen {
            query: &query.model,
            windows: &windows,
            stored: &due.stored,
        };
        let now = seen.answer();
        let query = self
            .queries
            .get_mut(&number)
            .expect("it was just looked at");
        let before = std::mem::replace(&mut query.before, now.clone());
        Ok(Some(match query.model.changes {
            None => now,
            Some(Changes::New) => without(now, &before),
            Some(Changes::Gone) => without(before, &now),
        }))
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

impl QueryModel {
    /// The first close after a time: of any window, or of COMPUTED EVERY.
    fn first_close_after(&self, time_ms: i64) -> i64 {
        let after = |step_ms: i64| {
            self.origin_ms
                + ((time_ms.saturating_sub(self.origin_ms)).div_euclid(step_ms) + 1) * step_ms
        };
        match self.every_ms {
            Some(every_ms) => after(every_ms),
            None => (self
                .windows
                .iter()
                .map(|window| after(window.step_ms))
                .min())
            .expect("a query has a window"),
        }
    }

    /// Whether a dialect can say it: C-SPARQL windows a stream once, the others have no window in the default graph.
    pub fn can_be_said_in(&self, dialect: Dialect) -> bool {
        let has = |extent| match extent {
            Extent::Sliding => true,
            Extent::Past => dialect == Dialect::RspQl,
            Extent::Now | Extent::EachBatch => dialect == Dialect::CqelsQl,
        };
        if !self.windows.iter().all(|window| has(window.extent)) {
            return false;
        }
        match dialect {
            Dialect::CSparql => {
                let streams: BTreeSet<usize> = self.windows.iter().map(|w| w.stream).collect();
                streams.len() == self.windows.len()
            }
            _ => self.windows.iter().all(|window| !window.in_default),
        }
    }
}

impl WindowModel {
    /// What it shows at a close of its query: of its own latest close then, `from ≤ event time < to`.
    fn span(&self, origin_ms: i64, close_ms: i64) -> (i64, i64) {
        let own_ms = origin_ms + (close_ms - origin_ms).div_euclid(self.step_ms) * self.step_ms;
        let to_ms = own_ms - self.until_ms;
        (to_ms - self.range_ms, to_ms)
    }
}
