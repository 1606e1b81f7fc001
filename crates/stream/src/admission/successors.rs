//! Which query may follow another, and which stream a query may derive.
//!
//! Before changing anything here: a query and the one that replaces it never answer the same close,
//! and no future close is left unanswered. A stream never feeds itself.

use super::Admitter;
use crate::protocol::declaration::QueryDeclaration;
use crate::protocol::refusal::Refusal;
use crate::queries::{Cohort, QueryView};
use somersault_lang::DerivedStream;
use somersault_log::Replaced;
use somersault_model::{EventTime, QueryUid, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

impl Admitter<'_> {
    /// Checks that a query with this declaration may replace another, which must be one that may be
    /// dropped.
    pub(super) fn check_successor(
        &self,
        name: &str,
        declaration: &QueryDeclaration,
        old: &Cohort,
    ) -> Result<(), Refusal> {
        self.check_droppable(name, old)?;
        let ended = old.derived();
        let ended = ended.and_then(|derived| self.streams().get(derived));
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

    /// Checks that a query may be dropped: no other query windows the stream that it derives.
    pub(super) fn check_droppable(&self, name: &str, query: &Cohort) -> Result<(), Refusal> {
        let derived = query.derived();
        let derived = derived.and_then(|derived| self.streams().get(derived));
        if let Some(stream) = derived
            && let Some(queries) = self.queries.readers_of(stream.uid())
        {
            return Err(Refusal::DerivedInUse {
                query: name.to_owned(),
                stream: stream.iri().to_owned(),
                queries,
            });
        }
        Ok(())
    }

    /// The resolution of a replacement. The new query fires after all closes that the old one has
    /// had, which are those up to the least watermark of its streams. Closes that all streams of
    /// the new query have passed, and those before one of them began, have passed for it too; and
    /// if the old query was paused, so have all closes that one of its streams has passed, as for a
    /// resumed query.
    pub(super) fn replaced(
        &self,
        old: &QueryView<'_>,
        windowed: &BTreeSet<StreamUid>,
        stream_times: &[(StreamUid, EventTime)],
    ) -> Replaced {
        let newest = stream_times.iter().map(|(_, time)| *time).max();
        let passed = match old.is_paused() {
            true => newest,
            false => {
                let begun = windowed
                    .iter()
                    .filter_map(|uid| self.streams()[uid].begin());
                let old_streams = self.complete_on_all(&old.cohort.streams());
                let new_streams = self.complete_on_all(windowed);
                old_streams.max(new_streams).max(begun.max().min(newest))
            }
        };
        // A live query has no closes that another could take over.
        let last_close = old.last_close().filter(|_| old.cohort.live().is_none());
        let after = passed.max(last_close).unwrap_or(old.base);
        Replaced {
            query: old.uid,
            after: after.max(old.base),
        }
    }

    /// The time through which all of these streams are complete; `None` where one of them has none.
    fn complete_on_all(&self, streams: &BTreeSet<StreamUid>) -> Option<EventTime> {
        let times = streams
            .iter()
            .map(|uid| self.streams().get(*uid)?.watermark());
        times.min().flatten()
    }

    /// Whether a query may derive this stream: it must be new, or end with the query that is
    /// replaced, and not feed itself.
    pub(super) fn check_derivation(
        &self,
        declaration: &QueryDeclaration,
        derived: &DerivedStream,
        replaced: Option<QueryUid>,
    ) -> Result<(), Refusal> {
        let iri = derived.iri.as_str();
        if declaration.counts() && declaration.computed_every.is_none() {
            return Err(Refusal::NotYet {
                what: "a derived stream of a query that fires by the number of statements",
                remedy: "say COMPUTED EVERY in its header, or register it with REGISTER QUERY",
            });
        }
        if let Some(path) = self.way_back_to(iri, declaration) {
            let names: Vec<String> = path.iter().map(|stream| format!("<{stream}>")).collect();
            return Err(Refusal::DerivationCycle {
                stream: iri.to_owned(),
                cycle: names.join(" from "),
            });
        }
        let ends = self.deriving(iri).is_some() && self.deriving(iri) == replaced;
        match self.streams().find(iri).is_some() && !ends {
            true => Err(Refusal::DerivedStreamTaken {
                stream: iri.to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// The cycle from `iri` back to itself, each stream derived from the next, that would exist if
    /// a query with these windows derived it.
    fn way_back_to(&self, iri: &str, declaration: &QueryDeclaration) -> Option<Vec<String>> {
        // Each stream with one that it feeds; every stream is visited once.
        let mut feeds: BTreeMap<String, String> = BTreeMap::new();
        let mut to_look_at = vec![iri.to_owned()];
        while let Some(stream) = to_look_at.pop() {
            let windows = match self.deriving(&stream) {
                _ if stream == iri => &declaration.windows,
                Some(query) => &self.queries.get(query)?.declaration().windows,
                None => continue,
            };
            for source in windows.iter().map(|window| window.stream.as_str()) {
                if source == iri {
                    let mut path = vec![stream];
                    while let Some(next) = path.last().and_then(|last| feeds.get(last)) {
                        path.push(next.clone());
                    }
                    path.reverse();
                    path.push(iri.to_owned());
                    return Some(path);
                }
                if !feeds.contains_key(source) {
                    feeds.insert(source.to_owned(), stream.clone());
                    to_look_at.push(source.to_owned());
                }
            }
        }
        None
    }

    /// The query that derives a stream.
    fn deriving(&self, iri: &str) -> Option<QueryUid> {
        self.streams().find(iri)?.derived_by()
    }
}

/// The new query fires after a time that one of its streams has reached. A query that resumes
/// later, or joins the same group, fires after the newest time of the streams, which must not
/// be an earlier one (VT-1).
pub(super) fn check_is_there(
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
