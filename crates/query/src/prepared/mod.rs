//! A query that is ready to run: parsed and compiled, with the plan that its last executions used.
//! It holds terms; the ids of constants are remembered once a dictionary knows them, and unknown
//! ones are looked up at each execution. The values of its parameters come with the execution.

pub(crate) mod cache;
pub(crate) mod execute;
pub(crate) mod parameters;
pub(crate) mod plan_memory;
pub(crate) mod point;
pub(crate) mod slotted;

use crate::algebra::compile::{Compiled, compile};
use crate::algebra::error::QueryError;
use crate::algebra::identity;
use crate::algebra::logical::Node;
use crate::algebra::varset::VarSet;
use crate::context::answer::Answer;
use crate::context::cells::Cells;
use crate::context::execution::Execution;
use crate::context::group_answer::GroupAnswer;
use crate::context::limiter::{Limiter, worth_ready};
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::explain::{Explainer, Explanation};
use crate::exec::names::Names;
use crate::exec::run::{Runner, StepFigures};
use crate::exec::step::Plan;
use crate::plan::planner::{PlanInputs, Planner};
use crate::prepared::execute::{Invocation, Run};
use crate::prepared::parameters::{Arguments, Parameter};
use crate::prepared::plan_memory::{CachedPlan, KnownIds, PlanMemory};
use crate::view::graph_view::GraphView;
use crate::view::local_terms::LocalTerms;
use crate::view::sources::Graphs;
use crate::view::term_source::TermSource;
use somersault_lang::{
    NameOrVariable, QuadTemplate, Query, QueryForm, TemplateGraph, TemplateTerm, TripleTemplate,
    VarId,
};
use somersault_model::TermId;
use std::sync::Arc;

/// A query that is ready to run, any number of times and on any view. Cheap to clone.
#[derive(Clone)]
pub struct Prepared {
    inner: Arc<Inner>,
}

/// For a query group: the variables that stand for the members' constants.
#[derive(Clone)]
pub(crate) struct Cohort {
    pub(crate) variables: Arc<[VarId]>,
}

pub(crate) struct Inner {
    pub(crate) query: Query,
    pub(crate) compiled: Compiled,
    pub(crate) names: Arc<[String]>,
    /// The variables that the answer is made of.
    pub(crate) needed: VarSet,
    pub(crate) parameters: Vec<Parameter>,
    /// Which of the constants are parameters.
    placeholders: Vec<bool>,
    /// For a query group.
    pub(crate) cohort: Option<Cohort>,
    /// Whether an equality in a filter made a parameter a predicate.
    pub(crate) gives_predicate: bool,
    pub(crate) kept: PlanMemory,
    /// The ids of the constants that are no parameters.
    known: KnownIds,
    /// Whether statistics of named graphs steer its plans.
    reads_named: bool,
    /// Whether it is part of a procedure. Then its constants enter the dictionary, and its plan is
    /// kept whatever it reads.
    is_of_procedure: bool,
    /// The depth to which its patterns are nested.
    depth: usize,
}

impl Prepared {
    /// Prepares a parsed query.
    pub fn new(query: Query) -> Prepared {
        let compiled = compile(&query, &query.pattern);
        Prepared::of(query, compiled, Vec::new())
    }

    /// Prepares a query that is kept for long: its pattern and text are forgotten once it is
    /// compiled.
    pub fn compact(query: Query) -> Prepared {
        let compiled = compile(&query, &query.pattern);
        Prepared::of(query.without_pattern(), compiled, Vec::new())
    }

    pub(crate) fn of(query: Query, compiled: Compiled, parameters: Vec<Parameter>) -> Prepared {
        Prepared::build(query, compiled, parameters, None)
    }

    /// A query whose constants are the values of variables.
    pub(crate) fn of_cohort(query: Query, compiled: Compiled, cohort: Cohort) -> Prepared {
        Prepared::build(query, compiled, Vec::new(), Some(cohort))
    }

    /// The query with another tree, derived from its own. Equalities are already written into its
    /// patterns.
    pub(crate) fn with_root(&self, root: Node) -> Prepared {
        let Inner {
            query,
            needed,
            cohort,
            ..
        } = self.inner();
        self.made_from(query.clone(), root, needed.clone(), cohort.clone())
    }

    /// The rows of a part of the query; some of these variables may have no names.
    pub(crate) fn part(&self, variables: &[VarId], root: Node) -> Prepared {
        let mut query = self.inner().query.clone();
        query.form = QueryForm::Select {
            projection: Vec::new(),
        };
        let needed = VarSet::of(variables.iter().copied());
        self.made_from(query, root, needed, None)
    }

