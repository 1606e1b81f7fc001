//! The speed at which five streams are absorbed that come as text, and the cost of a tuple from its
//! text to stable, by thread. No queries run.
//!
//! The text takes the way of a push over HTTP without HTTP: lines to ids, ids to the engine. Each
//! pushing thread has its own streams; one more thread advances each batch, so that pushing goes on
//! while a batch becomes stable.

use super::figures::{Absorption, AbsorptionRun, PUSHING, Stolen};
use super::stage::{BATCH_MS, Stage, Stretch, configuration, network, streams};
use super::threads::{Spent, own_spent};
use super::{Failure, StreamsOptions};
use crate::figures::table;
use crate::harness::affinity::OneCore;
use crate::harness::machine::Machine;
use somersault::{Engine, EventTime, PushLines, TimedLines};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The number of measurements of each way; the quickest counts.
const ROUNDS: usize = 2;
/// The number of batches by which the pushing threads may be ahead of the advancing thread.
const AHEAD: usize = 2;
/// Statements that one push may have.
const LIMIT: u64 = 1_000_000;
/// The most that is stored before; a log of more takes long to write and tells nothing else.
const MOST_STORED: u64 = 10_000_000;
/// The part of the streams that is absorbed before the measurement.
const WARM_UP_MS: i64 = 1_000;

/// A batch of all streams as text.
pub(crate) struct Batch {
    pub(crate) end_ms: i64,
    /// One text for each stream, by its index.
    pub(crate) texts: Vec<String>,
}

/// One way of taking the streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) log: bool,
    pub(crate) callers: usize,
    pub(crate) one_core: bool,
}

const WAYS: [Way; 5] = [
    Way {
        log: false,
        callers: 1,
        one_core: false,
    },
    Way {
        log: false,
        callers: 2,
        one_core: false,
    },
    Way {
        log: true,
        callers: 1,
        one_core: false,
    },
    Way {
        log: true,
        callers: 2,
        one_core: false,
    },
    Way {
        log: false,
        callers: 1,
        one_core: true,
    },
];

/// Measures, and prints the figures as they come.
pub(super) fn run(options: &StreamsOptions) -> Result<Absorption, Failure> {
    let network = network(options.stored.min(MOST_STORED), options.rate);
    let mut figures = Absorption {
        machine: Machine::read(),
        ..Absorption::default()
    };
    for log in [false, true] {
        let folder = options.data.join("absorption");
        let mut config = configuration(options.workers);
        if log {
            clear(&folder)?;
            config.data = Some(folder.clone());
        }
        let mut stage = Stage::open(&network, config)?;
        if !log {
            figures.stored = stage.stored.clone();
            decode(
                &texts(&stage.stretch(options.seconds * 1000, 1.0)),
                &mut figures,
            )?;
        }
        let warm_up = texts(&stage.stretch(WARM_UP_MS, 1.0));
        take(&stage.engine, &warm_up, WAYS[0])?;
        let ways = WAYS.into_iter().filter(|way| way.log == log);
        figures
            .runs
            .extend(quickest(&mut stage, options, ways.collect())?);
        stage.engine.shutdown()?;
        drop(stage);
        if log {
            clear(&folder)?;
        }
    }
    Ok(figures)
}

/// Each way some times, in turns, a new stretch each time; the quickest run of each.
fn quickest(
    stage: &mut Stage<'_>,
    options: &StreamsOptions,
    ways: Vec<Way>,
) -> Result<Vec<AbsorptionRun>, Failure> {
    let mut best: Vec<AbsorptionRun> = Vec::new();
    for _ in 0..ROUNDS {
        for (number, way) in ways.iter().enumerate() {
            let batches = texts(&stage.stretch(options.seconds * 1000, 1.0));
            let one_core = if way.one_core { OneCore::keep() } else { None };
            let run = take(&stage.engine, &batches, *way)?;
            drop(one_core);
            print_run(&run);
            match best.get_mut(number) {
                Some(best) if best.seconds <= run.seconds => {}
                Some(best) => *best = run,
                None => best.push(run),
            }
        }
    }
    Ok(best)
}

