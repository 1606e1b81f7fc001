//! ORDER BY. Where a key's values are of one kind, each row gets its rank under the key, and
//! numbers are sorted; with a LIMIT behind it only the first rows are. Otherwise values are
//! compared. Sorted parts are merged, so that the limits can be checked on the way.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::eval::evaluate::{Evaluation, Row};
use crate::exec::term_order::compare_rows;
use crate::value::term_value::Value;
use somersault_model::{Tag, TermId};
use std::cmp::Ordering;

/// Rows are filtered before sorting only where there are at least this many rows for each wanted
/// row.
const WORTH_TELLING: usize = 4;
/// Rows sorted between two limit checks.
const SORTED_AT_ONCE: usize = 1 << 15;

/// The numbers of the rows in order; of these the first `limit`.
pub(crate) fn order(
    evaluation: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    keys: &[(Expr, bool)],
    limit: Option<usize>,
    table: &Table,
) -> Result<Vec<u32>, QueryError> {
    if let Some(limit) = limit
        && limit.saturating_mul(WORTH_TELLING) < table.rows
        && let Some(rows) = foremost(evaluation, limiter, keys, limit, table)?
        && rows.len() <= table.rows / 2
    {
        let all: Vec<_> = table.present().collect();
        let columns = all.iter().map(|(variable, column)| {
            let picked = rows.iter().map(|row| column[*row as usize]);
            (*variable, picked.collect())
        });
        let part = Table::of(columns, rows.len());
        let order = order_all(evaluation, limiter, keys, Some(limit), &part)?;
        return Ok(order.into_iter().map(|at| rows[at as usize]).collect());
    }
    order_all(evaluation, limiter, keys, limit, table)
}

/// The rows that may be among the first `limit`, ascending: by the first key, and of those that it
/// does not tell apart by the next, as long as what keys tell is cheap. `None` where it is not.
fn foremost(
    e: &Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    keys: &[(Expr, bool)],
    limit: usize,
    table: &Table,
) -> Result<Option<Vec<u32>>, QueryError> {
    limiter.check_memory(table.bytes() + table.rows * 16)?;
    // Rows that are certainly among the first, and those that compete for the other places.
    let (mut sure, mut open) = (Vec::new(), (0..table.rows as u32).collect::<Vec<u32>>());
    let mut told = false;
    for (key, descending) in keys {
        let wanted = limit.saturating_sub(sure.len());
        if wanted == 0 || wanted >= open.len() {
            break;
        }
        limiter.check_interrupt()?;
        let Some((mut ranks, is_exact)) = coarse_ranks(e, key, table, &open) else {
            break;
        };
        if *descending {
            ranks.iter_mut().for_each(|rank| *rank = !*rank);
        }
        told = true;
        let mut sorted = ranks.clone();
        let (_, last, _) = sorted.select_nth_unstable(wanted - 1);
        let last = *last;
        let mut tied = Vec::new();
        for (row, rank) in open.iter().zip(&ranks) {
            match rank.cmp(&last) {
                Ordering::Less => sure.push(*row),
                Ordering::Equal => tied.push(*row),
                Ordering::Greater => {}
            }
        }
        open = tied;
        if !is_exact {
            break;
        }
    }
    sure.append(&mut open);
    sure.sort_unstable();
    Ok(told.then_some(sure))
}

/// Numbers that order rows as a key does, where that is cheap to say; and whether rows of one
/// number are equal under the key, or only not told apart.
fn coarse_ranks(
    e: &Evaluation<'_>,
    key: &Expr,
    table: &Table,
    rows: &[u32],
) -> Option<(Vec<u64>, bool)> {
    let Expr::Variable(variable) = key else {
        return None;
    };
    let column = table.column(*variable)?;
    let ids = || rows.iter().map(|row| column[*row as usize]);
    if ids().all(|id| id.tag() == Tag::Integer || id.is_unbound()) {
        return Some((ids().map(integer_rank).collect(), true));
    }
    // All rows decide: what is compared by value is so in all places.
    let mut kinds = column
        .iter()
        .filter(|id| !id.is_unbound())
        .map(|id| kind_of(e, *id));
    let kind = kinds.next()??;
    if !matches!(kind, TermKind::Text | TermKind::Iri) || !kinds.all(|other| other == Some(kind)) {
        return None;
    }
    Some((prefixes(e, ids())?, false))
}

