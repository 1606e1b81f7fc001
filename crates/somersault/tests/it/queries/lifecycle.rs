//! Queries that come, go, wait and are slow while data flows: none of that is seen in the answers
//! of others.

use crate::support::endpoint::{LONG, Slow};
use crate::support::scenario::*;
use somersault::replay::{ReplayPlan, Speed, StreamFile, replay};
use somersault::{
    DeltaMode, Engine, EngineConfig, EngineError, EventTime, FiringResult, NewQuery, Registered,
    SubscribeOptions, Subscription,
};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

/// Text of a query over `:s` that differs from others in its constants alone, or that stands alone,
/// as a BASE leaves a text as it is.
fn text(alone: bool, query: &str) -> String {
    let base = if alone { "BASE <urn:x>" } else { "" };
    format!("PREFIX : <{NS}> {base} {query}")
}

/// Likes, and an endpoint that decides when the answer may come.
fn slow_text() -> String {
    text(
        true,
        "SELECT ?who FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE { GRAPH :s { ?who :likes ?what } SERVICE :far { ?x :is ?there } }",
    )
}

fn stream(engine: &Engine, clauses: &str) -> String {
    let iri = format!("{NS}s");
    let text = format!("CREATE STREAM <{iri}> {clauses} BATCH 1s IDLE NEVER");
    engine.create_stream(None, &text).unwrap();
    iri
}

fn next(subscription: &Subscription) -> Arc<FiringResult> {
    let event = subscription.recv_timeout(LONG);
    let event = event
        .expect("the answer arrives")
        .expect("the query is registered");
    firing(event).expect("nothing is missed")
}

/// Returns when something holds that others bring about.
fn wait_until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "the condition has not held in time");
        std::thread::yield_now();
    }
}

/// A slow query's firings become due and wait while all closes of the others are answered: more
/// queries wait for the endpoint than there are query threads, and each has more due closes than
/// there are threads in all.
#[test]
fn a_slow_query_delays_no_other() {
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let s = stream(engine, "");
    let slow_names = ["slow 0", "slow 1", "slow 2"];
    for name in slow_names {
        engine.register(Some(name), &slow_text()).unwrap();
    }
    let subscribe = |name: &str| engine.subscribe(name, SubscribeOptions::default()).unwrap();
    let light = |at: usize| {
        let name = format!("light {at}");
        let query = format!(
            "SELECT ?who FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE {{ GRAPH :s {{ ?who :likes :p{at} }} }}"
        );
        engine.register(Some(&name), &text(at < 5, &query)).unwrap();
        subscribe(&name)
    };
    let lights: Vec<Subscription> = (0..10).map(light).collect();
    advance(engine, 0);
    let closes: Vec<i64> = (1..=12).map(|k| k * 1000).collect();
    for close_ms in &closes {
        let statements: Vec<String> = (0..10)
            .map(|at| format!("{close_ms} likes p{at}"))
            .collect();
        let statements: Vec<(i64, &str)> = statements
            .iter()
            .map(|statement| (close_ms - 500, statement.as_str()))
            .collect();
        engine.push(&s, push(&statements)).unwrap();
        advance(engine, *close_ms);
        for light in &lights {
            let firing = next(light);
            let rows = shown(firing.answer.as_ref().unwrap());
            assert_eq!(
                (firing.close.0, rows),
                (*close_ms, vec![close_ms.to_string()])
            );
        }
    }
    slow.endpoint.wait_until_asked(slow_names.len());
    for name in slow_names {
        assert_eq!(engine.query_info(name).unwrap().firings, 0);
    }
    slow.endpoint.open();
    let rows = |close: &i64| (*close, vec![close.to_string(); 10]);
    let all: Vec<(i64, Vec<String>)> = closes.iter().map(rows).collect();
    for name in slow_names {
        assert_eq!(firings(engine, name, None), all, "{name}");
    }
}

