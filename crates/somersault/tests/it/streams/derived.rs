//! Derived streams and late statements, through the whole engine: what feeds what, what is refused,
//! and that a run which is cut off anywhere ends as the run that never was (RC-1, S13).

use crate::support::scenario::*;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{
    Engine, EngineConfig, EngineError, EventTime, FiringId, Push, SubscribeOptions,
    SubscriptionEvent,
};
use std::sync::Arc;
use std::time::Duration;

const WARM: &str = "REGISTER STREAM :warm TIMELESS INTO GRAPH :facts AS
    CONSTRUCT { ?room :is :warm } FROM NAMED STREAM :s [RANGE 2s STEP 1s]
    WHERE { GRAPH :s { ?room :has ?heat } FILTER(?heat > 20) }";

fn text(query: &str) -> String {
    format!("PREFIX : <{NS}> {query}")
}

fn stream(engine: &Engine, name: &str, clauses: &str) -> Result<(), EngineError> {
    let text = format!("CREATE STREAM <{NS}{name}> BATCH 1s IDLE NEVER {clauses}");
    engine.create_stream(None, &text).map(drop)
}

fn register(engine: &Engine, name: Option<&str>, query: &str) -> Result<(), EngineError> {
    engine.register(name, &text(query)).map(drop)
}

/// The stream of warm rooms, and a query over it.
fn warm_and_alarm(engine: &Engine) {
    register(engine, None, WARM).unwrap();
    register(
        engine,
        Some("alarm"),
        "SELECT ?room FROM NAMED STREAM :warm [RANGE 1s STEP 1s] WHERE { GRAPH :warm { ?room :is :warm } }",
    )
    .unwrap();
}

fn heat(room: &str, degrees: u8) -> String {
    format!("{room} has \"{degrees}\"^^<http://www.w3.org/2001/XMLSchema#integer>")
}

fn step(engine: &Engine, to_ms: i64) -> Result<(), EngineError> {
    engine
        .advance([(format!("{NS}s"), EventTime(to_ms))])
        .map(drop)
}

/// Close, revision and rows of every firing that is kept.
fn answers(engine: &Engine, name: &str) -> Vec<(i64, u32, Vec<String>)> {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let subscription = engine.subscribe(name, SubscribeOptions::default()).unwrap();
    std::iter::from_fn(|| subscription.try_recv())
        .map(|event| firing(event).unwrap())
        .map(|it| (it.close.0, it.revision, shown(it.answer.as_ref().unwrap())))
        .collect()
}

fn rows(of: &[(i64, u32, &[&str])]) -> Vec<(i64, u32, Vec<String>)> {
    of.iter()
        .map(|(close, revision, rows)| {
            let rows = rows.iter().map(|row| (*row).to_owned()).collect();
            (*close, *revision, rows)
        })
        .collect()
}

#[test]
fn answers_feed_other_queries_one_step_later_and_are_absorbed() {
    let engine = engine();
    stream(&engine, "s", "").unwrap();
    warm_and_alarm(&engine);
    step(&engine, 0).unwrap();
    engine
        .push(
            &format!("{NS}s"),
            push(&[(100, &heat("hall", 25)), (200, &heat("attic", 10))]),
        )
        .unwrap();
    step(&engine, 2000).unwrap();
    // The firing for 1 s puts its statements at 1 s, and the window over them closes at 2 s.
    assert_eq!(
        answers(&engine, "alarm"),
        rows(&[(2000, 0, &["hall"]), (3000, 0, &["hall"])])
    );
    assert_eq!(
        ask(&engine, "SELECT ?room { GRAPH :facts { ?room :is :warm } }"),
        ["hall"]
    );
    let warm = engine.stream(&format!("{NS}warm")).unwrap();
    assert_eq!(warm.derived_by, Some(format!("{NS}warm")));
    assert_eq!(
        (warm.batch_ms, warm.watermark, warm.tuples),
        (1000, Some(EventTime(3000)), 2)
    );
    let alarm = engine.query_info("alarm").unwrap();
    assert_eq!(alarm.waiting_for.unwrap().stream, format!("{NS}warm"));

    // The heat has left the window, the fact stays.
    step(&engine, 4000).unwrap();
    assert_eq!(
        answers(&engine, "alarm")[2..],
        rows(&[(4000, 0, &[]), (5000, 0, &[])])
    );
    assert_eq!(
        ask(&engine, "SELECT ?room { GRAPH :facts { ?room :is :warm } }"),
        ["hall"]
    );
}