/// The first eight bytes of texts behind what all of them begin with; unbound before all.
fn prefixes(e: &Evaluation<'_>, ids: impl Iterator<Item = TermId> + Clone) -> Option<Vec<u64>> {
    let first = ids.clone().find(|id| !id.is_unbound())?;
    let mut common = e
        .dictionary
        .with_str(first, |text| text.as_bytes().to_vec())?;
    for id in ids.clone().filter(|id| !id.is_unbound()) {
        e.dictionary.with_str(id, |text| {
            let same = common
                .iter()
                .zip(text.as_bytes())
                .take_while(|(a, b)| a == b);
            let same = same.count();
            common.truncate(same);
        })?;
    }
    let rank = |id: TermId| {
        if id.is_unbound() {
            return Some(0);
        }
        e.dictionary.with_str(id, |text| {
            let mut bytes = [0; 8];
            let rest = &text.as_bytes()[common.len()..];
            let length = rest.len().min(8);
            bytes[..length].copy_from_slice(&rest[..length]);
            // Unbound comes before the empty text: the last bit is used for that.
            u64::from_be_bytes(bytes) >> 1 | 1 << 63
        })
    };
    ids.map(rank).collect()
}

/// Payloads of integers order as their values do, and an unbound cell's is 0.
fn integer_rank(id: TermId) -> u64 {
    match id.is_unbound() {
        true => 0,
        false => id.payload() + 1,
    }
}

/// [`order`], of all rows.
fn order_all(
    evaluation: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    keys: &[(Expr, bool)],
    limit: Option<usize>,
    table: &Table,
) -> Result<Vec<u32>, QueryError> {
    let mut ranks: Vec<Vec<u64>> = Vec::with_capacity(keys.len());
    limiter.check_memory(table.bytes() + table.rows * (keys.len() * 8 + 4))?;
    for (key, descending) in keys {
        let Some(mut ranked) = ranks_of(evaluation, limiter, key, table)? else {
            return by_values(evaluation, limiter, keys, limit, table);
        };
        if *descending {
            ranked.iter_mut().for_each(|rank| *rank = !*rank);
        }
        ranks.push(ranked);
    }
    // Under a LIMIT it is the terms that decide which of equal rows are among the first. The row's
    // number makes the order total.
    let chooses = limit.is_some();
    let compare = |a: &u32, b: &u32| {
        let of_keys = (ranks.iter())
            .map(|ranks| ranks[*a as usize].cmp(&ranks[*b as usize]))
            .find(|order| *order != Ordering::Equal);
        match of_keys {
            Some(order) => order,
            None if chooses => compare_rows(evaluation, table, *a, *b).then(a.cmp(b)),
            None => a.cmp(b),
        }
    };
    let mut order = first_rows(table.rows, limit.unwrap_or(usize::MAX), limiter, &compare)?;
    in_order(&mut order, limiter, compare)?;
    Ok(order)
}

/// The first `count` rows under a total order, in no order among themselves.
fn first_rows(
    rows: usize,
    limit: usize,
    limiter: &Limiter<'_>,
    compare: &impl Fn(&u32, &u32) -> Ordering,
) -> Result<Vec<u32>, QueryError> {
    if limit == 0 || limit >= rows {
        return Ok((0..if limit == 0 { 0 } else { rows } as u32).collect());
    }
    let mut first: Vec<u32> = Vec::new();
    // Each part costs what is kept beside it: parts are no smaller than that.
    let part = limit.max(SORTED_AT_ONCE);
    for from in (0..rows).step_by(part) {
        first.extend(from as u32..(from + part).min(rows) as u32);
        if first.len() > limit {
            first.select_nth_unstable_by(limit - 1, compare);
            first.truncate(limit);
        }
        limiter.check_interrupt()?;
    }
    Ok(first)
}

/// Sorts by a total order.
pub(crate) fn in_order<T: Copy>(
    items: &mut Vec<T>,
    limiter: &mut Limiter<'_>,
    mut compare: impl FnMut(&T, &T) -> Ordering,
) -> Result<(), QueryError> {
    for part in items.chunks_mut(SORTED_AT_ONCE) {
        part.sort_unstable_by(&mut compare);
        limiter.check_interrupt()?;
    }
    merge(items, SORTED_AT_ONCE, limiter, &mut compare)
}

