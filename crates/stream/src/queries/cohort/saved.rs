//! A cohort as a checkpoint holds it.
//!
//! Before changing anything here: streams, shapes and closes of its windows follow from its text.
//! `since` and `kept_from` do not: they say what the streams retained when the cohort started.

use super::{Cohort, Window, WindowShape};
use crate::closes::close_groups::GroupId;
use crate::output::{Output, Pause, QueryChange};
use crate::protocol::cohort_view::CohortView;
use crate::protocol::command::ParsedQuery;
use crate::queries::derive::Derivation;
use crate::queries::members::Members;
use crate::saved::queries::{QueryRecord, SavedCohort, SavedWindow};
use crate::saved::{RestoreError, contradiction};
use crate::streams::Streams;
use somersault_model::{QueryUid, Sn};
use std::sync::Arc;

/// A cohort that a checkpoint shares until it is written.
#[derive(Debug)]
pub(crate) struct FrozenCohort {
    cohort: Arc<Cohort>,
}

impl FrozenCohort {
    pub(in crate::queries) fn new(cohort: &Arc<Cohort>) -> FrozenCohort {
        FrozenCohort {
            cohort: Arc::clone(cohort),
        }
    }

    pub(in crate::queries) fn uid(&self) -> QueryUid {
        self.cohort.uid
    }

    /// The records of the cohort: itself, its times, and its members chunk by chunk.
    pub(in crate::queries) fn records(
        self,
        takes_members: bool,
    ) -> impl Iterator<Item = QueryRecord> {
        let FrozenCohort { cohort } = self;
        let members = &cohort.members;
        let spellings = members.spellings();
        let saved = cohort.save(spellings.texts().to_vec(), takes_members);
        let own = QueryRecord::Cohort(Box::new(saved));
        let times = members.saved_times(cohort.uid);
        let chunks = (0..members.chunk_count()).map(move |at| {
            let members = cohort.members.saved_chunk(at, &spellings);
            QueryRecord::Members(cohort.uid, members)
        });
        std::iter::once(own).chain(times).chain(chunks)
    }
}

impl Cohort {
    fn save(&self, texts: Vec<String>, takes_members: bool) -> SavedCohort {
        let windows = self.windows.iter().map(|window| SavedWindow {
            since: window.since,
            kept_from: window.kept_from,
        });
        SavedCohort {
            uid: self.uid,
            namespace: self.namespace.clone(),
            texts,
            windows: windows.collect(),
            derives: self.derives.as_ref().map(|derivation| derivation.save()),
            takes_members,
            group: self.group.map(GroupId::saved),
            base: self.base,
            counts: self.counts.into(),
            last_close: self.last_close,
            next_slot: self.members.next_slot(),
        }
    }

    /// The events that make another driver know the cohort. All firings up to the newest SN are
    /// done, so a member that was paused before may as well have been paused with it.
    pub(in crate::queries) fn announce(&self, newest: Sn, out: &mut Vec<Output>) {
        let texts = self.members.spellings();
        let formed = QueryChange::Formed {
            shape: Arc::clone(&self.shape),
            text: texts.texts().first().cloned().unwrap_or_default(),
            namespace: self.namespace.clone(),
            derives: self.derived(),
            overload: self.declaration.overload,
            view: Arc::clone(&self.view),
        };
        out.push(Output::query(self.uid, formed));
        for (base, members) in self.members.joined() {
            if !members.is_empty() {
                let joined = QueryChange::Joined { base, members };
                out.push(Output::query(self.uid, joined));
            }
        }
        for (slot, next) in self.members.paused() {
            let through = newest;
            let pause = Pause { through, next };
            let paused = QueryChange::Paused { slot, pause };
            out.push(Output::query(self.uid, paused));
        }
    }

    /// A saved cohort, whose members follow. `queries` are its texts, read.
    pub(in crate::queries) fn restore(
        saved: SavedCohort,
        queries: &[ParsedQuery],
        streams: &Streams,
    ) -> Result<Cohort, RestoreError> {
        let uid = saved.uid.0;
        let Some(first) = queries.first() else {
            return contradiction(format!("cohort {uid} has no text"));
        };
        let is_other = |query: &ParsedQuery| query.shape().key() != first.shape().key();
        let declaration = Arc::clone(first.declaration());
        if queries.iter().any(is_other) || declaration.windows.len() != saved.windows.len() {
            return contradiction(format!("the texts of cohort {uid} do not fit it"));
        }
        let mut windows = Vec::with_capacity(saved.windows.len());
        for (declared, kept) in declaration.windows.iter().zip(&saved.windows) {
            let iri = declared.stream.as_str();
            let Some(stream) = streams.find(iri) else {
                return contradiction(format!("cohort {uid} windows <{iri}>, which is not there"));
            };
            let origin = declaration.starting_at;
            windows.push(Window {
                stream: stream.uid(),
                shape: WindowShape::new(declared.extent, origin, stream.declaration()),
                since: kept.since,
                kept_from: kept.kept_from,
            });
        }
        let shapes = queries.iter().map(|query| Arc::clone(query.shape()));
        Ok(Cohort {
            uid: saved.uid,
            namespace: saved.namespace,
            shape: Arc::clone(first.shape()),
            declaration,
            derives: saved.derives.map(|it| Box::new(Derivation::restore(it))),
            windows: windows.into(),
            members: Members::restore(shapes.collect(), saved.next_slot),
            view: Arc::new(CohortView::new("", 0)),
            group: saved.group.map(GroupId::restore),
            base: saved.base,
            counts: saved.counts.into(),
            last_close: saved.last_close,
        })
    }
}