#[test]
fn the_statements_of_a_firing_are_numbered_in_the_order_of_their_text() {
    let engine = engine();
    stream(&engine, "s", "").unwrap();
    register(
        &engine,
        None,
        "REGISTER STREAM :d AS CONSTRUCT { ?a :q ?b } FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?a :p ?b }",
    )
    .unwrap();
    register(
        &engine,
        Some("last"),
        "SELECT ?a FROM NAMED WINDOW :w ON :d [ELEMENTS 1 STEP 1] WHERE { WINDOW :w { ?a :q ?b } }",
    )
    .unwrap();
    step(&engine, 0).unwrap();
    // Their ids ascend in another order.
    let pushed = push(&[
        (100, "c p x"),
        (200, "a p x"),
        (300, "d p x"),
        (400, "b p x"),
    ]);
    engine.push(&format!("{NS}s"), pushed).unwrap();
    step(&engine, 2000).unwrap();
    assert_eq!(
        answers(&engine, "last"),
        ["a", "b", "c", "d"].map(|name| (2000, 0, vec![name.to_owned()]))
    );
}

#[test]
fn derivations_that_cannot_work_are_refused() {
    let engine = engine();
    stream(&engine, "s", "").unwrap();
    let refused = |result: Result<(), EngineError>, parts: &[&str]| {
        let sentence = result.expect_err("refused").to_string();
        for part in parts {
            assert!(sentence.contains(part), "{sentence}");
        }
    };
    let derive = |name: &str, from: &str| {
        let query = format!(
            "REGISTER STREAM :{name} AS CONSTRUCT {{ ?a :p ?b }} FROM STREAM :{from} [RANGE 1s STEP 1s] WHERE {{ ?a :p ?b }}"
        );
        register(&engine, None, &query)
    };
    refused(
        derive("s", "s"),
        &["<http://example.org/s> from <http://example.org/s>"],
    );
    derive("a", "s").unwrap();
    derive("b", "a").unwrap();
    // Deriving s itself from b would close the cycle: every stream on the way is named.
    refused(
        derive("s", "b"),
        &[
            "would feed itself",
            "/s> from <http://example.org/b> from <http://example.org/a> from <http://example.org/s>",
        ],
    );
    refused(
        derive("c", "unknown"),
        &["unknown", "not a declared stream"],
    );
    refused(
        stream(&engine, "a", ""),
        &["exists with another declaration"],
    );

    let (a, b) = (format!("{NS}a"), format!("{NS}b"));
    refused(
        engine.push(&a, push(&[(1, "x p y")])).map(drop),
        &["derived by query", "push to the streams"],
    );
    refused(
        engine.advance([(&a, EventTime(5))]).map(drop),
        &["derived by query"],
    );
    refused(engine.drop_stream(&a), &["derived by query", "DROP QUERY"]);
    refused(engine.drop_query(&a), &["windowed by", &b]);
    engine.drop_query(&b).unwrap();
    assert!(
        engine.stream(&b).is_err(),
        "dropping the query ends the stream"
    );
    engine.drop_query(&a).unwrap();
    engine.drop_stream(&format!("{NS}s")).unwrap();
}

