//! The fabric on timely dataflow: one worker thread per shard, and one injection dataflow, built at
//! start, whose timestamp is the SN. Streams, loads and updates are data in it, so its size does
//! not grow with them. Before changing anything here: operators only move work to the shards, a
//! bounded amount per activation; workers park, and every hand-over must unpark the one that it is
//! for.
//!
//! Work is handed over by pointer and cannot leave the process; the cluster's exchange will need a
//! container of its own.

use super::{AheadWork, Apply, Fabric, FabricError, MOST_PORTIONS, OnApplied, ShardWork};
use ::timely::communication::WorkerGuards;
use ::timely::dataflow::Scope;
use ::timely::dataflow::channels::pact::Exchange;
use ::timely::dataflow::operators::Capability;
use ::timely::dataflow::operators::Probe;
use ::timely::dataflow::operators::generic::operator::{Operator, source};
use ::timely::dataflow::operators::probe::Handle as ProbeHandle;
use ::timely::scheduling::SyncActivator;
use ::timely::worker::Worker;
use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use somersault_model::{ShardId, Sn};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How many hand-overs the source takes, and how many items an injector applies, per activation.
const PER_ACTIVATION: usize = 64;

/// A hand-over from the driver to the source operator.
enum Hand {
    Work(Sn, ShardId, ShardWork),
    Ahead(ShardId, AheadWork),
    Seal(Sn),
}

/// One shard's work on its way through the exchange.
struct Parcel {
    shard: ShardId,
    work: ParcelWork,
}

/// The work of a parcel: that of the SN that is its time, or ahead of that SN or a later one.
enum ParcelWork {
    Work(ShardWork),
    Ahead(AheadWork),
}

impl Serialize for Parcel {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("work never leaves its process"))
    }
}

impl<'de> Deserialize<'de> for Parcel {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom("work never leaves its process"))
    }
}

/// The state that the driver's side and the workers share.
struct Generation {
    /// The frontier of the injection dataflow: all SNs below are applied by every shard.
    frontier: AtomicU64,
    ended: AtomicBool,
    /// The number of items of work ahead that are not done.
    ahead: AtomicUsize,
    /// The number of requested rounds of tidying; each worker tidies up when the number has
    /// changed.
    tidy_rounds: AtomicU64,
    failure: Mutex<Option<FabricError>>,
    threads: Mutex<Vec<Thread>>,
    on_applied: OnApplied,
}

