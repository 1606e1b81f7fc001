//! Playing recorded streams: files of `t_ms<TAB>triple .` are merged by event time, pushed per
//! batch interval and stream, and after each interval all streams are advanced in one record (S4).
//! That is what makes replayed answers exact.

mod reader;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::push::{Push, StreamStatement};
pub use reader::parse_line;
use reader::{RecordedLines, StreamReader};
use somersault_model::{EventTime, Millis};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A recorded stream: `t_ms<TAB>triple .` per line, times not decreasing; `.gz` and `.zst` are
/// unpacked.
#[derive(Clone, Debug)]
pub struct StreamFile {
    /// The stream's IRI.
    pub stream: String,
    /// The file.
    pub path: PathBuf,
}

/// The files, the speed and the end of a replay.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The streams; one stream may come from one file only.
    pub files: Vec<StreamFile>,
    /// The span of event time that goes into one push per stream, in milliseconds; it must divide
    /// every close that is to be exact.
    pub batch_ms: i64,
    /// Statements from here on are not played, and at the end all streams are advanced to here;
    /// `None` plays everything and advances to the end of the last interval.
    pub until: Option<EventTime>,
    /// Event times at which [`Step::Snapshot`] is given; all streams are at that time then.
    pub snapshots: Vec<EventTime>,
}

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as possible.
    Max,
    /// Event time passes this many times faster than the clock (1.0 = real time).
    Times(f64),
}

/// One step of a replay, in order.
#[derive(Clone, Debug)]
pub enum Step {
    /// Push this; it never splits the statements of one event time.
    Push {
        /// The stream's IRI.
        stream: String,
        /// The running number of the push in its stream, from 0: the same for the same plan and
        /// files.
        seq: u64,
        /// The statements to push.
        statements: Vec<StreamStatement>,
    },
    /// Advance all streams, in one record.
    Advance {
        /// To this event time.
        to: EventTime,
    },
    /// All streams are at this time and nothing later has been pushed: run one-shot queries now.
    Snapshot {
        /// One of [`ReplayPlan::snapshots`].
        at: EventTime,
    },
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A line is not `t_ms<TAB>triple .`, or its time goes back.
    #[error("{}, line {line}: {message}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line's number, from 1.
        line: u64,
        /// The text found and the text expected.
        message: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The plan makes no sense.
    #[error("{0}")]
    Plan(String),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The caller's target (a server, say) refused.
    #[error("{0}")]
    Target(String),
}

/// The steps of a plan, read from the files as they are needed.
///
/// The first step advances all streams to the start of the first interval. From then on every
/// stream has a time, so a close becomes due without a statement of each stream.
pub struct Steps {
    streams: Vec<Feed>,
    batch_ms: i64,
    until: Option<EventTime>,
    snapshots: VecDeque<EventTime>,
    /// All streams have been advanced to here; `None` before the first step.
    at: Option<EventTime>,
    ready: VecDeque<Planned>,
    done: bool,
}

/// A step whose statements are not read yet.
enum Planned {
    Push {
        stream: String,
        seq: u64,
        lines: RecordedLines,
    },
    Advance {
        to: EventTime,
    },
    Snapshot {
        at: EventTime,
    },
}

struct Feed {
    stream: String,
    reader: StreamReader,
    seq: u64,
}

impl Steps {
    /// Opens the files.
    ///
    /// ```
    /// use somersault::replay::{ReplayPlan, Steps, StreamFile};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let name = format!("somersault-steps-{}.tsv", std::process::id());
    /// let path = std::env::temp_dir().join(name);
    /// std::fs::write(&path, "1000\t<urn:a> <urn:p> <urn:b> .\n")?;
    /// let plan = ReplayPlan {
    ///     files: vec![StreamFile { stream: "urn:s".to_owned(), path: path.clone() }],
    ///     batch_ms: 1_000,
    ///     until: None,
    ///     snapshots: Vec::new(),
    /// };
    /// // All streams advance to 1000 ms, the statement is pushed, and they advance to 2000 ms.
    /// assert_eq!(Steps::open(&plan)?.count(), 3);
    /// # std::fs::remove_file(path)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ReplayError::Io`] for a file that cannot be read, [`ReplayError::Plan`] if the batch
    /// interval is not positive or a stream is given twice.
    pub fn open(plan: &ReplayPlan) -> Result<Steps, ReplayError> {
        if plan.batch_ms <= 0 {
            return Err(ReplayError::Plan(format!(
                "the batch interval of a replay is {} ms; give a positive number",
                plan.batch_ms
            )));
        }
        let mut streams: Vec<Feed> = Vec::with_capacity(plan.files.len());
        for file in &plan.files {
            if streams.iter().any(|feed| feed.stream == file.stream) {
                return Err(ReplayError::Plan(format!(
                    "the stream <{}> is given by two files; merge them into one",
                    file.stream
                )));
            }
            streams.push(Feed {
                stream: file.stream.clone(),
                reader: StreamReader::open(&file.path)?,
                seq: 0,
            });
        }
        let mut snapshots = plan.snapshots.clone();
        snapshots.sort_unstable();
        snapshots.dedup();
        Ok(Steps {
            streams,
            batch_ms: plan.batch_ms,
            until: plan.until,
            snapshots: snapshots.into(),
            at: None,
            ready: VecDeque::new(),
            done: false,
        })
    }

