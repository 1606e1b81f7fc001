//! What ISTREAM and DSTREAM need from one firing to the next: the solutions of the firing before. Answers come here in
//! the order of their closes.
//!
//! The one thing to know before changing it: after a restart the first firing that is executed again is the last one
//! that was delivered; it is not given to anybody, and the next one is compared with it. So answers are those of a run
//! without the restart (RC-1).

use crate::answer::Answer;
use crate::subscription::FiringResult;
use somersault_lang::StreamOperator;
use somersault_model::{EventTime, QueryUid};
use somersault_query::{Answer as Inner, Solutions, Template};
use somersault_store::Dictionary;
use std::sync::Arc;

/// Turns whole answers into what has changed.
pub(crate) struct Changes {
    operator: StreamOperator,
    /// Of a CONSTRUCT; its answers come here as solutions.
    template: Option<Template>,
    dictionary: Arc<Dictionary>,
    before: Before,
}

/// The answer of the firing before.
enum Before {
    /// Not executed yet since the engine was started.
    Unknown,
    /// There was none: nothing has changed but what is there now.
    Nothing,
    Known(Arc<Inner>),
    /// It failed when it was executed again, after the restart.
    Lost(String),
}

impl Changes {
    /// For a query with this operator; a CONSTRUCT comes with its template.
    pub(crate) fn new(
        operator: StreamOperator,
        template: Option<Template>,
        dictionary: Arc<Dictionary>,
    ) -> Changes {
        Changes {
            operator,
            template,
            dictionary,
            before: Before::Unknown,
        }
    }

    /// The firing with what has changed in the place of the whole answer; `None` for one that was delivered before a
    /// restart. A firing that failed is passed over: the next one is compared with the last that has an answer.
    pub(crate) fn of(&mut self, mut result: FiringResult, is_first: bool) -> Option<FiringResult> {
        if is_first {
            self.before = Before::Nothing;
        }
        let now = match &result.answer {
            Ok(answer) => Arc::clone(answer.inner()),
            Err(error) => {
                if matches!(self.before, Before::Unknown) {
                    self.before = Before::Lost(error.clone());
                    return None;
                }
                return Some(result);
            }
        };
        let before = std::mem::replace(&mut self.before, Before::Known(Arc::clone(&now)));
        let changed = match (before, &*now) {
            (Before::Unknown, _) => return None,
            (Before::Lost(error), _) => Err(format!(
                "what has changed is not known, because the firing before could not be evaluated again after the restart ({error}); the next firing is compared with this one"
            )),
            (Before::Nothing, Inner::Solutions(now)) => Ok(self.difference(now, &now.none_of())),
            (Before::Known(before), Inner::Solutions(now)) => match &*before {
                Inner::Solutions(before) => Ok(self.difference(now, before)),
                _ => return Some(result),
            },
            // The parser refuses the forms without solutions.
            _ => return Some(result),
        };
        let key = (QueryUid(result.uid), EventTime(result.close_ms));
        result.answer = changed.map(|solutions| {
            let inner = match &self.template {
                Some(template) => template.fill(&solutions, &self.dictionary, key),
                None => Inner::Solutions(solutions),
            };
            Answer::new(inner, Arc::clone(&self.dictionary))
        });
        Some(result)
    }

    fn difference(&self, now: &Solutions, before: &Solutions) -> Solutions {
        match self.operator {
            StreamOperator::DStream => before.without(now, &self.dictionary),
            _ => now.without(before, &self.dictionary),
        }
    }
}
