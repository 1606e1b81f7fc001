//! The stream workload of the Wukong+S paper at its own rate: each query alone, all together, and injection without queries.

use crate::machine::{Machine, processor_time, resident_bytes, stolen_time};
use clap::Args;
use serde::Serialize;
use somersault::live::{self, LivePlan, LiveStatement};
use somersault::{Engine, EngineConfig, SubscribeOptions, Subscription, SubscriptionEvent};
use somersault_generate::{
    Activity, NamedQuery, Parameters, Rates, STORED_GRAPH, SocialNetwork, StreamKind,
};
use std::error::Error;
use std::fs;
use std::iter::Peekable;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BATCH_MS: i64 = 100;

#[derive(Args)]
pub(crate) struct Options {
    /// Users of the network
    #[arg(long, default_value_t = 10_000)]
    users: u32,
    /// Tuples per second of all five streams together
    #[arg(long, default_value_t = 133_500)]
    rate: u32,
    /// Seconds that each query is measured alone
    #[arg(long, default_value_t = 5)]
    seconds: i64,
    /// Seconds that all queries are measured together
    #[arg(long, default_value_t = 10)]
    together: i64,
    /// Shards
    #[arg(long, default_value_t = 1)]
    workers: u16,
    /// Where the figures are kept
    #[arg(long, default_value = "bench/results/streams.json")]
    results: PathBuf,
}

#[derive(Serialize)]
struct Results {
    machine: Machine,
    users: u32,
    rate: u32,
    stored_triples: u64,
    load_triples_per_second: f64,
    alone: Vec<QueryFigures>,
    together: Vec<QueryFigures>,
    injection: Injection,
    resident_mib: u64,
    stolen_ms: u64,
}

/// One query's firings over one measured stretch.
#[derive(Serialize)]
struct QueryFigures {
    query: String,
    firings: usize,
    rows: u64,
    execution_p50_ms: f64,
    execution_p99_ms: f64,
    delay_p50_ms: f64,
    delay_p99_ms: f64,
    delay_max_ms: f64,
    /// Firings whose whole delay was longer than the query's step.
    later_than_step: usize,
    step_ms: i64,
}

#[derive(Serialize)]
struct Injection {
    tuples: u64,
    tuples_per_second: f64,
    processor_us_per_tuple: f64,
}

type Feed<'n> = Peekable<Box<dyn Iterator<Item = LiveStatement> + 'n>>;

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let machine = Machine::read();
    let stolen_before = stolen_time();
    println!(
        "{}, {} cores, {} GiB, commit {}",
        machine.processor, machine.cores, machine.memory_gib, machine.commit
    );
    let queries = 9;
    let warm_up_s = 3;
    let streams_ms = 1000 * (warm_up_s + queries * (options.seconds + 1) + options.together + 10);
    let network = SocialNetwork::new(Parameters {
        users: options.users,
        rates: Rates::in_total(options.rate),
        streams_ms,
        ..Parameters::default()
    });
    let engine = Engine::open(EngineConfig {
        workers: options.workers,
        ..EngineConfig::default()
    })?;
    let mut activity = network.activity();
    let (stored_triples, load_triples_per_second) = load(&engine, &network, &mut activity)?;
    println!(
        "{} users, {stored_triples} stored triples, loaded at {load_triples_per_second:.0} triples/s",
        options.users
    );
    for kind in StreamKind::ALL {
        engine.create_stream(None, &kind.declaration())?;
    }
    let mut feed = feed(activity);
    let mut now_ms = 0;
    play(&engine, &mut feed, &mut now_ms, warm_up_s * 1000, true)?;

    let mut alone = Vec::new();
    println!(
        "\nalone, {} s each at {} tuples/s",
        options.seconds, options.rate
    );
    heading();
    for query in network.continuous_queries() {
        let figures = measure(
            &engine,
            std::slice::from_ref(&query),
            &mut feed,
            &mut now_ms,
            options.seconds * 1000,
        )?;
        alone.extend(figures.into_iter().inspect(print_figures));
    }
    println!(
        "\nall nine together, {} s at {} tuples/s",
        options.together, options.rate
    );
    heading();
    let together = measure(
        &engine,
        &network.continuous_queries(),
        &mut feed,
        &mut now_ms,
        options.together * 1000,
    )?;
    together.iter().for_each(print_figures);

    let injection = inject(&engine, &mut feed, &mut now_ms, 5_000)?;
    println!(
        "\ninjection alone, as fast as it goes: {:.0} tuples/s, {:.2} µs of processor time a tuple (text terms in, stable out)",
        injection.tuples_per_second, injection.processor_us_per_tuple
    );
    let stolen_ms = (stolen_time() - stolen_before).as_millis() as u64;
    println!(
        "resident memory {} MiB, processor time stolen by the host {stolen_ms} ms",
        resident_bytes() >> 20
    );
    let results = Results {
        machine,
        users: options.users,
        rate: options.rate,
        stored_triples,
        load_triples_per_second,
        alone,
        together,
        injection,
        resident_mib: resident_bytes() >> 20,
        stolen_ms,
    };
    if let Some(folder) = options.results.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(
        &options.results,
        serde_json::to_string_pretty(&results)? + "\n",
    )?;
    println!("figures kept in {}", options.results.display());
    engine.shutdown()?;
    Ok(())
}

