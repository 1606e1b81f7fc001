//! ORDER BY: keys are evaluated once per row, then row numbers are sorted. With a LIMIT behind it
//! only the first rows are looked for.

use crate::QueryError;
use crate::evaluate::{Evaluation, Row};
use crate::execution::Guard;
use crate::expression::Expr;
use crate::table::Table;
use crate::value::Value;
use std::cmp::Ordering;

/// The numbers of the rows in order; of these the first `limit`.
pub(crate) fn order(
    evaluation: &mut Evaluation<'_>,
    guard: &mut Guard<'_>,
    keys: &[(Expr, bool)],
    limit: Option<usize>,
    table: &Table,
) -> Result<Vec<u32>, QueryError> {
    let mut values: Vec<Vec<Option<Value>>> = Vec::with_capacity(table.rows);
    for at in 0..table.rows {
        guard.tick()?;
        let row = Row { table, at };
        let key = keys
            .iter()
            .map(|(key, _)| evaluation.evaluate_value(key, row))
            .collect();
        values.push(key);
        guard.fits(evaluation.held_bytes())?;
    }
    guard.fits(table.bytes() + values.len() * keys.len() * 64)?;
    let mut order: Vec<u32> = (0..table.rows as u32).collect();
    merge_sort(&mut order, &mut |a, b| {
        let (a, b) = (&values[a as usize], &values[b as usize]);
        for ((a, b), (_, descending)) in a.iter().zip(b).zip(keys) {
            let order = match (a, b) {
                (Some(a), Some(b)) => a.order(b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            let order = if *descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    });
    order.truncate(limit.unwrap_or(usize::MAX));
    Ok(order)
}

/// A stable sort that copes with an order that is none: SPARQL's is not total where literals of
/// unlike types meet, and the standard library's sort may panic then.
fn merge_sort(rows: &mut Vec<u32>, order: &mut impl FnMut(u32, u32) -> Ordering) {
    let mut from = std::mem::take(rows);
    let mut to = Vec::with_capacity(from.len());
    let mut width = 1;
    while width < from.len() {
        to.clear();
        for pair in from.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut l, mut r) = (0, 0);
            while l < left.len() && r < right.len() {
                if order(right[r], left[l]) == Ordering::Less {
                    to.push(right[r]);
                    r += 1;
                } else {
                    to.push(left[l]);
                    l += 1;
                }
            }
            to.extend_from_slice(&left[l..]);
            to.extend_from_slice(&right[r..]);
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    *rows = from;
}