    /// Returns the event time of the next statement to be played.
    fn next_statement_time(&mut self) -> Result<Option<EventTime>, ReplayError> {
        let mut next = None;
        for feed in &mut self.streams {
            if let Some(at) = feed.reader.peek_time()?
                && self.until.is_none_or(|until| at < until)
            {
                next = Some(next.map_or(at, |earlier: EventTime| earlier.min(at)));
            }
        }
        Ok(next)
    }

    /// Puts the steps up to the end of the next non-empty interval into `ready`.
    fn fill(&mut self) -> Result<(), ReplayError> {
        let next = self.next_statement_time()?;
        let Some(from) = next.map(|time| floor_to(time, self.batch_ms)) else {
            return self.finish();
        };
        let Some(at) = self.at else {
            let first_snapshot = self.snapshots.front().copied();
            let start = first_snapshot.map_or(from, |snapshot| snapshot.min(from));
            self.advance(start);
            return Ok(());
        };
        if let Some(snapshot) = self.due_snapshot(from) {
            self.advance(snapshot);
            return Ok(());
        }
        if from > at {
            self.advance(from);
        }
        let mut end = from.plus(Millis(self.batch_ms));
        if let Some(&snapshot) = self.snapshots.front() {
            end = end.min(snapshot.max(from));
        }
        if let Some(until) = self.until {
            end = end.min(until);
        }
        for feed in &mut self.streams {
            let lines = feed.reader.take_before(end)?;
            if lines.len() > 0 {
                self.ready.push_back(Planned::Push {
                    stream: feed.stream.clone(),
                    seq: feed.seq,
                    lines,
                });
                feed.seq += 1;
            }
        }
        self.advance(end);
        Ok(())
    }

    /// Returns a remaining snapshot that comes before the next statement, if there is one.
    fn due_snapshot(&self, before: EventTime) -> Option<EventTime> {
        let snapshot = self.snapshots.front().copied()?;
        (snapshot <= before).then_some(snapshot)
    }

    fn advance(&mut self, to: EventTime) {
        if self.at.is_none_or(|at| at < to) {
            self.at = Some(to);
            self.ready.push_back(Planned::Advance { to });
        }
        while self.snapshots.front().is_some_and(|at| *at <= to) {
            if let Some(at) = self.snapshots.pop_front() {
                self.ready.push_back(Planned::Snapshot { at });
            }
        }
    }

    /// Ends the plan when no statements are left: the remaining snapshots, then the end.
    fn finish(&mut self) -> Result<(), ReplayError> {
        while let Some(&snapshot) = self.snapshots.front() {
            if let Some(until) = self.until
                && snapshot > until
            {
                return Err(ReplayError::Plan(format!(
                    "a snapshot is asked for at {} ms, after the end of the replay at {} ms",
                    snapshot.0, until.0
                )));
            }
            self.advance(snapshot);
        }
        if let Some(until) = self.until {
            self.advance(until);
        }
        self.done = true;
        Ok(())
    }
}

impl Steps {
    fn next_planned(&mut self) -> Result<Option<Planned>, ReplayError> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Ok(Some(step));
            }
            if self.done {
                return Ok(None);
            }
            if let Err(error) = self.fill() {
                self.done = true;
                return Err(error);
            }
        }
    }
}

impl Iterator for Steps {
    type Item = Result<Step, ReplayError>;

    fn next(&mut self) -> Option<Self::Item> {
        let planned = self.next_planned().transpose()?;
        Some(planned.and_then(|planned| {
            Ok(match planned {
                Planned::Push { stream, seq, lines } => Step::Push {
                    stream,
                    seq,
                    statements: lines.statements()?,
                },
                Planned::Advance { to } => Step::Advance { to },
                Planned::Snapshot { at } => Step::Snapshot { at },
            })
        }))
    }
}

fn floor_to(time: EventTime, interval_ms: i64) -> EventTime {
    EventTime(time.0.div_euclid(interval_ms) * interval_ms)
}

/// The counts of a replay.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplaySummary {
    /// Statements pushed.
    pub statements: u64,
    /// Pushes.
    pub pushes: u64,
    /// The event time to which all streams were advanced at the end.
    pub end: EventTime,
    /// The time that it took.
    pub elapsed: Duration,
}

/// The time for which a snapshot step waits for the firings that are due before it.
const QUIESCE: Duration = Duration::from_secs(600);