/// Kinds of terms whose order is total.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TermKind {
    Integer,
    /// Integers of all types, and decimals: compared exactly.
    Exact,
    Text,
    Iri,
}

fn kind_of(e: &Evaluation<'_>, id: TermId) -> Option<TermKind> {
    Some(match id.tag() {
        Tag::Integer => TermKind::Integer,
        Tag::DerivedInteger | Tag::Decimal => TermKind::Exact,
        Tag::ShortString => TermKind::Text,
        Tag::NamedNode => TermKind::Iri,
        Tag::Literal => {
            let is_plain = |view: somersault_dictionary::TermView<'_>| {
                view.datatype.is_none() && view.language.is_none()
            };
            let plain = e.dictionary.with_view(id, is_plain)?;
            return plain.then_some(TermKind::Text);
        }
        _ => return None,
    })
}

/// For each row its rank under a key that is a variable, unbound first; `None` where the values
/// are not all of one kind.
fn ranks_of(
    e: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    key: &Expr,
    table: &Table,
) -> Result<Option<Vec<u64>>, QueryError> {
    let Expr::Variable(variable) = key else {
        return Ok(None);
    };
    let Some(column) = table.column(*variable) else {
        return Ok(Some(vec![0; table.rows]));
    };
    if column
        .iter()
        .all(|id| id.tag() == Tag::Integer || id.is_unbound())
    {
        return Ok(Some(column.iter().map(|id| integer_rank(*id)).collect()));
    }
    let mut ids: Vec<TermId> = column
        .iter()
        .copied()
        .filter(|id| !id.is_unbound())
        .collect();
    in_order(&mut ids, limiter, TermId::cmp)?;
    ids.dedup();
    let mut common = None;
    for id in &ids {
        limiter.tick()?;
        common = match (common, kind_of(e, *id)) {
            (None, Some(kind)) => Some(kind),
            (
                Some(TermKind::Integer | TermKind::Exact),
                Some(TermKind::Integer | TermKind::Exact),
            ) => Some(TermKind::Exact),
            (Some(one), Some(other)) if one == other => Some(one),
            _ => return Ok(None),
        };
    }
    let Some(ranked) = (match common {
        Some(TermKind::Text | TermKind::Iri) => rank_texts(e, limiter, &ids)?,
        _ => rank_values(e, limiter, &ids)?,
    }) else {
        return Ok(None);
    };
    let rank = |id: &TermId| ids.binary_search(id).map_or(0, |at| ranked[at]);
    let mut ranks = Vec::with_capacity(column.len());
    for part in column.chunks(SORTED_AT_ONCE) {
        ranks.extend(part.iter().map(rank));
        limiter.check_interrupt()?;
    }
    Ok(Some(ranks))
}

/// The ranks of different ids by their texts, which differ as well; `None` where one has no text.
fn rank_texts(
    e: &Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    ids: &[TermId],
) -> Result<Option<Vec<u64>>, QueryError> {
    let mut texts: Vec<String> = Vec::with_capacity(ids.len());
    let mut bytes = ids.len() * (size_of::<String>() + 12);
    for id in ids {
        let length = e.dictionary.with_str(*id, str::len);
        bytes += length.unwrap_or(0);
        limiter.tick()?;
        limiter.check_memory(bytes)?;
        let Some(text) = e.dictionary.with_str(*id, str::to_owned) else {
            return Ok(None);
        };
        texts.push(text);
    }
    ranked(&texts, limiter, String::cmp).map(Some)
}

/// The ranks of different ids by their values, of which some may be equal; `None` where one has
/// none.
fn rank_values(
    e: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    ids: &[TermId],
) -> Result<Option<Vec<u64>>, QueryError> {
    limiter.check_memory(ids.len() * (size_of::<Value>() + 12))?;
    let mut values: Vec<Value> = Vec::with_capacity(ids.len());
    for id in ids {
        limiter.tick()?;
        let Some(value) = e.value(*id) else {
            return Ok(None);
        };
        values.push(value);
    }
    ranked(&values, limiter, Value::order).map(Some)
}

