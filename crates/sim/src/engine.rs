//! The engine under test on a disk that crashes: it is opened, sent requests and restarted. A
//! request is repeated until it is answered or refused. If a planned crash interrupts it, it is
//! sent again after the restart, as a client would do.

use crate::trace::{Trace, TraceEvent, hash_of};
use somersault::process_simulation::SimulatedProcess;
use somersault::{CheckpointConfig, Clock, DeltaMode, Engine, EngineConfig, EngineError, Limits};
use somersault_disk::{CrashKeep, SimDisk};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Only events cause cuts, never the clock: which stored statements a firing sees follows from the
/// scenario.
const NEVER: Duration = Duration::from_secs(3600);

/// The number of firings that an engine keeps: all of them, or only a few.
pub(crate) const ALL_FIRINGS: usize = 1 << 16;
const FEW: usize = 16;

/// The outcome of a request.
pub(crate) enum Asked<T> {
    /// It was acknowledged.
    Done(T),
    /// It was refused, for this reason.
    Refused(String),
}

/// An engine and its disk.
pub(crate) struct Subject {
    seed: u64,
    disk: SimDisk,
    engine: Option<Engine>,
    process: SimulatedProcess,
    /// Whether the disk will crash by itself at one of the next syncs or turns.
    crash_planned: bool,
    /// The turns until a planned crash.
    crash_at_turn: Arc<Mutex<Option<(u64, CrashKeep)>>>,
    trace: Trace,
    pub(crate) crashes: u64,
    /// The restarts that found a checkpoint.
    pub(crate) begun: u64,
    /// The turns of the engines before this one.
    turns_before: u64,
}

impl Subject {
    pub(crate) fn open(seed: u64, trace: &Trace) -> Result<Self, String> {
        let mut subject = Self {
            seed,
            disk: SimDisk::new(),
            engine: None,
            process: SimulatedProcess::new(seed),
            crash_planned: false,
            crash_at_turn: Arc::default(),
            trace: trace.clone(),
            crashes: 0,
            begun: 0,
            turns_before: 0,
        };
        let writes = trace.clone();
        subject.disk.observe_writes(move |bytes| {
            writes.note(TraceEvent::Write(bytes.len(), hash_of(bytes)));
        });
        subject.start()?;
        Ok(subject)
    }

    /// A process that writes its turns down, and crashes at one of them if that is planned.
    fn process(&self, seed: u64) -> SimulatedProcess {
        let process = SimulatedProcess::new(seed);
        let (trace, disk) = (self.trace.clone(), self.disk.clone());
        let planned = Arc::clone(&self.crash_at_turn);
        process.observe(move |turn| {
            trace.note(TraceEvent::Turn(*turn));
            let mut planned = planned.lock().unwrap_or_else(PoisonError::into_inner);
            match planned.take() {
                Some((0, keep)) => {
                    trace.note(TraceEvent::Crash);
                    disk.crash(keep);
                }
                Some((turns, keep)) => *planned = Some((turns - 1, keep)),
                None => {}
            }
        });
        process
    }