impl Generation {
    /// Ends the generation: every worker leaves its loop.
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for thread in self.threads.lock().iter() {
            thread.unpark();
        }
    }

    fn fail(&self, shard: ShardId, payload: &(dyn Any + Send)) {
        let error = FabricError::of_panic(shard, payload);
        self.failure.lock().get_or_insert(error);
        self.end();
        (self.on_applied)();
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Does the work of a parcel of this time.
    fn deliver(&self, apply: &dyn Apply, time: u64, parcel: Parcel) {
        let shard = parcel.shard;
        match parcel.work {
            ParcelWork::Work(work) => apply.apply(shard, Sn(time), work),
            ParcelWork::Ahead(work) => {
                apply.prepare(shard, work);
                self.ahead.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// The fabric on timely dataflow, with one worker thread per shard.
pub struct TimelyFabric {
    shards: u16,
    hands: Sender<Hand>,
    activator: SyncActivator,
    shared: Arc<Generation>,
    guards: Option<WorkerGuards<()>>,
}

impl TimelyFabric {
    /// Starts one worker per shard; the shards have applied everything up to `from`.
    ///
    /// # Errors
    /// [`FabricError::Start`] if the threads cannot be started.
    pub fn start(
        shards: u16,
        from: Sn,
        apply: Arc<dyn Apply>,
        on_applied: OnApplied,
    ) -> Result<TimelyFabric, FabricError> {
        let shards = shards.max(1);
        let shared = Arc::new(Generation {
            frontier: AtomicU64::new(from.next().0),
            ended: AtomicBool::new(false),
            ahead: AtomicUsize::new(0),
            tidy_rounds: AtomicU64::new(0),
            failure: Mutex::new(None),
            threads: Mutex::new(Vec::new()),
            on_applied,
        });
        let (hands, receiver) = unbounded();
        let (ready, is_ready) = bounded(1);
        let worker_shared = Arc::clone(&shared);
        let config = ::timely::Config::process(usize::from(shards));
        let guards = ::timely::execute(config, move |worker| {
            let shared = Arc::clone(&worker_shared);
            shared.threads.lock().push(std::thread::current());
            let shard = ShardId(worker.index() as u16);
            let run = AssertUnwindSafe(|| {
                let probe = build(worker, from, &receiver, &ready, &apply, &shared);
                run_worker(worker, &probe, &apply, &shared);
            });
            if let Err(payload) = catch_unwind(run) {
                shared.fail(shard, payload.as_ref());
            }
            for dataflow in worker.installed_dataflows() {
                worker.drop_dataflow(dataflow);
            }
        })
        .map_err(FabricError::Start)?;
        let activator = is_ready
            .recv()
            .map_err(|_| FabricError::Start("the first worker ended at once".to_owned()))?;
        Ok(TimelyFabric {
            shards,
            hands,
            activator,
            shared,
            guards: Some(guards),
        })
    }

    fn check(&self) -> Result<(), FabricError> {
        if !self.shared.ended() {
            return Ok(());
        }
        let failure = self.shared.failure.lock().clone();
        Err(failure.unwrap_or(FabricError::Stopped))
    }

    fn hand_over(&self, hand: Hand) -> Result<(), FabricError> {
        self.check()?;
        self.hands.send(hand).map_err(|_| FabricError::Stopped)
    }

    fn unpark(&self) -> Result<(), FabricError> {
        self.activator.activate().map_err(|_| FabricError::Stopped)
    }
}

impl Fabric for TimelyFabric {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn inject(&mut self, sn: Sn, work: Vec<(ShardId, ShardWork)>) -> Result<(), FabricError> {
        for (shard, work) in work {
            self.hand_over(Hand::Work(sn, shard, work))?;
        }
        Ok(())
    }

    fn takes_portions(&self) -> bool {
        self.shared.ahead.load(Ordering::Relaxed) < MOST_PORTIONS
    }

    fn prepare(&mut self, work: Vec<(ShardId, AheadWork)>) -> Result<(), FabricError> {
        for (shard, work) in work {
            self.shared.ahead.fetch_add(1, Ordering::Relaxed);
            self.hand_over(Hand::Ahead(shard, work))?;
        }
        self.unpark()
    }

    fn seal(&mut self, sn: Sn) -> Result<(), FabricError> {
        self.hand_over(Hand::Seal(sn))?;
        self.unpark()
    }

    fn applied(&self) -> Result<Sn, FabricError> {
        self.check()?;
        Ok(Sn(self.shared.frontier.load(Ordering::Acquire) - 1))
    }

    fn tidy(&mut self) -> Result<(), FabricError> {
        self.check()?;
        self.shared.tidy_rounds.fetch_add(1, Ordering::SeqCst);
        self.shared.wake_all();
        Ok(())
    }

    fn stop(&mut self, deadline: Duration) -> Result<(), FabricError> {
        self.shared.end();
        let Some(guards) = self.guards.take() else {
            return Ok(());
        };
        let (joined, is_joined) = bounded(1);
        std::thread::spawn(move || {
            // A worker's panic has been recorded in `failure` already.
            let _ = guards.join();
            let _ = joined.send(());
        });
        is_joined
            .recv_timeout(deadline)
            .map_err(|_| FabricError::Deadline { deadline })
    }
}

impl Drop for TimelyFabric {
    fn drop(&mut self) {
        let _ = self.stop(Duration::from_secs(5));
    }
}

/// Steps one worker until the generation ends.
fn run_worker(
    worker: &mut Worker,
    probe: &ProbeHandle<u64>,
    apply: &Arc<dyn Apply>,
    shared: &Generation,
) {
    let reports = worker.index() == 0;
    let shard = ShardId(worker.index() as u16);
    // The last round of tidying, and the last frontier settled: nothing is applied before it passes
    // 1.
    let (mut tidied, mut settled) = (0, 1);
    while !shared.ended() {
        worker.step_or_park(None);
        let tidy_rounds = shared.tidy_rounds.load(Ordering::SeqCst);
        if tidy_rounds != tidied {
            tidied = tidy_rounds;
            apply.tidy(shard);
            // A marker may have been set that the sequencer waits for.
            (shared.on_applied)();
        }
        let frontier = probe.with_frontier(|frontier| frontier.first().copied());
        let Some(frontier) = frontier else { continue };
        if reports && report(frontier, shared) {
            // The sequencer may have to share this core, and firings wait for it.
            std::thread::yield_now();
        }
        if frontier > settled {
            settled = frontier;
            apply.settle(shard, Sn(frontier - 1));
        }
    }
}

/// Publishes the frontier if it has moved. Whether it has.
fn report(frontier: u64, shared: &Generation) -> bool {
    let has_moved = frontier > shared.frontier.load(Ordering::Relaxed);
    if has_moved {
        shared.frontier.store(frontier, Ordering::Release);
        (shared.on_applied)();
    }
    has_moved
}

/// Builds the injection dataflow: source on worker 0 → exchange by shard → injector → probe.
fn build(
    worker: &mut Worker,
    from: Sn,
    receiver: &Receiver<Hand>,
    ready: &Sender<SyncActivator>,
    apply: &Arc<dyn Apply>,
    shared: &Arc<Generation>,
) -> ProbeHandle<u64> {
    let activations = worker.index() == 0;
    let (probe, address) = worker.dataflow::<u64, _, _>(|scope| {
        let mut address = Vec::new();
        let parcels = feed(scope, from, receiver, activations, &mut address);
        let injected = parcels.unary(
            Exchange::new(|parcel: &Parcel| u64::from(parcel.shard.0)),
            "inject",
            |_, info| {
                let apply = Arc::clone(apply);
                let shared = Arc::clone(shared);
                let activator = scope.activator_for(info.address);
                let mut waiting: VecDeque<(Capability<u64>, Parcel)> = VecDeque::new();
                move |input, output| {
                    input.for_each(|time, data: &mut Vec<Parcel>| {
                        for parcel in data.drain(..) {
                            waiting.push_back((time.retain(output.output_index()), parcel));
                        }
                    });
                    for _ in 0..PER_ACTIVATION {
                        let Some((time, parcel)) = waiting.pop_front() else {
                            break;
                        };
                        if shared.ended() {
                            return;
                        }
                        let shard = parcel.shard;
                        let work = || shared.deliver(&*apply, *time.time(), parcel);
                        let work = AssertUnwindSafe(work);
                        // The panic is caught here, so timely itself stays in order and the
                        // generation ends cleanly.
                        if let Err(payload) = catch_unwind(work) {
                            shared.fail(shard, payload.as_ref());
                            // The frontier must never pass work that was not applied (VT-1).
                            std::mem::forget(time);
                            return;
                        }
                        let mut session = output.session(&time);
                        session.give(());
                    }
                    if !waiting.is_empty() {
                        activator.activate();
                    }
                }
            },
        );
        let (probe, _): (_, ::timely::dataflow::Stream<'_, u64, Vec<()>>) = injected.probe();
        (probe, address)
    });
    if activations {
        let _ = ready.send(worker.sync_activator_for(address));
    }
    probe
}

/// The source: takes hand-overs from the driver on worker 0, and ends at once on the others.
fn feed<'scope>(
    scope: Scope<'scope, u64>,
    from: Sn,
    receiver: &Receiver<Hand>,
    feeds: bool,
    address: &mut Vec<usize>,
) -> ::timely::dataflow::Stream<'scope, u64, Vec<Parcel>> {
    source(scope, "feed", |mut capability, info| {
        *address = info.address.to_vec();
        let activator = scope.activator_for(info.address);
        let receiver = receiver.clone();
        let mut capability = feeds.then(|| {
            capability.downgrade(&from.next().0);
            capability
        });
        move |output| {
            let Some(open) = capability.as_mut() else {
                return;
            };
            for _ in 0..PER_ACTIVATION {
                match receiver.try_recv() {
                    Ok(Hand::Work(sn, shard, work)) => {
                        let time = open.delayed(&sn.0);
                        let work = ParcelWork::Work(work);
                        output.session(&time).give(Parcel { shard, work });
                    }
                    Ok(Hand::Ahead(shard, work)) => {
                        let work = ParcelWork::Ahead(work);
                        output.session(&*open).give(Parcel { shard, work });
                    }
                    Ok(Hand::Seal(sn)) => open.downgrade(&sn.next().0),
                    Err(TryRecvError::Empty) => return,
                    Err(TryRecvError::Disconnected) => {
                        capability = None;
                        return;
                    }
                }
            }
            activator.activate();
        }
    })
}
