//! The driver: the sequencer thread that puts inputs in order, and the handle that others hold.
//!
//! admit → log → apply → cuts → inject → (applied by every shard, and the plan record durable) →
//! stable → firings to the pool. Before changing anything here: the sequencer blocks on nothing but
//! its channels and, for an update, on the snapshot that the update reads (S15).

mod push;

use crate::clock::Clock;
use crate::error::RuntimeError;
use crate::fabric::Fabric;
use crate::host::{Answered, Host, PinClock};
use crate::resolver::Resolver;
use crate::sequencer::{
    CLOCK_SLACK, Channels, DriverConfig, Request, Sequencer, Shared, Waker, Want,
};
use crate::sequencer::{Done, PendingInput, UpdateJob, UpdateResult};
use crossbeam_channel::{Sender, bounded, unbounded};
use parking_lot::Mutex;
use somersault_dictionary::Recent;
use somersault_log::{LoadSegment, Log, Position, Recovered};
use somersault_model::{Millis, QuadIds, QueryUid, Sn};
use somersault_store::Store;
use somersault_stream::{Coordinator, Input, NamePosition, QueryStatus, StreamStatus};
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The number of names that one turn looks at.
const NAMES_AT_ONCE: usize = 4096;

/// How much longer than its deadline a stop waits for the fabric to end.
const STOP_SLACK: Duration = Duration::from_secs(5);

/// Counters of the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStatus {
    /// The newest stable SN.
    pub stable: Sn,
    /// SNs that were cut and are not yet stable.
    pub unstable: u64,
    /// Firings that are due and not yet answered.
    pub outstanding: u64,
    /// Closes that are due and wait for their cut; only a jump in time leaves more than a few.
    pub closes_due: u64,
}

/// The parts of a driver.
pub struct DriverParts {
    /// Settings.
    pub config: DriverConfig,
    /// The store.
    pub store: Arc<Store>,
    /// The log.
    pub log: Arc<Log>,
    /// The records that the log held when it was opened.
    pub recovered: Option<Recovered>,
    /// The host, which keeps the queries.
    pub host: Arc<dyn Host>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// A handle to the sequencer; shared by all threads of the engine.
pub struct Driver {
    shared: Arc<Shared>,
    requests: Sender<Request>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Recently interned terms of the pushing threads: one entry for each thread that pushed at the
    /// same time as others.
    recent: Mutex<Vec<Recent>>,
}

impl Driver {
    /// Replays the log and starts the sequencer. `fabric` receives the function to call when shards
    /// have applied something.
    ///
    /// # Errors
    /// Errors of the log or the fabric, or a record that cannot be applied.
    pub fn start(
        parts: DriverParts,
        fabric: impl FnOnce(crate::OnApplied) -> Result<Box<dyn Fabric>, RuntimeError>,
    ) -> Result<Arc<Driver>, RuntimeError> {
        let (wake, woken) = bounded(1);
        let waker = Waker(wake);
        let (requests, inbox) = bounded(parts.config.inbox);
        let (fired, fired_inbox) = unbounded();
        let pin_clock = PinClock {
            started: Instant::now(),
            time: parts.config.pin_time,
        };
        let coordinator = Coordinator::new().with_limits(parts.config.limits);
        let shared = Arc::new(Shared {
            resolver: Resolver::new(Arc::clone(&parts.store), Arc::clone(&parts.log)),
            config: parts.config,
            store: parts.store,
            log: parts.log,
            coordinator: Mutex::new(coordinator),
            host: parts.host,
            clock: parts.clock,
            acks: Acks::new(),
            durable_at: Mutex::new(VecDeque::new()),
            pin_clock,
            failure: Mutex::new(None),
            aborted: AtomicBool::new(false),
            unstable: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
            newest_command: AtomicU64::new(0),
            behind: AtomicBool::new(false),
        });
        shared.host.attach(Answered(fired));
        let fabric = fabric({
            let waker = waker.clone();
            Arc::new(move || waker.wake())
        })?;
        observe_log(&shared, waker);
        let driver = Arc::new(Driver {
            shared: Arc::clone(&shared),
            requests,
            thread: Mutex::new(None),
            recent: Mutex::default(),
        });
        let channels = Channels {
            requests: inbox,
            fired: fired_inbox,
            woken,
        };
        let recovered = parts.recovered;
        let (ready, is_ready) = bounded(1);
        let thread = std::thread::Builder::new()
            .name("sequencer".to_owned())
            // This thread evaluates updates, and deeply nested patterns by recursion.
            .stack_size(16 << 20)
            .spawn(move || {
                let mut sequencer = Sequencer::new(Arc::clone(&shared), fabric, channels);
                let recovery = sequencer.recover(recovered);
                let goes_on = recovery.is_ok();
                let _ = ready.send(recovery);
                let run = AssertUnwindSafe(|| sequencer.run());
                if goes_on && catch_unwind(run).is_err() {
                    let error = RuntimeError::Internal("the sequencer panicked".to_owned());
                    shared.host.failed(&error);
                    shared.failure.lock().get_or_insert(error);
                }
            })
            .map_err(|error| RuntimeError::Internal(format!("no thread to be had: {error}")))?;
        *driver.thread.lock() = Some(thread);
        match is_ready.recv() {
            Ok(Ok(())) => Ok(driver),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(RuntimeError::Internal(
                "the sequencer ended while it replayed the log".to_owned(),
            )),
        }
    }