/// Plays a plan into an engine. After each step it calls `on_step` with the counts so far; for a
/// [`Step::Snapshot`] it does so when the engine is at that time and everything due has been
/// answered. An error from `on_step` ends the replay. The statements of a [`Step::Push`] have been
/// handed to the engine by then: its list is empty.
///
/// ```
/// use somersault::replay::{ReplayPlan, Speed, StreamFile, replay};
/// use somersault::{Engine, EngineConfig, EventTime};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// # engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
/// let name = format!("somersault-replay-{}.tsv", std::process::id());
/// let path = std::env::temp_dir().join(name);
/// std::fs::write(&path, "1000\t<urn:a> <urn:p> <urn:b> .\n")?;
/// let plan = ReplayPlan {
///     files: vec![StreamFile { stream: "urn:s".to_owned(), path: path.clone() }],
///     batch_ms: 1_000,
///     until: None,
///     snapshots: Vec::new(),
/// };
/// let summary = replay(&engine, &plan, Speed::Max, &mut |_, _| Ok(()))?;
/// assert_eq!((summary.statements, summary.end), (1, EventTime(2_000)));
/// # std::fs::remove_file(path)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The files are wrong (with file and line), or the engine or `on_step` refused.
pub fn replay(
    engine: &Engine,
    plan: &ReplayPlan,
    speed: Speed,
    on_step: &mut dyn FnMut(&Step, &ReplaySummary) -> Result<(), ReplayError>,
) -> Result<ReplaySummary, ReplayError> {
    let streams: Vec<String> = plan.files.iter().map(|file| file.stream.clone()).collect();
    let mut pace = Pace::new(speed);
    let mut summary = ReplaySummary::default();
    let begun = Instant::now();
    let mut steps = Steps::open(plan)?;
    while let Some(planned) = steps.next_planned()? {
        let step = match planned {
            Planned::Push { stream, seq, lines } => {
                pace.wait_until(lines.last().plus(Millis(1)));
                summary.statements += lines.len() as u64;
                summary.pushes += 1;
                // Memory that running firings hold is freed when they are done; memory that windows
                // need is not, and the engine reports that.
                if !engine.budget_allows(&stream, lines.len()) {
                    engine.quiesce(QUIESCE)?;
                }
                push(engine, &stream, seq, &lines)?;
                Step::Push {
                    stream,
                    seq,
                    statements: Vec::new(),
                }
            }
            Planned::Advance { to } => {
                while let Some(heartbeat) = pace.heartbeat_before(to, plan.batch_ms) {
                    advance_all(engine, &streams, heartbeat)?;
                    summary.end = heartbeat;
                    on_step(&Step::Advance { to: heartbeat }, &summary)?;
                }
                pace.wait_until(to);
                advance_all(engine, &streams, to)?;
                summary.end = to;
                Step::Advance { to }
            }
            Planned::Snapshot { at } => {
                engine.quiesce(QUIESCE)?;
                Step::Snapshot { at }
            }
        };
        summary.elapsed = begun.elapsed();
        on_step(&step, &summary)?;
    }
    summary.elapsed = begun.elapsed();
    Ok(summary)
}

fn push(engine: &Engine, stream: &str, seq: u64, lines: &RecordedLines) -> Result<(), ReplayError> {
    if let Some(plain) = lines.plain() {
        engine.push_timed(stream, None, Some(seq), &plain)?;
        return Ok(());
    }
    let push = Push {
        source: None,
        seq: Some(seq),
        statements: lines.statements()?,
    };
    engine.push(stream, push)?;
    Ok(())
}

fn advance_all(engine: &Engine, streams: &[String], to: EventTime) -> Result<(), EngineError> {
    engine.advance(streams.iter().map(|iri| (iri, to)))?;
    Ok(())
}

/// Keeps event time and the clock together.
struct Pace {
    times: Option<f64>,
    /// The event time that began at this instant.
    origin: Option<(EventTime, Instant)>,
    last: EventTime,
}

impl Pace {
    fn new(speed: Speed) -> Pace {
        let times = match speed {
            Speed::Max => None,
            Speed::Times(times) => Some(times.max(1e-6)),
        };
        Pace {
            times,
            origin: None,
            last: EventTime::MIN,
        }
    }

    fn wait_until(&mut self, time: EventTime) {
        let Some(times) = self.times else { return };
        let (origin_time, origin) = *self.origin.get_or_insert((time, Instant::now()));
        self.last = self.last.max(time);
        let ahead_ms = time.0.saturating_sub(origin_time.0).max(0) as f64 / times;
        let due = origin + Duration::from_secs_f64(ahead_ms / 1000.0);
        let now = Instant::now();
        if due > now {
            std::thread::sleep(due - now);
        }
    }

    /// During a long silence of all streams, waits for the end of the next interval and returns it,
    /// so that closes fire when their time comes and not when the silence ends.
    fn heartbeat_before(&mut self, to: EventTime, batch_ms: i64) -> Option<EventTime> {
        self.times?;
        self.origin?;
        let next = floor_to(self.last, batch_ms).plus(Millis(batch_ms));
        if next >= to {
            return None;
        }
        self.wait_until(next);
        Some(next)
    }
}

#[cfg(test)]
mod tests;
