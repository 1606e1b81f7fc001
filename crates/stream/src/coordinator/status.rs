//! Listings: the status of streams and queries.
//!
//! Before changing anything here: these functions read, and nothing that the coordinator decides
//! depends on them.

use super::Coordinator;
use crate::protocol::status::{
    NamePosition, QueryStatus, SourceNumbers, StreamProgress, StreamStatus, SubscriptionStatus,
};
use crate::queries::{Cohort, QueryView};
use crate::streams::stream::{STATEMENT_BYTES, Stream};
use somersault_lang::lift::Shape;
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Coordinator {
    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamStatus> {
        let streams = self.home.streams().by_iri();
        streams.map(|stream| self.stream_status(stream)).collect()
    }

    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        Some(self.stream_status(self.home.streams().find(iri)?))
    }

    /// The sequence numbers of a stream's sources.
    pub fn source_numbers(&self, iri: &str) -> Option<(StreamUid, SourceNumbers)> {
        let stream = self.home.streams().find(iri)?;
        Some((stream.uid(), stream.source_numbers()))
    }

    /// The sequence numbers of the sources of all streams.
    pub fn all_source_numbers(&self) -> BTreeMap<StreamUid, SourceNumbers> {
        let streams = self.home.streams().values();
        let numbers = streams.map(|stream| (stream.uid(), stream.source_numbers()));
        numbers.filter(|(_, numbers)| !numbers.is_empty()).collect()
    }

    /// All queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        let members = self.planner.queries.members();
        let mut all: Vec<QueryStatus> = members.map(|it| self.query_status(&it)).collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Gives `each` the names of queries from a position on, `most` at the most. Returns the
    /// position after them, if there are more, so a caller need not list all names at once.
    pub fn names_from(
        &self,
        from: NamePosition,
        most: usize,
        each: &mut dyn FnMut(&str),
    ) -> Option<NamePosition> {
        self.planner.queries.names_from(from, most, each)
    }

    /// The number of queries that are registered.
    pub fn query_count(&self) -> usize {
        self.planner.queries.len()
    }

    /// The cohort of the queries that have a shape, and their number.
    pub fn group_of(&self, shape: &Shape, namespace: Option<&str>) -> Option<(QueryUid, usize)> {
        self.planner.queries.group_of(shape, namespace)
    }

    /// One query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        Some(self.query_status(&self.planner.queries.find(name)?))
    }

    /// The queries that have durable subscriptions, by name.
    pub fn subscribed_queries(&self) -> Vec<QueryStatus> {
        let names = self.planner.subscriptions.queries();
        names.filter_map(|name| self.query(name)).collect()
    }

    /// The durable subscriptions of a query, by name; none for an unknown query.
    pub fn subscriptions_of(&self, query: &str) -> Vec<SubscriptionStatus> {
        self.planner
            .subscriptions
            .of_query(query)
            .cloned()
            .collect()
    }

    fn query_status(&self, member: &QueryView<'_>) -> QueryStatus {
        let cohort = member.cohort;
        let (groups, streams) = (&self.planner.groups, self.home.streams());
        let next_close = self.planner.queries.next_of(member, groups, streams);
        let (streams, waiting_for) = self.reached(cohort, next_close);
        let counts = member.counts();
        QueryStatus {
            uid: member.uid,
            member: member.id,
            group: cohort.is_shared().then(|| cohort.size()),
            name: member.name.to_owned(),
            text: member.text(),
            declaration: Arc::clone(cohort.declaration()),
            next_close,
            last_close: member.last_close(),
            streams,
            waiting_for: waiting_for.filter(|_| !member.is_paused()),
            firings: counts.firings,
            amended: counts.amended,
            skipped_empty: counts.skipped_empty,
            passed_while_paused: member.history.passed_while_paused,
            paused: member.is_paused(),
        }
    }

    /// The progress of a query's streams, and the stream that its next close waits for.
    fn reached(
        &self,
        cohort: &Cohort,
        next_close: Option<EventTime>,
    ) -> (Vec<StreamProgress>, Option<StreamProgress>) {
        let streams: Vec<StreamProgress> = cohort
            .streams()
            .iter()
            .filter_map(|uid| self.home.streams().get(*uid))
            .map(|stream| StreamProgress {
                stream: stream.iri().to_owned(),
                watermark: stream.watermark(),
                since_ms: stream.moved_ms(),
            })
            .collect();
        // None is before every time: a stream without a time holds up every query that reads it.
        let furthest_behind = streams
            .iter()
            .min_by_key(|reached| reached.watermark)
            .filter(|reached| reached.watermark < next_close.or(Some(EventTime::MIN)))
            .cloned();
        (streams, furthest_behind)
    }

    fn stream_status(&self, stream: &Stream) -> StreamStatus {
        let name = |uid| self.planner.queries.shown_name(uid).to_owned();
        let totals = stream.totals();
        StreamStatus {
            derived_by: stream.derived_by().map(name),
            uid: stream.uid(),
            declaration: stream.declaration().clone(),
            watermark: stream.watermark(),
            stable_time: stream.stable(),
            statements: totals.statements,
            late: totals.late,
            amended: totals.amended,
            batches: totals.batches,
            held_statements: stream.held_statements(),
            held_bytes: stream.counted_statements() * STATEMENT_BYTES,
            sources: stream.clock().source_count(),
        }
    }
}
