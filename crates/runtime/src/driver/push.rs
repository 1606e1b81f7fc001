//! The part of a push that runs on its caller's thread: statements become ids and the bytes that
//! the log keeps, so that the sequencer looks at no term.
//!
//! Before changing anything here: terms are interned only after the stream's clock has said that
//! the push would be taken. Admission judges again when the push has its turn, and that verdict
//! counts, also for which statements are timing ones: their terms are only mentioned under the
//! push's lease. Terms of statements that are then absorbed are made permanent.
//!
//! The locks of one push, up to its acknowledgement: one of the log (`append`), and one of the
//! dictionary for the lease of timing statements. A term that its thread has not met lately, and
//! each transient one, is looked up under its stripe's lock for reading besides. The log's thread
//! takes one for each group of acknowledgements. Only a push that has to wait for room takes the
//! lock of the credit's queue.

use super::Driver;
use crate::error::RuntimeError;
use crate::replay::NumberPushes;
use crate::resolver::RECLAIMED_FOR_ONE;
use crate::sequencer::{InputReceipt, Shared};
use crossbeam_channel::{Receiver, Sender, bounded};
use oxrdf::{GraphNameRef, QuadRef, Term, TermRef};
use somersault_dictionary::{Dictionary, Interner, Mentions, Recent};
use somersault_log::LogError;
use somersault_model::{EventTime, QuadIds, TermId};
use somersault_stream::{
    Input, Numbered, NumberedBuilder, PushHead, PushStatements, ReadPush, Refusal, StreamClock,
    StreamTerms, Timing,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The number of statements that are numbered together.
const TOGETHER: usize = 32;
/// The number of threads that push at the same time and have terms remembered for them.
const REMEMBERED: usize = 64;

/// Terms that pushing threads have met lately: one entry for each thread that pushed at the same
/// time as others.
pub(super) type RecentTerms = SparePool<Recent>;

/// Values that threads take for a time and put back, without a lock. The first places are used
/// first: entries are large, and those that were used lately are in the processor's caches.
pub(super) struct SparePool<T>(Box<[(Sender<T>, Receiver<T>)]>);

impl<T: Default> SparePool<T> {
    pub(super) fn new() -> SparePool<T> {
        SparePool((0..REMEMBERED).map(|_| bounded(1)).collect())
    }

    fn take(&self) -> T {
        let mut spare = self.0.iter();
        let taken = spare.find_map(|(_, place)| place.try_recv().ok());
        taken.unwrap_or_default()
    }

    /// Puts a value back, or drops it if all places are taken.
    fn put_back(&self, mut value: T) {
        for (place, _) in &self.0 {
            match place.try_send(value) {
                Ok(()) => return,
                Err(full) => value = full.into_inner(),
            }
        }
    }
}

impl Driver {
    /// Takes a push and returns when its record is durable. `times` are those of the statements,
    /// given separately because the times are looked at first.
    ///
    /// # Errors
    /// The push is refused, or the log has failed. A [`somersault_stream::Refusal::Late`] does not
    /// hold the statement's text: see [`somersault_stream::Refusal::about`].
    pub fn push<'q>(
        &self,
        head: PushHead,
        times: impl ExactSizeIterator<Item = Option<EventTime>> + Clone,
        statements: impl Iterator<Item = QuadRef<'q>>,
    ) -> Result<InputReceipt, RuntimeError> {
        let received_ms = self.now_ms();
        // A repeat goes on too: only the sequencer knows whether the first push is durable.
        let clock = self.known_clock(&head.stream)?;
        if clock.declaration().timestamp.is_some() {
            let is_timed = times.clone().any(|time| time.is_some());
            let sender = (head.source.as_str(), head.seq);
            return self.push_with_timestamp(&head.stream, sender, is_timed, statements);
        }
        clock.judge(&head, received_ms, times.clone())?;
        let untimed = times.clone().position(|time| time.is_none());
        let count = times.len();
        let times = times.map(|time| time.unwrap_or(EventTime(0)));
        let (statements, born) = self.number(&clock, count, times.zip(statements))?;
        let done = self.log_input(Input::ReadPush(ReadPush {
            head,
            received_ms,
            statements,
            untimed,
        }));
        self.reclaim(born);
        done
    }

    /// Interns the terms of statements of a stream, and encodes the statements for the log. Returns
    /// the number of transient terms that are new, too.
    pub(super) fn number<'q>(
        &self,
        clock: &StreamClock,
        count: usize,
        statements: impl Iterator<Item = (EventTime, QuadRef<'q>)>,
    ) -> Result<(Numbered, usize), LogError> {
        let encoded = !self.handle.shared.log.is_volatile();
        let builder = NumberedBuilder::new(count, encoded);
        let dictionary = self.handle.shared.store.dictionary();
        let mut recent = self.recent.take();
        let numbered = number(
            (dictionary, &mut recent),
            clock.terms(),
            builder,
            statements,
        );
        self.recent.put_back(recent);
        numbered
    }

    /// Reclaims transient terms in proportion to those that are new.
    pub(super) fn reclaim(&self, born: usize) {
        if born > 0 {
            let dictionary = self.handle.shared.store.dictionary();
            dictionary.reclaim(born * RECLAIMED_FOR_ONE);
        }
    }

    /// The clock of a stream.
    pub(super) fn known_clock(&self, iri: &str) -> Result<Arc<StreamClock>, RuntimeError> {
        match self.handle.shared.directory.find(iri) {
            Some(clock) => Ok(clock),
            None => self.clock_of(iri),
        }
    }

    /// The clock of a stream that the directory does not show.
    fn clock_of(&self, iri: &str) -> Result<Arc<StreamClock>, RuntimeError> {
        let stream = iri.to_owned();
        let clock = self.handle.read(move |coordinator| {
            let clock = coordinator.clock_of(&stream);
            clock.ok_or(Refusal::UnknownStream { stream })
        });
        Ok(clock?)
    }
}

