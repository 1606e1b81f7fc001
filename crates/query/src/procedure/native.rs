//! Procedures in Rust: the same inputs, transaction and order as procedures of steps, with a
//! closure in the place of the steps.
//!
//! The one thing to know before changing it: what a closure does must follow from its inputs and
//! from what it reads here, or recovery may get something else.

use crate::context::answer::Answer;
use crate::procedure::compiled::{CompiledProcedure, CompiledStep};
use crate::procedure::state::Procedure;
use crate::procedure::steps::{Executed, Frame, ProcedureInput};
use crate::procedure::stop::{Abort, AbortCause};
use crate::procedure::template::NewTerms;
use crate::procedure::txn::Txn;
use crate::value::random::Random;
use oxrdf::{NamedNode, NamedOrBlankNode, Quad, Term, Triple};
use somersault_dictionary::Dictionary;
use somersault_lang::{KeptGraph, Step};
use somersault_model::{EventTime, QuadIds, TermId};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// One execution of a procedure in Rust.
pub struct NativeRun<'r, 's> {
    txn: &'r mut Txn<'s>,
    procedure: &'r Procedure,
    input: &'r ProcedureInput<'r>,
}

/// Queries or updates of a procedure in Rust, ready to run with values in their slots.
pub struct NativeSteps {
    text: Arc<str>,
    steps: Vec<CompiledStep>,
    /// The names of the slots.
    slots: Vec<String>,
}

impl NativeSteps {
    /// Compiles what the parser read of `text`. `slots` are the names of its values.
    ///
    /// # Errors
    /// A sentence with its place in the text: a step that cannot be compiled.
    pub fn new(
        procedure: &CompiledProcedure,
        text: &str,
        steps: &[Step],
        slots: &[&str],
    ) -> Result<NativeSteps, String> {
        Ok(NativeSteps {
            text: Arc::from(text),
            steps: procedure.steps_of(text, steps)?,
            slots: slots.iter().map(ToString::to_string).collect(),
        })
    }
}

impl Txn<'_> {
    /// Runs a procedure whose steps are a closure: first the slides of its windows, then the
    /// closure. A panic of the closure is an abort. After an abort the transaction is to be rolled
    /// back.
    ///
    /// # Errors
    /// The abort that the closure gave.
    ///
    /// # Panics
    /// If there is not a batch for each consumed stream, or not an argument for each parameter.
    pub fn execute_native<A>(
        &mut self,
        procedure: &Procedure,
        input: &ProcedureInput<'_>,
        body: impl FnOnce(NativeRun<'_, '_>) -> Result<A, Abort>,
    ) -> Result<Executed<A>, Abort> {
        self.within(procedure, input, |txn| {
            for slide in input.slides {
                let (leave, enter) = (slide.leave.iter().copied(), slide.enter.iter().copied());
                txn.slide(procedure, slide.window, leave, enter);
            }
            let run = NativeRun {
                txn,
                procedure,
                input,
            };
            // What a panic leaves of the transaction is undone with the rest.
            let ran = catch_unwind(AssertUnwindSafe(|| body(run)));
            ran.unwrap_or_else(|panic| Err(panicked(procedure.compiled.name(), &*panic)))
        })
    }
}

/// The abort of a body that panicked.
fn panicked(procedure: &str, panic: &(dyn Any + Send)) -> Abort {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let said = text.map_or_else(String::new, |text| format!(": {text}"));
    Abort {
        cause: AbortCause::Error,
        reason: format!("the body of procedure {procedure} panicked{said}"),
    }
}

impl NativeRun<'_, '_> {
    /// NOW(): the event time of the batch, or when the call was received.
    pub fn now(&self) -> EventTime {
        self.input.now
    }

    /// What the procedure is declared as.
    pub fn compiled(&self) -> &CompiledProcedure {
        &self.procedure.compiled
    }

    /// The dictionary of the terms of answers.
    pub fn dictionary(&self) -> &Dictionary {
        self.txn.dictionary()
    }

    /// The arguments of the call, in the order of the parameters.
    pub fn arguments(&self) -> Vec<Term> {
        let arguments = self.input.arguments.iter();
        arguments.filter_map(|id| self.term(*id)).collect()
    }