#[test]
fn an_amended_firing_that_fails_keeps_its_derived_statements() {
    let mut settings = config();
    settings.limits.result_rows = 2;
    let engine = Engine::open(settings).unwrap();
    stream(&engine, "s", "LATENESS 0s LATE AMEND WITHIN 60s").unwrap();
    warm_and_alarm(&engine);
    let send = |statements: &[(i64, String)]| {
        let statements: Vec<_> = (statements.iter())
            .map(|(at, it)| (*at, it.as_str()))
            .collect();
        engine
            .push(&format!("{NS}s"), push(&statements))
            .map(drop)
            .unwrap();
    };
    step(&engine, 0).unwrap();
    send(&[(100, heat("hall", 25))]);
    step(&engine, 2000).unwrap();
    let first = rows(&[(2000, 0, &["hall"]), (3000, 0, &["hall"])]);
    assert_eq!(answers(&engine, "alarm"), first);
    // With these the answers for 1 s and 2 s have three rows, one more than they may.
    send(&[(200, heat("attic", 25)), (300, heat("cellar", 25))]);
    step(&engine, 2000).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let warm = engine.query_info(&format!("{NS}warm")).unwrap();
    assert_eq!((warm.firings, warm.amended), (4, 2));
    let error = warm.last_error.expect("the amended firings failed");
    assert!(error.contains("more than 2 rows"), "{error}");
    assert_eq!(answers(&engine, "alarm"), first, "nothing was amended");
    assert_eq!(engine.stream(&format!("{NS}warm")).unwrap().tuples, 2);
    // The streams go on all the same.
    step(&engine, 4000).unwrap();
    assert_eq!(answers(&engine, "alarm").len(), 4);
}

/// A query over an amended stream that keeps this many firings, at 3 s with its first close amended
/// once.
fn amended_once(kept: usize) -> Engine {
    let settings = EngineConfig {
        kept_firings: kept,
        ..config()
    };
    let engine = Engine::open(settings).unwrap();
    stream(&engine, "s", "LATENESS 0s LATE AMEND WITHIN 60s").unwrap();
    register(
        &engine,
        Some("q"),
        "SELECT ?room FROM NAMED STREAM :s [RANGE 1s STEP 1s] WHERE { GRAPH :s { ?room :has ?heat } }",
    )
    .unwrap();
    step(&engine, 0).unwrap();
    step(&engine, 3000).unwrap();
    amend(&engine, "hall");
    engine
}

/// Amends the close at 1 s.
fn amend(engine: &Engine, room: &str) {
    let s = format!("{NS}s");
    engine.push(&s, push(&[(500, &heat(room, 20))])).unwrap();
    step(engine, 3000).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
}

#[test]
fn a_reconnecting_subscriber_is_told_of_missed_amended_firings() {
    let engine = amended_once(2);
    step(&engine, 5000).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    // The order was 1 s, 2 s, 3 s, 1 s amended, 4 s, 5 s; the last two are kept.
    let is_told = |after_ms: i64| {
        let options = SubscribeOptions {
            after: Some(FiringId::at(EventTime(after_ms))),
            ..SubscribeOptions::default()
        };
        let subscription = engine.subscribe("q", options).unwrap();
        let first = subscription.try_recv();
        matches!(first, Some(SubscriptionEvent::Lagged { missed: None }))
    };
    assert_eq!(
        [1000, 2000, 3000, 4000, 5000].map(is_told),
        [true, true, true, false, false]
    );
}

#[test]
fn a_new_subscriber_may_begin_after_an_amended_firing() {
    let engine = amended_once(64);
    let options = SubscribeOptions {
        from_now: true,
        ..SubscribeOptions::default()
    };
    let subscription = engine.subscribe("q", options).unwrap();
    assert!(
        subscription.try_recv().is_none(),
        "every firing is older than the last one read"
    );
    amend(&engine, "attic");
    step(&engine, 4000).unwrap();
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let new: Vec<(i64, u32)> = std::iter::from_fn(|| subscription.try_recv())
        .map(|event| firing(event).unwrap())
        .map(|it| (it.close.0, it.revision))
        .collect();
    assert_eq!(new, [(1000, 2), (4000, 0)]);
}

type Step = Box<dyn Fn(&Engine) -> Result<(), EngineError>>;

