//! Replacement: a query replaces another of its name, by one record. The old one fires for closes
//! up to a time, the new one for those after it, so that both never answer the same close and no
//! future close is left unanswered.
//!
//! Before changing anything here: with the record the old query is gone, as if it had been dropped,
//! except for its firings that became due before. They are executed, and the driver is told that
//! the query has left only after the last of them. The time of that follows the pace of firings,
//! like `Output::Retire`, and nothing that `apply` decides depends on it.

use super::Registrar;
use crate::output::{Output, QueryChange, QueryEvent};
use crate::protocol::command::ParsedQuery;
use crate::protocol::declaration::Resolve;
use rustc_hash::FxHashMap;
use somersault_log::Resolved;
use somersault_model::{EventTime, QueryUid, Sn, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// A replaced query with unfinished firings.
#[derive(Clone, Debug)]
struct RetiringQuery {
    /// The streams of its windows.
    streams: BTreeSet<StreamUid>,
    /// Its firings became due with this SN or before; its cohort may have later ones.
    through: Sn,
    /// The number of its unfinished firings.
    firings: usize,
    /// The outputs for the driver after the last firing.
    on_finished: Vec<Output>,
}

/// The remaining firings of replaced queries.
#[derive(Debug, Default)]
pub(crate) struct Replacements {
    /// Replaced queries with unfinished firings, by the uid of their cohort.
    retiring: FxHashMap<QueryUid, Vec<RetiringQuery>>,
    /// For each name whose query replaced another: the last close that a predecessor fired for.
    answered_before: BTreeMap<String, EventTime>,
}

impl Registrar<'_> {
    /// Replaces the query of this name.
    pub(crate) fn replace_query(
        &mut self,
        (name, namespace): (&str, Option<&str>),
        query: &ParsedQuery,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        let old = self.queries.logged(name);
        // The closes of live queries are times of SNs, and those of others event times.
        let has_closes_of_old = old.cohort.live().is_some() == query.declaration().live.is_some();
        let last_close = old.last_close().filter(|_| has_closes_of_old);
        if !has_closes_of_old {
            self.replacements.answered_before.remove(name);
        }
        self.drop_replaced(name, out);
        self.register((name, namespace), query, resolved, resolve, out);
        if let Some(close) = last_close {
            self.replacements
                .answered_before
                .insert(name.to_owned(), close);
        }
        if let Some(close) = self.replacements.answered_before.get(name).copied() {
            let id = self.queries.logged(name).id;
            let slot = id.slot;
            let answered_before = QueryChange::AnsweredBefore { slot, close };
            out.push(Output::query(id.cohort, answered_before));
        }
    }

    /// Drops the query of a name; the driver is told once its firings are done.
    fn drop_replaced(&mut self, name: &str, out: &mut Vec<Output>) {
        let member = self.queries.logged(name);
        let (id, streams) = (member.id, member.cohort.streams());
        let firings = self.unfinished.count_of(id.cohort);
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
            dropped.into_iter().partition(Output::is_departure);
        out.extend(now);
        let retiring = self.replacements.retiring.entry(id.cohort).or_default();
        retiring.push(RetiringQuery {
            streams,
            through: self.cuts.last(),
            firings,
            on_finished,
        });
    }

    /// Drops the query of a name for good.
    pub(crate) fn drop_named(&mut self, name: &str, out: &mut Vec<Output>) {
        self.replacements.answered_before.remove(name);
        self.drop_query(name, out);
    }
}

impl Replacements {
    /// For each name whose query replaced another: the last close that a predecessor fired for.
    /// Retiring queries are waited for.
    pub(crate) fn answered_before(&self) -> impl Iterator<Item = (String, EventTime)> + '_ {
        let answered = self.answered_before.iter();
        answered.map(|(name, close)| (name.clone(), *close))
    }

    /// Adds what [`Replacements::answered_before`] gave.
    pub(crate) fn add_answered(&mut self, answered: Vec<(String, EventTime)>) {
        self.answered_before.extend(answered);
    }

    /// Whether a cohort that is gone has firings that still run.
    pub(crate) fn is_retiring(&self, query: QueryUid) -> bool {
        self.retiring.contains_key(&query)
    }

    /// Whether any replaced query has firings that still run.
    pub(crate) fn are_retiring(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// Counts a firing as done: retiring queries that waited only for it have left.
    pub(crate) fn note_done(&mut self, query: QueryUid, sn: Sn, out: &mut Vec<Output>) {
        let Some(retiring) = self.retiring.get_mut(&query) else {
            return;
        };
        for one in retiring.iter_mut().filter(|one| sn <= one.through) {
            one.firings -= 1;
        }
        self.finish_retired(query, |one| one.firings == 0, out);
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
            self.finish_retired(query, reads_it, out);
        }
    }

    fn finish_retired(
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
    fn is_departure(&self) -> bool {
        let change = match self {
            Output::Query(QueryEvent { change, .. }) => change,
            _ => return false,
        };
        matches!(change, QueryChange::Left { .. } | QueryChange::Ended)
    }
}
