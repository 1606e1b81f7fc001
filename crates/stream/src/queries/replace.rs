//! Replacement: a query takes the place of another of its name, by one record. The old one fires
//! for closes up to a time, the new one for those after it, so that both never answer the same
//! close and no future close is left unanswered.
//!
//! Before changing anything here: with the record the old query is gone, as if it had been dropped,
//! except for its firings that became due before. They are executed, and the driver hears that the
//! query has left only after the last of them. When that happens follows the pace of firings, like
//! `Output::Retire`, and nothing that `apply` decides depends on it.

use super::{Cohort, MemberView};
use crate::coordinator::Coordinator;
use crate::output::{Output, QueryChange, QueryEvent};
use crate::protocol::declaration::{QueryDeclaration, Resolve, ResolveError};
use crate::protocol::refusal::Refusal;
use somersault_log::{Replaced, Resolved};
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::collections::BTreeSet;

/// A replaced query with unfinished firings.
#[derive(Clone, Debug)]
pub(crate) struct RetiringQuery {
    /// The streams of its windows.
    streams: BTreeSet<StreamUid>,
    /// Its firings became due with this SN or before; its cohort may have later ones.
    through: Sn,
    /// The number of its unfinished firings.
    firings: usize,
    /// The outputs for the driver after the last firing.
    on_finished: Vec<Output>,
}

