//! Live queries against their dull twin: the same query, asked whole after each change. Also across
//! crashes and checkpoints, and for durable subscriptions.

use crate::support::scenario::*;
use proptest::prelude::*;
use somersault::disk::{CrashKeep, SimDisk};
use somersault::{
    Clock, DurableOptions, Engine, EngineConfig, EngineError, LoadOptions, RdfFormat,
    SubscribeOptions,
};
use std::sync::Arc;
use std::time::Duration;

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const PREDICATES: [&str; 3] = ["likes", "knows", "saw"];
const GRAPHS: [&str; 3] = ["", "g", "h"];

const QUERIES: [&str; 16] = [
    "SELECT ?a ?c { ?a :likes ?b . ?b :knows ?c }",
    "SELECT ?b { :a :likes ?b }",
    "SELECT ?a { ?a :knows :b FILTER NOT EXISTS { ?a :saw ?x } }",
    "SELECT ?a ?c { ?a :likes ?b OPTIONAL { ?b :saw ?c } }",
    "SELECT ?a ?c { ?a :likes ?b MINUS { ?a :knows ?b } ?b :saw ?c }",
    "SELECT ?g ?a { GRAPH ?g { ?a :likes :c } }",
    "SELECT ?a ?b { GRAPH :g { ?a :knows ?b } }",
    "SELECT ?a ?b FROM :g FROM :h { ?a :likes ?b }",
    "SELECT ?g { GRAPH ?g {} }",
    "SELECT ?a ?b { ?a :likes/:knows* ?b }",
    "SELECT ?a ?b { ?a ^:saw|:knows ?b }",
    "SELECT ?p (COUNT(*) AS ?n) { ?a ?p ?b } GROUP BY ?p",
    "SELECT (COUNT(DISTINCT ?b) AS ?n) { ?a :likes ?b . ?a :knows ?c }",
    "SELECT ?a { { ?a :likes :a } UNION { SELECT ?a { ?a :saw ?b } ORDER BY ?a LIMIT 2 } }",
    "ASK { ?a :likes ?a }",
    "CONSTRUCT { ?c :liked ?a } { ?a :likes ?b . ?b :likes ?c }",
];

