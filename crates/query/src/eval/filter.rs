//! Conditions over many rows at once: comparisons on ids where the ids hold the values, texts in
//! place in the dictionary, and a condition on one variable once per value of it. All other
//! conditions are evaluated row by row (`evaluate`), which is also the twin of these.

use crate::algebra::error::QueryError;
use crate::algebra::expression::Expr;
use crate::context::limiter::Limiter;
use crate::context::table::Table;
use crate::context::workspace::{Truth, Workspace};
use crate::eval::evaluate::{Evaluation, Row};
use crate::eval::string_predicates::TextTest;
use rustc_hash::FxHashMap;
use somersault_lang::Comparison;
use somersault_model::{Tag, TermId};
use std::cmp::Ordering;

const FALSE: Truth = 0;
const TRUE: Truth = 1;
const ERROR: Truth = 2;
/// Not a truth yet: the term has no text, and the test must be evaluated as any other condition.
const NO_TEXT: Truth = 3;

/// Rows that are tested at once.
const ROWS_AT_ONCE: usize = 1 << 10;
/// Texts tested between two limit checks: a text may be long.
const TEXTS_AT_ONCE: usize = 64;
/// From this many rows on values are expected to repeat.
const WORTH_REMEMBERING: usize = 16;
/// With at most this many terms, IN is only a few comparisons.
const FEW: usize = 8;
/// Values of a variable that are remembered per condition.
const REMEMBERED: usize = 1 << 16;

/// A condition of a plan without its AND, OR and NOT: the number of the plan's step, and the
/// condition's number in the step.
pub(crate) type ConditionId = (usize, usize);

/// The results of conditions on one variable, by the value.
pub(crate) type Memo = FxHashMap<ConditionId, FxHashMap<TermId, Truth>>;

fn truth(value: Option<bool>) -> Truth {
    value.map_or(ERROR, Truth::from)
}

/// A condition's evaluation over a table. Its buffers come from the workspace and go back to it, so
/// that a filter that has run before allocates nothing for conditions on ids.
pub(crate) struct Filter<'f, 'a> {
    pub(crate) evaluation: &'f mut Evaluation<'a>,
    pub(crate) limiter: &'f mut Limiter<'a>,
    pub(crate) workspace: &'f mut Workspace,
    pub(crate) table: &'f Table,
    /// The number of the step in its plan.
    pub(crate) step: usize,
}

impl<'f, 'a> Filter<'f, 'a> {
    /// Appends the rows of the table for which a condition holds.
    pub(crate) fn rows_that_hold(
        &mut self,
        condition: &Expr,
        kept: &mut Vec<u32>,
    ) -> Result<(), QueryError> {
        let all = self.table.rows;
        let mut rows = self.workspace.rows();
        for from in (0..all).step_by(ROWS_AT_ONCE) {
            rows.clear();
            rows.extend(from as u32..(from + ROWS_AT_ONCE).min(all) as u32);
            let truths = self.truths(condition, 0, &rows)?;
            let held = rows.iter().zip(&truths);
            kept.extend(held.filter(|(_, t)| **t == TRUE).map(|(row, _)| *row));
            self.workspace.give_truths(truths);
            self.limiter.check_memory(self.evaluation.held_bytes())?;
            self.limiter.tick()?;
        }
        self.workspace.give_rows(rows);
        Ok(())
    }

    /// The truth of a condition in each of some rows. `at` is the number of its first leaf.
    fn truths(&mut self, expr: &Expr, at: usize, rows: &[u32]) -> Result<Vec<Truth>, QueryError> {
        let table = self.table;
        match expr {
            Expr::Or(list) => self.logical(list, TRUE, at, rows),
            Expr::And(list) => self.logical(list, FALSE, at, rows),
            Expr::Not(inner) => {
                let mut truths = self.truths(inner, at, rows)?;
                for t in &mut truths {
                    *t = [TRUE, FALSE, ERROR][*t as usize];
                }
                Ok(truths)
            }
            Expr::Bound(variable) => {
                let is_bound = |row: u32| !table.get(*variable, row as usize).is_unbound();
                Ok(self.by_row(rows, |row| Truth::from(is_bound(row))))
            }
            Expr::Exists(exists) => {
                let mut truths = self.workspace.truths();
                let found = &self.evaluation.exists[exists.at];
                truths.extend(rows.iter().map(|row| Truth::from(found[*row as usize])));
                Ok(truths)
            }
            Expr::Compare(op, a, b) => match (self.ids(a), self.ids(b)) {
                (Some(a), Some(b)) => self.compare_all(*op, &a, &b, rows),
                _ => self.each(expr, at, rows),
            },
            Expr::In(a, list) if list.len() <= FEW => match self.ids(a) {
                Some(a) if list.iter().all(|b| self.ids(b).is_some()) => self.is_in(&a, list, rows),
                _ => self.each(expr, at, rows),
            },
            Expr::SameTerm(a, b) => match (self.ids(a), self.ids(b)) {
                (Some(a), Some(b)) => Ok(self.by_row(rows, |row| {
                    let (a, b) = (a.at(row), b.at(row));
                    truth((!a.is_unbound() && !b.is_unbound()).then_some(a == b))
                })),
                _ => self.each(expr, at, rows),
            },
            _ => self.each(expr, at, rows),
        }
    }

