//! What ISTREAM and DSTREAM need from one firing to the next: the solutions of the firing before. Answers come here in
//! the order of their closes.
//!
//! The one thing to know before changing it: after a restart the first firings that are executed again are those of the last
//! SN of which all were delivered; they are not given to anybody, and the next one is compared with the last of them. So
//! answers are those of a run without the restart (RC-1).

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
    /// The SN whose firings were delivered before the restart.
    repeated: Option<u64>,
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
            repeated: None,
        }
    }

    /// The firing with what has changed in the place of the whole answer; `None` for one that was delivered before a
    /// restart. A firing that failed is passed over: the next one is compared with the last that has an answer.
    pub(crate) fn of(&mut self, mut result: FiringResult, is_first: bool) -> Option<FiringResult> {
        if is_first {
            self.before = Before::Nothing;
        }
        let is_unknown = matches!(self.before, Before::Unknown);
        if is_unknown {
            self.repeated = Some(result.sn);
        }
        let is_repeated = self.repeated == Some(result.sn);
        let now = match &result.answer {
            Ok(answer) => Arc::clone(answer.inner()),
            Err(error) => {
                if is_unknown {
                    self.before = Before::Lost(error.clone());
                }
                return (!is_repeated).then_some(result);
            }
        };
        let before = std::mem::replace(&mut self.before, Before::Known(Arc::clone(&now)));
        let changed = match (before, &*now) {
            (Before::Unknown, _) => return None,
            _ if is_repeated => return None,
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
        let dictionary = Arc::new(Dictionary::new());
        let mut changes = Changes::new(StreamOperator::IStream, None, Arc::clone(&dictionary));
        let is_given = [(5, 0), (5, 1), (5, 2), (6, 0), (6, 1)]
            .map(|(sn, ordinal)| changes.of(failed(sn, ordinal), false).is_some());
        assert_eq!(is_given, [false, false, false, true, true]);
        // Without a restart there are none.
        let mut changes = Changes::new(StreamOperator::IStream, None, dictionary);
        assert!(changes.of(failed(5, 0), true).is_some());
        assert!(changes.of(failed(5, 1), false).is_some());
    }
}