/// A change: whether it inserts, the graph, and the statement; or a graph that is cleared.
#[derive(Clone, Debug)]
enum Change {
    Write(bool, usize, [usize; 3]),
    Move([usize; 3], [usize; 3]),
    Clear(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let words = || [0..4usize, 0..3usize, 0..4usize];
    prop_oneof![
        12 => (any::<bool>(), 0..3usize, words()).prop_map(|(i, g, w)| Change::Write(i, g, w)),
        4 => (words(), words()).prop_map(|(from, to)| Change::Move(from, to)),
        1 => (0..3usize).prop_map(Change::Clear),
    ]
}

fn statement([a, p, b]: [usize; 3]) -> String {
    format!(":{} :{} :{}", NODES[a], PREDICATES[p], NODES[b])
}

fn update_text(change: &Change) -> String {
    let within = |graph: usize, statement: String| match GRAPHS[graph] {
        "" => statement,
        graph => format!("GRAPH :{graph} {{ {statement} }}"),
    };
    match change {
        Change::Write(inserts, graph, words) => {
            let verb = ["DELETE", "INSERT"][usize::from(*inserts)];
            format!("{verb} DATA {{ {} }}", within(*graph, statement(*words)))
        }
        Change::Move(from, to) => format!(
            "DELETE {{ ?a ?p ?b }} INSERT {{ {} }} WHERE {{ {} . ?a ?p ?b }}",
            statement(*to),
            statement(*from)
        ),
        Change::Clear(0) => "CLEAR DEFAULT".to_owned(),
        Change::Clear(graph) => format!("CLEAR SILENT GRAPH :{}", GRAPHS[*graph]),
    }
}

fn update(engine: &Engine, text: &str) -> Result<(), EngineError> {
    engine
        .update(&format!("PREFIX : <{NS}> {text}"))
        .run()
        .map(drop)
}

fn open() -> Engine {
    Engine::open(EngineConfig {
        kept_firings: 10_000,
        ..config()
    })
    .unwrap()
}

fn register(engine: &Engine, name: &str, text: &str) -> Result<(), EngineError> {
    let text = format!("PREFIX : <{NS}> {text}");
    engine.register(Some(name), &text).map(drop)
}

/// The answers that a query has given so far.
fn answers(engine: &Engine, name: &str) -> Vec<Vec<String>> {
    firings(engine, name, None)
        .into_iter()
        .map(|it| it.1)
        .collect()
}

/// Without those that are like the one before.
fn changes(mut answers: Vec<Vec<String>>) -> Vec<Vec<String>> {
    answers.dedup();
    answers
}

#[test]
fn an_answer_is_given_when_it_has_changed() {
    let engine = open();
    update(&engine, "INSERT DATA { :a :likes :b }").unwrap();
    register(&engine, "q", "SELECT ?b { :a :likes ?b }").unwrap();
    for text in [
        "INSERT DATA { :a :likes :c }",
        "INSERT DATA { :a :likes :c }",
        "INSERT DATA { :b :likes :c }",
        "INSERT DATA { :a :knows :c }",
        "DELETE DATA { :a :likes :b }",
        "DELETE DATA { :a :likes :d }",
    ] {
        update(&engine, text).unwrap();
    }
    let expected = [vec!["b"], vec!["b", "c"], vec!["c"]];
    assert_eq!(answers(&engine, "q"), expected);
    // Updates without effect, and the statements of others, made nothing fire.
    let info = engine.query_info("q").unwrap();
    assert!(info.live && info.windows.is_empty());
    assert_eq!(info.firings, 3);
}

#[test]
fn a_load_and_a_stream_change_what_is_stored() {
    let engine = open();
    register(&engine, "q", "SELECT ?a { ?a :likes :b }").unwrap();
    let lines = format!("<{NS}a> <{NS}likes> <{NS}b> .\n");
    engine
        .load(
            lines.as_bytes(),
            RdfFormat::NTriples,
            LoadOptions::default(),
        )
        .unwrap();
    let create = format!("CREATE STREAM <{NS}s> TIMELESS BATCH 1s IDLE NEVER");
    engine.create_stream(None, &create).unwrap();
    let pushed = push(&[(100, "c likes b"), (100, "c likes d")]);
    engine.push(&format!("{NS}s"), pushed).unwrap();
    advance(&engine, 1_000);
    let expected: [&[&str]; 3] = [&[], &["a"], &["a", "c"]];
    assert_eq!(answers(&engine, "q"), expected);
}

#[test]
fn a_query_with_a_name_in_its_text_and_in_a_batch() {
    let engine = open();
    let text = format!("PREFIX : <{NS}> REGISTER QUERY q EVERY 1s AS SELECT ?a {{ ?a :likes :b }}");
    let info = engine.register(None, &text).unwrap();
    assert_eq!((info.every_ms, info.live), (Some(1_000), true));
    let batch = NODES.map(|node| somersault::NewQuery {
        name: Some(format!("by-{node}")),
        text: format!("PREFIX : <{NS}> SELECT ?x {{ ?x :likes :{node} }}"),
    });
    let outcomes = engine.register_many(batch).unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    update(&engine, "INSERT DATA { :a :likes :c }").unwrap();
    assert_eq!(answers(&engine, "by-c"), [vec![], vec!["a"]]);
    assert_eq!(answers(&engine, "by-d").len(), 1);
    let explained = engine.query(&text).explain().unwrap();
    let reads = format!("reads ?s <{NS}likes> <{NS}b> in the default graph");
    assert!(explained.contains(&reads), "{explained}");
    assert!(explained.contains("at most once in 1000 ms"), "{explained}");
}

#[test]
fn the_declarations_of_a_dump_have_live_queries() {
    let engine = open();
    register(&engine, "q", "SELECT ?a { ?a :likes :b }").unwrap();
    let declared = engine.declarations().unwrap();
    assert!(
        declared.starts_with("REGISTER QUERY \"q\" AS"),
        "{declared}"
    );
}

#[test]
fn a_paused_query_fires_when_it_is_resumed() {
    let engine = open();
    for (name, text) in [
        ("all", "SELECT ?b { :a :likes ?b }"),
        ("new", "SELECT ISTREAM ?b { :a :likes ?b }"),
    ] {
        register(&engine, name, text).unwrap();
        update(&engine, "INSERT DATA { :a :likes :b }").unwrap();
        engine.quiesce(Duration::from_secs(60)).unwrap();
        engine.pause_query(name).unwrap();
        update(&engine, "INSERT DATA { :a :likes :c }").unwrap();
        update(&engine, "DELETE DATA { :a :likes :b }").unwrap();
        engine.resume_query(name).unwrap();
        update(&engine, "INSERT DATA { :a :likes :d }").unwrap();
        engine.quiesce(Duration::from_secs(60)).unwrap();
        update(&engine, "DELETE WHERE { :a :likes ?b }").unwrap();
    }
    let all: [&[&str]; 5] = [&[], &["b"], &["c"], &["c", "d"], &[]];
    assert_eq!(answers(&engine, "all")[..5], all);
    assert_eq!(answers(&engine, "new"), [["b"], ["c"], ["d"]]);
}

#[test]
fn differences_add_up_to_the_answer() {
    let engine = open();
    for (name, operator) in [("came", "ISTREAM"), ("left", "DSTREAM")] {
        let text = format!("SELECT {operator} ?a ?b {{ ?a :likes ?b }}");
        register(&engine, name, &text).unwrap();
    }
    for text in [
        "INSERT DATA { :a :likes :b, :c }",
        "DELETE DATA { :a :likes :b }",
        "INSERT DATA { :a :knows :b }",
        "DELETE { ?a :likes :c } INSERT { ?a :likes :d } WHERE { ?a :likes :c }",
    ] {
        update(&engine, text).unwrap();
        engine.quiesce(Duration::from_secs(60)).unwrap();
    }
    assert_eq!(answers(&engine, "came"), [vec!["a b", "a c"], vec!["a d"]]);
    assert_eq!(answers(&engine, "left"), [["a b"], ["a c"]]);
}

#[test]
fn every_and_the_clock() {
    let engine = Engine::open(EngineConfig {
        clock: Clock::System,
        ..config()
    })
    .unwrap();
    let text =
        format!("PREFIX : <{NS}> REGISTER QUERY q EVERY 200ms AS SELECT ?o {{ :a :likes ?o }}");
    engine.register(None, &text).unwrap();
    let subscription = engine.subscribe("q", SubscribeOptions::default()).unwrap();
    let next = || firing(subscription.recv().unwrap()).unwrap();
    let first = next();
    for at in 0..5 {
        update(&engine, &format!("INSERT DATA {{ :a :likes :o{at} }}")).unwrap();
    }
    let mut last = first.close.0;
    loop {
        // Nothing else happens: the clock alone makes the next firing due.
        let firing = next();
        assert!(
            firing.close.0 >= last + 200,
            "{} after {last}",
            firing.close.0
        );
        last = firing.close.0;
        if shown(firing.answer.as_ref().unwrap()).len() == 5 {
            return;
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
    fn each_changed_answer_is_given_once(
        before in proptest::collection::vec(change(), 0..20),
        changed in proptest::collection::vec(change(), 1..40),
        waits in any::<bool>(),
    ) {
        let engine = open();
        for change in &before {
            update(&engine, &update_text(change)).unwrap();
        }
        for (at, query) in QUERIES.iter().enumerate() {
            register(&engine, &format!("q{at}"), query).unwrap();
        }
        let ask_all = || QUERIES.map(|query| ask(&engine, query));
        let mut asked = vec![ask_all()];
        for change in &changed {
            update(&engine, &update_text(change)).unwrap();
            if waits {
                engine.quiesce(Duration::from_secs(60)).unwrap();
            }
            asked.push(ask_all());
        }
        for at in 0..QUERIES.len() {
            let given = answers(&engine, &format!("q{at}"));
            let whole = changes(asked.iter().map(|all| all[at].clone()).collect());
            if waits {
                prop_assert_eq!(given, whole, "{}", QUERIES[at]);
                continue;
            }
            // Changes that come too quickly are joined: some answers are left out.
            let mut rest = whole.iter();
            let is_in_order = given.iter().all(|answer| rest.any(|one| one == answer));
            prop_assert!(is_in_order, "{}: {given:?} of {whole:?}", QUERIES[at]);
            prop_assert_eq!(given.last(), whole.last(), "{}", QUERIES[at]);
        }
        engine.check().unwrap();
    }
}

type Step = Box<dyn Fn(&Engine) -> Result<(), EngineError>>;

/// Inputs that may be sent again.
fn inputs() -> Vec<Step> {
    let mut inputs: Vec<Step> = vec![
        Box::new(|engine| register(engine, "q", "SELECT ?a ?b { ?a :likes ?b }")),
        Box::new(|engine| register(engine, "new", "SELECT ISTREAM ?a ?b { ?a :likes ?b }")),
        Box::new(|engine| {
            let options = DurableOptions::default();
            engine.subscribe_durably("q", "s", &options).map(drop)
        }),
    ];
    for at in 0..8 {
        inputs.push(Box::new(move |engine| {
            update(engine, &format!("INSERT DATA {{ :a :likes :o{at} }}"))?;
            engine.quiesce(Duration::from_secs(60))
        }));
        inputs.push(Box::new(move |engine| {
            update(engine, &format!("DELETE DATA {{ :a :likes :o{} }}", at / 2))?;
            engine.quiesce(Duration::from_secs(60))
        }));
    }
    inputs
}

fn outcome(engine: &Engine) -> [Vec<Vec<String>>; 2] {
    engine.check().unwrap();
    ["q", "new"].map(|name| answers(engine, name))
}

fn uninterrupted() -> [Vec<Vec<String>>; 2] {
    let engine = open();
    inputs().iter().for_each(|input| input(&engine).unwrap());
    let outcome = outcome(&engine);
    assert!(
        outcome[0].len() > 10 && outcome[1].len() >= 8,
        "{outcome:?}"
    );
    outcome
}

#[test]
fn crashed_at_any_sync_of_the_disk() {
    let expected = uninterrupted();
    let inputs = inputs();
    let settings = EngineConfig {
        kept_firings: 10_000,
        ..config()
    };
    let open = |disk: &SimDisk| Engine::open_on(settings.clone(), Arc::new(disk.clone()));
    for sync in 0..80 {
        let keep = [
            CrashKeep::Synced,
            CrashKeep::Written,
            CrashKeep::Seeded(sync),
        ];
        let disk = SimDisk::new();
        disk.crash_at_sync(sync, keep[sync as usize % 3]);
        let mut acknowledged = 0;
        let crashed = open(&disk).map(|engine| {
            let inputs = inputs.iter();
            acknowledged = inputs.take_while(|input| input(&engine).is_ok()).count();
        });
        if crashed.is_ok() && acknowledged == inputs.len() {
            return;
        }
        let engine = open(&disk.restarted()).unwrap();
        let left = &inputs[acknowledged..];
        left.iter().for_each(|input| input(&engine).unwrap());
        assert_eq!(outcome(&engine), expected, "crashed at sync {sync}");
    }
}

#[test]
fn begun_from_a_checkpoint_after_any_input() {
    let expected = uninterrupted();
    let inputs = inputs();
    let settings = EngineConfig {
        kept_firings: 10_000,
        ..config()
    };
    for taken in 0..inputs.len() {
        let crashes = (taken + 2).min(inputs.len());
        let disk = SimDisk::new();
        let engine = Engine::open_on(settings.clone(), Arc::new(disk.clone())).unwrap();
        inputs[..taken].iter().for_each(|it| it(&engine).unwrap());
        engine.checkpoint().unwrap();
        inputs[taken..crashes]
            .iter()
            .for_each(|it| it(&engine).unwrap());
        drop(engine);
        let engine = Engine::open_on(settings.clone(), Arc::new(disk.restarted())).unwrap();
        inputs[crashes..].iter().for_each(|it| it(&engine).unwrap());
        assert_eq!(outcome(&engine), expected, "taken after {taken} inputs");
    }
}