    fn by_row(&mut self, rows: &[u32], of_row: impl Fn(u32) -> Truth) -> Vec<Truth> {
        let mut truths = self.workspace.truths();
        truths.extend(rows.iter().map(|row| of_row(*row)));
        truths
    }

    /// OR (`decisive` = true) and AND (false): a row that one operand decides is not tested by the
    /// others.
    fn logical(
        &mut self,
        list: &[Expr],
        decisive: Truth,
        mut leaf: usize,
        rows: &[u32],
    ) -> Result<Vec<Truth>, QueryError> {
        let mut result = self.workspace.truths();
        result.resize(rows.len(), TRUE - decisive);
        let (mut open, mut asked) = (self.workspace.rows(), self.workspace.rows());
        open.extend(0..rows.len() as u32);
        asked.extend_from_slice(rows);
        for operand in list {
            if open.is_empty() {
                break;
            }
            let found = self.truths(operand, leaf, &asked)?;
            leaf += leaves(operand);
            let mut left = 0;
            for (at, t) in found.iter().enumerate() {
                let place = open[at];
                if *t == decisive || *t == ERROR {
                    result[place as usize] = *t;
                }
                if *t != decisive {
                    open[left] = place;
                    asked[left] = asked[at];
                    left += 1;
                }
            }
            open.truncate(left);
            asked.truncate(left);
            self.workspace.give_truths(found);
        }
        self.workspace.give_rows(open);
        self.workspace.give_rows(asked);
        Ok(result)
    }

    fn ids(&self, expr: &Expr) -> Option<Ids<'f>> {
        ids(self.evaluation, expr, self.table)
    }

    /// a IN (b, …), as `a = b || …`.
    fn is_in(
        &mut self,
        a: &Ids<'_>,
        list: &[Expr],
        rows: &[u32],
    ) -> Result<Vec<Truth>, QueryError> {
        let mut truths = self.workspace.truths();
        for row in rows {
            let mut result = FALSE;
            for b in list {
                let b = self.ids(b).map_or(TermId::UNBOUND, |b| b.at(*row));
                let t = self.compare(Comparison::Equal, a.at(*row), b)?;
                if t != FALSE {
                    result = t;
                }
                if t == TRUE {
                    break;
                }
            }
            truths.push(result);
        }
        Ok(truths)
    }

    fn compare_all(
        &mut self,
        op: Comparison,
        a: &Ids<'_>,
        b: &Ids<'_>,
        rows: &[u32],
    ) -> Result<Vec<Truth>, QueryError> {
        let mut truths = self.workspace.truths();
        truths.reserve(rows.len());
        for row in rows {
            truths.push(self.compare(op, a.at(*row), b.at(*row))?);
        }
        Ok(truths)
    }

    #[inline]
    fn compare(&mut self, op: Comparison, a: TermId, b: TermId) -> Result<Truth, QueryError> {
        if let Some(t) = compare_ids(self.evaluation, op, a, b) {
            return Ok(t);
        }
        self.limiter.tick()?;
        Ok(truth(self.evaluation.compare_values(op, a, b)))
    }

    /// Evaluates a condition that has no form on ids.
    fn each(&mut self, expr: &Expr, at: usize, rows: &[u32]) -> Result<Vec<Truth>, QueryError> {
        let table = self.table;
        let test = TextTest::of(self.evaluation, expr);
        match test.and_then(|test| Some((table.column(test.variable)?, test))) {
            Some((column, test)) => self.texts((expr, at), &test, column, rows),
            None => self.by_value(expr, at, rows),
        }
    }

    /// A test of texts; terms without such a text are tested as in any other condition.
    fn texts(
        &mut self,
        (expr, at): (&Expr, usize),
        test: &TextTest<'_>,
        column: &[TermId],
        rows: &[u32],
    ) -> Result<Vec<Truth>, QueryError> {
        let mut ids = self.workspace.ids();
        ids.extend(rows.iter().map(|row| column[*row as usize]));
        let mut others = self.workspace.rows();
        let mut result = self.workspace.truths();
        for ids in ids.chunks(TEXTS_AT_ONCE) {
            test.ask(self.evaluation, ids, |held| {
                if held.is_none() {
                    others.push(rows[result.len()]);
                }
                result.push(held.map_or(NO_TEXT, Truth::from));
            });
            self.limiter.check_interrupt()?;
        }
        self.workspace.give_ids(ids);
        if !others.is_empty() {
            let found = self.by_value(expr, at, &others)?;
            let open = result.iter_mut().filter(|truth| **truth == NO_TEXT);
            for (truth, found) in open.zip(&found) {
                *truth = *found;
            }
            self.workspace.give_truths(found);
        }
        self.workspace.give_rows(others);
        Ok(result)
    }

    /// Evaluates any condition: once per value, if it has one variable and there are many rows, and
    /// otherwise once per row.
    fn by_value(&mut self, expr: &Expr, at: usize, rows: &[u32]) -> Result<Vec<Truth>, QueryError> {
        let table = self.table;
        let mut result = self.workspace.truths();
        let column = (rows.len() >= WORTH_REMEMBERING)
            .then(|| only_variable(expr))
            .flatten()
            .and_then(|variable| table.column(variable));
        let Some(column) = column else {
            for row in rows {
                result.push(self.test(expr, *row)?);
            }
            return Ok(result);
        };
        let place = (self.step, at);
        let mut known = self.evaluation.memo.remove(&place).unwrap_or_default();
        for row in rows {
            let id = column[*row as usize];
            if let Some(t) = known.get(&id) {
                result.push(*t);
                continue;
            }
            let t = self.test(expr, *row)?;
            if known.len() < REMEMBERED {
                known.insert(id, t);
            }
            result.push(t);
        }
        self.evaluation.memo.insert(place, known);
        Ok(result)
    }

    /// The truth of a condition in one row.
    fn test(&mut self, expr: &Expr, row: u32) -> Result<Truth, QueryError> {
        self.limiter.tick()?;
        let row = Row {
            table: self.table,
            at: row as usize,
        };
        Ok(truth(self.evaluation.boolean(expr, row)))
    }
}

