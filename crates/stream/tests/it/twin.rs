//! The dull twin: language.md, *Windows, exactly*, over plain lists, millisecond by millisecond.
//!
//! The one thing to know: it shares no code with the coordinator, and has none of its cleverness
//! (no batches, groups, waiting lists or bulk). Where the two differ, one of them has misread
//! language.md.

use crate::harness::{Driver, Seen};
use somersault_lang::Extent;
use somersault_model::QueryUid;
use somersault_stream::{Output, QueryChange, QueryDeclaration, WindowDeclaration};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct TwinStream {
    lateness: i64,
    keep: i64,
    batch: i64,
    late: Late,
    /// In order of arrival.
    accepted: Vec<(i64, u64)>,
    sources: BTreeMap<String, i64>,
    watermark: Option<i64>,
    begin: Option<i64>,
}

impl TwinStream {
    /// Statements that may be amended are kept too.
    fn retention(&self) -> i64 {
        match self.late {
            Late::Amend(within) => within.max(self.keep),
            Late::Reject | Late::Drop => self.keep,
        }
    }
}

/// The treatment of late statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Late {
    #[default]
    Reject,
    Drop,
    /// Statements not older than this are taken, and closes that have fired fire again.
    Amend(i64),
}

/// For each stream, the number of statements that had been accepted.
type Arrived = BTreeMap<String, usize>;

struct TwinQuery {
    uid: QueryUid,
    declaration: QueryDeclaration,
    /// Closes at or before this do not fire; for a stream that had no time, that stream's beginning
    /// is added later.
    after: Vec<i64>,
    /// For each window: where the batch began that was open at the registration.
    since: Vec<Option<i64>>,
    /// The time from which on the engine has promised to have kept everything; known once all
    /// streams have a time.
    kept_from: Option<i64>,
    /// For each close that is due, what had arrived at each revision of it.
    revisions: BTreeMap<i64, Vec<Arrived>>,
}

#[derive(Default)]
pub(crate) struct Twin {
    streams: BTreeMap<String, TwinStream>,
    queries: Vec<TwinQuery>,
}

impl Twin {
    pub(crate) fn create(&mut self, iri: &str, lateness: i64, keep: i64, late: Late) {
        let stream = TwinStream {
            lateness,
            keep,
            batch: 10,
            late,
            ..TwinStream::default()
        };
        self.streams.insert(iri.to_owned(), stream);
    }

    /// Takes a push statement by statement; or says which one is late, where that refuses the whole
    /// push.
    pub(crate) fn push(&mut self, iri: &str, source: &str, of: &[(i64, u64)]) -> Result<(), usize> {
        let stream = self.streams.get_mut(iri).unwrap();
        let mut own = stream.sources.get(source).copied();
        let mut accepted = Vec::new();
        let mut came_late = Vec::new();
        let mut first = None;
        for (index, (at, number)) in of.iter().enumerate() {
            let reached = own.max(stream.watermark);
            if reached.is_none_or(|reached| *at >= reached) {
                own = own.max(Some(at - stream.lateness));
                first = first.or(Some(*at));
                accepted.push((*at, *number));
                continue;
            }
            match stream.late {
                Late::Reject => return Err(index + 1),
                Late::Amend(within)
                    if *at >= reached.unwrap() - within
                        && *at
                            >= stream
                                .begin
                                .unwrap_or_else(|| first.unwrap() - stream.lateness) =>
                {
                    came_late.push(*at);
                    accepted.push((*at, *number));
                }
                Late::Drop | Late::Amend(_) => {}
            }
        }
        if let Some(first) = first {
            stream.begin = stream.begin.or(Some(first - stream.lateness));
            stream.sources.insert(source.to_owned(), own.unwrap());
            let least = stream.sources.values().min().copied();
            stream.watermark = stream.watermark.max(least);
        }
        stream.accepted.extend(accepted);
        self.amend(iri, &came_late);
        self.note_kept();
        Ok(())
    }

    fn arrived(&self) -> Arrived {
        let streams = self.streams.iter();
        streams
            .map(|(iri, stream)| (iri.clone(), stream.accepted.len()))
            .collect()
    }

