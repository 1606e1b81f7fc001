//! Playing recorded streams: files of `t_ms<TAB>triple .` are merged by event time, pushed per batch
//! interval and stream, and after each interval all streams are advanced in one record (S4). That is
//! what makes replayed answers exact.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::push::StreamStatement;
use std::path::PathBuf;

/// A recorded stream: `t_ms<TAB>triple .` per line, times not decreasing; `.gz` and `.zst` are unpacked.
#[derive(Clone, Debug)]
pub struct StreamFile {
    /// The stream's IRI.
    pub stream: String,
    /// The file.
    pub path: PathBuf,
}

/// What is played.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// The streams.
    pub files: Vec<StreamFile>,
    /// How much event time goes into one push per stream; must divide every close that is to be exact.
    pub batch_ms: i64,
    /// Statements from here on are not fed, and at the end all streams are advanced to here;
    /// `None` plays everything and advances to the end of the last interval.
    pub until_ms: Option<i64>,
    /// Event times at which [`Step::Snapshot`] is given: all streams are at that time then.
    pub snapshots_ms: Vec<i64>,
}

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// As fast as it goes.
    Max,
    /// Event time passes this many times faster than the clock (1.0 = real time).
    Times(f64),
}

/// One thing to do, in order.
#[derive(Clone, Debug)]
pub enum Step {
    /// Push this; it never splits the statements of one event time.
    Push {
        /// The stream's IRI.
        stream: String,
        /// The running number of the push in its stream, from 0: the same for the same plan and files.
        seq: u64,
        /// What to push.
        statements: Vec<StreamStatement>,
    },
    /// Advance all streams, in one record.
    Advance {
        /// To this event time.
        to_ms: i64,
    },
    /// All streams are at this time and nothing later has been pushed: ask one-shot queries now.
    Snapshot {
        /// One of [`ReplayPlan::snapshots_ms`].
        at_ms: i64,
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
        /// From 1.
        line: u64,
        /// What was found and what was expected.
        message: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
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
pub struct Steps {
    _inner: (),
}

impl Steps {
    /// Opens the files.
    pub fn open(_plan: &ReplayPlan) -> Result<Steps, ReplayError> {
        unimplemented!()
    }
}

impl Iterator for Steps {
    type Item = Result<Step, ReplayError>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}

/// What a replay did.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplaySummary {
    /// Statements pushed.
    pub statements: u64,
    /// Pushes.
    pub pushes: u64,
    /// The event time to which all streams were advanced at the end.
    pub end_ms: i64,
    /// How long it took.
    pub elapsed: std::time::Duration,
}

/// Plays a plan into an engine. `on_step` is called after each step has been taken (for a
/// [`Step::Snapshot`]: when the engine is at that time and everything due has been answered); an error from it ends the replay.
pub fn replay(
    _engine: &Engine,
    _plan: &ReplayPlan,
    _speed: Speed,
    _on_step: &mut dyn FnMut(&Step) -> Result<(), ReplayError>,
) -> Result<ReplaySummary, ReplayError> {
    unimplemented!()
}
