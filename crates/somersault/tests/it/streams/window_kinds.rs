//! The kinds of windows beside RANGE and STEP: past ones, NOW, ALL, and those of a number of
//! statements.

use crate::support::scenario::*;
use somersault::oxrdf::GraphName;
use somersault::{
    Answer, AnswerKind, DeltaMode, Engine, EngineConfig, RdfFormat, SubscribeOptions,
    SubscriptionEvent,
};
use std::time::Duration;

fn set_up(clauses: &str, queries: &[(&str, &str)]) -> Engine {
    let engine = engine();
    declare(&engine, clauses, queries);
    engine
}

fn declare(engine: &Engine, clauses: &str, queries: &[(&str, &str)]) {
    let text = format!("CREATE STREAM <{NS}s> TIMING ALL BATCH 1s IDLE NEVER {clauses}");
    engine.create_stream(None, &text).unwrap();
    for (name, query) in queries {
        let text = format!("PREFIX : <{NS}> {query}");
        engine.register(Some(name), &text).unwrap();
    }
}

fn feed(engine: &Engine, seconds: std::ops::Range<i64>) {
    for second in seconds {
        let triple = format!("s{second} p o");
        let at = second * 1000 + 500;
        engine
            .push(&format!("{NS}s"), push(&[(at, &triple)]))
            .unwrap();
        advance(engine, (second + 1) * 1000);
    }
}

#[test]
fn a_past_window_shows_earlier_statements() {
    let past = "SELECT ?x FROM NAMED WINDOW :w ON :s [FROM NOW-3s TO NOW-1s STEP 2s] WHERE { WINDOW :w { ?x :p ?o } }";
    let both = "SELECT ?x ?y FROM NAMED WINDOW :w ON :s [FROM NOW-3s TO NOW-2s STEP 1s] FROM NAMED WINDOW :n ON :s [RANGE 1s]
                WHERE { WINDOW :w { ?x :p ?o } WINDOW :n { ?y :p ?o } }";
    let engine = set_up("", &[("past", past), ("both", both)]);
    advance(&engine, 0);
    feed(&engine, 0..6);
    assert_eq!(
        firings(&engine, "past", None),
        expected(&[
            (2000, &["s0"]),
            (4000, &["s1", "s2"]),
            (6000, &["s3", "s4"])
        ])
    );
    assert_eq!(
        firings(&engine, "both", None)[3..],
        expected(&[(4000, &["s1 s3"]), (5000, &["s2 s4"]), (6000, &["s3 s5"])])
    );
    let text = format!("PREFIX : <{NS}> {past}");
    let explained = engine.query(&text).explain().unwrap();
    assert!(
        explained.contains("holds c − 3000 ms ≤ event time < c − 1000 ms"),
        "{explained}"
    );
}

