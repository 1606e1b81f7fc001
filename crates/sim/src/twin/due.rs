//! When firings become due, and their consequences: amended firings, and the statements of derived
//! streams.

use super::{Due, LONGEST_EMPTY_RUN, Plant, Query, Stream, Twin};
use crate::algebra::{Row, Value};
use crate::model::{Extent, FIRST_DERIVED, QueryModel, Statement, WindowModel};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Twin {
    /// Makes all closes due that are, and those that follow from their derived statements.
    pub(super) fn settle(&mut self) {
        self.make_due();
        while self.derive() {
            self.make_due();
        }
    }

    /// Stores late statements if they are timeless, and repeats the firings that should have seen
    /// them in a window.
    pub(super) fn amend(&mut self, stream: usize, late: &[Statement]) {
        let stored = Arc::make_mut(&mut self.stored);
        (late.iter()).for_each(|statement| self.streams[&stream].store(statement, stored));
        if self.plant == Some(Plant::Unamended) {
            return;
        }
        let due = self.due_at(0, 0, true);
        for query in self.queries.values_mut().filter(|query| !query.paused) {
            let shows = |close_ms: i64| {
                let windows = query.model.windows.iter().zip(&query.since);
                (windows.filter(|(window, _)| window.stream == stream)).any(|(window, since)| {
                    let (from_ms, to_ms) = window.span(query.model.origin_ms, close_ms, *since);
                    (late.iter()).any(|statement| (from_ms..to_ms).contains(&statement.at_ms))
                })
            };
            let closes = query.closes.iter().filter(|close_ms| shows(**close_ms));
            let again: Vec<Due> = closes
                .map(|close_ms| Due {
                    close_ms: *close_ms,
                    ..due.clone()
                })
                .collect();
            query.made += again.len() as u64;
            query.due.extend(again);
        }
    }

    /// A firing that sees the present statements.
    fn due_at(&self, close_ms: i64, ordinal: u32, is_amended: bool) -> Due {
        Due {
            close_ms,
            ordinal,
            is_amended,
            stored: Arc::clone(&self.stored),
            taken: (self.streams.iter())
                .map(|(number, stream)| (*number, Arc::clone(&stream.taken)))
                .collect(),
            may_be_passed: false,
        }
    }

    /// Puts the statements of a firing that derives into its stream: one firing after the other,
    /// since each lets closes become due by itself. Returns whether there was such a firing.
    fn derive(&mut self) -> bool {
        let mut deriving = self.queries.range_mut(FIRST_DERIVED..);
        let Some((number, due)) =
            deriving.find_map(|(number, query)| Some((*number, query.underived.pop_front()?)))
        else {
            return false;
        };
        let query = &self.queries[&number];
        let answer = self.whole_answer(query, &due, i64::MIN);
        let next_ms = query.model.first_close_after(due.close_ms);
        let at_ms = match self.plant {
            Some(Plant::DerivedEarly) => due.close_ms - 1,
            _ => due.close_ms,
        };
        let statements = answer.keys().filter_map(|row| statement_of(row, at_ms));
        let statements: Vec<Statement> = statements.collect();
        let is_unseen = self.plant == Some(Plant::DerivedUnseen);
        self.stream_mut(number.into()).derive(
            due.close_ms,
            next_ms.unwrap_or(i64::MAX),
            &statements,
            is_unseen,
        );
        true
    }

    /// The next close of a query, and the streams that may be reported as holding it up: of the
    /// streams that have not reached that close, or have no time, the ones that are furthest
    /// behind. `None` for a query whose closes depend on statements to come.
    pub(crate) fn waits_for(&self, number: u8) -> Option<(Option<i64>, Vec<usize>)> {
        let query = &self.queries[&number];
        if query.paused {
            return Some((None, Vec::new()));
        }
        if query.model.counts() {
            return None;
        }
        let next = query
            .fired_through
            .and_then(|time| query.model.first_close_after(time));
        let streams: BTreeSet<usize> = query.model.windows.iter().map(|w| w.stream).collect();
        let time = |stream: &usize| self.streams[stream].complete_through;
        let least = streams.iter().map(time).min().flatten();
        let furthest_behind = (streams.into_iter())
            .filter(|stream| time(stream) == least && (least.is_none() || least < next))
            .collect();
        Some((next, furthest_behind))
    }

    /// Makes every close due that all streams of its query have reached, in the order of closes.
    pub(super) fn make_due(&mut self) {
        let mut made: BTreeMap<u8, usize> = BTreeMap::new();
        while let Some((close_ms, firing)) = self.next_due() {
            self.store_closed(close_ms);
            for (number, times) in firing {
                let due: Vec<Due> = (0..times)
                    .map(|ordinal| self.due_at(close_ms, ordinal, false))
                    .collect();
                let query = self.queries.get_mut(&number).expect("it was just found");
                query.fired_through = Some(close_ms);
                query.closes.push(close_ms);
                query.made += due.len() as u64;
                *made.entry(number).or_default() += due.len();
                query.due.extend(due);
            }
        }
        self.note_passed(&made);
        for (number, count) in made.range(FIRST_DERIVED..) {
            // An empty close that is skipped is not a firing, and derives nothing.
            let firings = self.not_passed(*number, *count);
            if let Some(query) = self.queries.get_mut(number) {
                query.underived.extend(firings);
            }
        }
    }

    /// Of the newest `count` closes of a query, those not skipped as empty: of each longer run in
    /// which the windows of all queries that fire together are empty, only the last remains.
    fn not_passed(&self, number: u8, count: usize) -> Vec<Due> {
        let query = &self.queries[&number];
        let together = || {
            let running = self.queries.values().filter(|other| !other.paused);
            running.filter(|other| other.model.fires_like(&query.model))
        };
        let is_empty = |due: &Due| {
            let shows_nothing = |query: &Query| {
                self.contents(query, due, i64::MIN)
                    .iter()
                    .all(Vec::is_empty)
            };
            together().all(shows_nothing)
        };
        let mut firings = Vec::new();
        let mut run: Vec<Due> = Vec::new();
        let end_run = |run: &mut Vec<Due>, firings: &mut Vec<Due>| {
            let passed = if run.len() > LONGEST_EMPTY_RUN {
                run.len() - 1
            } else {
                0
            };
            firings.extend(run.drain(..).skip(passed));
        };
        for due in query.due.iter().skip(query.due.len() - count) {
            if is_empty(due) {
                run.push(due.clone());
            } else {
                end_run(&mut run, &mut firings);
                firings.push(due.clone());
            }
        }
        end_run(&mut run, &mut firings);
        firings
    }

    /// Marks the closes that have just become due and may be skipped as empty.
    fn note_passed(&mut self, made: &BTreeMap<u8, usize>) {
        // The last of a run fires in any case. Queries that fire together pass together, so that
        // the longest run counts.
        let is_jump = made.values().any(|count| *count > LONGEST_EMPTY_RUN);
        for (number, count) in made.iter().filter(|_| is_jump) {
            let query = &self.queries[number];
            // Statements that KEEP had already dropped when the query began are in no window.
            let from_ms = if query.short_keep {
                query.promised
            } else {
                i64::MIN
            };
            let run = query.due.len() - count..query.due.len() - 1;
            let is_empty = |due: &Due| {
                let contents = self.contents(query, due, from_ms);
                contents.iter().all(Vec::is_empty)
            };
            let may_be_passed: Vec<bool> = query.due.range(run.clone()).map(is_empty).collect();
            let query = self.queries.get_mut(number).expect("it was just found");
            for (due, may) in query.due.range_mut(run).zip(may_be_passed) {
                due.may_be_passed = may;
            }
        }
    }

    /// The earliest close that is due and not yet marked so, with its queries and the number of
    /// times that each fires.
    fn next_due(&mut self) -> Option<(i64, Vec<(u8, u32)>)> {
        let mut due: BTreeMap<i64, Vec<(u8, u32)>> = BTreeMap::new();
        let streams = &self.streams;
        for (number, query) in self.queries.iter_mut().filter(|(_, query)| !query.paused) {
            let own = || (query.model.windows.iter()).map(|window| &streams[&window.stream]);
            let times = || own().map(|stream| stream.complete_through);
            let reached = match self.plant {
                Some(Plant::Hasty) => times().max().flatten(),
                Some(Plant::NeverCloses) => own().map(Stream::heard_through).min().flatten(),
                _ => times().min().flatten(),
            };
            let begin = own().map(|stream| stream.begin).max().flatten();
            let (Some(reached), Some(begin)) = (reached, begin) else {
                continue;
            };
            let through = match query.fired_through {
                Some(through) => through,
                None => {
                    // Statements are kept for the query only from now on, when all its streams have
                    // a time.
                    let kept = own().filter_map(Stream::kept_from);
                    query.promised = kept.max().unwrap_or(begin);
                    query.after.max(begin)
                }
            };
            query.fired_through = Some(through);
            if let Some((close_ms, times)) = query.next_close(streams, through, reached) {
                due.entry(close_ms).or_default().push((*number, times));
            }
        }
        due.pop_first()
    }
}

