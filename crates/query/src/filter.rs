//! Conditions over many rows at once: comparisons on ids where the ids hold the values, texts as
//! they lie in the dictionary, and whatever depends on one variable alone once for each of its
//! values. Everything else is evaluated row by row (`evaluate`), which is also the twin of what is
//! not.

use crate::QueryError;
use crate::evaluate::{Evaluation, Row};
use crate::execution::Guard;
use crate::expression::Expr;
use crate::table::Table;
use crate::value::Value;
use rustc_hash::FxHashMap;
use somersault_lang::{Comparison, Function};
use somersault_model::{Tag, TermId};
use std::cmp::Ordering;

/// What a condition comes to in a row: false, true, or an error.
type Truth = u8;
const FALSE: Truth = 0;
const TRUE: Truth = 1;
const ERROR: Truth = 2;

/// Rows that are looked at at once.
const ROWS_AT_ONCE: usize = 1 << 10;
/// So many values of a variable are remembered for a condition.
const REMEMBERED: usize = 1 << 16;

/// What conditions on one variable came to, by the condition's place in memory (which stays the
/// same as long as an execution lasts) and by the value.
pub(crate) type Memo = FxHashMap<usize, FxHashMap<TermId, Truth>>;

fn truth(value: Option<bool>) -> Truth {
    value.map_or(ERROR, Truth::from)
}

/// Appends the rows of a table for which a condition holds.
pub(crate) fn rows_that_hold(
    e: &mut Evaluation<'_>,
    guard: &mut Guard<'_>,
    condition: &Expr,
    table: &Table,
    kept: &mut Vec<u32>,
) -> Result<(), QueryError> {
    let mut rows: Vec<u32> = Vec::with_capacity(ROWS_AT_ONCE.min(table.rows));
    for from in (0..table.rows).step_by(ROWS_AT_ONCE) {
        rows.clear();
        rows.extend(from as u32..(from + ROWS_AT_ONCE).min(table.rows) as u32);
        let truths = truths(e, condition, table, &rows, guard)?;
        let held = rows.iter().zip(&truths);
        kept.extend(held.filter(|(_, t)| **t == TRUE).map(|(row, _)| *row));
        guard.fits(e.held_bytes())?;
        guard.tick()?;
    }
    Ok(())
}

/// What a condition comes to in each of some rows.
fn truths(
    e: &mut Evaluation<'_>,
    expr: &Expr,
    table: &Table,
    rows: &[u32],
    guard: &mut Guard<'_>,
) -> Result<Vec<Truth>, QueryError> {
    Ok(match expr {
        Expr::Or(list) => logical(e, list, TRUE, table, rows, guard)?,
        Expr::And(list) => logical(e, list, FALSE, table, rows, guard)?,
        Expr::Not(inner) => {
            let mut truths = truths(e, inner, table, rows, guard)?;
            for t in &mut truths {
                *t = [TRUE, FALSE, ERROR][*t as usize];
            }
            truths
        }
        Expr::Bound(variable) => rows
            .iter()
            .map(|row| Truth::from(!table.get(*variable, *row as usize).is_unbound()))
            .collect(),
        Expr::Exists(exists) => rows
            .iter()
            .map(|row| Truth::from(e.exists[exists.at][*row as usize]))
            .collect(),
        Expr::Compare(op, a, b) => match (ids(e, a, table), ids(e, b, table)) {
            (Some(a), Some(b)) => {
                let (a, b) = (a.in_rows(rows), b.in_rows(rows));
                compare_all(e, *op, &a, &b, guard)?
            }
            _ => each(e, expr, table, rows, guard)?,
        },
        Expr::SameTerm(a, b) => match (ids(e, a, table), ids(e, b, table)) {
            (Some(a), Some(b)) => {
                let same = |row: &u32| {
                    let (a, b) = (a.at(*row), b.at(*row));
                    truth((!a.is_unbound() && !b.is_unbound()).then_some(a == b))
                };
                rows.iter().map(same).collect()
            }
            _ => each(e, expr, table, rows, guard)?,
        },
        _ => each(e, expr, table, rows, guard)?,
    })
}

/// OR (`decisive` = true) and AND (false): what one operand decides the others are not asked about.
fn logical(
    e: &mut Evaluation<'_>,
    list: &[Expr],
    decisive: Truth,
    table: &Table,
    rows: &[u32],
    guard: &mut Guard<'_>,
) -> Result<Vec<Truth>, QueryError> {
    let mut result = vec![TRUE - decisive; rows.len()];
    let mut open: Vec<u32> = (0..rows.len() as u32).collect();
    let mut asked = rows.to_vec();
    for operand in list {
        if open.is_empty() {
            break;
        }
        let found = truths(e, operand, table, &asked, guard)?;
        let mut left = 0;
        for (at, t) in found.into_iter().enumerate() {
            let place = open[at];
            if t == decisive || t == ERROR {
                result[place as usize] = t;
            }
            if t != decisive {
                open[left] = place;
                asked[left] = asked[at];
                left += 1;
            }
        }
        open.truncate(left);
        asked.truncate(left);
    }
    Ok(result)
}