/// A stream that is amended, a stream derived from it that is absorbed, another derived from that,
/// and a query over the last one and the stored graph. Each input is safe to be sent again.
fn inputs() -> Vec<Step> {
    let mut inputs: Vec<Step> = vec![
        Box::new(|engine| stream(engine, "s", "LATENESS 0s LATE AMEND WITHIN 3s")),
        Box::new(|engine| register(engine, None, WARM)),
        Box::new(|engine| {
            register(
                engine,
                None,
                "REGISTER STREAM :twice AS CONSTRUCT { ?room :was ?n } WHERE {
                   { SELECT ?room (COUNT(*) AS ?n) { STREAM :warm [RANGE 2s SLIDE 1s] { ?room :is :warm } } GROUP BY ?room } }",
            )
        }),
        Box::new(|engine| {
            register(
                engine,
                Some("q"),
                "SELECT ?room ?n ?other FROM NAMED STREAM :twice [RANGE 2s STEP 1s]
                 WHERE { GRAPH :twice { ?room :was ?n } OPTIONAL { ?room :beside ?other } }",
            )
        }),
        Box::new(|engine| step(engine, 0)),
    ];
    for second in 0..5_i64 {
        inputs.push(Box::new(move |engine| {
            let at = second * 1000 + 100;
            let room = format!("room{}", second % 3);
            let one = heat(&room, 30);
            engine
                .push(
                    &format!("{NS}s"),
                    numbered(2 * second as u64, &[(at, &one)]),
                )
                .map(drop)
        }));
        inputs.push(Box::new(move |engine| step(engine, (second + 1) * 1000)));
        if second == 2 {
            // Two late statements in one push, and one that nothing amends any more.
            inputs.push(Box::new(|engine| {
                let (one, two) = (heat("cellar", 22), heat("attic", 23));
                let late = numbered(5, &[(300, &one), (1300, &two), (-5000, &one)]);
                let receipt = engine.push(&format!("{NS}s"), late)?;
                assert!(receipt.repeated || receipt.dropped == 1, "{receipt:?}");
                // Where everybody is already; answered once all that the late statements amend is.
                step(engine, 3000)
            }));
        }
        inputs.push(Box::new(move |engine| {
            let update = text(&format!(
                "INSERT DATA {{ :room{} :beside :n{second} }}",
                second % 3
            ));
            engine.update(&update).run().map(drop)
        }));
    }
    inputs.push(Box::new(|engine| step(engine, 8000)));
    inputs
}

type Outcome = (Vec<Vec<(i64, u32, Vec<String>)>>, Vec<String>, u64);

fn outcome(engine: &Engine) -> Outcome {
    let queries = [format!("{NS}warm"), format!("{NS}twice"), "q".to_owned()];
    let mut all: Vec<_> = queries.iter().map(|name| answers(engine, name)).collect();
    // An amended firing and one of a later close may become due in either order.
    all.iter_mut().for_each(|firings| firings.sort());
    let stored = ask(
        engine,
        "SELECT ?s ?p ?o { { ?s ?p ?o } UNION { GRAPH :facts { ?s ?p ?o } } }",
    );
    engine.check().unwrap();
    let late = engine.stream(&format!("{NS}s")).unwrap().late;
    (all, stored, late)
}

fn uninterrupted() -> Outcome {
    let engine = engine();
    for input in inputs() {
        input(&engine).unwrap();
    }
    let outcome = outcome(&engine);
    for firings in &outcome.0 {
        assert!(
            firings.iter().any(|(_, revision, _)| *revision > 0),
            "{firings:?}"
        );
        assert!(
            firings.iter().any(|(_, _, rows)| !rows.is_empty()),
            "{firings:?}"
        );
    }
    assert_eq!(outcome.2, 1);
    outcome
}