/// Turns the terms of pushes into ids while the log is read for its replay, as [`Driver::push`] did
/// when they came. The terms of a stream that the directory does not show are left as they are: the
/// record that creates it may not have been applied yet.
pub(super) fn numbering(shared: &Arc<Shared>) -> NumberPushes {
    let shared = Arc::clone(shared);
    let mut recent = Recent::default();
    Box::new(move |stream, statements| {
        let Some(clock) = shared.directory.find(stream) else {
            return statements.into();
        };
        let dictionary = shared.store.dictionary();
        let builder = NumberedBuilder::new(statements.len(), false);
        let quads = statements.iter().map(|it| (it.at, it.quad.as_ref()));
        match number((dictionary, &mut recent), clock.terms(), builder, quads) {
            Ok((numbered, born)) => {
                dictionary.reclaim(born * RECLAIMED_FOR_ONE);
                PushStatements::Numbered(numbered)
            }
            // Nothing is encoded, so nothing can be unwritable.
            Err(_) => statements.into(),
        }
    })
}

/// Turns the terms of a push into ids. Also returns the number of transient terms that are new.
fn number<'q>(
    (dictionary, recent): (&Dictionary, &mut Recent),
    StreamTerms { stream, timing }: &StreamTerms,
    builder: NumberedBuilder,
    statements: impl Iterator<Item = (EventTime, QuadRef<'q>)>,
) -> Result<(Numbered, usize), LogError> {
    let mut interner = Interner::with(dictionary, std::mem::take(recent));
    let lease = match timing {
        Timing::Nothing => None,
        _ => Some(dictionary.lease(*stream)),
    };
    let mut mentions = lease
        .as_ref()
        .map(|lease| dictionary.mentions(lease).remembering());
    let builder = builder.with_lease(lease);
    let numberer = Numberer::new(&mut interner, (timing, mentions.as_mut()), builder);
    let numbered = numberer.number(statements);
    *recent = interner.into_recent();
    let born = mentions.map_or(0, |mentions| mentions.born());
    numbered.map(|numbered| (numbered, born))
}

/// Turns the terms of a push into ids.
struct Numberer<'i, 'd, 'q> {
    interner: &'i mut Interner<'d>,
    timing: &'i Timing,
    /// For the terms of timing statements; None if there are none.
    mentions: Option<&'i mut Mentions<'d>>,
    builder: NumberedBuilder,
    /// The terms that wait for the push's scope, with the ids that stand for them.
    scoped: HashMap<Term, TermId>,
    statements: Vec<(EventTime, QuadRef<'q>)>,
    terms: Vec<TermRef<'q>>,
    ids: Vec<TermId>,
}

impl<'i, 'd, 'q> Numberer<'i, 'd, 'q> {
    fn new(
        interner: &'i mut Interner<'d>,
        (timing, mentions): (&'i Timing, Option<&'i mut Mentions<'d>>),
        builder: NumberedBuilder,
    ) -> Numberer<'i, 'd, 'q> {
        Numberer {
            interner,
            timing,
            mentions,
            builder,
            scoped: HashMap::new(),
            statements: Vec::with_capacity(TOGETHER),
            terms: Vec::with_capacity(3 * TOGETHER),
            ids: Vec::with_capacity(3 * TOGETHER),
        }
    }

