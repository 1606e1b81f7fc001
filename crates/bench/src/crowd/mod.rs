//! Crowds of queries: light queries a second, their cost for the server, the effect of a heavy
//! query beside them, and the gain of a second thread for a heavy query. On lubm-40, this engine
//! alone.

mod http_cost;
mod mix;

use crate::figures::results::{Results, quantiles_us};
use crate::figures::table;
use crate::harness::contender::{Contender, Figure};
use crate::harness::machine::Machine;
use crate::oneshot::workload::{self, Size, Workload};
use crate::parties::line_peer::LinePeer;
use crate::parties::ours::{configuration, load, read_all};
use crate::parties::peers;
use clap::Args;
use http_cost::HttpCost;
use mix::{Class, Draw};
use serde::{Deserialize, Serialize};
use somersault::Engine;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Args, Clone)]
pub(crate) struct CrowdOptions {
    /// Seconds that each figure is measured
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Requests over HTTP whose processor time is counted
    #[arg(long, default_value_t = 20_000)]
    requests: u64,
    /// The folder that the figures are kept in
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// Name of the result file.
pub(crate) const NAME: &str = "throughput";

/// The figures; those not measured are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Throughput {
    pub(crate) machine: Machine,
    pub(crate) data: String,
    /// Prepared queries, constants bound.
    pub(crate) prepared: Option<Crowd>,
    /// Texts that are all new.
    pub(crate) text: Option<Crowd>,
    /// Texts that are all new over HTTP, with more and more clients.
    #[serde(default)]
    pub(crate) http: Vec<HttpCost>,
    pub(crate) beside: Option<Beside>,
    /// Heavy queries on one thread and on two.
    pub(crate) scaling: Vec<Scaling>,
}

/// Light queries from several threads; each thread sends the next query as soon as it has its
/// answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Crowd {
    pub(crate) threads: usize,
    pub(crate) queries_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// The share of each class.
    pub(crate) shares: Vec<(String, f64)>,
}

/// Light queries alone, and while a heavy one runs over and over.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beside {
    pub(crate) heavy_ms: f64,
    pub(crate) alone_p99_us: f64,
    pub(crate) beside_p99_us: f64,
}

/// A heavy query on one thread and on two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scaling {
    pub(crate) query: String,
    pub(crate) one_thread_us: f64,
    pub(crate) two_threads_us: f64,
}

/// Joins the courses of every student with those of every teacher, department by department.
const HEAVY: &str = "PREFIX ub: <http://swat.cse.lehigh.edu/onto/univ-bench.owl#> \
    SELECT (COUNT(*) AS ?n) { ?x ub:takesCourse ?c . ?t ub:teacherOf ?c . ?x ub:memberOf ?d . ?t ub:worksFor ?d }";

/// The queries that are measured on one core and on all, the number of turns, and the runs a turn.
const SCALED: [&str; 2] = ["L2", "L7"];
const SCALING_TURNS: usize = 5;
const SCALING_RUNS: usize = 5;

/// Runs everything and keeps the figures.
pub(crate) fn run(options: &CrowdOptions) -> Result<(), String> {
    let packed = match workload::lubm_file("lubm-40") {
        Ok(packed) => peers::absolute(&packed)?,
        Err(reason) => {
            println!("\nthroughput: {reason}");
            return Ok(());
        }
    };
    let measured = Duration::from_secs_f64(options.seconds);
    let mut figures = Throughput {
        machine: Machine::read(),
        data: "LUBM, 40 universities".to_owned(),
        ..Throughput::default()
    };
    println!("\nthroughput on lubm-40");
    let engine = Engine::open(configuration()).map_err(|error| error.to_string())?;
    load(&engine, &packed).map_err(|error| error.to_string())?;
    let classes = mix::classes(&engine)?;
    let draw = draw(&engine, &classes)?;

    let prepared = prepared_crowd(&engine, &classes, &draw, 2, measured)?;
    print_crowd("prepared, constants bound", &prepared);
    figures.prepared = Some(prepared);
    let text = crowd(&engine, &classes, &draw, 2, measured)?;
    print_crowd("text, every text new", &text);
    figures.text = Some(text);
    let beside = beside(&engine, &classes, &draw, measured)?;
    println!(
        "  light queries: p99 {:.1} µs alone, {:.1} µs beside a heavy one of {:.0} ms",
        beside.alone_p99_us, beside.beside_p99_us, beside.heavy_ms
    );
    figures.beside = Some(beside);
    engine.shutdown().map_err(|error| error.to_string())?;
    drop(engine);

    figures.http = http_cost::measure(&packed, &classes, &draw, options.requests)?;
    match scaling(&packed) {
        Ok(rows) => figures.scaling = rows,
        Err(reason) => println!("  gain of a second thread: not measured, {reason}"),
    }
    for row in &figures.scaling {
        println!(
            "  {}: {} on one core, {} on all",
            row.query,
            table::time(row.one_thread_us),
            table::time(row.two_threads_us)
        );
    }
    let path = Results::within(&options.results).write(NAME, &figures)?;
    println!("figures kept in {}", path.display());
    Ok(())
}