    /// Every close that was due before these late statements came, and that has one of them in a
    /// window, has one more revision.
    fn amend(&mut self, iri: &str, came_late: &[i64]) {
        let arrived = self.arrived();
        let is_amended = |query: &TwinQuery, close: i64| {
            // Windows of a number of statements are not over streams that are amended.
            let is_span = |index: &usize| !is_count(&query.declaration.windows[*index]);
            let mut spans = (0..query.declaration.windows.len()).filter(is_span);
            spans.any(|index| {
                let (from, to) = self.span(query, index, close);
                let mut late = came_late.iter();
                query.declaration.windows[index].stream.as_str() == iri
                    && late.any(|at| from <= *at && *at < to)
            })
        };
        let amended: Vec<Vec<i64>> = (self.queries.iter())
            .map(|query| {
                let closes = query.revisions.keys().copied();
                closes.filter(|close| is_amended(query, *close)).collect()
            })
            .collect();
        for (query, closes) in self.queries.iter_mut().zip(amended) {
            for close in closes {
                let revisions = query.revisions.entry(close).or_default();
                revisions.push(arrived.clone());
            }
        }
    }

    pub(crate) fn advance(&mut self, to: &[(&str, i64)]) {
        for (iri, to) in to {
            let stream = self.streams.get_mut(*iri).unwrap();
            if stream.watermark < Some(*to) {
                stream.begin = stream.begin.or(Some(*to));
                stream.watermark = Some(*to);
                for own in stream.sources.values_mut() {
                    *own = (*own).max(*to);
                }
            }
        }
        self.note_kept();
    }

    pub(crate) fn register(&mut self, uid: QueryUid, declaration: &QueryDeclaration) {
        let mut query = TwinQuery {
            uid,
            declaration: declaration.clone(),
            after: Vec::new(),
            since: Vec::new(),
            kept_from: None,
            revisions: BTreeMap::new(),
        };
        for window in &declaration.windows {
            let stream = &self.streams[window.stream.as_str()];
            query.after.extend(stream.watermark);
            let since = stream.watermark;
            query
                .since
                .push(since.map(|time| time.div_euclid(stream.batch) * stream.batch));
        }
        self.queries.push(query);
        self.note_kept();
    }

    fn note_kept(&mut self) {
        for query in &mut self.queries {
            let streams = || {
                let windows = query.declaration.windows.iter();
                windows.map(|window| &self.streams[window.stream.as_str()])
            };
            if query.kept_from.is_none() && streams().all(|stream| stream.begin.is_some()) {
                query
                    .after
                    .extend(streams().filter_map(|stream| stream.begin));
                let kept = streams().map(|stream| {
                    (stream.watermark.unwrap() - stream.retention()).max(stream.begin.unwrap())
                });
                query.kept_from = kept.max();
            }
        }
        let arrived = self.arrived();
        for at in 0..self.queries.len() {
            let due = self.due_closes(&self.queries[at]);
            let query = &mut self.queries[at];
            for (close, _) in due {
                let revisions = query.revisions.entry(close);
                revisions.or_insert_with(|| vec![arrived.clone()]);
            }
        }
    }

    /// Compares all that the driver saw with what language.md says (WI-1, WI-2).
    pub(crate) fn check(&self, driver: &Driver) -> Result<(), String> {
        self.queries
            .iter()
            .try_for_each(|query| self.check_query(query, driver))
    }

