//! The steps of a point query on one row, which is a table: expressions are evaluated as
//! everywhere.
//!
//! The one thing to know before changing it: a step that fails may leave values behind. What runs
//! it takes them away.

use super::{NestedSteps, PointQuery, PointStep};
use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::algebra::logical::{GraphPosition, Position};
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::Row;
use crate::prepared::execute::Run;
use crate::view::graph_view::Source;
use crate::view::layered_view::{Layers, Only};
use somersault_lang::VarId;
use somersault_model::{Direction, QuadIds, TermId};

/// Why one row does not answer.
enum PointEnd {
    /// A list has several ids.
    Several,
    Error(QueryError),
}

impl From<QueryError> for PointEnd {
    fn from(error: QueryError) -> PointEnd {
        PointEnd::Error(error)
    }
}

/// One row on its way.
struct PointRow<'r, 'a> {
    run: &'r mut Run<'a>,
    layers: &'r Layers,
    workspace: &'r mut Workspace,
    table: Table,
    /// Buffer for lists.
    list: Vec<TermId>,
}

impl PointQuery {
    /// The solutions of the query in the stored graphs, if they are found on one row; `None` if
    /// they take a plan. Lists of subjects are read after [`Layers::index`].
    ///
    /// # Errors
    /// A limit.
    pub(crate) fn table(
        &self,
        run: &mut Run<'_>,
        layers: &Layers,
        workspace: &mut Workspace,
    ) -> Result<Option<Table>, QueryError> {
        let list = workspace.ids();
        let mut row = PointRow {
            table: Table::growing(workspace),
            run,
            layers,
            workspace,
            list,
        };
        let found = row.steps(&self.steps);
        let PointRow {
            mut table, list, ..
        } = row;
        workspace.give_ids(list);
        match found {
            Ok(true) => Ok(Some(table)),
            Ok(false) => {
                table.slice(0, Some(0));
                Ok(Some(table))
            }
            Err(PointEnd::Several) => {
                workspace.give(table);
                Ok(None)
            }
            Err(PointEnd::Error(error)) => Err(error),
        }
    }
}

impl PointRow<'_, '_> {
    /// Whether there is a row.
    fn steps(&mut self, steps: &[PointStep]) -> Result<bool, PointEnd> {
        for step in steps {
            if !self.step(step)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn step(&mut self, step: &PointStep) -> Result<bool, PointEnd> {
        match step {
            PointStep::Follow {
                graph,
                from,
                predicate,
                direction,
                to,
            } => {
                let predicate = self.run.evaluation.constants[predicate.index()];
                self.follow(*graph, *from, predicate, *direction, *to)
            }
            PointStep::Check(pattern, predicate) => {
                let Some(graph) = self.graph(pattern.graph) else {
                    return Ok(false);
                };
                Ok(self.layers.holds(QuadIds {
                    graph,
                    subject: self.id(pattern.subject),
                    predicate: self.run.evaluation.constants[predicate.index()],
                    object: self.id(pattern.object),
                }))
            }
            PointStep::Bind(variable, expr) => {
                let row = Row {
                    table: &self.table,
                    at: 0,
                };
                let evaluation = &mut self.run.evaluation;
                let value = evaluation.evaluate(expr, row);
                let id = value.map(|value| evaluation.id(value));
                self.check_memory()?;
                if let Some(id) = id {
                    self.set(*variable, id);
                }
                Ok(true)
            }
            PointStep::Filter(expr) => self.holds(expr),
            PointStep::Optional(inner) => {
                if !self.steps(&inner.steps)? {
                    self.forget(inner);
                }
                Ok(true)
            }
            PointStep::Exists(at, inner) => {
                let found = self.steps(&inner.steps)?;
                self.forget(inner);
                let exists = &mut self.run.evaluation.exists;
                if exists.len() <= *at {
                    exists.resize_with(at + 1, Vec::new);
                }
                exists[*at].clear();
                exists[*at].push(found);
                Ok(true)
            }
        }
    }

    fn follow(
        &mut self,
        graph: GraphPosition,
        from: Position,
        predicate: TermId,
        direction: Direction,
        to: VarId,
    ) -> Result<bool, PointEnd> {
        let Some(graph) = self.graph(graph) else {
            return Ok(false);
        };
        let vertex = self.id(from);
        let list = &mut self.list;
        match self.layers.only(graph, vertex, predicate, direction, list) {
            Only::None => Ok(false),
            Only::One(id) => {
                self.set(to, id);
                Ok(true)
            }
            Only::Several => Err(PointEnd::Several),
        }
    }

    fn holds(&mut self, condition: &Expr) -> Result<bool, PointEnd> {
        let row = Row {
            table: &self.table,
            at: 0,
        };
        let holds = self.run.evaluation.boolean(condition, row) == Some(true);
        self.check_memory()?;
        Ok(holds)
    }

    fn check_memory(&self) -> Result<(), QueryError> {
        let held = self.run.evaluation.held_bytes();
        self.run.limiter.check_memory(held)
    }

    /// The graph of a pattern; `None` if the dataset has no such graph.
    fn graph(&self, graph: GraphPosition) -> Option<TermId> {
        match graph {
            GraphPosition::Named(name) => {
                match self.run.view().dataset().named_source(self.id(name))? {
                    Source::Stored(graph) => Some(graph),
                    Source::Window(_) => None,
                }
            }
            _ => Some(TermId::DEFAULT_GRAPH),
        }
    }

    fn id(&self, position: Position) -> TermId {
        match position {
            Position::Constant(constant) => self.run.evaluation.constants[constant.index()],
            Position::Variable(variable) => self.table.get(variable, 0),
        }
    }

    fn set(&mut self, variable: VarId, id: TermId) {
        let mut column = self.workspace.ids();
        column.push(id);
        self.table.set(variable, column);
    }

    fn forget(&mut self, inner: &NestedSteps) {
        for variable in &inner.variables {
            if let Some(column) = self.table.take(*variable) {
                self.workspace.give_ids(column);
            }
        }
    }
}