/// Loads people and the past into the stored graph; returns how many triples are stored and how many came in a second.
fn load(
    engine: &Engine,
    network: &SocialNetwork,
    activity: &mut Activity<'_>,
) -> Result<(u64, f64), Box<dyn Error>> {
    let graph = somersault::oxrdf::NamedNode::new(STORED_GRAPH)?;
    let triples: Vec<_> = network.people().chain(activity.past()).collect();
    let count = triples.len();
    let start = Instant::now();
    let summary = engine.load_quads(
        triples
            .into_iter()
            .map(|triple| triple.in_graph(graph.clone())),
    )?;
    Ok((summary.stored, count as f64 / start.elapsed().as_secs_f64()))
}

fn feed(activity: Activity<'_>) -> Feed<'_> {
    let statements = activity.map(|streamed| LiveStatement {
        stream: streamed.kind.index(),
        at_ms: streamed.at_ms,
        triple: streamed.triple,
    });
    (Box::new(statements) as Box<dyn Iterator<Item = LiveStatement>>).peekable()
}

fn play(
    engine: &Engine,
    feed: &mut Feed<'_>,
    now_ms: &mut i64,
    duration_ms: i64,
    paced: bool,
) -> Result<live::LiveProgress, Box<dyn Error>> {
    let plan = LivePlan {
        streams: StreamKind::ALL
            .iter()
            .map(|kind| kind.iri().to_owned())
            .collect(),
        batch_ms: BATCH_MS,
        from_ms: *now_ms,
        until_ms: *now_ms + duration_ms,
        paced,
    };
    let progress = live::play(engine, &plan, feed, &mut |_| true)?;
    *now_ms = plan.until_ms;
    Ok(progress)
}

/// Registers these queries, lets their windows fill for a second, and measures their firings over the stretch that follows.
fn measure(
    engine: &Engine,
    queries: &[NamedQuery],
    feed: &mut Feed<'_>,
    now_ms: &mut i64,
    duration_ms: i64,
) -> Result<Vec<QueryFigures>, Box<dyn Error>> {
    let mut readers = Vec::new();
    for query in queries {
        let info = engine.register(Some(query.name), &query.text)?;
        let step_ms = info
            .windows
            .iter()
            .filter_map(|window| window.step_ms)
            .min()
            .unwrap_or(BATCH_MS);
        readers.push((
            query.name,
            step_ms,
            engine.subscribe(
                query.name,
                SubscribeOptions {
                    capacity: 1 << 20,
                    ..SubscribeOptions::default()
                },
            )?,
        ));
    }
    play(engine, feed, now_ms, 1_000, true)?;
    let measured_from = *now_ms;
    play(engine, feed, now_ms, duration_ms, true)?;
    engine.quiesce(Duration::from_secs(60))?;
    let mut figures = Vec::new();
    for (name, step_ms, reader) in &readers {
        figures.push(figures_of(name, *step_ms, reader, measured_from)?);
        engine.drop_query(name)?;
    }
    Ok(figures)
}

fn figures_of(
    name: &str,
    step_ms: i64,
    reader: &Subscription,
    measured_from: i64,
) -> Result<QueryFigures, Box<dyn Error>> {
    let (mut executions, mut delays, mut rows) = (Vec::new(), Vec::new(), 0);
    while let Some(event) = reader.try_recv() {
        let SubscriptionEvent::Firing(firing) = event else {
            return Err(format!("firings of {name} were lost before they were counted").into());
        };
        if firing.close_ms > measured_from {
            let answer = firing
                .answer
                .as_ref()
                .map_err(|reason| format!("{name} at {}: {reason}", firing.close_ms))?;
            rows += answer.len() as u64;
            executions.push(firing.execution);
            delays.push(firing.delay);
        }
    }
    executions.sort_unstable();
    delays.sort_unstable();
    Ok(QueryFigures {
        query: name.to_owned(),
        firings: executions.len(),
        rows,
        execution_p50_ms: quantile_ms(&executions, 50),
        execution_p99_ms: quantile_ms(&executions, 99),
        delay_p50_ms: quantile_ms(&delays, 50),
        delay_p99_ms: quantile_ms(&delays, 99),
        delay_max_ms: quantile_ms(&delays, 100),
        later_than_step: delays
            .iter()
            .filter(|delay| delay.as_millis() as i64 > step_ms)
            .count(),
        step_ms,
    })
}

/// Takes a stretch of the streams into memory first, so that making the data is not measured, and feeds it without pause.
fn inject(
    engine: &Engine,
    feed: &mut Feed<'_>,
    now_ms: &mut i64,
    duration_ms: i64,
) -> Result<Injection, Box<dyn Error>> {
    let until_ms = *now_ms + duration_ms;
    let mut stretch = Vec::new();
    while let Some(statement) = feed.next_if(|statement| statement.at_ms < until_ms) {
        stretch.push(statement);
    }
    let mut stretch =
        (Box::new(stretch.into_iter()) as Box<dyn Iterator<Item = LiveStatement>>).peekable();
    let (start, processor) = (Instant::now(), processor_time());
    let progress = play(engine, &mut stretch, now_ms, duration_ms, false)?;
    let (elapsed, processor) = (start.elapsed(), processor_time() - processor);
    Ok(Injection {
        tuples: progress.statements,
        tuples_per_second: progress.statements as f64 / elapsed.as_secs_f64(),
        processor_us_per_tuple: processor.as_secs_f64() * 1e6 / progress.statements.max(1) as f64,
    })
}

/// The value that so many percent of a sorted list do not exceed, in milliseconds.
fn quantile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted
        .get(place)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

fn heading() {
    println!(
        "{:<6} {:>8} {:>10} {:>11} {:>11} {:>11} {:>11} {:>11} {:>10}",
        "query",
        "firings",
        "rows",
        "exec p50",
        "exec p99",
        "delay p50",
        "delay p99",
        "delay max",
        "late"
    );
}

fn print_figures(figures: &QueryFigures) {
    println!(
        "{:<6} {:>8} {:>10} {:>8.3} ms {:>8.3} ms {:>8.3} ms {:>8.3} ms {:>8.3} ms {:>10}",
        figures.query,
        figures.firings,
        figures.rows,
        figures.execution_p50_ms,
        figures.execution_p99_ms,
        figures.delay_p50_ms,
        figures.delay_p99_ms,
        figures.delay_max_ms,
        figures.later_than_step
    );
}