    fn check_query(&self, query: &TwinQuery, driver: &Driver) -> Result<(), String> {
        let seen: Vec<&Seen> = driver
            .seen
            .iter()
            .filter(|seen| seen.firing.query == query.uid)
            .collect();
        let firsts = seen.iter().filter(|seen| seen.firing.revision == 0);
        let closes: Vec<(i64, u32)> = firsts.map(|seen| place_of(seen)).collect();
        if !closes.is_sorted_by(|a, b| a < b) {
            return Err(format!("WI-2: closes out of order or repeated: {closes:?}"));
        }
        let due = self.due_closes(query);
        let passed = self.check_passed(query, &due, driver)?;
        let fired: BTreeSet<(i64, u32)> = closes.iter().copied().collect();
        let accounted: BTreeSet<(i64, u32)> = fired.union(&passed).copied().collect();
        let missing = due.iter().filter(|place| !accounted.contains(place));
        let is_wrong = !fired.is_disjoint(&passed)
            || !accounted.iter().all(|place| due.contains(place))
            || missing
                .clone()
                .any(|place| !self.may_be_unknown(query, *place));
        if is_wrong {
            return Err(format!(
                "WI-2: due {due:?}, fired {fired:?}, passed {passed:?}"
            ));
        }
        if closes.last() != accounted.last() {
            return Err("WI-2: the newest due close always fires".to_owned());
        }
        self.check_revisions(query, &seen)?;
        seen.iter()
            .try_for_each(|one| self.check_content(query, one, nth_of_close(&seen, one)))
    }

    /// Each amended close has fired once for each revision, in their order; one that was passed at
    /// first, from the second on.
    fn check_revisions(&self, query: &TwinQuery, seen: &[&Seen]) -> Result<(), String> {
        for (close, revisions) in &query.revisions {
            let of_close = seen.iter().filter(|seen| place_of(seen) == (*close, 0));
            let mut fired: Vec<u32> = of_close.map(|seen| seen.firing.revision).collect();
            if fired.first() != Some(&0) {
                fired.insert(0, 0);
            }
            // Revisions ascend; that of a query may skip numbers that others of its streams and
            // closes have had.
            if !fired.is_sorted_by(|a, b| a < b) || fired.len() != revisions.len() {
                return Err(format!(
                    "WI-2: close {close} has fired as {fired:?}, should have {} times",
                    revisions.len()
                ));
            }
        }
        Ok(())
    }

    /// Every close of any window, or of COMPUTED EVERY, after the beginning and reached by all
    /// streams; as often as a window of a number of statements closes then.
    fn due_closes(&self, query: &TwinQuery) -> Vec<(i64, u32)> {
        let declaration = &query.declaration;
        let windows = declaration.windows.iter();
        let times = windows.map(|window| self.streams[window.stream.as_str()].watermark);
        let (Some(_), Some(until)) = (query.kept_from, times.min().flatten()) else {
            return Vec::new();
        };
        let after = *query.after.iter().max().unwrap();
        let mut by_number: BTreeMap<i64, usize> = BTreeMap::new();
        if declaration.computed_every.is_none() {
            for window in &declaration.windows {
                for (close, numbers) in self.closes_by_number(window) {
                    let times = by_number.entry(close).or_default();
                    *times = numbers.len().max(*times);
                }
            }
        }
        (after + 1..=until)
            .flat_map(|t| {
                let times = by_number.get(&t).copied().unwrap_or(0);
                let times = times.max(usize::from(self.closes_by_time(query, t)));
                (0..times as u32).map(move |ordinal| (t, ordinal))
            })
            .collect()
    }

    /// Whether a window over a span of time, or COMPUTED EVERY, closes at a time.
    fn closes_by_time(&self, query: &TwinQuery, time: i64) -> bool {
        let declaration = &query.declaration;
        let since = time - declaration.starting_at.0;
        match declaration.computed_every {
            Some(every) => since.rem_euclid(every.0) == 0,
            None => {
                let mut windows = declaration
                    .windows
                    .iter()
                    .filter(|window| !is_count(window));
                windows.any(|window| since.rem_euclid(self.extent(window).2) == 0)
            }
        }
    }

    /// Whether a close by number is in a batch that was no longer kept when the query's closes
    /// began.
    fn may_be_unknown(&self, query: &TwinQuery, (close, ordinal): (i64, u32)) -> bool {
        let batch = self.streams.values().map(|stream| stream.batch).max();
        let was_kept = close - batch.unwrap() >= query.kept_from.unwrap();
        let by_time = ordinal == 0 && self.closes_by_time(query, close);
        !was_kept && !by_time
    }

