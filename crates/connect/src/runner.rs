//! The threads of the sinks: each reads a durable subscription, delivers, and acknowledges.
//!
//! The one thing to know before changing it: an answer is acknowledged after the sink has it, never
//! before. A sink that does not take answers is tried again after a pause that grows. Meanwhile
//! only its own subscription waits.

use crate::line::AnswerKey;
use crate::sink::Sink;
use crate::spec::SinkSpec;
use somersault::{DurableEvent, DurableReader, Engine, EngineError, FiringId, FiringResult};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The number of answers that are delivered and acknowledged together, at most.
const PORTION: usize = 64;
/// The interval at which a sink that has nothing to deliver looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(200);
/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The sinks of an engine. They end when this is dropped; what was not acknowledged is delivered
/// when they are started again.
#[derive(Debug, Default)]
pub struct Sinks {
    threads: Vec<(Sender<()>, JoinHandle<()>)>,
}

impl Sinks {
    /// Starts a thread for each sink. Their queries may be registered later.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(engine: &Engine, specs: &[SinkSpec]) -> io::Result<Sinks> {
        let mut sinks = Sinks::default();
        for spec in specs {
            let (stop, stopped) = mpsc::channel();
            let mut runner = Runner {
                engine: engine.clone(),
                sink: spec.target.sink(),
                spec: spec.clone(),
                stopped,
                pause: FIRST_PAUSE,
            };
            let thread = thread::Builder::new()
                .name(format!("sink-{}", spec.name))
                .spawn(move || runner.run())?;
            sinks.threads.push((stop, thread));
        }
        Ok(sinks)
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        let (stops, threads): (Vec<_>, Vec<_>) = self.threads.drain(..).unzip();
        // Each thread sees that its channel has closed, and ends.
        drop(stops);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the thread of a sink panicked");
            }
        }
    }
}

/// One sink.
struct Runner {
    engine: Engine,
    sink: Box<dyn Sink>,
    spec: SinkSpec,
    /// Its other end is dropped when the sink is to stop.
    stopped: Receiver<()>,
    /// The next pause after a failure.
    pause: Duration,
}

/// The sink ends: it is to stop, the engine stops, or a logged error says what a person has to do.
struct Halt;

impl Runner {
    fn run(&mut self) {
        let class = self.sink.class();
        let SinkSpec { name, query, .. } = &self.spec;
        tracing::info!("sink {name} of query {query} is {class}");
        let Err(Halt) = (self.reader()).and_then(|mut reader| self.deliver_all(&mut reader));
    }

    /// Opens the subscription, once its query is registered, and then the sink.
    fn reader(&mut self) -> Result<DurableReader, Halt> {
        let mut waits = false;
        loop {
            let SinkSpec {
                name,
                query,
                options,
                ..
            } = &self.spec;
            let subscribed = self.engine.subscribe_durably(query, name, options);
            match subscribed.and_then(|_| self.engine.read_durably(query, name)) {
                Ok(reader) => return self.open().map(|()| reader),
                Err(EngineError::Stopped) => return Err(Halt),
                Err(EngineError::NotFound(why)) => {
                    if !waits {
                        tracing::info!("sink {name} waits for its query: {why}");
                    }
                    waits = true;
                    self.wait(LOOK)?;
                }
                Err(error @ (EngineError::Conflict(_) | EngineError::Invalid(_))) => {
                    tracing::error!("sink {name} delivers nothing: {error}");
                    return Err(Halt);
                }
                Err(error) => self.failed(&error.to_string())?,
            }
        }
    }

    fn open(&mut self) -> Result<(), Halt> {
        loop {
            let SinkSpec { name, query, .. } = &self.spec;
            let info = match self.engine.durable_subscription(query, name) {
                Ok(info) => info,
                Err(EngineError::Stopped) => return Err(Halt),
                Err(error) => {
                    tracing::error!("sink {name} delivers nothing: {error}");
                    return Err(Halt);
                }
            };
            let acknowledged = info.acknowledged.and_then(|id| key_of(&id));
            match self.sink.open(acknowledged) {
                Ok(()) => return Ok(()),
                Err(error) => self.failed(&error.to_string())?,
            }
        }
    }

    /// Delivers what the reader gives, until the sink ends.
    fn deliver_all(&mut self, reader: &mut DurableReader) -> Result<Infallible, Halt> {
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
    fn note(&self, event: &DurableEvent) -> Result<(), Halt> {
        let SinkSpec { name, query, .. } = &self.spec;
        match event {
            DurableEvent::Missed { answers } => tracing::error!(
                "sink {name} of query {query} has missed {answers} answers, because a limit of its subscription was reached"
            ),
            DurableEvent::Ended { message } => {
                tracing::error!("sink {name} of query {query} delivers nothing more: {message}");
                return Err(Halt);
            }
            _ => {}
        }
        Ok(())
    }

    /// Delivers answers, however often it has to be tried, and acknowledges them.
    fn deliver(&mut self, answers: &[Arc<FiringResult>]) -> Result<(), Halt> {
        let mut from = 0;
        while from < answers.len() {
            let delivered = self.sink.deliver(&answers[from..]);
            let count = match &delivered {
                Ok(()) => answers.len() - from,
                Err((count, _)) => *count,
            };
            from += count;
            if count > 0 {
                self.acknowledge(&answers[from - 1])?;
                self.pause = FIRST_PAUSE;
            }
            if let Err((_, error)) = delivered {
                self.failed(&error.to_string())?;
                self.open()?;
            }
        }
        Ok(())
    }

    fn acknowledge(&mut self, answer: &FiringResult) -> Result<(), Halt> {
        let SinkSpec { name, query, .. } = &self.spec;
        match self.engine.acknowledge(query, name, answer.id()) {
            Ok(()) => Ok(()),
            Err(EngineError::Stopped) => Err(Halt),
            Err(error) => {
                // It is delivered again after a restart, as a repeat.
                tracing::warn!("sink {name}: an acknowledgement was not taken: {error}");
                Ok(())
            }
        }
    }

    /// Notes a failure and waits.
    fn failed(&mut self, error: &str) -> Result<(), Halt> {
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
    fn wait(&self, time: Duration) -> Result<(), Halt> {
        match self.stopped.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Halt),
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
