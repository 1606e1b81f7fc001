//! Work ahead of the close against its dull twin: a driver that prepares nothing of open batches.
//! Generated pushes, advances, updates and dropped streams leave the same graphs, slices, firings and
//! outcomes, whatever the portions and whichever fabric.

use super::driver::{LONG, Recorder, WithHost, config, declare, quad, register, start_on};
use oxrdf::{GraphName, NamedNode, Quad};
use parking_lot::Mutex;
use somersault_model::{BatchNumber, EventTime, SeededRandom, ShardId, Sn, TimedTriple};
use somersault_query::Effects;
use somersault_runtime::{
    AheadWork, Apply, Change, ChangeJob, Driver, DriverConfig, Injectors, Process, ShardWork,
};
use somersault_store::{Store, ViewKey, fingerprint};
use somersault_stream::{Input, Push, PushStatement};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS: u16 = 2;
const STREAMS: [(&str, &str); 3] = [
    (
        super::driver::STREAM,
        "TIMING (<http://x/timing>) BATCH 1s LATENESS 300ms LATE AMEND WITHIN 4s",
    ),
    (
        "http://x/facts",
        "TIMELESS INTO GRAPH <http://x/g> BATCH 500ms",
    ),
    (
        "http://x/late",
        "TIMELESS BATCH 100ms LATENESS 700ms LATE DROP",
    ),
];

/// A slice: its batch, its revision and its statements in the order of arrival.
type SeenSlice = (BatchNumber, u32, Vec<TimedTriple>);

/// What is left of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    outcomes: Vec<String>,
    fired: Vec<String>,
    graphs: u64,
    slices: Vec<Vec<SeenSlice>>,
}

fn create(driver: &Driver, (iri, clauses): (&str, &str)) {
    declare(
        driver,
        &format!("CREATE STREAM <{iri}> {clauses} KEEP 1h IDLE NEVER"),
    );
}

/// A statement with one of a few subjects, so that some are repeated.
fn drawn(random: &mut SeededRandom) -> Quad {
    let predicate = ["p", "q", "timing"][random.below(3) as usize];
    Quad {
        predicate: NamedNode::new(format!("http://x/{predicate}")).unwrap(),
        object: quad(random.below(6) as i64).subject.into(),
        graph_name: GraphName::DefaultGraph,
        ..quad(random.below(9) as i64)
    }
}

fn push(random: &mut SeededRandom, stream: &str, now_ms: i64) -> Input {
    let statements = 1 + random.below(14);
    let statements = (0..statements).map(|_| PushStatement {
        at: Some(EventTime(now_ms - random.below(900) as i64 + 450)),
        quad: drawn(random),
    });
    let mut statements: Vec<PushStatement> = statements.collect();
    if random.below(3) > 0 {
        statements.sort_by_key(|statement| statement.at);
    }
    Input::Push(Push {
        stream: stream.to_owned(),
        source: String::new(),
        seq: None,
        received_ms: 0,
        statements,
    })
}

/// An update that deletes some statements and inserts some.
fn update(random: &mut SeededRandom) -> ChangeJob {
    let graph = GraphName::NamedNode(NamedNode::new("http://x/g").unwrap());
    let deletes = (0..4).map(|at| Quad {
        graph_name: match at % 2 {
            0 => graph.clone(),
            _ => GraphName::DefaultGraph,
        },
        ..drawn(random)
    });
    let effects = Effects {
        deletes: deletes.collect(),
        inserts: vec![drawn(random)],
        ..Effects::default()
    };
    Box::new(move |_| Some(Change::Effects(effects)))
}

/// Takes a drawn step and writes down what became of it.
fn step(driver: &Driver, random: &mut SeededRandom, now_ms: i64) -> String {
    let (iri, clauses) = STREAMS[random.below(STREAMS.len() as u64) as usize];
    let named = || iri.to_owned();
    let input = match random.below(20) {
        0 => {
            let result = driver.change(update(random), 0).unwrap();
            return format!("{} {}", result.inserted, result.deleted);
        }
        1 => Input::Advance {
            received_ms: 0,
            to: vec![(named(), EventTime(now_ms))],
        },
        2 => Input::ResetStream {
            received_ms: 0,
            iri: named(),
        },
        3 if iri != super::driver::STREAM => {
            let dropped = driver.log_input(Input::DropStream {
                received_ms: 0,
                iri: named(),
            });
            create(driver, (iri, clauses));
            return format!("{:?}", dropped.map(|receipt| receipt.outcome));
        }
        _ => push(random, iri, now_ms),
    };
    match driver.log_input(input) {
        Ok(receipt) => format!("{:?}", receipt.outcome),
        Err(error) => error.to_string(),
    }
}

