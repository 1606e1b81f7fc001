//! The common setting of all parts: an engine with a social network stored in it, its five streams
//! declared, and statements to be played into them. Data is generated while it is loaded, and a
//! stretch of the streams before it is played, so the measurements contain neither.

use super::Failure;
use super::figures::Stored;
use super::measure::QUIESCE;
use crate::figures::table;
use crate::harness::machine::{available_bytes, peak_resident_bytes, resident_bytes};
use somersault::live::{self, LivePlan, LiveProgress, LiveStatement};
use somersault::oxrdf::{NamedNode, Quad};
use somersault::{CheckpointConfig, Engine, EngineConfig, EventTime};
use somersault_generate::{
    Activity, Parameters, Rates, STORED_GRAPH, SocialNetwork, StreamKind, Streamed,
};
use std::iter::Peekable;
use std::time::{Duration, Instant};

/// The batch of the streams, and the interval at which they advance, unless a part measures others.
pub(crate) const BATCH_MS: i64 = 100;

/// The number of triples for each user: half describe people, half their past.
const TRIPLES_PER_USER: u64 = 104;
/// Past at the paper's rate for each thousand users, in milliseconds.
const PAST_MS_PER_THOUSAND_USERS: i64 = 450;
/// Longer than any stretch.
const STREAMS_MS: i64 = 48 * 3_600_000;
/// The most memory seen for a stored triple while loading: ids in the order of their arrival, and
/// the image being built.
pub(crate) const BYTES_WHILE_LOADING: u64 = 110;
/// The budget for the slices of one stream: a minute of the fastest stream played.
const BUDGET_BYTES: u64 = 8 << 30;
/// The number of triples between two reports of progress.
const SAY_EVERY: u64 = 5_000_000;

/// A network that stores about this number of triples, and whose streams run at this rate.
pub(crate) fn network(stored: u64, rate: u32) -> SocialNetwork {
    let users = (stored / TRIPLES_PER_USER).max(100);
    network_of(u32::try_from(users).unwrap_or(u32::MAX), rate)
}

/// A network of a number of users with their past, and whose streams run at this rate.
pub(crate) fn network_of(users: u32, rate: u32) -> SocialNetwork {
    let paper = i64::from(Rates::PAPER.total());
    let past_ms = i64::from(users) * PAST_MS_PER_THOUSAND_USERS / 1000;
    SocialNetwork::new(Parameters {
        users,
        rates: Rates::in_total(rate),
        history_ms: past_ms * paper / i64::from(rate.max(1)),
        streams_ms: STREAMS_MS,
        ..Parameters::default()
    })
}

/// An engine in memory, with the requested number of injectors, two query threads, and limits that
/// no bench meets. With a data folder, it takes checkpoints only where it is told to.
pub(crate) fn configuration(workers: u16) -> EngineConfig {
    EngineConfig {
        workers,
        checkpoints: CheckpointConfig {
            recovery_target: Duration::MAX,
            log_bytes: u64::MAX,
            at_shutdown: Duration::ZERO,
        },
        ..EngineConfig::default()
    }
}

/// An engine with a network, and the state of its streams.
pub(crate) struct Stage<'n> {
    pub(crate) network: &'n SocialNetwork,
    pub(crate) engine: Engine,
    pub(crate) stored: Stored,
    batch_ms: i64,
    /// Whether the player advances the streams at the end of each batch.
    advances: bool,
    feed: Peekable<Activity<'n>>,
    /// The generator's time of the next statement.
    taken_ms: i64,
    next_ms: i64,
}

/// A stretch of all streams, in memory.
pub(crate) struct Stretch {
    pub(crate) from_ms: i64,
    pub(crate) until_ms: i64,
    pub(crate) statements: Vec<LiveStatement>,
}

impl Stretch {
    /// Moves the statements and milliseconds after the first `after_ms` into a second stretch.
    pub(crate) fn split_off(&mut self, after_ms: i64) -> Stretch {
        let from_ms = (self.from_ms + after_ms).min(self.until_ms);
        let first = self
            .statements
            .partition_point(|statement| statement.at.0 < from_ms);
        let rest = Stretch {
            from_ms,
            until_ms: self.until_ms,
            statements: self.statements.split_off(first),
        };
        self.until_ms = from_ms;
        rest
    }
}