/// The number of conditions that stand in this one, AND, OR and NOT aside.
fn leaves(expr: &Expr) -> usize {
    match expr {
        Expr::Or(list) | Expr::And(list) => list.iter().map(leaves).sum(),
        Expr::Not(inner) => leaves(inner),
        _ => 1,
    }
}

/// Ids that an operand has without computing anything.
enum Ids<'t> {
    One(TermId),
    Column(&'t [TermId]),
}

impl Ids<'_> {
    #[inline]
    fn at(&self, row: u32) -> TermId {
        match self {
            Ids::One(id) => *id,
            Ids::Column(column) => column[row as usize],
        }
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

/// Compares two terms by their ids, if that is possible without decoding their values.
#[inline]
fn compare_ids(e: &Evaluation<'_>, op: Comparison, a: TermId, b: TermId) -> Option<Truth> {
    if a.is_unbound() || b.is_unbound() {
        return Some(ERROR);
    }
    let order = match (a.tag(), b.tag()) {
        // Ids of one kind are in the order of their values.
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

/// Whether an order satisfies an operator.
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

/// The order of two inline dateTimes, or dates, that both have the same offset, or both none.
fn calendar_order(a: TermId, b: TermId) -> Option<Ordering> {
    let offset = |id: TermId| id.payload() & ((1 << OFFSET_BITS) - 1);
    if a.tag() == Tag::Date {
        return (offset(a) == offset(b)).then(|| a.payload().cmp(&b.payload()));
    }
    let instant = |id: TermId| id.payload() >> (OFFSET_BITS + FRACTION_BITS);
    ((offset(a) == 0) == (offset(b) == 0)).then(|| instant(a).cmp(&instant(b)))
}

/// Compares two strings without a language in place.
fn compare_strings(e: &Evaluation<'_>, op: Comparison, a: TermId, b: TermId) -> Option<Truth> {
    let order = with_string(e, a, |a| with_string(e, b, |b| a.cmp(b)))??;
    Some(Truth::from(holds(op, order)))
}

/// Calls `read` with the text of an `xsd:string`; `None` for all other terms.
fn with_string<R>(e: &Evaluation<'_>, id: TermId, read: impl FnOnce(&str) -> R) -> Option<R> {
    match id.tag() {
        Tag::ShortString => {}
        Tag::Literal => {
            return e.dictionary.with_view(id, |view| {
                if view.datatype.is_some() || view.language.is_some() {
                    return None;
                }
                if view.head.is_empty() {
                    return Some(read(view.tail));
                }
                let mut text = String::new();
                view.write_text(&mut text);
                Some(read(&text))
            })?;
        }
        _ => return None,
    }
    e.dictionary.with_str(id, read)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;
    use crate::view::local_terms::LocalTerms;
    use oxrdf::{Literal, NamedNode, Term};
    use proptest::prelude::*;
    use somersault_dictionary::Dictionary;
    use somersault_model::{EventTime, QueryUid};

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
                (&dictionary).into(), Vec::new(), LocalTerms::default(), None, EventTime(0), random);
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