impl Coordinator {
    /// Checks that a query with this declaration may replace another, which must be one that may be
    /// dropped.
    pub(crate) fn check_successor(
        &self,
        name: &str,
        declaration: &QueryDeclaration,
        old: &Cohort,
    ) -> Result<(), Refusal> {
        self.check_droppable(name, old)?;
        let ended = old.derives.as_ref();
        let ended = ended.and_then(|derived| self.streams.get(&derived.stream));
        let mut windowed = declaration.windows.iter().map(|window| &window.stream);
        match ended {
            Some(stream) if windowed.any(|windowed| windowed.as_str() == stream.iri()) => {
                Err(Refusal::EndsWithReplaced {
                    query: name.to_owned(),
                    stream: stream.iri().to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// The new query fires after a time that one of its streams has reached. A query that resumes
    /// later, or joins the same group, fires after the newest time of the streams, which must not
    /// be an earlier one (VT-1).
    pub(crate) fn check_is_there(
        name: &str,
        replaced: Replaced,
        stream_times: &[(StreamUid, EventTime)],
    ) -> Result<(), Refusal> {
        let newest = stream_times.iter().map(|(_, time)| *time).max();
        match replaced.after > newest.unwrap_or(EventTime::MIN) {
            true => Err(Refusal::SuccessorBehind {
                query: name.to_owned(),
                after: replaced.after,
            }),
            false => Ok(()),
        }
    }

    /// Checks that a query may be dropped: no other query windows the stream that it derives.
    pub(crate) fn check_droppable(&self, name: &str, query: &Cohort) -> Result<(), Refusal> {
        let derived = query.derives.as_ref();
        let derived = derived.and_then(|derived| self.streams.get(&derived.stream));
        if let Some(stream) = derived
            && let Some(queries) = self.readers_of(stream)
        {
            return Err(Refusal::DerivedInUse {
                query: name.to_owned(),
                stream: stream.iri().to_owned(),
                queries,
            });
        }
        Ok(())
    }

    /// What a replacement resolves to. The new query fires after all closes that the old one has
    /// had, which are those up to where all of its streams are. What is complete on all streams of
    /// the new one, and what was before one of them began, has passed for it too; and where the old
    /// one was paused, all that one of them has passed, as for one that is resumed.
    pub(crate) fn replaced(
        &self,
        old: &MemberView<'_>,
        windowed: &BTreeSet<StreamUid>,
        stream_times: &[(StreamUid, EventTime)],
    ) -> Replaced {
        let newest = stream_times.iter().map(|(_, time)| *time).max();
        let passed = match old.is_paused() {
            true => newest,
            false => {
                let begun = windowed.iter().filter_map(|uid| self.streams[uid].begin);
                let old_streams = self.complete_on_all(&old.cohort.streams());
                let new_streams = self.complete_on_all(windowed);
                old_streams.max(new_streams).max(begun.max().min(newest))
            }
        };
        let after = passed.max(old.last_close()).unwrap_or(old.base);
        Replaced {
            query: old.uid,
            after: after.max(old.base),
        }
    }

    /// The time through which all of these streams are complete; `None` where one of them has none.
    fn complete_on_all(&self, streams: &BTreeSet<StreamUid>) -> Option<EventTime> {
        let times = streams.iter().map(|uid| self.streams.get(uid)?.watermark());
        times.min().flatten()
    }

    /// Replaces the query of this name.
    pub(crate) fn replace_query(
        &mut self,
        (name, text, namespace): (&str, &str, Option<&str>),
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<(), ResolveError> {
        // Checks that the text can still be read before anything changes.
        resolve.query_declaration(text, namespace)?;
        let last_close = self.logged_query(name).last_close();
        self.drop_replaced(name, out);
        self.register((name, text, namespace), resolved, resolve, out)?;
        if let Some(close) = last_close {
            self.answered_before.insert(name.to_owned(), close);
        }
        if let Some(close) = self.answered_before.get(name).copied() {
            let id = self.logged_query(name).id;
            let slot = id.slot;
            let answered_before = QueryChange::AnsweredBefore { slot, close };
            out.push(Output::query(id.cohort, answered_before));
        }
        Ok(())
    }

    /// Drops the query of a name; the driver hears of it once its firings are done.
    fn drop_replaced(&mut self, name: &str, out: &mut Vec<Output>) {
        let member = self.logged_query(name);
        let (id, streams) = (member.id, member.cohort.streams());
        let firings = self.unfinished.keys();
        let firings = firings.filter(|key| key.query == id.cohort).count();
        if firings > 0 && !member.is_paused() {
            let (slot, pause) = (id.slot, self.pause_now(&member));
            out.push(Output::query(
                id.cohort,
                QueryChange::Paused { slot, pause },
            ));
        }
        let mut dropped = Vec::new();
        self.drop_query(name, &mut dropped);
        if firings == 0 {
            out.append(&mut dropped);
            return;
        }
        let (on_finished, now): (Vec<Output>, Vec<Output>) =
            dropped.into_iter().partition(Output::is_farewell);
        out.extend(now);
        let retiring = self.retiring.entry(id.cohort).or_default();
        retiring.push(RetiringQuery {
            streams,
            through: self.last_cut,
            firings,
            on_finished,
        });
    }

    /// Counts a firing as done: retiring queries that waited only for it have left.
    pub(crate) fn note_done(&mut self, query: QueryUid, sn: Sn, out: &mut Vec<Output>) {
        let Some(retiring) = self.retiring.get_mut(&query) else {
            return;
        };
        for one in retiring.iter_mut().filter(|one| sn <= one.through) {
            one.firings -= 1;
        }
        self.say_farewell(query, |one| one.firings == 0, out);
    }

    /// Ends the retiring queries over a dropped stream: their firings lose their slices.
    pub(crate) fn note_dropped(&mut self, stream: StreamUid, out: &mut Vec<Output>) {
        let reads_it = |one: &RetiringQuery| one.streams.contains(&stream);
        let mut readers: Vec<QueryUid> = (self.retiring.iter())
            .filter(|(_, retiring)| retiring.iter().any(reads_it))
            .map(|(query, _)| *query)
            .collect();
        readers.sort_unstable();
        for query in readers {
            self.say_farewell(query, reads_it, out);
        }
    }

    fn say_farewell(
        &mut self,
        query: QueryUid,
        is_over: impl Fn(&RetiringQuery) -> bool,
        out: &mut Vec<Output>,
    ) {
        let Some(retiring) = self.retiring.get_mut(&query) else {
            return;
        };
        for one in retiring.extract_if(.., |one| is_over(one)) {
            out.extend(one.on_finished);
        }
        if retiring.is_empty() {
            self.retiring.remove(&query);
        }
    }
}

impl Output {
    /// Whether it tells the driver that a query has left, which would end its firings.
    fn is_farewell(&self) -> bool {
        let change = match self {
            Output::Query(QueryEvent { change, .. }) => change,
            _ => return false,
        };
        matches!(change, QueryChange::Left { .. } | QueryChange::Ended)
    }
}
