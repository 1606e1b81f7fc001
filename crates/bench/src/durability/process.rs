//! The process that takes orders on its standard input and may be killed at any time: an engine,
//! the social network, its five streams and nine continuous queries.

use super::Failure;
use super::orders::{KeptState, Order, Playing, Reply, Told};
use crate::harness::machine::resident_bytes;
use crate::parties::ours::read_all;
use crate::streams::figures::quantile_ms;
use crate::streams::long_query::{self, NO_LIMIT};
use crate::streams::measure::QUIESCE;
use crate::streams::stage::{BATCH_MS, Stage, Stretch, configuration, network};
use clap::Args;
use somersault::oxrdf::NamedNode;
use somersault::{Engine, EngineConfig, Limits, QueryOptions};
use somersault_generate::{STORED_GRAPH, SocialNetwork};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The interval between looks at the resident memory.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Args, Clone, Debug)]
pub(crate) struct ProcessOptions {
    /// The data folder; without it, everything is in memory only
    #[arg(long)]
    pub(super) folder: Option<PathBuf>,
    /// Whether the engine takes checkpoints by itself
    #[arg(long)]
    pub(super) automatic: bool,
    /// About how many triples are stored before anything streams
    #[arg(long)]
    pub(super) stored: u64,
    /// Tuples per second of all five streams together
    #[arg(long)]
    pub(super) rate: u32,
    /// Shards
    #[arg(long)]
    pub(super) workers: u16,
}

/// Opens the engine and carries out orders until there are no more.
pub(crate) fn run(options: &ProcessOptions) -> Result<(), String> {
    let begun = Instant::now();
    let network = network(options.stored, options.rate);
    let made = begun.elapsed();
    let mut at_work = AtWork::open(&network, options).map_err(|error| error.to_string())?;
    say(&at_work.first(made).unwrap_or_else(failed))?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("no order can be read: {error}"))?;
        let order =
            serde_json::from_str(&line).map_err(|error| format!("{line} is no order: {error}"))?;
        say(&at_work.carry_out(&order).unwrap_or_else(failed))?;
    }
    Ok(())
}

fn failed(error: Failure) -> Reply {
    Reply::Failed(error.to_string())
}

fn say(reply: &Reply) -> Result<(), String> {
    let text = serde_json::to_string(reply).map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("the replies are not read: {error}"))
}

/// The engine, and the streams once they are ready to be played.
struct AtWork<'n> {
    network: &'n SocialNetwork,
    engine: Engine,
    stage: Option<Stage<'n>>,
    long_query: String,
}