    /// The batch of a consumed stream: the union of its messages; `None` if the procedure does not
    /// consume the stream.
    pub fn batch(&self, stream: &NamedNode) -> Option<Vec<Triple>> {
        let place = self.place(&KeptGraph::Batch(stream.clone()))?;
        let messages = self.input.batches.get(place)?.iter();
        let statements = messages.copied().flatten();
        let mut quads: Vec<QuadIds> = statements
            .map(|quad| quad.triple().in_graph(TermId::DEFAULT_GRAPH))
            .collect();
        quads.sort_unstable();
        quads.dedup();
        Some(self.triples(&quads))
    }

    /// What an owned window shows; `None` if the procedure owns no window of this name.
    pub fn window(&self, name: &NamedNode) -> Option<Vec<Triple>> {
        let place = self.place(&KeptGraph::Window(name.clone()))?;
        let mark = self.procedure.graphs[place];
        Some(self.triples(&self.txn.state.layers.kept.statements(mark)))
    }

    fn place(&self, graph: &KeptGraph) -> Option<usize> {
        let kept = self.procedure.compiled.kept();
        kept.iter().position(|other| other == graph)
    }

    /// Runs steps, with the values of their slots; gives what a query among them answers.
    ///
    /// # Errors
    /// A limit, or a step that cannot be carried out: return it, and the transaction aborts.
    pub fn run(
        &mut self,
        steps: &NativeSteps,
        values: &[Option<Term>],
    ) -> Result<Option<Answer>, Abort> {
        let mut slots = vec![TermId::UNBOUND; steps.slots.len()];
        for (slot, value) in slots.iter_mut().zip(values) {
            if let Some(value) = value {
                *slot = self.txn.id(value);
            }
        }
        let mut frame = Frame::new(self.procedure, &steps.slots, slots);
        self.name_text(Some(&steps.text));
        let done = self.txn.block(&mut frame, &steps.steps);
        self.name_text(None);
        done.map(|()| frame.into_answer())
    }

    /// Tells a trace whose steps run.
    fn name_text(&mut self, text: Option<&Arc<str>>) {
        if let Some(trace) = &mut self.txn.trace {
            trace.text = text.cloned();
        }
    }

    /// Makes a statement hold.
    ///
    /// # Errors
    /// A limit.
    pub fn insert(&mut self, quad: &Quad) -> Result<(), Abort> {
        if let Some(quad) = self.txn.terms().quad(quad, NewTerms::Stored) {
            self.txn.insert(quad);
        }
        self.check_written()
    }

    /// Makes a statement not hold.
    ///
    /// # Errors
    /// A limit.
    pub fn delete(&mut self, quad: &Quad) -> Result<(), Abort> {
        if let Some(quad) = self.txn.terms().quad(quad, NewTerms::Absent) {
            self.txn.delete(quad);
        }
        self.check_written()
    }

    fn check_written(&self) -> Result<(), Abort> {
        let checked = self.txn.check_written();
        checked.map_err(|error| Abort::in_rust(&error))
    }

    /// A number from 0 up to, and without, 1: the next of those that belong to this execution. A
    /// transaction that runs again gets the same.
    ///
    /// # Errors
    /// A limit.
    pub fn random(&mut self) -> Result<f64, Abort> {
        let begun = self.txn.begin_step();
        begun.map_err(|error| Abort::in_rust(&error))?;
        let execution = &self.txn.execution;
        Ok(Random::new(execution.query, execution.close).double())
    }

    /// Emits a message into an interior stream; no statements make none.
    ///
    /// # Errors
    /// The procedure was not declared to emit into the stream, or a limit.
    pub fn emit(&mut self, stream: &NamedNode, statements: &[Triple]) -> Result<(), Abort> {
        let compiled = &self.procedure.compiled;
        let Some(place) = compiled.emits().iter().position(|other| other == stream) else {
            return Err(Abort {
                cause: AbortCause::Error,
                reason: format!(
                    "the procedure {} was not declared to emit into {stream}; add EMITS INTO {stream} to its declaration",
                    compiled.name()
                ),
            });
        };
        let mut made: Vec<QuadIds> = Vec::new();
        for statement in statements {
            let quad = statement.clone().in_graph(oxrdf::GraphName::DefaultGraph);
            made.extend(self.txn.terms().quad(&quad, NewTerms::Mentioned));
        }
        let mut seen = rustc_hash::FxHashSet::default();
        made.retain(|quad| seen.insert(*quad));
        if !made.is_empty() {
            self.txn.push_emission(place, made);
        }
        self.check_written()
    }

    fn term(&self, id: TermId) -> Option<Term> {
        self.dictionary().decode(id)
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
