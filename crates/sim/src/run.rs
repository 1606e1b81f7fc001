//! Runs one seed: draws what happens next, does it to the engine and to the twin, and compares. All streams move together in rounds as
//! long as the smallest batch, so that what a firing sees of the stored graph is the same in every order of work.

use crate::draw::Draw;
use crate::expect::Registered;
use crate::scenario::{
    draw_query, draw_stream, draw_triple, query_text, statement, stream_iri, stream_text,
    triple_text,
};
use crate::twin::{History, StreamModel, Triple};
use somersault::oxrdf::Term;
use somersault::{
    Clock, Engine, EngineConfig, EngineError, FabricKind, Push, PushReceipt, QueryOptions,
    SubscribeOptions, Subscription, SubscriptionEvent, UpdateOptions,
};
use somersault_log::{CrashKeep, SimDisk};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The length of a round, and the smallest batch.
const ROUND_MS: i64 = 100;
/// Where event time begins.
const START_MS: i64 = 10_000;
/// Queries that are registered at most.
const QUERIES: usize = 6;
/// How long everything that is due may take once it has healed.
const SETTLE: Duration = Duration::from_secs(60);

/// A seed that failed, and where.
#[derive(Debug, thiserror::Error)]
#[error(
    "seed {seed}, step {step}: {what}\nagain: somersault-sim --seed {seed}\nlast steps:\n{history}"
)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// How many things had been done.
    pub step: usize,
    /// What was wrong.
    pub what: String,
    /// What had been done last.
    pub history: String,
}

/// What a seed did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// Statements pushed.
    pub statements: u64,
    /// Firings compared.
    pub firings: u64,
    /// Rows in them.
    pub rows: u64,
    /// Crashes.
    pub crashes: u64,
    /// Updates.
    pub updates: u64,
}

/// A bug that is planted in the twin, so that a run sees the engine as faulty: a checker is trusted once it has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// Windows miss the statements at their beginning.
    OpenOnTheLeft,
    /// An update is never sent, as if the engine had lost one that it acknowledged.
    LostUpdate,
    /// A firing is seen twice.
    RepeatedFiring,
}

/// Runs a seed for so many steps.
pub fn run(seed: u64, steps: usize) -> Result<Summary, Failure> {
    run_planted(seed, steps, None)
}

/// Runs a seed with a bug planted.
pub fn run_planted(seed: u64, steps: usize, plant: Option<Plant>) -> Result<Summary, Failure> {
    let mut simulation = Simulation::new(seed);
    simulation.plant = plant;
    simulation.history.left_open = plant == Some(Plant::OpenOnTheLeft);
    let outcome = simulation.live(steps);
    outcome
        .map(|()| simulation.summary)
        .map_err(|what| Failure {
            seed,
            step: simulation.done.len(),
            what,
            history: simulation
                .done
                .iter()
                .rev()
                .take(12)
                .rev()
                .map(|line| format!("  {line}\n"))
                .collect(),
        })
}

