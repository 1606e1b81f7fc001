//! Running the steps of a procedure. Each step reads what those before it wrote.

use crate::algebra::error::QueryError;
use crate::context::answer::Answer;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::term_order::in_order;
use crate::prepared::Prepared;
use crate::prepared::execute::{Invocation, Run};
use crate::prepared::parameters::Arguments;
use crate::prepared::point::PointQuery;
use crate::prepared::slotted::{SlottedQuery, Variant};
use crate::procedure::compiled::{Action, CompiledStep, TriggerCause};
use crate::procedure::rows::Rows;
use crate::procedure::state::Procedure;
use crate::procedure::stop::Abort;
use crate::procedure::template::{CompiledTemplate, Filling, NewTerms};
use crate::procedure::txn::{Emission, ExecutionKey, Txn};
use crate::value::random::Random;
use crate::view::graph_view::Dataset;
use oxrdf::Term;
use rustc_hash::FxHashSet;
use somersault_lang::Slot;
use somersault_lang::token::Place;
use somersault_model::{EventTime, QuadIds, TermId};
use std::borrow::Cow;

/// One execution of a procedure: on which batches, after which slides of its windows. The graphs of
/// statements in messages do not count.
#[derive(Debug, Clone, Copy)]
pub struct ProcedureInput<'i> {
    /// What its random functions are keyed by.
    pub key: ExecutionKey,
    /// NOW(): the event time of its batches, or when its call was received.
    pub now: EventTime,
    /// The arguments of a call, in the order of the parameters: ids that [`Txn::id`] gave.
    pub arguments: &'i [TermId],
    /// For each stream that it consumes, in the order of its declaration: the messages of the
    /// batch.
    pub batches: &'i [Vec<&'i [QuadIds]>],
    /// The slides of its windows, in their order.
    pub slides: &'i [WindowSlide<'i>],
}

/// A slide of an owned window.
#[derive(Debug, Clone)]
pub struct WindowSlide<'i> {
    /// The window, by its number among those of the procedure.
    pub window: usize,
    /// The messages that leave.
    pub leave: Vec<&'i [QuadIds]>,
    /// The messages that enter.
    pub enter: Vec<&'i [QuadIds]>,
    /// Whether its trigger runs.
    pub sets_off: bool,
}

/// What an execution of a procedure left beside its writes.
#[derive(Debug, Clone, Default)]
pub struct Executed<A = Option<Answer>> {
    /// The messages that it emitted, in their order.
    pub emissions: Vec<Emission>,
    /// What its RETURN, or its body in Rust, answers.
    pub answer: A,
}

/// The execution that runs.
pub(crate) struct Frame<'p> {
    procedure: &'p Procedure,
    /// The names of the slots.
    names: &'p [String],
    /// The values of the scope; unbound where there is none.
    slots: Vec<TermId>,
    /// Buffer for the values of a query's parameters.
    arguments: Vec<TermId>,
    answer: Option<Answer>,
}

impl<'p> Frame<'p> {
    pub(crate) fn new(
        procedure: &'p Procedure,
        names: &'p [String],
        slots: Vec<TermId>,
    ) -> Frame<'p> {
        Frame {
            procedure,
            names,
            slots,
            arguments: Vec::new(),
            answer: None,
        }
    }

    /// The compiled query for the values of the scope. Its arguments are
    /// [`Frame::arguments`] then.
    pub(crate) fn variant<'q>(
        &mut self,
        query: &'q SlottedQuery,
    ) -> Result<Cow<'q, Variant>, QueryError> {
        let variant = query.variant(&self.slots, self.procedure.compiled.kept())?;
        variant.arguments(&self.slots, &self.procedure.graphs, &mut self.arguments);
        Ok(variant)
    }

    pub(crate) fn arguments(&self) -> &[TermId] {
        &self.arguments
    }

    pub(crate) fn names(&self) -> &'p [String] {
        self.names
    }

    pub(crate) fn into_answer(self) -> Option<Answer> {
        self.answer
    }
}

