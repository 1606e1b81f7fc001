//! The read side: the status of streams and queries.

use crate::coordinator::Coordinator;
use crate::protocol::declaration::QueryDeclaration;
use crate::queries::{Cohort, MemberId, MemberView};
use crate::streams::stream::{STATEMENT_BYTES, Stream};
use somersault_lang::CreateStream;
use somersault_model::{EventTime, Millis, QueryUid, StreamUid};
use std::sync::Arc;

/// The status of a stream.
#[derive(Clone, Debug)]
pub struct StreamStatus {
    /// Its uid.
    pub uid: StreamUid,
    /// The declaration; holds the IRI and the text.
    pub declaration: Arc<CreateStream>,
    /// The query whose answers are its statements.
    pub derived_by: Option<String>,
    /// Every statement with an earlier event time has been seen; `None` before the first push or
    /// advance.
    pub complete_through: Option<EventTime>,
    /// The end of the closed batches that are in the stable SN.
    pub stable_time: Option<EventTime>,
    /// Statements taken so far.
    pub statements: u64,
    /// Late statements dropped so far (LATE DROP, and LATE AMEND beyond WITHIN).
    pub late: u64,
    /// Late statements taken so far (LATE AMEND).
    pub amended: u64,
    /// Non-empty batches closed so far.
    pub batches: u64,
    /// Statements in open batches and in slices that are not retired.
    pub held_statements: u64,
    /// An estimate of their memory; BUDGET is compared with it.
    pub held_bytes: u64,
    /// Sources that have pushed so far.
    pub sources: usize,
}

/// A position in the walk over the names of all queries; the default is before the first.
#[derive(Clone, Copy, Debug)]
pub struct NamePosition {
    cohort: QueryUid,
    slot: u32,
}

impl Default for NamePosition {
    fn default() -> Self {
        NamePosition {
            cohort: QueryUid(0),
            slot: 0,
        }
    }
}

/// The status of a registered query.
#[derive(Clone, Debug)]
pub struct QueryStatus {
    /// Its uid.
    pub uid: QueryUid,
    /// Its slot in its cohort.
    pub member: MemberId,
    /// How many queries its cohort has; `None` for a query without a shape.
    pub group: Option<usize>,
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its windows and closes, and the stream that its answers fill.
    pub declaration: Arc<QueryDeclaration>,
    /// The next close that it fires for; `None` while it is paused or one of its streams has no
    /// time.
    pub next_close: Option<EventTime>,
    /// The newest close that it fired for.
    pub last_close: Option<EventTime>,
    /// How far each of its streams is, in the order of their uids.
    pub streams: Vec<Reached>,
    /// The stream that its next close waits for: the one furthest behind among those that have not
    /// reached it.
    pub held_up_by: Option<Reached>,
    /// Firings that became due so far.
    pub firings: u64,
    /// The firings among them that late statements caused: closes that were answered before, with a
    /// higher revision.
    pub amended: u64,
    /// Closes passed in bulk after jumps in time.
    pub passed_in_bulk: u64,
    /// Closes that passed while it was paused.
    pub passed_while_paused: u64,
    /// Whether it is paused.
    pub paused: bool,
}

/// The progress of a query's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The stream's IRI.
    pub stream: String,
    /// Its complete-through time; `None` before its first push or advance.
    pub complete_through: Option<EventTime>,
    /// When it last moved, by the clock of the driver; `None` if it never has.
    pub since_ms: Option<i64>,
}

