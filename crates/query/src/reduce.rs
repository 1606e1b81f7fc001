//! Reductions: of the rows those are kept whose value has an edge of a predicate at all. The
//! predicate's index vertex tells where it is short; where it is much longer than the table, the
//! lists of the rows' own vertices are asked. More rows than necessary may pass, never fewer: the
//! pattern itself comes later.

use crate::QueryError;
use crate::explore::{Explorer, has_unbound};
use crate::logical::{Position, QuadPattern};
use crate::sources;
use crate::table::Table;
use crate::varset::VarSet;
use somersault_lang::VarId;
use somersault_model::{Direction, TermId};

/// An index vertex at most so many times as long as the table is read as a whole.
const READ_FACTOR: u64 = 8;
/// Rows between two looks at the limits.
const ROWS_AT_ONCE: usize = 1 << 12;

/// Keeps the rows whose value of `variable` has an edge as the pattern wants it.
pub(crate) fn reduce(
    explorer: &mut Explorer<'_, '_>,
    variable: VarId,
    pattern: &QuadPattern,
    keep: &VarSet,
    wanted: usize,
    mut table: Table,
) -> Result<Table, QueryError> {
    let column = table.column(variable).filter(|c| !has_unbound(c));
    let (Position::Constant(predicate), Some(column)) = (pattern.predicate, column) else {
        // The planner reduces by neither; leaving the rows as they are is right all the same.
        table.keep(keep, explorer.workspace);
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
    let view = graphs.view;
    let reads = graphs.reads(pattern.graph, |c| constants[c.index()]);
    let vertices = reads.iter().map(|source| {
        let statistics = view.predicate_statistics(*source, predicate);
        match direction {
            Direction::Out => statistics.subjects,
            Direction::In => statistics.objects,
        }
    });
    let (mut list, mut merged) = (explorer.workspace.ids(), explorer.workspace.ids());
    let index = if vertices.sum::<u64>() > READ_FACTOR * column.len() as u64 {
        None
    } else if let [source] = &*reads {
        Some(view.vertices_with(*source, predicate, direction, &mut list))
    } else {
        sources::vertices_with(view, &reads, predicate, direction, &mut merged);
        Some(&*merged)
    };
    let has_edge = |vertex: &TermId| match index {
        Some(index) => index.binary_search(vertex).is_ok(),
        None => sources::neighbour_estimate(view, &reads, *vertex, predicate, direction) > 0,
    };
    let mut parents = explorer.workspace.rows();
    for (at, part) in column.chunks(ROWS_AT_ONCE).enumerate() {
        if parents.len() >= wanted {
            break;
        }
        let first = (at * ROWS_AT_ONCE) as u32;
        let found = (first..).zip(part).filter(|(_, vertex)| has_edge(vertex));
        parents.extend(found.map(|(row, _)| row));
        explorer.guard.making(&table, parents.len(), 0)?;
    }
    let workspace = &mut *explorer.workspace;
    workspace.give_ids(list);
    workspace.give_ids(merged);
    let table = table.gather(&parents, keep, workspace);
    workspace.give_rows(parents);
    Ok(table)
}
