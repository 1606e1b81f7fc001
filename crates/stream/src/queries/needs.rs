//! The planner's needs of streams, and the sentences that report them.
//!
//! Before changing anything here: the sentences are part of refusals, so each names the query and
//! the remedy.

use super::Queries;
use crate::closes::close_groups::CloseGroups;
use crate::closes::unfinished::UnfinishedFirings;
use crate::streams::retention::Needs;
use crate::streams::stream::Stream;
use crate::streams::{StreamNeeds, Streams};
use somersault_model::StreamUid;

/// The needs of windows and firings.
pub(crate) struct PlannedNeeds<'c> {
    groups: &'c CloseGroups,
    queries: &'c Queries,
    unfinished: &'c UnfinishedFirings,
}

impl<'c> PlannedNeeds<'c> {
    pub(crate) fn new(
        groups: &'c CloseGroups,
        queries: &'c Queries,
        unfinished: &'c UnfinishedFirings,
    ) -> PlannedNeeds<'c> {
        PlannedNeeds {
            groups,
            queries,
            unfinished,
        }
    }
}

impl StreamNeeds for PlannedNeeds<'_> {
    fn needs_of(&self, uid: StreamUid) -> Needs {
        let windows = self.groups.first_need(uid).map(|(from, _)| from);
        Needs::new(windows, self.unfinished.first_read(uid))
    }

    fn holder_of(&self, streams: &Streams, stream: &Stream) -> String {
        let uid = stream.uid();
        if let Some(consumers) = stream.full_of_messages() {
            return format!(
                "procedure {} has yet to consume its messages from place {} on; send what its batch lacks, RESUME its dataflow, DROP PROCEDURE {} DISCARD, or declare the stream with a larger BUDGET",
                consumers.holder, consumers.floor.0, consumers.holder
            );
        }
        let window = self.groups.first_need(uid);
        let first_window = window.map(|(from, _)| stream.batch_of(from));
        let first_firing = self.unfinished.first_read(uid);
        if first_firing.is_some_and(|firing| first_window.is_none_or(|window| firing < window)) {
            return "firings that are still running read them; they go when those are done"
                .to_owned();
        }
        let Some((_, group)) = window else {
            return "the push and the batches that are still open are larger than that; push less at a time, or declare the stream with a larger BUDGET".to_owned();
        };
        let query = self.groups.get(group).first_member();
        let name = query.map_or("a query", |uid| self.queries.shown_name(uid));
        let waits_for = self.groups.waits_for(group).filter(|other| *other != uid);
        match waits_for.and_then(|other| streams.get(other)) {
            Some(other) => format!(
                "query {name} holds them while it waits for stream <{}>; push to or advance that stream, PAUSE QUERY {name}, or declare the stream with a larger BUDGET",
                other.iri()
            ),
            None => format!(
                "the windows of query {name} need them; use a shorter RANGE, or declare the stream with a larger BUDGET"
            ),
        }
    }
}
