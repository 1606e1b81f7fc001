//! Bounded snapshots: how many snapshot numbers are retained, and what memory they take, while as few as one stream and as many
//! as 300 are absorbed; and a one-shot query of half a minute while five streams are: it has to answer as at its start, and the
//! streams have to go on as without it.
//!
//! What the long query has to answer is known because it was asked before, on the same snapshot, with the streams standing still.

use super::figures::{Stolen, quantile_ms};
use super::measure::{Firing, Reader, named};
use super::stage::{Stage, Stretch, configuration, network};
use super::{Failure, Options};
use crate::check::{Row, at_most};
use crate::machine::Machine;
use crate::markdown;
use crate::table::{self, time};
use serde::{Deserialize, Serialize};
use somersault::live::{self, LivePlan, LiveProgress, LiveStatement};
use somersault::oxrdf::NamedNode;
use somersault::{Engine, EngineConfig, Limits, QueryOptions};
use somersault_generate::{STORED_GRAPH, SocialNetwork};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many streams share the rate.
const STREAMS: [usize; 4] = [1, 5, 50, 300];
const BATCH_MS: i64 = 100;
/// How often the counters are looked at.
const LOOK: Duration = Duration::from_millis(3);
/// The most that is stored.
const MOST_STORED: u64 = 1_000_000;
/// The first size of the long query that is tried, and by how much it grows until it takes long enough to be scaled.
const FIRST_AUTHORS: u64 = 20;
const GROWTH: u64 = 4;
const SCALABLE: Duration = Duration::from_millis(500);
/// How often the query is made to take longer until its time is close enough to what is wanted.
const DEEPENED: usize = 4;
const CLOSE: f64 = 0.9;
/// By how much longer than without them the query may take while streams are absorbed; then the streams stand still until it ends.
const LONGER: f64 = 2.0;
const PROBE: &str = "L1";

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshots {
    machine: Machine,
    rate: u32,
    by_streams: Vec<Retained>,
    long: LongQuery,
    stolen_ms: u64,
}

/// What so many streams keep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Retained {
    streams: usize,
    tuples: u64,
    /// Half of the looks found at most so many, and the most that was found.
    sns_p50: u64,
    sns_most: u64,
    bytes_most: u64,
}

/// A query of some seconds beside the streams.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct LongQuery {
    stored_triples: u64,
    /// What it counted, and what it had to.
    answer: u64,
    expected: u64,
    /// Statements that became visible while it ran.
    absorbed: u64,
    seconds_alone: f64,
    seconds_beside: f64,
    sns_most: u64,
    bytes_most: u64,
    without: Pace,
    beside: Pace,
}

/// How the streams went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Pace {
    tuples_per_second: f64,
    behind_ms: u64,
    /// The time that a batch's pushes and its advance took.
    batch_p50_ms: f64,
    batch_p99_ms: f64,
    /// Of the probe.
    delay_p50_ms: f64,
    delay_p99_ms: f64,
}

/// Measures, and prints as it goes.
pub(super) fn run(options: &Options) -> Result<Snapshots, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let stolen = Stolen::from_here();
    let mut by_streams = Vec::new();
    for streams in STREAMS {
        let retained = of_streams(&network, options, streams)?;
        println!(
            "{} streams: {} snapshot numbers retained, {} at most, {} KiB for snapshots at most, {} tuples",
            retained.streams,
            retained.sns_p50,
            retained.sns_most,
            retained.bytes_most >> 10,
            table::thousands(retained.tuples)
        );
        by_streams.push(retained);
    }
    let long = long_query(&network, options)?;
    Ok(Snapshots {
        machine: Machine::read(),
        rate: options.rate,
        by_streams,
        long,
        stolen_ms: stolen.ms(),
    })
}

/// What the counters said whenever they were looked at.
#[derive(Default)]
struct Looks {
    sns: Vec<u64>,
    bytes_most: u64,
}

impl Looks {
    fn until(over: &AtomicBool, engine: &Engine) -> Looks {
        let mut looks = Looks::default();
        while !over.load(Ordering::Acquire) {
            let metrics = engine.metrics();
            looks.sns.push(metrics.retained_sns);
            looks.bytes_most = looks.bytes_most.max(metrics.memory.snapshots_bytes);
            std::thread::sleep(LOOK);
        }
        looks.sns.sort_unstable();
        looks
    }

    fn most(&self) -> u64 {
        self.sns.last().copied().unwrap_or_default()
    }

    fn median(&self) -> u64 {
        self.sns
            .get(self.sns.len() / 2)
            .copied()
            .unwrap_or_default()
    }
}

