//! A query in a cohort reports about itself, and sends its subscribers, exactly what it would
//! alone: also at moments when a cohort knows less than each of its queries, or learns something
//! about all of them at once.

use crate::support::endpoint::LONG;
use crate::support::scenario::*;
use proptest::prelude::*;
use somersault::disk::SimDisk;
use somersault::{
    Engine, EngineConfig, EventTime, FiringId, Limits, QueryInfo, QueryMetrics, SubscribeOptions,
    Subscription, SubscriptionEvent,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};

/// A query that differs from others of this kind in its constant; alone, as a BASE leaves a text as
/// it is.
fn likes(alone: bool, what: &str) -> String {
    let base = if alone { "BASE <urn:x>" } else { "" };
    format!(
        "PREFIX : <{NS}> {base} SELECT ?who FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ GRAPH :s {{ ?who :likes :{what} }} }}"
    )
}

fn stream(engine: &Engine, clauses: &str) {
    let text = format!("CREATE STREAM <{NS}s> {clauses} BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
}

/// Pushes the statements of the second that ends at this close, and waits until the closes that
/// they make due are answered.
fn second(engine: &Engine, close_ms: i64, statements: &[&str]) {
    let statements: Vec<(i64, &str)> = (statements.iter())
        .map(|statement| (close_ms - 500, *statement))
        .collect();
    if !statements.is_empty() {
        engine.push(&format!("{NS}s"), push(&statements)).unwrap();
    }
    advance(engine, close_ms);
    engine.quiesce(LONG).unwrap();
}

/// Whether something was missed, and the closes that followed.
fn heard(subscription: &Subscription) -> (bool, Vec<i64>) {
    let (mut missed, mut closes) = (false, Vec::new());
    while let Some(event) = subscription.try_recv() {
        match event {
            SubscriptionEvent::Firing(firing) => closes.push(firing.close.0),
            _ => missed = true,
        }
    }
    (missed, closes)
}

fn heard_after(engine: &Engine, name: &str, after: Option<i64>) -> (bool, Vec<i64>) {
    let options = SubscribeOptions {
        after: after.map(|close| FiringId::at(EventTime(close))),
        from_now: after.is_none(),
        ..SubscribeOptions::default()
    };
    heard(&engine.subscribe(name, options).unwrap())
}

/// The part of a query's status that is the same in a cohort and alone.
fn told(info: &QueryInfo) -> String {
    format!(
        "{} {} firings, {} rows, last {:?}, next {:?}, held up by {:?}, {} amended, {} empty, {} while paused, {} {:?}, {} listen",
        info.name,
        info.firings,
        info.rows,
        info.last_close.map(|close| close.0),
        info.next_close.map(|close| close.0),
        info.waiting_for,
        info.amended,
        info.skipped_empty,
        info.passed_while_paused,
        info.paused,
        info.last_error,
        info.subscribers
    )
}

fn told_of(engine: &Engine, name: &str) -> String {
    told(&engine.query_info(name).unwrap())
}

/// The same in a group and alone.
fn both(settings: &EngineConfig, clauses: &str, life: impl Fn(&Engine, bool) -> Vec<String>) {
    let [together, apart] = [false, true].map(|alone| {
        let engine = Engine::open(settings.clone()).unwrap();
        stream(&engine, clauses);
        for what in ["a", "b"] {
            engine.register(Some(what), &likes(alone, what)).unwrap();
        }
        advance(&engine, 0);
        life(&engine, alone)
    });
    assert_eq!(together, apart);
}

#[test]
fn closes_that_are_passed_after_a_pause_are_not_those_of_the_paused() {
    both(&config(), "", |engine, _| {
        second(engine, 1000, &["x likes a", "x likes b"]);
        engine.pause_query("a").unwrap();
        advance(engine, 100_000);
        engine.quiesce(LONG).unwrap();
        let told = ["a", "b"].map(|name| told_of(engine, name));
        assert!(told[0].contains("last Some(1000)"), "{told:?}");
        assert!(told[1].contains("98 empty"), "{told:?}");
        told.to_vec()
    });
}

#[test]
fn firings_of_others_during_a_pause_are_not_missed() {
    let few = EngineConfig {
        kept_firings: 2,
        ..config()
    };
    both(&few, "", |engine, _| {
        for close_ms in [1000, 2000, 3000] {
            second(engine, close_ms, &["x likes a"]);
        }
        engine.pause_query("a").unwrap();
        for close_ms in (4000..9000).step_by(1000) {
            second(engine, close_ms, &["x likes a"]);
        }
        let gap = |after| heard_after(engine, "a", Some(after)).0;
        let mut told = vec![format!("{} {}", gap(3000), gap(500))];
        engine.resume_query("a").unwrap();
        told.push(format!("{} {}", gap(3000), gap(500)));
        second(engine, 9000, &["x likes a"]);
        told.push(format!("{:?}", heard_after(engine, "a", Some(3000))));
        for close_ms in [10_000, 11_000] {
            second(engine, close_ms, &["x likes a"]);
        }
        told.push(format!("{:?}", heard_after(engine, "a", Some(3000))));
        told.push(format!("{:?}", heard_after(engine, "a", Some(9000))));
        assert_eq!(told[0], "false true");
        told
    });
}

/// An engine whose answers may have two rows.
fn two_rows() -> EngineConfig {
    EngineConfig {
        limits: Limits {
            result_rows: 2,
            ..Limits::default()
        },
        ..config()
    }
}

const THREE: [&str; 3] = ["x likes a", "y likes a", "z likes a"];

#[test]
fn an_answer_with_too_many_rows_is_a_failure_and_has_none() {
    both(&two_rows(), "", |engine, _| {
        second(engine, 1000, &[&THREE[..], &["x likes b"]].concat());
        let told = ["a", "b"].map(|name| told_of(engine, name));
        assert!(told[0].contains("0 rows") && told[0].contains("result_rows"));
        let failed = engine.metrics().queries;
        let failed: u64 = failed.iter().map(|query| query.failed).sum();
        let mut told = told.to_vec();
        told.push(format!("{failed} failed"));
        told
    });
}

#[test]
fn the_last_error_is_that_of_its_own_last_firing() {
    let settings = EngineConfig {
        kept_firings: 3,
        ..two_rows()
    };
    both(&settings, "", |engine, alone| {
        second(engine, 1000, &THREE);
        engine.register(Some("late"), &likes(alone, "a")).unwrap();
        let names = ["a", "b", "late"];
        let told_now = || names.map(|name| told_of(engine, name));
        let mut told = told_now().to_vec();
        engine.pause_query("a").unwrap();
        for close_ms in (2000..9000).step_by(1000) {
            second(engine, close_ms, &["x likes a"]);
            told.extend(told_now());
        }
        engine.resume_query("a").unwrap();
        told.extend(told_now());
        engine.drop_query("late").unwrap();
        second(engine, 9000, &["x likes a"]);
        told.push(told_of(engine, "a"));
        told
    });
}

#[test]
fn an_amended_firing_is_not_counted_for_those_that_have_joined_since() {
    both(
        &config(),
        "LATENESS 0s LATE AMEND WITHIN 10s",
        |engine, alone| {
            second(engine, 1000, &["x likes a", "x likes b"]);
            for what in ["a", "c"] {
                let name = format!("late {what}");
                engine.register(Some(&name), &likes(alone, what)).unwrap();
            }
            second(engine, 2000, &["x likes a", "x likes b"]);
            let late = push(&[(600, "y likes a"), (700, "z likes b")]);
            engine.push(&format!("{NS}s"), late).unwrap();
            second(engine, 3000, &["x likes a"]);
            let queries = engine.metrics().queries;
            let sum = |of: fn(&QueryMetrics) -> u64| queries.iter().map(of).sum::<u64>();
            let sums = [
                sum(|it| it.executions),
                sum(|it| it.nonempty),
                sum(|it| it.rows),
            ];
            let mut told: Vec<String> = ["a", "b", "late a", "late c"]
                .map(|name| told_of(engine, name))
                .to_vec();
            told.push(format!("{sums:?}"));
            told
        },
    );
}

#[test]
fn subscribing_from_now_to_a_replacement_misses_nothing() {
    both(&config(), "", |engine, alone| {
        let slow = likes(alone, "c").replace("STEP 1s", "STEP 5s");
        engine.register(Some("slow"), &slow).unwrap();
        for close_ms in (1000..9000).step_by(1000) {
            second(engine, close_ms, &["x likes a"]);
        }
        let a = likes(alone, "a").replace("STEP 1s", "STEP 5s");
        engine.replace(Some("a"), &a).unwrap();
        let told = heard_after(engine, "a", None);
        assert!(!told.0);
        vec![format!(
            "{told:?} {:?}",
            heard_after(engine, "a", Some(7000))
        )]
    });
}

#[test]
fn a_gap_is_reported_however_few_firings_may_wait() {
    let few = EngineConfig {
        kept_firings: 3,
        ..config()
    };
    both(&few, "", |engine, _| {
        for close_ms in (1000..9000).step_by(1000) {
            second(engine, close_ms, &["x likes a"]);
        }
        let options = SubscribeOptions {
            after: Some(FiringId::at(EventTime(2000))),
            capacity: 1,
            ..SubscribeOptions::default()
        };
        let listening = engine.subscribe("a", options).unwrap();
        let first = listening.try_recv().unwrap();
        let missed = matches!(first, SubscriptionEvent::Lagged { missed: None });
        assert!(missed, "{first:?}");
        let rest = heard(&listening);
        assert_eq!(rest, (false, vec![6000, 7000, 8000]));
        vec![format!("{rest:?}")]
    });
}

/// Has far too many rows to go through once its window holds a statement.
fn heavy(what: &str) -> String {
    format!(
        "PREFIX : <{NS}> SELECT ?a FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ \
         GRAPH :s {{ ?a :likes :{what} . ?b :likes ?c . ?d :likes ?e . ?f :likes ?g . ?h :likes ?i }} \
         FILTER(STRLEN(CONCAT(STR(?a), STR(?c), STR(?e), STR(?g), STR(?i))) > 100000) }}"
    )
}

/// No question about a query, and no subscription, waits for the running firing of its cohort.
#[test]
fn a_slow_firing_delays_no_question_about_its_cohort() {
    let engine = Engine::open(EngineConfig {
        limits: Limits {
            firing_time: LONG,
            ..Limits::default()
        },
        ..config()
    });
    let engine = engine.unwrap();
    stream(&engine, "");
    for what in ["a", "b"] {
        engine.register(Some(what), &heavy(what)).unwrap();
    }
    advance(&engine, 0);
    let statements: Vec<String> = (0..300).map(|at| format!("x{at} likes a")).collect();
    let statements: Vec<(i64, &str)> = statements.iter().map(|it| (500, it.as_str())).collect();
    engine.push(&format!("{NS}s"), push(&statements)).unwrap();
    advance(&engine, 1000);
    let (told, is_told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Until the firing has begun, however long that takes.
            for at in 0..300 {
                engine.pause_query("b").unwrap();
                engine.resume_query("b").unwrap();
                let info = engine.query_info("a").unwrap();
                assert_eq!((info.firings, info.group.unwrap().queries), (0, 2));
                let name = format!("c{at}");
                engine.register(Some(&name), &heavy(&name)).unwrap();
                let listening = engine.subscribe(&name, SubscribeOptions::default());
                assert!(listening.unwrap().try_recv().is_none());
                engine.drop_query(&name).unwrap();
            }
            told.send(()).unwrap();
        });
        assert_eq!(is_told.recv_timeout(LONG / 2), Ok(()));
    });
}

