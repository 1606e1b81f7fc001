//! The stages of a query's answers beyond delivery to subscribers: ISTREAM and DSTREAM, REPORT, and
//! the stream that it derives. Queries of a shape have none of these, so every stage serves the
//! only member of a cohort.
//!
//! Before changing anything here: firings are executed at the same time and answered in the order
//! of their closes (WI-2). The time to compare answers grows with their size, so comparing is done
//! without the lock under which tickets and results are left
//! ([`crate::order::resequencer::Resequencer`]).

mod changes;
mod comparison;
mod reporting;
mod saved;

pub(crate) use comparison::Comparison;
pub(crate) use saved::SavedStages;

use crate::evaluation::outcome::{CohortResult, Difference};
use crate::subscriptions::{FiringId, FiringResult};
use changes::Changes;
use oxrdf::{GraphName, Quad};
use parking_lot::Mutex;
use reporting::Reporting;
use somersault_dictionary::Dictionary;
use somersault_lang::{ContinuousQuery, Report};
use somersault_query::Template;
use somersault_results::Answer;
use somersault_runtime::DerivedOutput;
use somersault_stream::FiringKey;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A firing whose turn it is in the order of its cohort's answers.
pub(crate) struct Turn {
    pub(crate) key: FiringKey,
    /// `None` if it was skipped, or not executed because its queries had been dropped.
    pub(crate) result: Option<CohortResult>,
}

/// The cell of the only member of a cohort.
const SOLE_CELL: u32 = 0;

/// The stages of a query.
#[derive(Default)]
pub(crate) struct Stages {
    /// Used only by the one thread that publishes. `None` for a query that reports everything that
    /// it finds.
    compared: Option<Box<Mutex<Compared>>>,
    /// Whether the next answer may come as its difference to the firing before. Read by threads
    /// that evaluate; one that is wrong makes a firing fail, or evaluates more than is needed.
    takes_differences: AtomicBool,
    /// Whether the answers form a stream.
    derives: bool,
}

/// Why a firing that came as a difference has no answer.
const UNKNOWN: &str = "what has changed is not known, because the firing before has no answer; the next firing is compared with the last one that has";

/// The stages that compare each answer with the one before.
struct Compared {
    /// Set for a query with ISTREAM or DSTREAM.
    changes: Option<Changes>,
    /// Set for a query that does not report every firing.
    reporting: Option<Reporting>,
}

impl Stages {
    /// Returns the stages of a query. A CONSTRUCT whose answers are compared loses its template:
    /// from now on it is evaluated without it.
    pub(crate) fn of(query: &mut ContinuousQuery, comparison: impl Fn() -> Comparison) -> Stages {
        let changes = query.operator.compares().then(|| {
            let template = Template::split_off(&mut query.query);
            Changes::new(query.operator, template, comparison())
        });
        let reporting =
            (query.report != Report::default()).then(|| Reporting::new(query.report, comparison()));
        let compares = changes.is_some() || reporting.is_some();
        Stages {
            compared: compares.then(|| Box::new(Mutex::new(Compared { changes, reporting }))),
            takes_differences: AtomicBool::new(false),
            derives: query.derives.is_some(),
        }
    }

    /// Whether some stage compares each answer with the one before.
    pub(crate) fn compares(&self) -> bool {
        self.compared.is_some()
    }

    /// Whether the next answer may come as its difference to the firing before.
    pub(crate) fn takes_differences(&self) -> bool {
        self.takes_differences.load(Ordering::Relaxed)
    }

    /// Returns what the next answer is compared with.
    pub(crate) fn save(&self) -> SavedStages {
        let Some(compared) = &self.compared else {
            return SavedStages::default();
        };
        let Compared { changes, reporting } = &mut *compared.lock();
        let changes = changes.as_mut().map(Changes::before);
        SavedStages {
            changes: changes.cloned().unwrap_or_default(),
            reporting: reporting.as_ref().and_then(Reporting::before).cloned(),
        }
    }

