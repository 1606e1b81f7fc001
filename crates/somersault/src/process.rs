//! A simulated process: the driver, the log, the query pool and the shards of one engine, without a
//! thread. They take turns on the threads of the engine's callers, in an order that follows from a
//! seed.
//!
//! Before changing anything here: a run is a function of the seed and of the calls. Each choice
//! comes from the seed and each time from the process's own clock, never from the machine
//! (ADR 33).

use parking_lot::Mutex;
use somersault_log::Log;
use somersault_model::SeededRandom;
use somersault_pool::QueryPool;
use somersault_runtime::{Driver, Process};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Reading the clock advances it by less than this.
const MOST_MICROS: u64 = 1 << 9;
/// The weights from which a part's share of the turns is drawn. A part of weight 0 has a turn only
/// when the others have nothing to do.
const WEIGHTS: [u64; 4] = [0, 1, 4, 16];
/// The shares last for fewer turns than this.
const LONGEST_MOOD: u64 = 96;

/// A process without threads, for one engine; see the head of this file.
#[derive(Clone)]
pub struct SimulatedProcess(Arc<ProcessState>);

struct ProcessState {
    seed: u64,
    clock: Arc<Mutex<Elapsed>>,
    turns: Mutex<Turns>,
    parts: OnceLock<Parts>,
    driver: OnceLock<Weak<Driver>>,
    observer: OnceLock<Box<Observer>>,
}

type Observer = dyn Fn(&Turn) + Send + Sync;

struct Parts {
    log: Weak<Log>,
    pool: Weak<QueryPool>,
}

/// An idle log writes the next of its marks in one turn out of this many.
const MARKS: u64 = 8;

/// A part of the process that takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The driver: a step of the sequencer, of the shards, or the evaluation of an update.
    Driver,
    /// The log: a group becomes durable, or a mark is written.
    Log,
    /// The query pool: a job, chosen by this number.
    Pool(u64),
}

/// A turn that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its number, from 1.
    pub number: u64,
    /// Which part had it.
    pub part: Part,
    /// The position of the newest record in the log after it.
    pub appended: u64,
    /// The position through which the log is durable after it.
    pub durable: u64,
}

/// The state from which the next turn is drawn.
struct Turns {
    random: SeededRandom,
    taken: u64,
    /// The shares of driver, log and pool.
    weights: [u64; 3],
    /// The turns until other shares are drawn.
    left: u64,
}

impl Turns {
    /// Draws the parts in the order in which they are asked, with a job for the pool, and whether
    /// an idle log writes a mark.
    fn draw(&mut self) -> ([Part; 3], bool) {
        if self.left == 0 {
            self.left = 1 + self.random.below(LONGEST_MOOD);
            for weight in &mut self.weights {
                *weight = WEIGHTS[self.random.below(WEIGHTS.len() as u64) as usize];
            }
        }
        self.left -= 1;
        let mut parts = [
            (self.weights[0], Part::Driver),
            (self.weights[1], Part::Log),
            (self.weights[2], Part::Pool(self.random.draw())),
        ];
        let mut at = self
            .random
            .below(parts.iter().map(|(weight, _)| *weight).sum());
        let mut first = 0;
        while first < 2 && at >= parts[first].0 {
            at -= parts[first].0;
            first += 1;
        }
        parts.rotate_left(first);
        let marks = self.random.below(MARKS) == 0;
        (parts.map(|(_, part)| part), marks)
    }
}

/// The time that has passed in the process.
struct Elapsed {
    started: Instant,
    random: SeededRandom,
    elapsed: Duration,
    /// The time by the wall clock when nothing had passed.
    wall_ms: i64,
}

impl Elapsed {
    fn read(&mut self) -> Duration {
        self.elapsed += Duration::from_micros(self.random.below(MOST_MICROS));
        self.elapsed
    }
}

/// The clock of a simulated process.
struct ProcessClock {
    time: Arc<Mutex<Elapsed>>,
    ticks: bool,
}

