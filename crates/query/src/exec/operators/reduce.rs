//! Reductions: of the rows those are kept whose value has an edge of a predicate at all. The
//! predicate's index vertex tells where it is short; where it is much longer than the table, the
//! lists of the rows' own vertices are asked. More rows than necessary may pass, never fewer: the
//! pattern itself comes later.

use crate::algebra::error::QueryError;
use crate::algebra::logical::{Position, QuadPattern};
use crate::algebra::varset::VarSet;
use crate::context::table::Table;
use crate::exec::explore::{Explorer, has_unbound};
use crate::exec::names::Names;
use crate::exec::operators::{Input, PhysicalOperator};
use crate::exec::run::Runner;
use crate::view::sources;
use somersault_lang::VarId;
use somersault_model::{Direction, TermId};

/// An index vertex that is at most this many times as long as the table is read as a whole.
const READ_FACTOR: usize = 8;
/// Rows between two looks at the limits.
const ROWS_AT_ONCE: usize = 1 << 12;

/// Keeps the rows whose value has an edge as the pattern wants it, whatever its other end.
#[derive(Debug)]
pub(crate) struct Reduce {
    pub(crate) variable: VarId,
    pub(crate) pattern: QuadPattern,
}

impl PhysicalOperator for Reduce {
    fn mentioned(&self) -> VarSet {
        VarSet::of([self.variable])
    }

    fn may_split(&self) -> bool {
        true
    }

    fn may_multiply(&self) -> bool {
        false
    }

    fn explain(&self, names: &Names<'_>, _bound: &VarSet) -> String {
        let variable = names.variable(self.variable);
        format!("reduce {variable} by {}", names.pattern(&self.pattern))
    }

    fn run(&self, input: Input<'_>, runner: &mut Runner<'_, '_>) -> Result<Table, QueryError> {
        let explorer = &mut runner.explorer(input.step, input.wanted);
        let Reduce { variable, pattern } = self;
        reduce(explorer, *variable, pattern, input.table)
    }
}

/// Keeps the rows whose value of `variable` has an edge as the pattern wants it.
fn reduce(
    explorer: &mut Explorer<'_, '_>,
    variable: VarId,
    pattern: &QuadPattern,
    mut table: Table,
) -> Result<Table, QueryError> {
    let column = table.column(variable).filter(|c| !has_unbound(c));
    let (Position::Constant(predicate), Some(column)) = (pattern.predicate, column) else {
        // The planner reduces by neither; leaving the rows as they are is right all the same.
        table.keep(explorer.keep, explorer.workspace);
        return Ok(table);
    };
    let constants = explorer.constants;
    let predicate = constants[predicate.index()];
    let direction = if pattern.subject == Position::Variable(variable) {
        Direction::Out
    } else {
        Direction::In
    };
    let graphs = explorer.graphs;
    let view = graphs.view();
    let reads = graphs.reads(pattern.graph, |c| constants[c.index()]);
    let mut lists = explorer.workspace.lists();
    let vertices = sources::vertices_at_most(view, &reads, predicate, direction);
    let index = (vertices <= READ_FACTOR * column.len())
        .then(|| sources::vertices_with(view, &reads, predicate, direction, &mut lists));
    let has_edge = |vertex: &TermId| match index {
        Some(index) => index.binary_search(vertex).is_ok(),
        None => sources::neighbour_estimate(view, &reads, *vertex, predicate, direction) > 0,
    };
    let mut parents = explorer.workspace.rows();
    for (at, part) in column.chunks(ROWS_AT_ONCE).enumerate() {
        if parents.len() >= explorer.wanted {
            break;
        }
        let first = (at * ROWS_AT_ONCE) as u32;
        let found = (first..).zip(part).filter(|(_, vertex)| has_edge(vertex));
        parents.extend(found.map(|(row, _)| row));
        explorer.limiter.check_growth(&table, parents.len(), 0)?;
    }
    let workspace = &mut *explorer.workspace;
    workspace.give_lists(lists);
    let table = table.gather(&parents, explorer.keep, workspace);
    workspace.give_rows(parents);
    Ok(table)
}