/// Ids that an operand has without computing anything.
enum Ids<'t> {
    One(TermId),
    Column(&'t [TermId]),
}

impl Ids<'_> {
    fn at(&self, row: u32) -> TermId {
        match self {
            Ids::One(id) => *id,
            Ids::Column(column) => column[row as usize],
        }
    }

    fn in_rows(&self, rows: &[u32]) -> Vec<TermId> {
        rows.iter().map(|row| self.at(*row)).collect()
    }
}

fn ids<'t>(e: &Evaluation<'_>, expr: &Expr, table: &'t Table) -> Option<Ids<'t>> {
    match expr {
        Expr::Constant(constant) => Some(Ids::One(e.constants[constant.index()])),
        Expr::Variable(variable) => Some(match table.column(*variable) {
            Some(column) => Ids::Column(column),
            None => Ids::One(TermId::UNBOUND),
        }),
        _ => None,
    }
}

fn compare_all(
    e: &mut Evaluation<'_>,
    op: Comparison,
    a: &[TermId],
    b: &[TermId],
    guard: &mut Guard<'_>,
) -> Result<Vec<Truth>, QueryError> {
    let mut truths = Vec::with_capacity(a.len());
    for (a, b) in a.iter().zip(b) {
        let t = match compare_ids(e, op, *a, *b) {
            Some(t) => t,
            None => {
                guard.tick()?;
                truth(e.compare_values(op, *a, *b))
            }
        };
        truths.push(t);
    }
    Ok(truths)
}

/// Compares two terms by their ids, where that can be done without making values of them.
#[inline]
fn compare_ids(e: &Evaluation<'_>, op: Comparison, a: TermId, b: TermId) -> Option<Truth> {
    if a.is_unbound() || b.is_unbound() {
        return Some(ERROR);
    }
    let order = match (a.tag(), b.tag()) {
        // As ids of one kind order, so do their values.
        (Tag::Integer, Tag::Integer) | (Tag::ShortString, Tag::ShortString) => {
            a.payload().cmp(&b.payload())
        }
        (Tag::DateTime, Tag::DateTime) | (Tag::Date, Tag::Date) => calendar_order(a, b)?,
        (Tag::NamedNode | Tag::BlankNode, Tag::NamedNode | Tag::BlankNode) => {
            let equal = a == b;
            return Some(match op {
                Comparison::Equal => Truth::from(equal),
                Comparison::LessOrEqual | Comparison::GreaterOrEqual if equal => TRUE,
                Comparison::Less | Comparison::Greater if equal => FALSE,
                _ => ERROR,
            });
        }
        (Tag::Literal | Tag::ShortString, Tag::Literal | Tag::ShortString) => {
            return compare_strings(e, op, a, b);
        }
        _ => return None,
    };
    Some(Truth::from(holds(op, order)))
}

/// Whether an order is what an operator asks for.
pub(crate) fn holds(op: Comparison, order: Ordering) -> bool {
    match op {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }
}

/// Bits below the instant of an inline dateTime, and below the day of an inline date.
const OFFSET_BITS: u64 = 11;
const FRACTION_BITS: u64 = 2;

/// The order of two inline dateTimes, or dates, that have the same offset, or both one.
fn calendar_order(a: TermId, b: TermId) -> Option<Ordering> {
    let offset = |id: TermId| id.payload() & ((1 << OFFSET_BITS) - 1);
    if a.tag() == Tag::Date {
        return (offset(a) == offset(b)).then(|| a.payload().cmp(&b.payload()));
    }
    let instant = |id: TermId| id.payload() >> (OFFSET_BITS + FRACTION_BITS);
    ((offset(a) == 0) == (offset(b) == 0)).then(|| instant(a).cmp(&instant(b)))
}

/// Compares two strings without language where they lie.
fn compare_strings(e: &Evaluation<'_>, op: Comparison, a: TermId, b: TermId) -> Option<Truth> {
    let order = with_string(e, a, |a| with_string(e, b, |b| a.cmp(b)))??;
    Some(Truth::from(holds(op, order)))
}

/// Calls `read` with the text of an `xsd:string`; `None` for all other terms.
fn with_string<R>(e: &Evaluation<'_>, id: TermId, read: impl FnOnce(&str) -> R) -> Option<R> {
    match id.tag() {
        Tag::ShortString => {}
        Tag::Literal => {
            let view = e.dictionary.view(id)?;
            if view.datatype.is_some() || view.language.is_some() {
                return None;
            }
            if view.head.is_empty() {
                return Some(read(view.tail));
            }
        }
        _ => return None,
    }
    e.dictionary.with_str(id, read)
}