/// A firing that waits for its turn when its query is dropped is not executed, and no caller waits
/// for it.
#[test]
fn the_firings_of_a_dropped_query_are_cancelled() {
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let s = stream(engine, "");
    engine.register(Some("slow"), &slow_text()).unwrap();
    let answers = engine.subscribe("slow", SubscribeOptions::default());
    let answers = answers.unwrap();
    advance(engine, 0);
    for close_ms in (1000..=8000).step_by(1000) {
        let statement = [(close_ms - 500, "a likes p")];
        engine.push(&s, push(&statement)).unwrap();
        advance(engine, close_ms);
    }
    slow.endpoint.wait_until_asked(1);
    engine.drop_query("slow").unwrap();
    assert!(answers.recv().is_none());
    slow.endpoint.open();
    engine.quiesce(LONG).unwrap();
    assert_eq!(slow.endpoint.asked(), 1);
}

/// The statements of the second that ends at this close: likes. They determine the content of every
/// window.
fn batch(close_ms: i64) -> Vec<(i64, i64)> {
    let at = close_ms / 1000;
    (0..at % 4)
        .map(|n| ((at * 7 + n) % 5, (at + n) % 3))
        .collect()
}

/// The answer that a query for this constant must have at a close, whatever other queries were
/// registered and dropped.
fn expected_rows(counts: bool, constant: i64, close_ms: i64) -> Vec<String> {
    let seconds = if counts { 3 } else { 2 };
    let batches = (0..seconds).flat_map(|back| batch(close_ms - back * 1000));
    let who: BTreeSet<i64> = batches
        .filter(|(_, what)| *what == constant)
        .map(|(who, _)| who)
        .collect();
    if counts {
        let count = who.len();
        return vec![format!(
            "\"{count}\"^^<http://www.w3.org/2001/XMLSchema#integer"
        )];
    }
    who.into_iter().map(|who| format!("a{who}")).collect()
}

/// One of the queries that come and go.
struct Visitor {
    name: String,
    counts: bool,
    constant: i64,
    alone: bool,
}

impl Visitor {
    fn query(&self) -> NewQuery {
        let (rows, seconds) = match self.counts {
            true => ("(COUNT(?who) AS ?n)", 3),
            false => ("?who", 2),
        };
        let query = format!(
            "SELECT {rows} FROM NAMED STREAM :s [RANGE {seconds}s STEP 1s] WHERE {{ GRAPH :s {{ ?who :likes :p{} }} }}",
            self.constant
        );
        NewQuery {
            name: Some(self.name.clone()),
            text: text(self.alone, &query),
        }
    }

    /// One life-cycle: the query is registered, answers, pauses, answers again, and is dropped. Its
    /// answers are as if it were alone.
    fn live(&self, engine: &Engine) {
        let stream = format!("{NS}s");
        let reached = || engine.stream(&stream).unwrap().watermark.unwrap().0;
        let before_ms = reached();
        let registered = engine.register_many([self.query()]).unwrap();
        assert_eq!(
            registered.into_iter().next().unwrap().unwrap(),
            Registered::New
        );
        let after_ms = reached();
        let everything = SubscribeOptions {
            capacity: usize::MAX,
            ..SubscribeOptions::default()
        };
        let answers = engine.subscribe(&self.name, everything).unwrap();
        let mut closes = Vec::new();
        self.take(&answers, 3, &mut closes);
        engine.pause_query(&self.name).unwrap();
        // It waits until time has advanced for the others.
        let paused_ms = reached();
        wait_until(|| reached() > paused_ms + 2000);
        engine.resume_query(&self.name).unwrap();
        let first_ms = closes[0];
        assert!(
            before_ms < first_ms && first_ms <= after_ms + 1000,
            "{before_ms} {first_ms} {after_ms}"
        );
        let resumed_ms = reached();
        while closes.last().is_some_and(|last| *last <= resumed_ms) {
            self.take(&answers, 1, &mut closes);
        }
        let passed = engine.query_info(&self.name).unwrap().passed_while_paused;
        engine.drop_query(&self.name).unwrap();
        while let Some(event) = answers.recv() {
            closes.push(self.check(&firing(event).unwrap()));
        }
        let gaps = closes.windows(2).map(|pair| (pair[1] - pair[0]) / 1000 - 1);
        let gaps: Vec<i64> = gaps.filter(|missed| *missed != 0).collect();
        assert!(
            passed >= 2 && gaps == [passed as i64],
            "{passed} passed in {closes:?}"
        );
    }