    /// Refuses an input that would change something in a read-only driver.
    fn check_writable(&self, input: &Input) -> Result<(), RuntimeError> {
        let changes_nothing = matches!(input, Input::Advance { to, .. } if to.is_empty());
        if self.shared.config.read_only && !changes_nothing {
            return Err(RuntimeError::ReadOnly);
        }
        Ok(())
    }

    fn ask<T>(
        &self,
        request: impl FnOnce(Sender<Result<T, RuntimeError>>) -> Request,
    ) -> Result<T, RuntimeError> {
        let (reply, answer) = bounded(1);
        self.requests
            .send(request(reply))
            .map_err(|_| RuntimeError::Stopped)?;
        answer.recv().map_err(|_| RuntimeError::Stopped)?
    }

    /// Takes an input and returns when its record is durable.
    ///
    /// # Errors
    /// The input is refused, or the log has failed.
    pub fn log_input(&self, input: Input) -> Result<Done, RuntimeError> {
        self.hand_in(input)?.wait()
    }

    /// Hands in an input, to be waited for later. The driver takes the inputs of one thread in the
    /// order in which the thread hands them in, so many of them can become durable together.
    ///
    /// # Errors
    /// The driver has stopped, or the log is only read.
    pub fn hand_in(&self, input: Input) -> Result<PendingInput, RuntimeError> {
        self.check_writable(&input)?;
        let (reply, answer) = bounded(1);
        let request = Request::Input {
            input: Box::new(input),
            want: Want::Durable,
            reply,
        };
        self.requests
            .send(request)
            .map_err(|_| RuntimeError::Stopped)?;
        Ok(PendingInput(answer))
    }

    /// Takes an input, cuts, and returns when that snapshot is stable.
    ///
    /// # Errors
    /// The input is refused, or the log or a shard has failed.
    pub fn apply_input(&self, input: Input) -> Result<Done, RuntimeError> {
        self.check_writable(&input)?;
        self.ask(|reply| Request::Input {
            input: Box::new(input),
            want: Want::Stable,
            reply,
        })
    }

    /// Takes a load segment, whose statements are passed by pointer. Returns when it is stable.
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn load(
        &self,
        segment: LoadSegment,
        statements: Arc<[QuadIds]>,
    ) -> Result<Done, RuntimeError> {
        self.shared.resolver.hand_over(&segment, statements);
        let received_ms = self.shared.clock.now_ms();
        let done = self.apply_input(Input::Load {
            received_ms,
            segment: segment.clone(),
        });
        self.shared.resolver.forget(&segment);
        done
    }

    /// Evaluates an update on the newest snapshot and makes its effects the next one (S15).
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn update(&self, job: UpdateJob) -> Result<UpdateResult, RuntimeError> {
        if self.shared.config.read_only {
            return Err(RuntimeError::ReadOnly);
        }
        self.ask(|reply| Request::Update { job, reply })
    }

    /// Waits until all due firings have been answered.
    ///
    /// # Errors
    /// [`RuntimeError::Timeout`], or the failure of the driver.
    pub fn quiesce(&self, timeout: Duration) -> Result<(), RuntimeError> {
        let (reply, answer) = bounded(1);
        self.requests
            .send(Request::Quiesce { reply })
            .map_err(|_| RuntimeError::Stopped)?;
        match answer.recv_timeout(timeout) {
            Ok(result) => result,
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => Err(RuntimeError::Timeout {
                what: "answering everything that is due",
                waited_ms: timeout.as_millis(),
            }),
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => Err(RuntimeError::Stopped),
        }
    }

    /// The failure that stopped the driver, if there is one.
    pub fn failure(&self) -> Option<RuntimeError> {
        self.shared.failure()
    }

    /// Counters.
    pub fn status(&self) -> DriverStatus {
        DriverStatus {
            stable: self.shared.store.snapshots().stable(),
            unstable: self.shared.unstable.load(Ordering::Relaxed),
            outstanding: self.shared.outstanding.load(Ordering::Relaxed),
            closes_due: match self.shared.behind.load(Ordering::Relaxed) {
                true => self.shared.coordinator.lock().closes_due(),
                false => 0,
            },
        }
    }

    /// Milliseconds on the clock by which pins expire.
    pub fn uptime_ms(&self) -> i64 {
        self.shared.pin_clock.now_ms()
    }

