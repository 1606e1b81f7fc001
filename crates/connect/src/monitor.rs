//! What is known of sinks while they run: what they delivered, and what keeps them from it.
//!
//! The one thing to know before changing it: a failure passes when an answer is delivered, or when
//! the sink opens again after it could not be opened. Until then, and from the third in a row on,
//! the sink is in trouble, which people should hear of.

use crate::sink::SinkClass;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of failures in a row from which on a sink is in trouble. Single ones pass.
const MANY: u64 = 3;

/// The state of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SinkStatus {
    /// Its name, which is that of its subscription.
    pub name: String,
    /// The query.
    pub query: String,
    /// What it does with repeats.
    pub class: SinkClass,
    /// The number of answers that it has delivered since its start.
    pub delivered: u64,
    /// The number of attempts that failed since its start.
    pub failures: u64,
    /// Why the newest attempt failed; `None` if nothing has failed since.
    pub last_error: Option<String>,
    /// Why it delivers nothing, as a sentence, if it does not for a while.
    pub trouble: Option<String>,
}

/// A handle to what is known of the sinks of a process.
#[derive(Clone, Debug, Default)]
pub struct SinkMonitor(Arc<[Arc<SinkRecord>]>);

impl SinkMonitor {
    pub(crate) fn new(sinks: Vec<Arc<SinkRecord>>) -> SinkMonitor {
        SinkMonitor(sinks.into())
    }

    /// Returns the states of all sinks, in the order in which they were declared.
    pub fn statuses(&self) -> Vec<SinkStatus> {
        self.0.iter().map(|sink| sink.status()).collect()
    }
}

/// What is known of one sink.
#[derive(Debug)]
pub(crate) struct SinkRecord {
    name: String,
    query: String,
    class: SinkClass,
    state: Mutex<SinkState>,
}

#[derive(Debug, Default)]
struct SinkState {
    delivered: u64,
    failures: u64,
    in_a_row: u64,
    last_error: Option<String>,
    /// Whether the newest failure was one to open.
    failed_to_open: bool,
    /// Why it cannot read its subscription.
    blocked: Option<String>,
}

impl SinkRecord {
    pub(crate) fn new(name: &str, query: &str, class: SinkClass) -> SinkRecord {
        SinkRecord {
            name: name.to_owned(),
            query: query.to_owned(),
            class,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It delivers nothing until a person changes something.
    pub(crate) fn blocked(&self, why: &str) {
        self.state().blocked = Some(why.to_owned());
    }

    /// It reads its subscription.
    pub(crate) fn reads(&self) {
        self.state().blocked = None;
    }

    pub(crate) fn failed(&self, error: &str, to_open: bool) {
        let mut state = self.state();
        state.failures += 1;
        state.in_a_row += 1;
        state.last_error = Some(error.to_owned());
        state.failed_to_open = to_open;
    }

    pub(crate) fn opened(&self) {
        let mut state = self.state();
        if state.failed_to_open {
            state.pass();
        }
    }

    pub(crate) fn delivered(&self, answers: u64) {
        let mut state = self.state();
        state.delivered += answers;
        state.pass();
    }

    fn status(&self) -> SinkStatus {
        let SinkRecord {
            name, query, class, ..
        } = self;
        let state = self.state();
        let failing = (state.last_error.as_ref()).filter(|_| state.in_a_row >= MANY);
        let trouble = match (&state.blocked, failing) {
            (Some(why), _) => Some(format!(
                "sink {name} of query {query} delivers nothing: {why}"
            )),
            (None, Some(error)) => Some(format!(
                "sink {name} of query {query} has failed {} times in a row and is tried again, while the answers are kept: {error}",
                state.in_a_row
            )),
            (None, None) => None,
        };
        SinkStatus {
            name: name.clone(),
            query: query.clone(),
            class: *class,
            delivered: state.delivered,
            failures: state.failures,
            last_error: state.last_error.clone(),
            trouble,
        }
    }
}

impl SinkState {
    fn pass(&mut self) {
        self.in_a_row = 0;
        self.last_error = None;
        self.failed_to_open = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_trouble_until_one_answer_is_delivered() {
        let record = Arc::new(SinkRecord::new("s", "q", SinkClass::Idempotent));
        let monitor = SinkMonitor::new(vec![Arc::clone(&record)]);
        let trouble = || monitor.statuses().remove(0).trouble;
        record.failed("it is away", false);
        record.failed("it is away", false);
        record.opened();
        assert_eq!(trouble(), None);
        record.failed("it is away", false);
        let said = trouble().expect("trouble");
        assert!(
            said.contains("3 times") && said.contains("it is away"),
            "{said}"
        );
        record.delivered(2);
        let status = monitor.statuses().remove(0);
        assert_eq!((status.delivered, status.failures), (2, 3));
        assert_eq!((status.trouble, status.last_error), (None, None));
        (0..3).for_each(|_| record.failed("no such folder", true));
        assert!(trouble().is_some());
        record.opened();
        assert_eq!(trouble(), None);
        record.blocked("it has ended");
        assert!(trouble().is_some_and(|said| said.contains("it has ended")));
        record.reads();
        assert_eq!(trouble(), None);
    }
}