    fn take(&self, answers: &Subscription, count: usize, closes: &mut Vec<i64>) {
        for _ in 0..count {
            closes.push(self.check(&next(answers)));
        }
    }

    /// The close of a firing, whose answer is the one that it must have.
    fn check(&self, firing: &FiringResult) -> i64 {
        let rows = shown(firing.answer.as_ref().unwrap());
        let close_ms = firing.close.0;
        assert_eq!(
            rows,
            expected_rows(self.counts, self.constant, close_ms),
            "{} at {close_ms}",
            self.name
        );
        close_ms
    }
}

/// While one thread pushes, others register queries, pause, resume and drop them: each answers
/// every close of its life, and of no other time, as if it were alone. Some share cohorts, whose
/// members other threads register and drop meanwhile. Nothing fires between registration and drop,
/// so the member may not have been placed yet when it is dropped.
#[test]
fn a_subscriber_of_a_resumed_query_gets_its_end() {
    let engine = engine();
    stream(&engine, "TIMELESS");
    for name in ["q", "other"] {
        let text = format!(
            "PREFIX : <{NS}> SELECT ?s FROM STREAM :s [RANGE 1s STEP 1s] WHERE {{ ?s :p :{name} }}"
        );
        engine.register(Some(name), &text).unwrap();
    }
    let listening = engine.subscribe("q", SubscribeOptions::default()).unwrap();
    for _ in 0..2 {
        engine.pause_query("q").unwrap();
        engine.resume_query("q").unwrap();
    }
    engine.drop_query("q").unwrap();
    let ended = listening.recv_timeout(LONG);
    assert!(matches!(ended, Ok(None)), "{ended:?}");
}

#[test]
fn queries_come_and_go_while_data_flows() {
    for delta in [DeltaMode::Auto, DeltaMode::Always] {
        come_and_go(delta);
    }
}

fn come_and_go(delta: DeltaMode) {
    let engine = Engine::open(EngineConfig {
        // However far the data advances before the subscription.
        kept_firings: 100_000,
        delta,
        ..config()
    })
    .unwrap();
    let s = stream(&engine, "");
    advance(&engine, 0);
    let visit = |visitor: i64| {
        for life in 0..25 {
            let visitor = Visitor {
                name: format!("{visitor}.{life}"),
                counts: life % 2 == 0,
                constant: (life + visitor) % 3,
                alone: life % 4 == 3,
            };
            visitor.live(&engine);
        }
    };
    std::thread::scope(|scope| {
        let visitors = [0, 1, 2].map(|visitor| scope.spawn(move || visit(visitor)));
        for close_ms in (1000..).step_by(1000) {
            if visitors.iter().all(|visitor| visitor.is_finished()) {
                break;
            }
            let likes = batch(close_ms).into_iter();
            let likes: Vec<String> = likes
                .map(|(who, what)| format!("a{who} likes p{what}"))
                .collect();
            let likes: Vec<(i64, &str)> = likes
                .iter()
                .map(|like| (close_ms - 1, like.as_str()))
                .collect();
            engine.push(&s, push(&likes)).unwrap();
            advance(&engine, close_ms);
        }
    });
    engine.quiesce(LONG).unwrap();
    assert!(engine.queries().is_empty());
    engine.check().unwrap();
}

/// An expired slice that a firing still read is freed when the firing is done, without another
/// push, read or advance.
#[test]
fn expired_slices_are_released_without_further_input() {
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let s = stream(engine, "KEEP 1s");
    engine.register(Some("slow"), &slow_text()).unwrap();
    let held_bytes = || engine.stream(&s).unwrap().memory_bytes;
    advance(engine, 0);
    let mut second_bytes = 0;
    for second in 0..10 {
        let likes: Vec<String> = (0..200).map(|n| format!("a{second}.{n} likes p")).collect();
        let likes: Vec<(i64, &str)> = likes
            .iter()
            .map(|like| (second * 1000, like.as_str()))
            .collect();
        // Neither waits for the firing.
        engine.push(&s, push(&likes)).unwrap();
        advance(engine, (second + 1) * 1000);
        if second == 0 {
            second_bytes = held_bytes();
        }
    }
    slow.endpoint.wait_until_asked(1);
    let before = held_bytes();
    assert!(
        second_bytes > 0 && before > 8 * second_bytes,
        "{second_bytes} {before}"
    );
    assert_eq!(engine.query_info("slow").unwrap().firings, 0);
    slow.endpoint.open();
    wait_until(|| held_bytes() <= 2 * second_bytes);
}