    fn number(
        mut self,
        statements: impl Iterator<Item = (EventTime, QuadRef<'q>)>,
    ) -> Result<Numbered, LogError> {
        for (at, quad) in statements {
            self.terms.extend(known_terms(quad).map(|(_, term)| term));
            self.statements.push((at, quad));
            if self.statements.len() == TOGETHER {
                self.number_together()?;
            }
        }
        self.number_together()?;
        Ok(self.builder.finish())
    }

    /// Numbers the collected statements.
    fn number_together(&mut self) -> Result<(), LogError> {
        self.ids.clear();
        match (self.timing, &mut self.mentions) {
            (Timing::Nothing, _) | (_, None) => {
                self.interner.intern_all(&self.terms, &mut self.ids);
            }
            (Timing::All, Some(mentions)) => {
                self.interner
                    .mention_all(&self.terms, mentions, &mut self.ids);
            }
            (Timing::Predicates(_), Some(_)) => self.intern_both_kinds(),
        }
        self.terms.clear();
        let (builder, scoped) = (&mut self.builder, &mut self.scoped);
        let mut known = self.ids.iter().copied();
        let mut id_of = |builder: &mut NumberedBuilder, term: TermRef<'q>| {
            if is_scoped(term) {
                return scoped_id(scoped, builder, term);
            }
            known
                .next()
                .expect("each term that is not scoped was interned")
        };
        for (at, quad) in self.statements.drain(..) {
            let graph = graph_term(quad.graph_name);
            let ids = QuadIds {
                graph: graph.map_or(TermId::DEFAULT_GRAPH, |name| id_of(builder, name)),
                subject: id_of(builder, quad.subject.into()),
                predicate: id_of(builder, quad.predicate.into()),
                object: id_of(builder, quad.object),
            };
            builder.add(at, quad, ids)?;
        }
        Ok(())
    }

    /// Interns the collected terms where the predicate of each statement says whether it is a
    /// timing one.
    fn intern_both_kinds(&mut self) {
        let Some(mentions) = &mut self.mentions else {
            return;
        };
        let statements = self.statements.iter();
        let predicates: Vec<TermRef<'_>> =
            statements.map(|(_, quad)| quad.predicate.into()).collect();
        let mut ids = Vec::with_capacity(predicates.len());
        self.interner.intern_all(&predicates, &mut ids);
        let kinds: Vec<usize> = ids.iter().map(|id| self.timing.has(*id).into()).collect();
        let mut others = [Vec::new(), Vec::new()];
        for ((_, quad), kind) in self.statements.iter().zip(&kinds) {
            let terms = known_terms(*quad).filter(|(is_predicate, _)| !is_predicate);
            others[*kind].extend(terms.map(|(_, term)| term));
        }
        let mut of_others = [Vec::new(), Vec::new()];
        self.interner.intern_all(&others[0], &mut of_others[0]);
        self.interner
            .mention_all(&others[1], mentions, &mut of_others[1]);
        let mut of_others = of_others.map(Vec::into_iter);
        for (((_, quad), kind), predicate) in self.statements.iter().zip(kinds).zip(ids) {
            self.ids.extend(known_terms(*quad).filter_map(
                |(is_predicate, _)| match is_predicate {
                    true => Some(predicate),
                    false => of_others[kind].next(),
                },
            ));
        }
    }
}

/// The terms of a statement that have ids already, and whether one is its predicate.
fn known_terms(quad: QuadRef<'_>) -> impl Iterator<Item = (bool, TermRef<'_>)> {
    let names = [
        (false, graph_term(quad.graph_name)),
        (false, Some(quad.subject.into())),
        (true, Some(quad.predicate.into())),
        (false, Some(quad.object)),
    ];
    let known = names
        .into_iter()
        .filter_map(|(is_predicate, term)| Some((is_predicate, term?)));
    known.filter(|(_, term)| !is_scoped(*term))
}

fn graph_term(graph: GraphNameRef<'_>) -> Option<TermRef<'_>> {
    match graph {
        GraphNameRef::DefaultGraph => None,
        GraphNameRef::NamedNode(name) => Some(name.into()),
        GraphNameRef::BlankNode(name) => Some(name.into()),
    }
}

/// Whether the term is, or may hold, a blank node: those are named after the push's position in the
/// log, which is not known yet.
#[inline]
fn is_scoped(term: TermRef<'_>) -> bool {
    matches!(term, TermRef::BlankNode(_) | TermRef::Triple(_))
}

#[cold]
fn scoped_id(
    scoped: &mut HashMap<Term, TermId>,
    builder: &mut NumberedBuilder,
    term: TermRef<'_>,
) -> TermId {
    let term = term.into_owned();
    if let Some(id) = scoped.get(&term) {
        return *id;
    }
    let id = TermId::local(builder.add_scoped(term.clone()) as u64);
    scoped.insert(term, id);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_used_next() {
        let spare = SparePool::<String>::new();
        assert_eq!((spare.take(), spare.take()), Default::default());
        spare.put_back("first".to_owned());
        spare.put_back("second".to_owned());
        for _ in 0..3 {
            let value = spare.take();
            assert_eq!(value, "first", "one thread at a time uses one value");
            spare.put_back(value);
        }
        assert_eq!([spare.take(), spare.take()], ["first", "second"]);
        for number in 0..2 * REMEMBERED {
            spare.put_back(number.to_string());
        }
        assert_eq!(spare.take(), "0");
        assert_eq!(spare.take(), "1");
    }
}