#[test]
fn an_amendment_reaches_the_last_query_of_a_chain() {
    let (firings, stored, _) = uninterrupted();
    let [warm, _, last] = &firings[..] else {
        panic!("three queries")
    };
    // Two late statements of one push make one revision of each close that either is in.
    let amended: Vec<(i64, u32)> = (warm.iter())
        .filter(|(_, revision, _)| *revision > 0)
        .map(|(close, revision, _)| (*close, *revision))
        .collect();
    assert_eq!(amended, [(1000, 1), (2000, 1), (3000, 1)]);
    assert!(
        last.iter().any(|(_, revision, rows)| {
            *revision > 0 && rows.iter().any(|row| row.starts_with("cellar"))
        }),
        "{last:?}"
    );
    assert!(
        stored.iter().any(|row| row.starts_with("attic is warm")),
        "{stored:?}"
    );
}

#[test]
fn dropped_without_shutdown_after_any_input() {
    let expected = uninterrupted();
    let inputs = inputs();
    for cut in 0..inputs.len() {
        let disk = SimDisk::new();
        let engine = Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
        for input in &inputs[..cut] {
            input(&engine).unwrap();
        }
        drop(engine);
        let engine = Engine::open_on(config(), Arc::new(disk.restarted())).unwrap();
        for input in &inputs[cut..] {
            input(&engine).unwrap();
        }
        assert_eq!(outcome(&engine), expected, "cut before input {cut}");
    }
}

#[test]
fn crashed_at_any_sync_of_the_disk() {
    let expected = uninterrupted();
    let inputs = inputs();
    for sync in 0..1_000 {
        let keep = match sync % 3 {
            0 => CrashKeep::Synced,
            1 => CrashKeep::Written,
            _ => CrashKeep::Seeded(sync),
        };
        let disk = SimDisk::new();
        disk.crash_at_sync(sync, keep);
        let mut acknowledged = 0;
        let crashed = Engine::open_on(config(), Arc::new(disk.clone())).map(|engine| {
            let inputs = inputs.iter();
            acknowledged = inputs.take_while(|input| input(&engine).is_ok()).count();
        });
        if crashed.is_ok() && acknowledged == inputs.len() {
            return;
        }
        // Only what was not acknowledged is sent again, the first of it perhaps twice.
        let engine = Engine::open_on(config(), Arc::new(disk.restarted())).unwrap();
        for input in &inputs[acknowledged..] {
            input(&engine).unwrap();
        }
        assert_eq!(outcome(&engine), expected, "crashed at sync {sync}");
    }
    panic!("the run has more syncs than were tried");
}

#[test]
fn reports_are_narrowed_and_firings_are_not() {
    let engine = engine();
    stream(&engine, "s", "").unwrap();
    let forms = [
        "SELECT ?room",
        "CONSTRUCT { ?room :is :warm }",
        "CONSTRUCT { ?room :is :warm GRAPH :seen { ?room :is :warm } }",
    ];
    for (form, head) in forms.into_iter().enumerate() {
        for (name, options) in [
            ("all", ""),
            ("changes", "REPORT ON CHANGE"),
            ("some", "REPORT NON EMPTY"),
            ("both", "REPORT ON CHANGE REPORT NON EMPTY"),
        ] {
            let text = format!(
                "{head} FROM NAMED STREAM :s [RANGE 2s STEP 1s] {options} WHERE {{ GRAPH :s {{ ?room :has ?heat }} }}"
            );
            register(&engine, Some(&format!("{name}{form}")), &text).unwrap();
        }
    }
    step(&engine, 0).unwrap();
    for (at, room) in [(100, "hall"), (1100, "hall"), (4100, "attic")] {
        let statement = heat(room, 20);
        engine
            .push(&format!("{NS}s"), push(&[(at, &statement)]))
            .unwrap();
    }
    step(&engine, 7000).unwrap();
    let closes = |name: &str| -> Vec<i64> {
        let answers = answers(&engine, name);
        assert_eq!(engine.query_info(name).unwrap().firings, 7, "{name}");
        answers.iter().map(|(close, _, _)| *close).collect()
    };
    // hall in the windows of 1 s to 3 s, attic in those of 5 s and 6 s.
    for form in 0..forms.len() {
        let closes = |name: &str| closes(&format!("{name}{form}"));
        assert_eq!(closes("all"), [1000, 2000, 3000, 4000, 5000, 6000, 7000]);
        assert_eq!(closes("changes"), [1000, 4000, 5000, 7000]);
        assert_eq!(closes("some"), [1000, 2000, 3000, 5000, 6000]);
        assert_eq!(closes("both"), [1000, 5000]);
    }
}

