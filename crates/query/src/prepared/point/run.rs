//! The steps of a point query on one row, which is a table: expressions are evaluated as
//! everywhere.
//!
//! The one thing to know before changing it: a step that fails may leave values behind. What runs
//! it takes them away.

use super::{NestedSteps, PointQuery, PointStep};
use crate::algebra::error::QueryError;
use crate::algebra::expression::{ConstantId, Expr};
use crate::algebra::logical::{GraphPosition, Position};
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::eval::evaluate::Row;
use crate::prepared::execute::Run;
use crate::view::graph_view::Source;
use crate::view::layered_view::{Layers, Only};
use somersault_lang::VarId;
use somersault_model::{Direction, QuadIds, TermId};

/// A longer list is the last one of a plan, which looks at the limits meanwhile.
const FEW: usize = 64;

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
        let found = row.follow_query(self);
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
    /// Whether there is a row, or several by the last step.
    fn follow_query(&mut self, query: &PointQuery) -> Result<bool, PointEnd> {
        let (last, before) = match query.steps.split_last() {
            Some(split) if query.takes_rows => split,
            _ => return self.steps(&query.steps),
        };
        if !self.steps(before)? {
            return Ok(false);
        }
        match self.step(last) {
            Err(PointEnd::Several) => self.rows(last),
            one => one,
        }
    }

    /// Makes a row of each id that the last step finds, if there are few.
    fn rows(&mut self, last: &PointStep) -> Result<bool, PointEnd> {
        match last {
            PointStep::Follow {
                graph,
                from,
                predicate,
                direction,
                to,
            } => {
                let Some(graph) = self.graph(*graph) else {
                    return Ok(false);
                };
                let (vertex, predicate) = (self.id(*from), self.constant(*predicate));
                let list = &mut self.list;
                let list = (self.layers).neighbours(graph, vertex, predicate, *direction, list);
                let mut column = self.workspace.ids();
                column.extend_from_slice(&list[..list.len().min(FEW + 1)]);
                self.spread([(*to, column)])
            }
            PointStep::Read {
                batch,
                predicate,
                subject,
                object,
            } => {
                let (batch, predicate) = (self.constant(*batch), self.constant(*predicate));
                let edges = self.layers.batch_edges(batch, predicate);
                let edges = &edges[..edges.len().min(FEW + 1)];
                let columns = [(1, *subject), (2, *object)].map(|(end, variable)| {
                    let mut column = self.workspace.ids();
                    column.extend(edges.iter().map(|edge| edge[end]));
                    (variable, column)
                });
                self.spread(columns)
            }
            _ => Err(PointEnd::Several),
        }
    }

    /// The one row for each value of these columns.
    fn spread<const N: usize>(
        &mut self,
        columns: [(VarId, Vec<TermId>); N],
    ) -> Result<bool, PointEnd> {
        let rows = columns[0].1.len();
        if rows > FEW {
            let buffers = columns.into_iter().map(|(_, column)| column);
            buffers.for_each(|column| self.workspace.give_ids(column));
            return Err(PointEnd::Several);
        }
        let table = std::mem::take(&mut self.table);
        let all = table.variables();
        self.table = table.repeated(rows, &all, self.workspace);
        for (variable, column) in columns {
            self.table.set(variable, column);
        }
        Ok(rows > 0)
    }

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
                let predicate = self.constant(*predicate);
                self.follow(*graph, *from, predicate, *direction, *to)
            }
            PointStep::Read {
                batch,
                predicate,
                subject,
                object,
            } => {
                let (batch, predicate) = (self.constant(*batch), self.constant(*predicate));
                let ends = match self.layers.batch_edges(batch, predicate) {
                    [] => return Ok(false),
                    [[_, from, to]] => [(*subject, *from), (*object, *to)],
                    _ => return Err(PointEnd::Several),
                };
                for (variable, id) in ends {
                    self.set(variable, id);
                }
                Ok(true)
            }
            PointStep::Check(pattern, predicate) => {
                let Some(graph) = self.graph(pattern.graph) else {
                    return Ok(false);
                };
                Ok(self.layers.holds(QuadIds {
                    graph,
                    subject: self.id(pattern.subject),
                    predicate: self.constant(*predicate),
                    object: self.id(pattern.object),
                }))
            }
            PointStep::Bind(variable, expr) => self.bind(*variable, expr),
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

    fn bind(&mut self, variable: VarId, expr: &Expr) -> Result<bool, PointEnd> {
        let row = Row {
            table: &self.table,
            at: 0,
        };
        let evaluation = &mut self.run.evaluation;
        let value = evaluation.evaluate(expr, row);
        let id = value.map(|value| evaluation.id(value));
        self.check_memory()?;
        if let Some(id) = id {
            self.set(variable, id);
        }
        Ok(true)
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

    fn constant(&self, constant: ConstantId) -> TermId {
        self.run.evaluation.constants[constant.index()]
    }

    fn id(&self, position: Position) -> TermId {
        match position {
            Position::Constant(constant) => self.constant(constant),
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
