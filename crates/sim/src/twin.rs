//! The dull twin of the engine: language.md, *Windows, exactly*, computed from the whole history each time.
//! It is slow and short on purpose; when it and the engine differ, it is read first and believed.

use crate::algebra::{Bag, Seen, Stored};
use crate::model::{
    Absorbs, Dialect, Late, QueryModel, Statement, StreamModel, Triple, WindowModel,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// A close is due before the last stream has reached it.
    Hasty,
    /// Absorbed statements are stored one batch too late.
    StoredLate,
    /// An update is never sent, as if the engine had lost one that it acknowledged.
    LostUpdate,
    /// A firing is seen twice.
    RepeatedFiring,
}

/// A stream and all that it took.
#[derive(Debug, Clone)]
struct Stream {
    model: StreamModel,
    /// In order of arrival.
    taken: Vec<Statement>,
    /// How far each source is.
    sources: BTreeMap<u8, i64>,
    complete_through: Option<i64>,
    /// Nothing before this has been seen.
    begin: Option<i64>,
    /// What of `taken` is to be absorbed once its batch is over.
    waiting: Vec<Statement>,
    /// When something came too late.
    late_at: Vec<i64>,
}

/// A registered query, and the answers that it owes.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) model: QueryModel,
    pub(crate) paused: bool,
    /// It fires after this only: the latest time of its streams when it was registered or resumed.
    after: i64,
    next: Option<i64>,
    pub(crate) due: BTreeMap<i64, Due>,
    /// From when on its windows must be complete, as KEEP promises.
    promised: i64,
    /// Whether KEEP of a stream is so short that windows may lack their beginning.
    short_keep: bool,
}

