//! Delta evaluation: an engine whose queries keep rows wherever they can answers as one does that
//! evaluates every close as a whole, while facts are absorbed, updates change what is stored, and
//! late statements amend closes.

use crate::support::scenario::*;
use proptest::prelude::*;
use somersault::{DeltaMode, Engine, EngineConfig, QueryOptions, SubscribeOptions};
use std::time::Duration;

const NODES: [&str; 4] = ["a", "b", "c", "d"];
const PREDICATES: [&str; 3] = ["likes", "knows", "saw"];

/// Values of statements, in the language of patterns: numbers in their ids and not, and what is no
/// number.
const VALUES: [&str; 9] = [
    "\"1\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"-7\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"9223372036854775807\"^^<http://www.w3.org/2001/XMLSchema#integer>",
    "\"2.50\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
    "\"0.333333333333333333\"^^<http://www.w3.org/2001/XMLSchema#decimal>",
    "\"0.1\"^^<http://www.w3.org/2001/XMLSchema#double>",
    "\"1e300\"^^<http://www.w3.org/2001/XMLSchema#double>",
    "\"longer-than-inline\"",
    "an-iri",
];

const QUERIES: [&str; 12] = [
    "SELECT * FROM NAMED STREAM :s [RANGE 3s STEP 1s] FROM NAMED STREAM :t [RANGE 4s STEP 2s] \
     WHERE { GRAPH :s { ?a :likes ?b } GRAPH :t { ?b :saw ?c } }",
    "SELECT * FROM STREAM :s [RANGE 4s STEP 1s] WHERE { ?a :likes ?b . ?b :knows ?c }",
    "SELECT ?c (COUNT(*) AS ?n) FROM NAMED STREAM :s [RANGE 5s STEP 1s] \
     WHERE { GRAPH :s { ?a :likes ?b } ?b :knows ?c FILTER(?a != ?c) } GROUP BY ?c",
    "SELECT DISTINCT ?a FROM NAMED STREAM :t [RANGE 6s STEP 2s] WHERE { { GRAPH :t { ?a :saw ?b } } UNION { GRAPH :t { ?b :likes ?a } } }",
    "SELECT ISTREAM ?a ?b FROM NAMED WINDOW :w ON :t [RANGE 3s STEP 1s] WHERE { WINDOW :w { ?a :likes ?b . ?b :saw ?c } }",
    "CONSTRUCT { ?a :met ?c } FROM NAMED STREAM :s [RANGE 3s STEP 1s] WHERE { GRAPH :s { ?a :likes ?b . ?c :likes ?b } }",
    "SELECT ?a ?o FROM NAMED STREAM :s [RANGE 2s STEP 1s] WHERE { GRAPH :s { ?a :likes :b } OPTIONAL { ?a :knows ?o } }",
    "SELECT ?a (SUM(?v) AS ?s) (AVG(?v) AS ?m) (MIN(?v) AS ?l) (MAX(?v) AS ?h) (COUNT(DISTINCT ?v) AS ?n) \
     FROM NAMED STREAM :s [RANGE 4s STEP 1s] WHERE { GRAPH :s { ?a :val ?v } } GROUP BY ?a",
    "SELECT (COUNT(*) AS ?n) (MAX(?v * 2) AS ?h) FROM NAMED STREAM :s [RANGE 3s STEP 1s] FROM NAMED STREAM :t [RANGE 4s STEP 2s] \
     WHERE { GRAPH :s { ?a :val ?v } GRAPH :t { ?b :saw ?a } }",
    "SELECT DISTINCT ?v FROM STREAM :s [RANGE 5s STEP 1s] WHERE { ?a :val ?v . ?a :likes ?b } ORDER BY ?v LIMIT 2",
    "SELECT ?a (AVG(?v) AS ?m) FROM NAMED STREAM :s [RANGE 3s STEP 1s] WHERE { GRAPH :s { ?a :val ?v } ?a :knows ?b } \
     GROUP BY ?a HAVING(COUNT(*) > 1) ORDER BY DESC(?m) ?a LIMIT 2",
    "SELECT ?a ?m ?b FROM NAMED STREAM :s [RANGE 3s STEP 1s] \
     WHERE { { SELECT ?a (AVG(?v) AS ?m) WHERE { GRAPH :s { ?a :val ?v } } GROUP BY ?a } ?a :knows ?b }",
];