    /// Lets the process take this many turns, or fewer if nothing is left to do.
    pub(crate) fn take_turns(&self, turns: u64) {
        let mut left = turns;
        while left > 0 && self.process.take_turn() {
            left -= 1;
        }
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The turns that were taken, by all engines on this disk.
    pub(crate) fn turns(&self) -> u64 {
        self.turns_before + self.process.turns()
    }

    fn start(&mut self) -> Result<(), String> {
        let seed = self.seed ^ self.crashes;
        self.turns_before += self.process.turns();
        self.process = self.process(seed);
        let config = EngineConfig {
            workers: u16::try_from(1 + seed % 4).unwrap_or(1),
            query_threads: 1 + usize::from(seed.is_multiple_of(2)),
            process: Some(self.process.clone()),
            // Half of the seeds answer all one-shot queries on the pool.
            in_place_time: match self.seed % 16 < 8 {
                true => Duration::ZERO,
                false => NEVER,
            },
            clock: Clock::Manual,
            kept_firings: match self.keeps_all() {
                true => ALL_FIRINGS,
                false => FEW,
            },
            freshness: NEVER,
            limits: Limits {
                // In a fifth of them one input is on its way at a time.
                inflight_bytes: match self.seed.is_multiple_of(5) {
                    true => 1,
                    false => Limits::default().inflight_bytes,
                },
                ..Limits::default()
            },
            // A fifth of the seeds prepare nothing of open batches, the others one to four
            // statements at a time.
            portion: match usize::try_from(self.seed % 5) {
                Ok(0) | Err(_) => usize::MAX,
                Ok(portion) => portion,
            },
            // A quarter of the seeds take checkpoints by themselves, after some forty statements.
            checkpoints: match self.seed % 4 {
                1 => CheckpointConfig {
                    recovery_target: Duration::from_micros(100),
                    ..CheckpointConfig::default()
                },
                _ => CheckpointConfig::default(),
            },
            // One third of the seeds each. Where executions are timed, the times come from the
            // process's clock.
            delta: match self.seed % 3 {
                0 => DeltaMode::Always,
                1 => DeltaMode::Auto,
                _ => DeltaMode::Never,
            },
            ..EngineConfig::default()
        };
        let engine = Engine::open_on(config, Arc::new(self.disk.clone()))
            .map_err(|error| format!("the engine does not open: {error}"))?;
        self.engine = Some(engine);
        Ok(())
    }

    /// Whether it keeps all firings, so that a restart executes all of them again. Otherwise a
    /// restart executes those that a subscriber may not have received.
    pub(crate) fn keeps_all(&self) -> bool {
        !self.seed.is_multiple_of(4)
    }

    /// Whether queries have durable subscriptions whose answers reach their deadline.
    pub(crate) fn lets_answers_wait(&self) -> bool {
        self.seed % 3 == 1
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine
            .as_ref()
            .expect("an engine is open between steps")
    }

    /// Repeats a request until it is answered; calls `restarted` after each restart on the way.
    pub(crate) fn ask<T>(
        &mut self,
        request: impl Fn(&Engine) -> Result<T, EngineError>,
        mut restarted: impl FnMut(&Engine) -> Result<(), String>,
    ) -> Result<Asked<T>, String> {
        loop {
            match request(self.engine()) {
                Ok(given) => return Ok(Asked::Done(given)),
                Err(error) if is_refusal(&error) => return Ok(Asked::Refused(error.to_string())),
                Err(_) if self.crash_planned => {
                    self.restart(self.disk.restarted())?;
                    restarted(self.engine())?;
                }
                Err(error) => return Err(format!("failed: {error}")),
            }
        }
    }

    pub(crate) fn crash(&mut self, keep: CrashKeep) -> Result<(), String> {
        self.trace.note(TraceEvent::Crash);
        let disk = self.disk.crash(keep);
        self.restart(disk)
    }

    pub(crate) fn plan_crash(&mut self, syncs: u64, keep: CrashKeep) {
        self.disk.crash_at_sync(syncs, keep);
        self.crash_planned = true;
    }

    pub(crate) fn plan_crash_at_turn(&mut self, turns: u64, keep: CrashKeep) {
        *self.crash_turn() = Some((turns, keep));
        self.crash_planned = true;
    }

    fn crash_turn(&self) -> MutexGuard<'_, Option<(u64, CrashKeep)>> {
        let planned = self.crash_at_turn.lock();
        planned.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a planned crash may have happened, or may still happen.
    pub(crate) fn has_crash_planned(&self) -> bool {
        self.crash_planned
    }

    fn restart(&mut self, disk: SimDisk) -> Result<(), String> {
        self.disk = disk;
        // The machine may have crashed before the newest plan was made, and that plan must not
        // outlive the restart.
        self.disk.crash_at_sync(u64::MAX, CrashKeep::Written);
        *self.crash_turn() = None;
        self.crash_planned = false;
        self.crashes += 1;
        let names = self.disk.names();
        self.begun += u64::from(names.iter().any(|name| name.ends_with(".manifest")));
        self.engine = None;
        self.start()
    }
}

/// Whether the error is a refusal of the request, rather than a failure of the engine.
fn is_refusal(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Invalid(_)
            | EngineError::Late(_)
            | EngineError::NotFound(_)
            | EngineError::Conflict(_)
            | EngineError::NotSupported(_)
            | EngineError::Parse { .. }
            | EngineError::Limit { .. }
    )
}
