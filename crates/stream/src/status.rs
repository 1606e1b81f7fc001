//! The read side: what streams and queries say about themselves.

use crate::cohorts::{Named, Place};
use crate::coordinator::Coordinator;
use crate::declaration::QueryDeclaration;
use crate::registry::{Query, State};
use crate::stream::{STATEMENT_BYTES, Stream};
use somersault_lang::CreateStream;
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::sync::Arc;

/// How a stream is.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Its uid.
    pub uid: StreamUid,
    /// What was declared; holds the IRI and the text.
    pub declaration: Arc<CreateStream>,
    /// The query whose answers its statements are.
    pub derived_by: Option<String>,
    /// Every statement with an earlier event time has been seen; `None` before the first push or advance.
    pub complete_through: Option<EventTime>,
    /// The closed batches that are in the stable SN end here.
    pub stable_time: Option<EventTime>,
    /// Statements taken so far.
    pub statements: u64,
    /// Late statements dropped so far (LATE DROP, and LATE AMEND beyond WITHIN).
    pub late: u64,
    /// Late statements taken so far (LATE AMEND).
    pub amended: u64,
    /// Batches closed so far that held something.
    pub batches: u64,
    /// Statements in open batches and in slices that are not retired.
    pub held_statements: u64,
    /// An estimate of what those take; it is what BUDGET is compared with.
    pub held_bytes: u64,
    /// Sources that have pushed so far.
    pub sources: usize,
}

/// How far somebody is who goes through the names of all queries; the default is before the first.
#[derive(Clone, Copy, Debug)]
pub struct NamePosition {
    query: QueryUid,
    place: u32,
}

impl Default for NamePosition {
    fn default() -> Self {
        NamePosition {
            query: QueryUid(0),
            place: 0,
        }
    }
}

/// How a query is.
#[derive(Clone, Debug)]
pub struct QueryStatus {
    /// Its uid.
    pub uid: QueryUid,
    /// Where it is, if it stands in a cohort, and how many members that has.
    pub cohort: Option<(Place, usize)>,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its windows and closes, and the stream that its answers make.
    pub declaration: Arc<QueryDeclaration>,
    /// The next close that it fires for; `None` while it is paused or a stream of it has no time.
    pub next_close: Option<EventTime>,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
    /// How far each of its streams is, in the order of their uids.
    pub streams: Vec<Reached>,
    /// The stream that its next close waits for: of those that have not reached it the one that is furthest behind.
    pub held_up_by: Option<Reached>,
    /// Firings that became due so far.
    pub firings: u64,
    /// Those among them that late statements caused: closes that were answered before, with a higher revision.
    pub amended: u64,
    /// Closes passed in bulk after jumps in time.
    pub passed_in_bulk: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
}

/// How far a stream of a query is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The stream's IRI.
    pub stream: String,
    /// Where it stands; `None` before its first push or advance.
    pub complete_through: Option<EventTime>,
    /// When it last moved, by the clock of the driver; `None` if it never has.
    pub since_ms: Option<i64>,
}

