//! One execution of a prepared query: its constants are looked up, the kept plan is taken or one is
//! made, and the table that it leaves becomes an answer.

use crate::algebra::error::QueryError;
use crate::context::answer::{Answer, Solutions};
use crate::context::cells::Cells;
use crate::context::execution::{Execution, PlanChoices};
use crate::context::group_answer::GroupAnswer;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::Evaluation;
use crate::exec::construct::construct;
use crate::exec::describe::describe;
use crate::exec::run::Runner;
use crate::exec::term_order::in_order;
use crate::plan::planner::PlanInputs;
use crate::prepared::parameters::Arguments;
use crate::prepared::plan_memory::ThreadPlan;
use crate::prepared::point::PointQuery;
use crate::prepared::{Prepared, has_blank_node};
use crate::value::random::Random;
use crate::view::graph_view::GraphView;
use crate::view::layered_view::Layers;
use crate::view::local_terms::LocalTerms;
use crate::view::sources::Graphs;
use oxrdf::Term;
use somersault_lang::{QueryForm, VarId};
use somersault_model::TermId;
use std::sync::Arc;

/// A plan that expects to make more rows than this is no light query's.
const LIGHT_ROWS: u64 = 1 << 16;

/// One evaluation of a prepared query: on which view, and within which limits.
pub struct Invocation<'a> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) view: &'a dyn GraphView,
    pub(crate) execution: &'a Execution,
    /// Terms of the view that its dictionary does not know.
    local: LocalTerms,
    reuse: Reuse,
}

/// Buffers that an answer leaves for the next one, and its reference to the column names, whose
/// count all threads would otherwise write to.
#[derive(Default)]
struct Reuse {
    columns: Vec<Vec<TermId>>,
    names: Option<Arc<[String]>>,
}

impl<'a> Invocation<'a> {
    /// An evaluation of a query without parameters.
    pub fn new(view: &'a dyn GraphView, execution: &'a Execution) -> Invocation<'a> {
        Invocation::of(Arguments::NONE, view, execution)
    }

    pub(crate) fn of(
        arguments: Arguments<'a>,
        view: &'a dyn GraphView,
        execution: &'a Execution,
    ) -> Invocation<'a> {
        Invocation {
            arguments,
            view,
            execution,
            local: LocalTerms::default(),
            reuse: Reuse::default(),
        }
    }

    /// With these values of the parameters, in their order.
    #[must_use]
    pub fn terms(self, values: &'a [Term]) -> Invocation<'a> {
        self.with(Arguments::Terms {
            values,
            known: None,
        })
    }

    /// With the terms of these ids as values of the parameters, in their order. They are ids of the
    /// view's dictionary.
    #[must_use]
    pub fn ids(self, ids: &'a [TermId]) -> Invocation<'a> {
        self.with(Arguments::Ids(ids))
    }

    /// Over a view that has ids of these terms, which its dictionary does not know.
    #[must_use]
    pub(crate) fn knowing(self, local: LocalTerms) -> Invocation<'a> {
        Invocation { local, ..self }
    }

    /// With the memory of an earlier answer.
    #[must_use]
    pub fn reusing(mut self, earlier: Answer) -> Invocation<'a> {
        if let Answer::Solutions(solutions) = earlier {
            self.reuse = Reuse {
                columns: solutions.columns,
                names: Some(solutions.variables),
            };
        }
        self
    }

    pub(crate) fn with(self, arguments: Arguments<'a>) -> Invocation<'a> {
        Invocation { arguments, ..self }
    }
}

/// One execution.
pub(crate) struct Run<'a> {
    pub(crate) evaluation: Evaluation<'a>,
    pub(crate) limiter: Limiter<'a>,
    view: &'a dyn GraphView,
    reuse: Reuse,
}

