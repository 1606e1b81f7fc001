//! Pushes, as far as their caller's thread goes: statements become ids and the bytes that the log keeps, so that the
//! sequencer looks at no term.
//!
//! Before changing anything here: terms become known only after the coordinator was asked whether it would take the
//! push. What it says is asked again when the push's turn comes, and that counts.

use super::{Done, Driver};
use crate::error::RuntimeError;
use oxrdf::{GraphNameRef, QuadRef, Term, TermRef};
use somersault_log::{LogError, Numbered, NumberedBuilder};
use somersault_model::{EventTime, QuadIds, TermId};
use somersault_store::Interner;
use somersault_stream::{Input, PushHead, ReadPush};
use std::collections::HashMap;

/// So many statements are numbered together.
const TOGETHER: usize = 32;

impl Driver {
    /// Takes a push and returns when its record is durable. The times are those of the statements, which are given
    /// twice because the times are looked at first.
    ///
    /// # Errors
    /// It is refused, or the log has failed. A [`somersault_stream::Refusal::Late`] does not know the statement's text:
    /// see [`somersault_stream::Refusal::about`].
    pub fn push<'q>(
        &self,
        head: PushHead,
        times: impl ExactSizeIterator<Item = Option<EventTime>> + Clone,
        statements: impl Iterator<Item = QuadRef<'q>>,
    ) -> Result<Done, RuntimeError> {
        let received_ms = self.now_ms();
        // A repeat goes on too: only the sequencer knows whether what was taken before is durable.
        let judged = self
            .shared
            .coordinator
            .lock()
            .judge_push(&head, received_ms, times.clone());
        judged?;
        let untimed = times.clone().position(|time| time.is_none());
        let encoded = !self.shared.log.is_volatile();
        let times = times.map(|time| time.unwrap_or(EventTime(0)));
        let recent = self.recent.lock().pop().unwrap_or_default();
        let mut interner = Interner::with(self.shared.store.dictionary(), recent);
        let builder = NumberedBuilder::new(times.len(), encoded);
        let numbered = Numberer::new(&mut interner, builder).number(times.zip(statements));
        self.recent.lock().push(interner.into_recent());
        let statements = numbered?;
        self.log_input(Input::ReadPush(ReadPush {
            head,
            received_ms,
            statements,
            untimed,
        }))
    }
}

/// Turns the terms of a push into ids.
struct Numberer<'i, 'd, 'q> {
    interner: &'i mut Interner<'d>,
    builder: NumberedBuilder,
    /// The terms that wait for the push's scope, with the ids that stand for them.
    scoped: HashMap<Term, TermId>,
    statements: Vec<(EventTime, QuadRef<'q>)>,
    terms: Vec<TermRef<'q>>,
    ids: Vec<TermId>,
}

impl<'i, 'd, 'q> Numberer<'i, 'd, 'q> {
    fn new(interner: &'i mut Interner<'d>, builder: NumberedBuilder) -> Numberer<'i, 'd, 'q> {
        Numberer {
            interner,
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
            let names = [
                graph_term(quad.graph_name),
                Some(quad.subject.into()),
                Some(quad.predicate.into()),
                Some(quad.object),
            ];
            let known = names.into_iter().flatten().filter(|term| !is_scoped(*term));
            self.terms.extend(known);
            self.statements.push((at, quad));
            if self.statements.len() == TOGETHER {
                self.number_together()?;
            }
        }
        self.number_together()?;
        Ok(self.builder.finish())
    }

    /// Numbers the statements at hand.
    fn number_together(&mut self) -> Result<(), LogError> {
        self.ids.clear();
        self.interner.intern_all(&self.terms, &mut self.ids);
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
}

fn graph_term(graph: GraphNameRef<'_>) -> Option<TermRef<'_>> {
    match graph {
        GraphNameRef::DefaultGraph => None,
        GraphNameRef::NamedNode(name) => Some(name.into()),
        GraphNameRef::BlankNode(name) => Some(name.into()),
    }
}

/// Whether the term is, or may hold, a blank node: those are named after the push's place in the log, which is not known
/// yet.
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
