//! The thread of a source: it brings messages, pushes them, and acknowledges what is durable.
//!
//! The one thing to know before changing it: messages of a partition are pushed in their order, and
//! one that waits for room is pushed again before those behind it. So nothing is lost when the
//! engine is full or its disk is, and the broker keeps the rest. A message that is refused for good
//! counts, goes to the dead letters, and holds nothing up.

use crate::error::SourceError;
use crate::letter::Letter;
use crate::monitor::SourceRecord;
use crate::source::{Ledger, MessageBody, PORTION_MESSAGES, Portion, Source, SourceMessage};
use crate::source_spec::{SourceFormat, SourceSpec};
use crate::worker::{StopSignal, Worker};
use somersault::{
    Engine, EngineError, LimitKind, NumberedMessage, NumberedOutcome, NumberedPush, NumberedSyntax,
    PushLines,
};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Starts the thread of a source.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(
    engine: &Engine,
    spec: &SourceSpec,
    ledger: Box<dyn Ledger + Send>,
) -> io::Result<(Worker, Arc<SourceRecord>)> {
    let source = spec.source();
    let record = SourceRecord::new(&spec.name, &spec.stream, source.class());
    let record = Arc::new(record);
    let mut feeder = Feeder {
        engine: engine.clone(),
        spec: spec.clone(),
        source,
        ledger,
        record: Arc::clone(&record),
        stop: StopSignal::default(),
        pause: FIRST_PAUSE,
    };
    let name = format!("source-{}", spec.name);
    let worker = Worker::start(name, move |stop| {
        feeder.stop = stop;
        feeder.run();
    })?;
    Ok((worker, record))
}

/// One source.
struct Feeder {
    engine: Engine,
    spec: SourceSpec,
    source: Box<dyn Source>,
    ledger: Box<dyn Ledger + Send>,
    record: Arc<SourceRecord>,
    stop: StopSignal,
    /// The next pause after a failure.
    pause: Duration,
}

/// What became of a message.
enum Settled {
    Taken,
    Repeated,
    Refused(String),
}

/// What became of messages that were pushed together.
struct Pushed {
    /// Of the first ones, in their order.
    settled: Vec<Settled>,
    /// Why the others are pushed again later.
    ended: Option<EngineError>,
}

impl Pushed {
    fn none(error: EngineError) -> Pushed {
        Pushed {
            settled: Vec::new(),
            ended: Some(error),
        }
    }
}

impl Feeder {
    fn run(&mut self) {
        while !self.stop.is_set() {
            let Err(error) = self.bring();
            self.record.opened(false);
            if matches!(
                error,
                SourceError::Stopped | SourceError::Engine(EngineError::Stopped)
            ) {
                return;
            }
            self.rest(&error.to_string());
        }
    }

    /// Opens the source and brings its messages, until that fails or it is to stop.
    fn bring(&mut self) -> Result<Infallible, SourceError> {
        self.source.open(&*self.ledger, &self.stop)?;
        self.record.opened(true);
        self.works();
        while !self.stop.is_set() {
            let portion = self.source.next(&*self.ledger, &self.stop)?;
            if let Some(portion) = portion {
                self.settle(&portion)?;
            }
            self.record.lags(self.source.lag());
        }
        Err(SourceError::Stopped)
    }

    /// Pushes messages until all are durable or refused for good.
    fn settle(&mut self, portion: &Portion) -> Result<(), SourceError> {
        let mut from = 0;
        while from < portion.messages.len() {
            let to = portion.messages.len().min(from + PORTION_MESSAGES);
            let messages = &portion.messages[from..to];
            let Pushed { settled, mut ended } = self.push(&portion.partition, messages);
            let mut count = 0;
            for (message, settled) in messages.iter().zip(settled) {
                let noted = self.note(&portion.partition, message, settled);
                if let Err(error) = noted {
                    ended = Some(error);
                    break;
                }
                count += 1;
            }
            if count > 0 {
                self.source.acknowledge(count)?;
                self.works();
            }
            from += count;
            match ended {
                Some(EngineError::Stopped) => return Err(SourceError::Stopped),
                Some(error) => self.rest(&error.to_string()),
                None => {}
            }
            if self.stop.is_set() {
                return Err(SourceError::Stopped);
            }
        }
        Ok(())
    }

    fn push(&self, partition: &str, messages: &[SourceMessage]) -> Pushed {
        // A message that is too long stands between others: it is settled when it is the first.
        let is_long = |message: &SourceMessage| !matches!(message.body, MessageBody::Whole(_));
        if let Some(MessageBody::TooLong { bytes, .. }) = messages.first().map(|it| &it.body) {
            let sentence = format!(
                "the message has {bytes} bytes, more than messages may have; send it in parts"
            );
            return Pushed {
                settled: vec![Settled::Refused(sentence)],
                ended: None,
            };
        }
        let whole = messages.iter().position(is_long).unwrap_or(messages.len());
        match self.spec.format {
            SourceFormat::Message(syntax) => {
                let syntax = NumberedSyntax::Message(syntax);
                self.push_messages(partition, syntax, &messages[..whole])
            }
            SourceFormat::Document => {
                self.push_messages(partition, NumberedSyntax::Document, &messages[..whole])
            }
            SourceFormat::TimedLines => self.push_lines(partition, &messages[..whole]),
        }
    }