impl<'a> Run<'a> {
    pub(crate) fn start(
        prepared: &'a Prepared,
        invocation: Invocation<'a>,
        ids: Vec<TermId>,
    ) -> Run<'a> {
        let Invocation {
            arguments,
            view,
            execution,
            mut local,
            reuse,
        } = invocation;
        let random = Random::new(execution.query, execution.close);
        let dictionary = view.dictionary();
        let constants = prepared.constants(arguments, dictionary, &mut local, ids);
        let base = prepared.inner().query.base.as_deref();
        let evaluation = Evaluation::new(dictionary, constants, local, base, execution.now, random);
        Run {
            evaluation: evaluation.over(view, arguments.cells()),
            limiter: Limiter::start(execution).watching(view),
            view,
            reuse,
        }
    }

    /// The view that it reads.
    pub(crate) fn view(&self) -> &'a dyn GraphView {
        self.view
    }

    /// The solutions, by a plan.
    pub(crate) fn solutions(
        &mut self,
        prepared: &Prepared,
        workspace: &mut Workspace,
    ) -> Result<Table, QueryError> {
        let mut graphs = Graphs::new(self.view);
        let beside = PlanInputs {
            cells: self.evaluation.cells.map_or(0, Cells::len),
            maintained: self.evaluation.maintained,
        };
        let kept = &prepared.inner().kept;
        let keeps = prepared.keeps_plans(self.view)
            && self.limiter.plan_choices() == PlanChoices::default();
        let held = ThreadPlan::take(kept);
        let earlier = keeps
            .then(|| kept.get(&graphs, beside.cells, held))
            .flatten();
        let was_kept = earlier.is_some();
        let held = match earlier {
            Some(held) => held,
            None => {
                let constants = &self.evaluation.constants;
                let (plan, _) = prepared.plan(&graphs, constants, beside, &self.limiter)?;
                let plan = Arc::new(plan);
                if keeps {
                    kept.put(plan)
                } else {
                    kept.unkept(plan)
                }
            }
        };
        let plan = &*held.plan;
        self.limiter.expect(plan.expected(), LIGHT_ROWS)?;
        self.limiter.expect_help(plan.expected());
        let mut runner = Runner {
            graphs: &mut graphs,
            evaluation: &mut self.evaluation,
            limiter: &mut self.limiter,
            workspace,
            actual: Vec::new(),
        };
        // ASK wants to know of one solution only.
        let table = match prepared.inner().query.form {
            QueryForm::Ask => runner.run_until(&plan.plan, 1),
            _ => runner.run(&plan.plan, Table::unit()),
        };
        let rows = self.limiter.rows();
        if was_kept && plan.is_surprised_by(rows) {
            // Perhaps these constants are unlike those that it was made for.
            self.limiter.end_budget();
            let constants = &self.evaluation.constants;
            if let Ok((other, _)) = prepared.plan(&graphs, constants, beside, &self.limiter) {
                kept.reconsider(plan, rows, other);
            }
        }
        held.hold();
        table
    }

    /// The answers of queries that were evaluated together.
    pub(crate) fn split(
        self,
        prepared: &Prepared,
        table: Table,
        cells: &Cells,
        workspace: &mut Workspace,
    ) -> Result<GroupAnswer, QueryError> {
        let variables = prepared.inner().cohort.as_ref().map(|c| &*c.variables);
        let variables = variables.unwrap_or_default();
        let keys: Vec<&[TermId]> = variables.iter().filter_map(|v| table.column(*v)).collect();
        // The number of the row behind that of its cell: rows of one cell keep their order.
        let mut order = workspace.order();
        let columns = prepared.inner().query.projection().len();
        self.limiter
            .check_memory(table.rows * (size_of::<u64>() + columns * size_of::<TermId>()))?;
        cells.look_up(&keys, 0..table.rows, |row, cell| {
            let cell = cell.expect("every row was joined with the cells");
            order.push(u64::from(cell) << 32 | row as u64);
        });
        order.sort_unstable();
        let projection = prepared.inner().query.projection().iter();
        let columns = projection.map(|variable| match table.column(*variable) {
            Some(ids) => order.iter().map(|key| ids[*key as u32 as usize]).collect(),
            None => vec![TermId::UNBOUND; order.len()],
        });
        let columns: Vec<Vec<TermId>> = columns.collect();
        let solutions = Solutions {
            variables: Arc::clone(&prepared.inner().names),
            rows: table.rows,
            // Before the execution lets go of what it found.
            held: self.evaluation.dictionary.hold(columns.iter().flatten()),
            columns,
            local: self.evaluation.local.into_terms(),
        };
        let answer = GroupAnswer::new(solutions, order.iter().map(|key| (key >> 32) as u32));
        workspace.give(table);
        workspace.give_order(order);
        workspace.give_ids(self.evaluation.constants);
        Ok(answer)
    }

    pub(crate) fn answer(
        mut self,
        prepared: &Prepared,
        mut table: Table,
        workspace: &mut Workspace,
    ) -> Result<Answer, QueryError> {
        for parameter in &prepared.inner().parameters {
            // The value given for a variable is its value in every solution.
            if let Some(variable) = parameter.variable
                && prepared.inner().needed.contains(variable)
            {
                let id = self.evaluation.constants[parameter.constant.index()];
                let mut column = workspace.ids();
                column.resize(table.rows, id);
                table.set(variable, column);
            }
        }
        let answer = match &prepared.inner().query.form {
            QueryForm::Ask => Answer::Boolean(table.rows > 0),
            QueryForm::Construct { template } => {
                if template.iter().any(|quad| has_blank_node(&quad.triple)) {
                    table = in_order(&self.evaluation, &mut self.limiter, table, workspace)?;
                }
                construct(template, &table, &mut self.evaluation, &mut self.limiter)?
            }
            QueryForm::Describe { projection } => Answer::Graph(describe(
                projection,
                &table,
                &Graphs::new(self.view),
                &self.evaluation,
                &mut self.limiter,
            )?),
            QueryForm::Select { projection } => {
                self.limiter.answer_rows(table.rows)?;
                let rows = table.rows;
                let columns = columns(&mut table, projection, workspace, self.reuse.columns);
                Answer::Solutions(Solutions {
                    variables: (self.reuse.names)
                        .filter(|held| Arc::ptr_eq(held, &prepared.inner().names))
                        .unwrap_or_else(|| Arc::clone(&prepared.inner().names)),
                    // Before the execution lets go of what it found.
                    held: self.evaluation.dictionary.hold(columns.iter().flatten()),
                    columns,
                    rows,
                    local: self.evaluation.local.into_terms(),
                })
            }
        };
        workspace.give(table);
        workspace.give_ids(self.evaluation.constants);
        Ok(answer)
    }
}

