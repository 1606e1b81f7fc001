//! Suites of transactions on the engine: with threads or in a simulated process, with kills and
//! checkpoints at seeded points, and with either recovery. `somersault-suites` feeds and judges.

mod emitted;
pub mod host;
mod place;
mod subject;
mod watch;

pub use place::serve;

use crate::error::ConformanceError;
use crate::rsp::child::Draw;
use host::EngineOptions;
use place::{ChildPlace, EnginePlace, SimulatedPlace};
use somersault_suites::{Feed, RecoveryText, RunReport, SuiteError, TransactionSuite, run};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use subject::{Plan, TransactionSubject};

/// The bodies of suites without steps have up to this number of messages.
const BODY_MESSAGES: u64 = 16;
/// Differences come in hundreds; the first few are enough to find the cause.
const SHOWN: usize = 8;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct TxnOptions {
    /// The number of shards.
    pub shards: u16,
    /// The seed of a simulated process; without it the engine has threads.
    pub simulated: Option<u64>,
    /// The seed of bodies, kill points and crashes.
    pub seed: u64,
    /// The recovery that dataflows are declared with.
    pub recovery: RecoveryText,
    /// The number of times that the engine is killed.
    pub kill_points: usize,
    /// The program whose process is killed with SIGKILL, which has the command `txn-child`. Without
    /// it, and in a simulated process, the disk crashes.
    pub program: Option<PathBuf>,
    /// A checkpoint is taken after this number of requests, again and again; 0 for none.
    pub checkpoint_every: usize,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions {
            shards: 2,
            simulated: None,
            seed: 1,
            recovery: RecoveryText::AsWritten,
            kill_points: 0,
            program: None,
            checkpoint_every: 0,
        }
    }
}

/// What a run of a suite found.
#[derive(Debug)]
pub struct TxnReport {
    /// The suite's name.
    pub name: String,
    /// The number of shards at the beginning.
    pub shards: u16,
    /// Compared answers, and differences.
    pub found: RunReport,
    /// The number of times that the reader asked a query that must always be true, since the last
    /// restart.
    pub asked: u64,
    /// The number of times that the engine was killed.
    pub kills: usize,
    /// The number of checkpoints.
    pub checkpoints: usize,
    /// Why no checkpoint was taken, the first time that none was.
    pub no_checkpoint: Option<String>,
    /// The time from opening to the end.
    pub elapsed: Duration,
}

impl TxnReport {
    /// Whether everything is as expected. A run that compared nothing is not.
    pub fn is_exact(&self) -> bool {
        self.found.differences.is_empty() && self.found.compared > 0
    }
}

impl std::fmt::Display for TxnReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.is_exact() { "exact" } else { "DIFFERS" };
        write!(
            f,
            "{}: {verdict}; {} shards, {} compared, {} asked meanwhile, {} kills, {} checkpoints, {:.1} s",
            self.name,
            self.shards,
            self.found.compared,
            self.asked,
            self.kills,
            self.checkpoints,
            self.elapsed.as_secs_f64(),
        )?;
        if let Some(reason) = &self.no_checkpoint {
            write!(f, "\n  no checkpoint: {reason}")?;
        }
        for unseen in &self.found.unseen {
            write!(f, "\n  not compared: {unseen}")?;
        }
        let differences = &self.found.differences;
        for difference in differences.iter().take(SHOWN) {
            write!(f, "\n  {difference}")?;
        }
        if differences.len() > SHOWN {
            let more = differences.len() - SHOWN;
            write!(f, "\n  and {more} more differences")?;
        }
        if self.found.compared == 0 {
            write!(f, "\n  nothing was compared")?;
        }
        Ok(())
    }
}

/// Runs the suite in a file.
///
/// # Errors
/// A file of the suite cannot be read or is not as the format says, or the engine fails.
pub fn run_file(path: &Path, options: &TxnOptions) -> Result<TxnReport, ConformanceError> {
    let suite = TransactionSuite::open(path).map_err(of_suite)?;
    run_suite(&suite.with_recovery(options.recovery), options)
}

/// Runs a suite.
///
/// # Errors
/// As [`run_file`].
pub fn run_suite(
    suite: &TransactionSuite,
    options: &TxnOptions,
) -> Result<TxnReport, ConformanceError> {
    let plan = Plan {
        points: match options.kill_points {
            0 => BTreeSet::new(),
            points => drawn_points(points, count_requests(suite, options)?, options.seed),
        },
        checkpoint_every: options.checkpoint_every,
        shards: options.shards,
    };
    let wanted = plan.points.len();
    let mut report = run_on(&mut *open(options)?, suite, plan, options)?;
    if report.kills < wanted {
        let fault = format!("killed {} times instead of {wanted}", report.kills);
        report.found.differences.push(fault);
    }
    if options.checkpoint_every > 0 && report.checkpoints == 0 {
        let fault = "no checkpoint was taken".to_owned();
        report.found.differences.push(fault);
    }
    Ok(report)
}

fn open(options: &TxnOptions) -> Result<Box<dyn EnginePlace>, ConformanceError> {
    let host = EngineOptions {
        shards: options.shards,
        simulated: options.simulated,
        data: None,
        violations: None,
    };
    match &options.program {
        Some(program) if options.kill_points > 0 && options.simulated.is_none() => {
            Ok(Box::new(ChildPlace::open(program.clone(), host)?))
        }
        _ => Ok(Box::new(SimulatedPlace::open(host)?)),
    }
}

fn run_on(
    place: &mut dyn EnginePlace,
    suite: &TransactionSuite,
    plan: Plan,
    options: &TxnOptions,
) -> Result<TxnReport, ConformanceError> {
    let begun = Instant::now();
    let mut subject = TransactionSubject::new(place, plan, options.seed);
    let feed = Feed {
        body_messages: BODY_MESSAGES,
        seed: options.seed,
    };
    let found = run(suite, &mut subject, feed).map_err(of_suite)?;
    Ok(TxnReport {
        name: suite.name().to_owned(),
        shards: options.shards,
        found,
        asked: subject.asked,
        kills: subject.kills,
        checkpoints: subject.checkpoints,
        no_checkpoint: subject.no_checkpoint,
        elapsed: begun.elapsed(),
    })
}

/// The number of requests of a run, from one that is not killed. With the same seed the others have
/// the same requests up to their last kill.
fn count_requests(
    suite: &TransactionSuite,
    options: &TxnOptions,
) -> Result<usize, ConformanceError> {
    let host = EngineOptions {
        shards: 1,
        simulated: None,
        data: None,
        violations: None,
    };
    let mut place = SimulatedPlace::open(host)?;
    let mut subject = TransactionSubject::new(&mut place, Plan::default(), options.seed);
    let feed = Feed {
        body_messages: BODY_MESSAGES,
        seed: options.seed,
    };
    run(suite, &mut subject, feed).map_err(of_suite)?;
    Ok(subject.requests)
}

/// Some of the requests: none behind the last ones, which end the run.
fn drawn_points(points: usize, requests: usize, seed: u64) -> BTreeSet<usize> {
    const LAST: usize = 4;
    let mut draw = Draw::new(seed);
    let mut drawn = BTreeSet::new();
    let choice = requests.saturating_sub(LAST).max(1);
    while drawn.len() < points.min(choice) {
        drawn.insert(1 + draw.below(choice));
    }
    drawn
}

fn of_suite(error: SuiteError) -> ConformanceError {
    ConformanceError::Transactions(error)
}