fn slices_of(driver: &Driver, store: &Arc<Store>) -> Vec<Vec<SeenSlice>> {
    let streams = driver.streams();
    let of_stream = |status: &somersault_stream::StreamStatus| {
        let Some((_, first, last)) = store.slices().extent(status.uid) else {
            return Vec::new();
        };
        let view = ViewKey {
            range: 1 << 20,
            until: 0,
            step: 1,
        };
        let window = store.slices().window(status.uid, first, last.next(), view);
        let slices = window.slices().iter();
        let seen = slices.map(|it| (it.batch(), it.revision(), it.in_order_of_arrival()));
        seen.collect()
    };
    streams.iter().map(of_stream).collect()
}

/// Injectors that count the portions that they get.
struct Counted {
    injectors: Injectors,
    portions: AtomicU64,
}

impl Apply for Counted {
    fn apply(&self, shard: ShardId, sn: Sn, work: ShardWork) {
        self.injectors.apply(shard, sn, work);
    }

    fn prepare(&self, shard: ShardId, work: AheadWork) {
        self.portions.fetch_add(1, Ordering::Relaxed);
        self.injectors.prepare(shard, work);
    }

    fn settle(&self, shard: ShardId, applied: Sn) {
        self.injectors.settle(shard, applied);
    }
}

fn run(seed: u64, portion: usize, has_threads: bool) -> Seen {
    let store = Store::new(SHARDS);
    let injectors = Arc::new(Counted {
        injectors: Injectors::new(&store).unwrap(),
        portions: AtomicU64::new(0),
    });
    let host = Arc::new(Recorder::default());
    let process = (!has_threads).then(|| -> Arc<dyn Process> {
        Arc::new(WithHost {
            host: Arc::clone(&host),
            turns: Mutex::new(0),
        })
    });
    let config = DriverConfig {
        portion,
        kept_firings: 1 << 10,
        // No clock decides which SNs there are.
        freshness: LONG,
        closes_patience: LONG,
        ..config()
    };
    let driver = start_on(
        Arc::clone(&store),
        Arc::clone(&injectors) as _,
        host.clone(),
        process,
        seed,
        config,
    );
    STREAMS.iter().for_each(|stream| create(&driver, *stream));
    register(&driver, "p");
    let mut random = SeededRandom::new(seed);
    let mut outcomes = Vec::new();
    let mut now_ms = 10_000;
    for _ in 0..120 {
        now_ms += random.below(200) as i64;
        outcomes.push(step(&driver, &mut random, now_ms));
        host.answer_all();
    }
    let to = STREAMS.map(|(iri, _)| (iri.to_owned(), EventTime(now_ms + 5_000)));
    let end = Input::Advance {
        received_ms: 0,
        to: to.to_vec(),
    };
    driver.log_input(end).unwrap();
    while driver.status().outstanding > 0 {
        if !driver.turn() {
            std::thread::yield_now();
        }
        host.answer_all();
    }
    driver.quiesce(LONG).unwrap();
    driver.check().unwrap();
    store.check().unwrap();
    let seen = Seen {
        outcomes,
        fired: host.fired(),
        graphs: fingerprint(&store.pin_stable()),
        slices: slices_of(&driver, &store),
    };
    driver.stop(LONG);
    let portions = injectors.portions.load(Ordering::Relaxed);
    assert_eq!(portions > 30, portion < 16, "{portions} portions");
    seen
}

#[test]
fn portions_change_nothing_that_can_be_seen() {
    for seed in 0..12 {
        let twin = run(seed, usize::MAX, false);
        assert!(twin.slices.iter().any(|slices| slices.len() > 3));
        assert!(!twin.fired.is_empty());
        for portion in [1, 2, 5] {
            assert_eq!(run(seed, portion, false), twin, "seed {seed}, {portion}");
        }
        let (threads, twin_of_threads) = (run(seed, 2, true), run(seed, usize::MAX, true));
        assert_eq!(threads.graphs, twin_of_threads.graphs, "seed {seed}");
        assert_eq!(threads.slices, twin_of_threads.slices, "seed {seed}");
        assert_eq!(threads.outcomes, twin_of_threads.outcomes, "seed {seed}");
    }
}
