//! Wukong+S, section 6.8: what fault tolerance costs. The paper runs its L1–L3 mix with emulated
//! clients: 1.07M queries/s without, 803K with logging and checkpoints; p99 0.15 ms and 0.73 ms.
//! Here the mix is standing queries of the shapes L1–L3 with random constants. They are measured in
//! real time for delays, and with the streams as fast as they go for executions a second.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_least, at_most};
use crate::streams::absorption::clear;
use crate::streams::stage::{BATCH_MS, Stage, configuration, network};
use crate::streams::standing_queries::{StandingQueries, measured};
use somersault::EngineConfig;
use somersault_generate::SocialNetwork;
use std::time::Instant;

pub(super) const PART: PaperPart = PaperPart {
    name: "log",
    run,
    rows,
};

/// The most that is stored: the cost of the log does not depend on it.
const MOST_STORED: u64 = 1_000_000;
const MEMORY: &str = "in memory";
const LOG: &str = "with log";
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
    for setting in [MEMORY, LOG] {
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
    let stand = measured(&mut stage, options.seconds, &crowd)?;
    let duration_ms = options.seconds * 1000;
    let stretch = stage.stretch(duration_ms, 1.0);
    let start = Instant::now();
    stage.play(stretch, false)?;
    let closes = (duration_ms / BATCH_MS) as f64;
    let quick = options.queries as f64 * closes / start.elapsed().as_secs_f64();
    stage.engine.shutdown()?;
    drop(stage);
    clear(&folder)?;
    Ok([
        stand.executions_per_second,
        stand.delay_p50_ms,
        stand.delay_p99_ms,
        quick,
    ])
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let against = |setting: &str, column: &str| {
        let of = |setting| sheet?.figure(setting, column);
        Some(of(setting)? / of(MEMORY)?)
    };
    vec![
        at_least(
            "papers: executions/s of L1–L3 with log, against in memory",
            PAPER_EXECUTIONS,
            against(LOG, EXECUTIONS),
            "×",
        ),
        at_most(
            "papers: p99 of their delay with log, against in memory",
            PAPER_P99,
            against(LOG, DELAY_P99),
            "×",
        ),
    ]
}
