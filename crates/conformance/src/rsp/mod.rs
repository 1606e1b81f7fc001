//! Suites of windowed queries over recorded streams: loads, declares, registers, replays, and
//! compares every answer with the expected one.

pub mod child;
pub mod dialect;
pub mod expected;
pub mod host;
pub mod suite;
pub mod twin;

use crate::error::ConformanceError;
use child::{ChildHost, KillPlan};
use dialect::Dialect;
use expected::{Judge, Kind, LeftOut, QueryReport};
use host::{Counters, Firing, Host, HostOptions, InProcess};
use somersault::EventTime;
use somersault::replay::{ReplayPlan, Step, Steps, StreamFile};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use suite::Suite;

/// Settings of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The number of shards.
    pub shards: u16,
    /// The seed of the simulated fabric; `None` is timely.
    pub simulated: Option<u64>,
    /// A folder below which the engine's log is kept; without it the engine is in memory, unless it
    /// is to be killed.
    pub data: Option<PathBuf>,
    /// Run the dull twin in the engine's place.
    pub twin: bool,
    /// The dialect of the continuous queries. Queries that cannot be written in it are left out,
    /// and the report says why.
    pub dialect: Dialect,
    /// Have queries retain rows between closes wherever that is possible, not only where it is
    /// quicker.
    pub delta: bool,
    /// Kill and restart the engine during the run.
    pub kill: Option<KillPlan>,
    /// Where the engine is killed: a checkpoint is begun after this number of requests, again and
    /// again; 0 for none.
    pub checkpoint_every: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            shards: 2,
            simulated: None,
            data: None,
            twin: false,
            dialect: Dialect::CSparql,
            delta: false,
            kill: None,
            checkpoint_every: 0,
        }
    }
}

/// The result of a suite.
#[derive(Debug)]
pub struct SuiteReport {
    /// The suite's name.
    pub name: String,
    /// One per query that was asked.
    pub queries: Vec<QueryReport>,
    /// The continuous queries that were not, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// Statements fed.
    pub statements: u64,
    /// The engine's counters.
    pub counters: Counters,
    /// The number of times that the engine was killed.
    pub kills: usize,
    /// The time from opening to the last answer.
    pub elapsed: Duration,
    /// Faults other than differing answers.
    pub faults: Vec<String>,
}

/// Faults come in hundreds; the first few are enough to find the cause.
const SHOWN_FAULTS: usize = 5;

impl SuiteReport {
    /// Whether every answer is as expected. A run that compared no continuous query has a fault.
    pub fn is_exact(&self) -> bool {
        self.faults.is_empty() && self.queries.iter().all(|query| query.differing == 0)
    }

    /// The names of the queries of one kind whose answers were compared, in the order of the suite.
    pub fn compared(&self, kind: Kind) -> Vec<&str> {
        let of_kind = self.queries.iter().filter(|query| query.kind == kind);
        let compared = of_kind.filter(|query| query.compared > 0);
        compared.map(|query| query.name.as_str()).collect()
    }
}

impl std::fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.is_exact() { "exact" } else { "DIFFERS" };
        write!(
            f,
            "{}: {verdict}; {} shards, injected {:?}, {} statements fed, {} stored, {} kills, {:.1} s",
            self.name,
            self.counters.injected.len(),
            self.counters.injected,
            self.statements,
            self.counters.stored,
            self.kills,
            self.elapsed.as_secs_f64(),
        )?;
        for query in &self.queries {
            write!(f, "\n{query}")?;
        }
        for left_out in &self.left_out {
            write!(f, "\n{left_out}")?;
        }
        for fault in self.faults.iter().take(SHOWN_FAULTS) {
            write!(f, "\n  fault: {fault}")?;
        }
        if let Some(more) = self.faults.len().checked_sub(SHOWN_FAULTS + 1) {
            write!(f, "\n  and {} more faults", more + 1)?;
        }
        Ok(())
    }
}

/// Runs a suite.
pub fn run(suite: &Suite, options: &RunOptions) -> Result<SuiteReport, ConformanceError> {
    let queries = Queries::read(suite, options)?;
    let plan = queries.replay_plan(suite);
    if options.twin {
        let mut twin = twin::Twin::new(suite.default_namespace.as_deref());
        return run_on(&mut twin, suite, queries, &plan);
    }
    let folder = match (&options.data, &options.kill) {
        (None, None) => None,
        (Some(parent), _) => {
            Some(std::fs::create_dir_all(parent).and_then(|()| tempfile::tempdir_in(parent)))
        }
        (None, Some(_)) => Some(tempfile::tempdir()),
    };
    let folder = folder
        .transpose()
        .map_err(|error| ConformanceError::engine("keep its data in a folder", error))?;
    let host_options = HostOptions {
        shards: options.shards,
        simulated: options.simulated,
        data: folder.as_ref().map(|folder| folder.path().to_owned()),
        default_namespace: suite.default_namespace.clone(),
        delta: options.delta,
        checkpoint_every: options.checkpoint_every,
    };
    match &options.kill {
        None => run_on(&mut InProcess::open(&host_options)?, suite, queries, &plan),
        Some(kill) => {
            let requests = count_requests(suite, &queries, &plan)?;
            let mut host = ChildHost::start(kill.clone(), host_options, requests)?;
            let mut report = run_on(&mut host, suite, queries, &plan)?;
            report.kills = host.kills();
            if report.kills < kill.points.min(requests) {
                report.faults.push(format!(
                    "killed {} times instead of {}",
                    report.kills, kill.points
                ));
            }
            Ok(report)
        }
    }
}