    fn push_messages(
        &self,
        partition: &str,
        syntax: NumberedSyntax,
        messages: &[SourceMessage],
    ) -> Pushed {
        let numbered = messages.iter().map(|message| NumberedMessage {
            seq: message.position,
            at: message.at,
            bytes: message.body.shown().0,
        });
        let numbered: Vec<NumberedMessage<'_>> = numbered.collect();
        let push = NumberedPush {
            source: partition.to_owned(),
            syntax,
        };
        match self
            .engine
            .push_numbered(&self.spec.stream, &push, &numbered)
        {
            Err(error) => Pushed::none(error),
            Ok(receipt) => {
                let outcomes = receipt.outcomes.into_iter().map(|outcome| match outcome {
                    NumberedOutcome::Taken => Settled::Taken,
                    NumberedOutcome::Repeated => Settled::Repeated,
                    NumberedOutcome::Refused(error) => Settled::Refused(error.to_string()),
                    _ => Settled::Refused("it was refused".to_owned()),
                });
                Pushed {
                    settled: outcomes.collect(),
                    ended: receipt.ended,
                }
            }
        }
    }

    /// Pushes lines together, under the position of the last; and one by one, if they are refused
    /// together.
    fn push_lines(&self, partition: &str, messages: &[SourceMessage]) -> Pushed {
        let Some(last) = messages.last() else {
            return Pushed {
                settled: Vec::new(),
                ended: None,
            };
        };
        let mut lines = Vec::new();
        for message in messages {
            lines.extend_from_slice(message.body.shown().0);
            lines.push(b'\n');
        }
        let push = PushLines {
            source: Some(partition.to_owned()),
            seq: Some(last.position),
            lines: &lines,
        };
        match self.engine.push_lines(&self.spec.stream, push) {
            Ok(receipt) => Pushed {
                settled: messages
                    .iter()
                    .map(|_| match receipt.repeated {
                        true => Settled::Repeated,
                        false => Settled::Taken,
                    })
                    .collect(),
                ended: None,
            },
            Err(error) if !is_of_the_message(&error) => Pushed::none(error),
            Err(error) if messages.len() == 1 => Pushed {
                settled: vec![Settled::Refused(error.to_string())],
                ended: None,
            },
            Err(_) => {
                let mut pushed = Pushed {
                    settled: Vec::new(),
                    ended: None,
                };
                for message in messages {
                    let one = self.push_lines(partition, std::slice::from_ref(message));
                    pushed.settled.extend(one.settled);
                    pushed.ended = one.ended;
                    if pushed.ended.is_some() {
                        break;
                    }
                }
                pushed
            }
        }
    }

    /// Counts a message, and sends its letter if it was refused.
    fn note(
        &self,
        partition: &str,
        message: &SourceMessage,
        settled: Settled,
    ) -> Result<(), EngineError> {
        let reason = match settled {
            Settled::Taken => {
                self.record.count(|counts| counts.taken += 1);
                None
            }
            Settled::Repeated => {
                self.record.count(|counts| counts.repeated += 1);
                None
            }
            Settled::Refused(reason) => Some(reason),
        };
        if let Some(reason) = reason {
            self.refuse(partition, message, reason)?;
        }
        let bytes = message.body.shown().1;
        self.record.count(|counts| counts.bytes += bytes);
        Ok(())
    }

    fn refuse(
        &self,
        partition: &str,
        message: &SourceMessage,
        mut reason: String,
    ) -> Result<(), EngineError> {
        let dead_letters = match &self.spec.dead_letter {
            Some(stream) => Some(stream.clone()),
            None => self.engine.dead_letters_of(&self.spec.stream)?,
        };
        if let Some(stream) = &dead_letters {
            let letter = Letter {
                stream: &self.spec.stream,
                partition,
                message,
                reason: &reason,
            };
            match letter.send(&self.engine, stream) {
                Ok(()) => self.record.count(|counts| counts.dead_letters += 1),
                // A stream of letters that takes no letter must not hold the messages up.
                Err(error) if is_of_the_message(&error) => {
                    reason = format!("{reason}; and <{stream}> does not take its letter: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        tracing::debug!(
            "source {}: the message {} of {partition} was refused: {reason}",
            self.spec.name,
            message.position
        );
        self.record.refused(partition, message.position, reason);
        Ok(())
    }

    fn works(&mut self) {
        self.pause = FIRST_PAUSE;
        self.record.works();
    }

    /// Notes a failure, and waits.
    fn rest(&mut self, error: &str) {
        self.record.failed(error);
        let pause = self.pause;
        tracing::warn!(
            "source {} of <{}>: {error}; it is tried again in {} ms",
            self.spec.name,
            self.spec.stream,
            pause.as_millis()
        );
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        self.stop.wait(pause);
    }
}

/// Whether a push is refused for what is in it. Anything else may pass, or be mended.
fn is_of_the_message(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Data { .. }
            | EngineError::Invalid(_)
            | EngineError::Late(_)
            | EngineError::Limit {
                which: LimitKind::PushStatements,
                ..
            }
    )
}

#[cfg(test)]
mod tests;
