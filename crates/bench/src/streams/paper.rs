//! The paper's own setting: each query registered alone while five streams run at the paper's rate,
//! then all together. Threads that execute queries have a core for themselves, injection and the
//! generator's pushes have the rest.

use super::figures::{Paper, QueryFigures};
use super::measure::{Play, heading, measure, named, print_figures};
use super::stage::{Stage, configuration, network};
use super::targets::{PAPER_MEAN_MS, PAPER_P50_MS};
use super::threads::Apart;
use super::{Failure, StreamsOptions};
use crate::figures::results::geometric_mean;
use crate::harness::machine::{Machine, resident_bytes};
use somersault::EngineConfig;
use somersault_generate::NamedQuery;

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Paper, Failure> {
    let network = network(options.stored, options.rate);
    let config = configuration(options.workers);
    let portion = match options.portion {
        None => config.portion,
        Some(0) => usize::MAX,
        Some(portion) => portion,
    };
    let mut stage = Stage::open(&network, EngineConfig { portion, ..config })?;
    // This comes before the thread is bound to some of the cores.
    let machine = Machine::read();
    let apart = Apart::keep();
    let cores = match &apart {
        Some(_) => "threads that execute queries on the last core, all others on the other cores",
        None => "threads wherever the system puts them",
    };
    println!("{cores}");
    let how = Play {
        duration_ms: options.seconds * 1000,
        times: 1.0,
        paced: true,
    };
    let warm_up = stage.stretch(3_000, 1.0);
    stage.play(warm_up, true)?;
    println!(
        "alone, {} s each at {} tuples/s",
        options.seconds, options.rate
    );
    heading();
    let mut alone = Vec::new();
    let wanted = |query: &NamedQuery| {
        options.queries.is_empty() || options.queries.iter().any(|name| name == query.name)
    };
    for query in network.continuous_queries().into_iter().filter(wanted) {
        alone.extend(one_by_one(&mut stage, query, how)?);
    }
    let mean = mean(&alone);
    println!(
        "geometric mean of L1–L6: {}",
        mean.map_or_else(
            || "–".to_owned(),
            |mean| format!("{mean:.3} ms, {PAPER_MEAN_MS} ms wanted")
        )
    );
    let together = if options.queries.is_empty() {
        all_together(&mut stage, how)?
    } else {
        Vec::new()
    };
    let figures = Paper {
        machine,
        stored: stage.stored.clone(),
        rate: options.rate,
        cores: cores.to_owned(),
        alone,
        together,
        resident_mib: resident_bytes() >> 20,
    };
    stage.engine.shutdown()?;
    drop(apart);
    Ok(figures)
}

fn all_together(stage: &mut Stage<'_>, how: Play) -> Result<Vec<QueryFigures>, Failure> {
    println!("all nine together, {} s", how.duration_ms / 1000);
    heading();
    let all = stage.network.continuous_queries();
    let together = measure(stage, &all, how)?;
    together.queries.iter().for_each(print_figures);
    if !together.behind.is_zero() {
        println!(
            "event time was {} ms behind the clock at the end",
            together.behind.as_millis()
        );
    }
    Ok(together.queries)
}

fn one_by_one(
    stage: &mut Stage<'_>,
    query: NamedQuery,
    how: Play,
) -> Result<Vec<QueryFigures>, Failure> {
    let alone = measure(stage, &named(stage, &[query.name]), how)?;
    alone.queries.iter().for_each(print_figures);
    Ok(alone.queries)
}

/// The geometric mean of the medians of L1–L6; `None` where one of them is missing.
pub(super) fn mean(alone: &[QueryFigures]) -> Option<f64> {
    let medians: Option<Vec<f64>> = PAPER_P50_MS
        .iter()
        .map(|(name, _)| {
            let found = alone.iter().find(|figures| figures.query == *name);
            Some(found?.execution_p50_ms)
        })
        .collect();
    geometric_mean(&medians?)
}
