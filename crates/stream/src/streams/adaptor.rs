//! From pushed statements to ids in batches: order, lateness, sources, classification, blank nodes.
//!
//! Before changing anything here: [`TimeGate`] judges each statement twice, in admission (which
//! refuses) and in `apply` (which drops what LATE DROP drops). Both must reach the same verdict
//! from the same state.

use crate::protocol::statements::{PushStatements, PushedQuad};
use oxrdf::{
    BlankNode, GraphNameRef, NamedOrBlankNode, NamedOrBlankNodeRef, QuadRef, Term, TermRef, Triple,
};
use rustc_hash::FxHashSet;
use somersault_lang::Classification;
use somersault_model::{EventTime, Intern, Lease, Millis, QuadIds, StreamUid, Tag, TermId};
use std::fmt;
use std::sync::Arc;

/// Event times further out than this (30 million years) are refused, so that no sum of times and
/// spans overflows.
pub(crate) const FARTHEST_MS: i64 = 1_000_000_000_000_000_000;

/// Follows one source's time through a push, statement by statement, so that it does not matter how
/// a source groups its statements into pushes.
#[derive(Clone, Debug)]
pub(crate) struct TimeGate {
    pub(super) source: Option<EventTime>,
    pub(super) stream: Option<EventTime>,
    lateness: Millis,
}

/// Why a statement does not pass the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLate {
    /// The earliest time that the gate accepts.
    pub(crate) accepted_from: EventTime,
    /// Whether that is the source's own time rather than the stream's.
    pub(crate) of_source: bool,
}

impl TimeGate {
    pub(crate) fn new(
        source: Option<EventTime>,
        stream: Option<EventTime>,
        lateness: Millis,
    ) -> TimeGate {
        TimeGate {
            source,
            stream,
            lateness,
        }
    }

    /// Lets a statement through and moves the source's time, or says why the statement is late.
    pub(crate) fn pass(&mut self, at: EventTime) -> Result<(), TooLate> {
        if let Some(accepted_from) = self.source.max(self.stream)
            && at < accepted_from
        {
            return Err(TooLate {
                accepted_from,
                of_source: self.source > self.stream,
            });
        }
        // An Option orders None first: the first statement always moves the source.
        self.source = self.source.max(Some(at.minus(self.lateness)));
        Ok(())
    }
}

/// Which statements of a stream are facts to be absorbed, and into which graph.
#[derive(Clone, Debug)]
pub(crate) struct Classifier {
    timing: Timing,
    into: Option<TermId>,
}

/// Which statements of a stream are timing ones, not needed once their windows have passed.
#[derive(Clone, Debug)]
pub enum Timing {
    /// None.
    Nothing,
    /// All.
    All,
    /// Those with these predicates.
    Predicates(Arc<FxHashSet<TermId>>),
}

impl Timing {
    /// Whether a statement with this predicate is a timing one.
    pub fn has(&self, predicate: TermId) -> bool {
        match self {
            Timing::Nothing => false,
            Timing::All => true,
            Timing::Predicates(timing) => timing.contains(&predicate),
        }
    }
}

/// The terms of a stream that an interner needs.
#[derive(Clone, Debug)]
pub struct StreamTerms {
    /// The stream's uid.
    pub stream: StreamUid,
    /// Which statements' terms may be reclaimed.
    pub timing: Timing,
}

impl Classifier {
    pub(crate) fn new(
        classification: &Classification,
        into: Option<TermId>,
        intern: &dyn Intern,
    ) -> Classifier {
        let timing = match classification {
            Classification::Timeless => Timing::Nothing,
            Classification::TimingAll => Timing::All,
            Classification::Timing(predicates) => {
                let ids = predicates
                    .iter()
                    .map(|it| intern.intern(it.as_ref().into()));
                Timing::Predicates(Arc::new(ids.collect()))
            }
        };
        Classifier { timing, into }
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The statement to absorb, if it is timeless: in the INTO graph, else in its own.
    pub(crate) fn absorbed(&self, quad: QuadIds) -> Option<QuadIds> {
        (!self.timing.has(quad.predicate)).then(|| QuadIds {
            graph: self.into.unwrap_or(quad.graph),
            ..quad
        })
    }
}

/// A push or a message, as a prefix that makes the labels of its blank nodes unique.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlankScope {
    /// By its source and its number.
    OfNumber {
        stream: StreamUid,
        source: u32,
        seq: u64,
    },
    /// By the number of pushes so far: its source gave it no number.
    OfPush { stream: StreamUid, push: u64 },
}

impl fmt::Display for BlankScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlankScope::OfNumber {
                stream,
                source,
                seq,
            } => write!(f, "s{}o{source}n{seq}", stream.0),
            BlankScope::OfPush { stream, push } => write!(f, "s{}p{push}", stream.0),
        }
    }
}

