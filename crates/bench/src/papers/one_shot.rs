//! Wukong+S, table 8: one-shot queries on static data, while the streams are on, and while the
//! streams and all continuous queries run at full rate ("On"). The paper's means are 1.77, 1.83 and
//! 1.93 ms. Here the settings take turns, so that other work of the machine and the growth of the
//! stored graph affect all of them.

use super::{Failure, PaperPart, PapersOptions};
use crate::figures::results::{geometric_mean, quantiles_us};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};
use crate::streams::oneshot::{
    MOST_STORED, QueryTimes, TURN_MS, TURNS, ask_in_turn, beside, made_apart,
};
use crate::streams::stage::{Stage, configuration, network};
use somersault::Engine;
use somersault_generate::NamedQuery;
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "one-shot",
    run,
    rows,
};

const MEAN: &str = "geometric mean";
const STILL: &str = "static p50, ms";
const STREAMS: &str = "streams p50, ms";
const ON: &str = "streams and queries p50, ms";
/// The paper's mean with streams and continuous queries, against static data.
const PAPER_ON: f64 = 1.93 / 1.77;

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let mut stage = Stage::open(&network, configuration(options.workers))?;
    let sheet = Sheet::new(
        "Papers: one-shot queries beside streams and continuous queries (Wukong+S, table 8)",
        format!(
            "S1–S6 from one thread over {} stored triples: standing still, while five streams run at {} tuples/s, and while L1–L6 and E1–E3 run over them as well, in turns.",
            thousands(stage.stored.triples),
            thousands(options.rate.into())
        ),
    );
    let queries = network.one_shot_queries();
    let continuous = network.continuous_queries();
    for query in &continuous {
        stage.engine.register(Some(query.name), &query.text)?;
    }
    pause(&stage.engine, &continuous, true)?;
    let warm_up = stage.stretch(TURN_MS, 1.0);
    stage.play(warm_up, true)?;
    let mut times: [Vec<QueryTimes>; 3] = Default::default();
    times.fill(vec![QueryTimes::default(); queries.len()]);
    // The first of each plans and is not counted.
    let enough = |asked: usize| asked > queries.len();
    ask_in_turn(&stage.engine, &queries, &mut times[0].clone(), enough)?;
    let turn = Duration::from_millis(TURN_MS.unsigned_abs());
    for _ in 0..TURNS {
        let start = Instant::now();
        let over = |_: usize| start.elapsed() >= turn;
        ask_in_turn(&stage.engine, &queries, &mut times[0], over)?;
        let stretch = made_apart(&mut stage)?;
        beside(&stage.engine, stretch, &queries, &mut times[1])?;
        let stretch = made_apart(&mut stage)?;
        pause(&stage.engine, &continuous, false)?;
        beside(&stage.engine, stretch, &queries, &mut times[2])?;
        pause(&stage.engine, &continuous, true)?;
    }
    stage.engine.shutdown()?;
    Ok(sheet.with([grid(&queries, times)?]))
}

fn pause(engine: &Engine, queries: &[NamedQuery], paused: bool) -> Result<(), Failure> {
    for query in queries {
        match paused {
            true => engine.pause_query(query.name)?,
            false => engine.resume_query(query.name)?,
        }
    }
    Ok(())
}

fn grid(queries: &[NamedQuery], mut times: [Vec<QueryTimes>; 3]) -> Result<Grid, Failure> {
    let columns = [
        STILL,
        STREAMS,
        ON,
        "static p99, ms",
        "streams and queries p99, ms",
    ];
    let mut grid = Grid::new("query", columns);
    let mut medians: [Vec<f64>; 3] = Default::default();
    for (number, query) in queries.iter().enumerate() {
        let mut figures = [(0.0, 0.0); 3];
        for (setting, figure) in figures.iter_mut().enumerate() {
            let own = &mut times[setting][number].times;
            let unasked = || format!("{} was not asked; measure for longer", query.name);
            *figure = quantiles_us(own).ok_or_else(unasked)?;
            medians[setting].push(figure.0 / 1e3);
        }
        let [still, streams, on] = figures.map(|(p50, p99)| (Some(p50 / 1e3), Some(p99 / 1e3)));
        grid.line(query.name, [still.0, streams.0, on.0, still.1, on.1]);
    }
    let [still, streams, on] = medians.map(|medians| geometric_mean(&medians));
    grid.line(MEAN, [still, streams, on, None, None]);
    Ok(grid)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let on = || Some(sheet?.figure(MEAN, ON)? / sheet?.figure(MEAN, STILL)?);
    vec![at_most(
        "papers: one-shot S1–S6 beside streams and continuous queries, mean against static",
        PAPER_ON,
        on(),
        "×",
    )]
}
