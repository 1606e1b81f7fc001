//! The figures of the stream benches, one file a part. The targets and the tables are made from
//! them.

use super::batches::Batches;
use super::snapshots::Snapshots;
use super::standing::Standing;
use super::steps::Steps;
use super::terms::Terms;
use crate::figures::results::Results;
use crate::harness::machine::{Machine, stolen_time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The data stored before anything streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) users: u32,
    pub(crate) triples: u64,
    /// The time to make and to load it.
    pub(crate) seconds: f64,
    /// The memory that the engine uses for it: the store and the terms.
    pub(crate) bytes: u64,
    /// The most that the process had resident until then.
    pub(crate) peak_bytes: u64,
}

/// One query's firings over one measured stretch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueryFigures {
    pub(crate) query: String,
    pub(crate) firings: usize,
    pub(crate) rows: u64,
    pub(crate) execution_p50_ms: f64,
    pub(crate) execution_p99_ms: f64,
    pub(crate) delay_p50_ms: f64,
    pub(crate) delay_p99_ms: f64,
    pub(crate) delay_max_ms: f64,
    /// Firings whose whole delay was longer than the query's step.
    pub(crate) later_than_step: usize,
    pub(crate) step_ms: i64,
    /// Processor time that the host gave to others meanwhile, over all cores.
    pub(crate) stolen_ms: u64,
}

/// The paper's setting: each query alone, and all together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paper {
    pub(crate) machine: Machine,
    pub(crate) stored: Stored,
    pub(crate) rate: u32,
    /// Which threads had which cores.
    pub(crate) cores: String,
    pub(crate) alone: Vec<QueryFigures>,
    pub(crate) together: Vec<QueryFigures>,
    pub(crate) resident_mib: u64,
}

/// Figures of several queries at one point of a line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// The position on the line: tuples a second, stored triples, or seconds of stream.
    pub(crate) at: u64,
    /// The distance of event time behind the clock at the end; 0 if it was not paced.
    pub(crate) behind_ms: u64,
    pub(crate) queries: Vec<QueryFigures>,
}

/// The figures that should stay flat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lines {
    pub(crate) machine: Machine,
    pub(crate) stored: Stored,
    /// As the streams go faster.
    pub(crate) by_rate: Vec<Point>,
    /// As more is stored.
    pub(crate) by_stored: Vec<Point>,
    /// As the streams have run for longer.
    pub(crate) by_age: Vec<Point>,
    /// Whether all requested points are there. Older files lack this field and hold whole lines.
    #[serde(default = "whole")]
    pub(crate) complete: bool,
}

fn whole() -> bool {
    true
}

/// The speed at which streams are absorbed, and the cost of a tuple.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Absorption {
    pub(crate) machine: Machine,
    pub(crate) stored: Stored,
    /// Bytes of text a tuple.
    pub(crate) bytes_per_tuple: f64,
    /// Text to statements and nothing else, on one thread.
    pub(crate) decode_us_per_tuple: f64,
    pub(crate) runs: Vec<AbsorptionRun>,
}

/// One way of taking them, in the quickest of several rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AbsorptionRun {
    /// Whether the log is on disk.
    pub(crate) log: bool,
    /// Threads that push.
    pub(crate) callers: usize,
    /// Whether all of it shares one core.
    pub(crate) one_core: bool,
    pub(crate) tuples: u64,
    pub(crate) seconds: f64,
    /// Processor time a tuple, by thread.
    pub(crate) us_per_tuple: Vec<(String, f64)>,
    pub(crate) stolen_ms: u64,
}

impl AbsorptionRun {
    /// Measured from the first push until the last tuple is stable.
    pub(crate) fn tuples_per_second(&self) -> f64 {
        self.tuples as f64 / self.seconds
    }

    /// Over all threads.
    pub(crate) fn all_us_per_tuple(&self) -> f64 {
        self.us_per_tuple.iter().map(|(_, us)| us).sum()
    }
}

/// The thread of a caller that pushes text, in the words of the figures.
pub(crate) const PUSHING: &str = "callers: decode and encode";

impl Absorption {
    /// The cost of a tuple in a run, by named parts. The last part is the remainder.
    pub(crate) fn parts(&self, run: &AbsorptionRun) -> [(&'static str, f64); 5] {
        let of = |name: &str| {
            let found = run.us_per_tuple.iter().find(|(thread, _)| thread == name);
            found.map_or(0.0, |(_, us)| *us)
        };
        let pushing = of(PUSHING);
        let decode = self.decode_us_per_tuple.min(pushing);
        let (log, injectors) = (of("log"), of("injectors"));
        let rest = run.all_us_per_tuple() - pushing - log - injectors;
        [
            ("decode", decode),
            ("encode", pushing - decode),
            ("log", log),
            ("inject and index", injectors),
            ("order", rest),
        ]
    }
}

/// One-shot queries while the streams stand still and while they run, in turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OneShot {
    pub(crate) machine: Machine,
    pub(crate) stored: Stored,
    pub(crate) rate: u32,
    /// The most that event time was behind the clock at the end of a turn.
    pub(crate) behind_ms: u64,
    pub(crate) stolen_ms: u64,
    pub(crate) queries: Vec<OneShotQuery>,
}

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct OneShotQuery {
    pub(crate) query: String,
    pub(crate) rows: u64,
    pub(crate) still_p50_us: f64,
    pub(crate) still_p99_us: f64,
    pub(crate) running_p50_us: f64,
    pub(crate) running_p99_us: f64,
}

