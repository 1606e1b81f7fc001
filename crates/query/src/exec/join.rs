//! Joins of two tables by hash, where SPARQL's compatibility is more than equality: an unbound
//! variable is compatible with everything.

use crate::algebra::error::QueryError;
use crate::algebra::varset::VarSet;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::Workspace;
use crate::exec::distinct_rows::{RowIndex, by_number};
use somersault_lang::VarId;
use somersault_model::TermId;

/// Pairs that are made between two looks at the limits.
const PAIRS_PER_LOOK: usize = 1 << 12;

/// The shared variables of two tables, split by whether all rows have values for them.
struct SharedVariables {
    /// Bound in every row of both: the hashed columns.
    exact: Vec<VarId>,
    /// The others: compared per pair.
    loose: Vec<VarId>,
}

impl SharedVariables {
    fn of(left: &Table, right: &Table, shared: &VarSet) -> SharedVariables {
        let everywhere = |table: &Table, v: VarId| {
            table
                .column(v)
                .is_some_and(|ids| !ids.contains(&TermId::UNBOUND))
        };
        let both = |v: &VarId| left.column(*v).is_some() && right.column(*v).is_some();
        let (exact, loose) = shared
            .iter()
            .filter(both)
            .partition(|v| everywhere(left, *v) && everywhere(right, *v));
        SharedVariables { exact, loose }
    }

    fn compatible(&self, left: &Table, l: usize, right: &Table, r: usize) -> bool {
        self.loose.iter().all(|v| {
            let (a, b) = (left.get(*v, l), right.get(*v, r));
            a == b || a.is_unbound() || b.is_unbound()
        })
    }
}

/// Calls `found` with every compatible pair of rows, in the order of the left ones.
fn pairs(
    left: &Table,
    right: &Table,
    shared: &SharedVariables,
    limiter: &mut Limiter<'_>,
    mut found: impl FnMut(u32, u32, &Limiter<'_>) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let mut index = RowIndex::of(right, &shared.exact, limiter)?;
    let mut checks = 0;
    index.probe(left, &shared.exact, limiter, |l, rows, limiter| {
        for r in rows {
            checks += 1;
            if checks % PAIRS_PER_LOOK == 0 {
                limiter.check_interrupt()?;
            }
            if shared.compatible(left, l as usize, right, *r as usize) {
                found(l, *r, limiter)?;
            }
        }
        Ok(())
    })
}

/// The pairs of rows of a join, as two lists.
fn pair_lists(
    left: &Table,
    right: &Table,
    shared: &SharedVariables,
    limiter: &mut Limiter<'_>,
) -> Result<(Vec<u32>, Vec<u32>), QueryError> {
    // The smaller one is hashed; the pairs come in the order of the left rows all the same.
    let turned = left.rows < right.rows / 4;
    let (mut from_left, mut from_right) = (Vec::new(), Vec::new());
    let width = 8 * (left.present().count() + right.present().count() + 1);
    let mut found = |l: u32, r: u32, limiter: &Limiter<'_>| {
        from_left.push(l);
        from_right.push(r);
        if from_left.len() % PAIRS_PER_LOOK == 0 {
            limiter.check_memory(from_left.len() * width)?;
        }
        Ok(())
    };
    if turned {
        pairs(right, left, shared, limiter, |r, l, limiter| {
            found(l, r, limiter)
        })?;
        let (_, order) = by_number(&from_left, left.rows);
        let in_order = |list: &[u32]| order.iter().map(|at| list[*at as usize]).collect();
        return Ok((in_order(&from_left), in_order(&from_right)));
    }
    pairs(left, right, shared, limiter, found)?;
    Ok((from_left, from_right))
}

/// The join of two tables; of its columns those that are wanted.
pub(crate) fn join(
    left: Table,
    mut right: Table,
    shared: &VarSet,
    keep: &VarSet,
    limiter: &mut Limiter<'_>,
    workspace: &mut Workspace,
) -> Result<Table, QueryError> {
    let shared = SharedVariables::of(&left, &right, shared);
    let (from_left, from_right) = pair_lists(&left, &right, &shared, limiter)?;
    let mut table = left.gather(&from_left, keep, workspace);
    right.keep(keep, workspace);
    for (variable, column) in right.present() {
        let theirs = from_right.iter().map(|row| column[*row as usize]);
        match table.take(variable) {
            // Where both have a value they agree.
            Some(mut mine) => {
                for (mine, theirs) in mine.iter_mut().zip(theirs) {
                    if mine.is_unbound() {
                        *mine = theirs;
                    }
                }
                table.set(variable, mine);
            }
            None => {
                let mut column = workspace.ids();
                column.extend(theirs);
                table.set(variable, column);
            }
        }
    }
    workspace.give(right);
    Ok(table)
}

/// For each row of the left table, whether it is compatible with a row of the right one with which
/// it has a variable in common.
pub(crate) fn taken(
    left: &Table,
    right: &Table,
    shared: &VarSet,
    limiter: &mut Limiter<'_>,
) -> Result<Vec<bool>, QueryError> {
    let split = SharedVariables::of(left, right, shared);
    let mut taken = vec![false; left.rows];
    pairs(left, right, &split, limiter, |l, r, _| {
        let common = || {
            split.loose.iter().any(|v| {
                !left.get(*v, l as usize).is_unbound() && !right.get(*v, r as usize).is_unbound()
            })
        };
        if !split.exact.is_empty() || common() {
            taken[l as usize] = true;
        }
        Ok(())
    })?;
    Ok(taken)
}

/// No row of the other table.
const NONE: u32 = u32::MAX;

/// The OPTIONAL of the rows of `left`: each with every row of `matched` that has the number of its
/// group, or as it is if there is none. Without `groups`, each row is a group.
pub(crate) fn extended(
    left: Table,
    mut matched: Table,
    groups: Option<&[u32]>,
    count: usize,
    keep: &VarSet,
    limiter: &mut Limiter<'_>,
    workspace: &mut Workspace,
) -> Result<Table, QueryError> {
    let numbers = matched.origin.take().unwrap_or_default();
    let (starts, order) = by_number(&numbers, count);
    workspace.give_rows(numbers);
    let (mut parents, mut picks) = (workspace.rows(), workspace.rows());
    let mut next_look = PAIRS_PER_LOOK;
    for row in 0..left.rows {
        let group = groups.map_or(row, |groups| groups[row] as usize);
        match &order[starts[group] as usize..starts[group + 1] as usize] {
            [] => picks.push(NONE),
            list => picks.extend_from_slice(list),
        }
        parents.resize(picks.len(), row as u32);
        if picks.len() >= next_look {
            next_look = picks.len() + PAIRS_PER_LOOK;
            limiter.check_growth(&left, parents.len(), matched.present().count())?;
        }
    }
    matched.keep(keep, workspace);
    let mut columns = Vec::new();
    for (variable, ids) in matched.present() {
        let mut column = workspace.ids();
        let before = left.column(variable);
        let cell = |(pick, row): (&u32, &u32)| match *pick {
            NONE => before.map_or(TermId::UNBOUND, |ids| ids[*row as usize]),
            pick => ids[pick as usize],
        };
        column.extend(picks.iter().zip(&parents).map(cell));
        columns.push((variable, column));
    }
    let mut table = left.gather(&parents, keep, workspace);
    for (variable, column) in columns {
        if let Some(before) = table.take(variable) {
            workspace.give_ids(before);
        }
        table.set(variable, column);
    }
    workspace.give_rows(parents);
    workspace.give_rows(picks);
    workspace.give(matched);
    limiter.check_memory(table.bytes())?;
    Ok(table)
}