/// A row of CONSTRUCT as a statement.
fn statement_of(row: &Row, at_ms: i64) -> Option<Statement> {
    let graph = match row.get(3) {
        None => None,
        Some(Some(Value::Graph(graph))) => Some(*graph),
        Some(_) => return None,
    };
    let [
        Some(Value::Node(subject)),
        Some(Value::Predicate(predicate)),
        Some(Value::Node(object)),
    ] = row[..3]
    else {
        return None;
    };
    Some(Statement {
        at_ms,
        triple: (subject, predicate, object),
        graph,
    })
}

impl Query {
    /// The first close after a time and at or before another, and how often the query fires then.
    fn next_close(
        &self,
        streams: &BTreeMap<usize, Stream>,
        after_ms: i64,
        reached_ms: i64,
    ) -> Option<(i64, u32)> {
        // The ends of batches with which a number is reached, and how many are.
        let mut by_number: BTreeMap<i64, u32> = BTreeMap::new();
        if self.model.every_ms.is_none() {
            for window in &self.model.windows {
                let Extent::Statements { step, .. } = window.extent else {
                    continue;
                };
                for (end_ms, closes) in streams[&window.stream].closes_by_number(step) {
                    let most = by_number.entry(end_ms).or_default();
                    *most = closes.max(*most);
                }
            }
        }
        by_number.retain(|end_ms, _| *end_ms > after_ms && *end_ms <= reached_ms);
        let by_time = (self.model.first_close_after(after_ms)).filter(|time| *time <= reached_ms);
        let first = by_number.keys().next().copied();
        let close_ms = first.into_iter().chain(by_time).min()?;
        Some((close_ms, by_number.get(&close_ms).copied().unwrap_or(1)))
    }
}