    /// Sets what the next answer is compared with.
    pub(crate) fn restore(&self, saved: SavedStages) {
        let Some(compared) = &self.compared else {
            return;
        };
        let Compared { changes, reporting } = &mut *compared.lock();
        if let Some(changes) = changes {
            changes.set_before(saved.changes);
        }
        if let Some(reporting) = reporting {
            reporting.set_before(saved.reporting);
        }
    }

    /// Returns the result to publish and whether to report it. Returns the firing's id as the error
    /// if subscribers had it before a restart.
    pub(crate) fn compare(
        &self,
        mut result: CohortResult,
        dictionary: &Arc<Dictionary>,
    ) -> Result<(CohortResult, bool), FiringId> {
        let Some(compared) = &self.compared else {
            return Ok((result, true));
        };
        let (id, repeated) = (result.id(), result.firing.repeated);
        let difference = result.outcome.take_difference();
        let answer = match &difference {
            Some(_) => Err("internal fault: a difference was not made an answer".to_owned()),
            None => result.outcome.answer(SOLE_CELL, dictionary),
        };
        let query = (result.firing.query, "");
        let own = FiringResult::new(&result.firing, result.took, query, answer);
        let mut compared = compared.lock();
        let compared_own = compared.guarded(own, difference, repeated);
        let takes = compared.takes_differences();
        self.takes_differences.store(takes, Ordering::Relaxed);
        drop(compared);
        let (own, is_reported) = compared_own.ok_or(id)?;
        result.outcome.replace(SOLE_CELL, own.answer);
        Ok((result, is_reported))
    }

    /// Returns the input of a firing to the stream that the query derives; `None` if it derives
    /// none. A firing without a result was skipped.
    pub(crate) fn derive(
        &self,
        key: FiringKey,
        result: Option<&CohortResult>,
        dictionary: &Arc<Dictionary>,
    ) -> Option<DerivedOutput> {
        if !self.derives {
            return None;
        }
        let answer = result.map(|result| result.outcome.answer(SOLE_CELL, dictionary));
        if key.revision > 0 && matches!(answer, Some(Err(_))) {
            // A failure is not an empty answer: the statements derived before would be lost.
            return Some(DerivedOutput::Unchanged);
        }
        let answer = answer.and_then(Result::ok);
        let triples = answer.iter().flat_map(Answer::triples);
        let statements = triples.map(|triple| triple.in_graph(GraphName::DefaultGraph));
        let quads = answer.iter().flat_map(Answer::quads).cloned();
        let mut statements: Vec<Quad> = statements.chain(quads).collect();
        // A count window may begin between them, so their order must not depend on ids (S6).
        statements.sort_by_cached_key(Quad::to_string);
        Some(DerivedOutput::Statements(statements))
    }
}

impl Compared {
    /// As [`Compared::compare`]. A comparison that panics becomes the error of its answer; later
    /// answers still have their turn.
    fn guarded(
        &mut self,
        result: FiringResult,
        difference: Option<Difference>,
        repeated: bool,
    ) -> Option<(FiringResult, bool)> {
        let failed = FiringResult {
            answer: Err("internal fault: the comparison of answers panicked".to_owned()),
            ..result.clone()
        };
        let compare = AssertUnwindSafe(|| match difference {
            Some(difference) => Some(self.of_difference(result, difference)),
            None => self.compare(result, repeated),
        });
        catch_unwind(compare).unwrap_or((!repeated).then_some((failed, true)))
    }

    /// The answer to publish and whether to report it; `None` if it was delivered before the
    /// restart.
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

    /// The answer to publish, made of what has come and left, and whether to report it.
    fn of_difference(
        &mut self,
        result: FiringResult,
        difference: Difference,
    ) -> (FiringResult, bool) {
        let result = match (&mut self.changes, &self.reporting) {
            (Some(changes), _) => changes.of_difference(result, difference),
            (None, Some(reporting)) => reporting.of_difference(result, &difference),
            (None, None) => result,
        };
        let reports = match &mut self.reporting {
            Some(reporting) => reporting.reports(&result),
            None => true,
        };
        (result, reports)
    }