    fn made_from(
        &self,
        query: Query,
        root: Node,
        needed: VarSet,
        cohort: Option<Cohort>,
    ) -> Prepared {
        let Inner {
            compiled,
            parameters,
            ..
        } = self.inner();
        let compiled = Compiled {
            root,
            variables: compiled.variables,
            constants: compiled.constants.clone(),
        };
        Prepared::assemble(query, compiled, needed, parameters.clone(), cohort, false)
    }

    fn build(
        query: Query,
        mut compiled: Compiled,
        parameters: Vec<Parameter>,
        cohort: Option<Cohort>,
    ) -> Prepared {
        let mut needed = needed(&query.form);
        if let Some(cohort) = &cohort {
            needed.extend(&VarSet::of(cohort.variables.iter().copied()));
        }
        let mut predicates = Vec::new();
        identity::substitute(&mut compiled.root, &needed, &mut predicates);
        let gives_predicate = (parameters.iter()).any(|p| predicates.contains(&p.constant));
        Prepared::assemble(query, compiled, needed, parameters, cohort, gives_predicate)
    }

    fn assemble(
        query: Query,
        compiled: Compiled,
        needed: VarSet,
        parameters: Vec<Parameter>,
        cohort: Option<Cohort>,
        gives_predicate: bool,
    ) -> Prepared {
        let names = query
            .projection()
            .iter()
            .map(|variable| query.variable_name(*variable).to_owned())
            .collect();
        let constants = compiled.constants.terms.len();
        let mut placeholders = vec![false; constants];
        for parameter in &parameters {
            placeholders[parameter.constant.index()] = true;
        }
        Prepared {
            inner: Arc::new(Inner {
                names,
                needed,
                parameters,
                placeholders,
                cohort,
                gives_predicate,
                kept: PlanMemory::default(),
                known: KnownIds::new(constants),
                reads_named: compiled.root.reads_named(),
                is_of_procedure: false,
                depth: compiled.root.depth(),
                query,
                compiled,
            }),
        }
    }

    /// The same as a part of a procedure, which is kept for long.
    pub(crate) fn of_procedure(mut self) -> Prepared {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.is_of_procedure = true;
        }
        self
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// The query as parsed; without its pattern and text if it is of a shape or compact.
    pub fn query(&self) -> &Query {
        &self.inner.query
    }

    /// The depth to which its patterns are nested, which bounds the stack that an execution may
    /// take.
    pub fn depth(&self) -> usize {
        self.inner.depth
    }

    /// Whether a try within a small [`Execution::budget`] is worthwhile, judging by the last tries.
    pub fn is_light(&self) -> bool {
        self.inner.kept.is_worth_trying()
    }

    /// Whether its last plan expects enough rows for several threads to share.
    pub fn expects_help(&self) -> bool {
        self.inner.kept.expected().is_some_and(worth_ready)
    }

    /// Evaluates it.
    ///
    /// # Errors
    /// A limit was reached, it was cancelled, or a remote part failed; there is not one value for
    /// each parameter, or one that is no IRI stands for a predicate or graph.
    pub fn run(&self, invocation: Invocation<'_>) -> Result<Answer, QueryError> {
        self.check(&invocation.arguments)?;
        self.evaluate(invocation, |run, table, workspace| {
            run.answer(self, table, workspace)
        })
    }

    /// Evaluates it for all cells at once.
    pub(crate) fn run_cells(
        &self,
        cells: &Cells,
        view: &dyn GraphView,
        execution: &Execution,
    ) -> Result<GroupAnswer, QueryError> {
        let invocation = Invocation::of(Arguments::Cells(cells), view, execution);
        self.evaluate(invocation, |run, table, workspace| {
            run.split(self, table, cells, workspace)
        })
    }

    /// Records whether a successful execution with a budget kept to it by its caller's clock:
    /// between two looks at the clock it may have exceeded it by far. Then the query does not count
    /// as light for a while.
    pub fn note_in_place(&self, within_budget: bool) {
        self.inner.kept.tried(within_budget);
    }

    /// The ids of all constants; those of parameters are the values given.
    pub(crate) fn constants(
        &self,
        arguments: Arguments<'_>,
        dictionary: TermSource<'_>,
        local: &mut LocalTerms,
        mut ids: Vec<TermId>,
    ) -> Vec<TermId> {
        let known = &self.inner.known;
        let of_procedure = self.inner.is_of_procedure;
        let remembered = known.are_of(dictionary.number());
        let terms = self.inner.compiled.constants.terms.iter().enumerate();
        ids.extend(terms.map(|(at, term)| {
            if self.inner.placeholders[at] {
                TermId::UNBOUND
            } else if remembered {
                known.id(at, dictionary, || match of_procedure {
                    true => dictionary.intern(term.as_ref()),
                    false => local.id_of(term, dictionary),
                })
            } else {
                local.id_of(term, dictionary)
            }
        }));
        for (number, parameter) in self.inner.parameters.iter().enumerate() {
            ids[parameter.constant.index()] = arguments.id(number, dictionary, local);
        }
        ids
    }

