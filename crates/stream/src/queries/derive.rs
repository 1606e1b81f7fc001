//! Derived streams: a query's answers as the statements of a stream that other queries window.
//!
//! Before changing anything here: an answer becomes statements only by a record, and the key of a
//! firing is taken once (S13). So executing a firing again after a crash changes nothing, and all
//! that follows from an answer follows from the log. The statements of the firing for close t have
//! event time t. With its record the stream is complete through the next close, and BATCH divides
//! all closes, so it never puts two closes into one batch.

use crate::coordinator::Coordinator;
use crate::output::Output;
use crate::protocol::declaration::{QueryDeclaration, Resolve};
use crate::protocol::firing::FiringKey;
use crate::protocol::refusal::Refusal;
use crate::streams::adaptor::Interner;
use crate::streams::stream::{Batch, Stream};
use somersault_lang::{AheadLimit, CreateStream, DerivedStream, LatePolicy, TimeDomain};
use somersault_log::{DerivedRecord, Resolved};
use somersault_model::{
    BatchNumber, EventTime, Lease, Millis, Mutation, QuadIds, QueryUid, StreamUid, TimedTriple,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The stream that a query derives, and which of its firings have come back.
#[derive(Clone, Debug)]
pub(crate) struct Derivation {
    pub(crate) stream: StreamUid,
    /// The newest close and ordinal, amended firings left out.
    through: Option<(EventTime, u32)>,
    /// The newest revision of each close that may still be amended.
    revisions: BTreeMap<EventTime, u32>,
    /// No close before this may still be amended: all its amendments have come back, because the
    /// answers of a query come in the order in which its firings became due.
    settled_before: EventTime,
}

impl Derivation {
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

impl Coordinator {
    /// Whether a query may derive this stream: it must be new, or end with the query that is
    /// replaced, and not feed itself.
    pub(crate) fn check_derivation(
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
        match self.streams.find(iri).is_some() && !ends {
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
                Some(query) => &self.queries.get(query)?.declaration.windows,
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
        self.streams.find(iri)?.derived_by
    }

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
            .filter_map(|window| self.streams.uid_of(window.stream.as_str()))
            .collect();
        let schedule = self.schedule_of(declaration);
        let created = Arc::new(CreateStream {
            iri: derived.iri.clone(),
            classification: derived.classification.clone(),
            into: derived.into.clone(),
            batch: schedule.divisor(),
            time: TimeDomain::Event,
            lateness: Millis(0),
            late_policy: LatePolicy::Reject,
            ahead: AheadLimit::Any,
            idle: None,
            keep: derived.keep,
            budget_bytes: derived.budget_bytes,
            text: text.to_owned(),
        });
        let declared = (created, namespace.map(str::to_owned));
        let derived_by = resolved.query.map(|query| (query, name));
        let mut stream = Stream::new((uid, derived_by), declared, self.limits.ahead, resolve);
        let amendable = sources.iter().filter_map(|uid| self.streams[uid].within);
        // The derived stream is ahead of its sources by a step at most.
        stream.within = amendable
            .max()
            .map(|within| Millis(within.0.saturating_add(schedule.longest_step().0)));
        for source in sources {
            if let Some(source) = self.streams.get_mut(&source) {
                source.feeds.insert(uid);
            }
        }
        self.add_stream(stream, out);
        Some(Derivation {
            stream: uid,
            through: None,
            revisions: BTreeMap::new(),
            settled_before: EventTime::MIN,
        })
    }

    /// Whether the statements of a firing have been taken before, or are no longer wanted.
    pub(crate) fn has_derived(&self, key: &FiringKey) -> bool {
        let query = self.queries.get(key.query);
        let derivation = query.and_then(|query| query.derives.as_ref());
        derivation.is_none_or(|it| it.has_taken(key.close, key.ordinal, key.revision))
    }

    /// Takes the statements of a firing into the stream that its query derives.
    pub(crate) fn derive(
        &mut self,
        record: &DerivedRecord,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) {
        let Some(query) = self.queries.get_mut(record.query) else {
            return;
        };
        let next = query.schedule().first_after(record.close);
        let Some(derivation) = &mut query.derives else {
            return;
        };
        if derivation.has_taken(record.close, record.ordinal, record.revision) {
            return;
        }
        let uid = derivation.stream;
        let Some(stream) = self.streams.get_mut(&uid) else {
            return;
        };
        let interner = Interner::derived(resolve, stream.terms());
        let statements = record.statements.iter();
        let quads: Vec<QuadIds> = statements
            .map(|quad| interner.quad(quad.as_ref()))
            .collect();
        if record.revision == 0 {
            derivation.through = Some((record.close, record.ordinal));
            let batch = stream.batch_at(record.close, &quads, interner.lease());
            if stream.derive(record.close, batch, next, record.received_ms) {
                self.on_streams_moved(&[uid], out);
            }
            return;
        }
        let times = stream.watermark().zip(stream.within);
        let settled_before = times.map(|(time, within)| time.minus(within));
        derivation.revise(record.close, record.revision, settled_before);
        self.replace(uid, record.close, &quads, interner.lease());
    }

    /// Replaces the statements that an amended firing put into its stream. Facts that were absorbed
    /// stay.
    fn replace(
        &mut self,
        uid: StreamUid,
        close: EventTime,
        quads: &[QuadIds],
        lease: Option<Lease>,
    ) {
        let Some(stream) = self.streams.get_mut(&uid) else {
            return;
        };
        let number = stream.batch_of(close);
        if number < stream.retained_from {
            stream.late += quads.len() as u64;
            return;
        }
        if quads.is_empty() && !stream.holds(number) {
            return;
        }
        stream.amended += quads.len() as u64;
        stream.hold_instead(number, quads.len() as u64);
        let batch = stream.batch_at(close, quads, lease);
        let end = number.end(stream.interval());
        if Some(end) > stream.planned {
            match quads.is_empty() {
                true => self.closed.remove(&(end, uid, number)),
                false => self.closed.insert((end, uid, number), batch),
            };
            return;
        }
        stream.await_amendment(number);
        self.amendments.replace(uid, number, batch);
    }
}

impl Stream {
    /// Takes the statements of a firing, after which the stream is complete through the next close.
    /// Returns whether its time moved.
    fn derive(&mut self, close: EventTime, more: Batch, next: EventTime, received_ms: i64) -> bool {
        if !more.statements.is_empty() {
            let number = self.batch_of(close);
            let mut batch = self.take_out(number);
            batch.statements.extend(more.statements);
            batch.absorbed.extend(more.absorbed);
            batch.keep(more.lease);
            self.put_back(number, batch);
        }
        self.begin.get_or_insert(close);
        self.reach(Some(next), received_ms)
    }

    /// Returns statements of one time as a batch.
    fn batch_at(&self, at: EventTime, quads: &[QuadIds], lease: Option<Lease>) -> Batch {
        let absorbed = quads.iter().filter_map(|quad| self.absorbed(*quad));
        Batch {
            lease,
            absorbed: absorbed.map(Mutation::insert).collect(),
            statements: (quads.iter())
                .map(|quad| TimedTriple {
                    at,
                    triple: quad.triple(),
                })
                .collect(),
        }
    }

    fn holds(&self, batch: BatchNumber) -> bool {
        self.first_held(batch) == Some(batch)
    }
}