fn ask(engine: &Engine, text: &str) -> Result<u64, String> {
    let results = engine.query(text).run();
    let results = results.map_err(|error| error.to_string())?;
    Ok(read_all(&results.answer))
}

/// Draws the paper's mix: each class with the reciprocal of its latency here as its weight.
fn draw(engine: &Engine, classes: &[Class]) -> Result<Draw, String> {
    let mut latencies = Vec::new();
    for class in classes {
        let mut times = Vec::new();
        for constant in 0..200 {
            let text = class.text(constant % class.constants.len());
            ask(engine, &text)?;
            let start = Instant::now();
            ask(engine, &text)?;
            times.push(start.elapsed());
        }
        let (median, _) = quantiles_us(&mut times).unwrap_or((f64::NAN, f64::NAN));
        println!("  {} with a constant at random: {median:.1} µs", class.name);
        latencies.push(median);
    }
    Ok(Draw::by_latency(&latencies, 1))
}

/// Numbers for texts that were not asked before, by any measurement.
static NEXT_TEXT: AtomicU64 = AtomicU64::new(0);

/// Light queries as texts, from several threads at once.
fn crowd(
    engine: &Engine,
    classes: &[Class],
    draw: &Draw,
    threads: usize,
    measured: Duration,
) -> Result<Crowd, String> {
    let one = |seed: usize| -> Result<Vec<Duration>, String> {
        let mut draw = draw.seeded(seed as u64 + 1);
        let mut times = Vec::new();
        let start = Instant::now();
        while start.elapsed() < measured {
            let (class, constant) = draw.next(classes);
            let number = NEXT_TEXT.fetch_add(1, Ordering::Relaxed);
            let text = classes[class].new_text(constant, number);
            let asked = Instant::now();
            ask(engine, &text)?;
            times.push(asked.elapsed());
        }
        Ok(times)
    };
    let start = Instant::now();
    let all = on_threads(threads, one)?;
    Ok(crowd_of(all, start.elapsed(), threads, classes, draw))
}

