//! REPORT ON CHANGE and REPORT NON EMPTY: which firings subscribers receive. All firings count, and
//! all feed the derived stream. Answers come here in the order of their firings, first those that
//! are executed again after a restart (`Firing::repeated`).

use super::{Comparison, UNKNOWN};
use crate::evaluation::outcome::Difference;
use crate::subscriptions::FiringResult;
use somersault_lang::Report;
use somersault_model::Sn;
use somersault_query::{Answer as Inner, Bounds, QueryError};
use somersault_results::Answer;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Decides which firings of a query are reported.
pub(crate) struct Reporting {
    report: Report,
    comparison: Comparison,
    /// The answer of the firing before; if there was none, or it failed, every answer is a change.
    before: Option<Arc<Inner>>,
    /// The SN of that firing, if it was since the start.
    at: Option<Sn>,
}

impl Reporting {
    pub(crate) fn new(report: Report, comparison: Comparison) -> Reporting {
        Reporting {
            report,
            comparison,
            before: None,
            at: None,
        }
    }

    /// Returns the answer that the next one is compared with.
    pub(super) fn before(&self) -> Option<&Arc<Inner>> {
        self.before.as_ref()
    }

    /// Sets the answer that the next one is compared with.
    pub(super) fn set_before(&mut self, before: Option<Arc<Inner>>) {
        self.before = before;
    }

    /// Whether the next answer may come as its difference to the firing before.
    pub(super) fn takes_differences(&self) -> bool {
        self.report.on_change && self.at.is_some()
    }

    /// Returns the firing with its answer, made of the one before and what came and left since the
    /// firing at an SN.
    pub(super) fn of_difference(
        &self,
        mut result: FiringResult,
        difference: &Difference,
    ) -> FiringResult {
        let (solutions, most_rows) = (&difference.solutions, difference.most_rows);
        let bounds = self.comparison.bounds(&result);
        let is_next = self.at == Some(difference.since);
        let before = self.before.as_ref().filter(|_| is_next);
        let after = match before.map(Arc::as_ref) {
            Some(Inner::Solutions(_)) if solutions.rows() == 0 => {
                Ok(before.cloned().expect("it was just found"))
            }
            Some(Inner::Solutions(before)) => {
                let after = self.comparison.after(before, solutions, &bounds);
                after.map(|after| Arc::new(Inner::Solutions(after)))
            }
            _ => Err(UNKNOWN.to_owned()),
        };
        let dictionary = &self.comparison.dictionary;
        let is_long = |answer: &Inner| matches!(answer, Inner::Solutions(rows) if rows.len() as u64 > most_rows);
        result.answer = after.and_then(|after| match is_long(&after) {
            true => Err(QueryError::Rows { limit: most_rows }.to_string()),
            false => Ok(Answer::new(after, Arc::clone(dictionary))),
        });
        result
    }

    /// Whether subscribers receive the firing. A failed firing is always reported, and so is one
    /// that cannot be compared within the limits.
    pub(crate) fn reports(&mut self, result: &FiringResult) -> bool {
        let now = result.answer.as_ref().ok().map(Answer::inner);
        let is_unwanted =
            self.report.non_empty && result.answer.as_ref().is_ok_and(Answer::is_empty);
        if !self.report.on_change {
            return !is_unwanted;
        }
        self.at = now.map(|_| result.sn);
        let before = std::mem::replace(&mut self.before, now.cloned());
        let bounds = self.comparison.bounds(result);
        let is_same =
            (before.zip(now)).is_some_and(|(before, now)| self.is_same(&before, now, &bounds));
        !is_same && !is_unwanted
    }

    /// Whether two answers of the query are the same bag of solutions, or set of triples or quads.
    fn is_same(&self, before: &Inner, now: &Inner, bounds: &Bounds) -> bool {
        match (before, now) {
            _ if std::ptr::eq(before, now) => true,
            (Inner::Solutions(before), Inner::Solutions(now)) => {
                let rest = || self.comparison.without(now, before, bounds);
                before.len() == now.len() && rest().is_ok_and(|rest| rest.is_empty())
            }
            (Inner::Boolean(before), Inner::Boolean(now)) => before == now,
            (Inner::Graph(before), Inner::Graph(now)) => are_same_sets(before, now, bounds),
            (Inner::Dataset(before), Inner::Dataset(now)) => are_same_sets(before, now, bounds),
            _ => false,
        }
    }
}

/// Whether two lists without repeats hold the same items; `false` if the limits do not allow to
/// tell.
fn are_same_sets<T: Eq + Hash>(before: &[T], now: &[T], bounds: &Bounds) -> bool {
    let bytes = before.len() * 2 * size_of::<usize>();
    if before.len() != now.len() || bytes as u64 > bounds.memory_bytes {
        return false;
    }
    let known: HashSet<&T> = before.iter().collect();
    now.iter().all(|it| known.contains(it))
}