    fn takes_differences(&self) -> bool {
        match (&self.changes, &self.reporting) {
            (Some(changes), _) => changes.takes_differences(),
            (None, Some(reporting)) => reporting.takes_differences(),
            (None, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::resequencer::Resequencer;
    use somersault_lang::StreamOperator;
    use somersault_model::{EventTime, QueryUid, Sn, TermId};
    use somersault_query::{Answer as Inner, Solutions};
    use somersault_results::Answer;
    use std::sync::Arc;
    use std::time::Duration;

    /// Returns an answer with one row of this many columns.
    fn result(close_ms: i64, columns: usize) -> FiringResult {
        let variables: Vec<String> = (0..columns).map(|at| format!("v{at}")).collect();
        let ids = vec![vec![TermId::from_raw(1 << 60 | close_ms as u64)]; columns];
        let solutions = Solutions::new(variables.into(), ids, 1, [].into());
        let answer = Answer::new(Inner::Solutions(solutions), Arc::new(Dictionary::new()));
        FiringResult {
            query: "q".to_owned(),
            uid: 1,
            close: EventTime(close_ms),
            revision: 0,
            ordinal: 0,
            sn: Sn(close_ms as u64),
            complete_from: None,
            answer: Ok(answer),
            execution: Duration::ZERO,
            delay: Duration::ZERO,
            waiting: Duration::ZERO,
        }
    }

    fn turn(close_ms: i64) -> Turn {
        Turn {
            key: FiringKey {
                query: QueryUid(1),
                close: EventTime(close_ms),
                ordinal: 0,
                revision: 0,
            },
            result: None,
        }
    }

    #[test]
    fn tickets_and_answers_do_not_wait_for_a_comparison() {
        let order = Resequencer::new();
        let stages = Stages {
            compared: Some(Box::new(Mutex::new(comparing(1 << 20)))),
            takes_differences: AtomicBool::new(false),
            derives: false,
        };
        let tickets: Vec<u64> = (0..2).map(|_| order.ticket()).collect();
        assert!(order.leave(tickets[0], turn(0)));
        let close = |turn: Option<Turn>| turn.map(|turn| turn.key.close.0);
        assert_eq!(close(order.next()), Some(0));
        // While one answer is compared: with one lock for everything, this would never end.
        let _comparing = stages.compared.as_ref().map(|it| it.lock());
        assert_eq!(order.ticket(), 2);
        assert!(!order.leave(tickets[1], turn(1)));
        assert_eq!(close(order.next()), Some(1));
    }

    /// A query with ISTREAM whose comparisons may take this much memory, in bytes.
    fn comparing(memory_bytes: u64) -> Compared {
        let comparison = Comparison {
            dictionary: Arc::new(Dictionary::new()),
            firing_time: Duration::from_secs(60),
            memory_bytes,
        };
        let changes = Changes::new(StreamOperator::IStream, None, comparison);
        Compared {
            changes: Some(changes),
            reporting: None,
        }
    }

    fn rows(compared: &mut Compared, result: FiringResult) -> Result<u64, String> {
        let (result, _) = compared.guarded(result, None, false).unwrap();
        result.answer.map(|answer| answer.len() as u64)
    }

    #[test]
    fn a_comparison_beyond_its_limits_fails_its_answer_alone() {
        // Enough for two ids and their counts, not for six.
        let mut compared = comparing(70);
        let answer = |close_ms| result(close_ms, 1);
        assert_eq!(rows(&mut compared, answer(0)), Ok(1));
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
        let refused = rows(&mut compared, larger);
        assert!(refused.is_err_and(|error| error.contains("query_memory_bytes")));
        // The next is compared with the one before that.
        assert_eq!(rows(&mut compared, answer(0)), Ok(0));
    }

    #[test]
    fn a_comparison_that_panics_fails_its_answer_alone() {
        let mut compared = comparing(1 << 20);
        let mut rows = |result| rows(&mut compared, result);
        assert_eq!(rows(result(0, 1)), Ok(1));
        // Answers of one query have the same columns.
        assert!(rows(result(1, 2)).is_err_and(|error| error.contains("panicked")));
        assert_eq!(rows(result(2, 1)), Ok(1));
    }
}
