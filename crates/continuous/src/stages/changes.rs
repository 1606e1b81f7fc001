//! ISTREAM and DSTREAM: each answer is compared with the solutions of the previous firing. Answers
//! come here in the order of their closes, first those that are executed again after a restart
//! (`Firing::repeated`).

use super::Comparison;
use crate::subscriptions::FiringResult;
use somersault_lang::StreamOperator;
use somersault_model::QueryUid;
use somersault_query::{Answer as Inner, Bounds, Solutions, Template};
use somersault_results::Answer;
use std::sync::Arc;

/// Turns whole answers into their changes.
pub(crate) struct Changes {
    operator: StreamOperator,
    /// The template of a CONSTRUCT, whose answers come here as solutions.
    template: Option<Template>,
    comparison: Comparison,
    before: Before,
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
        }
    }

    /// Returns what the next answer is compared with.
    pub(super) fn before(&self) -> &Before {
        &self.before
    }

    /// Sets what the next answer is compared with.
    pub(super) fn set_before(&mut self, before: Before) {
        self.before = before;
    }

    /// Returns the firing with its changes in place of the whole answer. A firing that was
    /// delivered before a restart is only remembered. A firing that failed, also in the comparison,
    /// is passed over: the next one is compared with the last that has an answer.
    pub(crate) fn of(&mut self, mut result: FiringResult, is_repeat: bool) -> FiringResult {
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
        let bounds = self.comparison.bounds(&result);
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
        if changed.is_ok() || matches!(self.before, Before::Lost(_)) {
            self.before = known;
        }
        let key = (QueryUid(result.uid), result.close);
        let dictionary = &self.comparison.dictionary;
        result.answer = changed.map(|solutions| {
            let inner = match &self.template {
                Some(template) => template.fill(&solutions, dictionary, key),
                None => Inner::Solutions(solutions),
            };
            Answer::new(inner, Arc::clone(dictionary))
        });
        result
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
