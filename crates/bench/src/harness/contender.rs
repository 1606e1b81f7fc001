//! The systems measured: this engine and its peers, behind one interface, so that a runner can
//! alternate between them. The contender itself takes the times, from the text of the query to its
//! last row, and never includes counting.

use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Which way of asking a figure is of.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Figure {
    /// Plan ready → bindings complete and projected. Only this engine can be asked that from
    /// outside.
    Engine,
    /// Text in → terms out, in the process of the engine.
    Embedded,
    /// JSON over a kept-alive connection, the whole body read.
    Http,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Figure::Engine => "engine",
            Figure::Embedded => "embedded",
            Figure::Http => "HTTP",
        })
    }
}

/// Some executions of one query in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Burst {
    /// Rows of the answer; 1 for ASK.
    pub(crate) rows: u64,
    /// The time of each execution.
    pub(crate) times: Vec<Duration>,
}

/// Why there is no time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTime {
    /// It took longer than it may.
    OverTime,
    /// The contender says this.
    Refused(String),
}

impl fmt::Display for NoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTime::OverTime => f.write_str("over time"),
            NoTime::Refused(reason) => f.write_str(reason),
        }
    }
}

/// The result of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Loaded {
    /// Distinct triples afterwards.
    pub(crate) triples: u64,
    /// The time that it took; `None` if the data was there from an earlier run.
    pub(crate) took: Option<Duration>,
}

/// An engine that can be loaded and asked.
pub(crate) trait Contender: Send {
    /// Its name in tables.
    fn name(&self) -> &str;

    /// Its version.
    fn version(&self) -> &str;

    /// The ways in which it can be asked, once it is loaded.
    fn figures(&self) -> Vec<Figure>;

    /// Takes a file of N-Triples.
    fn load(&mut self, data: &Path) -> Result<Loaded, String>;

    /// Runs the same query several times in a row; each run may take as long as `limit`.
    fn run(
        &mut self,
        figure: Figure,
        text: &str,
        runs: usize,
        limit: Duration,
    ) -> Result<Burst, NoTime>;

    /// Memory that it has resident, in bytes.
    fn resident_bytes(&self) -> u64;
}