impl<'n> Stage<'n> {
    /// Opens an engine and stores the network in it; its streams are declared and at time 0.
    pub(crate) fn open(
        network: &'n SocialNetwork,
        config: EngineConfig,
    ) -> Result<Stage<'n>, Failure> {
        Stage::with_batches(network, config, BATCH_MS)
    }

    /// The same with streams that have batches of this length.
    pub(crate) fn with_batches(
        network: &'n SocialNetwork,
        config: EngineConfig,
        batch_ms: i64,
    ) -> Result<Stage<'n>, Failure> {
        Stage::fill(&Engine::open(config)?, network, batch_ms)
    }

    /// Stores the network in an empty engine, and declares its streams.
    pub(crate) fn fill(
        engine: &Engine,
        network: &'n SocialNetwork,
        batch_ms: i64,
    ) -> Result<Stage<'n>, Failure> {
        let mut activity = network.activity();
        let stored = store(engine, network, &mut activity)?;
        declare(engine, batch_ms)?;
        Ok(Stage {
            network,
            engine: engine.clone(),
            stored,
            batch_ms,
            advances: true,
            feed: activity.peekable(),
            taken_ms: 0,
            next_ms: 0,
        })
    }

    /// Goes on with an engine that has the network and its streams, where they ended; they were
    /// played at the network's own rate.
    pub(crate) fn resume(
        engine: &Engine,
        network: &'n SocialNetwork,
        batch_ms: i64,
    ) -> Result<Stage<'n>, Failure> {
        let watermarks = engine.streams().into_iter().map(|stream| stream.watermark);
        let at = watermarks.max().flatten();
        let next_ms = at.ok_or("the engine has no streams that have a time")?.0;
        let mut feed = network.activity().peekable();
        while feed.next_if(|streamed| streamed.at_ms < next_ms).is_some() {}
        Ok(Stage {
            network,
            engine: engine.clone(),
            stored: Stored {
                users: network.parameters().users,
                triples: engine.health().stored_statements,
                ..Stored::default()
            },
            batch_ms,
            advances: true,
            feed,
            taken_ms: next_ms,
            next_ms,
        })
    }

    /// Declares the streams again, with batches of `batch_ms` milliseconds; no query may be
    /// registered. The streams keep their times.
    pub(crate) fn declare_again(&mut self, batch_ms: i64) -> Result<(), Failure> {
        for kind in StreamKind::ALL {
            self.engine.drop_stream(kind.iri())?;
        }
        declare(&self.engine, batch_ms)?;
        self.batch_ms = batch_ms;
        Ok(())
    }

    /// Declares the streams again so that none of their statements is absorbed; no query may be
    /// registered.
    pub(crate) fn let_statements_pass(&mut self) -> Result<(), Failure> {
        for kind in StreamKind::ALL {
            self.engine.drop_stream(kind.iri())?;
            create(&self.engine, &kind.passing_declaration(self.batch_ms))?;
        }
        Ok(())
    }

    /// From here on the streams' times advance with their statements alone, except at the end of a
    /// stretch: so only due closes and the engine's setting make statements visible.
    pub(crate) fn tell_time_by_statements(&mut self) {
        self.advances = false;
    }

    /// The batch of the streams.
    pub(crate) fn batch_ms(&self) -> i64 {
        self.batch_ms
    }

    /// The next stretch of this event time, at a multiple of the network's rate.
    pub(crate) fn stretch(&mut self, duration_ms: i64, times: f64) -> Stretch {
        let (taken_ms, next_ms) = (self.taken_ms, self.next_ms);
        self.taken_ms += (duration_ms as f64 * times) as i64;
        self.next_ms += duration_ms;
        let (end_ms, last_ms) = (self.taken_ms, self.next_ms - 1);
        let mut statements = Vec::new();
        let before_end = |streamed: &Streamed| streamed.at_ms < end_ms;
        while let Some(streamed) = self.feed.next_if(before_end) {
            let after_ms = ((streamed.at_ms - taken_ms) as f64 / times) as i64;
            statements.push(LiveStatement {
                stream: streamed.kind.index(),
                at: EventTime((next_ms + after_ms).min(last_ms)),
                triple: streamed.triple,
            });
        }
        Stretch {
            from_ms: next_ms,
            until_ms: self.next_ms,
            statements,
        }
    }

    /// The event time at which the next stretch begins.
    pub(crate) fn next_ms(&self) -> i64 {
        self.next_ms
    }

    /// Plays a stretch, in real time or as fast as possible.
    pub(crate) fn play(&self, stretch: Stretch, paced: bool) -> Result<LiveProgress, Failure> {
        self.play_while(stretch, paced, &mut |_| true)
    }

    /// The same, until `goes_on` returns false; it is called after each step.
    pub(crate) fn play_while(
        &self,
        stretch: Stretch,
        paced: bool,
        goes_on: &mut dyn FnMut(LiveProgress) -> bool,
    ) -> Result<LiveProgress, Failure> {
        let plan = LivePlan {
            advances: self.advances,
            ..plan(&stretch, self.batch_ms, paced)
        };
        play_as(&self.engine, stretch, &plan, goes_on)
    }
}

/// Declares the network's streams.
pub(crate) fn declare(engine: &Engine, batch_ms: i64) -> Result<(), Failure> {
    for kind in StreamKind::ALL {
        create(engine, &kind.declaration_by(batch_ms))?;
    }
    Ok(())
}

fn create(engine: &Engine, declaration: &str) -> Result<(), Failure> {
    engine.create_stream(None, &format!("{declaration} BUDGET {BUDGET_BYTES}"))?;
    Ok(())
}

