//! Pushes, as far as their caller's thread goes: statements become ids and the bytes that the log keeps, so that the
//! sequencer looks at no term.
//!
//! Before changing anything here: terms become known only after the coordinator was asked whether it would take the
//! push. What it says is asked again when the push's turn comes, and that counts.

use super::{Done, Driver};
use crate::error::RuntimeError;
use oxrdf::{GraphNameRef, NamedOrBlankNodeRef, QuadRef, Term, TermRef};
use somersault_log::{LogError, Numbered, NumberedBuilder};
use somersault_model::{EventTime, QuadIds, TermId};
use somersault_store::{Dictionary, Interner};
use somersault_stream::{Input, PushHead, ReadPush};
use std::collections::HashMap;

/// For fewer statements an interner's memory of its own is not worth its making.
const WORTH_AN_INTERNER: usize = 64;

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
        let dictionary = self.shared.store.dictionary();
        let times = times.map(|time| time.unwrap_or(EventTime(0)));
        let statements =
            Numberer::new(dictionary, times.len(), encoded).number(times.zip(statements))?;
        self.log_input(Input::ReadPush(ReadPush {
            head,
            received_ms,
            statements,
            untimed,
        }))
    }
}

/// Turns the terms of a push into ids.
struct Numberer<'d> {
    dictionary: &'d Dictionary,
    interner: Option<Interner<'d>>,
    builder: NumberedBuilder,
    /// The terms that wait for the push's scope, with the ids that stand for them.
    scoped: HashMap<Term, TermId>,
}

impl<'d> Numberer<'d> {
    fn new(dictionary: &'d Dictionary, statements: usize, encoded: bool) -> Numberer<'d> {
        Numberer {
            dictionary,
            interner: (statements >= WORTH_AN_INTERNER).then(|| Interner::new(dictionary)),
            builder: NumberedBuilder::new(statements, encoded),
            scoped: HashMap::new(),
        }
    }

    fn number<'q>(
        mut self,
        statements: impl Iterator<Item = (EventTime, QuadRef<'q>)>,
    ) -> Result<Numbered, LogError> {
        for (at, quad) in statements {
            let ids = QuadIds {
                graph: match quad.graph_name {
                    GraphNameRef::DefaultGraph => TermId::DEFAULT_GRAPH,
                    GraphNameRef::NamedNode(name) => self.known(name.into()),
                    GraphNameRef::BlankNode(name) => self.scoped(name.into()),
                },
                subject: match quad.subject {
                    NamedOrBlankNodeRef::NamedNode(name) => self.known(name.into()),
                    NamedOrBlankNodeRef::BlankNode(name) => self.scoped(name.into()),
                },
                predicate: self.known(quad.predicate.into()),
                object: match quad.object {
                    TermRef::BlankNode(_) | TermRef::Triple(_) => self.scoped(quad.object),
                    object => self.known(object),
                },
            };
            self.builder.add(at, quad, ids)?;
        }
        Ok(self.builder.finish())
    }

    #[inline]
    fn known(&mut self, term: TermRef<'_>) -> TermId {
        match &mut self.interner {
            Some(interner) => interner.intern(term),
            None => self.dictionary.intern(term),
        }
    }

    /// Blank nodes are named after the push's place in the log, which is not known yet.
    fn scoped(&mut self, term: TermRef<'_>) -> TermId {
        let term = term.into_owned();
        if let Some(id) = self.scoped.get(&term) {
            return *id;
        }
        let id = TermId::local(self.builder.add_scoped(term.clone()) as u64);
        self.scoped.insert(term, id);
        id
    }
}
