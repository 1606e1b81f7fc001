//! The steps of a procedure, compiled once: each query with the values of the scope as parameters,
//! each template with its constants.

use crate::algebra::error::QueryError;
use crate::prepared::slotted::SlottedQuery;
use crate::procedure::template::CompiledTemplate;
use oxrdf::NamedNode;
use somersault_lang::token::Place;
use somersault_lang::{
    CreateProcedure, KeptGraph, OwnedWindow, QueryForm, Slot, Step, StepKind, StepQuery, StepWrite,
    TriggerEvent, UpdateOperation,
};

/// A procedure whose steps are ready to run.
pub struct CompiledProcedure {
    name: String,
    parameters: usize,
    /// The names of the slots.
    slots: Vec<String>,
    /// The batches and windows that its steps may read: those of its consumed streams and windows
    /// in the order of the text, then the messages of `WHEN INTO`.
    kept: Vec<KeptGraph>,
    consumed: usize,
    windows: Vec<OwnedWindow>,
    /// The streams that it emits into, in the order of the text.
    emits: Vec<NamedNode>,
    /// For each of them the place among the kept graphs of the message that sets a trigger off, if
    /// one does.
    messages: Vec<Option<usize>>,
    triggers: Vec<CompiledTrigger>,
    steps: Vec<CompiledStep>,
    depth: usize,
}

/// Steps that run inside the transaction when something happens in it.
struct CompiledTrigger {
    cause: TriggerCause,
    steps: Vec<CompiledStep>,
}

/// What sets a trigger off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TriggerCause {
    /// A slide of an owned window, by its number.
    Slide(usize),
    /// A message into a stream, by its number among those that the procedure emits into.
    Message(usize),
}

/// One step.
pub(crate) struct CompiledStep {
    pub(crate) action: Action,
    /// Its place in the text.
    pub(crate) place: Place,
}

/// What a step does.
pub(crate) enum Action {
    /// INSERT DATA, DELETE DATA.
    Data {
        deletes: CompiledTemplate,
        inserts: CompiledTemplate,
    },
    /// DELETE and INSERT for the rows of a query.
    Write {
        rows: SlottedQuery,
        deletes: CompiledTemplate,
        inserts: CompiledTemplate,
    },
    Let {
        slots: Vec<Slot>,
        select: SlottedQuery,
    },
    If {
        branches: Vec<(SlottedQuery, Vec<CompiledStep>)>,
        otherwise: Vec<CompiledStep>,
    },
    ForEach {
        slots: Vec<Slot>,
        select: SlottedQuery,
        steps: Vec<CompiledStep>,
    },
    Emit {
        /// The stream, by its number among those that the procedure emits into.
        stream: usize,
        rows: SlottedQuery,
        message: CompiledTemplate,
    },
    Abort(SlottedQuery),
    Return(SlottedQuery),
}

impl CompiledProcedure {
    /// Compiles the steps.
    ///
    /// # Errors
    /// A sentence with its place in the text: a step that cannot be compiled.
    pub fn new(procedure: &CreateProcedure) -> Result<CompiledProcedure, String> {
        let consumed = procedure.consumes.iter();
        let mut kept: Vec<KeptGraph> = consumed
            .map(|consumed| KeptGraph::Batch(consumed.stream.clone()))
            .collect();
        let windows = &procedure.windows;
        kept.extend((windows.iter()).map(|window| KeptGraph::Window(window.name.clone())));
        for trigger in &procedure.triggers {
            if let TriggerEvent::Into(stream) = &trigger.event {
                let message = KeptGraph::Batch(stream.clone());
                if !kept.contains(&message) {
                    kept.push(message);
                }
            }
        }
        let emits: Vec<NamedNode> = procedure.emits().into_iter().cloned().collect();
        let mut compiler = StepCompiler {
            kept: &kept,
            emits: &emits,
            text: &procedure.text,
            depth: 0,
        };
        let mut messages = vec![None; emits.len()];
        let mut triggers = Vec::with_capacity(procedure.triggers.len());
        for trigger in &procedure.triggers {
            let steps = compiler.block(&trigger.steps)?;
            let cause = match &trigger.event {
                TriggerEvent::Slides(name) => {
                    let window = windows.iter().position(|window| window.name == *name);
                    TriggerCause::Slide(window.expect("a trigger has its window"))
                }
                TriggerEvent::Into(stream) => {
                    let number = emits.iter().position(|other| other == stream);
                    let number = number.expect("a trigger has its stream");
                    let message = KeptGraph::Batch(stream.clone());
                    messages[number] = kept.iter().position(|graph| *graph == message);
                    TriggerCause::Message(number)
                }
            };
            triggers.push(CompiledTrigger { cause, steps });
        }
        let steps = compiler.block(&procedure.steps)?;
        Ok(CompiledProcedure {
            depth: compiler.depth,
            name: procedure.name.clone(),
            parameters: procedure.parameters.len(),
            slots: procedure.slots.clone(),
            consumed: procedure.consumes.len(),
            windows: procedure.windows.clone(),
            kept,
            emits,
            messages,
            triggers,
            steps,
        })
    }

