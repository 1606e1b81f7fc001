//! Streams and continuous queries: declarations, pushes, time, subscriptions.

use super::Engine;
use super::batch::Replacement;
use super::data::check_nesting;
use crate::config::Clock;
use crate::error::{EngineError, LimitKind};
use crate::info::{GroupInfo, QueryInfo, StreamInfo, StreamProgress, WindowInfo};
use crate::push::{Push, PushLines, PushReceipt, lines};
use oxrdf::QuadRef;
use somersault_lang::{CreateStream, Extent, Statement};
use somersault_lines::TimedLines;
use somersault_log::{Replaced, Resolved};
use somersault_model::{EventTime, Sn};
use somersault_runtime::{InputReceipt, Outcome, RuntimeError};
use somersault_stream::{
    Input, PushHead, QueryDeclaration, QueryStatus, StreamStatus, WindowDeclaration,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Engine {
    /// Declares a stream by a CREATE STREAM text. If `name` is given (an IRI), the text must not
    /// say another one. The same text again changes nothing.
    ///
    /// # Errors
    /// The text does not parse, or the stream exists with another text.
    pub fn create_stream(&self, name: Option<&str>, text: &str) -> Result<StreamInfo, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let declaration: CreateStream = match self.parser(None).parse_statement(text)? {
            Statement::CreateStream(declaration) => declaration,
            _ => {
                return Err(EngineError::Invalid(
                    "the text declares no stream; a declaration begins with CREATE STREAM <iri>"
                        .to_owned(),
                ));
            }
        };
        let iri = declaration.iri.as_str().to_owned();
        if let Some(name) = name
            && name != iri
        {
            return Err(EngineError::Invalid(format!(
                "the text declares the stream <{iri}>, but the name given is <{name}>; use one of the two in both places"
            )));
        }
        self.inner.driver.log_input(Input::CreateStream {
            received_ms: self.now_ms(),
            declaration,
            namespace: self.inner.config.default_namespace.clone(),
        })?;
        self.stream(&iri)
    }

    /// Drops a stream that no query windows.
    ///
    /// # Errors
    /// There is no such stream, or a query windows it.
    pub fn drop_stream(&self, iri: &str) -> Result<(), EngineError> {
        self.check_running()?;
        self.inner.driver.log_input(Input::DropStream {
            received_ms: self.now_ms(),
            iri: iri.to_owned(),
        })?;
        Ok(())
    }

    /// Resets a stream: it has no time until its next statement or advance. So a stream that a
    /// wrong time, or a clock that was set back, has carried away can be pushed to again.
    ///
    /// Its declaration, the facts that it has absorbed and the sequence numbers of its sources
    /// stay. Statements that windows might still have seen are gone; returns their number. No query
    /// may window the stream, because such queries have fired for closes that would come a second
    /// time. Drop them first, and register them again.
    ///
    /// # Errors
    /// There is no such stream, a query windows it, or it is derived.
    pub fn reset_stream(&self, iri: &str) -> Result<u64, EngineError> {
        self.check_running()?;
        let done = self.inner.driver.log_input(Input::ResetStream {
            received_ms: self.now_ms(),
            iri: iri.to_owned(),
        })?;
        match done.outcome {
            Outcome::Reset { dropped } => Ok(dropped),
            _ => Ok(0),
        }
    }

    /// Returns all streams, by IRI.
    pub fn streams(&self) -> Vec<StreamInfo> {
        let streams = self.inner.driver.streams();
        streams
            .into_iter()
            .map(|status| self.stream_info(status))
            .collect()
    }

    /// Returns one stream.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn stream(&self, iri: &str) -> Result<StreamInfo, EngineError> {
        let status = self.inner.driver.stream(iri).ok_or_else(|| {
            EngineError::NotFound(format!(
                "there is no stream <{iri}>; declare it with CREATE STREAM <{iri}> first"
            ))
        })?;
        Ok(self.stream_info(status))
    }

    fn stream_info(&self, status: StreamStatus) -> StreamInfo {
        let through = status.watermark.map(|time| time.0);
        let stable = status.stable_time.map(|time| time.0);
        let memory = self.inner.store.slices().memory_bytes(status.uid);
        StreamInfo {
            iri: status.declaration.iri.as_str().to_owned(),
            uid: status.uid.0,
            text: status.declaration.text.clone(),
            derived_by: status.derived_by,
            batch_ms: status.declaration.batch.0,
            complete_through_ms: through,
            stable_time_ms: stable,
            ahead_of_clock_ms: match self.inner.config.clock {
                Clock::System => through
                    .map(|through| through.saturating_sub(self.now_ms()))
                    .filter(|ahead| *ahead > 0),
                Clock::Manual => None,
            },
            lag_ms: through
                .zip(stable)
                .map(|(through, stable)| through - stable),
            tuples: status.statements,
            late: status.late,
            amended: status.amended,
            batches: status.batches,
            memory_bytes: memory as u64,
            budget_bytes: status.declaration.budget_bytes,
            idle: status
                .declaration
                .idle
                .map(|idle| Duration::from_millis(idle.0.unsigned_abs())),
        }
    }

    /// Pushes statements into a stream; returns when they are durable.
    ///
    /// # Errors
    /// There is no such stream, an event time is missing or goes back, the stream's budget is used
    /// up, or the disk is full; nothing of the push is taken then.
    pub fn push(&self, stream: &str, push: Push) -> Result<PushReceipt, EngineError> {
        self.counted(|| {
            let head = head_of(stream, push.source, push.seq);
            let statements = &push.statements;
            self.check_running()?;
            self.check_push_length(statements.len())?;
            for statement in statements {
                check_nesting(&statement.quad)?;
            }
            let times = statements.iter().map(|s| s.at_ms.map(EventTime));
            let quads = statements.iter().map(|s| s.quad.as_ref());
            self.take_push(head, times, quads)
        })
    }

    /// Pushes lines `t_ms<TAB>statement .`, N-Triples or N-Quads behind the event times; returns
    /// when they are durable. Empty lines and lines that begin with `#` are passed over.
    ///
    /// As [`Engine::push`]. A malformed line, or a statement that does not parse, is refused with
    /// its place ([`EngineError::Data`]), and so are more statements than one push may have.
    /// Nothing of the push is taken then.
    pub fn push_lines(
        &self,
        stream: &str,
        push: PushLines<'_>,
    ) -> Result<PushReceipt, EngineError> {
        let limit = self.inner.config.limits.push_statements;
        let (source, seq) = (push.source, push.seq);
        match TimedLines::read(push.lines, limit) {
            Some(lines) => self.push_timed(stream, source, seq, &lines),
            None => {
                let statements = lines::read(push.lines, limit).inspect_err(|_| {
                    self.inner.counters.refused.fetch_add(1, Ordering::Relaxed);
                })?;
                let push = Push {
                    source,
                    seq,
                    statements,
                };
                self.push(stream, push)
            }
        }
    }

    /// Pushes lines that have been read; returns when they are durable. `source` and `seq` are as
    /// in [`Push`].
    ///
    /// # Errors
    /// As [`Engine::push`].
    pub fn push_timed(
        &self,
        stream: &str,
        source: Option<String>,
        seq: Option<u64>,
        lines: &TimedLines<'_>,
    ) -> Result<PushReceipt, EngineError> {
        self.counted(|| {
            let head = head_of(stream, source, seq);
            self.check_running()?;
            self.check_push_length(lines.len())?;
            let times = lines.times_ms().map(|at_ms| Some(EventTime(at_ms)));
            self.take_push(head, times, lines.statements())
        })
    }

    fn counted(
        &self,
        push: impl FnOnce() -> Result<PushReceipt, EngineError>,
    ) -> Result<PushReceipt, EngineError> {
        let result = push();
        let counters = &self.inner.counters;
        match &result {
            Ok(receipt) if receipt.repeated => {
                counters.repeats.fetch_add(1, Ordering::Relaxed);
            }
            Ok(receipt) => {
                counters.pushes.fetch_add(1, Ordering::Relaxed);
                let taken = receipt.accepted;
                counters.tuples.fetch_add(taken, Ordering::Relaxed);
            }
            Err(_) => {
                counters.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
        result
    }

    /// Whether a push of this many statements to a stream is within its BUDGET now, and within the
    /// budgets of the streams derived from it. Returns `true` for an unknown stream, since a push
    /// explains better what is wrong.
    pub fn budget_allows(&self, stream: &str, statements: usize) -> bool {
        self.inner.driver.has_room(stream, statements)
    }

    fn check_push_length(&self, sent: usize) -> Result<(), EngineError> {
        let limit = self.inner.config.limits.push_statements;
        if sent as u64 > limit {
            return Err(EngineError::Limit {
                which: LimitKind::PushStatements,
                message: format!(
                    "the push has {sent} statements, more than {limit}; send it in parts, or raise the limit (push_statements)"
                ),
            });
        }
        Ok(())
    }

    fn take_push<'q>(
        &self,
        head: PushHead,
        times: impl ExactSizeIterator<Item = Option<EventTime>> + Clone,
        quads: impl Iterator<Item = QuadRef<'q>> + Clone,
    ) -> Result<PushReceipt, EngineError> {
        let done = self.inner.driver.push(head, times, quads.clone());
        let done = done.map_err(|error| match error {
            RuntimeError::Refused(refusal) => {
                let text_of = |index| {
                    quads
                        .clone()
                        .nth(index)
                        .map_or_else(String::new, |q| q.to_string())
                };
                RuntimeError::Refused(refusal.about(text_of))
            }
            other => other,
        })?;
        let (accepted, dropped) = match done.outcome {
            Outcome::Taken { statements, late } => (statements, late),
            _ => (0, 0),
        };
        Ok(PushReceipt {
            accepted,
            dropped,
            repeated: matches!(done.outcome, Outcome::Repeat(_)),
        })
    }

    /// Advances the watermarks of streams, all in one record (S4). Returns the snapshot number once
    /// everything that became due is stable.
    ///
    /// # Errors
    /// There is no such stream, or the log has failed.
    pub fn advance(
        &self,
        to: impl IntoIterator<Item = (impl AsRef<str>, EventTime)>,
    ) -> Result<Sn, EngineError> {
        self.check_running()?;
        let to = to.into_iter();
        let to = to.map(|(stream, time)| (stream.as_ref().to_owned(), time));
        let to = to.collect();
        let received_ms = self.now_ms();
        let done = self
            .inner
            .driver
            .apply_input(Input::Advance { received_ms, to })?;
        Ok(done.sn)
    }

    /// Registers a continuous query. If `name` is given, the text must not say another one.
    /// The same text again changes nothing; another text under a taken name is a conflict.
    ///
    /// # Errors
    /// The text does not parse, a window is over an unknown stream, BATCH does not divide it, or
    /// the name is taken.
    pub fn register(&self, name: Option<&str>, text: &str) -> Result<QueryInfo, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let (name, _) = self.declare_query(name.map(str::to_owned), text, false)?;
        self.query_info(&name)
    }

    /// Registers a continuous query in place of the one of its name, if there is one, in one step:
    /// each close is answered by one of the two. The old query answers what is due by then, and its
    /// subscriptions end; the new one begins with the next close. The same text again changes
    /// nothing.
    ///
    /// # Errors
    /// As [`Engine::register`], or the old query derives a stream that others window. The old query
    /// is unchanged then.
    pub fn replace(
        &self,
        name: Option<&str>,
        text: &str,
    ) -> Result<(QueryInfo, Replacement), EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let (name, resolved) = self.declare_query(name.map(str::to_owned), text, true)?;
        let replacement = match resolved {
            None => Replacement::Unchanged,
            Some(resolved) => match resolved.replaced {
                None => Replacement::Created,
                Some(Replaced { query, after }) => Replacement::Replaced {
                    uid: query.0,
                    after_ms: (after > EventTime::MIN).then_some(after.0),
                },
            },
        };
        Ok((self.query_info(&name)?, replacement))
    }

    /// The name that a query is registered under now, and what that came to unless it was before.
    fn declare_query(
        &self,
        name: Option<String>,
        text: &str,
        replaces: bool,
    ) -> Result<(String, Option<Resolved>), EngineError> {
        let (name, input) = self.registration(name, text, replaces)?;
        let is_new = self.inner.driver.query(&name).is_none();
        if is_new && self.room_for_queries() == 0 {
            return Err(self.too_many_queries());
        }
        let done = self.inner.driver.log_input(input)?;
        let resolved = match done.outcome {
            Outcome::Command(resolved) => Some(resolved),
            _ => None,
        };
        Ok((name, resolved))
    }

    /// Returns the name of a query that is to be registered, and the input that registers it.
    pub(super) fn registration(
        &self,
        name: Option<String>,
        text: &str,
        replaces: bool,
    ) -> Result<(String, Input), EngineError> {
        let query = self.parser(None).parse_continuous(text)?;
        let name = one_name(name, query.name.clone())?;
        let input = Input::RegisterQuery {
            received_ms: self.now_ms(),
            name: name.clone(),
            text: text.to_owned(),
            namespace: self.inner.config.default_namespace.clone(),
            declaration: QueryDeclaration::from(&query),
            replaces,
        };
        Ok((name, input))
    }

    /// Returns how many more queries may be registered.
    pub(super) fn room_for_queries(&self) -> usize {
        let limit = self.inner.config.limits.registered_queries;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        limit.saturating_sub(self.inner.driver.query_count())
    }

    pub(super) fn too_many_queries(&self) -> EngineError {
        let limit = self.inner.config.limits.registered_queries;
        EngineError::Limit {
            which: LimitKind::RegisteredQueries,
            message: format!(
                "{limit} continuous queries are registered, as many as there may be; drop some, or raise the limit (registered_queries)"
            ),
        }
    }

    /// Drops a continuous query; its subscriptions end.
    ///
    /// # Errors
    /// There is no such query.
    pub fn drop_query(&self, name: &str) -> Result<(), EngineError> {
        self.command(
            |received_ms, name| Input::DropQuery { received_ms, name },
            name,
        )
    }

    /// Stops a query from firing until it is resumed.
    ///
    /// # Errors
    /// There is no such query.
    pub fn pause_query(&self, name: &str) -> Result<(), EngineError> {
        self.command(
            |received_ms, name| Input::PauseQuery { received_ms, name },
            name,
        )
    }

    /// Lets a paused query fire again.
    ///
    /// # Errors
    /// There is no such query.
    pub fn resume_query(&self, name: &str) -> Result<(), EngineError> {
        self.command(
            |received_ms, name| Input::ResumeQuery { received_ms, name },
            name,
        )
    }

    fn command(
        &self,
        input: impl FnOnce(i64, String) -> Input,
        name: &str,
    ) -> Result<(), EngineError> {
        self.check_running()?;
        let input = input(self.now_ms(), name.to_owned());
        let _: InputReceipt = self.inner.driver.log_input(input)?;
        Ok(())
    }

    /// Returns all continuous queries, by name.
    pub fn queries(&self) -> Vec<QueryInfo> {
        let queries = self.inner.driver.queries();
        queries
            .into_iter()
            .map(|status| self.describe(status))
            .collect()
    }

    /// Returns one continuous query.
    ///
    /// # Errors
    /// There is no such query.
    pub fn query_info(&self, name: &str) -> Result<QueryInfo, EngineError> {
        Ok(self.describe(self.query_status(name)?))
    }

    pub(super) fn query_status(&self, name: &str) -> Result<QueryStatus, EngineError> {
        self.inner.driver.query(name).ok_or_else(|| {
            EngineError::NotFound(format!(
                "there is no continuous query {name}; register it first, or look at the list of queries"
            ))
        })
    }

    pub(super) fn describe(&self, status: QueryStatus) -> QueryInfo {
        let summary = self.inner.continuous.summary(status.member);
        let group = summary.as_ref().zip(status.group);
        let group = group.map(|((_, size), queries)| GroupInfo {
            queries,
            combinations: size.cells,
            together: size.together,
        });
        let declaration = &status.declaration;
        let mut info = QueryInfo {
            name: status.name,
            uid: status.uid.0,
            text: status.text,
            windows: declaration.windows.iter().map(window_info).collect(),
            firings: 0,
            rows: 0,
            last_close_ms: None,
            next_close_ms: status.next_close.map(|close| close.0),
            streams: status
                .streams
                .into_iter()
                .map(StreamProgress::from)
                .collect(),
            waiting_for: status.waiting_for.map(StreamProgress::from),
            amended: status.amended,
            skipped: 0,
            derives: declaration
                .derives
                .as_ref()
                .map(|it| it.iri.as_str().to_owned()),
            skipped_empty: status.skipped_empty,
            passed_while_paused: status.passed_while_paused,
            paused: status.paused,
            group,
            last_error: None,
            execution_p50: Duration::ZERO,
            execution_p99: Duration::ZERO,
            delay_p50: Duration::ZERO,
            delay_p99: Duration::ZERO,
            waiting_p50: Duration::ZERO,
            waiting_p99: Duration::ZERO,
            subscribers: 0,
        };
        if let Some((summary, _)) = summary {
            info.firings = summary.firings;
            info.rows = summary.rows;
            info.skipped = summary.skipped;
            info.last_close_ms = summary.last_close_ms;
            info.last_error = summary.last_error;
            [info.execution_p50, info.execution_p99] = summary.execution;
            [info.delay_p50, info.delay_p99] = summary.delay;
            [info.waiting_p50, info.waiting_p99] = summary.waiting;
            info.subscribers = summary.subscribers;
        }
        info
    }

    /// Waits until everything that is due has been answered.
    ///
    /// # Errors
    /// [`EngineError::Limit`] if that takes longer than `timeout`.
    pub fn quiesce(&self, timeout: Duration) -> Result<(), EngineError> {
        Ok(self.inner.driver.quiesce(timeout)?)
    }

    /// Returns the time of receipt, by the engine's clock.
    pub(super) fn now_ms(&self) -> i64 {
        self.inner.driver.now_ms()
    }
}