/// Removes a folder with all that is in it, if it is there.
pub(crate) fn clear(folder: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", folder.display()).into())
        }
        _ => Ok(()),
    }
}

/// The statements as lines `t_ms<TAB>triple .`, a text for each batch and stream.
pub(crate) fn texts(stretch: &Stretch) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut rest = stretch.statements.as_slice();
    let mut end_ms = stretch.from_ms;
    while end_ms < stretch.until_ms {
        end_ms += BATCH_MS;
        let (now, later) = rest.split_at(rest.partition_point(|one| one.at.0 < end_ms));
        let mut texts = vec![String::new(); streams().len()];
        for one in now {
            // Writing into a string does not fail.
            let _ = writeln!(texts[one.stream], "{}\t{} .", one.at.0, one.triple);
        }
        batches.push(Batch { end_ms, texts });
        rest = later;
    }
    batches
}

/// Text to statements and nothing else.
fn decode(batches: &[Batch], figures: &mut Absorption) -> Result<(), Failure> {
    let (mut bytes, mut tuples) = (0, 0);
    let mut best = Duration::MAX;
    for _ in 0..=ROUNDS {
        (bytes, tuples) = (0, 0);
        let before = own_spent();
        for text in batches.iter().flat_map(|batch| &batch.texts) {
            bytes += text.len();
            tuples += read(text.as_bytes())?.len();
        }
        best = best.min(own_spent() - before);
    }
    figures.bytes_per_tuple = bytes as f64 / tuples as f64;
    figures.decode_us_per_tuple = best.as_secs_f64() * 1e6 / tuples as f64;
    println!(
        "decoding alone: {:.2} µs a tuple of {:.0} bytes of text",
        figures.decode_us_per_tuple, figures.bytes_per_tuple
    );
    Ok(())
}

fn read(text: &[u8]) -> Result<TimedLines<'_>, Failure> {
    TimedLines::read(text, LIMIT).ok_or_else(|| "a line of the streams is not a plain one".into())
}