#[test]
fn now_is_the_batch_and_all_reaches_back_to_keep() {
    let now = "SELECT ?x WHERE { STREAM :s [NOW] { ?x :p ?o } }";
    let every = "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [ALL] { ?x :p ?o } }";
    let engine = set_up("KEEP 3s", &[("now", now)]);
    advance(&engine, 0);
    feed(&engine, 0..2);
    engine
        .register(Some("every"), &format!("PREFIX : <{NS}> {every}"))
        .unwrap();
    feed(&engine, 2..7);
    assert_eq!(
        firings(&engine, "now", Some(5000)),
        expected(&[(6000, &["s5"]), (7000, &["s6"])])
    );
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let reader = engine
        .subscribe("every", SubscribeOptions::default())
        .unwrap();
    let firings: Vec<_> = std::iter::from_fn(|| reader.try_recv())
        .map(|event| match event {
            SubscriptionEvent::Firing(firing) => {
                let rows = shown(firing.answer.as_ref().unwrap());
                let count = rows[0].split('"').nth(1).unwrap().to_owned();
                (
                    firing.close.0,
                    count,
                    firing.complete_from.map(|from| from.0),
                )
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let firing = |close: i64, count: &str, from: Option<i64>| (close, count.to_owned(), from);
    assert_eq!(
        firings,
        [
            firing(3000, "1", None),
            firing(4000, "2", None),
            firing(5000, "3", None),
            // The statement of 2500 has expired, and the firing says so.
            firing(6000, "3", Some(3000)),
            firing(7000, "3", Some(4000)),
        ]
    );
    let info = engine.query_info("every").unwrap();
    assert_eq!(
        (info.windows[0].extent.as_str(), info.windows[0].range_ms),
        ("ALL", None)
    );
}

/// All firings so far with their ordinals, after a place.
fn with_ordinals(
    engine: &Engine,
    name: &str,
    after: Option<(i64, u32)>,
) -> Vec<(i64, u32, Vec<String>)> {
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let of = |after| SubscribeOptions {
        after,
        ..SubscribeOptions::default()
    };
    let all = engine.subscribe(name, of(None)).unwrap();
    let id = std::iter::from_fn(|| all.try_recv())
        .filter_map(firing)
        .map(|firing| firing.id())
        .find(|id| Some((id.close.0, id.ordinal)) == after);
    assert_eq!(id.is_some(), after.is_some());
    let options = SubscribeOptions {
        after: id,
        ..SubscribeOptions::default()
    };
    let reader = engine.subscribe(name, options).unwrap();
    std::iter::from_fn(|| reader.try_recv())
        .map(|event| firing(event).unwrap())
        .map(|firing| {
            let rows = shown(firing.answer.as_ref().unwrap());
            (firing.close.0, firing.ordinal, rows)
        })
        .collect()
}

const LAST_THREE: &str =
    "SELECT ?x FROM NAMED WINDOW :w ON :s [ELEMENTS 3 STEP 2] WHERE { WINDOW :w { ?x :p ?o } }";

fn at(close: i64, ordinal: u32, rows: &[&str]) -> (i64, u32, Vec<String>) {
    (
        close,
        ordinal,
        rows.iter().map(|row| (*row).to_owned()).collect(),
    )
}

#[test]
fn a_window_of_statements_closes_at_every_step() {
    let each = "SELECT ?x FROM STREAM :s [RANGE TRIPLES 2] WHERE { ?x :p ?o }";
    let mixed = "SELECT ?x (COUNT(?y) AS ?n) WHERE { STREAM :s [TRIPLES 1] { ?x :p ?o } STREAM :s [RANGE 2s SLIDE 2s] { ?y :p ?z } } GROUP BY ?x";
    let engine = set_up(
        "",
        &[("three", LAST_THREE), ("each", each), ("mixed", mixed)],
    );
    advance(&engine, 0);
    let s = format!("{NS}s");
    // A repeat counts as a statement, and is in the window once.
    let pushed = push(&[
        (100, "a p o"),
        (200, "b p o"),
        (200, "b p o"),
        (300, "c p o"),
        (900, "d p o"),
    ]);
    engine.push(&s, pushed).unwrap();
    for to_ms in [1000, 2000, 3000] {
        advance(&engine, to_ms);
    }
    engine.push(&s, push(&[(3500, "e p o")])).unwrap();
    advance(&engine, 4000);
    assert_eq!(
        with_ordinals(&engine, "three", None),
        [
            at(1000, 0, &["a", "b"]),
            at(1000, 1, &["b", "c"]),
            at(4000, 0, &["c", "d", "e"])
        ]
    );
    let all = with_ordinals(&engine, "each", None);
    assert_eq!(
        all,
        [
            at(1000, 0, &["a"]),
            at(1000, 1, &["a", "b"]),
            at(1000, 2, &["b"]),
            at(1000, 3, &["b", "c"]),
            at(1000, 4, &["c", "d"]),
            at(4000, 0, &["d", "e"]),
        ]
    );
    // A reconnecting subscriber continues in the middle of a close.
    assert_eq!(with_ordinals(&engine, "each", Some((1000, 2))), all[3..]);
    let info = engine.query_info("each").unwrap();
    assert_eq!(
        (info.windows[0].extent.as_str(), info.firings),
        ("ELEMENTS 2 STEP 1", 6)
    );
    let mixed: Vec<_> = (with_ordinals(&engine, "mixed", None).into_iter())
        .map(|(close, ordinal, rows)| {
            (
                close,
                ordinal,
                rows.join(" ")
                    .replace("^^<http://www.w3.org/2001/XMLSchema#integer", ""),
            )
        })
        .collect();
    // At 1000 the window by time has not closed with anything yet; at 2000 it has, and so fires
    // with the last statement.
    let row = |close: i64, ordinal: u32, row: &str| (close, ordinal, row.to_owned());
    assert_eq!(
        mixed,
        [
            row(1000, 0, ""),
            row(1000, 1, ""),
            row(1000, 2, ""),
            row(1000, 3, ""),
            row(1000, 4, ""),
            row(2000, 0, "d \"4\""),
            row(4000, 0, "e \"1\""),
        ]
    );
}

#[test]
fn windows_of_statements_are_the_same_after_a_restart() {
    let run = |engine: &Engine, seconds: std::ops::Range<i64>| {
        for second in seconds {
            let triples: Vec<String> = (0..second % 5)
                .map(|n| format!("s{second}n{n} p o"))
                .collect();
            let statements: Vec<_> = triples
                .iter()
                .map(|triple| (second * 1000 + 7, triple.as_str()))
                .collect();
            engine.push(&format!("{NS}s"), push(&statements)).unwrap();
            advance(engine, (second + 1) * 1000);
        }
    };
    let set_up = |engine: &Engine| {
        let text = format!("CREATE STREAM <{NS}s> TIMING ALL BATCH 1s IDLE NEVER KEEP 2s");
        engine.create_stream(None, &text).unwrap();
        let text = format!("PREFIX : <{NS}> {LAST_THREE}");
        engine.register(Some("three"), &text).unwrap();
        let each = text
            .replace("SELECT", "SELECT ISTREAM")
            .replace("ELEMENTS 3 STEP 2", "ELEMENTS 7");
        engine.register(Some("each"), &each).unwrap();
        advance(engine, 0);
    };
    let settings = || somersault::EngineConfig {
        kept_firings: 5,
        ..config()
    };
    let whole = Engine::open(settings()).unwrap();
    set_up(&whole);
    run(&whole, 0..40);
    let outcome = |engine: &Engine| {
        [
            with_ordinals(engine, "three", None),
            with_ordinals(engine, "each", None),
        ]
    };
    let expected = outcome(&whole);
    for cut in [3, 11, 24, 38] {
        let folder = tempfile::tempdir().unwrap();
        let durable = || somersault::EngineConfig {
            data: Some(folder.path().to_owned()),
            ..settings()
        };
        let engine = Engine::open(durable()).unwrap();
        set_up(&engine);
        run(&engine, 0..cut);
        drop(engine);
        let engine = Engine::open(durable()).unwrap();
        run(&engine, cut..40);
        assert_eq!(outcome(&engine), expected, "cut at {cut}");
        engine.check().unwrap();
    }
}

#[test]
fn the_event_time_of_a_statement_is_that_of_its_newest_arrival_in_a_window() {
    let f = "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>";
    let timed = format!(
        "{f} SELECT ?x ?t FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :p ?y BIND(f:timestamp(?x, :p, ?y) AS ?t) }}"
    );
    let later = format!(
        "{f} SELECT ?x ?y FROM STREAM :s [RANGE 3s STEP 1s] WHERE {{ ?x :p ?o . ?y :p ?o FILTER(f:timestamp(?x, :p, ?o) > f:timestamp(?y, :p, ?o)) }}"
    );
    let absent = format!(
        "{f} SELECT ?x (f:timestamp(?x, :q, ?y) AS ?t) FROM STREAM :s [RANGE 2s STEP 1s] WHERE {{ ?x :p ?y }}"
    );
    let last = format!(
        "{f} SELECT (f:timestamp(?x, :p, ?y) AS ?t) FROM NAMED WINDOW :w ON :s [ELEMENTS 1] WHERE {{ WINDOW :w {{ ?x :p ?y }} }}"
    );
    let engine = set_up(
        "",
        &[
            ("timed", &timed),
            ("later", &later),
            ("absent", &absent),
            ("last", &last),
        ],
    );
    advance(&engine, 0);
    let s = format!("{NS}s");
    engine
        .push(
            &s,
            push(&[
                (100, "a p o"),
                (300, "b p o"),
                (700, "a p o"),
                (999, "_:n p o"),
            ]),
        )
        .unwrap();
    advance(&engine, 1000);
    engine.push(&s, push(&[(1200, "b p o")])).unwrap();
    advance(&engine, 2000);
    advance(&engine, 3000);
    let times = |name: &str| -> Vec<Vec<String>> {
        let number = |row: String| row.replace("^^<http://www.w3.org/2001/XMLSchema#integer", "");
        let all = firings(&engine, name, None).into_iter();
        all.map(|(_, rows)| {
            rows.into_iter()
                .filter(|row| !row.contains("_:"))
                .map(number)
                .collect()
        })
        .collect()
    };
    assert_eq!(
        times("timed"),
        [
            vec!["a \"700\"", "b \"300\""],
            vec!["a \"700\"", "b \"1200\""],
            vec!["b \"1200\""]
        ]
    );
    assert_eq!(times("later"), [vec!["a b"], vec!["b a"], vec!["b a"]]);
    assert_eq!(times("absent")[0], ["a -", "b -"]);
    assert_eq!(
        times("last").concat(),
        ["\"100\"", "\"300\"", "\"700\"", "\"999\"", "\"1200\""]
    );
}

/// The N-Quads of a dataset in short names, sorted; `_` for any blank node.
fn quads(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.kind(), AnswerKind::Dataset);
    assert_eq!(answer.quads().len(), answer.len());
    let mut bytes = Vec::new();
    answer.write_graph(RdfFormat::NQuads, &mut bytes).unwrap();
    let short = |word: &str| match word.strip_prefix(&format!("<{NS}")) {
        Some(name) => name.trim_end_matches('>').to_owned(),
        None if word.starts_with("_:") => "_".to_owned(),
        None => word.to_owned(),
    };
    let text = String::from_utf8(bytes).unwrap();
    let line = |line: &str| {
        let words = line.trim_end_matches(" .").split(' ').map(short);
        words.collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn a_template_with_graphs_makes_a_dataset() {
    let made = "CONSTRUCT { ?x :seen :yes . GRAPH ?y { ?x :p _:n } GRAPH :all { ?x :p ?y } GRAPH ?z { ?x :lost :yes } }
                FROM STREAM :s [RANGE 1s STEP 1s] WHERE { ?x :p ?y OPTIONAL { ?x :never ?z } }";
    let came = made
        .replace("CONSTRUCT", "CONSTRUCT ISTREAM")
        .replace("_:n", "?y");
    let came = came.replace("RANGE 1s", "RANGE 2s");
    let engine = set_up("", &[("made", made), ("came", &came)]);
    advance(&engine, 0);
    let s = format!("{NS}s");
    engine
        .push(&s, push(&[(100, "a p g"), (200, "b p \"no\"")]))
        .unwrap();
    advance(&engine, 1000);
    engine
        .push(&s, push(&[(1100, "a p g"), (1200, "c p g")]))
        .unwrap();
    advance(&engine, 2000);
    engine.quiesce(Duration::from_secs(60)).unwrap();
    let answers = |name: &str| -> Vec<Vec<String>> {
        let reader = engine.subscribe(name, SubscribeOptions::default()).unwrap();
        std::iter::from_fn(|| reader.try_recv())
            .map(|event| quads(firing(event).unwrap().answer.as_ref().unwrap()))
            .collect()
    };
    // A graph cannot be a literal, nor unbound.
    let first = [
        "a p _ g",
        "a p g all",
        "a seen yes",
        "b p \"no\" all",
        "b seen yes",
    ];
    let second = [
        "a p _ g",
        "a p g all",
        "a seen yes",
        "c p _ g",
        "c p g all",
        "c seen yes",
    ];
    assert_eq!(answers("made"), [&first[..], &second[..]]);
    let first = [
        "a p g all",
        "a p g g",
        "a seen yes",
        "b p \"no\" all",
        "b seen yes",
    ];
    assert_eq!(
        answers("came"),
        [&first[..], &["c p g all", "c p g g", "c seen yes"]]
    );

    let one_shot = format!(
        "PREFIX : <{NS}> CONSTRUCT {{ GRAPH :copy {{ ?x ?p ?o }} ?o :of ?x }} WHERE {{ ?x ?p ?o }} ORDER BY ?x LIMIT 1"
    );
    engine
        .load_quads(
            [triple("a knows b"), triple("b knows c")].map(|t| t.in_graph(GraphName::DefaultGraph)),
        )
        .unwrap();
    let results = engine.query(&one_shot).run().unwrap();
    assert_eq!(quads(&results.answer), ["a knows b copy", "b of a"]);
    let other = one_shot.replace(":copy", ":other");
    let results = engine.query(&other).run().unwrap();
    assert_eq!(quads(&results.answer), ["a knows b other", "b of a"]);
    let refused = results
        .answer
        .write_graph(RdfFormat::Turtle, std::io::sink());
    assert!(refused.unwrap_err().to_string().contains("N-Quads or TriG"));
    let explained = engine.query(&one_shot).explain_analyze();
    assert!(explained.is_ok(), "{explained:?}");
}

#[test]
fn every_kind_of_window_is_explained() {
    let engine = engine();
    engine.create_stream(None, "CREATE STREAM <urn:s>").unwrap();
    for window in [
        "RANGE 1s STEP 1s",
        "RANGE 1s TUMBLING",
        "RANGE TRIPLES 9 STEP 3",
        "RANGE TRIPLES 9",
    ] {
        let text = format!("SELECT ?s FROM STREAM <urn:s> [{window}] WHERE {{ ?s ?p ?o }}");
        for analyze in [false, true] {
            let query = engine.query(&text);
            let explained = match analyze {
                true => query.explain_analyze(),
                false => query.explain(),
            };
            assert!(explained.is_ok(), "{window}: {explained:?}");
        }
    }
    for window in [
        "ELEMENTS 5",
        "ELEMENTS 5 STEP 2",
        "FROM NOW-3s TO NOW-1s STEP 1s",
    ] {
        let text = format!(
            "SELECT ?s FROM NAMED WINDOW <urn:w> ON <urn:s> [{window}] WHERE {{ WINDOW <urn:w> {{ ?s ?p ?o }} }}"
        );
        let explained = engine.query(&text).explain_analyze();
        assert!(explained.is_ok(), "{window}: {explained:?}");
    }
    for window in ["NOW", "ALL", "TRIPLES 5", "RANGE 1s"] {
        let text = format!("SELECT ?s WHERE {{ STREAM <urn:s> [{window}] {{ ?s ?p ?o }} }}");
        let explained = engine.query(&text).explain_analyze();
        assert!(explained.is_ok(), "{window}: {explained:?}");
    }
}

/// NOW() is the close, however a firing is evaluated, and when it is executed again after a
/// restart.
#[test]
fn now_is_the_close() {
    let stamped = "SELECT ?x (NOW() AS ?t) FROM NAMED STREAM :s [RANGE 2s STEP 1s] WHERE { GRAPH :s { ?x :p ?o } }";
    let later = "SELECT ?x FROM NAMED STREAM :s [RANGE 2s STEP 1s]
                 WHERE { GRAPH :s { ?x :p ?o } FILTER(NOW() > \"1970-01-01T00:00:01Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime>) }";
    let at = |x: &str, second: i64| {
        format!("{x} \"1970-01-01T00:00:0{second}Z\"^^<http://www.w3.org/2001/XMLSchema#dateTime")
    };
    let stamps = vec![
        (1000, vec![at("s0", 1)]),
        (2000, vec![at("s0", 2), at("s1", 2)]),
        (3000, vec![at("s1", 3), at("s2", 3)]),
    ];
    let filtered = expected(&[(1000, &[]), (2000, &["s0", "s1"]), (3000, &["s1", "s2"])]);
    for delta in [DeltaMode::Never, DeltaMode::Always] {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            Engine::open(EngineConfig {
                data: Some(folder.path().to_owned()),
                delta,
                ..config()
            })
        };
        let engine = open().unwrap();
        declare(&engine, "", &[("stamped", stamped), ("later", later)]);
        advance(&engine, 0);
        feed(&engine, 0..3);
        let check = |engine: &Engine| {
            assert_eq!(firings(engine, "stamped", None), stamps, "{delta:?}");
            assert_eq!(firings(engine, "later", None), filtered, "{delta:?}");
        };
        check(&engine);
        drop(engine);
        check(&open().unwrap());
    }
}