/// Light queries prepared once, from several threads at once, each with a constant drawn for it.
fn prepared_crowd(
    engine: &Engine,
    classes: &[Class],
    draw: &Draw,
    threads: usize,
    measured: Duration,
) -> Result<Crowd, String> {
    let terms: Vec<_> = classes.iter().map(Class::terms).collect();
    let prepared = classes
        .iter()
        .map(|class| class.prepare(engine).map_err(|error| error.to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    let one = |seed: usize| -> Result<Vec<Duration>, String> {
        let mut draw = draw.seeded(seed as u64 + 1);
        let mut results = prepared
            .iter()
            .zip(&terms)
            .map(|(query, terms)| {
                query
                    .execute(&terms[..1])
                    .map_err(|error| error.to_string())
            })
            .collect::<Result<Vec<_>, _>>()?;
        let mut times = Vec::new();
        let start = Instant::now();
        while start.elapsed() < measured {
            let (class, constant) = draw.next(classes);
            let value = std::slice::from_ref(&terms[class][constant]);
            let asked = Instant::now();
            prepared[class]
                .execute_into(value, &mut results[class])
                .map_err(|error| error.to_string())?;
            read_all(&results[class].answer);
            times.push(asked.elapsed());
        }
        Ok(times)
    };
    let start = Instant::now();
    let all = on_threads(threads, one)?;
    Ok(crowd_of(all, start.elapsed(), threads, classes, draw))
}

/// Runs the same on several threads, and returns the results of all together.
pub(crate) fn on_threads(
    threads: usize,
    one: impl Fn(usize) -> Result<Vec<Duration>, String> + Sync,
) -> Result<Vec<Duration>, String> {
    std::thread::scope(|scope| {
        let one = &one;
        let running: Vec<_> = (0..threads)
            .map(|number| scope.spawn(move || one(number)))
            .collect();
        let mut all = Vec::new();
        for thread in running {
            let times = thread.join();
            all.extend(times.unwrap_or_else(|_| Err("a client panicked".to_owned()))?);
        }
        Ok(all)
    })
}

fn crowd_of(
    mut times: Vec<Duration>,
    elapsed: Duration,
    threads: usize,
    classes: &[Class],
    draw: &Draw,
) -> Crowd {
    let (p50_us, p99_us) = quantiles_us(&mut times).unwrap_or((f64::NAN, f64::NAN));
    let shares = (0..classes.len())
        .map(|class| (classes[class].name.to_owned(), draw.share(class)))
        .collect();
    Crowd {
        threads,
        queries_per_second: times.len() as f64 / elapsed.as_secs_f64(),
        p50_us,
        p99_us,
        shares,
    }
}

fn print_crowd(what: &str, crowd: &Crowd) {
    println!(
        "  {what}: {:.0} queries/s on {} threads, p50 {:.1} µs, p99 {:.1} µs",
        crowd.queries_per_second, crowd.threads, crowd.p50_us, crowd.p99_us
    );
}

/// One light client alone, then beside a client that repeats the heavy query.
fn beside(
    engine: &Engine,
    classes: &[Class],
    draw: &Draw,
    measured: Duration,
) -> Result<Beside, String> {
    let alone = crowd(engine, classes, draw, 1, measured)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let heavy = scope.spawn(|| -> Result<Vec<Duration>, String> {
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let start = Instant::now();
                ask(engine, HEAVY)?;
                times.push(start.elapsed());
            }
            Ok(times)
        });
        let beside = crowd(engine, classes, draw, 1, measured);
        over.store(true, Ordering::Relaxed);
        let mut times = heavy
            .join()
            .unwrap_or_else(|_| Err("the heavy client panicked".to_owned()))?;
        let (heavy_us, _) = quantiles_us(&mut times).unwrap_or((f64::NAN, f64::NAN));
        Ok(Beside {
            heavy_ms: heavy_us / 1e3,
            alone_p99_us: alone.p99_us,
            beside_p99_us: beside?.p99_us,
        })
    })
}

/// Heavy queries on an engine that has one core, and on one that has all, in turns.
fn scaling(packed: &Path) -> Result<Vec<Scaling>, String> {
    let workload = Workload::named("lubm-40", Size::FULL)?;
    let mut engines = [LinePeer::ours_on_one_core()?, LinePeer::ours()?];
    for engine in &mut engines {
        engine.load(packed)?;
    }
    let limit = Duration::from_secs(60);
    let mut rows = Vec::new();
    for query in workload.queries {
        if !SCALED.contains(&query.name.as_str()) {
            continue;
        }
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..SCALING_TURNS {
            for (engine, times) in engines.iter_mut().zip(&mut times) {
                let burst = engine.run(Figure::Embedded, &query.text, SCALING_RUNS, limit);
                let burst = burst.map_err(|failure| format!("{}: {failure}", query.name))?;
                times.extend(burst.times);
            }
        }
        let [one_thread_us, two_threads_us] =
            times.map(|mut times| quantiles_us(&mut times).map_or(f64::NAN, |(median, _)| median));
        rows.push(Scaling {
            query: query.name,
            one_thread_us,
            two_threads_us,
        });
    }
    Ok(rows)
}