struct Simulation {
    draw: Draw,
    seed: u64,
    disk: SimDisk,
    engine: Option<Engine>,
    /// Whether the disk will crash by itself at one of the next syncs.
    crash_planned: bool,
    streams: Vec<StreamModel>,
    /// The next push of each stream.
    next_seq: Vec<u64>,
    /// Statements of timeless streams whose batch is still open.
    waiting: Vec<Vec<(i64, Triple)>>,
    queries: Vec<Registered>,
    history: History,
    plant: Option<Plant>,
    done: Vec<String>,
    summary: Summary,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let streams: Vec<StreamModel> = (0..1 + draw.below(3))
            .map(|_| draw_stream(&mut draw))
            .collect();
        Self {
            draw,
            seed,
            disk: SimDisk::new(),
            engine: None,
            crash_planned: false,
            next_seq: vec![0; streams.len()],
            waiting: vec![Vec::new(); streams.len()],
            history: History {
                fed: vec![Vec::new(); streams.len()],
                ..History::default()
            },
            streams,
            queries: Vec::new(),
            plant: None,
            done: Vec::new(),
            summary: Summary::default(),
        }
    }

    fn live(&mut self, steps: usize) -> Result<(), String> {
        self.engine = Some(self.open()?);
        for number in 0..self.streams.len() {
            let text = stream_text(number, &self.streams[number]);
            self.note(text.clone());
            self.insist(|engine| engine.create_stream(None, &text).map(|_| ()))?;
        }
        self.register()?;
        self.register()?;
        self.advance_to(START_MS)?;
        for _ in 0..steps {
            match self.draw.below(100) {
                0..=69 => self.round()?,
                70..=76 => {
                    let rounds = 1 + i64::from(self.draw.small(30));
                    self.advance_to(self.now_ms() + rounds * ROUND_MS)?;
                }
                77..=84 => self.update()?,
                85..=88 if self.queries.len() < QUERIES => self.register()?,
                89..=91 => self.push_too_late()?,
                92..=95 => self.crash()?,
                96..=97 => self.plan_crash(),
                _ => self.check_stored()?,
            }
            self.read_firings()?;
        }
        self.heal()
    }

    fn note(&mut self, what: String) {
        self.done.push(what);
    }

    fn now_ms(&self) -> i64 {
        self.history.time_ms.unwrap_or(START_MS)
    }

    fn open(&mut self) -> Result<Engine, String> {
        let config = EngineConfig {
            workers: 1 + u16::from(self.draw.small(4)),
            query_threads: 1,
            fabric: FabricKind::Simulated {
                seed: self.seed ^ self.summary.crashes,
            },
            clock: Clock::Manual,
            kept_firings: 1 << 16,
            ..EngineConfig::default()
        };
        Engine::open_on(config, Arc::new(self.disk.clone()))
            .map_err(|error| format!("the engine does not open: {error}"))
    }

    /// Does something until it is acknowledged: if the disk crashes meanwhile, the engine is restarted and asked again.
    fn insist<T>(&mut self, ask: impl Fn(&Engine) -> Result<T, EngineError>) -> Result<T, String> {
        loop {
            let engine = self.engine.as_ref().ok_or("there is no engine")?;
            match ask(engine) {
                Ok(given) => return Ok(given),
                Err(error) if self.crash_planned => {
                    self.note(format!("the planned crash came ({error})"));
                    self.restart(self.disk.restarted())?;
                }
                Err(error) => return Err(format!("refused: {error}")),
            }
        }
    }

    /// One round: pushes of the round's event times into each stream, then all streams advance together.
    fn round(&mut self) -> Result<(), String> {
        let from_ms = self.now_ms();
        for stream in 0..self.streams.len() {
            let mut times: Vec<i64> = (0..self.draw.below(5))
                .map(|_| {
                    // Often at the beginning of the round, where windows begin and end.
                    let on_boundary = self.draw.chance(25);
                    from_ms
                        + if on_boundary {
                            0
                        } else {
                            i64::from(self.draw.small(100))
                        }
                })
                .collect();
            times.sort_unstable();
            if times.is_empty() {
                continue;
            }
            let statements: Vec<(i64, Triple)> = times
                .iter()
                .map(|at_ms| (*at_ms, draw_triple(&mut self.draw)))
                .collect();
            let receipt = self.push(stream, &statements)?;
            if receipt.accepted + u64::from(receipt.repeated) == 0 {
                return Err(format!(
                    "a push was acknowledged but not taken: {receipt:?}"
                ));
            }
            if self.draw.chance(10) {
                let again = self.push(stream, &statements)?;
                if !again.repeated {
                    return Err(format!("a push was taken twice: {again:?}"));
                }
            }
            self.next_seq[stream] += 1;
            self.summary.statements += statements.len() as u64;
            if self.streams[stream].timeless {
                self.waiting[stream].extend(&statements);
            }
            self.history.fed[stream].extend(statements);
        }
        self.advance_to(from_ms + ROUND_MS)
    }

    fn push(&mut self, stream: usize, statements: &[(i64, Triple)]) -> Result<PushReceipt, String> {
        let seq = self.next_seq[stream];
        self.note(format!("push {seq} of stream {stream}: {statements:?}"));
        let push = Push {
            source: None,
            seq: Some(seq),
            statements: statements
                .iter()
                .map(|(at_ms, triple)| statement(*at_ms, *triple))
                .collect(),
        };
        self.insist(|engine| engine.push(&stream_iri(stream), push.clone()))
    }

    /// A push whose event time goes back is refused, and nothing of it is there afterwards.
    fn push_too_late(&mut self) -> Result<(), String> {
        let stream = usize::from(
            self.draw
                .small(u8::try_from(self.streams.len()).unwrap_or(1)),
        );
        let late = statement(self.now_ms() - 1, draw_triple(&mut self.draw));
        self.note(format!("a push to stream {stream} that is too late"));
        let push = Push {
            source: None,
            seq: None,
            statements: vec![late],
        };
        let engine = self.engine.as_ref().ok_or("there is no engine")?;
        match engine.push(&stream_iri(stream), push) {
            Ok(receipt) => Err(format!(
                "a statement that is too late was acknowledged: {receipt:?}"
            )),
            Err(_) => Ok(()),
        }
    }

    fn advance_to(&mut self, to_ms: i64) -> Result<(), String> {
        self.note(format!("advance all streams to {to_ms}"));
        let to: Vec<(String, i64)> = (0..self.streams.len())
            .map(|stream| (stream_iri(stream), to_ms))
            .collect();
        self.insist(|engine| engine.advance(&to).map(|_| ()))?;
        self.advance_twin(to_ms);
        Ok(())
    }

    /// What became due, close by close; a batch is absorbed when it ends.
    fn advance_twin(&mut self, to_ms: i64) {
        let Some(from_ms) = self.history.time_ms.replace(to_ms) else {
            // Before its first advance no stream had a time, so nothing up to here is due.
            return;
        };
        let mut close_ms = from_ms.div_euclid(ROUND_MS) * ROUND_MS + ROUND_MS;
        while close_ms <= to_ms {
            self.absorb(close_ms);
            for query in self
                .queries
                .iter_mut()
                .filter(|query| query.model.closes_at(close_ms))
            {
                query
                    .due
                    .insert(close_ms, query.model.answer(&self.history, close_ms));
            }
            close_ms += ROUND_MS;
        }
    }

    fn absorb(&mut self, time_ms: i64) {
        for (waiting, stream) in self.waiting.iter_mut().zip(&self.streams) {
            let closed_ms = time_ms.div_euclid(stream.batch_ms) * stream.batch_ms;
            let ready = waiting.partition_point(|(at_ms, _)| *at_ms < closed_ms);
            self.history
                .stored
                .extend(waiting.drain(..ready).map(|(_, triple)| triple));
        }
    }

    fn register(&mut self) -> Result<(), String> {
        let name = format!("q{}", self.queries.len());
        let model = draw_query(&mut self.draw, &self.streams);
        let text = query_text(&name, &model);
        self.note(text.clone());
        self.insist(|engine| engine.register(None, &text).map(|_| ()))?;
        self.queries.push(Registered {
            name,
            text,
            model,
            subscription: None,
            due: BTreeMap::new(),
            last_close_ms: None,
        });
        self.subscribe_all()
    }

    fn subscribe_all(&mut self) -> Result<(), String> {
        let engine = self.engine.as_ref().ok_or("there is no engine")?;
        for query in self
            .queries
            .iter_mut()
            .filter(|query| query.subscription.is_none())
        {
            let options = SubscribeOptions {
                after_ms: query.last_close_ms,
                empties: true,
                capacity: 1 << 16,
            };
            let subscription = engine
                .subscribe(&query.name, options)
                .map_err(|error| format!("{}: {error}", query.name))?;
            query.subscription = Some(subscription);
        }
        Ok(())
    }

    fn update(&mut self) -> Result<(), String> {
        let insert = self.draw.chance(60);
        let triple = draw_triple(&mut self.draw);
        let operation = if insert { "INSERT" } else { "DELETE" };
        let text = format!("{operation} DATA {{ {} }}", triple_text(triple));
        self.note(text.clone());
        if self.plant != Some(Plant::LostUpdate) {
            self.insist(|engine| engine.update(&text, &UpdateOptions::default()).map(|_| ()))?;
        }
        self.summary.updates += 1;
        if insert {
            self.history.stored.insert(triple);
        } else {
            self.history.stored.remove(&triple);
        }
        self.check_stored()
    }

    /// The stored graph is the twin's; an update without effect makes sure that everything closed has been absorbed.
    fn check_stored(&mut self) -> Result<(), String> {
        self.insist(|engine| {
            engine
                .update("INSERT DATA { }", &UpdateOptions::default())
                .map(|_| ())
        })?;
        let all = "SELECT ?s ?p ?o WHERE { ?s ?p ?o }";
        let results = self.insist(|engine| engine.query(all, &QueryOptions::default()))?;
        let found: BTreeSet<String> = results
            .answer
            .rows()
            .map(|row| {
                row.iter()
                    .flatten()
                    .map(Term::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        let expected: BTreeSet<String> = self
            .history
            .stored
            .iter()
            .map(|triple| triple_text(*triple))
            .collect();
        if found == expected {
            return Ok(());
        }
        let missing: Vec<&String> = expected.difference(&found).collect();
        let extra: Vec<&String> = found.difference(&expected).collect();
        Err(format!(
            "the stored graph differs: missing {missing:?}, extra {extra:?}"
        ))
    }

    fn crash(&mut self) -> Result<(), String> {
        let keep = self.draw_keep();
        self.note(format!("crash, the disk keeps {keep:?}"));
        let disk = self.disk.crash(keep);
        self.restart(disk)
    }

    fn plan_crash(&mut self) {
        let keep = self.draw_keep();
        let syncs = self.draw.below(12);
        self.note(format!(
            "a crash is planned after {syncs} syncs, the disk keeps {keep:?}"
        ));
        self.disk.crash_at_sync(syncs, keep);
        self.crash_planned = true;
    }

    fn draw_keep(&mut self) -> CrashKeep {
        match self.draw.below(3) {
            0 => CrashKeep::Synced,
            1 => CrashKeep::Written,
            _ => CrashKeep::Seeded(self.draw.below(u64::MAX)),
        }
    }

    fn restart(&mut self, disk: SimDisk) -> Result<(), String> {
        self.disk = disk;
        // The machine may have crashed before the newest plan was made, and that plan must not outlive the restart.
        self.disk.crash_at_sync(u64::MAX, CrashKeep::Written);
        self.crash_planned = false;
        self.summary.crashes += 1;
        for query in &mut self.queries {
            query.subscription = None;
        }
        self.engine = None;
        let engine = self.open()?;
        let (streams, queries) = (engine.streams().len(), engine.queries().len());
        self.engine = Some(engine);
        if queries < self.queries.len() {
            return Err(format!(
                "after the crash there are {streams} streams and {queries} queries"
            ));
        }
        self.subscribe_all()
    }

    /// Safety: what has come is right, and nothing came twice or out of order.
    fn read_firings(&mut self) -> Result<(), String> {
        for query in &mut self.queries {
            while let Some(event) = query.subscription.as_ref().and_then(Subscription::try_recv) {
                match event {
                    SubscriptionEvent::Firing(firing) => {
                        let rows = query.take(&firing)?;
                        if self.plant == Some(Plant::RepeatedFiring) {
                            query.take(&firing)?;
                        }
                        self.summary.firings += 1;
                        self.summary.rows += rows;
                    }
                    other => return Err(format!("{} lost firings: {other:?}", query.name)),
                }
            }
        }
        Ok(())
    }

    /// Liveness: with no more crashes, everything due is answered, the empty answers too: no jump in time is so long that closes
    /// are passed in bulk.
    fn heal(&mut self) -> Result<(), String> {
        self.note("no more crashes".to_owned());
        if self.crash_planned {
            let disk = self.disk.crash(CrashKeep::Synced);
            self.restart(disk)?;
        }
        self.round()?;
        self.insist(|engine| engine.quiesce(SETTLE))?;
        self.read_firings()?;
        for query in &self.queries {
            if let Some((close_ms, bag)) = query.due.first_key_value() {
                return Err(format!(
                    "{} never fired for {close_ms}, where {bag:?} is due:\n{}",
                    query.name, query.text
                ));
            }
        }
        self.check_stored()?;
        self.insist(Engine::check)?;
        self.insist(Engine::shutdown)
    }
}
