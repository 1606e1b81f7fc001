//! REPORT ON CHANGE and REPORT NON EMPTY: which firings subscribers are given. All of them count, and all feed what is
//! derived from them. Answers come here in the order of their firings.
//!
//! The one thing to know before changing it: after a restart the first firings that are executed again are those of the last SN
//! of which all were delivered; they are there to be compared with and given to nobody, so that reports are those of a run
//! without the restart (RC-1).

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
    /// The SN whose firings had their verdicts before the restart.
    repeated: Option<u64>,
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
            repeated: None,
        }
    }

    pub(crate) fn judge(&mut self, result: &FiringResult, is_first: bool) -> Verdict {
        if !self.report.on_change {
            return self.unless_empty(result);
        }
        if is_first {
            self.before = Before::Nothing;
        }
        if matches!(self.before, Before::Unknown) {
            self.repeated = Some(result.sn);
        }
        let has_changed = match (&self.before, &result.answer) {
            (Before::Known(before), Ok(now)) => !self.is_same(before, now.inner()),
            _ => true,
        };
        self.note(result);
        match (self.repeated == Some(result.sn), has_changed) {
            (true, _) => Verdict::Repeated,
            (false, true) => self.unless_empty(result),
            (false, false) => Verdict::Passed,
        }
    }

    fn note(&mut self, result: &FiringResult) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn failed(sn: u64, ordinal: u32) -> FiringResult {
        FiringResult {
            query: "q".to_owned(),
            uid: 1,
            close_ms: 1000,
            revision: 0,
            ordinal,
            sn,
            complete_from_ms: None,
            answer: Err("failed".to_owned()),
            execution: Duration::ZERO,
            delay: Duration::ZERO,
            waiting: Duration::ZERO,
        }
    }

    #[test]
    fn all_firings_of_the_sn_that_was_delivered_last_are_repeats() {
        let report = Report {
            on_change: true,
            ..Report::default()
        };
        let mut reporting = Reporting::new(report, Arc::new(Dictionary::new()));
        let verdicts = [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1)]
            .map(|(sn, ordinal)| reporting.judge(&failed(sn, ordinal), false));
        use Verdict::{Repeated, Reported};
        assert_eq!(verdicts, [Repeated, Repeated, Repeated, Reported, Reported]);
        // Without a restart there are none.
        let mut reporting = Reporting::new(report, Arc::new(Dictionary::new()));
        assert_eq!(reporting.judge(&failed(5, 0), true), Reported);
        assert_eq!(reporting.judge(&failed(5, 1), false), Reported);
    }
}