impl Coordinator {
    /// The ARRIVAL TIME streams whose time is more than `by` ahead of the clock, and by how much: a
    /// clock has been set back.
    pub fn ahead_of_clock(&self, now_ms: i64, by: Millis) -> Vec<(String, Millis)> {
        let arrival = self.streams.values().filter(|it| it.is_arrival_time());
        arrival
            .filter_map(|stream| {
                let ahead = stream.watermark()?.minus(Millis(now_ms));
                let ahead = Millis(ahead.0);
                (ahead > by).then(|| (stream.iri().to_owned(), ahead))
            })
            .collect()
    }

    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamStatus> {
        let streams = self.streams.by_iri();
        streams.map(|stream| self.stream_status(stream)).collect()
    }

    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        Some(self.stream_status(self.streams.find(iri)?))
    }

    /// Whether a push of this many statements would be within BUDGET; `true` for an unknown stream.
    pub fn has_room(&self, iri: &str, statements: usize) -> bool {
        let stream = self.streams.find(iri);
        stream.is_none_or(|stream| {
            stream.over_budget(statements).is_none() && self.streams.full_below(stream).is_none()
        })
    }

    /// All queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        let members = self.queries.members();
        let mut all: Vec<QueryStatus> = members.map(|it| self.query_status(&it)).collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Gives `each` the names of the queries that fire, and of their members, from a position on,
    /// and so many of them at the most; returns the position behind them, if there are more. So who
    /// wants all names need not look at all of them at once.
    pub fn names_from(
        &self,
        from: NamePosition,
        most: usize,
        each: &mut dyn FnMut(&str),
    ) -> Option<NamePosition> {
        let mut left = most;
        let uids = self.queries.cohort_uids();
        for uid in uids.into_iter().filter(|uid| *uid >= from.cohort) {
            let first = if uid == from.cohort { from.slot } else { 0 };
            let cohort = self.queries.get(uid);
            let names = cohort
                .into_iter()
                .flat_map(|it| it.members.names_from(first));
            for (slot, name) in names {
                if left == 0 {
                    return Some(NamePosition { cohort: uid, slot });
                }
                left -= 1;
                each(name);
            }
        }
        None
    }

    /// One query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        Some(self.query_status(&self.queries.find(name)?))
    }

    fn query_status(&self, member: &MemberView<'_>) -> QueryStatus {
        let cohort = member.cohort;
        let next_close = self.next_of_member(member);
        let (streams, held_up_by) = self.reached(cohort, next_close);
        let counts = cohort.members.counts(member.id.slot, cohort.counts());
        QueryStatus {
            uid: member.uid,
            member: member.id,
            group: cohort.is_shared().then(|| cohort.members.len()),
            name: member.name.to_owned(),
            text: member.text(),
            declaration: cohort.declaration.clone(),
            next_close,
            last_close: member.last_close(),
            streams,
            held_up_by: held_up_by.filter(|_| !member.is_paused()),
            firings: counts.firings,
            amended: counts.amended,
            passed_in_bulk: counts.passed_in_bulk,
            passed_while_paused: member.history.passed_while_paused,
            paused: member.is_paused(),
        }
    }

    /// The progress of a query's streams, and the stream that its next close waits for.
    fn reached(
        &self,
        cohort: &Cohort,
        next_close: Option<EventTime>,
    ) -> (Vec<Reached>, Option<Reached>) {
        let streams: Vec<Reached> = cohort
            .streams()
            .iter()
            .filter_map(|uid| self.streams.get(uid))
            .map(|stream| Reached {
                stream: stream.iri().to_owned(),
                complete_through: stream.watermark(),
                since_ms: stream.moved_ms,
            })
            .collect();
        // None is before every time: a stream without a time holds up every query that reads it.
        let furthest_behind = streams
            .iter()
            .min_by_key(|reached| reached.complete_through)
            .filter(|reached| reached.complete_through < next_close.or(Some(EventTime::MIN)))
            .cloned();
        (streams, furthest_behind)
    }

    fn stream_status(&self, stream: &Stream) -> StreamStatus {
        let name = |uid| self.queries.shown_name(uid).to_owned();
        StreamStatus {
            derived_by: stream.derived_by.map(name),
            uid: stream.uid,
            declaration: stream.declaration.clone(),
            complete_through: stream.watermark(),
            stable_time: stream.stable,
            statements: stream.statements,
            late: stream.late,
            amended: stream.amended,
            batches: stream.batches,
            held_statements: stream.held_statements,
            held_bytes: stream.held_statements * STATEMENT_BYTES,
            sources: stream.clock().source_count(),
        }
    }
}
