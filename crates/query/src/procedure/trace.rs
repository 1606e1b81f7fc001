//! What the steps of a transaction did, for people who tune a procedure.
//!
//! 1. A step that runs for the first time shows the plan of its query with actual rows: the query
//!    is evaluated once more for that, before the step.
//! 2. A step that runs often (FOR EACH, triggers) is one entry with sums.
//! 3. Steps inside of a step are its children, and their figures are in its own.
//!
//! The one thing to know before changing it: a transaction without a trace pays one comparison a
//! step.

use crate::algebra::error::QueryError;
use crate::prepared::execute::Invocation;
use crate::prepared::slotted::SlottedQuery;
use crate::procedure::compiled::{Action, CompiledStep};
use crate::procedure::steps::Frame;
use crate::procedure::stop::Abort;
use crate::procedure::txn::Txn;
use somersault_lang::token::Place;
use somersault_model::EventTime;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a step did, over all of its runs.
#[derive(Debug, Clone)]
pub struct StepTrace {
    /// Its place in the text.
    pub place: Place,
    /// The text, where that is not the procedure's: a body in Rust has run it.
    pub text: Option<Arc<str>>,
    /// The number of steps around it.
    pub depth: usize,
    /// How often it ran.
    pub runs: u64,
    /// The time of all runs, without that of the plans shown.
    pub time: Duration,
    /// Statements that began to hold by it.
    pub inserted: u64,
    /// Statements that ceased to hold by it.
    pub deleted: u64,
    /// Messages that it emitted.
    pub emitted: u64,
    /// The plans of its queries in the first run, with actual rows.
    pub plans: Vec<String>,
    /// The reason of the abort that it ended with; of the innermost step alone.
    pub abort: Option<String>,
    parent: Option<usize>,
}

/// The steps of a transaction, in the order in which they first ran.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    steps: Vec<StepTrace>,
    /// The step that runs.
    current: Option<usize>,
    /// The text that a body in Rust runs.
    pub(crate) text: Option<Arc<str>>,
    /// The time that plans took, which is no time of a step.
    planned: Duration,
    /// Whether the abort of this transaction stands with its step.
    has_abort: bool,
}

impl Trace {
    /// The entry of a step, and whether it is new.
    fn enter(&mut self, place: Place) -> (usize, bool) {
        let parent = self.current;
        let mut known = self.steps.iter();
        let found =
            known.position(|it| it.parent == parent && it.place == place && it.text == self.text);
        let number = found.unwrap_or(self.steps.len());
        if found.is_none() {
            self.steps.push(StepTrace {
                place,
                text: self.text.clone(),
                depth: parent.map_or(0, |parent| self.steps[parent].depth + 1),
                runs: 0,
                time: Duration::ZERO,
                inserted: 0,
                deleted: 0,
                emitted: 0,
                plans: Vec::new(),
                abort: None,
                parent,
            });
        }
        self.current = Some(number);
        (number, found.is_none())
    }

    /// The steps, each before those inside of it.
    pub(crate) fn into_steps(self) -> Vec<StepTrace> {
        let mut ordered = Vec::with_capacity(self.steps.len());
        let mut rest: Vec<usize> = (0..self.steps.len()).rev().collect();
        rest.retain(|at| self.steps[*at].parent.is_none());
        while let Some(at) = rest.pop() {
            ordered.push(self.steps[at].clone());
            let inner = (0..self.steps.len()).rev();
            rest.extend(inner.filter(|it| self.steps[*it].parent == Some(at)));
        }
        ordered
    }
}

impl Txn<'_> {
    /// Notes from now on what each step does.
    pub fn begin_trace(&mut self) {
        self.trace = Some(Box::default());
    }

    /// What the steps did since [`Txn::begin_trace`], each before those inside of it.
    pub fn take_trace(&mut self) -> Vec<StepTrace> {
        let trace = self.trace.take();
        trace.map_or_else(Vec::new, |trace| trace.into_steps())
    }

    /// Runs a step, and notes what it does.
    pub(crate) fn traced_step(
        &mut self,
        frame: &mut Frame<'_>,
        step: &CompiledStep,
    ) -> Result<(), Abort> {
        let Some(trace) = &mut self.trace else {
            return self.step(frame, step);
        };
        let around = trace.current;
        let (number, is_new) = trace.enter(step.place);
        let plans = match is_new {
            true => self.plans(frame, step),
            false => Vec::new(),
        };
        let (changes, emitted) = (self.changes(), self.emissions.len());
        let planned = self.trace.as_ref().map_or(Duration::ZERO, |it| it.planned);
        let begun = Instant::now();
        let done = self.step(frame, step);
        let time = begun.elapsed();
        let emitted = self.emissions.len().saturating_sub(emitted) as u64;
        let (inserted, deleted) = self.changed_since(changes);
        let Some(trace) = &mut self.trace else {
            return done;
        };
        let entry = &mut trace.steps[number];
        entry.runs += 1;
        entry.time += time.saturating_sub(trace.planned.saturating_sub(planned));
        entry.inserted += inserted;
        entry.deleted += deleted;
        entry.emitted += emitted;
        entry.plans.extend(plans);
        if let Err(abort) = &done
            && !std::mem::replace(&mut trace.has_abort, true)
        {
            entry.abort = Some(abort.reason.clone());
        }
        trace.current = around;
        done
    }

    /// The plans of the queries that a step will evaluate, with actual rows.
    fn plans(&mut self, frame: &mut Frame<'_>, step: &CompiledStep) -> Vec<String> {
        let begun = Instant::now();
        // The random functions of the step have the same values.
        let close = self.execution.close;
        let mut next = self.steps_so_far();
        let mut plans = Vec::new();
        let mut show = |this: &mut Self, frame: &mut Frame<'_>, query: &SlottedQuery| {
            next += 1;
            this.execution.close = EventTime(next as i64);
            let plan = this.plan_of(frame, query);
            // What cannot be evaluated says so in the step itself.
            plans.extend(plan.ok());
        };
        match &step.action {
            Action::Data { .. } => {}
            Action::Write { rows, .. } | Action::Emit { rows, .. } => show(self, frame, rows),
            Action::Let { select, .. } | Action::ForEach { select, .. } => {
                show(self, frame, select);
            }
            Action::Abort(query) | Action::Return(query) => show(self, frame, query),
            Action::If { branches, .. } => {
                for (condition, _) in branches {
                    show(self, frame, condition);
                    if self.ask(frame, condition).unwrap_or(true) {
                        break;
                    }
                }
            }
        }
        self.execution.close = close;
        if let Some(trace) = &mut self.trace {
            trace.planned += begun.elapsed();
        }
        plans
    }

    fn plan_of(
        &mut self,
        frame: &mut Frame<'_>,
        query: &SlottedQuery,
    ) -> Result<String, QueryError> {
        let variant = frame.variant(query)?;
        let own = self.own_dataset(query);
        self.state.layers.index();
        let view = self.view(own.as_ref().unwrap_or(&self.state.stored));
        let invocation = Invocation::new(&view, &self.execution).ids(frame.arguments());
        let mut plan = variant.prepared.explain(invocation, true)?.to_string();
        // A value of the scope is shown by its name.
        for (number, name) in frame.names().iter().enumerate() {
            let placeholder = format!("<urn:somersault:parameter:{number}:>");
            plan = plan.replace(&placeholder, &format!("?{name}"));
        }
        Ok(plan)
    }
}