impl Prepared {
    /// Evaluates the query once. `finish` makes of its solutions what the caller wants.
    pub(crate) fn evaluate<'a, T>(
        &'a self,
        invocation: Invocation<'a>,
        finish: impl FnOnce(Run<'a>, Table, &mut Workspace) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.evaluate_over(invocation, |_| Ok(()), finish)
    }

    /// The same, for a query that also reads what `lend` puts into the execution.
    pub(crate) fn evaluate_over<'a, T>(
        &'a self,
        invocation: Invocation<'a>,
        lend: impl FnOnce(&mut Run<'a>) -> Result<(), QueryError>,
        finish: impl FnOnce(Run<'a>, Table, &mut Workspace) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        self.run_once(invocation, |mut run, workspace| {
            lend(&mut run)?;
            let table = run.solutions(self, workspace)?;
            finish(run, table, workspace)
        })
    }

    /// Evaluates the query on one row, see [`PointQuery`]; `None` if it takes a plan.
    pub(crate) fn evaluate_point<'a, T>(
        &'a self,
        (point, layers): (&PointQuery, &Layers),
        invocation: Invocation<'a>,
        finish: impl FnOnce(Run<'a>, Table, &mut Workspace) -> Result<T, QueryError>,
    ) -> Result<Option<T>, QueryError> {
        self.run_once(invocation, |mut run, workspace| {
            match point.table(&mut run, layers, workspace)? {
                Some(table) => finish(run, table, workspace).map(Some),
                None => Ok(None),
            }
        })
    }

    fn run_once<'a, T>(
        &'a self,
        mut invocation: Invocation<'a>,
        work: impl FnOnce(Run<'a>, &mut Workspace) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let Invocation {
            view, execution, ..
        } = invocation;
        let result = Workspace::of_thread(|workspace| {
            let columns = invocation.reuse.columns.drain(..);
            columns.for_each(|ids| workspace.give_ids(ids));
            let run = Run::start(self, invocation, workspace.ids());
            work(run, workspace)
        });
        if let Err(QueryError::OverBudget | QueryError::Memory { .. }) = result
            && execution.budget.is_some()
        {
            self.inner().kept.tried(false);
        }
        match view.end() {
            Some(end) if result.is_ok() => Err(QueryError::of_pin(end, &execution.limits)),
            _ => result,
        }
    }

    /// The solutions as they are, without what an answer makes of them.
    pub(crate) fn table(&self, invocation: Invocation<'_>) -> Result<Table, QueryError> {
        self.evaluate(invocation, |run, table, workspace| {
            workspace.give_ids(run.evaluation.constants);
            Ok(table)
        })
    }
}

/// The columns of an answer, in order; what has no column is unbound.
fn columns(
    table: &mut Table,
    projection: &[VarId],
    workspace: &mut Workspace,
    mut columns: Vec<Vec<TermId>>,
) -> Vec<Vec<TermId>> {
    let rows = table.rows;
    // An answer whose memory is used again returns its buffers.
    let comes_back = columns.capacity() > 0;
    columns.reserve(projection.len());
    for (at, variable) in projection.iter().enumerate() {
        let column = match projection[..at].iter().position(|v| v == variable) {
            Some(earlier) => columns[earlier].clone(),
            None => match table.take(*variable) {
                // A buffer that is much too large is not given away with the answer.
                Some(column) if !comes_back && column.capacity() > 2 * rows + 16 => {
                    let own = column.as_slice().to_vec();
                    workspace.give_ids(column);
                    own
                }
                Some(column) => column,
                None => vec![TermId::UNBOUND; rows],
            },
        };
        columns.push(column);
    }
    columns
}
