//! The thread of a sink: it reads a durable subscription, delivers, and acknowledges.
//!
//! The one thing to know before changing it: an answer is acknowledged after the sink has it, never
//! before. A sink that does not take answers is tried again after a pause that grows. Meanwhile
//! only its own subscription waits.

#[cfg(test)]
mod tests;

use crate::error::SinkError;
use crate::line::AnswerKey;
use crate::monitor::SinkRecord;
use crate::sink::{PORTION, Sink};
use crate::spec::SinkSpec;
use crate::tls::ClientTls;
use crate::worker::{StopSignal, Worker};
use somersault::{
    DurableEvent, DurableReader, DurableStart, Engine, EngineError, FiringId, FiringResult,
};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which a sink that has nothing to deliver looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);
/// The time in which a query can be dropped after the subscription of its sink was deleted.
/// Then the sink subscribes again.
const TIME_TO_DROP: Duration = Duration::from_secs(10);
/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Starts the thread of a sink. Its query may be registered later. What is not acknowledged when it
/// ends is delivered when it is started again. `tls` says what it trusts at an https address.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(
    engine: &Engine,
    spec: &SinkSpec,
    tls: &ClientTls,
) -> io::Result<(Worker, Arc<SinkRecord>)> {
    let sink = spec.target.sink(tls);
    let record = Arc::new(SinkRecord::new(&spec.name, &spec.query, sink.class()));
    let mut runner = Runner {
        engine: engine.clone(),
        sink,
        record: Arc::clone(&record),
        stop: StopSignal::default(),
        spec: spec.clone(),
        pause: FIRST_PAUSE,
        uid: None,
        waits_for_query: false,
    };
    let worker = Worker::start(format!("sink-{}", spec.name), move |stop| {
        runner.stop = stop;
        runner.run();
    })?;
    Ok((worker, record))
}

/// One sink.
struct Runner {
    engine: Engine,
    sink: Box<dyn Sink>,
    record: Arc<SinkRecord>,
    stop: StopSignal,
    spec: SinkSpec,
    /// The next pause after a failure.
    pause: Duration,
    /// The uid of the query whose subscription it had last.
    uid: Option<u64>,
    /// Whether it has seen that its query is not registered.
    waits_for_query: bool,
}

/// Why a sink does not read on.
enum Interruption {
    /// The sink or the engine is to stop, or a logged error says what a person has to do.
    Halt,
    /// The subscription was deleted, or has ended.
    Lost,
}

impl Runner {
    fn run(&mut self) {
        let class = self.sink.class();
        let SinkSpec { name, query, .. } = &self.spec;
        tracing::info!("sink {name} of query {query} is {class}");
        loop {
            let read = (self.reader()).and_then(|mut reader| self.deliver_all(&mut reader));
            let next = match read {
                Err(Interruption::Lost) => self.give_time_to_drop(),
                Err(Interruption::Halt) => Err(Interruption::Halt),
            };
            if next.is_err() {
                return;
            }
        }
    }

    /// Opens the subscription, once its query is registered, and then the sink.
    fn reader(&mut self) -> Result<DurableReader, Interruption> {
        loop {
            match self.subscribe() {
                Ok(reader) => {
                    self.uid = Some(reader.uid());
                    self.waits_for_query = false;
                    self.record.reads();
                    return self.open().map(|()| reader);
                }
                Err(EngineError::Stopped) => return Err(Interruption::Halt),
                Err(EngineError::NotFound(why)) => {
                    let is_missing = self.engine.query_info(&self.spec.query).is_err();
                    if is_missing && !self.waits_for_query {
                        tracing::info!("sink {} waits for its query: {why}", self.spec.name);
                    }
                    self.waits_for_query |= is_missing;
                    self.wait(LOOK)?;
                }
                Err(EngineError::Conflict(why)) => {
                    tracing::error!("sink {} delivers nothing: {why}", self.spec.name);
                    self.record.blocked(&why);
                    return Err(self.outlast());
                }
                Err(error @ EngineError::Invalid(_)) => {
                    tracing::error!("sink {} delivers nothing: {error}", self.spec.name);
                    self.record.blocked(&error.to_string());
                    return Err(Interruption::Halt);
                }
                Err(error) => self.failed(&error.to_string(), true)?,
            }
        }
    }

    /// Subscribes by the terms of the sink, unless it has a subscription already, and reads it.
    fn subscribe(&self) -> Result<DurableReader, EngineError> {
        let SinkSpec {
            name,
            query,
            options,
            ..
        } = &self.spec;
        let mut options = options.clone();
        if self.waits_for_query && options.start == DurableStart::Now {
            // All answers of a query that was registered while the sink waited are new.
            options.start = DurableStart::Kept;
        }
        let is_new = self.engine.subscribe_durably(query, name, &options)?;
        if let Some(why) = self.engine.durable_subscription(query, name)?.ended {
            return Err(EngineError::Conflict(why));
        }
        if is_new && self.uid.is_some() {
            tracing::warn!("sink {name} has subscribed to query {query} again, by its own terms");
        }
        self.engine.read_durably(query, name)
    }

