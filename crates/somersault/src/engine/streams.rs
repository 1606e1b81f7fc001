//! Streams: declarations, pushes, time.

use super::Engine;
use super::data::check_nesting;
use crate::access::RightKind;
use crate::config::Clock;
use crate::error::{EngineError, LimitKind};
use crate::info::{SourceInfo, StreamInfo};
use crate::push::{Push, PushLines, PushReceipt, lines};
use oxrdf::QuadRef;
use somersault_lang::{CreateStream, Statement, StreamSource};
use somersault_lines::TimedLines;
use somersault_model::{EventTime, Sn};
use somersault_runtime::{Outcome, RuntimeError};
use somersault_stream::{Input, PushHead, StreamStatus};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Each of these rights shows the stream that it names.
const SEE_STREAM: &[RightKind] = &[
    RightKind::Push,
    RightKind::Window,
    RightKind::Register,
    RightKind::Monitor,
];

/// # Streams
///
/// Declarations of streams, pushes into them, and the advance of their times.
impl Engine {
    /// Declares a stream by a CREATE STREAM text. If `name` is given (an IRI), the text must not
    /// say another one. The same text again changes nothing.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// let stream = engine.create_stream(None, "CREATE STREAM <urn:s> TIMELESS BATCH 1s")?;
    /// assert_eq!((stream.iri.as_str(), stream.batch_ms), ("urn:s", 1000));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The text does not parse, or the stream exists with another text.
    pub fn create_stream(&self, name: Option<&str>, text: &str) -> Result<StreamInfo, EngineError> {
        self.check_running()?;
        self.check_text(text)?;
        let parser = self.parser(None);
        let declaration: CreateStream = match parser.parse_statement(text)? {
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
        self.access.require(RightKind::Register, Some(&iri))?;
        self.access.require_all(&declaration.footprint())?;
        if let Some(stream) = &declaration.dead_letters {
            self.check_dead_letters(stream.as_str())?;
        }
        self.inner.driver.log_input(Input::CreateStream {
            received_ms: self.now_ms(),
            declaration,
            namespace: self.inner.config.default_namespace.clone(),
        })?;
        let info = self.stream(&iri);
        info.map_err(|error| error.if_dropped(&format!("stream <{iri}>")))
    }

    /// Drops a stream that no query windows.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// engine.drop_stream("urn:s")?;
    /// assert!(engine.streams().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, or a query windows it.
    pub fn drop_stream(&self, iri: &str) -> Result<(), EngineError> {
        self.admit(RightKind::Register, Some(iri))?;
        self.inner.driver.log_input(Input::DropStream {
            received_ms: self.now_ms(),
            iri: iri.to_owned(),
        })?;
        self.inner.mappings.forget(iri);
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
    /// ```
    /// use somersault::{Engine, EngineConfig, EventTime};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// engine.advance([("urn:s", EventTime(5_000))])?;
    /// engine.reset_stream("urn:s")?;
    /// assert_eq!(engine.stream("urn:s")?.watermark, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, a query windows it, or it is derived.
    pub fn reset_stream(&self, iri: &str) -> Result<u64, EngineError> {
        self.admit(RightKind::Register, Some(iri))?;
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
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// for stream in engine.streams() {
    ///     println!("{}: {} statements", stream.iri, stream.tuples);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn streams(&self) -> Vec<StreamInfo> {
        let streams = self.inner.driver.streams();
        let is_seen = |status: &StreamStatus| {
            self.access
                .allows_one(SEE_STREAM, status.declaration.iri.as_str())
        };
        streams
            .into_iter()
            .filter(is_seen)
            .map(|status| self.stream_info(status))
            .collect()
    }

    /// Returns one stream.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EngineError};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// assert_eq!(engine.stream("urn:s")?.tuples, 0);
    /// assert!(matches!(engine.stream("urn:t"), Err(EngineError::NotFound(_))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream.
    pub fn stream(&self, iri: &str) -> Result<StreamInfo, EngineError> {
        self.access.require_one(SEE_STREAM, iri)?;
        let status = self.inner.driver.stream(iri);
        let status = status.ok_or_else(|| no_stream(iri))?;
        Ok(self.stream_info(status))
    }

    fn stream_info(&self, status: StreamStatus) -> StreamInfo {
        let (watermark, stable_time) = (status.watermark, status.stable_time);
        let memory = self.inner.store.slices().memory_bytes(status.uid);
        StreamInfo {
            iri: status.declaration.iri.as_str().to_owned(),
            uid: status.uid.0,
            text: status.declaration.text.clone(),
            derived_by: status.derived_by,
            is_interior: status.declaration.source == StreamSource::Interior,
            batch_ms: status.declaration.batch.0,
            watermark,
            stable_time,
            ahead_of_clock_ms: match self.inner.config.clock {
                Clock::System => watermark
                    .map(|watermark| watermark.0.saturating_sub(self.now_ms()))
                    .filter(|ahead| *ahead > 0),
                Clock::Manual => None,
            },
            lag_ms: watermark
                .zip(stable_time)
                .map(|(watermark, stable)| watermark.0 - stable.0),
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
    /// ```
    /// use somersault::oxrdf::{GraphName, NamedNode, Quad};
    /// use somersault::{Engine, EngineConfig, EventTime, Push, StreamStatement};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let node = |name: &str| NamedNode::new_unchecked(name);
    /// let quad = Quad::new(node("urn:a"), node("urn:p"), node("urn:b"), GraphName::DefaultGraph);
    /// let at = Some(EventTime(1_000));
    /// let statements = vec![StreamStatement { at, quad }];
    /// let push = Push { seq: Some(1), statements, ..Push::default() };
    /// assert_eq!(engine.push("urn:s", push.clone())?.accepted, 1);
    /// assert!(engine.push("urn:s", push)?.repeated, "its number was taken before");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream, an event time is missing or goes back, the stream's budget is used
    /// up, or the disk is full; nothing of the push is taken then.
    pub fn push(&self, stream: &str, push: Push) -> Result<PushReceipt, EngineError> {
        self.counted(|| {
            let head = head_of(stream, push.source, push.seq);
            let statements = &push.statements;
            self.admit(RightKind::Push, Some(stream))?;
            self.check_push_length(statements.len())?;
            for statement in statements {
                check_nesting(&statement.quad)?;
            }
            let times = statements.iter().map(|s| s.at);
            let quads = statements.iter().map(|s| s.quad.as_ref());
            self.take_push(head, times, quads)
        })
    }

    /// Pushes lines `t_ms<TAB>statement .`, N-Triples or N-Quads behind the event times; returns
    /// when they are durable. Empty lines and lines that begin with `#` are passed over.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, PushLines};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let lines = b"1000\t<urn:a> <urn:p> <urn:b> .\n1500\t<urn:a> <urn:p> <urn:c> .\n";
    /// let push = PushLines { lines, ..PushLines::default() };
    /// assert_eq!(engine.push_lines("urn:s", push)?.accepted, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::push`]. A malformed line, or a statement that does not parse, is refused with
    /// its place ([`EngineError::Data`]), and so are more statements than one push may have.
    /// Nothing of the push is taken then.
    pub fn push_lines(
        &self,
        stream: &str,
        push: PushLines<'_>,
    ) -> Result<PushReceipt, EngineError> {
        self.access.require(RightKind::Push, Some(stream))?;
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
    /// ```
    /// use somersault::{Engine, EngineConfig, TimedLines};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let text = b"1000\t<urn:a> <urn:p> <urn:b> .\n";
    /// let lines = TimedLines::read(text, 1_000).expect("the lines are plain N-Triples");
    /// assert_eq!(engine.push_timed("urn:s", None, None, &lines)?.accepted, 1);
    /// # Ok(())
    /// # }
    /// ```
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
            self.admit(RightKind::Push, Some(stream))?;
            self.check_push_length(lines.len())?;
            let times = lines.times().map(Some);
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

    /// Whether a push of this many statements to a stream is surely within its BUDGET now, and
    /// within the budgets of the streams derived from it. Returns `false` where it only may be, for
    /// pushes of more than half of BUDGET; `true` for an unknown stream, since a push explains
    /// better what is wrong.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// assert!(engine.budget_allows("urn:s", 1_000));
    /// # Ok(())
    /// # }
    /// ```
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

    /// Returns the sources of a stream that number their pushes, by name. Waits until the pushes
    /// that were taken before the call are durable.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, PushLines};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// let (source, seq) = (Some("meter".to_owned()), Some(7));
    /// let lines = b"1000\t<urn:a> <urn:p> <urn:b> .\n";
    /// engine.push_lines("urn:s", PushLines { source, seq, lines })?;
    /// let sources = engine.sources("urn:s")?;
    /// assert_eq!((sources[0].name.as_str(), sources[0].taken), ("meter", 7));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such stream.
    pub fn sources(&self, stream: &str) -> Result<Vec<SourceInfo>, EngineError> {
        self.access.require_one(SEE_STREAM, stream)?;
        let sources = self.inner.driver.sources(stream);
        let sources = sources.ok_or_else(|| no_stream(stream))?;
        let sources = sources.into_iter().map(|source| SourceInfo {
            name: source.name,
            taken: source.taken,
            durable: source.durable,
            checkpointed: source.checkpointed,
        });
        Ok(sources.collect())
    }

    /// Advances the watermarks of streams, all in one record (S4). Returns the snapshot number once
    /// everything that became due is stable.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EventTime};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// engine.advance([("urn:s", EventTime(2_000))])?;
    /// assert_eq!(engine.stream("urn:s")?.watermark, Some(EventTime(2_000)));
    /// # Ok(())
    /// # }
    /// ```
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
        let to: Vec<(String, EventTime)> = to.collect();
        for (stream, _) in &to {
            self.access.require(RightKind::Push, Some(stream))?;
        }
        let received_ms = self.now_ms();
        let done = self
            .inner
            .driver
            .apply_input(Input::Advance { received_ms, to })?;
        Ok(done.sn)
    }

    /// Waits until everything that is due has been answered.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, EventTime};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    /// # let text = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// # engine.register(Some("seen"), text)?;
    /// # engine.advance([("urn:s", EventTime(0))])?;
    /// engine.advance([("urn:s", EventTime(2_000))])?;
    /// engine.quiesce(std::time::Duration::from_secs(10))?;
    /// assert_eq!(engine.query_info("seen")?.last_close, Some(EventTime(2_000)));
    /// # Ok(())
    /// # }
    /// ```
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

fn no_stream(iri: &str) -> EngineError {
    EngineError::NotFound(format!(
        "there is no stream <{iri}>; declare it with CREATE STREAM <{iri}> first"
    ))
}

fn head_of(stream: &str, source: Option<String>, seq: Option<u64>) -> PushHead {
    PushHead {
        stream: stream.to_owned(),
        source: source.unwrap_or_default(),
        seq,
    }
}