impl QueryModel {
    /// Whether it fires whenever another query does: both window the same streams with the same
    /// closes.
    fn fires_like(&self, other: &QueryModel) -> bool {
        let streams = |model: &QueryModel| -> BTreeSet<usize> {
            model.windows.iter().map(|window| window.stream).collect()
        };
        let steps = |model: &QueryModel| -> BTreeSet<i64> {
            let own = model.windows.iter().map(|window| window.step_ms);
            model
                .every_ms
                .map_or_else(|| own.collect(), |every| BTreeSet::from([every]))
        };
        let is_by_time = |model: &QueryModel| !model.counts();
        streams(self) == streams(other)
            && steps(self) == steps(other)
            && self.origin_ms == other.origin_ms
            && is_by_time(self)
            && is_by_time(other)
    }

    /// Whether it fires by the number of statements.
    pub(super) fn counts(&self) -> bool {
        let is_counted = |window: &WindowModel| matches!(window.extent, Extent::Statements { .. });
        self.every_ms.is_none() && self.windows.iter().any(is_counted)
    }

    /// The first close after a time by the clock of its streams: of any window, or of COMPUTED
    /// EVERY.
    pub(super) fn first_close_after(&self, time_ms: i64) -> Option<i64> {
        let after = |step_ms: i64| {
            let since_ms = time_ms.saturating_sub(self.origin_ms);
            self.origin_ms + (since_ms.div_euclid(step_ms) + 1) * step_ms
        };
        match self.every_ms {
            Some(every_ms) => Some(after(every_ms)),
            None => (self.windows.iter())
                .filter(|window| !matches!(window.extent, Extent::Statements { .. }))
                .map(|window| after(window.step_ms))
                .min(),
        }
    }
}