    /// Waits until a subscription that the sink cannot read is deleted or another one.
    fn outlast(&mut self) -> Interruption {
        let SinkSpec { name, query, .. } = &self.spec;
        let state = || {
            let info = self.engine.durable_subscription(query, name).ok()?;
            Some((info.uid, info.options, info.ended))
        };
        let Some(unreadable) = state() else {
            return Interruption::Lost;
        };
        while state().as_ref() == Some(&unreadable) {
            if let Err(interruption) = self.wait(LOOK) {
                return interruption;
            }
        }
        self.uid = Some(unreadable.0);
        Interruption::Lost
    }

    /// Waits, after its subscription was deleted, for the query to be dropped: a new subscription
    /// would be in the way of that.
    fn give_time_to_drop(&self) -> Result<(), Interruption> {
        let SinkSpec { name, query, .. } = &self.spec;
        let is_there = || self.engine.durable_subscription(query, name).is_ok();
        let is_same_query =
            || (self.engine.query_info(query).ok()).map(|info| info.uid) == self.uid;
        if !is_there() {
            tracing::warn!(
                "sink {name} of query {query} has lost its subscription, which was deleted; it subscribes again when the query is registered again, or in {} s if the query is not dropped",
                TIME_TO_DROP.as_secs()
            );
        }
        let until = Instant::now() + TIME_TO_DROP;
        while Instant::now() < until && !is_there() && is_same_query() {
            self.wait(LOOK)?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), Interruption> {
        loop {
            let SinkSpec { name, query, .. } = &self.spec;
            let info = match self.engine.durable_subscription(query, name) {
                Ok(info) => info,
                Err(EngineError::Stopped) => return Err(Interruption::Halt),
                Err(EngineError::NotFound(_)) => return Err(Interruption::Lost),
                Err(error) => {
                    tracing::error!("sink {name} delivers nothing: {error}");
                    self.record.blocked(&error.to_string());
                    return Err(Interruption::Halt);
                }
            };
            let acknowledged = info.acknowledged.and_then(|id| key_of(&id));
            match self.sink.open(acknowledged) {
                Ok(()) => {
                    self.record.opened();
                    return Ok(());
                }
                Err(error) => self.failed(&error.to_string(), true)?,
            }
        }
    }

    /// Delivers what the reader gives, until the sink ends.
    fn deliver_all(&mut self, reader: &mut DurableReader) -> Result<Infallible, Interruption> {
        loop {
            self.wait(Duration::ZERO)?;
            let Some(first) = reader.recv_timeout(LOOK) else {
                continue;
            };
            let mut answers = Vec::new();
            let mut next = Some(first);
            while let Some(event) = next {
                match event {
                    DurableEvent::Firing(firing) => answers.push(firing),
                    other => {
                        self.deliver(&answers)?;
                        answers.clear();
                        self.note(&other)?;
                    }
                }
                next = (answers.len() < PORTION)
                    .then(|| reader.try_recv())
                    .flatten();
            }
            self.deliver(&answers)?;
        }
    }

    /// Says what is no answer.
    fn note(&self, event: &DurableEvent) -> Result<(), Interruption> {
        let SinkSpec { name, query, .. } = &self.spec;
        match event {
            DurableEvent::Missed { answers } => tracing::error!(
                "sink {name} of query {query} has missed {answers} answers, because a limit of its subscription was reached"
            ),
            DurableEvent::Ended { .. } => return Err(Interruption::Lost),
            _ => {}
        }
        Ok(())
    }

    /// Delivers answers, however often it has to be tried, and acknowledges them.
    fn deliver(&mut self, answers: &[Arc<FiringResult>]) -> Result<(), Interruption> {
        let mut from = 0;
        while from < answers.len() {
            let delivered = self.sink.deliver(&answers[from..], &self.stop);
            let count = match &delivered {
                Ok(()) => answers.len() - from,
                Err((count, _)) => *count,
            };
            from += count;
            if count > 0 {
                self.acknowledge(&answers[from - 1])?;
                self.pause = FIRST_PAUSE;
                self.record.delivered(count as u64);
            }
            if let Err((_, error)) = delivered {
                if matches!(error, SinkError::Stopped) {
                    return Err(Interruption::Halt);
                }
                self.failed(&error.to_string(), false)?;
                self.open()?;
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, answer: &FiringResult) -> Result<(), Interruption> {
        let SinkSpec { name, query, .. } = &self.spec;
        match self.engine.acknowledge(query, name, answer.id()) {
            Ok(()) => Ok(()),
            Err(EngineError::Stopped) => Err(Interruption::Halt),
            Err(error) => {
                // It is delivered again after a restart, as a repeat.
                tracing::warn!("sink {name}: an acknowledgement was not taken: {error}");
                Ok(())
            }
        }
    }

    /// Notes a failure, which may be one to open, and waits.
    fn failed(&mut self, error: &str, to_open: bool) -> Result<(), Interruption> {
        self.record.failed(error, to_open);
        let pause = self.pause;
        tracing::warn!(
            "sink {} of query {}: {error}; it is tried again in {} ms",
            self.spec.name,
            self.spec.query,
            pause.as_millis()
        );
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        self.wait(pause)
    }

    /// Waits; an error if it is to stop.
    fn wait(&self, time: Duration) -> Result<(), Interruption> {
        match self.stop.wait(time) {
            false => Ok(()),
            true => Err(Interruption::Halt),
        }
    }
}

fn key_of(id: &FiringId) -> Option<AnswerKey> {
    Some(AnswerKey {
        uid: id.uid?,
        sn: id.sn?.0,
        close_ms: id.close.0,
        ordinal: id.ordinal,
        revision: id.revision,
    })
}