/// The texts of a suite's queries, each with its judge.
struct Queries {
    /// The queries that derive streams. They are registered first, and judged by the answers of the
    /// queries that read those streams.
    deriving: Vec<String>,
    continuous: Vec<(String, Judge)>,
    one_shot: Vec<OneShot>,
    left_out: Vec<LeftOut>,
}

struct OneShot {
    text: String,
    default_graph: Option<String>,
    times: BTreeSet<i64>,
    judge: Judge,
}

impl Queries {
    fn read(suite: &Suite, options: &RunOptions) -> Result<Self, ConformanceError> {
        let mut deriving: Vec<String> = Vec::new();
        let mut continuous = Vec::new();
        let mut left_out = Vec::new();
        for entry in &suite.continuous {
            let asked = suite.text(&entry.query)?;
            let over = match &entry.over {
                Some(over) => Some(suite.text(over)?),
                None => None,
            };
            match said(suite, options, &asked, over.as_deref()) {
                Ok((text, over)) => {
                    deriving.extend(over.filter(|over| !deriving.contains(over)));
                    let judge =
                        Judge::read(suite, &entry.name, Kind::Closes, &asked, &entry.expected)?;
                    continuous.push((text, judge));
                }
                Err(reason) => left_out.push(LeftOut {
                    name: entry.name.clone(),
                    reason,
                }),
            }
        }
        let mut one_shot = Vec::new();
        for entry in &suite.oneshot {
            let text = suite.text(&entry.query)?;
            let judge = Judge::read(suite, &entry.name, Kind::Snapshots, &text, &entry.expected)?;
            one_shot.push(OneShot {
                text,
                default_graph: entry.default_graph.clone(),
                times: judge.times().collect(),
                judge,
            });
        }
        Ok(Self {
            deriving,
            continuous,
            one_shot,
            left_out,
        })
    }

    /// The faults that make a run worthless, whatever its answers.
    fn faults(&self) -> Vec<String> {
        let asks = !self.continuous.is_empty();
        match asks || self.left_out.is_empty() && !self.one_shot.is_empty() {
            true => Vec::new(),
            false => vec!["no answer of a continuous query was compared".to_owned()],
        }
    }

    fn replay_plan(&self, suite: &Suite) -> ReplayPlan {
        let snapshots: BTreeSet<i64> = self
            .one_shot
            .iter()
            .flat_map(|query| query.times.iter().copied())
            .collect();
        ReplayPlan {
            files: suite
                .streams
                .iter()
                .map(|stream| StreamFile {
                    stream: stream.iri.clone(),
                    path: suite.path(&stream.file),
                })
                .collect(),
            batch_ms: suite.batch_ms,
            until: Some(EventTime(suite.until_ms)),
            snapshots: snapshots.into_iter().map(EventTime).collect(),
        }
    }

    /// The times to advance to on the way from one time to another: each expected close in a
    /// silence of all streams gets its own heartbeat, as it would have live. After a jump the
    /// engine may skip closes whose windows are empty.
    fn heartbeats(&self, from_ms: Option<i64>, to_ms: i64) -> BTreeSet<i64> {
        let mut times = BTreeSet::from([to_ms]);
        if let Some(from_ms) = from_ms {
            let inside = from_ms + 1..to_ms.max(from_ms + 1);
            for (_, judge) in &self.continuous {
                times.extend(judge.times_in(inside.clone()));
            }
        }
        times
    }

    fn judge_firings(&mut self, firings: Vec<Firing>, faults: &mut Vec<String>) {
        for firing in firings {
            // Queries that derive streams come behind the others.
            let Some((_, judge)) = self.continuous.get_mut(firing.query) else {
                continue;
            };
            if judge
                .last_seen()
                .is_some_and(|last| firing.close_ms <= last)
            {
                faults.push(format!(
                    "{} fired for {} after {:?}",
                    judge.name,
                    firing.close_ms,
                    judge.last_seen()
                ));
            }
            if firing.revision > 0 {
                faults.push(format!(
                    "{} fired for {} again, though no statement was late",
                    judge.name, firing.close_ms
                ));
            }
            judge.judge(firing.close_ms, &firing.answer);
        }
    }
}

/// The text of a continuous query, and of the query that derives its stream, as they are
/// registered; or the reason why they are not.
fn said(
    suite: &Suite,
    options: &RunOptions,
    text: &str,
    over: Option<&str>,
) -> Result<(String, Option<String>), String> {
    if options.twin && over.is_some() {
        return Err("the dull twin keeps what is pushed, and nothing that is derived".to_owned());
    }
    let say = |text: &str| {
        options
            .dialect
            .say(text, suite.default_namespace.as_deref())
    };
    // The name of an entry may be a keyword, and none is asked by it.
    let (text, _) = suite::renamed(text, "q");
    Ok((say(&text)?, over.map(say).transpose()?))
}

