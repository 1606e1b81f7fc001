//! Joins of two tables by hash, where SPARQL's compatibility is more than equality: an unbound
//! variable is compatible with everything.

use crate::QueryError;
use crate::execution::Guard;
use crate::rows::{Key, RowIndex};
use crate::table::Table;
use crate::varset::VarSet;
use somersault_lang::VarId;
use somersault_model::TermId;

/// The shared variables of two tables, split by whether all rows have values for them.
struct Shared {
    /// Bound in every row of both: what is hashed.
    exact: Vec<VarId>,
    /// The others: compared per pair.
    loose: Vec<VarId>,
}

impl Shared {
    fn of(left: &Table, right: &Table, shared: &VarSet) -> Shared {
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
        Shared { exact, loose }
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
    shared: &Shared,
    guard: &mut Guard<'_>,
    mut found: impl FnMut(u32, u32, &Guard<'_>) -> Result<(), QueryError>,
) -> Result<(), QueryError> {
    let (left_key, right_key) = (Key::of(left, &shared.exact), Key::of(right, &shared.exact));
    let mut index = RowIndex::default();
    // Added from the last row on, so that chains come out in the order of the rows.
    for row in (0..right.rows).rev() {
        guard.tick()?;
        index.add(right_key.hash(row));
    }
    guard.fits(index.bytes() + left.bytes() + right.bytes())?;
    for l in 0..left.rows {
        guard.tick()?;
        for entry in index.under(left_key.hash(l)) {
            let r = right.rows - 1 - entry as usize;
            if left_key.equals(l, &right_key, r) && shared.compatible(left, l, right, r) {
                guard.tick()?;
                found(l as u32, r as u32, guard)?;
            }
        }
    }
    Ok(())
}

/// The pairs of rows of a join, as two lists.
fn pair_lists(
    left: &Table,
    right: &Table,
    shared: &Shared,
    guard: &mut Guard<'_>,
) -> Result<(Vec<u32>, Vec<u32>), QueryError> {
    let (mut from_left, mut from_right) = (Vec::new(), Vec::new());
    let width = 8 * (left.present().count() + right.present().count() + 1);
    pairs(left, right, shared, guard, |l, r, guard| {
        from_left.push(l);
        from_right.push(r);
        if from_left.len() % 4096 == 0 {
            guard.fits(from_left.len() * width)?;
        }
        Ok(())
    })?;
    Ok((from_left, from_right))
}

/// The rows of the left table at `from_left`, extended by those of the right one at `from_right`.
fn combine(left: Table, right: &Table, from_left: &[u32], from_right: &[u32]) -> Table {
    let mut table = left.gather(from_left);
    for (variable, column) in right.present() {
        let theirs = from_right.iter().map(|row| column[*row as usize]);
        let column = match table.take(variable) {
            // Where both have a value they agree.
            Some(mine) => mine
                .into_iter()
                .zip(theirs)
                .map(|(mine, theirs)| if mine.is_unbound() { theirs } else { mine })
                .collect(),
            None => theirs.collect(),
        };
        table.set(variable, column);
    }
    table
}

/// The join of two tables.
pub(crate) fn join(
    left: Table,
    right: &Table,
    shared: &VarSet,
    guard: &mut Guard<'_>,
) -> Result<Table, QueryError> {
    let shared = Shared::of(&left, right, shared);
    let (from_left, from_right) = pair_lists(&left, right, &shared, guard)?;
    Ok(combine(left, right, &from_left, &from_right))
}

/// The rows of the left table that are compatible with no row of the right one with which they
/// have a variable in common.
pub(crate) fn minus(
    left: Table,
    right: &Table,
    shared: &VarSet,
    guard: &mut Guard<'_>,
) -> Result<Table, QueryError> {
    let split = Shared::of(&left, right, shared);
    let mut taken = vec![false; left.rows];
    pairs(&left, right, &split, guard, |l, r, _| {
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
    let kept: Vec<u32> = (0..left.rows as u32)
        .filter(|row| !taken[*row as usize])
        .collect();
    Ok(left.gather(&kept))
}

/// What OPTIONAL makes of the rows of `left`: `matched`, which are rows extended by the optional
/// part and numbered by the row they came from, and as they are those that have no match.
pub(crate) fn with_unmatched(left: Table, mut matched: Table) -> Table {
    let mut extended = vec![false; left.rows];
    let numbers = matched.origin.take().unwrap_or_default();
    for row in &numbers {
        extended[*row as usize] = true;
    }
    // Rows that were numbered from further outside keep those numbers.
    matched.origin = left
        .origin
        .as_ref()
        .map(|outer| numbers.iter().map(|row| outer[*row as usize]).collect());
    let unmatched: Vec<u32> = (0..left.rows as u32)
        .filter(|row| !extended[*row as usize])
        .collect();
    if !unmatched.is_empty() {
        matched.append(left.gather(&unmatched));
    }
    matched
}
