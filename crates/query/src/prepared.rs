//! A query that is ready to run: parsed and compiled. It holds terms and no ids, since ids belong
//! to a dictionary that reclaims them; constants are looked up at each execution, and the order of
//! the steps is chosen then.

use crate::compile::{Compiled, NotNative, compile};
use crate::construct::construct;
use crate::evaluate::Evaluation;
use crate::execution::Guard;
use crate::explain::Explainer;
use crate::plan::Plan;
use crate::planner::Planner;
use crate::random::Random;
use crate::run::{Actual, Runner};
use crate::sources::Graphs;
use crate::table::Table;
use crate::varset::VarSet;
use crate::{Answer, Execution, Explanation, GraphView, QueryError, Solutions, fallback};
use somersault_lang::{NameOrVariable, Query, QueryForm, TemplateTerm, TripleTemplate, VarId};
use somersault_model::TermId;
use std::sync::Arc;
use std::time::Instant;

/// A query that is ready to run, any number of times and on any view. Cheap to clone.
#[derive(Clone)]
pub struct Prepared {
    inner: Arc<Inner>,
}

struct Inner {
    query: Query,
    compiled: Result<Compiled, NotNative>,
    names: Arc<[String]>,
    /// The variables that the answer is made of.
    needed: VarSet,
}

impl Prepared {
    /// Prepares a parsed query.
    pub fn new(query: Query) -> Prepared {
        let compiled = compile(&query);
        let names = fallback::names(&query);
        let needed = match &query.form {
            QueryForm::Select { projection } | QueryForm::Describe { projection } => {
                VarSet::of(projection.iter().copied())
            }
            QueryForm::Ask => VarSet::new(),
            QueryForm::Construct { template } => template_variables(template),
        };
        Prepared {
            inner: Arc::new(Inner {
                query,
                compiled,
                names,
                needed,
            }),
        }
    }

    /// The query as parsed.
    pub fn query(&self) -> &Query {
        &self.inner.query
    }

    /// Whether no part of it needs spareval.
    pub fn is_native(&self) -> bool {
        self.inner.compiled.is_ok()
    }

    /// What of it needs spareval.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.inner
            .compiled
            .as_ref()
            .err()
            .map(|NotNative(reason)| reason.as_str())
    }

    /// Evaluates it on a view.
    ///
    /// # Errors
    /// A limit was reached, it was cancelled, or a remote part failed.
    pub fn execute(
        &self,
        view: &dyn GraphView,
        execution: &Execution,
    ) -> Result<Answer, QueryError> {
        let answer = match &self.inner.compiled {
            Ok(compiled) => self.execute_native(compiled, view, execution)?,
            Err(NotNative(reason)) if execution.no_fallback => {
                return Err(QueryError::NotNative {
                    reason: reason.clone(),
                });
            }
            Err(_) => fallback::answer(&self.inner.query, view, execution)?,
        };
        if view.is_valid() {
            Ok(answer)
        } else {
            Err(QueryError::PinExpired)
        }
    }

    fn execute_native(
        &self,
        compiled: &Compiled,
        view: &dyn GraphView,
        execution: &Execution,
    ) -> Result<Answer, QueryError> {
        let mut run = Run::start(self, compiled, view, execution);
        let table = run.solutions(self, compiled)?;
        run.answer(self, table)
    }

    /// The steps that it would take on this view, with estimates; with `analyze` it is executed,
    /// and actual rows and times are shown.
    ///
    /// # Errors
    /// As [`Prepared::execute`], with `analyze`.
    pub fn explain(
        &self,
        view: &dyn GraphView,
        execution: &Execution,
        analyze: bool,
    ) -> Result<Explanation, QueryError> {
        let compiled = match &self.inner.compiled {
            Ok(compiled) => compiled,
            Err(NotNative(reason)) => {
                let mut text = format!("spareval answers the whole query: {reason}\n");
                if analyze {
                    let started = Instant::now();
                    let answer = self.execute(view, execution)?;
                    let rows = match &answer {
                        Answer::Solutions(solutions) => solutions.len(),
                        Answer::Boolean(_) => 1,
                        Answer::Graph(triples) => triples.len(),
                    };
                    let micros = started.elapsed().as_secs_f64() * 1e6;
                    text.push_str(&format!("rows {rows}  {micros:.1} µs\n"));
                }
                return Ok(Explanation { text });
            }
        };
        let mut run = Run::start(self, compiled, view, execution);
        let graphs = Graphs::new(view);
        let (plan, steps) = self.plan(compiled, &graphs, &run.evaluation.constants, &run.guard)?;
        let mut actual = Vec::new();
        if analyze {
            let mut runner = Runner {
                graphs: &graphs,
                evaluation: &mut run.evaluation,
                guard: &mut run.guard,
                actual: vec![Actual::default(); steps],
            };
            runner.run(&plan, Table::unit())?;
            actual = runner.actual;
        }
        let explainer = Explainer {
            terms: &compiled.constants,
            variables: &self.inner.query.variables,
            actual: &actual,
        };
        Ok(Explanation {
            text: explainer.plan(&plan),
        })
    }

    fn plan(
        &self,
        compiled: &Compiled,
        graphs: &Graphs<'_>,
        constants: &[TermId],
        guard: &Guard<'_>,
    ) -> Result<(Plan, usize), QueryError> {
        let variables = &self.inner.query.variables;
        let mut planner = Planner::new(graphs, constants, &compiled.constants, variables, guard);
        let plan = planner.plan(&compiled.root, &self.inner.needed);
        // Out of time the planner leaves off comparing; such a plan must not run.
        guard.look()?;
        Ok((plan, planner.steps()))
    }
}

