//! Wukong+S, section 6.8: what fault tolerance costs. The paper runs its L1–L3 mix with emulated
//! clients: 1.07M queries/s without, 803K with logging and checkpoints; p99 0.15 ms and 0.73 ms.
//! Here the mix is standing queries of the shapes L1–L3 with random constants. They are measured in
//! real time for delays, and with the streams as fast as they go for executions a second.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::checkpoints::beside_checkpoints;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::{Way, clear, take, texts};
use crate::streams::measure::QUIESCE;
use crate::streams::stage::{BATCH_MS, Stage, configuration, network};
use crate::streams::standing_queries::{StandingQueries, measured};
use somersault::EngineConfig;
use somersault_generate::SocialNetwork;
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "log",
    run,
    rows,
};

/// The time between the end of a checkpoint and the begin of the next.
const PAUSE: Duration = Duration::from_secs(1);
/// The most that is stored: the cost of the log does not depend on it.
const MOST_STORED: u64 = 1_000_000;
const MEMORY: &str = "in memory";
const LOG: &str = "with log";
const CHECKPOINTS: &str = "with log and checkpoints";
const EXECUTIONS: &str = "executions/s as fast as it goes";
const DELAY_P99: &str = "delay p99, ms";
/// The figures of the paper: executions a second against those without, and p99 against that.
const PAPER_EXECUTIONS: f64 = 803.0 / 1070.0;
const PAPER_P99: f64 = 0.73 / 0.15;

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let sheet = Sheet::new(
        "Papers: the cost of fault tolerance (Wukong+S, 6.8)",
        format!(
            "{} standing queries of the shapes L1–L3, five streams at {} tuples/s in real time, and then as fast as they go.",
            thousands(options.queries),
            thousands(options.rate.into())
        ),
    );
    let columns = [
        "executions/s in real time",
        "delay p50, ms",
        DELAY_P99,
        EXECUTIONS,
    ];
    let mut grid = Grid::new("setting", columns);
    for setting in [MEMORY, LOG, CHECKPOINTS] {
        let [paced, p50, p99, quick] = of_setting(&network, options, setting)?;
        grid.line(setting, [Some(paced), Some(p50), Some(p99), Some(quick)]);
    }
    Ok(sheet.with([grid]))
}

fn of_setting(
    network: &SocialNetwork,
    options: &PapersOptions,
    setting: &str,
) -> Result<[f64; 4], Failure> {
    let folder = options.data.join("papers-log");
    clear(&folder)?;
    let config = EngineConfig {
        data: (setting != MEMORY).then(|| folder.clone()),
        ..configuration(options.workers)
    };
    let mut stage = Stage::open(network, config)?;
    let mut crowd = StandingQueries::default();
    crowd.register(&stage, options.queries, false)?;
    let engine = stage.engine.clone();
    let mut measure = || -> Result<[f64; 4], Failure> {
        let stand = measured(&mut stage, options.seconds, &crowd)?;
        let quick = as_fast_as_it_goes(&mut stage, options)?;
        Ok([
            stand.executions_per_second,
            stand.delay_p50_ms,
            stand.delay_p99_ms,
            quick,
        ])
    };
    let figures = match setting {
        CHECKPOINTS => beside_checkpoints(&engine, PAUSE, measure)?.0,
        _ => measure()?,
    };
    stage.engine.shutdown()?;
    drop((stage, engine));
    clear(&folder)?;
    Ok(figures)
}

/// Executions a second while the streams come as text from two threads, as fast as they go.
fn as_fast_as_it_goes(stage: &mut Stage<'_>, options: &PapersOptions) -> Result<f64, Failure> {
    let duration_ms = options.seconds * 1000;
    let batches = texts(&stage.stretch(duration_ms, 1.0));
    let way = Way {
        log: true,
        callers: 2,
        one_core: false,
    };
    let start = Instant::now();
    take(&stage.engine, &batches, way)?;
    stage.engine.quiesce(QUIESCE)?;
    let closes = (duration_ms / BATCH_MS) as f64;
    Ok(options.queries as f64 * closes / start.elapsed().as_secs_f64())
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let against = |setting: &str, column: &str| {
        let of = |setting| sheet?.figure(setting, column);
        Some(of(setting)? / of(MEMORY)?)
    };
    vec![
        at_least(
            "papers: executions/s of L1–L3 with log and checkpoints, against in memory",
            PAPER_EXECUTIONS,
            against(CHECKPOINTS, EXECUTIONS),
            "×",
        ),
        at_most(
            "papers: p99 of their delay with log and checkpoints, against in memory",
            PAPER_P99,
            against(CHECKPOINTS, DELAY_P99),
            "×",
        ),
    ]
}
