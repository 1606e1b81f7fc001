//! Procedures in Rust: the same inputs, transaction and order as procedures of steps, with a
//! closure in the place of the steps.
//!
//! The one thing to know before changing it: what a closure does must follow from its inputs and
//! from what it reads here, or recovery may get something else.

use crate::context::answer::Answer;
use crate::prepared::Prepared;
use crate::procedure::state::Procedure;
use crate::procedure::steps::{Executed, ProcedureInput};
use crate::procedure::stop::{Abort, AbortCause};
use crate::procedure::template::NewTerms;
use crate::procedure::txn::Txn;
use oxrdf::{NamedNode, NamedOrBlankNode, Quad, Term, Triple};
use somersault_lang::{KeptGraph, Update};
use somersault_model::{EventTime, QuadIds, TermId};

/// One execution of a procedure in Rust.
pub struct NativeRun<'r, 's> {
    txn: &'r mut Txn<'s>,
    procedure: &'r Procedure,
    input: &'r ProcedureInput<'r>,
}

impl Txn<'_> {
    /// Runs a procedure whose steps are a closure: first the slides of its windows, then the
    /// closure, which gives what a call is answered. After an abort the transaction is to be rolled
    /// back.
    ///
    /// # Errors
    /// The abort that the closure gave.
    ///
    /// # Panics
    /// If there is not a batch for each consumed stream.
    pub fn execute_native(
        &mut self,
        procedure: &Procedure,
        input: &ProcedureInput<'_>,
        steps: impl FnOnce(&mut NativeRun<'_, '_>) -> Result<Option<Answer>, Abort>,
    ) -> Result<Executed, Abort> {
        let consumed = procedure.compiled().consumed();
        assert_eq!(input.batches.len(), consumed, "a batch a stream");
        self.enter(input.key, input.now);
        let first = self.emissions.len();
        for slide in input.slides {
            let (leave, enter) = (slide.leave.iter().copied(), slide.enter.iter().copied());
            self.slide(procedure, slide.window, leave, enter);
        }
        let answer = steps(&mut NativeRun {
            txn: &mut *self,
            procedure,
            input,
        })?;
        Ok(Executed {
            emissions: self.emissions.split_off(first),
            answer,
        })
    }
}

impl NativeRun<'_, '_> {
    /// NOW(): the event time of the batch, or when the call was received.
    pub fn now(&self) -> EventTime {
        self.input.now
    }

    /// The arguments of the call.
    pub fn arguments(&self) -> Vec<Term> {
        let arguments = self.input.arguments.iter();
        arguments.filter_map(|id| self.term(*id)).collect()
    }

    /// The batch of a consumed stream: the union of its messages; empty if the procedure does not
    /// consume the stream.
    pub fn batch(&self, stream: &NamedNode) -> Vec<Triple> {
        let batch = KeptGraph::Batch(stream.clone());
        let place = self.place(&batch);
        let batch = place.and_then(|place| self.input.batches.get(place));
        let mut quads: Vec<QuadIds> = batch
            .into_iter()
            .flatten()
            .copied()
            .flatten()
            .map(|quad| quad.triple().in_graph(TermId::DEFAULT_GRAPH))
            .collect();
        quads.sort_unstable();
        quads.dedup();
        self.triples(&quads)
    }

    /// What an owned window shows; nothing if the procedure owns no window of this name.
    pub fn window(&self, name: &NamedNode) -> Vec<Triple> {
        let place = self.place(&KeptGraph::Window(name.clone()));
        let mark = place.map(|place| self.procedure.graphs[place]);
        let quads = mark.map(|mark| self.txn.state.layers.kept.statements(mark));
        self.triples(&quads.unwrap_or_default())
    }

    /// Evaluates a query on what is stored and what was written so far. `arguments` are the values
    /// of its parameters.
    ///
    /// # Errors
    /// A limit, or values that do not fit: return it, and the transaction aborts.
    pub fn query(&mut self, query: &Prepared, arguments: &[Term]) -> Result<Answer, Abort> {
        let answer = self.txn.query(query, arguments);
        answer.map_err(|error| Abort::in_rust(&error))
    }

    /// Carries out an update.
    ///
    /// # Errors
    /// A limit, or an operation that is refused: return it, and the transaction aborts.
    pub fn update(&mut self, update: &Update) -> Result<(), Abort> {
        let done = self.txn.update(update, None);
        done.map_err(|error| Abort::in_rust(&error))
    }

    /// Emits a message into an interior stream; no statements make none.
    ///
    /// # Errors
    /// The procedure was not declared to emit into the stream.
    pub fn emit(&mut self, stream: &NamedNode, statements: &[Quad]) -> Result<(), Abort> {
        let emits = self.procedure.compiled().emits();
        let Some(stream) = emits.iter().position(|other| other == stream) else {
            return Err(Abort {
                cause: AbortCause::Error,
                reason: format!(
                    "the procedure {} was not declared to emit into {stream}; name the stream where it is declared",
                    self.procedure.compiled().name()
                ),
            });
        };
        let mut made: Vec<QuadIds> = Vec::new();
        for statement in statements {
            let quad = self.txn.terms().quad(statement, NewTerms::Mentioned);
            made.extend(quad.filter(|quad| !made.contains(quad)));
        }
        if !made.is_empty() {
            self.txn.push_emission(stream, made);
        }
        Ok(())
    }

    /// An abort with this reason, to return.
    ///
    /// # Errors
    /// Always: the transaction ends, and nothing of it stays.
    pub fn abort<T>(&self, reason: impl Into<String>) -> Result<T, Abort> {
        Err(Abort::stated(reason))
    }

    fn place(&self, graph: &KeptGraph) -> Option<usize> {
        let kept = self.procedure.compiled().kept();
        kept.iter().position(|other| other == graph)
    }

    fn term(&self, id: TermId) -> Option<Term> {
        self.txn.dictionary().decode(id)
    }

    fn triples(&self, quads: &[QuadIds]) -> Vec<Triple> {
        let triple = |quad: &QuadIds| {
            let subject: NamedOrBlankNode = match self.term(quad.subject)? {
                Term::NamedNode(node) => node.into(),
                Term::BlankNode(node) => node.into(),
                Term::Literal(_) | Term::Triple(_) => return None,
            };
            let Term::NamedNode(predicate) = self.term(quad.predicate)? else {
                return None;
            };
            Some(Triple::new(subject, predicate, self.term(quad.object)?))
        };
        let mut triples: Vec<Triple> = quads.iter().filter_map(triple).collect();
        // Ids differ between a run and its replay.
        triples.sort_by_cached_key(ToString::to_string);
        triples
    }
}