/// Other members stay, so the end of the cohort does not end the subscription.
#[test]
fn subscribing_while_a_query_is_dropped_gives_its_end() {
    let engine = engine();
    stream(&engine, "");
    engine.register(Some("other"), &likes(false, "b")).unwrap();
    let both = Barrier::new(2);
    for _ in 0..1000 {
        engine.register(Some("q"), &likes(false, "a")).unwrap();
        let listening = std::thread::scope(|scope| {
            let listening = scope.spawn(|| {
                both.wait();
                engine.subscribe("q", SubscribeOptions::default())
            });
            both.wait();
            engine.drop_query("q").unwrap();
            listening.join().unwrap()
        });
        if let Ok(listening) = listening {
            let ended = listening.recv_timeout(LONG);
            assert!(matches!(ended, Ok(None)), "{ended:?}");
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Register(usize, usize),
    Replace(usize, usize, bool),
    Pause(usize),
    Resume(usize),
    Drop(usize),
    /// A number of seconds, one after the other.
    Seconds(i64),
    /// So far that empty closes are skipped.
    Jump,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..4usize;
    prop_oneof![
        3 => (name(), 0..2usize).prop_map(|(name, what)| Step::Register(name, what)),
        2 => (name(), 0..2usize, any::<bool>())
            .prop_map(|(name, what, slower)| Step::Replace(name, what, slower)),
        3 => name().prop_map(Step::Pause),
        3 => name().prop_map(Step::Resume),
        1 => name().prop_map(Step::Drop),
        6 => (1..7i64).prop_map(Step::Seconds),
        1 => Just(Step::Jump),
        1 => Just(Step::Restart),
    ]
}

/// An engine that keeps few firings, and what each of its queries has answered.
struct World {
    disk: SimDisk,
    engine: Option<Engine>,
    alone: bool,
    now_ms: i64,
    /// For each name: its subscription, and the closes that arrived, also those of the queries that
    /// it replaced.
    heard: BTreeMap<String, (Subscription, Vec<i64>)>,
}

impl World {
    fn new(alone: bool) -> World {
        let disk = SimDisk::new();
        let mut world = World {
            engine: None,
            disk,
            alone,
            now_ms: 0,
            heard: BTreeMap::new(),
        };
        world.open();
        stream(world.engine(), "");
        advance(world.engine(), 0);
        world
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn open(&mut self) {
        let settings = EngineConfig {
            kept_firings: 3,
            ..config()
        };
        let engine = Engine::open_on(settings, Arc::new(self.disk.clone()));
        self.engine = Some(engine.unwrap());
    }

    /// Subscribes to a query of which these closes have arrived.
    fn listen(&mut self, name: &str, closes: Vec<i64>) {
        let options = SubscribeOptions {
            after: closes
                .last()
                .copied()
                .map(|close| FiringId::at(EventTime(close))),
            ..SubscribeOptions::default()
        };
        let listening = self.engine().subscribe(name, options).unwrap();
        self.heard.insert(name.to_owned(), (listening, closes));
    }

    /// Reads the firings that have been answered so far.
    fn hear(&mut self) {
        self.engine().quiesce(LONG).unwrap();
        for (name, (listening, closes)) in &mut self.heard {
            let (missed, more) = heard(listening);
            assert!(!missed, "{name} has listened all the time");
            closes.extend(more);
            assert!(closes.is_sorted_by(|a, b| a < b), "{name}: {closes:?}");
        }
    }

    fn take(&mut self, step: &Step) {
        let name = |name: &usize| format!("q{name}");
        let what = |what: &usize| ["a", "b"][*what];
        match step {
            Step::Register(at, constant) => {
                let (name, text) = (name(at), likes(self.alone, what(constant)));
                if !self.heard.contains_key(&name) {
                    self.engine().register(Some(&name), &text).unwrap();
                    self.listen(&name, Vec::new());
                }
            }
            Step::Replace(at, constant, slower) => {
                let (name, mut text) = (name(at), likes(self.alone, what(constant)));
                if *slower {
                    text = text.replace("STEP 1s", "STEP 3s");
                }
                if let Some((_, closes)) = self.heard.remove(&name) {
                    self.engine().replace(Some(&name), &text).unwrap();
                    self.listen(&name, closes);
                }
            }
            Step::Pause(at) => _ = self.engine().pause_query(&name(at)),
            Step::Resume(at) => _ = self.engine().resume_query(&name(at)),
            Step::Drop(at) => {
                if self.heard.remove(&name(at)).is_some() {
                    self.engine().drop_query(&name(at)).unwrap();
                }
            }
            Step::Seconds(seconds) => {
                for _ in 0..*seconds {
                    self.now_ms += 1000;
                    second(self.engine(), self.now_ms, &["x likes a"]);
                }
            }
            Step::Jump => {
                self.now_ms += 200_000;
                advance(self.engine(), self.now_ms);
            }
            Step::Restart => {
                let engine = self.engine.take().unwrap();
                engine.shutdown().unwrap();
                drop(engine);
                self.disk = self.disk.restarted();
                self.open();
                for (name, (_, closes)) in std::mem::take(&mut self.heard) {
                    self.listen(&name, closes);
                }
            }
        }
        self.hear();
    }

    /// A reconnecting subscriber gets a gap exactly if firings after the last one it saw are no
    /// longer kept; one that wants no earlier firings never does.
    fn check(&self) {
        for (name, (_, closes)) in &self.heard {
            assert!(!heard_after(self.engine(), name, None).0, "{name}");
            let seen = closes.iter().rev().take(8).copied();
            for after in seen.chain([-1000]) {
                let later = closes.iter().copied().filter(|close| *close > after);
                let later: Vec<i64> = later.collect();
                let (missed, kept) = heard_after(self.engine(), name, Some(after));
                assert!(later.ends_with(&kept), "{name}: {kept:?} of {later:?}");
                let told = (missed, later.len() > kept.len());
                assert!(
                    told.0 == told.1,
                    "{name} after {after}: {told:?}, {kept:?} of {later:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(30),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_reconnecting_subscriber_is_told_of_exactly_the_missed_firings(
        steps in proptest::collection::vec(step(), 1..50),
    ) {
        let told = [false, true].map(|alone| {
            let mut world = World::new(alone);
            let mut told = Vec::new();
            for step in &steps {
                world.take(step);
                world.check();
                let is_restarted = matches!(step, Step::Restart);
                if is_restarted {
                    // The firings that are executed again depend on the number of kept ones, which
                    // a cohort keeps for all members.
                    continue;
                }
                let names = world.heard.iter();
                told.extend(names.map(|(name, (_, closes))| format!("{name} {closes:?}")));
            }
            told
        });
        prop_assert_eq!(&told[0], &told[1]);
    }
}
