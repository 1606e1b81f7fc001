//! The fabrics, tested with shards that only write down what they are given: order per shard, the
//! frontier that never passes what was not applied (VT-1), and a failing worker that ends all.

use parking_lot::{Condvar, Mutex};
use somersault_model::{BatchNumber, EventTime, Millis, Mutation, Placement, QuadIds, ShardId, Sn};
use somersault_model::{StreamUid, TermId, TimedTriple, TripleIds};
use somersault_runtime::{
    AheadWork, Apply, BatchPortion, Fabric, FabricError, Injectors, OnApplied, ShardWork,
    SimFabric, SliceKind, SliceWork, TimelyFabric,
};
use somersault_store::{ShardBatch, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SHARDS: u16 = 3;

/// Writes down (shard, SN), and fails at one SN if it is told to.
#[derive(Default)]
struct Recorder {
    seen: Mutex<Vec<(u16, u64)>>,
    fails_at: Option<Sn>,
    /// The number of items that have been applied.
    count: AtomicU64,
    /// The batch of each portion, and the newest SN that its shard had applied then.
    prepared: Mutex<Vec<(i64, u64)>>,
    /// (shard, SN) of each settling, and how many items up to that SN had been applied then.
    settled: Mutex<Vec<(u16, u64, usize)>>,
}

impl Apply for Recorder {
    fn apply(&self, shard: ShardId, sn: Sn, work: ShardWork) {
        assert_ne!(self.fails_at, Some(sn), "planted");
        assert_eq!(work.slices.len(), 1);
        self.seen.lock().push((shard.0, sn.0));
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn prepare(&self, shard: ShardId, work: AheadWork) {
        let AheadWork::Portion(portion) = work else {
            return;
        };
        let seen = self.seen.lock();
        let last = seen.iter().rev().find(|(of, _)| *of == shard.0);
        let last = last.map_or(0, |(_, sn)| *sn);
        self.prepared.lock().push((portion.batch.0, last));
    }

    fn settle(&self, shard: ShardId, applied: Sn) {
        let seen = self.seen.lock();
        let applied_before = seen.iter().filter(|(_, sn)| *sn <= applied.0).count();
        let mut settled = self.settled.lock();
        settled.push((shard.0, applied.0, applied_before));
    }
}

/// Lets a test wait for a fabric to move.
#[derive(Default)]
struct Signal {
    moved: Mutex<u64>,
    condition: Condvar,
}

impl Signal {
    fn callback(self: &Arc<Self>) -> OnApplied {
        let signal = Arc::clone(self);
        Arc::new(move || {
            *signal.moved.lock() += 1;
            signal.condition.notify_all();
        })
    }

    fn wait(&self, fabric: &mut dyn Fabric, sn: Sn) -> Result<(), FabricError> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut moved = self.moved.lock();
        while fabric.applied()? < sn {
            if parking_lot::MutexGuard::unlocked(&mut moved, || fabric.drive()) {
                continue;
            }
            if fabric.applied()? >= sn {
                break;
            }
            let timed_out = self.condition.wait_until(&mut moved, deadline).timed_out();
            assert!(!timed_out, "the fabric does not move");
        }
        Ok(())
    }
}

fn work(shard: u16) -> (ShardId, ShardWork) {
    let placement = Placement::new(SHARDS);
    let batch = ShardBatch::split(&[], placement).swap_remove(usize::from(shard));
    let id = TermId::DEFAULT_GRAPH;
    let slice = SliceWork {
        stream: StreamUid(1),
        batch: BatchNumber(0),
        interval: Millis(1),
        statements: vec![TimedTriple {
            at: EventTime(0),
            triple: TripleIds::new(id, id, id),
        }],
        lease: None,
        kind: SliceKind::Whole,
    };
    let slices = vec![slice];
    let work = ShardWork {
        batch,
        prepared: Vec::new(),
        slices,
        windows: None,
    };
    (ShardId(shard), work)
}

fn timely(apply: Arc<Recorder>, signal: &Arc<Signal>) -> Box<dyn Fabric> {
    let fabric = TimelyFabric::start(SHARDS, Sn::ZERO, apply, signal.callback());
    Box::new(fabric.expect("threads are to be had"))
}

fn simulated(seed: u64, apply: Arc<Recorder>, signal: &Arc<Signal>) -> Box<dyn Fabric> {
    Box::new(SimFabric::start(
        SHARDS,
        Sn::ZERO,
        seed,
        apply,
        signal.callback(),
    ))
}

/// Injects `sns` SNs, some of them empty, and checks that each shard saw its own in order.
fn runs_in_order(mut fabric: Box<dyn Fabric>, recorder: &Recorder, signal: &Signal, sns: u64) {
    let mut expected = 0;
    let mut expected_up_to = vec![0];
    for number in 1..=sns {
        let sn = Sn(number);
        let shards: Vec<u16> = (0..SHARDS)
            .filter(|s| (number + u64::from(*s)) % 4 != 0)
            .collect();
        expected += shards.len() as u64;
        expected_up_to.push(expected as usize);
        let items = shards.into_iter().map(work).collect();
        fabric.inject(sn, items).unwrap();
        fabric.seal(sn).unwrap();
        assert!(fabric.applied().unwrap() <= sn, "VT-1");
    }
    signal.wait(fabric.as_mut(), Sn(sns)).unwrap();
    assert_eq!(
        recorder.count.load(Ordering::SeqCst),
        expected,
        "all of it is applied"
    );
    let seen = recorder.seen.lock();
    for shard in 0..SHARDS {
        let own: Vec<u64> = seen
            .iter()
            .filter(|(s, _)| *s == shard)
            .map(|(_, sn)| *sn)
            .collect();
        assert!(own.is_sorted(), "shard {shard} saw {own:?}");
        assert!(!own.is_empty());
    }
    drop(seen);
    let is_settled = |shard| {
        let settled = recorder.settled.lock();
        settled.iter().any(|(s, sn, _)| (*s, *sn) == (shard, sns))
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !(0..SHARDS).all(is_settled) {
        assert!(Instant::now() < deadline, "each shard settles in the end");
        std::thread::sleep(Duration::from_millis(1));
    }
    for (shard, sn, applied) in recorder.settled.lock().iter() {
        let all = expected_up_to[*sn as usize];
        assert_eq!(*applied, all, "shard {shard} settles what all have applied");
    }
    fabric.stop(Duration::from_secs(10)).unwrap();
    assert_eq!(fabric.applied(), Err(FabricError::Stopped));
}

#[test]
fn timely_applies_in_order_and_stops() {
    let (recorder, signal) = (Arc::new(Recorder::default()), Arc::new(Signal::default()));
    let fabric = timely(Arc::clone(&recorder), &signal);
    runs_in_order(fabric, &recorder, &signal, 500);
}

#[test]
fn the_simulator_applies_in_order_and_repeats_itself() {
    let mut orders = Vec::new();
    for seed in [1, 1, 2] {
        let (recorder, signal) = (Arc::new(Recorder::default()), Arc::new(Signal::default()));
        let fabric = simulated(seed, Arc::clone(&recorder), &signal);
        runs_in_order(fabric, &recorder, &signal, 50);
        orders.push(recorder.seen.lock().clone());
    }
    assert_eq!(orders[0], orders[1], "the same seed, the same order");
    assert_ne!(orders[0], orders[2], "another seed, another order");
}

/// Hands over a portion between any two SNs, and checks that its shard did it between those SNs.
fn prepares_in_order(mut fabric: Box<dyn Fabric>, recorder: &Recorder, signal: &Signal) {
    let mut handed = Vec::new();
    for number in 1..=200 {
        let shard = (number % u64::from(SHARDS)) as u16;
        let (shard, work) = work(shard);
        if fabric.takes_portions() {
            let portion = BatchPortion {
                stream: StreamUid(1),
                batch: BatchNumber(number as i64),
                statements: Vec::new(),
                edges: work.batch.clone(),
            };
            let portion = AheadWork::Portion(portion);
            fabric.prepare(vec![(shard, portion)]).unwrap();
            let before = number.saturating_sub(u64::from(SHARDS));
            handed.push((number as i64, before));
        }
        fabric.inject(Sn(number), vec![(shard, work)]).unwrap();
        fabric.seal(Sn(number)).unwrap();
        if number % 20 == 0 {
            signal.wait(fabric.as_mut(), Sn(number)).unwrap();
        }
    }
    assert!(!handed.is_empty());
    let mut prepared = recorder.prepared.lock().clone();
    prepared.sort_unstable();
    assert_eq!(prepared, handed);
    assert!(fabric.takes_portions(), "all are done");
    fabric.stop(Duration::from_secs(10)).unwrap();
}

#[test]
fn portions_are_prepared_between_the_sns_around_them() {
    let (recorder, signal) = (Arc::new(Recorder::default()), Arc::new(Signal::default()));
    prepares_in_order(timely(Arc::clone(&recorder), &signal), &recorder, &signal);
    let (recorder, signal) = (Arc::new(Recorder::default()), Arc::new(Signal::default()));
    let fabric = simulated(3, Arc::clone(&recorder), &signal);
    prepares_in_order(fabric, &recorder, &signal);
}

#[test]
fn nothing_is_applied_before_it_is_sealed() {
    let (recorder, signal) = (Arc::new(Recorder::default()), Arc::new(Signal::default()));
    let mut fabric = timely(Arc::clone(&recorder), &signal);
    fabric.inject(Sn(1), vec![work(0), work(2)]).unwrap();
    assert_eq!(fabric.applied(), Ok(Sn::ZERO));
    fabric.seal(Sn(1)).unwrap();
    signal.wait(fabric.as_mut(), Sn(1)).unwrap();
    assert_eq!(recorder.count.load(Ordering::SeqCst), 2);
}

#[test]
fn a_failing_worker_ends_the_generation_with_its_message() {
    let recorder = Arc::new(Recorder {
        fails_at: Some(Sn(3)),
        ..Recorder::default()
    });
    let signal = Arc::new(Signal::default());
    let mut fabric = timely(Arc::clone(&recorder), &signal);
    for number in 1..=3 {
        // Once it has failed, handing over may be refused already.
        let _ = fabric.inject(Sn(number), vec![work(1)]);
        let _ = fabric.seal(Sn(number));
    }
    let failure = signal.wait(fabric.as_mut(), Sn(3)).unwrap_err();
    let FabricError::Worker { shard: 1, message } = failure else {
        panic!("{failure}");
    };
    assert!(message.contains("planted"), "{message}");
    assert!(fabric.inject(Sn(4), vec![work(0)]).is_err());
    fabric.stop(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_fabric_may_be_started_where_another_ended() {
    let (recorder, signal) = (Arc::new(Recorder::default()), Arc::new(Signal::default()));
    let apply = Arc::clone(&recorder);
    let mut fabric = TimelyFabric::start(SHARDS, Sn(41), apply, signal.callback()).unwrap();
    assert_eq!(fabric.applied(), Ok(Sn(41)));
    fabric.inject(Sn(42), vec![work(0)]).unwrap();
    fabric.seal(Sn(42)).unwrap();
    signal.wait(&mut fabric, Sn(42)).unwrap();
    assert_eq!(*recorder.seen.lock(), [(0, 42)]);
}

/// The injectors of a store, for which one SN panics before it is applied.
struct Planted(Injectors, Sn);

impl Apply for Planted {
    fn apply(&self, shard: ShardId, sn: Sn, work: ShardWork) {
        assert_ne!(sn, self.1, "planted");
        self.0.apply(shard, sn, work);
    }

    fn prepare(&self, shard: ShardId, work: AheadWork) {
        self.0.prepare(shard, work);
    }
}

/// Inserts one statement with each of these SNs.
fn insert(fabric: &mut dyn Fabric, sns: impl Iterator<Item = u64>) {
    let placement = Placement::new(SHARDS);
    let id = |number: u64| TermId::from_raw(1 << 60 | number);
    for sn in sns {
        let quad = QuadIds {
            graph: TermId::DEFAULT_GRAPH,
            subject: id(sn),
            predicate: id(9_999),
            object: id(7),
        };
        let batches = ShardBatch::split(&[Mutation::insert(quad)], placement);
        let work = batches.into_iter().map(|batch| {
            let shard = batch.shard();
            let work = ShardWork {
                batch,
                prepared: Vec::new(),
                slices: Vec::new(),
                windows: None,
            };
            (shard, work)
        });
        // Once it has failed, handing over may be refused already.
        let _ = fabric.inject(Sn(sn), work.collect());
        let _ = fabric.seal(Sn(sn));
    }
}

#[test]
fn a_panic_of_a_worker_loses_no_writer() {
    let store = Store::new(SHARDS);
    let apply = Arc::new(Planted(Injectors::new(&store).unwrap(), Sn(3)));
    let signal = Arc::new(Signal::default());
    let mut fabric =
        TimelyFabric::start(SHARDS, Sn::ZERO, Arc::clone(&apply) as _, signal.callback()).unwrap();
    insert(&mut fabric, 1..=2);
    signal.wait(&mut fabric, Sn(2)).unwrap();
    insert(&mut fabric, 3..=3);
    let failure = signal.wait(&mut fabric, Sn(3)).unwrap_err();
    assert!(failure.to_string().contains("planted"), "{failure}");
    fabric.stop(Duration::from_secs(10)).unwrap();
    drop(fabric);

    // The same injectors, with the same writers, go on in another fabric.
    let injectors = Arc::into_inner(apply).expect("the workers have ended").0;
    let mut fabric =
        TimelyFabric::start(SHARDS, Sn(2), Arc::new(injectors), signal.callback()).unwrap();
    insert(&mut fabric, 3..=4);
    signal.wait(&mut fabric, Sn(4)).unwrap();
    store.snapshots().publish_stable(Sn(4));
    assert_eq!(store.pin_stable().statement_count(TermId::DEFAULT_GRAPH), 4);
    store.check().unwrap();
}

#[test]
fn a_panic_in_the_simulator_ends_it_with_its_message() {
    let recorder = Arc::new(Recorder {
        fails_at: Some(Sn(2)),
        ..Recorder::default()
    });
    let signal = Arc::new(Signal::default());
    let mut fabric = simulated(5, recorder, &signal);
    for number in 1..=3 {
        // Once it has failed, handing over is refused.
        let _ = fabric.inject(Sn(number), vec![work(1)]);
        let _ = fabric.seal(Sn(number));
    }
    let failure = signal.wait(fabric.as_mut(), Sn(3)).unwrap_err();
    assert!(
        matches!(failure, FabricError::Worker { shard: 1, .. }),
        "{failure}"
    );
    assert!(failure.to_string().contains("planted"), "{failure}");
    assert!(!fabric.drive(), "nothing is left to do");
    fabric.stop(Duration::from_secs(10)).unwrap();
    assert_eq!(fabric.applied(), Err(failure));
}
