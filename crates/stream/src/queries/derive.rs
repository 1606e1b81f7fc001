//! Derived streams: a query's answers as the statements of a stream that other queries window.
//!
//! Before changing anything here: an answer becomes statements only by a record, and the key of a
//! firing is taken once (S13). So executing a firing again after a crash changes nothing, and all
//! that follows from an answer follows from the log. The statements of the firing for close t have
//! event time t. With its record the stream is complete through the next close, and BATCH divides
//! all closes, so it never puts two closes into one batch.

use super::cohort::schedule_on;
use super::{Queries, Registrar};
use crate::output::Output;
use crate::protocol::declaration::{QueryDeclaration, Resolve};
use crate::protocol::firing::FiringKey;
use crate::saved::queries::SavedDerivation;
use crate::streams::Streams;
use crate::streams::home::DerivedAt;
use crate::streams::stream::{NewDerived, NewStream, derived_declaration};
use somersault_log::{DerivedRecord, Resolved};
use somersault_model::{EventTime, Millis, StreamUid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The stream that a query derives, and which of its firings have come back.
#[derive(Clone, Debug)]
pub(crate) struct Derivation {
    pub(super) stream: StreamUid,
    /// The newest close and ordinal, amended firings left out.
    through: Option<(EventTime, u32)>,
    /// The newest revision of each close that may still be amended.
    revisions: BTreeMap<EventTime, u32>,
    /// No close before this may still be amended: all its amendments have come back, because the
    /// answers of a query come in the order in which its firings became due.
    settled_before: EventTime,
}

impl Derivation {
    /// The derivation as a checkpoint holds it.
    pub(super) fn save(&self) -> SavedDerivation {
        let revisions = self.revisions.iter();
        SavedDerivation {
            stream: self.stream,
            through: self.through,
            revisions: revisions.map(|(close, newest)| (*close, *newest)).collect(),
            settled_before: self.settled_before,
        }
    }

    /// The derivation that a checkpoint holds.
    pub(super) fn restore(saved: SavedDerivation) -> Derivation {
        Derivation {
            stream: saved.stream,
            through: saved.through,
            revisions: saved.revisions.into_iter().collect(),
            settled_before: saved.settled_before,
        }
    }

    fn has_taken(&self, close: EventTime, ordinal: u32, revision: u32) -> bool {
        match revision {
            0 => self.through >= Some((close, ordinal)),
            _ => close < self.settled_before || self.revisions.get(&close) >= Some(&revision),
        }
    }

    /// Records a revision, and forgets those of closes that can no longer be amended.
    fn revise(&mut self, close: EventTime, revision: u32, settled_before: Option<EventTime>) {
        self.revisions.insert(close, revision);
        self.settled_before = self
            .settled_before
            .max(settled_before.unwrap_or(EventTime::MIN));
        self.revisions = self.revisions.split_off(&self.settled_before);
    }
}

impl Registrar<'_> {
    /// Creates the stream that a query about to be registered derives.
    pub(crate) fn create_derived(
        &mut self,
        (name, text, namespace): (&str, &str, Option<&str>),
        declaration: &QueryDeclaration,
        resolved: &Resolved,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Option<Derivation> {
        let derived = declaration.derives.as_ref()?;
        let uid = resolved
            .stream
            .expect("a registration of a derived stream is logged with the stream's uid");
        let sources: BTreeSet<StreamUid> = declaration
            .windows
            .iter()
            .filter_map(|window| self.home.streams().uid_of(window.stream.as_str()))
            .collect();
        let schedule = schedule_on(declaration, self.home.streams());
        let created = Arc::new(derived_declaration(derived, schedule.divisor(), text));
        let streams = self.home.streams();
        let amendable = sources.iter().filter_map(|uid| streams[uid].within());
        // The derived stream is ahead of its sources by a step at most.
        let within = amendable
            .max()
            .map(|within| Millis(within.0.saturating_add(schedule.longest_step().0)));
        let by = resolved
            .query
            .expect("a registration is logged with the query's uid");
        for source in sources {
            self.home.streams_mut().set_feeds(source, uid, true);
        }
        let new = NewStream {
            uid,
            declaration: created,
            namespace: namespace.map(str::to_owned),
            derived: Some(NewDerived {
                by: (by, name),
                within,
            }),
        };
        let clock = self.home.create(new, resolve);
        out.push(Output::StreamCreated { clock });
        Some(Derivation {
            stream: uid,
            through: None,
            revisions: BTreeMap::new(),
            settled_before: EventTime::MIN,
        })
    }
}

impl Queries {
    /// Whether the statements of a firing have been taken before, or are no longer wanted.
    pub(crate) fn has_derived(&self, key: &FiringKey) -> bool {
        let query = self.get(key.query);
        let derivation = query.and_then(|query| query.derives.as_ref());
        derivation.is_none_or(|it| it.has_taken(key.close, key.ordinal, key.revision))
    }

    /// Counts the statements of a firing as taken. Returns the stream that they go into; `None`
    /// where they were taken before, or are no longer wanted.
    pub(crate) fn take_derived(
        &mut self,
        record: &DerivedRecord,
        streams: &Streams,
    ) -> Option<DerivedAt> {
        let cohort = self.get_mut(record.query)?;
        let next = cohort.schedule().first_after(record.close);
        let derivation = cohort.derives.as_mut()?;
        if derivation.has_taken(record.close, record.ordinal, record.revision) {
            return None;
        }
        let stream = streams.get(derivation.stream)?;
        match record.revision {
            0 => derivation.through = Some((record.close, record.ordinal)),
            revision => {
                let times = stream.watermark().zip(stream.within());
                let settled_before = times.map(|(time, within)| time.minus(within));
                derivation.revise(record.close, revision, settled_before);
            }
        }
        let stream = derivation.stream;
        Some(DerivedAt { stream, next })
    }
}