/// The number of requests that a kill may fall on: those that `run_on` makes one by one.
fn count_requests(
    suite: &Suite,
    queries: &Queries,
    plan: &ReplayPlan,
) -> Result<usize, ConformanceError> {
    let registrations = queries.deriving.len() + queries.continuous.len();
    let mut requests = suite.streams.len() + registrations + 1;
    let mut at_ms = None;
    for step in Steps::open(plan).map_err(replaying)? {
        requests += match step.map_err(replaying)? {
            Step::Push { .. } => 1,
            Step::Advance { to } => 1 + queries.heartbeats(at_ms.replace(to.0), to.0).len(),
            Step::Snapshot { at } => queries
                .one_shot
                .iter()
                .filter(|query| query.times.contains(&at.0))
                .count(),
        };
    }
    Ok(requests)
}

fn run_on(
    host: &mut dyn Host,
    suite: &Suite,
    mut queries: Queries,
    plan: &ReplayPlan,
) -> Result<SuiteReport, ConformanceError> {
    let begun = Instant::now();
    let mut faults = queries.faults();
    declare(host, suite, &queries)?;
    let statements = play(host, suite, &mut queries, plan, &mut faults)?;
    let counters = host.counters()?;
    faults.extend(idle_shards(&counters));
    host.close()?;
    let judges = queries.continuous.into_iter().map(|(_, judge)| judge);
    Ok(SuiteReport {
        name: suite.name.clone(),
        queries: judges
            .chain(queries.one_shot.into_iter().map(|query| query.judge))
            .map(Judge::finish)
            .collect(),
        left_out: queries.left_out,
        statements,
        counters,
        kills: 0,
        elapsed: begun.elapsed(),
        faults,
    })
}

/// Loads what is stored, declares the streams and registers the queries.
fn declare(host: &mut dyn Host, suite: &Suite, queries: &Queries) -> Result<(), ConformanceError> {
    for stored in &suite.stored {
        host.load(&suite.path(&stored.file), stored.graph.as_deref())?;
    }
    for stream in &suite.streams {
        host.create_stream(&stream.declaration(suite.batch_ms))?;
    }
    for (at, text) in (queries.continuous.len()..).zip(&queries.deriving) {
        host.register(at, None, text)?;
    }
    for (at, (text, _)) in queries.continuous.iter().enumerate() {
        let name = format!("c{at}");
        let (text, has_header) = suite::renamed(text, &name);
        host.register(at, (!has_header).then_some(name.as_str()), &text)?;
    }
    Ok(())
}

/// Plays the streams, and judges every answer. Returns the number of statements pushed.
fn play(
    host: &mut dyn Host,
    suite: &Suite,
    queries: &mut Queries,
    plan: &ReplayPlan,
    faults: &mut Vec<String>,
) -> Result<u64, ConformanceError> {
    let mut pushed = 0;
    let mut newest_ms = None;
    for step in Steps::open(plan).map_err(replaying)? {
        match step.map_err(replaying)? {
            Step::Push {
                stream,
                seq,
                statements,
            } => {
                pushed += statements.len() as u64;
                host.push(&stream, seq, statements)?;
            }
            Step::Advance { to } => {
                for time_ms in queries.heartbeats(newest_ms, to.0) {
                    advance(host, suite, time_ms)?;
                }
                newest_ms = Some(to.0);
                queries.judge_firings(host.firings(false)?, faults);
            }
            Step::Snapshot { at } => {
                let due = queries.one_shot.iter_mut();
                for query in due.filter(|query| query.times.contains(&at.0)) {
                    let given = host.query(&query.text, query.default_graph.as_deref())?;
                    query.judge.judge(at.0, &given);
                }
            }
        }
    }
    queries.judge_firings(host.firings(true)?, faults);
    Ok(pushed)
}

fn advance(host: &mut dyn Host, suite: &Suite, to_ms: i64) -> Result<(), ConformanceError> {
    let to: Vec<(String, i64)> = suite
        .streams
        .iter()
        .map(|stream| (stream.iri.clone(), to_ms))
        .collect();
    if to.is_empty() {
        return Ok(());
    }
    host.advance(&to)
}

/// A shard without statements, where there were statements to spread, would make the comparison of
/// shard counts worthless.
fn idle_shards(counters: &Counters) -> Vec<String> {
    if counters.stored < 4 * counters.injected.len() as u64 {
        return Vec::new();
    }
    let idle = counters
        .injected
        .iter()
        .enumerate()
        .filter(|(_, injected)| **injected == 0);
    idle.map(|(shard, _)| format!("nothing was injected into shard {shard}"))
        .collect()
}

fn replaying(error: somersault::replay::ReplayError) -> ConformanceError {
    ConformanceError::engine("replay the streams", error)
}