    /// Compiles steps that a body in Rust runs, which are the whole of `text`.
    ///
    /// # Errors
    /// As [`CompiledProcedure::new`].
    pub(crate) fn steps_of(&self, text: &str, steps: &[Step]) -> Result<Vec<CompiledStep>, String> {
        let mut compiler = StepCompiler {
            kept: &self.kept,
            emits: &self.emits,
            text,
            depth: 0,
        };
        compiler.block(steps)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of its parameters.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The streams that it emits into: [`Emission::stream`](crate::Emission::stream) is an index
    /// into them.
    pub fn emits(&self) -> &[NamedNode] {
        &self.emits
    }

    /// The depth to which the patterns of its queries are nested, which bounds the stack that a
    /// transaction takes.
    pub fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn slots(&self) -> &[String] {
        &self.slots
    }

    pub(crate) fn kept(&self) -> &[KeptGraph] {
        &self.kept
    }

    pub(crate) fn steps(&self) -> &[CompiledStep] {
        &self.steps
    }

    /// The steps of the triggers that something sets off, in the order of the text.
    pub(crate) fn triggered(&self, by: TriggerCause) -> impl Iterator<Item = &[CompiledStep]> {
        let triggers = self.triggers.iter();
        let found = triggers.filter(move |trigger| trigger.cause == by);
        found.map(|trigger| &*trigger.steps)
    }

    /// The number of streams that it consumes. The first kept graphs are their batches.
    pub(crate) fn consumed(&self) -> usize {
        self.consumed
    }

    /// The place of an owned window among the kept graphs.
    pub(crate) fn window(&self, number: usize) -> usize {
        self.consumed + number
    }

    /// The clause of a kept graph that is an owned window.
    pub(crate) fn clause(&self, graph: &KeptGraph) -> Option<&OwnedWindow> {
        let KeptGraph::Window(name) = graph else {
            return None;
        };
        self.windows.iter().find(|window| window.name == *name)
    }

    /// The place among the kept graphs of the message that `WHEN INTO` is about; `None` for a
    /// stream that no trigger is about. The stream is a number among those that it emits into.
    pub(crate) fn message(&self, stream: usize) -> Option<usize> {
        self.messages[stream]
    }
}

struct StepCompiler<'p> {
    kept: &'p [KeptGraph],
    emits: &'p [NamedNode],
    text: &'p str,
    depth: usize,
}

impl StepCompiler<'_> {
    fn block(&mut self, steps: &[Step]) -> Result<Vec<CompiledStep>, String> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, step: &Step) -> Result<CompiledStep, String> {
        let place = Place::of(self.text, step.span.start);
        let action = match &step.kind {
            StepKind::Write(write) => self.write(write, place)?,
            StepKind::Let { slots, select } => Action::Let {
                slots: slots.clone(),
                select: self.query(select, false, place)?,
            },
            StepKind::If {
                branches,
                otherwise,
            } => {
                let branches = branches.iter().map(|branch| {
                    let condition = self.query(&branch.condition, false, place)?;
                    Ok((condition, self.block(&branch.steps)?))
                });
                Action::If {
                    branches: branches.collect::<Result<_, String>>()?,
                    otherwise: self.block(otherwise)?,
                }
            }
            StepKind::ForEach {
                slots,
                select,
                steps,
            } => Action::ForEach {
                slots: slots.clone(),
                select: self.query(select, true, place)?,
                steps: self.block(steps)?,
            },
            StepKind::Emit { stream, construct } => {
                let place_of_stream = self.emits.iter().position(|other| other == stream);
                let QueryForm::Construct { template } = &construct.query.form else {
                    return Err(refusal("EMIT INTO takes a CONSTRUCT", place));
                };
                Action::Emit {
                    stream: place_of_stream.expect("the procedure lists what its steps emit into"),
                    message: CompiledTemplate::new(template, &construct.bound),
                    rows: self.query(construct, false, place)?,
                }
            }
            StepKind::Abort(reason) => Action::Abort(self.query(reason, false, place)?),
            StepKind::Return(query) => Action::Return(self.query(query, false, place)?),
            _ => return Err(refusal("this kind of step is not known here", place)),
        };
        Ok(CompiledStep { action, place })
    }

    fn write(&mut self, write: &StepWrite, place: Place) -> Result<Action, String> {
        Ok(match &write.operation {
            UpdateOperation::InsertData(quads) => Action::Data {
                deletes: CompiledTemplate::of_data(&[]),
                inserts: CompiledTemplate::of_data(quads),
            },
            UpdateOperation::DeleteData(quads) => Action::Data {
                deletes: CompiledTemplate::of_data(quads),
                inserts: CompiledTemplate::of_data(&[]),
            },
            UpdateOperation::DeleteInsert(change) => {
                let rows = StepQuery {
                    query: change.query.clone(),
                    bound: write.bound.clone(),
                };
                Action::Write {
                    rows: self.query(&rows, false, place)?,
                    deletes: CompiledTemplate::new(&change.delete, &write.bound),
                    inserts: CompiledTemplate::new(&change.insert, &write.bound),
                }
            }
            _ => {
                let what = "LOAD, CLEAR, CREATE and DROP cannot stand in a procedure";
                return Err(refusal(what, place));
            }
        })
    }

    fn query(
        &mut self,
        step: &StepQuery,
        in_term_order: bool,
        place: Place,
    ) -> Result<SlottedQuery, String> {
        let (query, bound) = (step.query.clone(), step.bound.clone());
        let made = SlottedQuery::new(query, bound, self.kept, in_term_order);
        let made = made.map_err(|error: QueryError| refusal(&error.to_string(), place))?;
        self.depth = self.depth.max(made.depth());
        Ok(made)
    }
}

fn refusal(what: &str, place: Place) -> String {
    format!("{what} (the step at {place})")
}