#[derive(Clone, Debug)]
enum Step {
    /// A push to a stream, this long before its time.
    Push(bool, i64, [usize; 3]),
    /// A value to the first stream.
    Value(usize, usize),
    Update(bool, [usize; 3]),
    Advance(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let words = || [0..4usize, 0..3usize, 0..4usize];
    prop_oneof![
        8 => (any::<bool>(), words()).prop_map(|(s, w)| Step::Push(s, 0, w)),
        5 => (0..4usize, 0..VALUES.len()).prop_map(|(a, v)| Step::Value(a, v)),
        1 => (0..3000i64, words()).prop_map(|(back, w)| Step::Push(true, back, w)),
        1 => (any::<bool>(), words()).prop_map(|(insert, w)| Step::Update(insert, w)),
        5 => (500..2000i64).prop_map(Step::Advance),
    ]
}

fn open(delta: DeltaMode) -> Engine {
    let engine = Engine::open(EngineConfig {
        delta,
        kept_firings: 1000,
        ..config()
    })
    .unwrap();
    let own = "TIMING ALL LATENESS 0s LATE AMEND WITHIN 3s";
    for (name, clauses) in [("s", own), ("t", "TIMING (<urn:none>)")] {
        let text = format!("CREATE STREAM <{NS}{name}> {clauses} BATCH 500ms IDLE NEVER");
        engine.create_stream(None, &text).unwrap();
    }
    for (at, query) in QUERIES.iter().enumerate() {
        let text = format!("PREFIX : <{NS}> {query}");
        engine.register(Some(&format!("q{at}")), &text).unwrap();
    }
    engine
}

fn play(engine: &Engine, steps: &[Step]) -> Vec<String> {
    let mut now = 0;
    advance(engine, now);
    for step in steps {
        match step {
            Step::Push(s, back, [a, p, b]) => {
                let stream = if *s { "s" } else { "t" };
                let statement = format!("{} {} {}", NODES[*a], PREDICATES[*p], NODES[*b]);
                let pushed = push(&[((now - back).max(0), &statement)]);
                engine.push(&format!("{NS}{stream}"), pushed).unwrap();
            }
            Step::Value(a, v) => {
                let statement = format!("{} val {}", NODES[*a], VALUES[*v]);
                let pushed = push(&[(now, &statement)]);
                engine.push(&format!("{NS}s"), pushed).unwrap();
            }
            Step::Update(insert, [a, p, b]) => {
                let verb = if *insert { "INSERT" } else { "DELETE" };
                let (a, p, b) = (NODES[*a], PREDICATES[*p], NODES[*b]);
                let update = format!("PREFIX : <{NS}> {verb} DATA {{ :{a} :{p} :{b} }}");
                engine.update(&update).run().unwrap();
            }
            Step::Advance(by) => {
                now += by;
                advance(engine, now);
            }
        }
        // An engine that falls behind joins amendments, and then has fewer revisions to compare.
        engine.quiesce(Duration::from_secs(60)).unwrap();
    }
    advance(engine, now + 8000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let mut seen = Vec::new();
    for at in 0..QUERIES.len() {
        let name = format!("q{at}");
        let live = engine
            .subscribe(&name, SubscribeOptions::default())
            .unwrap();
        while let Some(event) = live.try_recv() {
            let firing = firing(event).unwrap();
            let rows = shown(firing.answer.as_ref().unwrap());
            let (close, revision) = (firing.close.0, firing.revision);
            seen.push(format!("{name} at {close}, revision {revision}: {rows:?}"));
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(30),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn queries_that_keep_rows_answer_as_others_do(steps in proptest::collection::vec(step(), 20..120)) {
        let kept = play(&open(DeltaMode::Always), &steps);
        let whole = play(&open(DeltaMode::Never), &steps);
        for (own, other) in kept.iter().zip(&whole) {
            prop_assert_eq!(own, other);
        }
        prop_assert_eq!(kept.len(), whole.len());
    }
}

#[test]
fn kept_rows_are_counted_and_go_with_their_query() {
    let engine = open(DeltaMode::Always);
    let kept = || engine.metrics().memory.kept_rows_bytes;
    assert_eq!(kept(), 0);
    advance(&engine, 0);
    let pushed = [(1, "a likes b"), (2, "b likes b"), (3, "b knows c")];
    engine.push(&format!("{NS}s"), push(&pushed)).unwrap();
    advance(&engine, 1000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    assert!(kept() > 0);
    for at in 0..QUERIES.len() {
        engine.drop_query(&format!("q{at}")).unwrap();
    }
    assert_eq!(kept(), 0);
}

#[test]
fn explain_says_how_each_close_is_evaluated() {
    let explained = |delta, query: &str| {
        let text = format!("PREFIX : <{NS}> {query}");
        let options = QueryOptions::default();
        open(delta)
            .query(&text)
            .options(&options)
            .explain()
            .unwrap()
    };
    let auto = explained(DeltaMode::Auto, QUERIES[0]);
    assert!(
        auto.contains("incremental when faster: join rows"),
        "{auto}"
    );
    let always = explained(DeltaMode::Always, QUERIES[0]);
    assert!(always.contains("incremental: join rows"), "{always}");
    assert!(!always.contains("groups are"), "{always}");
    for query in [QUERIES[7], QUERIES[11]] {
        let groups = explained(DeltaMode::Auto, query);
        assert!(groups.contains("groups are retained too"), "{groups}");
    }
    let rebuilt = "SELECT (COUNT(DISTINCT *) AS ?n) FROM NAMED STREAM :s [RANGE 3s STEP 1s] WHERE { GRAPH :s { ?a :likes ?b } }";
    let rebuilt = explained(DeltaMode::Auto, rebuilt);
    assert!(
        rebuilt.contains(
            "groups are rebuilt from all retained rows at each close: it counts DISTINCT solutions"
        ),
        "{rebuilt}"
    );
    let never = explained(DeltaMode::Never, QUERIES[0]);
    assert!(
        never.contains("as a whole at each close: the engine's"),
        "{never}"
    );
    for (query, why) in [
        (
            "SELECT * FROM NAMED STREAM :s [RANGE 1s TUMBLING] WHERE { GRAPH :s { ?a :likes ?b } }",
            "twice its STEP",
        ),
        (
            "SELECT * FROM NAMED STREAM :s [RANGE TRIPLES 3] WHERE { GRAPH :s { ?a :likes ?b } }",
            "number of statements",
        ),
        (
            "SELECT * FROM NAMED STREAM :s [RANGE 3s STEP 1s] WHERE { GRAPH :s { ?a :likes ?b } } LIMIT 1",
            "depends on row order",
        ),
        (
            "SELECT * FROM NAMED STREAM :s [RANGE 3s STEP 1s] WHERE { ?a :likes ?b OPTIONAL { GRAPH :s { ?b :likes ?c } } }",
            "no pattern outside OPTIONAL",
        ),
    ] {
        let text = explained(DeltaMode::Auto, query);
        assert!(text.contains(why), "{query}: {text}");
    }
}