/// Takes all batches; returns when the last tuple is stable.
pub(crate) fn take(engine: &Engine, batches: &[Batch], way: Way) -> Result<AbsorptionRun, Failure> {
    let (streams, owners) = (&streams(), owners(batches, way.callers));
    let (stolen, before, start) = (Stolen::from_here(), Spent::now(), Instant::now());
    let (tuples, own) = std::thread::scope(|scope| -> Result<_, Failure> {
        let (sender, receiver) = sync_channel(AHEAD * way.callers);
        let advancer = named("advancer").spawn_scoped(scope, move || advance(engine, &receiver))?;
        let mut feeders = Vec::new();
        for own in &owners {
            let sender = sender.clone();
            let feed = move || feed(engine, batches, streams, own, &sender);
            feeders.push(named("feeder").spawn_scoped(scope, feed)?);
        }
        drop(sender);
        let (mut tuples, mut pushing) = (0, Duration::ZERO);
        for feeder in feeders {
            let (fed, spent) = join(feeder)?;
            tuples += fed;
            pushing += spent;
        }
        let advancing = join(advancer)?;
        let own = [
            (PUSHING.to_owned(), pushing),
            ("callers: advance".to_owned(), advancing),
        ];
        Ok((tuples, own))
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let us_per_tuple = (own.into_iter().chain(Spent::now().since(&before)))
        .map(|(name, spent)| (name, spent.as_secs_f64() * 1e6 / tuples as f64))
        .filter(|(_, us)| *us >= 0.005)
        .collect();
    Ok(AbsorptionRun {
        log: way.log,
        callers: way.callers,
        one_core: way.one_core,
        tuples,
        seconds,
        us_per_tuple,
        stolen_ms: stolen.ms(),
    })
}

fn named(name: &str) -> Builder {
    Builder::new().name(name.to_owned())
}

fn join<T>(thread: ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    let ended = thread.join();
    ended.unwrap_or_else(|_| Err("a thread of the bench panicked".into()))
}

/// The streams of each caller: the largest first, to the caller with the least.
fn owners(batches: &[Batch], callers: usize) -> Vec<Vec<usize>> {
    let bytes = |stream: usize| -> usize {
        let texts = batches.iter().map(|batch| batch.texts[stream].len());
        texts.sum()
    };
    let mut sizes: Vec<(usize, usize)> = (0..streams().len())
        .map(|stream| (bytes(stream), stream))
        .collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let mut owners = vec![(0, Vec::new()); callers];
    for (bytes, stream) in sizes {
        if let Some(least) = owners.iter_mut().min_by_key(|(total, _)| *total) {
            least.0 += bytes;
            least.1.push(stream);
        }
    }
    owners.into_iter().map(|(_, own)| own).collect()
}

/// Streams that are complete through a time.
type Complete = Vec<(String, i64)>;

/// Decodes and pushes its own streams, batch by batch; returns the number of tuples, and the
/// processor time.
fn feed(
    engine: &Engine,
    batches: &[Batch],
    streams: &[String],
    own: &[usize],
    complete: &SyncSender<Complete>,
) -> Result<(u64, Duration), Failure> {
    let mut tuples = 0;
    for batch in batches {
        for &stream in own {
            let push = PushLines {
                lines: batch.texts[stream].as_bytes(),
                ..PushLines::default()
            };
            tuples += engine.push_lines(&streams[stream], push)?.accepted;
        }
        let to = own.iter().map(|&own| (streams[own].clone(), batch.end_ms));
        let sent = complete.send(to.collect());
        sent.map_err(|_| "the thread that advances has ended")?;
    }
    Ok((tuples, own_spent()))
}

/// Advances streams as they are complete; returns the processor time.
fn advance(engine: &Engine, complete: &Receiver<Complete>) -> Result<Duration, Failure> {
    while let Ok(to) = complete.recv() {
        let to = to.iter().map(|(stream, ms)| (stream, EventTime(*ms)));
        engine.advance(to)?;
    }
    Ok(own_spent())
}

fn print_run(run: &AbsorptionRun) {
    let parts: Vec<String> = run
        .us_per_tuple
        .iter()
        .map(|(name, us)| format!("{name} {us:.2}"))
        .collect();
    println!(
        "{}: {} tuples/s, {:.2} µs of processor time a tuple ({}), stolen {} ms",
        way_in_words(run),
        table::thousands(run.tuples_per_second() as u64),
        run.all_us_per_tuple(),
        parts.join(", "),
        run.stolen_ms
    );
}

/// The way in which these tuples were absorbed.
pub(super) fn way_in_words(run: &AbsorptionRun) -> String {
    format!(
        "{} log, {} pushing, on {}",
        if run.log { "with" } else { "without" },
        match run.callers {
            1 => "one thread".to_owned(),
            callers => format!("{callers} threads"),
        },
        if run.one_core {
            "one core"
        } else {
            "all cores"
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_generate::{Parameters, Rates, SocialNetwork};

    #[test]
    fn text_is_taken_whole_however_many_push() {
        let network = SocialNetwork::new(Parameters {
            users: 100,
            rates: Rates::in_total(3_000),
            ..Parameters::default()
        });
        for callers in [1, 2] {
            let mut stage = Stage::open(&network, configuration(1)).unwrap();
            let stretch = stage.stretch(500, 1.0);
            let batches = texts(&stretch);
            assert_eq!(batches.len(), 5);
            let way = Way {
                log: false,
                callers,
                one_core: false,
            };
            let run = take(&stage.engine, &batches, way).unwrap();
            assert_eq!(run.tuples, stretch.statements.len() as u64);
            let through = stage.engine.streams().into_iter().map(|one| one.watermark);
            assert!(
                through
                    .into_iter()
                    .all(|through| through == Some(EventTime(500)))
            );
            assert!(run.all_us_per_tuple() > 0.0);
        }
    }
}