/// Calls a function while the counters are looked at.
fn looking<T>(
    engine: &Engine,
    play: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Looks), Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| Looks::until(&over, engine));
        let played = play();
        over.store(true, Ordering::Release);
        let looks = looker.join();
        let looks = looks.map_err(|_| "the thread that looks has panicked")?;
        Ok((played?, looks))
    })
}

/// The network's statements dealt out to so many streams, all of which are absorbed.
fn of_streams(
    network: &SocialNetwork,
    options: &Options,
    streams: usize,
) -> Result<Retained, Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    let names: Vec<String> = (0..streams)
        .map(|number| format!("http://example.org/stream/{number}"))
        .collect();
    for name in &names {
        let text = format!(
            "CREATE STREAM <{name}> TIMELESS INTO GRAPH <{STORED_GRAPH}> BATCH {BATCH_MS}ms IDLE NEVER"
        );
        engine.create_stream(None, &text)?;
    }
    let until_ms = options.seconds.min(3) * 1000;
    let mut activity = network.activity();
    activity.past().for_each(drop);
    let dealt = activity.take_while(|streamed| streamed.at_ms < until_ms);
    let statements: Vec<LiveStatement> = (0..streams)
        .cycle()
        .zip(dealt)
        .map(|(stream, streamed)| LiveStatement {
            stream,
            at_ms: streamed.at_ms,
            triple: streamed.triple,
        })
        .collect();
    let plan = LivePlan {
        streams: names,
        batch_ms: BATCH_MS,
        from_ms: 0,
        until_ms,
        advances: true,
        paced: true,
    };
    let mut statements = statements.into_iter().peekable();
    let (progress, looks) = looking(&engine, || {
        Ok(live::play(&engine, &plan, &mut statements, &mut |_| true)?)
    })?;
    engine.shutdown()?;
    Ok(Retained {
        streams,
        tuples: progress.statements,
        sns_p50: looks.median(),
        sns_most: looks.most(),
        bytes_most: looks.bytes_most,
    })
}

/// A heavy query over what the streams are absorbed into: what else those like who like the posts of the first so many authors.
/// A hash of the texts of each pair, and a hash of that, so many deep, makes it take time rather than memory.
fn text(authors: u64, deep: u64) -> String {
    let texts = "CONCAT(STR(?post), STR(?other))".to_owned();
    let hash = (0..deep).fold(texts, |inner, _| format!("SHA512({inner})"));
    format!(
        "PREFIX sioc: <http://rdfs.org/sioc/ns#> PREFIX sib: <http://www.ins.cwi.nl/sib/vocabulary/> \
         SELECT (COUNT(*) AS ?rows) WHERE {{ \
         {{ SELECT DISTINCT ?author WHERE {{ ?author sioc:account_of ?person }} ORDER BY ?author LIMIT {authors} }} \
         ?author sioc:creator_of ?post . ?fan sib:like ?post . ?fan sib:like ?other \
         FILTER(STRLEN({hash}) > 0) }}"
    )
}

/// A limit that it does not meet.
const NO_LIMIT: Duration = Duration::from_secs(600);

fn ask(engine: &Engine, text: &str) -> Result<(u64, u64, Duration), Failure> {
    let options = QueryOptions {
        default_graphs: vec![NamedNode::new(STORED_GRAPH)?],
        timeout: Some(NO_LIMIT),
        ..QueryOptions::default()
    };
    let results = engine.query(text, &options)?;
    let mut cursor = results.answer.cursor();
    let row = cursor.next_row().ok_or("a count has no row")?;
    let cell = row.get(0).ok_or("a count has no value")?;
    Ok((cell.text.parse()?, results.sn, results.execution))
}

/// The text of a query that takes about so long.
fn taking(engine: &Engine, users: u64, wanted: Duration) -> Result<String, Failure> {
    let took = |authors, deep| -> Result<f64, Failure> {
        let (_, _, took) = ask(engine, &text(authors, deep))?;
        Ok(took.as_secs_f64().max(1e-6))
    };
    let mut authors = FIRST_AUTHORS.min(users);
    let mut seconds = took(authors, 1)?;
    while seconds < SCALABLE.as_secs_f64() && authors < users {
        authors = (authors * GROWTH).min(users);
        seconds = took(authors, 1)?;
    }
    let wanted = wanted.as_secs_f64();
    let of_so_many = (authors as f64 * wanted / seconds) as u64;
    if of_so_many <= users {
        return Ok(text(of_so_many.max(1), 1));
    }
    // All authors are not enough: these are to take their share of it, each pair for longer.
    let share = wanted * authors as f64 / users as f64;
    let mut deep = 1;
    for _ in 0..DEEPENED {
        if seconds >= share * CLOSE {
            break;
        }
        deep = (deep as f64 * share / seconds).ceil() as u64;
        seconds = took(authors, deep)?;
    }
    Ok(text(users, deep))
}