impl Coordinator {
    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamStatus> {
        let uids = self.by_iri.values();
        uids.filter_map(|uid| self.streams.get(uid))
            .map(|stream| self.stream_status(stream))
            .collect()
    }

    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        let uid = self.by_iri.get(iri)?;
        let stream = self.streams.get(uid)?;
        Some(self.stream_status(stream))
    }

    /// How many statements of a stream have been dropped as late so far (LATE DROP); 0 for an unknown stream.
    pub fn late_statements(&self, iri: &str) -> u64 {
        let stream = self.by_iri.get(iri).and_then(|uid| self.streams.get(uid));
        stream.map_or(0, |stream| stream.late)
    }

    /// Whether a push of so many statements would be within BUDGET; `true` for an unknown stream.
    pub fn has_room(&self, iri: &str, statements: usize) -> bool {
        let stream = self.by_iri.get(iri).and_then(|uid| self.streams.get(uid));
        stream.is_none_or(|stream| {
            stream.over_budget(statements).is_none() && self.full_below(stream).is_none()
        })
    }

    /// All queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        let alone = self.by_name.values().map(|uid| Named::Alone(*uid));
        let members = self.cohorts.places().map(Named::Member);
        let mut all: Vec<QueryStatus> = alone
            .chain(members)
            .filter_map(|named| self.status_of(named))
            .collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Gives `each` the names of the queries that fire, and of their members, from a position on, and so many of them at the
    /// most; returns the position behind them, if there are more. So who wants all names need not look at all of them at once.
    pub fn names_from(
        &self,
        from: NamePosition,
        most: usize,
        each: &mut dyn FnMut(&str),
    ) -> Option<NamePosition> {
        let mut uids: Vec<QueryUid> = self.queries.keys().copied().collect();
        uids.sort_unstable();
        let mut left = most;
        for uid in uids.into_iter().filter(|uid| *uid >= from.query) {
            let first = if uid == from.query { from.place } else { 0 };
            let here = |place| NamePosition { query: uid, place };
            if left == 0 {
                return Some(here(first));
            }
            let Some(members) = self.cohorts.get(uid) else {
                left -= 1;
                self.queries
                    .get(&uid)
                    .iter()
                    .for_each(|query| each(&query.name));
                continue;
            };
            for (place, name) in members.names_from(first) {
                if left == 0 {
                    return Some(here(place));
                }
                left -= 1;
                each(name);
            }
        }
        None
    }

    /// One query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        self.status_of(self.named(name)?)
    }

    fn status_of(&self, named: Named) -> Option<QueryStatus> {
        let place = match named {
            Named::Alone(uid) => return self.queries.get(&uid).map(|q| self.query_status(q)),
            Named::Member(place) => place,
        };
        let cohort = self.queries.get(&place.cohort)?;
        let members = self.cohorts.of(place);
        let found = members.find(place.place)?;
        let (counts, last_close) = self.cohort_counts(place.cohort);
        let next_close = self.next_of_member(place);
        let paused = found.earlier.paused.is_some();
        let counts = members.counts(place.place, counts);
        let (streams, held_up_by) = self.reached(cohort, next_close);
        Some(QueryStatus {
            uid: found.uid,
            cohort: Some((place, members.len())),
            name: found.name.to_owned(),
            text: members.text(place.place),
            declaration: cohort.declaration.clone(),
            next_close,
            last_close: members.last_close(place.place, last_close),
            streams,
            held_up_by: held_up_by.filter(|_| !paused),
            firings: counts.firings,
            amended: counts.amended,
            passed_in_bulk: counts.passed_in_bulk,
            passed_while_paused: found.earlier.passed_while_paused,
            paused,
        })
    }

    fn query_status(&self, query: &Query) -> QueryStatus {
        let next_close = match query.state {
            State::Running { group } => self.groups.get(group).next_of(&self.streams, query.base),
            State::Paused { .. } => None,
        };
        let (streams, held_up_by) = self.reached(query, next_close);
        QueryStatus {
            uid: query.uid,
            cohort: None,
            name: query.name.clone(),
            text: query.text.clone(),
            declaration: query.declaration.clone(),
            next_close,
            last_close: query.last_close,
            streams,
            held_up_by,
            firings: query.firings,
            amended: query.amended,
            passed_in_bulk: query.passed_in_bulk,
            passed_while_paused: query.passed_while_paused,
            paused: matches!(query.state, State::Paused { .. }),
        }
    }

    /// How far the streams of a query are, and the one that its next close waits for.
    fn reached(
        &self,
        query: &Query,
        next_close: Option<EventTime>,
    ) -> (Vec<Reached>, Option<Reached>) {
        let streams: Vec<Reached> = query
            .streams()
            .iter()
            .filter_map(|uid| self.streams.get(uid))
            .map(|stream| Reached {
                stream: stream.iri().to_owned(),
                complete_through: stream.complete_through,
                since_ms: stream.moved_ms,
            })
            .collect();
        let is_paused = matches!(query.state, State::Paused { .. });
        // None is before every time: a stream without one holds up whoever reads it.
        let furthest_behind = streams
            .iter()
            .min_by_key(|reached| reached.complete_through)
            .filter(|reached| {
                !is_paused && reached.complete_through < next_close.or(Some(EventTime::MIN))
            })
            .cloned();
        (streams, furthest_behind)
    }

    fn stream_status(&self, stream: &Stream) -> StreamStatus {
        let query = stream.derived_by.and_then(|uid| self.queries.get(&uid));
        StreamStatus {
            derived_by: query.map(|query| query.name.clone()),
            uid: stream.uid,
            declaration: stream.declaration.clone(),
            complete_through: stream.complete_through,
            stable_time: stream.stable,
            statements: stream.statements,
            late: stream.late,
            amended: stream.amended,
            batches: stream.batches,
            held_statements: stream.held_statements,
            held_bytes: stream.held_statements * STATEMENT_BYTES,
            sources: stream.sources.len(),
        }
    }
}
