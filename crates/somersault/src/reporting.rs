//! REPORT ON CHANGE and REPORT NON EMPTY: which firings subscribers are given. All of them count, and all feed what is
//! derived from them. Answers come here in the order of their firings.
//!
//! The one thing to know before changing it: after a restart the first firing that is executed again is the last one that was
//! delivered; it is there to be compared with and given to nobody, so that reports are those of a run without the
//! restart (RC-1).

use crate::answer::Answer;
use crate::subscription::FiringResult;
use somersault_lang::Report;
use somersault_query::Answer as Inner;
use somersault_store::Dictionary;
use std::collections::HashSet;
use std::sync::Arc;

/// What becomes of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Subscribers are given it.
    Reported,
    /// They are not.
    Passed,
    /// It was given its verdict before a restart.
    Repeated,
}

/// Decides which firings of a query are reported.
pub(crate) struct Reporting {
    report: Report,
    dictionary: Arc<Dictionary>,
    before: Before,
    newest_close_ms: Option<i64>,
}

/// The answer of the firing before.
enum Before {
    /// Not executed yet since the engine was started.
    Unknown,
    /// There was none, or it failed: every answer is a change.
    Nothing,
    Known(Arc<Inner>),
}

impl Reporting {
    pub(crate) fn new(report: Report, dictionary: Arc<Dictionary>) -> Reporting {
        Reporting {
            report,
            dictionary,
            before: Before::Unknown,
            newest_close_ms: None,
        }
    }

    pub(crate) fn judge(&mut self, result: &FiringResult, is_first: bool) -> Verdict {
        if !self.report.on_change {
            return self.unless_empty(result);
        }
        if is_first {
            self.before = Before::Nothing;
        }
        let was_unknown = matches!(self.before, Before::Unknown);
        if result.revision > 0 && !was_unknown {
            // It takes the place of an earlier answer; only that of the newest close is what the next one is compared with.
            if self.newest_close_ms == Some(result.close_ms) {
                self.note(result);
            }
            return self.unless_empty(result);
        }
        let has_changed = match (&self.before, &result.answer) {
            (Before::Known(before), Ok(now)) => !self.is_same(before, now.inner()),
            _ => true,
        };
        self.note(result);
        match (was_unknown, has_changed) {
            (true, _) => Verdict::Repeated,
            (false, true) => self.unless_empty(result),
            (false, false) => Verdict::Passed,
        }
    }

    fn note(&mut self, result: &FiringResult) {
        self.newest_close_ms = self.newest_close_ms.max(Some(result.close_ms));
        self.before = match &result.answer {
            Ok(answer) => Before::Known(Arc::clone(answer.inner())),
            Err(_) => Before::Nothing,
        };
    }

    /// What failed is reported all the same.
    fn unless_empty(&self, result: &FiringResult) -> Verdict {
        let is_empty = result.answer.as_ref().is_ok_and(Answer::is_empty);
        match self.report.non_empty && is_empty {
            true => Verdict::Passed,
            false => Verdict::Reported,
        }
    }

    /// Whether two answers of the query are the same bag of solutions, or set of triples.
    fn is_same(&self, before: &Inner, now: &Inner) -> bool {
        match (before, now) {
            (Inner::Solutions(before), Inner::Solutions(now)) => {
                before.len() == now.len() && now.without(before, &self.dictionary).is_empty()
            }
            (Inner::Boolean(before), Inner::Boolean(now)) => before == now,
            (Inner::Graph(before), Inner::Graph(now)) => {
                let known: HashSet<_> = before.iter().collect();
                before.len() == now.len() && now.iter().all(|triple| known.contains(triple))
            }
            _ => false,
        }
    }
}