/// Interns statements whose blank nodes are all in one scope.
pub(crate) struct Interner<'a> {
    intern: &'a dyn Intern,
    /// The push or message whose blank nodes these are; `None` where blank nodes name nodes in the
    /// store (updates).
    scope: Option<BlankScope>,
    /// Which statements mention their terms under the lease; without a lease all terms stay.
    timing: Timing,
    lease: Option<Lease>,
    scoped: ScopedTerms<'a>,
}

/// Terms of statements that were read before, whose names depend on their push or message.
#[derive(Default)]
struct ScopedTerms<'a> {
    terms: &'a [Term],
    /// Their ids in the present scope, as far as they have been asked for.
    ids: Vec<Option<TermId>>,
    /// The indexes of those that have been asked for.
    known: Vec<usize>,
}

impl<'a> Interner<'a> {
    /// For effects of updates: their blank nodes are those of the store.
    pub(crate) fn stored(intern: &'a dyn Intern) -> Interner<'a> {
        Interner {
            intern,
            scope: None,
            timing: Timing::Nothing,
            lease: None,
            scoped: ScopedTerms::default(),
        }
    }

    /// For the statements of a firing that go into a stream.
    pub(crate) fn derived(intern: &'a dyn Intern, terms: StreamTerms) -> Interner<'a> {
        let lease = match terms.timing {
            Timing::Nothing => None,
            _ => intern.lease(terms.stream),
        };
        Interner {
            timing: terms.timing,
            lease,
            ..Interner::stored(intern)
        }
    }

    /// For pushes and messages. Each begins with [`Interner::begin`].
    pub(crate) fn of_push(
        intern: &'a dyn Intern,
        statements: &'a PushStatements,
        terms: StreamTerms,
    ) -> Interner<'a> {
        let stored = Interner::stored(intern);
        let mut interner = match statements.lease() {
            // The push was read already and keeps its lease.
            Some(lease) if lease.epoch().stream() == terms.stream => Interner {
                timing: terms.timing,
                lease: Some(lease.clone()),
                ..stored
            },
            // The stream that the push was read for has been dropped, and this one has the same
            // name. A lease on the old stream's terms says nothing about this stream's batches,
            // where the terms may meet those of others.
            Some(_) => {
                for (_, quad) in statements.iter() {
                    if let PushedQuad::Ids(quad) = quad {
                        keep_for_good(intern, quad);
                    }
                }
                Interner::derived(intern, terms)
            }
            None => Interner::derived(intern, terms),
        };
        let terms = statements.scoped();
        interner.scoped = ScopedTerms {
            terms,
            ids: vec![None; terms.len()],
            known: Vec::new(),
        };
        interner
    }

    /// Begins a push or a message: its blank nodes are its own (S6), including those among the
    /// terms that wait for the scope.
    pub(crate) fn begin(&mut self, scope: BlankScope) {
        self.scope = Some(scope);
        for index in self.scoped.known.drain(..) {
            self.scoped.ids[index] = None;
        }
    }

    /// The lease to keep with the statements, where some of their terms do not stay.
    pub(crate) fn lease(&self) -> Option<Lease> {
        self.lease.clone()
    }

    /// The statement to absorb, if it is timeless; its terms stay.
    pub(crate) fn absorbed(&self, classifier: &Classifier, quad: QuadIds) -> Option<QuadIds> {
        let absorbed = classifier.absorbed(quad)?;
        keep_for_good(self.intern, absorbed);
        Some(absorbed)
    }

    /// Returns the ids of a statement of the push or message that has begun.
    pub(crate) fn pushed(&mut self, quad: PushedQuad<'_>) -> QuadIds {
        match quad {
            PushedQuad::Terms(quad) => self.quad(quad.as_ref()),
            PushedQuad::Ids(quad) if self.scoped.terms.is_empty() => quad,
            PushedQuad::Ids(quad) => QuadIds {
                graph: self.known(quad.graph),
                subject: self.known(quad.subject),
                predicate: quad.predicate,
                object: self.known(quad.object),
            },
        }
    }

    fn known(&mut self, id: TermId) -> TermId {
        if id.tag() != Tag::Local {
            return id;
        }
        let index = id.payload() as usize;
        if let Some(id) = self.scoped.ids[index] {
            return id;
        }
        // Whether a timing statement has it is seen later: what is absorbed then is made permanent.
        let id = self.term(self.scoped.terms[index].as_ref(), self.lease.as_ref());
        self.scoped.ids[index] = Some(id);
        self.scoped.known.push(index);
        id
    }

    fn graph_name(&self, name: GraphNameRef<'_>, lease: Option<&Lease>) -> TermId {
        match name {
            GraphNameRef::DefaultGraph => TermId::DEFAULT_GRAPH,
            GraphNameRef::NamedNode(node) => self.term(node.into(), lease),
            GraphNameRef::BlankNode(node) => self.term(node.into(), lease),
        }
    }

    /// The id of a graph.
    pub(crate) fn graph(&self, name: GraphNameRef<'_>) -> TermId {
        self.graph_name(name, None)
    }

    pub(crate) fn quad(&self, quad: QuadRef<'_>) -> QuadIds {
        // The predicate says what kind of statement it is.
        let of_all = (self.lease.as_ref()).filter(|_| matches!(self.timing, Timing::All));
        let predicate = self.term(quad.predicate.into(), of_all);
        let lease = (self.lease.as_ref()).filter(|_| self.timing.has(predicate));
        QuadIds {
            graph: self.graph_name(quad.graph_name, lease),
            subject: match quad.subject {
                NamedOrBlankNodeRef::NamedNode(node) => self.term(node.into(), lease),
                NamedOrBlankNodeRef::BlankNode(node) => self.term(node.into(), lease),
            },
            predicate,
            object: self.term(quad.object, lease),
        }
    }

    /// The same for a statement of ids that are known now: its terms stay as those of
    /// [`Interner::quad`] do.
    pub(crate) fn mentioned(&self, quad: QuadIds) -> QuadIds {
        match (self.lease.as_ref()).filter(|_| self.timing.has(quad.predicate)) {
            None => keep_for_good(self.intern, quad),
            Some(lease) => {
                for id in [quad.graph, quad.subject, quad.predicate, quad.object] {
                    if id.is_transient() {
                        self.intern.mention(id, lease);
                    }
                }
            }
        }
        quad
    }

    fn term(&self, term: TermRef<'_>, lease: Option<&Lease>) -> TermId {
        let renamed;
        let term = match (self.scope, term) {
            (Some(scope), TermRef::BlankNode(_) | TermRef::Triple(_)) => {
                renamed = rename(scope, term);
                renamed.as_ref()
            }
            _ => term,
        };
        match lease {
            Some(lease) => self.intern.intern_transient(term, lease),
            None => self.intern.intern(term),
        }
    }
}

/// Makes the transient terms of a statement permanent.
fn keep_for_good(intern: &dyn Intern, quad: QuadIds) {
    for id in [quad.graph, quad.subject, quad.predicate, quad.object] {
        if id.is_transient() {
            intern.make_permanent(id);
        }
    }
}

fn rename(scope: BlankScope, term: TermRef<'_>) -> Term {
    match term {
        TermRef::BlankNode(node) => rename_node(scope, node.as_str()).into(),
        TermRef::Triple(triple) => {
            let subject = match &triple.subject {
                NamedOrBlankNode::BlankNode(node) => rename_node(scope, node.as_str()).into(),
                NamedOrBlankNode::NamedNode(_) => triple.subject.clone(),
            };
            let object = rename(scope, triple.object.as_ref());
            Triple::new(subject, triple.predicate.clone(), object).into()
        }
        other => other.into_owned(),
    }
}

fn rename_node(scope: BlankScope, label: &str) -> BlankNode {
    // A label may follow letters, digits and '_' wherever it was valid by itself.
    BlankNode::new_unchecked(format!("{scope}_{label}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::statements::NumberedBuilder;
    use oxrdf::{GraphName, NamedNode, Quad};
    use somersault_model::{Epoch, VirtualShard};
    use std::cell::RefCell;

    /// Gives leases, and notes what is to stay.
    #[derive(Default)]
    struct Terms {
        permanent: RefCell<Vec<TermId>>,
    }

    impl Intern for Terms {
        fn intern(&self, _term: TermRef<'_>) -> TermId {
            unreachable!("the push was read before")
        }

        fn lease(&self, stream: StreamUid) -> Option<Lease> {
            Some(lease(stream))
        }

        fn make_permanent(&self, id: TermId) {
            self.permanent.borrow_mut().push(id);
        }
    }

    fn lease(stream: StreamUid) -> Lease {
        Lease::new(Arc::new(Epoch::new(stream, 8)))
    }

    #[test]
    fn a_push_that_was_read_for_an_earlier_stream_of_the_name_has_no_lease_of_it() {
        let shard = VirtualShard::truncated(3);
        let id = |number| TermId::transient(Tag::NamedNode, shard, number);
        let ids = QuadIds {
            graph: TermId::DEFAULT_GRAPH,
            subject: id(0),
            predicate: id(1),
            object: id(2),
        };
        let node = NamedNode::new_unchecked("http://x");
        let quad = Quad::new(node.clone(), node.clone(), node, GraphName::DefaultGraph);
        let read_for = StreamUid(4);
        let mut builder = NumberedBuilder::new(1, false).with_lease(Some(lease(read_for)));
        builder
            .add(EventTime(5), quad.as_ref(), ids)
            .expect("nothing is encoded");
        let statements = PushStatements::Numbered(builder.finish());
        for (stream, stay) in [
            (read_for, vec![]),
            (StreamUid(7), vec![ids.subject, ids.predicate, ids.object]),
        ] {
            let intern = Terms::default();
            let terms = StreamTerms {
                stream,
                timing: Timing::All,
            };
            let interner = Interner::of_push(&intern, &statements, terms);
            let of = interner.lease().map(|lease| lease.epoch().stream());
            assert_eq!(of, Some(stream));
            assert_eq!(*intern.permanent.borrow(), stay);
        }
    }
}