fn long_query(network: &SocialNetwork, options: &Options) -> Result<LongQuery, Failure> {
    let config = EngineConfig {
        limits: Limits {
            query_memory_bytes: 8 << 30,
            total_query_memory_bytes: 64 << 30,
            pin_time: NO_LIMIT,
            ..Limits::default()
        },
        ..configuration(options.workers)
    };
    let mut stage = Stage::open(network, config)?;
    let warm_up = stage.stretch(2_000, 1.0);
    stage.play(warm_up, true)?;
    let probe = &named(&stage, &[PROBE])[0];
    let reader = Reader::register(&stage.engine, probe.name, &probe.text)?;

    let seconds = options.seconds * 1000;
    let stretch = stage.stretch(seconds, 1.0);
    let (without, _) = pace(&stage, &reader, stretch, &|| true)?;

    let users = u64::from(stage.stored.users);
    let wanted = Duration::from_secs(options.heavy_seconds);
    let text = taking(&stage.engine, users, wanted)?;
    let (expected, sn, alone) = ask(&stage.engine, &text)?;
    println!(
        "a query of {:.1} s, {} rows counted at snapshot {sn}",
        alone.as_secs_f64(),
        table::thousands(expected)
    );
    let longest = (alone.as_secs_f64() * LONGER * 1e3) as i64 / BATCH_MS * BATCH_MS;
    let stretch = stage.stretch(longest.max(seconds), 1.0);
    let stored = stage.engine.metrics().stored_statements;
    let over = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let asked = ask(&stage.engine, &text);
            over.store(true, Ordering::Release);
            asked
        });
        // It has its snapshot before anything more becomes visible.
        while stage.engine.metrics().pins == 0 && !over.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let goes_on = || !over.load(Ordering::Acquire);
        let played = looking(&stage.engine, || {
            let paced = pace(&stage, &reader, stretch, &goes_on)?;
            Ok((paced, stage.engine.metrics().stored_statements))
        });
        let asked = asker.join();
        let asked = asked.map_err(|_| "the thread that asks has panicked")?;
        Ok::<_, Failure>((asked?, played?))
    })?;
    let ((answer, at, took), (((beside, _), stored_then), looks)) = asked;
    if at != sn {
        return Err(format!("the query ran at snapshot {at} instead of {sn}").into());
    }
    let long = LongQuery {
        stored_triples: stage.stored.triples,
        answer,
        expected,
        absorbed: stored_then - stored,
        seconds_alone: alone.as_secs_f64(),
        seconds_beside: took.as_secs_f64(),
        sns_most: looks.most(),
        bytes_most: looks.bytes_most,
        without,
        beside,
    };
    print_long(&long);
    stage.engine.shutdown()?;
    Ok(long)
}

/// Plays a stretch in real time as long as it is to go on, and says how that went.
fn pace(
    stage: &Stage<'_>,
    reader: &Reader,
    stretch: Stretch,
    goes_on: &dyn Fn() -> bool,
) -> Result<(Pace, LiveProgress), Failure> {
    let from_ms = stretch.from_ms;
    let mut batches: Vec<Duration> = Vec::new();
    let mut before = Duration::ZERO;
    let start = Instant::now();
    let mut elapsed = Duration::ZERO;
    let progress = stage.play_while(stretch, true, &mut |progress| {
        elapsed = start.elapsed();
        if progress.at_ms % BATCH_MS == 0 {
            batches.push(progress.in_engine - before);
            before = progress.in_engine;
        }
        goes_on() || progress.at_ms % BATCH_MS != 0
    })?;
    let mut delays = Vec::new();
    reader.read(|firing: Firing| {
        if firing.close_ms > from_ms {
            delays.push(firing.delay);
        }
    })?;
    batches.sort_unstable();
    delays.sort_unstable();
    let pace = Pace {
        tuples_per_second: progress.statements as f64 / elapsed.as_secs_f64(),
        behind_ms: progress.behind.as_millis() as u64,
        batch_p50_ms: quantile_ms(&batches, 50),
        batch_p99_ms: quantile_ms(&batches, 99),
        delay_p50_ms: quantile_ms(&delays, 50),
        delay_p99_ms: quantile_ms(&delays, 99),
    };
    Ok((pace, progress))
}