    /// The steps that it would take on this view, with estimates; with `analyze` it is executed,
    /// and actual rows and times are shown.
    ///
    /// # Errors
    /// There is no time to plan; as [`Prepared::run`], with `analyze`.
    pub fn explain(
        &self,
        invocation: Invocation<'_>,
        analyze: bool,
    ) -> Result<Explanation, QueryError> {
        let mut graphs = Graphs::new(invocation.view);
        let beside = PlanInputs {
            cells: invocation.arguments.cells().map_or(0, Cells::len),
            ..PlanInputs::default()
        };
        let mut run = Run::start(self, invocation, Vec::new());
        let constants = &run.evaluation.constants;
        let (kept, steps) = self.plan(&graphs, constants, beside, &run.limiter)?;
        let plan = &kept.plan;
        let mut actual = Vec::new();
        if analyze {
            let mut workspace = Workspace::new();
            let mut runner = Runner {
                graphs: &mut graphs,
                evaluation: &mut run.evaluation,
                limiter: &mut run.limiter,
                workspace: &mut workspace,
                actual: vec![StepFigures::default(); steps],
            };
            runner.run(plan, Table::unit())?;
            actual = runner.actual;
        }
        Ok(self.explained(plan, &actual))
    }

    fn explained(&self, plan: &Plan, actual: &[StepFigures]) -> Explanation {
        let names = Names {
            terms: &self.inner.compiled.constants,
            variables: &self.inner.query.variables,
        };
        Explainer { names, actual }.plan(plan)
    }

    /// Makes a plan; `beside`: what it reads beside the view.
    pub(crate) fn plan(
        &self,
        graphs: &Graphs<'_>,
        constants: &[TermId],
        beside: PlanInputs<'_>,
        limiter: &Limiter<'_>,
    ) -> Result<(CachedPlan, usize), QueryError> {
        let variables = &self.inner.query.variables;
        let compiled = &self.inner.compiled;
        let terms = &compiled.constants;
        let fresh = compiled.variables;
        let mut planner = Planner::new(graphs, constants, terms, variables, fresh, limiter);
        planner.beside = beside;
        let once = match &self.inner.query.form {
            QueryForm::Select { .. } => false,
            QueryForm::Ask | QueryForm::Describe { .. } => true,
            QueryForm::Construct { template } => {
                !template.iter().any(|quad| has_blank_node(&quad.triple))
            }
        };
        let plan = planner.plan(&compiled.root, &self.inner.needed, once);
        // When time is over the planner stops comparing. Such a plan must not run.
        limiter.check_interrupt()?;
        Ok((CachedPlan::new(plan, graphs, beside.cells), planner.steps()))
    }

    /// Whether its plan may serve on another view of the same size.
    pub(crate) fn keeps_plans(&self, view: &dyn GraphView) -> bool {
        // Summing up all stored named graphs would cost more than planning does.
        self.inner.is_of_procedure || !self.inner.reads_named || !view.dataset().named.has_stored()
    }
}

/// The variables that an answer of this form is made of.
fn needed(form: &QueryForm) -> VarSet {
    match form {
        QueryForm::Select { projection } | QueryForm::Describe { projection } => {
            VarSet::of(projection.iter().copied())
        }
        QueryForm::Ask => VarSet::new(),
        QueryForm::Construct { template } => template_variables(template),
    }
}

/// Whether a new blank node is drawn for each row.
pub(crate) fn has_blank_node(template: &TripleTemplate) -> bool {
    [&template.subject, &template.object]
        .into_iter()
        .any(|term| match term {
            TemplateTerm::BlankNode(_) => true,
            TemplateTerm::Triple(triple) => has_blank_node(triple),
            TemplateTerm::Term(_) | TemplateTerm::Variable(_) => false,
        })
}

/// The variables of a template.
pub(crate) fn template_variables(template: &[QuadTemplate]) -> VarSet {
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
    for quad in template {
        add_triple(&quad.triple, &mut set);
        if let TemplateGraph::Named(NameOrVariable::Variable(v)) = &quad.graph {
            set.insert(*v);
        }
    }
    set
}