/// See [`Stage::play`]; for streams with batches of [`BATCH_MS`].
pub(crate) fn play(
    engine: &Engine,
    stretch: Stretch,
    paced: bool,
) -> Result<LiveProgress, Failure> {
    let plan = plan(&stretch, BATCH_MS, paced);
    play_as(engine, stretch, &plan, &mut |_| true)
}

/// At its end everything that is due has been answered.
fn play_as(
    engine: &Engine,
    stretch: Stretch,
    plan: &LivePlan,
    goes_on: &mut dyn FnMut(LiveProgress) -> bool,
) -> Result<LiveProgress, Failure> {
    let mut statements = stretch.statements.into_iter().peekable();
    let progress = live::play(engine, plan, &mut statements, goes_on)?;
    // Returning hundreds of MiB to the system delays every thread that allocates, and with it the
    // last firings.
    engine.quiesce(QUIESCE)?;
    drop(statements);
    Ok(progress)
}

fn plan(stretch: &Stretch, batch_ms: i64, paced: bool) -> LivePlan {
    LivePlan {
        streams: streams(),
        batch_ms,
        from: EventTime(stretch.from_ms),
        until: EventTime(stretch.until_ms),
        advances: true,
        paced,
    }
}

/// The streams' IRIs, by their index.
pub(crate) fn streams() -> Vec<String> {
    StreamKind::ALL
        .iter()
        .map(|kind| kind.iri().to_owned())
        .collect()
}

/// Stores people and the past, and prints the progress.
fn store<'n>(
    engine: &Engine,
    network: &'n SocialNetwork,
    activity: &mut Activity<'n>,
) -> Result<Stored, Failure> {
    let parameters = network.parameters();
    let about = u64::from(parameters.users) * TRIPLES_PER_USER;
    let free = available_bytes();
    if free < about * BYTES_WHILE_LOADING {
        return Err(format!(
            "{} stored triples want {} GiB of memory while they are loaded, and {} GiB are free; take fewer (--stored)",
            table::thousands(about),
            (about * BYTES_WHILE_LOADING) >> 30,
            free >> 30
        )
        .into());
    }
    let graph = NamedNode::new(STORED_GRAPH)?;
    let start = Instant::now();
    let mut made = 0;
    let quads = network
        .people()
        .chain(activity.past())
        .map(|triple| -> Quad {
            made += 1;
            if made % SAY_EVERY == 0 {
                println!(
                    "  {} of about {} triples, {:.0} s, {} MiB resident",
                    table::thousands(made),
                    table::thousands(about),
                    start.elapsed().as_secs_f64(),
                    resident_bytes() >> 20
                );
            }
            triple.in_graph(graph.clone())
        });
    let summary = engine.load_quads(quads)?;
    let seconds = start.elapsed().as_secs_f64();
    let memory = engine.metrics().memory;
    let stored = Stored {
        users: parameters.users,
        triples: summary.stored,
        seconds,
        bytes: memory.store_bytes + memory.dictionary_bytes,
        peak_bytes: peak_resident_bytes(),
    };
    println!(
        "{} users, {} stored triples, made and loaded in {:.1} s, {:.0} bytes a triple, at most {} MiB resident",
        stored.users,
        table::thousands(stored.triples),
        stored.seconds,
        stored.bytes as f64 / stored.triples.max(1) as f64,
        stored.peak_bytes >> 20
    );
    Ok(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_stores_about_as_much_as_requested() {
        let network = network(200_000, 10_000);
        let stage = Stage::open(&network, configuration(1)).unwrap();
        let stored = stage.stored.triples;
        assert!((160_000..240_000).contains(&stored), "{stored}");
    }

    #[test]
    fn a_stretch_at_another_rate_has_as_many_more_statements_in_the_same_time() {
        let network = network(20_000, 10_000);
        let mut stage = Stage::open(&network, configuration(1)).unwrap();
        let slow = stage.stretch(1_000, 0.5);
        let mut quick = stage.stretch(1_000, 2.0);
        let ratio = quick.statements.len() as f64 / slow.statements.len() as f64;
        assert!((3.5..4.5).contains(&ratio), "{ratio}");
        assert_eq!(
            (slow.until_ms, quick.from_ms, quick.until_ms),
            (1_000, 1_000, 2_000)
        );
        let rest = quick.split_off(300);
        assert!(
            quick
                .statements
                .iter()
                .all(|one| (1_000..1_300).contains(&one.at.0))
        );
        assert!(
            rest.statements
                .iter()
                .all(|one| (1_300..2_000).contains(&one.at.0))
        );
        let all = slow.statements.len() + quick.statements.len() + rest.statements.len();
        let progress = [slow, quick, rest].map(|part| stage.play(part, false).unwrap().statements);
        assert_eq!(progress.iter().sum::<u64>(), all as u64);
    }
}