/// The ranks of values, from 1; equal ones have one rank.
fn ranked<T>(
    values: &[T],
    limiter: &mut Limiter<'_>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<Vec<u64>, QueryError> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    in_order(&mut order, limiter, |a, b| {
        compare(&values[*a as usize], &values[*b as usize])
    })?;
    let mut ranks = vec![0; values.len()];
    let (mut rank, mut previous) = (0, None);
    for at in order {
        let value = &values[at as usize];
        if previous.is_none_or(|before| compare(before, value) != Ordering::Equal) {
            rank += 1;
        }
        previous = Some(value);
        ranks[at as usize] = rank;
    }
    Ok(ranks)
}

/// By comparing values.
fn by_values(
    evaluation: &mut Evaluation<'_>,
    limiter: &mut Limiter<'_>,
    keys: &[(Expr, bool)],
    limit: Option<usize>,
    table: &Table,
) -> Result<Vec<u32>, QueryError> {
    let mut values: Vec<Vec<Option<Value>>> = Vec::with_capacity(table.rows);
    let own = size_of::<Vec<Option<Value>>>() + keys.len() * size_of::<Option<Value>>() + 8;
    let mut bytes = table.bytes();
    for at in 0..table.rows {
        limiter.tick()?;
        let row = Row { table, at };
        let key: Vec<Option<Value>> = keys
            .iter()
            .map(|(key, _)| evaluation.evaluate_value(key, row))
            .collect();
        let texts = key.iter().flatten().map(Value::text_bytes);
        bytes += own + texts.sum::<usize>();
        values.push(key);
        limiter.check_memory(evaluation.held_bytes().saturating_add(bytes))?;
    }
    let mut order: Vec<u32> = (0..table.rows as u32).collect();
    // Sorts by merging alone, from single rows on: equal rows stay in their order, and the limits
    // are checked however long a comparison takes.
    merge(&mut order, 1, limiter, &mut |first, second| {
        let (first, second) = (*first, *second);
        let (a, b) = (&values[first as usize], &values[second as usize]);
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
        match limit {
            Some(_) => compare_rows(evaluation, table, first, second),
            None => Ordering::Equal,
        }
    })?;
    order.truncate(limit.unwrap_or(usize::MAX));
    Ok(order)
}