impl somersault_runtime::Clock for ProcessClock {
    fn now_ms(&self) -> i64 {
        match self.ticks {
            true => {
                let mut time = self.time.lock();
                time.read().as_millis() as i64 + time.wall_ms
            }
            false => 0,
        }
    }

    fn ticks(&self) -> bool {
        self.ticks
    }

    fn instant(&self) -> Instant {
        let mut time = self.time.lock();
        let elapsed = time.read();
        time.started + elapsed
    }
}

impl SimulatedProcess {
    /// A process whose turns follow from `seed`.
    pub fn new(seed: u64) -> SimulatedProcess {
        let mut random = SeededRandom::new(seed);
        let clock = Elapsed {
            started: Instant::now(),
            random: SeededRandom::new(random.draw()),
            elapsed: Duration::ZERO,
            wall_ms: 0,
        };
        SimulatedProcess(Arc::new(ProcessState {
            seed,
            clock: Arc::new(Mutex::new(clock)),
            turns: Mutex::new(Turns {
                random,
                taken: 0,
                weights: [1; 3],
                left: 0,
            }),
            parts: OnceLock::new(),
            driver: OnceLock::new(),
            observer: OnceLock::new(),
        }))
    }

    /// Calls `observer` after each turn in which something was done. Only the first observer that
    /// is given is called.
    pub fn observe(&self, observer: impl Fn(&Turn) + Send + Sync + 'static) {
        // The first stays.
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Sets the wall clock, in milliseconds since the Unix epoch. Timers and limits do not follow
    /// it.
    pub fn set_wall_clock(&self, ms: i64) {
        let mut time = self.0.clock.lock();
        time.wall_ms = ms - time.elapsed.as_millis() as i64;
    }

    /// Gives one part its turn. Returns whether anything was done.
    pub fn take_turn(&self) -> bool {
        let driver = self.0.driver.get().and_then(Weak::upgrade);
        self.turn(&|| driver.as_ref().is_some_and(|driver| driver.turn()))
    }

    /// The number of turns that were taken.
    pub fn turns(&self) -> u64 {
        self.0.turns.lock().taken
    }

    /// The seed.
    pub(crate) fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The process's clock, which drives streams if it `ticks`.
    pub(crate) fn clock(&self, ticks: bool) -> Arc<dyn somersault_runtime::Clock> {
        Arc::new(ProcessClock {
            time: Arc::clone(&self.0.clock),
            ticks,
        })
    }

    /// Says which log and which pool take turns; `false` if there were others before.
    pub(crate) fn attach(&self, log: &Arc<Log>, pool: &Arc<QueryPool>) -> bool {
        let parts = Parts {
            log: Arc::downgrade(log),
            pool: Arc::downgrade(pool),
        };
        self.0.parts.set(parts).is_ok()
    }

    /// Says which driver takes turns.
    pub(crate) fn attach_driver(&self, driver: &Arc<Driver>) {
        // Only the engine whose log and pool it has attaches its driver.
        let _ = self.0.driver.set(Arc::downgrade(driver));
    }

    fn note(&self, part: Part, log: &Log) {
        let number = {
            let mut turns = self.0.turns.lock();
            turns.taken += 1;
            turns.taken
        };
        if let Some(observer) = self.0.observer.get() {
            observer(&Turn {
                number,
                part,
                appended: log.end().0,
                durable: log.durable().0,
            });
        }
    }
}

impl Process for SimulatedProcess {
    fn turn(&self, driver: &dyn Fn() -> bool) -> bool {
        let parts = self.0.parts.get();
        let parts = parts.and_then(|parts| parts.log.upgrade().zip(parts.pool.upgrade()));
        let Some((log, pool)) = parts else {
            return false;
        };
        let (drawn, marks) = self.0.turns.lock().draw();
        let may_commit = || marks || log.durable() < log.end();
        let done = drawn.into_iter().find(|part| match part {
            Part::Driver => driver(),
            Part::Log => may_commit() && log.commit(),
            Part::Pool(choice) => pool.run_one(*choice),
        });
        if let Some(part) = done {
            self.note(part, &log);
        }
        done.is_some()
    }
}
