//! The order of one query's answers: firings are executed at the same time, and answered in the order of their closes (WI-2).
//!
//! Before changing anything here: comparing answers takes as long as they are large, so it is done without the lock that
//! tickets and answers are left under ([`Order`]).

use crate::changes::Changes;
use crate::order::Order;
use crate::reporting::Reporting;
use crate::subscription::FiringResult;
use parking_lot::Mutex;
use somersault_stream::FiringKey;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A firing that waits for those before it.
pub(crate) struct Left {
    pub(crate) key: FiringKey,
    /// Its answer, and whether everybody was given it before a restart; `None` if it was skipped.
    pub(crate) answered: Option<(FiringResult, bool)>,
}

/// See the module.
pub(crate) struct Turns {
    pub(crate) order: Order<Left>,
    /// Used only by the one who takes answers on.
    compared: Mutex<Compared>,
}

/// What a query compares one answer with the next for.
struct Compared {
    /// Of a query with ISTREAM or DSTREAM.
    changes: Option<Changes>,
    /// Of a query that does not report every firing.
    reporting: Option<Reporting>,
}

impl Turns {
    pub(crate) fn new(changes: Option<Changes>, reporting: Option<Reporting>) -> Turns {
        Turns {
            order: Order::new(),
            compared: Mutex::new(Compared { changes, reporting }),
        }
    }

    /// What is to be told of an answer, and whether subscribers are given it; `None` for what they had before a restart. A
    /// comparison that panics is the answer's failure: those after it have their turn all the same.
    pub(crate) fn compare(
        &self,
        result: FiringResult,
        repeated: bool,
    ) -> Option<(FiringResult, bool)> {
        let mut compared = self.compared.lock();
        if compared.changes.is_none() && compared.reporting.is_none() {
            return Some((result, true));
        }
        let failed = FiringResult {
            answer: Err("internal fault: the comparison of answers panicked".to_owned()),
            ..result.clone()
        };
        let compare = AssertUnwindSafe(|| compared.compare(result, repeated));
        catch_unwind(compare).unwrap_or((!repeated).then_some((failed, true)))
    }
}

impl Compared {
    fn compare(&mut self, result: FiringResult, repeated: bool) -> Option<(FiringResult, bool)> {
        let result = match &mut self.changes {
            Some(changes) => changes.of(result, repeated),
            None => result,
        };
        let reports = match &mut self.reporting {
            Some(reporting) => reporting.reports(&result),
            None => true,
        };
        (!repeated).then_some((result, reports))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use crate::comparison::Comparison;
    use somersault_dictionary::Dictionary;
    use somersault_lang::StreamOperator;
    use somersault_model::{EventTime, QueryUid, TermId};
    use somersault_query::{Answer as Inner, Solutions};
    use std::sync::Arc;
    use std::time::Duration;

    /// An answer with one row of so many columns.
    fn result(close_ms: i64, columns: usize) -> FiringResult {
        let variables: Vec<String> = (0..columns).map(|at| format!("v{at}")).collect();
        let ids = vec![vec![TermId::from_raw(1 << 60 | close_ms as u64)]; columns];
        let solutions = Solutions::new(variables.into(), ids, 1, [].into());
        let answer = Answer::new(Inner::Solutions(solutions), Arc::new(Dictionary::new()));
        FiringResult {
            query: "q".to_owned(),
            uid: 1,
            close_ms,
            revision: 0,
            ordinal: 0,
            sn: close_ms as u64,
            complete_from_ms: None,
            answer: Ok(answer),
            execution: Duration::ZERO,
            delay: Duration::ZERO,
            waiting: Duration::ZERO,
        }
    }

    fn left(close_ms: i64) -> Left {
        Left {
            key: FiringKey {
                query: QueryUid(1),
                close: EventTime(close_ms),
                ordinal: 0,
                revision: 0,
            },
            answered: Some((result(close_ms, 1), false)),
        }
    }

    #[test]
    fn tickets_and_answers_do_not_wait_for_a_comparison() {
        let turns = Turns::new(None, None);
        let tickets: Vec<u64> = (0..2).map(|_| turns.order.ticket()).collect();
        assert!(turns.order.leave(tickets[0], left(0)));
        let close = |left: Option<Left>| left.map(|left| left.key.close.0);
        assert_eq!(close(turns.order.next()), Some(0));
        // While it is compared: were one lock held for all, this would never end.
        let _comparing = turns.compared.lock();
        assert_eq!(turns.order.ticket(), 2);
        assert!(!turns.order.leave(tickets[1], left(1)));
        assert_eq!(close(turns.order.next()), Some(1));
    }

    /// Turns of a query with ISTREAM whose comparisons may take so much memory.
    fn comparing(memory_bytes: u64) -> Turns {
        let comparison = Comparison {
            dictionary: Arc::new(Dictionary::new()),
            firing_time: Duration::from_secs(60),
            memory_bytes,
        };
        let changes = Changes::new(StreamOperator::IStream, None, comparison);
        Turns::new(Some(changes), None)
    }

    fn rows(turns: &Turns, result: FiringResult) -> Result<u64, String> {
        let (result, _) = turns.compare(result, false).unwrap();
        result.answer.map(|answer| answer.len() as u64)
    }

    #[test]
    fn a_comparison_beyond_its_limits_fails_its_answer_alone() {
        // Enough for two ids and what is counted of them, not for six.
        let turns = comparing(70);
        let answer = |close_ms| result(close_ms, 1);
        assert_eq!(rows(&turns, answer(0)), Ok(1));
        let mut larger = answer(1);
        let more = Solutions::new(
            vec!["v0".to_owned()].into(),
            vec![vec![TermId::from_raw(1 << 60); 5]],
            5,
            [].into(),
        );
        larger.answer = Ok(Answer::new(
            Inner::Solutions(more),
            Arc::new(Dictionary::new()),
        ));
        let refused = rows(&turns, larger);
        assert!(refused.is_err_and(|error| error.contains("query_memory_bytes")));
        // The next is compared with the one before that.
        assert_eq!(rows(&turns, answer(0)), Ok(0));
    }

    #[test]
    fn a_comparison_that_panics_fails_its_answer_alone() {
        let turns = comparing(1 << 20);
        let rows = |result| rows(&turns, result);
        assert_eq!(rows(result(0, 1)), Ok(1));
        // Answers of one query have the same columns.
        assert!(rows(result(1, 2)).is_err_and(|error| error.contains("panicked")));
        assert_eq!(rows(result(2, 1)), Ok(1));
    }
}
