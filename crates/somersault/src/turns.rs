//! The order of one query's answers: firings are executed at the same time, and answered in the order of their closes (WI-2).
//!
//! Before changing anything here: the driver's thread takes tickets, so it must never wait while answers are compared, which
//! takes as long as they are large. So whoever leaves an answer whose turn it is takes it on, and all whose turn comes
//! meanwhile, one after the other and without the lock that tickets and answers are left under; others only leave theirs.

use crate::changes::Changes;
use crate::repeats::Repeats;
use crate::reporting::Reporting;
use crate::subscription::FiringResult;
use parking_lot::Mutex;
use somersault_stream::FiringKey;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// A firing that waits for those before it.
pub(crate) struct Left {
    pub(crate) key: FiringKey,
    /// Its answer, and whether it is the query's first firing; `None` if it was skipped.
    pub(crate) answered: Option<(FiringResult, bool)>,
}

/// See the module.
pub(crate) struct Turns {
    tickets: AtomicU64,
    waiting: Mutex<Waiting>,
    /// Used only by the one who takes answers on.
    compared: Mutex<Compared>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By ticket.
    left: BTreeMap<u64, Left>,
    /// Somebody takes on what has its turn.
    is_taken_on: bool,
}

/// What a query compares one answer with the next for.
struct Compared {
    /// Of a query with ISTREAM or DSTREAM.
    changes: Option<Changes>,
    /// Of a query that does not report every firing.
    reporting: Option<Reporting>,
    repeats: Repeats,
}

impl Turns {
    pub(crate) fn new(changes: Option<Changes>, reporting: Option<Reporting>) -> Turns {
        Turns {
            tickets: AtomicU64::new(0),
            waiting: Mutex::default(),
            compared: Mutex::new(Compared {
                changes,
                reporting,
                repeats: Repeats::default(),
            }),
        }
    }

    /// The place of the next firing in the order of answers. One thread asks for them.
    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// Leaves a firing's answer. Whether the caller is to take on what has its turn: by [`Turns::next`], until there is none.
    #[must_use]
    pub(crate) fn leave(&self, ticket: u64, left: Left) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.left.insert(ticket, left);
        if waiting.is_taken_on || !waiting.left.contains_key(&waiting.next) {
            return false;
        }
        waiting.is_taken_on = true;
        true
    }

    /// The firing whose turn it is.
    pub(crate) fn next(&self) -> Option<Left> {
        let mut waiting = self.waiting.lock();
        let next = waiting.next;
        match waiting.left.remove(&next) {
            Some(left) => {
                waiting.next += 1;
                Some(left)
            }
            None => {
                waiting.is_taken_on = false;
                None
            }
        }
    }

    /// What is to be told of an answer, and whether subscribers are given it; `None` for what they had before a restart. A
    /// comparison that panics is the answer's failure: those after it have their turn all the same.
    pub(crate) fn compare(
        &self,
        result: FiringResult,
        is_first: bool,
    ) -> Option<(FiringResult, bool)> {
        let mut compared = self.compared.lock();
        if compared.changes.is_none() && compared.reporting.is_none() {
            return Some((result, true));
        }
        let failed = FiringResult {
            answer: Err("internal fault: the comparison of answers panicked".to_owned()),
            ..result.clone()
        };
        let compare = AssertUnwindSafe(|| compared.compare(result, is_first));
        catch_unwind(compare).unwrap_or(Some((failed, true)))
    }
}

impl Compared {
    fn compare(&mut self, result: FiringResult, is_first: bool) -> Option<(FiringResult, bool)> {
        // Where nothing is compared, nothing is executed again for it.
        let compares =
            self.changes.is_some() || self.reporting.as_ref().is_some_and(Reporting::compares);
        let is_repeat = compares && self.repeats.is_one(result.sn, is_first);
        let result = match &mut self.changes {
            Some(changes) => changes.of(result, is_repeat),
            None => result,
        };
        let reports = match &mut self.reporting {
            Some(reporting) => reporting.reports(&result),
            None => true,
        };
        (!is_repeat).then_some((result, reports))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Answer;
    use somersault_lang::StreamOperator;
    use somersault_model::{EventTime, QueryUid, TermId};
    use somersault_query::{Answer as Inner, Solutions};
    use somersault_store::Dictionary;
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
            answered: Some((result(close_ms, 1), close_ms == 0)),
        }
    }

    #[test]
    fn tickets_and_answers_do_not_wait_for_a_comparison() {
        let turns = Turns::new(None, None);
        let tickets: Vec<u64> = (0..3).map(|_| turns.ticket()).collect();
        assert!(!turns.leave(tickets[1], left(1)), "the one before has none");
        assert!(turns.leave(tickets[0], left(0)));
        let close = |left: Option<Left>| left.map(|left| left.key.close.0);
        assert_eq!(close(turns.next()), Some(0));
        // While it is compared: were one lock held for all, this would never end.
        let _comparing = turns.compared.lock();
        assert_eq!(turns.ticket(), 3);
        assert!(!turns.leave(tickets[2], left(2)), "it is taken on already");
        assert_eq!(close(turns.next()), Some(1));
        assert_eq!(close(turns.next()), Some(2));
        assert_eq!(close(turns.next()), None);
        assert!(turns.leave(3, left(3)), "nobody takes on any more");
    }

    #[test]
    fn a_comparison_that_panics_fails_its_answer_alone() {
        let changes = Changes::new(StreamOperator::IStream, None, Arc::new(Dictionary::new()));
        let turns = Turns::new(Some(changes), None);
        let rows = |result, is_first| {
            let (result, _) = turns.compare(result, is_first).unwrap();
            result.answer.map(|answer| answer.len())
        };
        assert_eq!(rows(result(0, 1), true), Ok(1));
        // Answers of one query have the same columns.
        assert!(rows(result(1, 2), false).is_err_and(|error| error.contains("panicked")));
        assert_eq!(rows(result(2, 2), false), Ok(1));
    }
}