/// A firing that is due: what it may see.
#[derive(Debug, Clone)]
pub(crate) struct Due {
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
        let stream = |model: &StreamModel| Stream {
            model: model.clone(),
            taken: Vec::new(),
            sources: BTreeMap::new(),
            complete_through: None,
            begin: None,
            waiting: Vec::new(),
            late_at: Vec::new(),
        };
        Self {
            streams: streams.iter().map(stream).collect(),
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
        let accepted = stream.accepted(source, statements).0.len();
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
        self.streams[stream].push(source, statements);
        self.make_due();
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
            due: BTreeMap::new(),
            promised: i64::MIN,
            short_keep: (model.windows.iter()).any(|window| {
                self.streams[window.stream].model.keep_ms < 2 * (window.range_ms + window.step_ms)
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
        let mut made: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
        while let Some((close_ms, numbers)) = self.next_due() {
            self.store_closed(close_ms);
            let due = Due {
                stored: Arc::clone(&self.stored),
                taken: (self.streams.iter())
                    .map(|stream| stream.taken.len())
                    .collect(),
                may_be_passed: false,
            };
            for number in numbers {
                let query = self.queries.get_mut(&number).expect("it was just found");
                query.next = Some(query.model.first_close_after(close_ms));
                query.due.insert(close_ms, due.clone());
                made.entry(number).or_default().push(close_ms);
            }
        }
        // The last of a run fires in any case. Queries that fire together pass together, so that the longest run counts.
        let is_jump = made.values().any(|closes| closes.len() > BULK_RUN);
        for (number, closes) in made.iter().filter(|_| is_jump) {
            for close_ms in &closes[..closes.len() - 1] {
                let query = &self.queries[number];
                // What KEEP had let go of when the query began is in no window.
                let from_ms = if query.short_keep {
                    query.promised
                } else {
                    i64::MIN
                };
                let windows = self.contents(&query.model, &query.due[close_ms], *close_ms, from_ms);
                let query = self.queries.get_mut(number).expect("it was just found");
                let due = query.due.get_mut(close_ms).expect("it was just made due");
                due.may_be_passed = windows.iter().all(Vec::is_empty);
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
                    let kept = |stream: &Stream| {
                        Some((stream.complete_through? - stream.model.keep_ms).max(stream.begin?))
                    };
                    query.promised = streams().filter_map(kept).max().unwrap_or(begin);
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
        let more = i64::from(self.plant == Some(Plant::StoredLate));
        for stream in &mut self.streams {
            let complete_through = stream.complete_through.unwrap_or(i64::MIN);
            let batch_ms = stream.model.batch_ms;
            let end = |at_ms: i64| (at_ms.div_euclid(batch_ms) + 1 + more) * batch_ms;
            stream.waiting.retain(|statement| {
                let over = end(statement.at_ms) <= complete_through.min(through_ms);
                if over {
                    let graph = stream.model.into.or(statement.graph);
                    let stored = Arc::make_mut(&mut self.stored);
                    stored.entry(graph).or_default().insert(statement.triple);
                }
                !over
            });
        }
    }

    /// What each window shows at a close, of what is complete.
    fn contents(
        &self,
        model: &QueryModel,
        due: &Due,
        close_ms: i64,
        complete_from_ms: i64,
    ) -> Vec<Vec<Triple>> {
        let content = |window: &WindowModel| {
            let stream = &self.streams[window.stream];
            let taken = &stream.taken[..due.taken[window.stream]];
            let to_ms = window.close_at(model.origin_ms, close_ms);
            let range_ms = match self.plant {
                Some(Plant::OneSize) => model.windows[0].range_ms,
                _ => window.range_ms,
            };
            let from_ms = to_ms - range_ms;
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

    /// The answer that is due. `complete_from_ms` is what the engine says of it: `None` from here means that KEEP is
    /// short and the windows of several streams may each lack another part, so that nothing is to be compared.
    pub(crate) fn answer(
        &self,
        number: u8,
        due: &Due,
        close_ms: i64,
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
        let windows = self.contents(&query.model, due, close_ms, from_ms);
        let seen = Seen {
            query: &query.model,
            windows: &windows,
            stored: &due.stored,
        };
        Ok(Some(seen.answer()))
    }
}

impl Stream {
    /// What of a push is not too late, and how far its source is then.
    fn accepted(&self, source: u8, statements: &[Statement]) -> (Vec<Statement>, Option<i64>) {
        let mut own = self.sources.get(&source).copied();
        let mut accepted = Vec::new();
        for statement in statements {
            if Some(statement.at_ms) >= own.max(self.complete_through) {
                own = own.max(Some(statement.at_ms - self.model.lateness_ms));
                accepted.push(*statement);
            }
        }
        (accepted, own)
    }

    fn push(&mut self, source: u8, statements: &[Statement]) {
        let (accepted, own) = self.accepted(source, statements);
        if accepted.len() < statements.len() {
            self.late_at.extend(self.complete_through);
        }
        let (Some(first), Some(own)) = (accepted.first(), own) else {
            return;
        };
        self.begin = self.begin.or(Some(first.at_ms - self.model.lateness_ms));
        self.sources.insert(source, own);
        self.complete_through = self
            .complete_through
            .max(self.sources.values().min().copied());
        let absorbed = |statement: &&Statement| match &self.model.absorbs {
            Absorbs::Everything => true,
            Absorbs::Nothing => false,
            Absorbs::AllBut(timing) => !timing.contains(&statement.triple.1),
        };
        self.waiting.extend(accepted.iter().filter(absorbed));
        self.taken.extend(accepted);
    }

    fn advance(&mut self, to_ms: i64) {
        if self.complete_through < Some(to_ms) {
            self.begin = self.begin.or(Some(to_ms));
            self.complete_through = Some(to_ms);
            for own in self.sources.values_mut() {
                *own = (*own).max(to_ms);
            }
        }
    }
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
    /// Its own latest close at or before a close of its query.
    fn close_at(&self, origin_ms: i64, close_ms: i64) -> i64 {
        origin_ms + (close_ms - origin_ms).div_euclid(self.step_ms) * self.step_ms
    }
}

#[cfg(test)]
mod tests;