    /// The same as [`Driver::uptime_ms`], at a time that the caller has already read.
    pub fn uptime_ms_at(&self, at: Instant) -> i64 {
        self.shared.pin_clock.ms_at(at)
    }

    /// The time of reception for inputs, by the clock that the driver was given; milliseconds since
    /// the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// Reads the registry, and waits until the commands that made it are durable: what a list shows
    /// must survive a crash.
    fn listed<T>(&self, of: impl FnOnce(&Coordinator) -> T) -> T {
        let listed = of(&self.shared.coordinator.lock());
        let newest = Position(self.shared.newest_command.load(Ordering::Acquire));
        if newest > self.shared.log.durable()
            && let Err(error) = self.shared.log.wait_durable(newest)
        {
            // The engine's health reports the failure too, and takes no more commands.
            tracing::debug!("a list shows commands that are not durable: {error}");
        }
        listed
    }

    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamStatus> {
        self.listed(Coordinator::streams)
    }

    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        self.listed(|coordinator| coordinator.stream(iri))
    }

    /// Whether a stream, and those derived from it, have room for this many more statements.
    pub fn has_room(&self, iri: &str, statements: usize) -> bool {
        self.shared.coordinator.lock().has_room(iri, statements)
    }

    /// The ARRIVAL TIME streams whose time is far ahead of the clock, and by how much.
    pub fn ahead_of_clock(&self) -> Vec<(String, Millis)> {
        let clock = &self.shared.clock;
        let now_ms = clock.ticks().then(|| clock.now_ms());
        let coordinator = self.shared.coordinator.lock();
        now_ms.map_or_else(Vec::new, |now_ms| {
            coordinator.ahead_of_clock(now_ms, CLOCK_SLACK)
        })
    }

    /// All continuous queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        self.listed(Coordinator::queries)
    }

    /// The first `most` names of continuous queries after this one, ascending. The registry is
    /// locked for a portion of the names at a time.
    pub fn query_names(&self, after: Option<&str>, most: usize) -> Vec<String> {
        // A heap with the last name on top.
        let mut first: BinaryHeap<String> = BinaryHeap::new();
        let mut from = Some(NamePosition::default());
        while let Some(position) = from {
            let mut keep = |name: &str| {
                let is_full = first.len() >= most;
                let is_late = is_full && first.peek().is_none_or(|last| name >= last.as_str());
                if is_late || after.is_some_and(|after| name <= after) {
                    return;
                }
                if is_full {
                    first.pop();
                }
                first.push(name.to_owned());
            };
            from = self
                .listed(|coordinator| coordinator.names_from(position, NAMES_AT_ONCE, &mut keep));
        }
        first.into_sorted_vec()
    }

    /// How many continuous queries are registered.
    pub fn query_count(&self) -> usize {
        self.shared.coordinator.lock().query_count()
    }

    /// The cohort of the registered queries that have the shape of a text, and their number.
    pub fn group_of(&self, text: &str, namespace: Option<&str>) -> Option<(QueryUid, usize)> {
        self.shared.coordinator.lock().group_of(text, namespace)
    }

    /// All cohorts: the uid, the name of one member, and the number of members.
    pub fn firing_queries(&self) -> Vec<(QueryUid, String, usize)> {
        self.shared.coordinator.lock().firing_queries()
    }

    /// One continuous query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        self.listed(|coordinator| coordinator.query(name))
    }

    /// Accepts no more inputs, finishes what is due (for `deadline` at most), and ends the
    /// sequencer and the fabric.
    pub fn stop(&self, deadline: Duration) {
        let (reply, answer) = bounded(1);
        let stop = Request::Stop { deadline, reply };
        // A backlogged sequencer takes no requests, so neither the hand-over nor the answer is sure
        // to come in time.
        let has_stopped = self.requests.send_timeout(stop, deadline).is_ok()
            && answer.recv_timeout(deadline + STOP_SLACK).is_ok();
        if !has_stopped {
            self.shared.aborted.store(true, Ordering::SeqCst);
        }
        self.join();
    }

    /// Ends the sequencer at once, without finishing work under way.
    pub fn abort(&self) {
        self.shared.aborted.store(true, Ordering::SeqCst);
        // Wakes the sequencer if it waits; if the channel is full, it is awake.
        let (reply, _) = bounded(1);
        let _ = self.requests.try_send(Request::Stop {
            deadline: Duration::ZERO,
            reply,
        });
        self.join();
    }

    fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Answers acknowledgements and wakes the sequencer whenever a group is durable.
fn observe_log(shared: &Arc<Shared>, waker: Waker) {
    let weak = Arc::downgrade(shared);
    shared.log.on_durable(Box::new(move |durable| {
        if let Some(shared) = weak.upgrade() {
            shared
                .durable_at
                .lock()
                .push_back((durable, Instant::now()));
            shared.acks.settle(durable, shared.log.failed());
        }
        waker.wake();
    }));
}