impl<'n> AtWork<'n> {
    fn open(network: &'n SocialNetwork, options: &ProcessOptions) -> Result<AtWork<'n>, Failure> {
        let config = configuration(options.workers);
        let checkpoints = match options.automatic {
            true => EngineConfig::default().checkpoints,
            false => config.checkpoints,
        };
        let engine = Engine::open(EngineConfig {
            data: options.folder.clone(),
            checkpoints,
            limits: Limits {
                query_memory_bytes: 8 << 30,
                total_query_memory_bytes: 64 << 30,
                pin_time: NO_LIMIT,
                ..Limits::default()
            },
            ..config
        })?;
        Ok(AtWork {
            network,
            engine,
            stage: None,
            long_query: String::new(),
        })
    }

    /// The first one-shot query of an engine that was used before; `made` is the time that the
    /// network took before the engine was opened.
    fn first(&self, made: Duration) -> Result<Reply, Failure> {
        if self.engine.streams().is_empty() {
            return Ok(Reply::Done);
        }
        let queries = self.network.one_shot_queries();
        let first = queries.first().ok_or("there are no one-shot queries")?;
        Ok(Reply::Answered {
            rows: rows(&self.engine, &first.text)?,
            made_s: made.as_secs_f64(),
        })
    }

    fn carry_out(&mut self, order: &Order) -> Result<Reply, Failure> {
        match *order {
            Order::Begin { passing } => {
                let stage = Stage::fill(&self.engine, self.network, BATCH_MS)?;
                let stage = self.stage.insert(stage);
                if passing {
                    stage.let_statements_pass()?;
                }
                for query in self.network.continuous_queries() {
                    self.engine.register(Some(query.name), &query.text)?;
                }
            }
            Order::Resume => {
                self.stage = Some(Stage::resume(&self.engine, self.network, BATCH_MS)?);
            }
            Order::Play { ms, paced, beside } => {
                let stage = self.stage.as_mut().ok_or("no streams are ready")?;
                let stretch = stage.stretch(ms, 1.0);
                let long_query = beside.then_some(self.long_query.as_str());
                return Ok(Reply::Played(play(stage, stretch, paced, long_query)?));
            }
            Order::Checkpoint => {
                let taken = self.engine.checkpoint()?;
                println!(
                    "checkpoint {}: {} MB in {:.2} s",
                    taken.number,
                    taken.bytes / 1_000_000,
                    taken.seconds
                );
            }
            Order::FindLongQuery { seconds } => {
                let stage = self.stage.as_ref().ok_or("no streams are ready")?;
                let users = u64::from(stage.network.parameters().users);
                let wanted = Duration::from_secs(seconds);
                self.long_query = long_query::taking(&self.engine, users, wanted)?;
            }
            Order::Tell => return Ok(Reply::Told(Box::new(self.tell()?))),
        }
        Ok(Reply::Done)
    }

    fn tell(&self) -> Result<Told, Failure> {
        self.engine.quiesce(QUIESCE)?;
        let mut state = KeptState {
            stored: self.engine.health().stored_statements,
            ..KeptState::default()
        };
        for query in self.network.one_shot_queries() {
            state.rows.push(rows(&self.engine, &query.text)?);
        }
        for stream in self.engine.streams() {
            let watermark = stream.watermark.map(|at| at.0);
            state.streams.push((stream.tuples, watermark));
        }
        for query in self.engine.queries() {
            let close = query.last_close.map(|at| at.0);
            state.closes.push((query.name, close));
        }
        let checkpoints = self.engine.metrics().checkpoints;
        let estimate = checkpoints.map(|status| status.restart.total().as_secs_f64());
        Ok(Told {
            state,
            estimate_s: estimate,
            resident_bytes: resident_bytes(),
        })
    }
}

/// The rows of a one-shot query over what is stored.
fn rows(engine: &Engine, text: &str) -> Result<u64, Failure> {
    let options = &QueryOptions {
        default_graphs: vec![NamedNode::new(STORED_GRAPH)?],
        ..QueryOptions::default()
    };
    let results = engine.query(text).options(options).run()?;
    Ok(read_all(&results.answer))
}

fn play(
    stage: &Stage<'_>,
    stretch: Stretch,
    paced: bool,
    long_query: Option<&str>,
) -> Result<Playing, Failure> {
    let over = AtomicBool::new(false);
    let most = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                most.fetch_max(resident_bytes(), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        let played = match long_query {
            None => batches(stage, stretch, paced).map(|played| (played, None)),
            Some(text) => long_query::beside(&stage.engine, text, None, |_| {
                batches(stage, stretch, paced)
            })
            .map(|(asked, played)| (played, asked.ok())),
        };
        over.store(true, Ordering::Release);
        let (mut playing, asked) = played?;
        playing.resident_bytes = most.load(Ordering::Relaxed);
        playing.query_seconds = asked.map(|asked| asked.took.as_secs_f64());
        Ok(playing)
    })
}

/// Plays a stretch, and times its batches.
fn batches(stage: &Stage<'_>, stretch: Stretch, paced: bool) -> Result<Playing, Failure> {
    let mut times: Vec<Duration> = Vec::new();
    let mut before = Duration::ZERO;
    let progress = stage.play_while(stretch, paced, &mut |progress| {
        if progress.at.0 % BATCH_MS == 0 {
            times.push(progress.in_engine - before);
            before = progress.in_engine;
        }
        true
    })?;
    times.sort_unstable();
    Ok(Playing {
        statements: progress.statements,
        behind_ms: progress.behind.as_millis() as u64,
        batch_p50_ms: quantile_ms(&times, 50),
        batch_p99_ms: quantile_ms(&times, 99),
        ..Playing::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restarted_process_has_the_state_of_before_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let options = ProcessOptions {
            folder: Some(folder.path().to_owned()),
            automatic: false,
            stored: 20_000,
            rate: 2_000,
            workers: 1,
        };
        let network = network(options.stored, options.rate);
        let told = |at_work: &AtWork<'_>| at_work.tell().unwrap().state;
        let second = Order::Play {
            ms: 1_000,
            paced: false,
            beside: false,
        };
        let mut first = AtWork::open(&network, &options).unwrap();
        assert_eq!(first.first(Duration::ZERO).unwrap(), Reply::Done);
        first.carry_out(&Order::Begin { passing: false }).unwrap();
        first.carry_out(&second).unwrap();
        let before = told(&first);
        assert_eq!((before.closes.len(), before.streams.len()), (9, 5));
        assert!(before.closes.iter().all(|(_, close)| *close == Some(1_000)));
        first.engine.shutdown().unwrap();
        drop(first);
        let mut again = AtWork::open(&network, &options).unwrap();
        let rows = before.rows[0];
        let answered = Reply::Answered { rows, made_s: 0.0 };
        assert_eq!(again.first(Duration::ZERO).unwrap(), answered);
        assert_eq!(told(&again), before);
        assert!(again.carry_out(&second).is_err(), "nothing is ready yet");
        again.carry_out(&Order::Resume).unwrap();
        again.carry_out(&second).unwrap();
        let after = told(&again);
        assert!(after.closes.iter().all(|(_, close)| *close == Some(2_000)));
        assert!(after.stored > before.stored);
        again.engine.shutdown().unwrap();
    }
}