fn print_long(long: &LongQuery) {
    println!(
        "beside the streams {:.1} s, {} statements absorbed meanwhile: it counted {}, {}; {} snapshot numbers at most, {} KiB",
        long.seconds_beside,
        table::thousands(long.absorbed),
        table::thousands(long.answer),
        if long.answer == long.expected {
            "as before"
        } else {
            "WHICH IS WRONG"
        },
        long.sns_most,
        long.bytes_most >> 10
    );
    for (what, pace) in [("without it", &long.without), ("beside it", &long.beside)] {
        println!(
            "{what}: {} tuples/s, {} ms behind the clock; a batch p50 {:.2} ms, p99 {:.2} ms; {PROBE}'s delay p50 {:.2} ms, p99 {:.2} ms",
            table::thousands(pace.tuples_per_second as u64),
            pace.behind_ms,
            pace.batch_p50_ms,
            pace.batch_p99_ms,
            pace.delay_p50_ms,
            pace.delay_p99_ms
        );
    }
}

/// The targets that these figures are held to.
pub(super) fn rows(figures: Option<&Snapshots>) -> Vec<Row> {
    let most = |of: fn(&Retained) -> u64| {
        let of_each = figures.map(|figures| figures.by_streams.iter().map(of).max());
        of_each.flatten().map(|most| most as f64)
    };
    let long = figures.map(|figures| &figures.long);
    vec![
        at_most(
            "streams: snapshot numbers retained in steady state, 1 to 300 streams",
            2.0,
            most(|retained| retained.sns_p50),
            "",
        ),
        at_most(
            "streams: answers of a long one-shot query that are not its snapshot's",
            0.0,
            long.map(|long| f64::from(u8::from(long.answer != long.expected))),
            "answers",
        ),
        at_most(
            "streams: tuples/s without a long one-shot query, against beside it",
            1.02,
            long.map(|long| long.without.tuples_per_second / long.beside.tuples_per_second),
            "×",
        ),
    ]
}

/// The figures as tables.
pub(super) fn table(figures: &Snapshots, out: &mut String) {
    let kib = |bytes: u64| format!("{} KiB", table::thousands(bytes >> 10));
    let line = |row: &Retained| {
        [
            row.streams.to_string(),
            table::thousands(row.tuples),
            row.sns_p50.to_string(),
            row.sns_most.to_string(),
            kib(row.bytes_most),
        ]
    };
    let names = [
        "streams",
        "tuples",
        "snapshot numbers retained, p50",
        "at most",
        "memory of snapshots, at most",
    ];
    markdown::table(out, names, figures.by_streams.iter().map(line));
    let long = &figures.long;
    out.push_str(&format!(
        "\nA one-shot query of {:.1} s over {} stored triples, asked again while the streams are absorbed: {:.1} s, {} statements absorbed \
         meanwhile, {} rows counted, {} expected; {} snapshot numbers retained at most, {}.\n\n",
        long.seconds_alone,
        table::thousands(long.stored_triples),
        long.seconds_beside,
        table::thousands(long.absorbed),
        table::thousands(long.answer),
        table::thousands(long.expected),
        long.sns_most,
        kib(long.bytes_most)
    ));
    let names = [
        "",
        "tuples/s",
        "behind",
        "pushing a batch, p50",
        "p99",
        "L1's delay, p50",
        "p99",
    ];
    let line = |(what, pace): (&str, &Pace)| {
        [
            what.to_owned(),
            table::thousands(pace.tuples_per_second as u64),
            format!("{} ms", pace.behind_ms),
            time(pace.batch_p50_ms * 1e3),
            time(pace.batch_p99_ms * 1e3),
            time(pace.delay_p50_ms * 1e3),
            time(pace.delay_p99_ms * 1e3),
        ]
    };
    let lines = [("without it", &long.without), ("beside it", &long.beside)];
    markdown::table(out, names, lines.into_iter().map(line));
}

/// What the tables are of.
pub(super) fn heading_of(figures: &Snapshots) -> (&'static str, &Machine, String) {
    let words = format!(
        "{} tuples/s in real time, dealt out to the streams, all of it absorbed. Host steal {} ms.",
        table::thousands(figures.rate.into()),
        figures.stolen_ms
    );
    ("Streams: bounded snapshots", &figures.machine, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    #[test]
    fn a_long_query_answers_as_at_its_start() {
        let options = Options {
            rate: 20_000,
            heavy_seconds: 1,
            ..Options::smallest()
        };
        let network = network(50_000, options.rate);
        let long = long_query(&network, &options).unwrap();
        assert!(long.expected > 0 && long.absorbed > 0);
        assert_eq!(long.answer, long.expected);
        let figures = Snapshots {
            by_streams: vec![of_streams(&network, &options, 3).unwrap()],
            long,
            ..Snapshots::default()
        };
        assert!(figures.by_streams[0].tuples > 10_000);
        assert!(figures.by_streams[0].sns_p50 >= 1);
        let rows = rows(Some(&figures));
        assert!(rows.iter().all(|row| row.verdict != Verdict::NotMeasured));
        let mut text = String::new();
        table(&figures, &mut text);
        assert!(text.contains("| beside it |"), "{text}");
    }
}