/// A condition that has no form of its own here: for one variable once per value, else per row.
fn each(
    e: &mut Evaluation<'_>,
    expr: &Expr,
    table: &Table,
    rows: &[u32],
    guard: &mut Guard<'_>,
) -> Result<Vec<Truth>, QueryError> {
    let mut result = Vec::with_capacity(rows.len());
    let place = std::ptr::from_ref(expr).addr();
    let column = only_variable(expr).and_then(|variable| table.column(variable));
    let Some(column) = column else {
        for row in rows {
            guard.tick()?;
            let at = *row as usize;
            result.push(truth(e.boolean(expr, Row { table, at })));
        }
        return Ok(result);
    };
    let mut known = e.memo.remove(&place).unwrap_or_default();
    for row in rows {
        let at = *row as usize;
        if let Some(t) = known.get(&column[at]) {
            result.push(*t);
            continue;
        }
        guard.tick()?;
        let t = match test_text(e, expr, column[at]) {
            Some(t) => t,
            None => truth(e.boolean(expr, Row { table, at })),
        };
        if known.len() < REMEMBERED {
            known.insert(column[at], t);
        }
        result.push(t);
    }
    e.memo.insert(place, known);
    Ok(result)
}

/// The one variable that the value of an expression depends on.
fn only_variable(expr: &Expr) -> Option<somersault_lang::VarId> {
    if expr.is_volatile() || !expr.exists().is_empty() {
        return None;
    }
    let variables = expr.variables();
    let mut variables = variables.iter();
    match (variables.next(), variables.next()) {
        (Some(variable), None) => Some(variable),
        _ => None,
    }
}

/// REGEX, CONTAINS, STRSTARTS and STRENDS with a constant, of a variable or its STR, on the text as
/// it lies in the dictionary; `None` for what is not of this form.
fn test_text(e: &mut Evaluation<'_>, expr: &Expr, id: TermId) -> Option<Truth> {
    match expr {
        Expr::Matches(of, regex) => with_text(e, of, id, |text| Truth::from(regex.is_match(text))),
        Expr::Call(function, arguments) => {
            let test: fn(&str, &str) -> bool = match function {
                Function::Contains => |text, part| text.contains(part),
                Function::StrStarts => |text, part| text.starts_with(part),
                Function::StrEnds => |text, part| text.ends_with(part),
                _ => return None,
            };
            let [of, Expr::Constant(part)] = arguments.as_slice() else {
                return None;
            };
            // A part without language goes with any.
            let Value::String(part) = e.value(e.constants[part.index()])? else {
                return None;
            };
            with_text(e, of, id, |text| Truth::from(test(text, &part)))
        }
        _ => None,
    }
}

/// The text of the argument `?v` or `STR(?v)` where `?v` is `id`.
fn with_text<R>(
    e: &Evaluation<'_>,
    argument: &Expr,
    id: TermId,
    read: impl FnOnce(&str) -> R,
) -> Option<R> {
    match argument {
        Expr::Variable(_) => with_string(e, id, read),
        Expr::Call(Function::Str, inner) if matches!(inner.as_slice(), [Expr::Variable(_)]) => {
            match id.tag() {
                Tag::NamedNode | Tag::Literal => e.dictionary.with_str(id, read),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalTerms;
    use crate::random::Random;
    use oxrdf::{Literal, NamedNode, Term};
    use proptest::prelude::*;
    use somersault_model::{EventTime, QueryUid};
    use somersault_store::Dictionary;

    fn term() -> impl Strategy<Value = Term> {
        let typed = |text: String, name: &str| -> Term {
            let datatype = format!("http://www.w3.org/2001/XMLSchema#{name}");
            Literal::new_typed_literal(text, NamedNode::new_unchecked(datatype)).into()
        };
        prop_oneof![
            (-9i64..9).prop_map(move |n| typed(n.to_string(), "integer")),
            (-9i64..9).prop_map(move |n| typed(n.to_string(), "long")),
            "[0-9]\\.[0-9]".prop_map(move |n| typed(n, "decimal")),
            "[0-9]\\.[0-9]E[0-9]|NaN|INF".prop_map(move |n| typed(n, "double")),
            "[ab]{0,3}".prop_map(|s| Literal::new_simple_literal(s).into()),
            "[ab]{8,9}".prop_map(|s| Literal::new_simple_literal(s).into()),
            "[ab]{1,9}"
                .prop_map(|s| { Literal::new_language_tagged_literal_unchecked(s, "en").into() }),
            "true|false|0|1".prop_map(move |s| typed(s, "boolean")),
            "2020-01-0[12]T00:00:0[01](\\.[05]|)(Z|\\+01:00|)"
                .prop_map(move |s| typed(s, "dateTime")),
            "2020-01-0[12](Z|\\+01:00|)".prop_map(move |s| typed(s, "date")),
            "[ab]".prop_map(|s| NamedNode::new_unchecked(format!("http://x/{s}")).into()),
            "[ab]".prop_map(move |s| typed(s, "integer")),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ids_compare_as_their_values_do(a in term(), b in term()) {
            let dictionary = Dictionary::new();
            let (a, b) = (dictionary.intern(a.as_ref()), dictionary.intern(b.as_ref()));
            let random = Random::new(QueryUid(0), EventTime(0));
            let mut e = Evaluation::new(
                &dictionary, Vec::new(), LocalTerms::default(), None, EventTime(0), random);
            for op in [
                Comparison::Equal,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ] {
                if let Some(t) = compare_ids(&e, op, a, b) {
                    prop_assert_eq!(t, truth(e.compare_values(op, a, b)), "{:?} {:?} {:?}", a, op, b);
                }
            }
        }
    }
}