/// CityBench, its answers compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CityBench {
    pub(crate) machine: Machine,
    pub(crate) laps: usize,
    pub(crate) queries: Vec<QueryFigures>,
    /// Sentences that name a close whose rows are not the reference's; none in a run that counts.
    pub(crate) differences: Vec<String>,
    pub(crate) stolen_ms: u64,
}

/// The memory of slices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(crate) machine: Machine,
    pub(crate) rate: u32,
    pub(crate) streams: Vec<StreamMemory>,
}

/// The memory of one stream's slices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StreamMemory {
    pub(crate) stream: String,
    pub(crate) statements: u64,
    /// Slices alone.
    pub(crate) slices_bytes: u64,
    /// With the windows that queries share over them.
    pub(crate) windows_bytes: u64,
}

impl Memory {
    /// Bytes a statement over all streams: of slices alone, and with the windows over them.
    pub(crate) fn bytes_per_statement(&self) -> (f64, f64) {
        let sum = |of: fn(&StreamMemory) -> u64| self.streams.iter().map(of).sum::<u64>() as f64;
        let statements = sum(|stream| stream.statements).max(1.0);
        let slices = sum(|stream| stream.slices_bytes);
        let windows = sum(|stream| stream.windows_bytes);
        (slices / statements, (slices + windows) / statements)
    }
}

/// The same continuous queries by others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Peers {
    pub(crate) machine: Machine,
    pub(crate) cases: Vec<PeerCase>,
}

/// Some queries over the same statements, by this engine and by one peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerCase {
    /// The data, in words.
    pub(crate) data: String,
    pub(crate) stored_triples: u64,
    pub(crate) peer: String,
    pub(crate) version: String,
    /// Why the peer is not there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) absent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) load_seconds: Option<f64>,
    pub(crate) stolen_ms: u64,
    pub(crate) queries: Vec<PeerQuery>,
}

/// One query of a case.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerQuery {
    pub(crate) query: String,
    pub(crate) closes: usize,
    pub(crate) rows: u64,
    pub(crate) ours_p50_ms: f64,
    /// The peer's evaluation; `None` where it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) theirs_p50_ms: Option<f64>,
    /// The peer's additional time for keeping its windows current.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) theirs_window_p50_ms: Option<f64>,
    /// Why there is no figure, or in which closes the rows differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) remark: Option<String>,
}

impl PeerQuery {
    /// The factor by which the peer is slower.
    pub(crate) fn times(&self) -> Option<f64> {
        Some(self.theirs_p50_ms? / self.ours_p50_ms)
    }
}

/// All parts that have been run.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamFigures {
    pub(crate) paper: Option<Paper>,
    pub(crate) rates: Option<Lines>,
    pub(crate) absorption: Option<Absorption>,
    pub(crate) oneshot: Option<OneShot>,
    pub(crate) citybench: Option<CityBench>,
    pub(crate) memory: Option<Memory>,
    pub(crate) peers: Option<Peers>,
    pub(crate) standing: Option<Standing>,
    pub(crate) snapshots: Option<Snapshots>,
    pub(crate) steps: Option<Steps>,
    pub(crate) batches: Option<Batches>,
    pub(crate) terms: Option<Terms>,
}

impl StreamFigures {
    /// Reads the figures that exist in the result files.
    pub(crate) fn read(results: &Results) -> Result<StreamFigures, String> {
        Ok(StreamFigures {
            paper: results.read(&file("paper"))?,
            rates: results.read(&file("rates"))?,
            absorption: results.read(&file("absorption"))?,
            oneshot: results.read(&file("oneshot"))?,
            citybench: results.read(&file("citybench"))?,
            memory: results.read(&file("memory"))?,
            peers: results.read(&file("peers"))?,
            standing: results.read(&file("standing"))?,
            snapshots: results.read(&file("snapshots"))?,
            steps: results.read(&file("steps"))?,
            batches: results.read(&file("batches"))?,
            terms: results.read(&file("terms"))?,
        })
    }
}

/// The name of a part's result file.
pub(crate) fn file(part: &str) -> String {
    format!("streams-{part}")
}

/// The value that `percent` of a sorted list do not exceed, in milliseconds; not a number if the
/// list is empty.
pub(crate) fn quantile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted
        .get(place)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// Counts the processor time that the host gives to others from here on.
pub(crate) struct Stolen(Duration);

impl Stolen {
    pub(crate) fn from_here() -> Stolen {
        Stolen(stolen_time())
    }

    pub(crate) fn ms(&self) -> u64 {
        stolen_time().saturating_sub(self.0).as_millis() as u64
    }
}