impl Txn<'_> {
    /// Runs a procedure on its batches: slides with their triggers, then the steps. After an abort
    /// the transaction is to be rolled back.
    ///
    /// # Errors
    /// The abort, with its reason.
    ///
    /// # Panics
    /// If there is not a batch for each consumed stream, or not an argument for each parameter.
    pub fn execute(
        &mut self,
        procedure: &Procedure,
        input: &ProcedureInput<'_>,
    ) -> Result<Executed, Abort> {
        self.within(procedure, input, |txn| {
            let mut slots = vec![TermId::UNBOUND; procedure.compiled.slots().len()];
            slots[..input.arguments.len()].copy_from_slice(input.arguments);
            let mut frame = Frame::new(procedure, procedure.compiled.slots(), slots);
            txn.run(&mut frame, input)?;
            Ok(frame.answer)
        })
    }

    /// Runs something as an execution of a procedure, which sees its batches.
    pub(crate) fn within<A>(
        &mut self,
        procedure: &Procedure,
        input: &ProcedureInput<'_>,
        run: impl FnOnce(&mut Self) -> Result<A, Abort>,
    ) -> Result<Executed<A>, Abort> {
        let compiled = &procedure.compiled;
        assert_eq!(input.batches.len(), compiled.consumed(), "a batch a stream");
        assert_eq!(
            input.arguments.len(),
            compiled.parameters(),
            "an argument a parameter"
        );
        self.enter(input.key, input.now);
        let first = self.emissions.len();
        let layers = &mut self.state.layers;
        for (batch, mark) in input.batches.iter().zip(&procedure.graphs) {
            let statements = batch.iter().copied().flatten();
            layers.show(*mark, statements.map(|quad| quad.triple()));
        }
        let done = run(self);
        let layers = &mut self.state.layers;
        input.batches.iter().for_each(|_| layers.hide());
        Ok(Executed {
            answer: done?,
            emissions: self.emissions.split_off(first),
        })
    }

    fn run(&mut self, frame: &mut Frame<'_>, input: &ProcedureInput<'_>) -> Result<(), Abort> {
        let procedure = frame.procedure;
        for slide in input.slides {
            let (leave, enter) = (slide.leave.iter().copied(), slide.enter.iter().copied());
            self.slide(procedure, slide.window, leave, enter);
            if slide.sets_off {
                self.trigger(frame, TriggerCause::Slide(slide.window))?;
            }
        }
        self.block(frame, procedure.compiled.steps())
    }

    fn trigger(&mut self, frame: &mut Frame<'_>, cause: TriggerCause) -> Result<(), Abort> {
        let mut triggered = frame.procedure.compiled.triggered(cause);
        triggered.try_for_each(|steps| self.block(frame, steps))
    }

    pub(crate) fn block(
        &mut self,
        frame: &mut Frame<'_>,
        steps: &[CompiledStep],
    ) -> Result<(), Abort> {
        match self.trace.is_some() {
            true => (steps.iter()).try_for_each(|step| self.traced_step(frame, step)),
            false => steps.iter().try_for_each(|step| self.step(frame, step)),
        }
    }

    pub(crate) fn step(&mut self, frame: &mut Frame<'_>, step: &CompiledStep) -> Result<(), Abort> {
        let place = step.place;
        let limit = self.memory_limit();
        let failed = |error: QueryError| failed(&error, limit, place);
        self.begin_step().map_err(failed)?;
        match &step.action {
            Action::Data { deletes, inserts } => self.data(deletes, inserts),
            Action::Write {
                rows,
                deletes,
                inserts,
            } => self
                .write_rows(frame, rows, deletes, inserts)
                .map_err(failed)?,
            Action::Let { slots, select } => self.let_step(frame, slots, select, place)?,
            Action::If {
                branches,
                otherwise,
            } => {
                for (condition, steps) in branches {
                    if self.ask(frame, condition).map_err(failed)? {
                        return self.block(frame, steps);
                    }
                    self.begin_step().map_err(failed)?;
                }
                self.block(frame, otherwise)?;
            }
            Action::ForEach {
                slots,
                select,
                steps,
            } => self.for_each(frame, slots, select, steps, place)?,
            Action::Emit {
                stream,
                rows,
                message,
            } => {
                let made = self.message(frame, rows, message).map_err(failed)?;
                self.emit_from(frame, *stream, made)?;
            }
            Action::Abort(reason) => return Err(self.stated(frame, reason, place)),
            Action::Return(query) => {
                if frame.answer.is_some() {
                    let what = "a second RETURN is reached, and a call has one answer; let only one be reached, by IF and ELSE";
                    return Err(Abort::error(what, place));
                }
                frame.answer = Some(self.answer(frame, query).map_err(failed)?);
            }
        }
        Ok(())
    }

    fn let_step(
        &mut self,
        frame: &mut Frame<'_>,
        slots: &[Slot],
        select: &SlottedQuery,
        place: Place,
    ) -> Result<(), Abort> {
        let rows = self.rows(frame, select);
        let rows = rows.map_err(|error| failed(&error, self.memory_limit(), place))?;
        if rows.len() > 1 {
            let names = slots
                .iter()
                .map(|slot| &frame.procedure.compiled.slots()[slot.0 as usize]);
            let names: Vec<String> = names.map(|name| format!("?{name}")).collect();
            let what = format!(
                "LET ({}) found {} rows and takes one at most; make its SELECT find one, or use FOR EACH",
                names.join(" "),
                rows.len()
            );
            return Err(Abort::error(what, place));
        }
        for (column, slot) in slots.iter().enumerate() {
            let value = (rows.len() == 1).then(|| rows.row(0)[column]);
            frame.slots[slot.0 as usize] = value.unwrap_or(TermId::UNBOUND);
        }
        Ok(())
    }

    fn for_each(
        &mut self,
        frame: &mut Frame<'_>,
        slots: &[Slot],
        select: &SlottedQuery,
        steps: &[CompiledStep],
        place: Place,
    ) -> Result<(), Abort> {
        let rows = self.rows(frame, select);
        let rows = rows.map_err(|error| failed(&error, self.memory_limit(), place))?;
        self.rows_bytes += rows.bytes();
        for row in 0..rows.len() {
            for (slot, id) in slots.iter().zip(rows.row(row)) {
                frame.slots[slot.0 as usize] = *id;
            }
            self.block(frame, steps)?;
        }
        self.rows_bytes -= rows.bytes();
        Ok(())
    }

    /// Emits a message, if it has a statement, and runs what it sets off.
    fn emit_from(
        &mut self,
        frame: &mut Frame<'_>,
        stream: usize,
        statements: Vec<QuadIds>,
    ) -> Result<(), Abort> {
        if statements.is_empty() {
            return Ok(());
        }
        let Some(message) = frame.procedure.compiled.message(stream) else {
            self.push_emission(stream, statements);
            return Ok(());
        };
        let triples = statements.iter().map(|quad| quad.triple());
        let mark = frame.procedure.graphs[message];
        self.state.layers.show(mark, triples);
        self.push_emission(stream, statements);
        let done = self.trigger(frame, TriggerCause::Message(stream));
        self.state.layers.hide();
        done
    }

    /// INSERT DATA and DELETE DATA.
    fn data(&mut self, deletes: &CompiledTemplate, inserts: &CompiledTemplate) {
        let mut random = Random::new(self.execution.query, self.execution.close);
        let mut out = Vec::new();
        for (template, inserts) in [(deletes, false), (inserts, true)] {
            let filling = Filling {
                template,
                slots: &[],
                terms: self.terms(),
                new_terms: match inserts {
                    true => NewTerms::Stored,
                    false => NewTerms::Absent,
                },
            };
            filling.once(&mut random, &mut out);
            for quad in out.drain(..) {
                match inserts {
                    true => self.insert(quad),
                    false => self.delete(quad),
                }
            }
        }
    }

    fn write_rows(
        &mut self,
        frame: &mut Frame<'_>,
        rows: &SlottedQuery,
        deletes: &CompiledTemplate,
        inserts: &CompiledTemplate,
    ) -> Result<(), QueryError> {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        let is_ordered = inserts.has_blank_node();
        self.evaluate(frame, rows, is_ordered, |this, slots, _, run, table| {
            let mut filling = Filling {
                template: deletes,
                slots,
                terms: this.terms(),
                new_terms: NewTerms::Absent,
            };
            filling.all(run, table, &mut gone)?;
            filling.template = inserts;
            filling.new_terms = NewTerms::Stored;
            filling.all(run, table, &mut come)
        })?;
        self.write_all(gone, come)
    }

    /// The statements of a message, each once.
    fn message(
        &mut self,
        frame: &mut Frame<'_>,
        rows: &SlottedQuery,
        template: &CompiledTemplate,
    ) -> Result<Vec<QuadIds>, QueryError> {
        let mut made = Vec::new();
        let is_ordered = template.has_blank_node();
        self.evaluate(frame, rows, is_ordered, |this, slots, _, run, table| {
            let filling = Filling {
                template,
                slots,
                terms: this.terms(),
                new_terms: NewTerms::Mentioned,
            };
            filling.all(run, table, &mut made)
        })?;
        if made.len() > 1 {
            let mut seen = FxHashSet::default();
            made.retain(|quad| seen.insert(*quad));
        }
        Ok(made)
    }

    fn rows(&mut self, frame: &mut Frame<'_>, select: &SlottedQuery) -> Result<Rows, QueryError> {
        self.evaluate(frame, select, false, |this, _, prepared, run, table| {
            run.limiter.answer_rows(table.rows)?;
            Ok(Rows::of(prepared, run, table, this.terms()))
        })
    }

    pub(crate) fn ask(
        &mut self,
        frame: &mut Frame<'_>,
        condition: &SlottedQuery,
    ) -> Result<bool, QueryError> {
        self.evaluate(frame, condition, false, |_, _, _, _, table| {
            Ok(table.rows > 0)
        })
    }

    /// The abort of a step ABORT.
    fn stated(&mut self, frame: &mut Frame<'_>, reason: &SlottedQuery, place: Place) -> Abort {
        let rows = match self.rows(frame, reason) {
            Ok(rows) => rows,
            Err(error) => return failed(&error, self.memory_limit(), place),
        };
        let id = (rows.len() == 1).then(|| rows.row(0)[0]);
        match id.and_then(|id| self.dictionary().decode(id)) {
            Some(Term::Literal(reason)) => Abort::stated(reason.value()),
            Some(Term::NamedNode(reason)) => Abort::stated(reason.as_str()),
            Some(other) => Abort::stated(other.to_string()),
            None => Abort::error("the expression of ABORT has no value", place),
        }
    }

    fn answer(
        &mut self,
        frame: &mut Frame<'_>,
        query: &SlottedQuery,
    ) -> Result<Answer, QueryError> {
        let variant = frame.variant(query)?;
        let own = self.own_dataset(query);
        let arguments = Arguments::Ids(&frame.arguments);
        let (prepared, point) = (&variant.prepared, variant.point.as_deref());
        self.solve(
            own.as_ref(),
            (prepared, point),
            arguments,
            |_, run, table, workspace| run.answer(prepared, table, workspace),
        )
    }

    /// The dataset of a query that has a dataset clause.
    pub(crate) fn own_dataset(&self, query: &SlottedQuery) -> Option<Dataset> {
        let clause = query.dataset();
        (clause.present).then(|| Dataset::of_clause(clause, self.dictionary()))
    }

    /// Evaluates a query of a step; with `is_ordered`, its rows come in the order of their terms.
    /// `finish` reads the table that it leaves.
    fn evaluate<T>(
        &mut self,
        frame: &mut Frame<'_>,
        query: &SlottedQuery,
        is_ordered: bool,
        finish: impl FnOnce(&Self, &[TermId], &Prepared, &mut Run<'_>, &Table) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let variant = frame.variant(query)?;
        let own = self.own_dataset(query);
        let arguments = Arguments::Ids(&frame.arguments);
        let (prepared, point) = (&variant.prepared, variant.point.as_deref());
        let slots = &frame.slots;
        let finish = |this: &Self, run: &mut Run<'_>, table: &Table| {
            finish(this, slots, prepared, run, table)
        };
        self.evaluate_in(
            own.as_ref(),
            (prepared, point),
            arguments,
            is_ordered,
            finish,
        )
    }

    /// Evaluates a query in a dataset; without one, in that of all stored graphs.
    pub(crate) fn evaluate_in<T>(
        &mut self,
        dataset: Option<&Dataset>,
        query: (&Prepared, Option<&PointQuery>),
        arguments: Arguments<'_>,
        is_ordered: bool,
        finish: impl FnOnce(&Self, &mut Run<'_>, &Table) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let solved = self.solve(
            dataset,
            query,
            arguments,
            |this, mut run, mut table, workspace| {
                if is_ordered {
                    table = in_order(&run.evaluation, &mut run.limiter, table, workspace)?;
                }
                let value = finish(this, &mut run, &table)?;
                let held = run.evaluation.local.held();
                let held = (!held.is_empty()).then(|| held.clone());
                workspace.give(table);
                workspace.give_ids(run.evaluation.constants);
                Ok((value, held))
            },
        );
        let (value, held) = solved?;
        if let Some(held) = held {
            self.held.extend(&held);
        }
        Ok(value)
    }

    /// Finds the solutions of a query: on one row if it can be done, else by its plan.
    fn solve<T>(
        &mut self,
        dataset: Option<&Dataset>,
        (prepared, point): (&Prepared, Option<&PointQuery>),
        arguments: Arguments<'_>,
        finish: impl FnOnce(&Self, Run<'_>, Table, &mut Workspace) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let mut finish = Some(finish);
        let mut finish = |this: &Self, run: Run<'_>, table, workspace: &mut Workspace| {
            let finish = finish.take().expect("a query has one outcome");
            finish(this, run, table, workspace)
        };
        let may_be_point = dataset.is_none() && !self.execution.plan_choices.no_point;
        if let Some(point) = point.filter(|_| may_be_point) {
            if point.reads_subjects() {
                self.state.layers.index();
            }
            let this = &*self;
            let view = this.view(&this.state.stored);
            let invocation = Invocation::of(arguments, &view, &this.execution);
            let layers = &this.state.layers;
            let found =
                prepared.evaluate_point((point, layers), invocation, |run, table, workspace| {
                    finish(this, run, table, workspace)
                })?;
            if let Some(value) = found {
                return Ok(value);
            }
        }
        self.state.layers.index();
        let this = &*self;
        let view = this.view(dataset.unwrap_or(&this.state.stored));
        let invocation = Invocation::of(arguments, &view, &this.execution);
        prepared.evaluate(invocation, |run, table, workspace| {
            finish(this, run, table, workspace)
        })
    }
}

/// The abort of a step that failed. A memory limit is named as that of the whole transaction.
fn failed(error: &QueryError, limit: u64, place: Place) -> Abort {
    match error {
        QueryError::Memory { .. } => Abort::of(&QueryError::Memory { limit }, place),
        other => Abort::of(other, place),
    }
}