fn head_of(stream: &str, source: Option<String>, seq: Option<u64>) -> PushHead {
    PushHead {
        stream: stream.to_owned(),
        source: source.unwrap_or_default(),
        seq,
    }
}

impl From<somersault_stream::StreamProgress> for StreamProgress {
    fn from(progress: somersault_stream::StreamProgress) -> StreamProgress {
        StreamProgress {
            stream: progress.stream,
            complete_through_ms: progress.watermark.map(|time| time.0),
            since_ms: progress.since_ms,
        }
    }
}

fn window_info(window: &WindowDeclaration) -> WindowInfo {
    let (range, step) = match window.extent {
        Extent::Time { range, step, .. } => (Some(range), step),
        _ => (None, None),
    };
    WindowInfo {
        stream: window.stream.as_str().to_owned(),
        extent: window.extent.to_string(),
        range_ms: range.map(|span| span.0),
        step_ms: step.map(|span| span.0),
    }
}

/// Returns the one name that a caller and a text give to a query.
pub(super) fn one_name(given: Option<String>, own: Option<String>) -> Result<String, EngineError> {
    match (given, own) {
        (Some(given), Some(own)) if given != own => Err(EngineError::Invalid(format!(
            "the text registers the query {own}, but the name given is {given}; use one of the two in both places"
        ))),
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) => Err(EngineError::Invalid(
            "the query has no name; write REGISTER QUERY name AS before it, or give one".to_owned(),
        )),
    }
}
