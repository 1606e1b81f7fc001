//! The read side: what streams and queries say about themselves.

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
    /// Every statement with an earlier event time has been seen; `None` before the first push or advance.
    pub complete_through: Option<EventTime>,
    /// The closed batches that are in the stable SN end here.
    pub stable_time: Option<EventTime>,
    /// Statements taken so far.
    pub statements: u64,
    /// Late statements dropped so far (LATE DROP).
    pub late: u64,
    /// Batches closed so far that held something.
    pub batches: u64,
    /// Statements in open batches and in slices that are not retired.
    pub held_statements: u64,
    /// An estimate of what those take; it is what BUDGET is compared with.
    pub held_bytes: u64,
    /// Sources that have pushed so far.
    pub sources: usize,
}

/// How a query is.
#[derive(Clone, Debug)]
pub struct QueryStatus {
    /// Its uid.
    pub uid: QueryUid,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its windows and closes.
    pub declaration: Arc<QueryDeclaration>,
    /// The next close that it fires for; `None` while it is paused or a stream of it has no time.
    pub next_close: Option<EventTime>,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
    /// The stream that it waits for while others are further on.
    pub held_up_by: Option<HeldUp>,
    /// Firings that became due so far.
    pub firings: u64,
    /// Closes passed in bulk after jumps in time.
    pub passed_in_bulk: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
}

/// The stream that a query waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldUp {
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
            .map(stream_status)
            .collect()
    }

    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        let uid = self.by_iri.get(iri)?;
        self.streams.get(uid).map(stream_status)
    }

    /// How many statements of a stream have been dropped as late so far (LATE DROP); 0 for an unknown stream.
    pub fn late_statements(&self, iri: &str) -> u64 {
        let stream = self.by_iri.get(iri).and_then(|uid| self.streams.get(uid));
        stream.map_or(0, |stream| stream.late)
    }

    /// All queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        let uids = self.by_name.values();
        uids.filter_map(|uid| self.queries.get(uid))
            .map(|query| self.query_status(query))
            .collect()
    }

    /// One query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        let uid = self.by_name.get(name)?;
        self.queries.get(uid).map(|query| self.query_status(query))
    }

    fn query_status(&self, query: &Query) -> QueryStatus {
        let next_close = match query.state {
            State::Running { group, base } => self.groups.get(group).next_of(base),
            State::Paused { .. } => None,
        };
        QueryStatus {
            uid: query.uid,
            name: query.name.clone(),
            text: query.text.clone(),
            declaration: query.declaration.clone(),
            next_close,
            last_close: query.last_close,
            held_up_by: self.held_up_by(query, next_close),
            firings: query.firings,
            passed_in_bulk: query.passed_in_bulk,
            passed_while_paused: query.passed_while_paused,
            paused: matches!(query.state, State::Paused { .. }),
        }
    }

    /// The stream that is furthest behind, if it has no time at all or another one has reached the next close.
    fn held_up_by(&self, query: &Query, next_close: Option<EventTime>) -> Option<HeldUp> {
        let State::Running { group, .. } = query.state else {
            return None;
        };
        let streams = self.groups.get(group).key.streams.iter();
        let streams = streams.filter_map(|uid| self.streams.get(uid));
        let behind = streams
            .clone()
            .min_by_key(|stream| stream.complete_through)?;
        let another_is_there = || {
            streams
                .clone()
                .any(|stream| stream.complete_through >= next_close)
        };
        let waits = behind.complete_through.is_none()
            || (behind.complete_through < next_close && another_is_there());
        waits.then(|| HeldUp {
            stream: behind.iri().to_owned(),
            complete_through: behind.complete_through,
            since_ms: behind.moved_ms,
        })
    }
}

fn stream_status(stream: &Stream) -> StreamStatus {
    StreamStatus {
        uid: stream.uid,
        declaration: stream.declaration.clone(),
        complete_through: stream.complete_through,
        stable_time: stream.stable,
        statements: stream.statements,
        late: stream.late,
        batches: stream.batches,
        held_statements: stream.held_statements,
        held_bytes: stream.held_statements * STATEMENT_BYTES,
        sources: stream.sources.len(),
    }
}