    /// The accepted statements of a stream in the batches that end at or before a time, in the
    /// order of the batches and, within them, of arrival.
    fn closed(&self, window: &WindowDeclaration, end: i64) -> Vec<(i64, u64)> {
        let stream = &self.streams[window.stream.as_str()];
        let mut statements = stream.accepted.clone();
        statements.sort_by_key(|(at, _)| at.div_euclid(stream.batch));
        let over = |at: i64| (at.div_euclid(stream.batch) + 1) * stream.batch <= end;
        statements.retain(|(at, _)| over(*at));
        statements
    }

    /// The numbers of statements at which a window of a number of statements closes, by the end of
    /// their batch.
    fn closes_by_number(&self, window: &WindowDeclaration) -> BTreeMap<i64, Vec<usize>> {
        let mut closes: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        if let Extent::Statements { step, .. } = window.extent {
            let batch = self.streams[window.stream.as_str()].batch;
            for (at, (time, _)) in self.closed(window, i64::MAX).iter().enumerate() {
                if (at + 1) % step as usize == 0 {
                    let end = (time.div_euclid(batch) + 1) * batch;
                    closes.entry(end).or_default().push(at + 1);
                }
            }
        }
        closes
    }

    /// The last statements up to the close with this ordinal, or up to the latest close.
    fn last_statements(
        &self,
        query: &TwinQuery,
        window: &WindowDeclaration,
        (close, ordinal): (i64, u32),
    ) -> Vec<(i64, u64)> {
        let Extent::Statements { count, step } = window.extent else {
            panic!("a span of time")
        };
        let all = self.closed(window, close);
        let latest = all.len() - all.len() % step as usize;
        let closes = self.closes_by_number(window).remove(&close);
        let closes = closes.unwrap_or_default();
        let to = match query.declaration.computed_every {
            Some(_) => latest,
            None => closes.get(ordinal as usize).copied().unwrap_or(latest),
        };
        all[to.saturating_sub(count as usize)..to].to_vec()
    }

    /// RANGE, how far before its close it ends, and STEP.
    fn extent(&self, window: &WindowDeclaration) -> (i64, i64, i64) {
        let stream = &self.streams[window.stream.as_str()];
        match window.extent {
            Extent::Time { range, until, step } => {
                (range.0, until.0, step.map_or(stream.batch, |step| step.0))
            }
            Extent::Now => (stream.batch, 0, stream.batch),
            Extent::All => (stream.keep / stream.batch * stream.batch, 0, stream.batch),
            Extent::Statements { .. } => panic!("no span of time"),
        }
    }

    /// The span that window `index` shows at a close.
    fn span(&self, query: &TwinQuery, index: usize, close: i64) -> (i64, i64) {
        let window = &query.declaration.windows[index];
        let origin = query.declaration.starting_at.0;
        let (range, until, step) = self.extent(window);
        let to = (i64::MIN..=close)
            .rev()
            .find(|t| (t - origin).rem_euclid(step) == 0)
            .unwrap()
            - until;
        let from = match window.extent {
            // All since the registration: what KEEP has let go of is missing, and the firing says
            // so.
            Extent::All => {
                let begin = self.streams[window.stream.as_str()].begin.unwrap();
                query.since[index].map_or(begin, |since| since.max(begin))
            }
            _ => to - range,
        };
        (from, to)
    }

    /// The content of window `index` at a revision of a close: all statements that had been
    /// accepted with `from ≤ event time < to`.
    fn content(
        &self,
        query: &TwinQuery,
        index: usize,
        ((close, ordinal), revision): ((i64, u32), usize),
    ) -> (i64, Vec<(i64, u64)>) {
        let window = &query.declaration.windows[index];
        if is_count(window) {
            let statements = self.last_statements(query, window, (close, ordinal));
            let batch = self.streams[window.stream.as_str()].batch;
            let times = statements
                .iter()
                .map(|(at, _)| at.div_euclid(batch) * batch);
            return (times.min().unwrap_or(i64::MAX), statements);
        }
        let stream = query.declaration.windows[index].stream.as_str();
        let (from, to) = self.span(query, index, close);
        let arrived = query.revisions[&close][revision][stream];
        let accepted = self.streams[stream].accepted[..arrived].iter();
        let inside = accepted.filter(|(at, _)| from <= *at && *at < to);
        (from, inside.copied().collect())
    }