/// More pairs than can be joined while this many closes become due.
fn crowd() -> Push {
    let names: Vec<String> = (0..600).map(|n| format!("a{n} p o")).collect();
    let statements: Vec<(i64, &str)> = names.iter().map(|name| (100, name.as_str())).collect();
    push(&statements)
}

#[test]
fn on_overload_skip_answers_the_newest_close_and_counts_the_skipped() {
    let engine = engine();
    stream(&engine, "s", "BUDGET 1 GiB").unwrap();
    let heavy = |options: &str| {
        format!(
            "SELECT (COUNT(*) AS ?n) FROM STREAM :s [RANGE 100s STEP 1s] {options} WHERE {{ ?a :p ?x . ?b :p ?y FILTER(?a != ?b) }}"
        )
    };
    register(&engine, Some("skips"), &heavy("ON OVERLOAD SKIP")).unwrap();
    register(&engine, Some("waits"), &heavy("")).unwrap();
    step(&engine, 0).unwrap();
    engine.push(&format!("{NS}s"), crowd()).unwrap();
    step(&engine, 60_000).unwrap();
    let newest = |name: &str| answers(&engine, name).last().cloned();
    assert_eq!(
        newest("skips"),
        newest("waits"),
        "the newest close is never skipped"
    );
    let (skips, waits) = (
        engine.query_info("skips").unwrap(),
        engine.query_info("waits").unwrap(),
    );
    assert_eq!(
        (waits.firings, waits.skipped),
        (60, 0),
        "a query without ON OVERLOAD SKIP skips nothing"
    );
    assert_eq!(skips.firings + skips.skipped, 60);
    assert!(skips.skipped > 0, "60 closes became due at once: {skips:?}");
    let metrics = engine.metrics();
    let counted = metrics
        .queries
        .iter()
        .find(|query| query.name == "skips")
        .unwrap();
    assert_eq!(counted.skipped, skips.skipped);
}

#[test]
fn a_firing_abandoned_at_shutdown_derives_after_the_restart() {
    let disk = SimDisk::new();
    let open = |disk: &SimDisk| Engine::open_on(config(), Arc::new(disk.clone())).unwrap();
    let engine = open(&disk);
    stream(&engine, "s", "BUDGET 1 GiB").unwrap();
    register(
        &engine,
        None,
        "REGISTER STREAM :pairs AS CONSTRUCT { :all :are ?n } FROM STREAM :s [RANGE 1s STEP 1s]
         WHERE { SELECT (COUNT(*) AS ?n) WHERE { ?a :p ?x . ?b :p ?y FILTER(?a != ?b) } }",
    )
    .unwrap();
    register(
        &engine,
        Some("counted"),
        "SELECT ?n FROM NAMED STREAM :pairs [RANGE 1s STEP 1s] WHERE { GRAPH :pairs { ?all :are ?n } }",
    )
    .unwrap();
    step(&engine, 0).unwrap();
    engine.push(&format!("{NS}s"), crowd()).unwrap();
    // With this the close is due; a push waits for no answer, and the join takes longer than the
    // engine lives.
    let later = push(&[(1000, "a p b")]);
    engine.push(&format!("{NS}s"), later).unwrap();
    drop(engine);
    let engine = open(&disk.restarted());
    let pairs = "\"359400\"^^<http://www.w3.org/2001/XMLSchema#integer";
    assert_eq!(answers(&engine, "counted"), rows(&[(2000, 0, &[pairs])]));
}
