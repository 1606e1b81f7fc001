//! ISTREAM and DSTREAM: each answer is compared with the solutions of the previous firing. Answers
//! come here in the order of their closes, first those that are executed again after a restart
//! (`Firing::repeated`).

use super::{Comparison, UNKNOWN};
use crate::evaluation::outcome::Difference;
use crate::subscriptions::FiringResult;
use somersault_lang::StreamOperator;
use somersault_model::{QueryUid, Sn};
use somersault_query::{Answer as Inner, Bounds, Solutions, StoredDifference, Template};
use somersault_results::Answer;
use std::sync::Arc;
use std::time::Instant;

/// The rows of differences that are kept apart from a whole answer, however short it is.
const LEAST_CAUGHT_UP: usize = 1 << 10;

/// Turns whole answers into their changes.
pub(crate) struct Changes {
    operator: StreamOperator,
    /// The template of a CONSTRUCT, whose answers come here as solutions.
    template: Option<Template>,
    comparison: Comparison,
    before: Before,
    /// What has come and left since, where firings came as differences.
    later: Vec<StoredDifference>,
    /// The SN of the firing before, if it has an answer and was since the start.
    at: Option<Sn>,
}

/// The answer of the firing before.
#[derive(Clone, Default)]
pub(super) enum Before {
    /// There was none, or none since the engine was started.
    #[default]
    Nothing,
    Known(Arc<Inner>),
    /// It failed when it was executed again after the restart.
    Lost(String),
}

impl Changes {
    /// For a query with this operator; `template` is that of a CONSTRUCT.
    pub(crate) fn new(
        operator: StreamOperator,
        template: Option<Template>,
        comparison: Comparison,
    ) -> Changes {
        Changes {
            operator,
            template,
            comparison,
            before: Before::Nothing,
            later: Vec::new(),
            at: None,
        }
    }

    /// Returns what the next answer is compared with.
    pub(super) fn before(&mut self) -> &Before {
        self.catch_up(&Bounds {
            until: Instant::now() + self.comparison.firing_time,
            time: self.comparison.firing_time,
            memory_bytes: u64::MAX,
        });
        &self.before
    }

    /// Whether the next answer may come as its difference to the firing before.
    pub(super) fn takes_differences(&self) -> bool {
        self.at.is_some()
    }

    /// Returns the firing with its changes, made of what came and left since the firing at an SN.
    pub(super) fn of_difference(
        &mut self,
        mut result: FiringResult,
        difference: Difference,
    ) -> FiringResult {
        let bounds = self.comparison.bounds(&result);
        let solutions = difference.solutions;
        let changed = match self.at.take() {
            Some(at) if at == difference.since => {
                self.difference(&solutions.came, &solutions.left, &bounds)
            }
            // The next firing is evaluated as a whole.
            _ => Err(UNKNOWN.to_owned()),
        };
        if changed.is_ok() {
            self.at = Some(result.sn);
            self.later.push(solutions);
            self.catch_up_if_long(&bounds);
        }
        self.give(&mut result, changed);
        result
    }

    /// Adds the later differences to the last whole answer once they are as long as it is: then
    /// each row is moved a few times at most.
    fn catch_up_if_long(&mut self, bounds: &Bounds) {
        let later: usize = self.later.iter().map(StoredDifference::rows).sum();
        let Before::Known(answer) = &self.before else {
            return;
        };
        if let Inner::Solutions(rows) = &**answer
            && later > rows.len() + LEAST_CAUGHT_UP
        {
            self.catch_up(bounds);
        }
    }

    fn catch_up(&mut self, bounds: &Bounds) {
        let mut later = std::mem::take(&mut self.later).into_iter();
        let Some(mut all) = later.next() else { return };
        for one in later {
            all.came = all.came.plus(&one.came);
            all.left = all.left.plus(&one.left);
        }
        if let Before::Known(answer) = &self.before
            && let Inner::Solutions(rows) = &**answer
        {
            self.before = match self.comparison.after(rows, &all, bounds) {
                Ok(rows) => Before::Known(Arc::new(Inner::Solutions(rows))),
                Err(error) => Before::Lost(error),
            };
        }
    }

    /// Sets what the next answer is compared with.
    pub(super) fn set_before(&mut self, before: Before) {
        self.before = before;
    }

    /// Returns the firing with its changes in place of the whole answer. A firing that was
    /// delivered before a restart is only remembered. A firing that failed, also in the comparison,
    /// is passed over: the next one is compared with the last that has an answer.
    pub(crate) fn of(&mut self, mut result: FiringResult, is_repeat: bool) -> FiringResult {
        self.at = result.answer.is_ok().then_some(result.sn);
        let bounds = self.comparison.bounds(&result);
        self.catch_up(&bounds);
        let now = match &result.answer {
            Ok(answer) => Arc::clone(answer.inner()),
            Err(error) => {
                if is_repeat {
                    self.before = Before::Lost(error.clone());
                }
                return result;
            }
        };
        let known = Before::Known(Arc::clone(&now));
        if is_repeat {
            self.before = known;
            return result;
        }
        let changed = match (&self.before, &*now) {
            (Before::Lost(error), _) => Err(format!(
                "what has changed is not known, because the firing before could not be evaluated again after the restart ({error}); the next firing is compared with this one"
            )),
            (Before::Nothing, Inner::Solutions(now)) => {
                self.difference(now, &now.none_of(), &bounds)
            }
            (Before::Known(before), Inner::Solutions(now)) => match &**before {
                Inner::Solutions(before) => self.difference(now, before, &bounds),
                _ => return result,
            },
            // The parser refuses the forms without solutions.
            _ => return result,
        };
        match changed.is_ok() || matches!(self.before, Before::Lost(_)) {
            true => self.before = known,
            // The next one is compared with an earlier answer.
            false => self.at = None,
        }
        self.give(&mut result, changed);
        result
    }

    /// Gives a firing its changes as its answer.
    fn give(&self, result: &mut FiringResult, changed: Result<Solutions, String>) {
        let key = (QueryUid(result.uid), result.close);
        let dictionary = &self.comparison.dictionary;
        result.answer = changed.map(|solutions| {
            let inner = match &self.template {
                Some(template) => template.fill(&solutions, dictionary, key),
                None => Inner::Solutions(solutions),
            };
            Answer::new(inner, Arc::clone(dictionary))
        });
    }

    fn difference(
        &self,
        now: &Solutions,
        before: &Solutions,
        bounds: &Bounds,
    ) -> Result<Solutions, String> {
        match self.operator {
            StreamOperator::DStream => self.comparison.without(before, now, bounds),
            _ => self.comparison.without(now, before, bounds),
        }
    }
}