    /// The time from which on a window must be complete: as far back as was kept at the
    /// registration, and for ALL as far as KEEP covers.
    fn promised(&self, query: &TwinQuery, index: usize, close: i64) -> i64 {
        let kept = query.kept_from.unwrap();
        let window = &query.declaration.windows[index];
        match window.extent {
            Extent::All => {
                let (keep, _, batch) = self.extent(window);
                kept.max(close.div_euclid(batch) * batch - keep)
            }
            _ => kept,
        }
    }

    fn check_passed(
        &self,
        query: &TwinQuery,
        due: &[(i64, u32)],
        driver: &Driver,
    ) -> Result<BTreeSet<(i64, u32)>, String> {
        let mut all = BTreeSet::new();
        for output in &driver.decided {
            let Output::Query(event) = output else {
                continue;
            };
            let QueryChange::Passed { first, last, count } = &event.change else {
                continue;
            };
            if event.cohort != query.uid {
                continue;
            }
            let run: Vec<(i64, u32)> = due
                .iter()
                .copied()
                .filter(|(t, _)| (first.0..=last.0).contains(t))
                .collect();
            if run.len() as u64 != *count {
                return Err(format!("WI-2: {count} closes passed, of {}", run.len()));
            }
            for close in run {
                for index in 0..query.declaration.windows.len() {
                    // Statements that were not kept are in no window; a firing would have said so
                    // by complete_from.
                    let (_, content) = self.content(query, index, (close, 0));
                    let promised = self.promised(query, index, close.0);
                    if content.iter().any(|(at, _)| *at >= promised) {
                        return Err(format!(
                            "WI-2: close {close:?} was passed but held something"
                        ));
                    }
                }
                all.insert(close);
            }
        }
        Ok(all)
    }

    fn check_content(&self, query: &TwinQuery, seen: &Seen, revision: usize) -> Result<(), String> {
        let close = seen.firing.close.0;
        let mut promised = query.kept_from.unwrap();
        let mut reaches_further = false;
        for (index, window) in seen.windows.iter().enumerate() {
            let (from, expected) = self.content(query, index, (place_of(seen), revision));
            promised = promised.max(self.promised(query, index, close));
            reaches_further |= from < promised;
            let complete_from = seen.firing.complete_from.map_or(from, |time| time.0);
            let after = |all: &[(i64, u64)]| -> Vec<(i64, u64)> {
                let mut after: Vec<_> = all.to_vec();
                after.retain(|(at, _)| *at >= complete_from);
                after.sort_unstable();
                after
            };
            if after(window) != after(&expected) {
                return Err(format!(
                    "WI-1: window {index} at close {close} holds {window:?}, should hold {expected:?} (complete from {complete_from})"
                ));
            }
            if let Some(extra) = window.iter().find(|seen| !expected.contains(seen)) {
                return Err(format!(
                    "WI-1: window {index} at close {close} holds {extra:?}, which is not in it"
                ));
            }
        }
        match seen.firing.complete_from {
            Some(time) if time.0 > promised => Err(format!(
                "WI-1: close {close} is complete from {} only, but {promised} was kept",
                time.0
            )),
            Some(_) if !reaches_further => Err(format!(
                "WI-1: close {close} is complete, but says it is not"
            )),
            _ => Ok(()),
        }
    }
}

/// The number of earlier firings at the close of this one, skipped ones included.
fn nth_of_close(all: &[&Seen], one: &Seen) -> usize {
    let of_close = all
        .iter()
        .filter(|seen| seen.firing.close == one.firing.close);
    let revisions: BTreeSet<u32> = of_close
        .map(|seen| seen.firing.revision)
        .chain([0])
        .collect();
    revisions.range(..one.firing.revision).count()
}

fn is_count(window: &WindowDeclaration) -> bool {
    matches!(window.extent, Extent::Statements { .. })
}

/// The close of a firing, and which of those at that close it is.
fn place_of(seen: &Seen) -> (i64, u32) {
    (seen.firing.close.0, seen.firing.ordinal)
}