/// A recording of far more than its stream may hold, played as fast as possible while a firing
/// reads it: the replay waits for the firing instead of being refused, and loses nothing.
#[test]
fn a_replay_waits_where_the_budget_is_full() {
    const AT_ONCE: i64 = 100;
    let slow = Slow::open(config());
    let engine = &slow.engine;
    let s = stream(engine, "KEEP 1s BUDGET 24000");
    engine.register(Some("slow"), &slow_text()).unwrap();
    let answers = engine.subscribe("slow", SubscribeOptions::default());
    let answers = answers.unwrap();
    let mut recording = tempfile::NamedTempFile::new().unwrap();
    for second in 0..30 {
        for n in 0..AT_ONCE {
            let at_ms = second * 1000 + n;
            writeln!(recording, "{at_ms}\t<{NS}a{at_ms}> <{NS}likes> <{NS}p> .").unwrap();
        }
    }
    let plan = ReplayPlan {
        files: vec![StreamFile {
            stream: s.clone(),
            path: recording.path().to_owned(),
        }],
        batch_ms: 1000,
        until: None,
        snapshots: vec![],
    };
    let (mut held_bytes, mut was_full) = (0, false);
    let summary = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| !engine.budget_allows(&s, AT_ONCE as usize));
            // A replay that does not wait is refused before all of these are through.
            for n in 0..20 {
                let update = format!("INSERT DATA {{ <urn:a> <urn:b> {n} }}");
                engine.update(&update).run().unwrap();
            }
            slow.endpoint.open();
        });
        replay(engine, &plan, Speed::Max, &mut |_, _| {
            held_bytes = held_bytes.max(engine.stream(&s).unwrap().memory_bytes);
            was_full |= !engine.budget_allows(&s, AT_ONCE as usize);
            Ok(())
        })
    });
    let summary = summary.unwrap();
    assert_eq!(
        (summary.statements, summary.end),
        (30 * AT_ONCE as u64, EventTime(30_000))
    );
    assert!(
        was_full && held_bytes > 0 && held_bytes <= 24_000,
        "{held_bytes}"
    );
    for close_ms in (1000..=30_000).step_by(1000) {
        let firing = next(&answers);
        let rows = firing.answer.as_ref().unwrap().len();
        assert_eq!((firing.close.0, rows), (close_ms, AT_ONCE as usize));
    }
    assert_eq!(engine.metrics().refused, 0);
}

/// A declaration that another caller drops at once is not reported as one that was never made.
#[test]
fn a_declaration_that_is_dropped_at_once_was_made() {
    let engine = Engine::open(EngineConfig::default()).unwrap();
    stream(&engine, "");
    let brief = format!("CREATE STREAM <{NS}brief> BATCH 1s IDLE NEVER");
    let query = text(
        true,
        "SELECT ?x FROM NAMED STREAM :s [RANGE 1s STEP 1s] { GRAPH :s { ?x ?p ?y } }",
    );
    std::thread::scope(|scope| {
        let declaring = scope.spawn(|| {
            for _ in 0..200 {
                let stream = engine.create_stream(None, &brief).map(|_| ());
                let query = engine.register(Some("brief"), &query).map(|_| ());
                for declared in [stream, query] {
                    match declared {
                        Ok(()) | Err(EngineError::Conflict(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
        while !declaring.is_finished() {
            for dropped in [
                engine.drop_stream(&format!("{NS}brief")),
                engine.drop_query("brief"),
            ] {
                assert!(matches!(dropped, Ok(()) | Err(EngineError::NotFound(_))));
            }
        }
        declaring.join().unwrap();
    });
    engine.shutdown().unwrap();
}
