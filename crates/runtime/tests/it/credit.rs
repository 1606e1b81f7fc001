//! The credit of inputs: what is on its way to the shards stays within its limit, whatever the
//! shards do, and callers that have to wait are answered.

use crate::driver::{
    LONG, Recorder, STREAM, config, create_stream, hand_in, inserts, quad, register, start_with,
};
use parking_lot::{Condvar, Mutex};
use somersault_model::{EventTime, ShardId, Sn};
use somersault_runtime::{AheadWork, Apply, Driver, DriverConfig, RuntimeError, ShardWork};
use somersault_stream::{Input, Push, PushHead, PushStatement};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Shards that apply nothing while it is shut.
#[derive(Default)]
struct Gate {
    /// The number of items that may pass; `None` for all.
    passes: Mutex<Option<u64>>,
    opened: Condvar,
}

impl Gate {
    fn shut() -> Arc<Gate> {
        Arc::new(Gate {
            passes: Mutex::new(Some(0)),
            opened: Condvar::new(),
        })
    }

    fn open(&self) {
        *self.passes.lock() = None;
        self.opened.notify_all();
    }

    fn let_through(&self, items: u64) {
        if let Some(passes) = &mut *self.passes.lock() {
            *passes += items;
        }
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut passes = self.passes.lock();
        while *passes == Some(0) {
            self.opened.wait(&mut passes);
        }
        if let Some(passes) = &mut *passes {
            *passes -= 1;
        }
    }
}

struct Gated(Arc<Gate>, Arc<dyn Apply>);

impl Apply for Gated {
    fn apply(&self, shard: ShardId, sn: Sn, work: ShardWork) {
        self.0.pass();
        self.1.apply(shard, sn, work);
    }

    fn prepare(&self, shard: ShardId, work: AheadWork) {
        self.1.prepare(shard, work);
    }

    fn settle(&self, shard: ShardId, applied: Sn) {
        self.1.settle(shard, applied);
    }
}

/// A driver with a stream and a query, whose shards wait at a gate that is shut.
fn gated(inflight_bytes: u64, patience: Duration) -> (Arc<Driver>, Arc<Recorder>, Arc<Gate>) {
    let (host, gate) = (Arc::new(Recorder::default()), Gate::shut());
    let config = DriverConfig {
        inflight_bytes,
        inflight_patience: patience,
        ..config()
    };
    let at = Arc::clone(&gate);
    let driver = start_with(host.clone(), None, 0, config, |injectors| {
        Arc::new(Gated(at, injectors))
    });
    create_stream(&driver);
    register(&driver, "p");
    (driver, host, gate)
}

/// Pushes statements of one second, which closes the batch of the second before.
fn push(driver: &Driver, second: i64, statements: usize) -> Result<(), RuntimeError> {
    let head = PushHead {
        stream: STREAM.to_owned(),
        source: String::new(),
        seq: None,
    };
    let quads: Vec<_> = (0..statements as i64)
        .map(|number| quad(second * 1_000 + number))
        .collect();
    let times = vec![Some(EventTime(second * 1_000)); statements];
    let pushed = driver.push(head, times.into_iter(), quads.iter().map(|it| it.as_ref()));
    pushed.map(|_| ())
}

fn level(driver: &Driver) -> u64 {
    driver.status().inflight_bytes
}

