//! What is known of sources and sinks while they run: what they brought or delivered, and what
//! keeps them from it.
//!
//! The one thing to know before changing it: a failure passes when an answer is delivered, or when
//! the sink opens again after it could not be opened. Until then, and from the third in a row on,
//! the sink is in trouble, which people should hear of. The same holds for a source.

use crate::sink::SinkClass;
use crate::source::SourceClass;
use std::sync::{Mutex, MutexGuard, PoisonError};

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

    pub(crate) fn status(&self) -> SinkStatus {
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

/// What a source has done with messages since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceCounts {
    /// Messages that the stream has taken.
    pub taken: u64,
    /// Messages that the stream had taken before.
    pub repeated: u64,
    /// Messages that were refused.
    pub refused: u64,
    /// Refused messages that went to the dead letters.
    pub dead_letters: u64,
    /// Bytes of all these messages.
    pub bytes: u64,
}

/// The state of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceStatus {
    /// Its name.
    pub name: String,
    /// The stream that it feeds.
    pub stream: String,
    /// What it does with repeats.
    pub class: SourceClass,
    /// Whether it is connected to the place from which its messages come.
    pub is_open: bool,
    /// What it has brought.
    pub counts: SourceCounts,
    /// How much waits where its messages come from, in its own unit, if that is known.
    pub lag: Option<u64>,
    /// The newest message that was refused: its partition, its position, and why.
    pub last_refused: Option<(String, u64, String)>,
    /// The number of attempts that failed since its start.
    pub failures: u64,
    /// Why the newest attempt failed; `None` if nothing has failed since.
    pub last_error: Option<String>,
    /// Why it brings nothing, as a sentence, if it does not for a while.
    pub trouble: Option<String>,
}

/// What is known of one source.
#[derive(Debug)]
pub(crate) struct SourceRecord {
    name: String,
    stream: String,
    class: SourceClass,
    state: Mutex<SourceState>,
}

#[derive(Debug, Default)]
struct SourceState {
    is_open: bool,
    counts: SourceCounts,
    lag: Option<u64>,
    last_refused: Option<(String, u64, String)>,
    failures: u64,
    in_a_row: u64,
    last_error: Option<String>,
}

impl SourceRecord {
    pub(crate) fn new(name: &str, stream: &str, class: SourceClass) -> SourceRecord {
        SourceRecord {
            name: name.to_owned(),
            stream: stream.to_owned(),
            class,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SourceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It could not be opened or read, or its stream takes nothing.
    pub(crate) fn failed(&self, error: &str) {
        let mut state = self.state();
        state.failures += 1;
        state.in_a_row += 1;
        state.last_error = Some(error.to_owned());
    }

    /// It is connected, or no longer.
    pub(crate) fn opened(&self, is_open: bool) {
        self.state().is_open = is_open;
    }

    /// It is open, or its stream has looked at messages.
    pub(crate) fn works(&self) {
        let mut state = self.state();
        state.in_a_row = 0;
        state.last_error = None;
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut SourceCounts)) {
        change(&mut self.state().counts);
    }

    pub(crate) fn refused(&self, partition: &str, position: u64, reason: String) {
        let mut state = self.state();
        state.counts.refused += 1;
        state.last_refused = Some((partition.to_owned(), position, reason));
    }

    pub(crate) fn lags(&self, lag: Option<u64>) {
        self.state().lag = lag;
    }

    pub(crate) fn status(&self) -> SourceStatus {
        let SourceRecord {
            name,
            stream,
            class,
            ..
        } = self;
        let state = self.state();
        let failing = (state.last_error.as_ref()).filter(|_| state.in_a_row >= MANY);
        let trouble = failing.map(|error| {
            format!(
                "source {name} of <{stream}> has failed {} times in a row and is tried again: {error}",
                state.in_a_row
            )
        });
        SourceStatus {
            name: name.clone(),
            stream: stream.clone(),
            class: *class,
            is_open: state.is_open,
            counts: state.counts,
            lag: state.lag,
            last_refused: state.last_refused.clone(),
            failures: state.failures,
            last_error: state.last_error.clone(),
            trouble,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_trouble_until_one_answer_is_delivered() {
        let record = SinkRecord::new("s", "q", SinkClass::Idempotent);
        let trouble = || record.status().trouble;
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
        let status = record.status();
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