/// Merges sorted parts of this width until one is left; equal items stay in their order.
fn merge<T: Copy>(
    items: &mut Vec<T>,
    mut width: usize,
    limiter: &mut Limiter<'_>,
    order: &mut impl FnMut(&T, &T) -> Ordering,
) -> Result<(), QueryError> {
    if items.len() <= width {
        return Ok(());
    }
    let mut to = Vec::with_capacity(items.len());
    while width < items.len() {
        to.clear();
        for pair in items.chunks(2 * width) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            let (mut l, mut r) = (0, 0);
            while l < left.len() && r < right.len() {
                limiter.tick()?;
                if order(&right[r], &left[l]) == Ordering::Less {
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
        std::mem::swap(items, &mut to);
        width *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::execution::Execution;
    use crate::value::random::Random;
    use crate::view::local_terms::LocalTerms;
    use oxrdf::vocab::xsd;
    use oxrdf::{Literal, NamedNode, Term};
    use proptest::prelude::*;
    use somersault_dictionary::Dictionary;
    use somersault_lang::VarId;
    use somersault_model::{EventTime, Limits, QueryUid};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Columns of one kind each, and of all kinds.
    fn column() -> impl Strategy<Value = Vec<Option<Term>>> {
        let integer = || (-5i64..5).prop_map(|n| Some(Literal::from(n).into()));
        let decimal = || {
            let typed = |text| Literal::new_typed_literal(text, xsd::DECIMAL);
            "-?[0-3]\\.[0-9]0?".prop_map(move |text| Some(typed(text).into()))
        };
        let text = || "[ab]{0,9}".prop_map(|s| Some(Literal::new_simple_literal(s).into()));
        let iri = || {
            "[ab]{1,3}".prop_map(|s| Some(NamedNode::new_unchecked(format!("http://x/{s}")).into()))
        };
        let any = prop_oneof![integer(), decimal(), text(), iri(), Just(None)];
        prop_oneof![
            proptest::collection::vec(prop_oneof![4 => integer(), 1 => Just(None)], 40),
            proptest::collection::vec(prop_oneof![integer(), decimal()], 40),
            proptest::collection::vec(prop_oneof![4 => text(), 1 => Just(None)], 40),
            proptest::collection::vec(iri(), 40),
            proptest::collection::vec(any, 40),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ranks_order_as_values_do(
            columns in (column(), column()),
            descending in any::<(bool, bool)>(),
            limit in proptest::option::of(0usize..50),
        ) {
            let dictionary = Dictionary::new();
            let ids = |terms: Vec<Option<Term>>| -> Vec<TermId> {
                let id = |term: Option<Term>| {
                    term.map_or(TermId::UNBOUND, |term| dictionary.intern(term.as_ref()))
                };
                terms.into_iter().map(id).collect()
            };
            let table = Table::of([(VarId(0), ids(columns.0)), (VarId(1), ids(columns.1))], 40);
            let keys = [
                (Expr::Variable(VarId(0)), descending.0),
                (Expr::Variable(VarId(1)), descending.1),
            ];
            let execution = Execution::new(Limits::default(), EventTime(0));
            let mut limiter = Limiter::start(&execution);
            let random = Random::new(QueryUid(0), EventTime(0));
            let local = LocalTerms::default();
            let mut e =
                Evaluation::new((&dictionary).into(), Vec::new(), local, None, EventTime(0), random);
            let ranked = order(&mut e, &mut limiter, &keys, limit, &table).expect("no limit is near");
            let dull = by_values(&mut e, &mut limiter, &keys, limit, &table).expect("no limit is near");
            prop_assert_eq!(ranked, dull);
        }
    }

    #[test]
    fn parts_are_merged_to_one_order() {
        let execution = Execution::new(Limits::default(), EventTime(0));
        let mut limiter = Limiter::start(&execution);
        let count = 3 * SORTED_AT_ONCE + 17;
        // A step that is prime to the count comes by every number once.
        let mixed: Vec<u32> = (0..count).map(|n| (n * 7919 % count) as u32).collect();
        let mut sorted = mixed.clone();
        in_order(&mut sorted, &mut limiter, u32::cmp).expect("no limit is near");
        assert!(sorted.iter().enumerate().all(|(at, n)| *n == at as u32));
        let compare = |a: &u32, b: &u32| mixed[*a as usize].cmp(&mixed[*b as usize]);
        for limit in [0, 1, 100, SORTED_AT_ONCE + 1, count - 1, count, usize::MAX] {
            let first = first_rows(count, limit, &limiter, &compare).expect("no limit is near");
            let mut numbers: Vec<u32> = first.iter().map(|row| mixed[*row as usize]).collect();
            numbers.sort_unstable();
            let wanted = limit.min(count) as u32;
            assert_eq!(numbers, (0..wanted).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sorting_looks_whether_it_is_cancelled() {
        let flag = Arc::new(AtomicBool::new(false));
        let execution = Execution {
            cancel: Some(Arc::clone(&flag)),
            ..Execution::new(Limits::default(), EventTime(0))
        };
        let mut limiter = Limiter::start(&execution);
        let count = 2 * SORTED_AT_ONCE;
        let mut compared = 0;
        let mut items: Vec<usize> = (0..count).rev().collect();
        let sorted = in_order(&mut items, &mut limiter, |a, b| {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
            compared += 1;
            a.cmp(b)
        });
        assert!(matches!(sorted, Err(QueryError::Cancelled)));
        assert!(compared < count, "the first part alone was sorted");
        flag.store(false, std::sync::atomic::Ordering::Relaxed);
        let mut compared = 0;
        let merged = merge(&mut items, 1, &mut limiter, &mut |a, b| {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
            compared += 1;
            a.cmp(b)
        });
        assert!(matches!(merged, Err(QueryError::Cancelled)));
        assert!(compared < 1000, "{compared}");
        flag.store(true, std::sync::atomic::Ordering::Relaxed);
        let rows = first_rows(count, 5, &limiter, &u32::cmp);
        assert!(matches!(rows, Err(QueryError::Cancelled)));
    }
}