fn wait_until(what: &str, is_there: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_there() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a caller waits for room, and has done so for a moment.
fn await_waiter(driver: &Driver) {
    wait_until("a caller waits", || driver.status().inflight_waits > 0);
}

/// Answers firings as they come, until it is told to stop.
fn answer(host: &Recorder, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        if host.answer_all() == 0 {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

#[test]
fn a_fast_source_waits_for_slow_shards_and_everything_arrives() {
    const BUDGET: u64 = 20_000;
    const SECONDS: i64 = 200;
    // As a push a statement has a graph, and in a batch it has none.
    const PUSH: u64 = 20 * 40;
    const BATCH: u64 = 20 * 32;
    let (driver, host, gate) = gated(BUDGET, LONG);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| answer(&host, &stop));
        let source = scope.spawn(|| {
            for second in 0..SECONDS {
                push(&driver, second, 20).unwrap();
            }
        });
        await_waiter(&driver);
        let full = level(&driver);
        assert!(
            full > BUDGET - PUSH,
            "it waits although there is room: {full}"
        );
        let mut most = full;
        while !source.is_finished() {
            gate.let_through(1);
            most = most.max(level(&driver));
            thread::yield_now();
        }
        // The batch that a push closes comes on top of its own bytes.
        assert!(most <= BUDGET + BATCH, "{most}");
        source.join().unwrap();
        gate.open();
        driver.quiesce(LONG).unwrap();
        stop.store(true, Ordering::SeqCst);
    });
    assert_eq!(driver.streams()[0].statements, 20 * SECONDS as u64);
    assert_eq!(driver.query("p").unwrap().firings as i64, SECONDS - 1);
    assert_eq!(level(&driver), 0);
    driver.check().unwrap();
}

#[test]
fn a_push_larger_than_the_limit_passes_alone() {
    let (driver, _host, gate) = gated(1_000, Duration::from_millis(50));
    push(&driver, 0, 100).unwrap();
    // Closes the large batch, which is then on its way.
    push(&driver, 1, 1).unwrap();
    wait_until("the batch is on its way", || level(&driver) > 3_000);
    let refused = push(&driver, 2, 1).unwrap_err().to_string();
    assert!(
        refused.contains("at most 1000 may be (inflight_bytes)"),
        "{refused}"
    );
    assert!(
        refused.contains("Nothing of it was taken; send it again"),
        "{refused}"
    );
    // Commands and advances bring no statements, and wait for no room.
    register(&driver, "q");
    gate.open();
    wait_until("it is applied", || level(&driver) == 0);
    push(&driver, 2, 100).unwrap();
    assert_eq!(driver.streams()[0].statements, 201);
}

#[test]
fn an_input_that_its_caller_forgets_gives_its_room_back() {
    let (driver, _host, gate) = gated(1 << 20, LONG);
    drop(hand_in(&driver, 10));
    let unknown = Push {
        stream: "http://x/unknown".to_owned(),
        source: String::new(),
        seq: None,
        received_ms: 0,
        statements: vec![PushStatement {
            at: Some(EventTime(0)),
            quad: quad(1),
        }],
    };
    assert!(driver.log_input(Input::Push(unknown)).is_err());
    wait_until("both have their answers", || level(&driver) == 0);
    gate.open();
}

#[test]
fn an_update_is_on_its_way_until_it_is_applied() {
    let (driver, _host, gate) = gated(100, LONG);
    thread::scope(|scope| {
        let update = scope.spawn(|| driver.change(Box::new(|_| Some(inserts(1))), 90).unwrap());
        wait_until("the effects are with the shards", || {
            (1..90).contains(&level(&driver))
        });
        let next = scope.spawn(|| driver.change(Box::new(|_| Some(inserts(2))), 90).unwrap());
        await_waiter(&driver);
        assert!(!update.is_finished() && !next.is_finished());
        gate.open();
        assert_eq!(update.join().unwrap().inserted, 1);
        assert_eq!(next.join().unwrap().inserted, 1);
    });
    assert_eq!(level(&driver), 0);
}

#[test]
fn a_caller_that_waits_is_answered_when_the_driver_stops() {
    let (driver, _host, gate) = gated(1_000, LONG);
    push(&driver, 0, 100).unwrap();
    push(&driver, 1, 1).unwrap();
    wait_until("the batch is on its way", || level(&driver) > 3_000);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| push(&driver, 2, 1));
        await_waiter(&driver);
        let stop = scope.spawn(|| driver.stop(Duration::from_millis(100)));
        // Taken before the driver ended, or refused: the shards still stand at the gate.
        let answer = waiting.join().unwrap();
        assert!(
            matches!(answer, Ok(()) | Err(RuntimeError::Stopped)),
            "{answer:?}"
        );
        gate.open();
        stop.join().unwrap();
    });
}