/// One native execution.
pub(crate) struct Run<'a> {
    pub(crate) evaluation: Evaluation<'a>,
    pub(crate) guard: Guard<'a>,
    view: &'a dyn GraphView,
}

impl<'a> Run<'a> {
    fn start(
        prepared: &'a Prepared,
        compiled: &Compiled,
        view: &'a dyn GraphView,
        execution: &'a Execution,
    ) -> Run<'a> {
        let random = Random::new(execution.query, execution.close);
        Run {
            evaluation: Evaluation::new(
                view.dictionary(),
                &compiled.constants,
                prepared.inner.query.base.as_deref(),
                execution.now,
                random,
            ),
            guard: Guard::start(execution),
            view,
        }
    }

    fn solutions(&mut self, prepared: &Prepared, compiled: &Compiled) -> Result<Table, QueryError> {
        let graphs = Graphs::new(self.view);
        let (plan, _) =
            prepared.plan(compiled, &graphs, &self.evaluation.constants, &self.guard)?;
        let mut runner = Runner {
            graphs: &graphs,
            evaluation: &mut self.evaluation,
            guard: &mut self.guard,
            actual: Vec::new(),
        };
        // ASK wants to know of one solution only.
        match prepared.inner.query.form {
            QueryForm::Ask => runner.run_until(&plan, 1),
            _ => runner.run(&plan, Table::unit()),
        }
    }

    fn answer(mut self, prepared: &Prepared, mut table: Table) -> Result<Answer, QueryError> {
        Ok(match &prepared.inner.query.form {
            QueryForm::Ask => Answer::Boolean(table.rows > 0),
            QueryForm::Construct { template } => Answer::Graph(construct(
                template,
                &table,
                &mut self.evaluation,
                &mut self.guard,
            )?),
            QueryForm::Select { projection } | QueryForm::Describe { projection } => {
                self.guard.answer_rows(table.rows)?;
                let rows = table.rows;
                let columns = columns(&mut table, projection);
                Answer::Solutions(Solutions {
                    variables: Arc::clone(&prepared.inner.names),
                    columns,
                    rows,
                    local: self.evaluation.local.into_terms(),
                })
            }
        })
    }
}

/// The columns of an answer, in order; what has no column is unbound.
fn columns(table: &mut Table, projection: &[VarId]) -> Vec<Vec<TermId>> {
    let rows = table.rows;
    let mut columns: Vec<Vec<TermId>> = Vec::with_capacity(projection.len());
    for (at, variable) in projection.iter().enumerate() {
        let column = match projection[..at].iter().position(|v| v == variable) {
            Some(earlier) => columns[earlier].clone(),
            None => table
                .take(*variable)
                .unwrap_or_else(|| vec![TermId::UNBOUND; rows]),
        };
        columns.push(column);
    }
    columns
}

/// The variables of a template.
pub(crate) fn template_variables(template: &[TripleTemplate]) -> VarSet {
    fn add(term: &TemplateTerm, into: &mut VarSet) {
        match term {
            TemplateTerm::Variable(v) => into.insert(*v),
            TemplateTerm::Triple(triple) => add_triple(triple, into),
            TemplateTerm::Term(_) | TemplateTerm::BlankNode(_) => {}
        }
    }
    fn add_triple(triple: &TripleTemplate, into: &mut VarSet) {
        add(&triple.subject, into);
        if let NameOrVariable::Variable(v) = &triple.predicate {
            into.insert(*v);
        }
        add(&triple.object, into);
    }
    let mut set = VarSet::new();
    template
        .iter()
        .for_each(|triple| add_triple(triple, &mut set));
    set
}
