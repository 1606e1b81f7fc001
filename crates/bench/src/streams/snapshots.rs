//! Bounded snapshots: how many snapshot numbers are retained, and their memory, while 1 to 300
//! streams are absorbed; and a one-shot query of half a minute beside five streams
//! ([`super::long_query`]).

use super::figures::Stolen;
use super::long_query::{self, LongQuery};
use super::stage::{BATCH_MS, configuration, network};
use super::{Failure, StreamsOptions};
use crate::figures::table;
use crate::harness::machine::Machine;
use crate::harness::markdown;
use crate::harness::target::{Row, at_most};
use serde::{Deserialize, Serialize};
use somersault::live::{self, LivePlan, LiveStatement};
use somersault::{Engine, EventTime};
use somersault_generate::{STORED_GRAPH, SocialNetwork};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The numbers of streams that share the rate.
const STREAMS: [usize; 4] = [1, 5, 50, 300];
/// The interval between looks at the counters.
const LOOK: Duration = Duration::from_millis(3);
/// The most triples stored.
const MOST_STORED: u64 = 1_000_000;
/// The figures of bounded snapshots.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshots {
    machine: Machine,
    rate: u32,
    by_streams: Vec<Retained>,
    long: LongQuery,
    stolen_ms: u64,
}

/// The snapshots that a number of streams retains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Retained {
    streams: usize,
    tuples: u64,
    /// The median and the maximum over all looks.
    sns_p50: u64,
    sns_most: u64,
    bytes_most: u64,
}

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Snapshots, Failure> {
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
    let long = long_query::measure(&network, options)?;
    Ok(Snapshots {
        machine: Machine::read(),
        rate: options.rate,
        by_streams,
        long,
        stolen_ms: stolen.ms(),
    })
}

/// The counters at each look.
#[derive(Default)]
pub(crate) struct Looks {
    sns: Vec<u64>,
    pub(crate) bytes_most: u64,
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

    pub(crate) fn most(&self) -> u64 {
        self.sns.last().copied().unwrap_or_default()
    }

    fn median(&self) -> u64 {
        self.sns
            .get(self.sns.len() / 2)
            .copied()
            .unwrap_or_default()
    }
}

/// Calls a function, and reads the counters meanwhile.
pub(crate) fn looking<T>(
    engine: &Engine,
    play: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Looks), Failure> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| Looks::until(&over, engine));
        let played = play();
        over.store(true, Ordering::Release);
        let looks = looker.join();
        let looks = looks.map_err(|_| "the thread that reads the counters has panicked")?;
        Ok((played?, looks))
    })
}

/// An engine with this many streams that are all absorbed, and their names.
pub(crate) fn absorbing(workers: u16, streams: usize) -> Result<(Engine, Vec<String>), Failure> {
    let engine = Engine::open(configuration(workers))?;
    let names: Vec<String> = (0..streams)
        .map(|number| format!("http://example.org/stream/{number}"))
        .collect();
    for name in &names {
        let text = format!(
            "CREATE STREAM <{name}> TIMELESS INTO GRAPH <{STORED_GRAPH}> BATCH {BATCH_MS}ms IDLE NEVER"
        );
        engine.create_stream(None, &text)?;
    }
    Ok((engine, names))
}

/// The network's statements, dealt out to a number of streams that are all absorbed.
fn of_streams(
    network: &SocialNetwork,
    options: &StreamsOptions,
    streams: usize,
) -> Result<Retained, Failure> {
    let (engine, names) = absorbing(options.workers, streams)?;
    let until_ms = options.seconds.min(3) * 1000;
    let mut activity = network.activity();
    activity.past().for_each(drop);
    let dealt = activity.take_while(|streamed| streamed.at_ms < until_ms);
    let statements: Vec<LiveStatement> = (0..streams)
        .cycle()
        .zip(dealt)
        .map(|(stream, streamed)| LiveStatement {
            stream,
            at: EventTime(streamed.at_ms),
            triple: streamed.triple,
        })
        .collect();
    let plan = LivePlan {
        streams: names,
        batch_ms: BATCH_MS,
        from: EventTime(0),
        until: EventTime(until_ms),
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

/// The targets that these figures are held to.
pub(super) fn rows(figures: Option<&Snapshots>) -> Vec<Row> {
    let most = |of: fn(&Retained) -> u64| {
        let of_each = figures.map(|figures| figures.by_streams.iter().map(of).max());
        of_each.flatten().map(|most| most as f64)
    };
    let mut rows = vec![at_most(
        "streams: snapshot numbers retained in steady state, 1 to 300 streams",
        2.0,
        most(|retained| retained.sns_p50),
        "",
    )];
    rows.extend(long_query::rows(figures.map(|figures| &figures.long)));
    rows
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
    long_query::table(&figures.long, out);
}

/// The heading of the tables.
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
    use crate::harness::target::Verdict;

    #[test]
    fn few_snapshot_numbers_are_retained_whatever_the_number_of_streams() {
        let options = StreamsOptions {
            rate: 20_000,
            ..StreamsOptions::smallest()
        };
        let network = network(50_000, options.rate);
        let figures = Snapshots {
            by_streams: [3, 50]
                .map(|streams| of_streams(&network, &options, streams).unwrap())
                .into(),
            ..Snapshots::default()
        };
        for retained in &figures.by_streams {
            assert!(retained.tuples > 10_000);
            assert!((1..=2).contains(&retained.sns_p50), "{retained:?}");
        }
        assert_eq!(rows(Some(&figures))[0].verdict, Verdict::Holds);
        let mut text = String::new();
        table(&figures, &mut text);
        assert!(text.contains("| 50 |"), "{text}");
    }
}
