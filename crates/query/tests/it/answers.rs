//! Answers written down by hand: what the comparison with spareval cannot see, because spareval
//! normalises, has no order, or is not deterministic.

use crate::equals_spareval::{native, oracle};
use crate::naive::NaiveView;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Term, vocab::xsd};
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits, QueryUid, Tag, VirtualShard, term_hash};
use somersault_query::{
    Answer, Execution, GraphView, Invocation, PlanCache, Prepared, QueryError, Remote,
    RemoteSolutions, Solutions,
};
use std::sync::Arc;

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

fn quad(s: &str, p: &str, o: impl Into<Term>) -> Quad {
    Quad::new(iri(s), iri(p), o, GraphName::DefaultGraph)
}

fn prepare(text: &str) -> Prepared {
    let text =
        format!("PREFIX : <http://x/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n{text}");
    Prepared::new(Parser::new().parse_query(&text).expect("a query"))
}

fn execution() -> Execution {
    Execution::new(Limits::default(), EventTime(1_500))
}

fn solutions(view: &NaiveView, text: &str) -> Solutions {
    match prepare(text)
        .run(Invocation::new(view, &execution()))
        .expect("answers")
    {
        Answer::Solutions(solutions) => solutions,
        _ => panic!("SELECT has solutions"),
    }
}

fn rows(view: &NaiveView, text: &str) -> Vec<String> {
    solutions(view, text)
        .rows(view.dictionary())
        .map(|row| {
            let cells: Vec<String> = row
                .into_iter()
                .map(|cell| cell.map_or("-".into(), |term| term.to_string()))
                .collect();
            cells
                .join(" ")
                .replace("http://www.w3.org/2001/XMLSchema#", "xsd:")
        })
        .collect()
}

fn numbers() -> NaiveView {
    NaiveView::stored(&[
        quad("a", "n", Literal::new_typed_literal("01", xsd::INTEGER)),
        quad("b", "n", Literal::new_typed_literal("2", xsd::LONG)),
        quad("c", "n", Literal::new_typed_literal("1.50", xsd::DECIMAL)),
    ])
}

#[test]
fn the_spelling_and_the_type_of_the_data_stay() {
    assert_eq!(
        rows(
            &numbers(),
            "SELECT ?s (STR(?n) AS ?t) (DATATYPE(?n) AS ?d) { ?s :n ?n } ORDER BY ?s"
        ),
        [
            "<http://x/a> \"01\" <xsd:integer>",
            "<http://x/b> \"2\" <xsd:long>",
            "<http://x/c> \"1.50\" <xsd:decimal>",
        ]
    );
    assert_eq!(
        rows(
            &numbers(),
            "SELECT (MIN(?n) AS ?least) (MAX(?n) AS ?most) { ?s :n ?n }"
        ),
        ["\"01\"^^<xsd:integer> \"2\"^^<xsd:long>"]
    );
}

#[test]
fn numbers_sort_by_value_before_other_terms() {
    let text = "SELECT ?v { VALUES ?v { 10 9.5 \"1e0\"^^xsd:double UNDEF :z :a } } ORDER BY ?v";
    assert_eq!(
        rows(&numbers(), text),
        [
            "-",
            "<http://x/a>",
            "<http://x/z>",
            "\"1e0\"^^<xsd:double>",
            "\"9.5\"^^<xsd:decimal>",
            "\"10\"^^<xsd:integer>",
        ]
    );
    let text = "SELECT ?v { VALUES ?v { 3 1 2 } } ORDER BY DESC(?v) OFFSET 1 LIMIT 1";
    assert_eq!(rows(&numbers(), text), ["\"2\"^^<xsd:integer>"]);
}

#[test]
fn sums_of_doubles_do_not_depend_on_the_order_of_the_rows() {
    let sum = |order: &str| {
        let text = format!("SELECT (SUM(?v) AS ?x) {{ VALUES ?v {{ {order} }} }}");
        rows(&numbers(), &text)
    };
    let forwards = sum("1e308 1e0 -1e308");
    assert_eq!(forwards, ["\"1\"^^<xsd:double>"]);
    assert_eq!(forwards, sum("1e0 1e308 -1e308"));
}

#[test]
fn a_computed_term_equals_the_same_term_of_the_data() {
    // The first is in the dictionary, the second is not: both are joined on by id.
    let text = "SELECT ?s { BIND(IRI(CONCAT(\"http://x/\", \"a\")) AS ?s) ?s :n ?n }";
    assert_eq!(rows(&numbers(), text), ["<http://x/a>"]);
    let text = "SELECT ?t { BIND(CONCAT(\"not in the\", \" dictionary\") AS ?t) \
                VALUES ?t { \"not in the dictionary\" } }";
    let found = solutions(&numbers(), text);
    assert_eq!(found.len(), 1);
    assert_eq!(found.column(0)[0].tag(), Tag::Local);
}

#[test]
fn now_is_given_and_random_values_are_keyed() {
    assert_eq!(
        rows(&numbers(), "SELECT (NOW() AS ?now) {}"),
        ["\"1970-01-01T00:00:01.5Z\"^^<xsd:dateTime>"]
    );
    let view = numbers();
    let prepared = prepare("SELECT (RAND() AS ?r) (UUID() AS ?u) (BNODE() AS ?b) { ?s :n ?n }");
    let run = |query| {
        let execution = Execution {
            query: QueryUid(query),
            ..execution()
        };
        match prepared
            .run(Invocation::new(&view, &execution))
            .expect("answers")
        {
            Answer::Solutions(s) => s.rows(view.dictionary()).collect::<Vec<_>>(),
            _ => panic!("SELECT has solutions"),
        }
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_ne!(run(1)[0], run(1)[1]);
}

#[test]
fn a_named_blank_node_is_one_node_per_row() {
    let found = rows(
        &numbers(),
        "SELECT (BNODE(\"x\") AS ?a) (BNODE(\"x\") AS ?b) (BNODE(\"y\") AS ?c) { ?s :n ?n }",
    );
    let cells: Vec<Vec<&str>> = found.iter().map(|row| row.split(' ').collect()).collect();
    assert!(cells.iter().all(|row| row[0] == row[1] && row[0] != row[2]));
    assert_ne!(cells[0][0], cells[1][0]);
}

#[test]
fn construct_makes_new_blank_nodes_for_each_solution() {
    let prepared = prepare("CONSTRUCT { _:x :of ?s ; :again _:x } WHERE { ?s :n ?n }");
    let Answer::Graph(graph) = prepared
        .run(Invocation::new(&numbers(), &execution()))
        .expect("answers")
    else {
        panic!("CONSTRUCT has a graph");
    };
    let subjects: std::collections::BTreeSet<String> =
        graph.iter().map(|t| t.subject.to_string()).collect();
    assert_eq!((graph.len(), subjects.len()), (6, 3));
}

#[test]
fn a_path_of_no_step_leads_from_a_constant_and_alternatives_repeat() {
    let view = NaiveView::stored(&[quad("a", "p", iri("b")), quad("a", "q", iri("b"))]);
    assert_eq!(
        rows(&view, "SELECT ?o { :nowhere :p* ?o }"),
        ["<http://x/nowhere>"]
    );
    assert_eq!(rows(&view, "SELECT ?o { :a (:p|:q) ?o }").len(), 2);
    assert_eq!(rows(&view, "SELECT ?s ?o { ?s :p* ?o }").len(), 3);
    // Elsewhere bound, a term that is no vertex of the graph is not reached.
    assert_eq!(
        rows(&view, "SELECT ?o { VALUES ?s { :nowhere } ?s :p* ?o }").len(),
        0
    );
}

#[test]
fn a_description_follows_blank_nodes() {
    let blank = oxrdf::BlankNode::new_unchecked("inner");
    let mut quads = vec![quad("a", "p", blank.clone()), quad("b", "p", iri("c"))];
    quads.push(Quad::new(
        blank,
        iri("q"),
        iri("d"),
        GraphName::DefaultGraph,
    ));
    let view = NaiveView::stored(&quads);
    let describe = |text: &str| {
        let prepared = prepare(text);
        match prepared
            .run(Invocation::new(&view, &execution()))
            .expect("answers")
        {
            Answer::Graph(graph) => graph.len(),
            _ => panic!("DESCRIBE has a graph"),
        }
    };
    assert_eq!(describe("DESCRIBE :a"), 2);
    assert_eq!(describe("DESCRIBE :a :a ?x { ?x :p :c }"), 3);
    assert_eq!(describe("DESCRIBE :nowhere"), 0);
}

#[test]
fn unknown_functions_are_errors() {
    let text = "SELECT (COALESCE(:unknown(1), \"error\") AS ?f) { FILTER(!BOUND(?x)) }";
    assert_eq!(rows(&numbers(), text), ["\"error\""]);
    assert_eq!(
        rows(&numbers(), "SELECT ?s { ?s :n ?n FILTER(:unknown(?n)) }").len(),
        0
    );
    // A function of spareval's, with an argument that it could not evaluate.
    let text = "SELECT (MD5(STR(EXISTS { ?s :n ?n })) AS ?m) {}";
    assert_eq!(
        rows(&numbers(), text),
        ["\"b326b5062b2f0e69046810717534cb09\""]
    );
}

/// SPARQL 1.1 Query, section 18.3.1: a blank node of a pattern is not part of a solution. Neither is
/// a vertex between the steps of a path, or a term that only a sub-select names.
#[test]
fn count_distinct_counts_variables_alone() {
    let view = NaiveView::stored(&[
        quad("a", "p", iri("b")),
        quad("a", "p", iri("c")),
        quad("b", "q", iri("z")),
        quad("c", "q", iri("z")),
    ]);
    let count = |pattern: &str| {
        let [count] = &rows(
            &view,
            &format!("SELECT (COUNT(DISTINCT *) AS ?n) {pattern}"),
        )[..] else {
            panic!("one row")
        };
        count.clone()
    };
    let (one, two) = ("\"1\"^^<xsd:integer>", "\"2\"^^<xsd:integer>");
    for pattern in [
        "{ ?s :p [] }",
        "{ ?s :p [] } GROUP BY ?s",
        "{ :a :p [] }",
        "{ ?s :p _:x . _:x :q ?z }",
        "{ ?s :p/:q ?z }",
        "{ { ?s :p [] } UNION { ?s :p _:y } }",
        "{ ?s :p [] { SELECT ?z { ?b :q ?z } } }",
    ] {
        assert_eq!(count(pattern), one, "{pattern}");
    }
    for pattern in ["{ ?s :p ?1 }", "{ ?s :p ?b . ?b :q _:z }"] {
        assert_eq!(count(pattern), two, "{pattern}");
    }
    let inside = "SELECT ?n { { SELECT (COUNT(DISTINCT *) AS ?n) { ?s :p ?b . ?b :q [] } } }";
    assert_eq!(rows(&view, inside), [two]);
}

/// SPARQL 1.1 Query, section 18.6, evaluation of a Graph pattern.
#[test]
fn a_graph_that_is_not_there_has_no_solutions() {
    let view = NaiveView::stored(&[
        quad("a", "p", iri("b")),
        Quad::new(iri("a"), iri("p"), iri("b"), iri("g")),
    ]);
    let count = |pattern: &str| {
        let found = rows(&view, &format!("SELECT (COUNT(*) AS ?n) {{ {pattern} }}"));
        usize::from(!found[0].starts_with("\"0\""))
    };
    for pattern in [
        "",
        "VALUES ?v { 1 }",
        "VALUES ?v { 1 } OPTIONAL { ?s ?p ?o }",
        "BIND(1 AS ?v)",
        "BIND(RAND() AS ?v)",
        ":x :p? ?o",
        "{ SELECT (1 AS ?v) {} }",
        "{ SELECT (COUNT(*) AS ?v) { ?s ?p ?o } }",
        "{ VALUES ?v { 1 } } UNION { ?s ?p ?o }",
        "GRAPH :g { ?s ?p ?o }",
        "FILTER NOT EXISTS { ?s :missing ?o }",
    ] {
        assert_eq!(count(&format!("GRAPH :h {{ {pattern} }}")), 0, "{pattern}");
        assert_eq!(count(&format!("GRAPH :g {{ {pattern} }}")), 1, "{pattern}");
        let beside = format!("?s :p ?o OPTIONAL {{ GRAPH :h {{ {pattern} }} }}");
        assert_eq!(count(&beside), 1, "{beside}");
        let beside = format!("?s :p ?o FILTER EXISTS {{ GRAPH :h {{ {pattern} }} }}");
        assert_eq!(count(&beside), 0, "{beside}");
    }
}

#[test]
fn triple_terms_are_taken_apart() {
    let term = |s: &str, o: &str| oxrdf::Triple::new(iri(s), iri("p"), iri(o));
    let view = NaiveView::stored(&[
        quad("x", "says", Term::Triple(Box::new(term("a", "b")))),
        quad("y", "says", Term::Triple(Box::new(term("a", "a")))),
        quad("z", "says", iri("a")),
        quad("a", "p", iri("b")),
    ]);
    assert_eq!(
        rows(
            &view,
            "SELECT ?w ?o { ?w :says <<( :a :p ?o )>> } ORDER BY ?w"
        ),
        ["<http://x/x> <http://x/b>", "<http://x/y> <http://x/a>"]
    );
    assert_eq!(
        rows(&view, "SELECT ?w { ?w :says <<( ?s ?p ?s )>> }"),
        ["<http://x/y>"]
    );
    assert_eq!(
        rows(&view, "SELECT ?w { ?s :p ?o . ?w :says <<( ?s :p ?o )>> }"),
        ["<http://x/x>"]
    );
    let optional = "SELECT ?o { ?s :p ?o OPTIONAL { ?w :says <<( ?s :p ?x )>> FILTER(?x = :a) } }";
    assert_eq!(rows(&view, optional).len(), 1);
}

/// Answers every query with what it was asked, or fails.
struct Far;

impl Remote for Far {
    fn select(&self, endpoint: &str, query: &str) -> Result<RemoteSolutions, String> {
        if endpoint != "http://x/far" {
            return Err("no such endpoint".into());
        }
        assert!(query.contains("<http://x/p>"), "{query}");
        let row = |s: &str, o: Option<&str>| vec![o.map(|o| iri(o).into()), Some(iri(s).into())];
        Ok(RemoteSolutions {
            variables: vec!["o".into(), "s".into()],
            rows: vec![row("a", Some("there")), row("b", None), row("z", None)],
        })
    }

    fn document(&self, _: &str) -> Result<Vec<Quad>, String> {
        Err("no documents".into())
    }
}

#[test]
fn another_endpoint_is_asked_once_and_joined() {
    let run = |text: &str, remote: Option<Arc<dyn Remote>>| {
        let execution = Execution {
            remote,
            ..execution()
        };
        prepare(text).run(Invocation::new(&numbers(), &execution))
    };
    let far = || -> Option<Arc<dyn Remote>> { Some(Arc::new(Far)) };
    let count = |text: &str| match run(text, far()).expect("answers") {
        Answer::Solutions(solutions) => solutions.len(),
        _ => panic!("SELECT has solutions"),
    };
    assert_eq!(count("SELECT * { SERVICE :far { ?s :p ?o } }"), 3);
    assert_eq!(count("SELECT * { ?s :n ?n SERVICE :far { ?s :p ?o } }"), 2);
    assert_eq!(
        count("SELECT * { SERVICE ?e { ?s :p ?o } VALUES ?e { :far } }"),
        3
    );
    assert_eq!(
        count("SELECT * { ?s :n ?n SERVICE SILENT :near { ?s :p ?o } }"),
        3
    );
    let failed = run("SELECT * { SERVICE :near { ?s :p ?o } }", far());
    assert!(matches!(failed, Err(QueryError::Remote { .. })));
    let refused = run("SELECT * { SERVICE :far { ?s :p ?o } }", None);
    assert!(matches!(refused, Err(QueryError::RemoteNotAllowed { .. })));
}

#[test]
fn the_plan_cache_is_bounded_and_keeps_what_is_used() {
    let cache = PlanCache::new(2);
    let parse = |text: &str| Parser::new().parse_query(text);
    for text in ["ASK {}", "SELECT * {}", "ASK {}", "ASK { ?s ?p ?o }"] {
        cache.get_or_prepare(text, None, 0, parse).expect("parses");
    }
    assert_eq!(cache.len(), 2);
    let unused = |_: &str| -> Result<_, &str> { Err("parsed again") };
    assert!(cache.get_or_prepare("ASK {}", None, 0, unused).is_ok());
    assert!(
        cache
            .get_or_prepare("SELECT * {}", None, 0, unused)
            .is_err()
    );
}

#[test]
fn a_pattern_in_each_graph_does_not_see_the_name() {
    let in_graph = |s: &str, graph: &str| Quad::new(iri(s), iri("p"), iri("o"), iri(graph));
    let view = NaiveView::stored(&[in_graph("a", "g"), in_graph("b", "g"), in_graph("c", "h")]);
    let count = "SELECT ?g ?n { GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s :p :o FILTER(?s != :c) } } } ORDER BY ?g";
    assert_eq!(
        rows(&view, count),
        [
            "<http://x/g> \"2\"^^<xsd:integer>",
            "<http://x/h> \"0\"^^<xsd:integer>",
        ]
    );
    let limit =
        "SELECT ?g ?s { GRAPH ?g { SELECT ?s { ?s :p :o } ORDER BY ?s LIMIT 1 } } ORDER BY ?g";
    assert_eq!(
        rows(&view, limit),
        ["<http://x/g> <http://x/a>", "<http://x/h> <http://x/c>"]
    );
    assert_eq!(
        rows(&view, "SELECT * { GRAPH ?g { FILTER(BOUND(?g)) } }").len(),
        0
    );
    assert_eq!(rows(&view, "SELECT * { GRAPH ?g {} }").len(), 2);
    assert_eq!(
        rows(
            &view,
            "SELECT ?s { GRAPH ?g { ?s :p :o MINUS { ?x :p :o } } }"
        )
        .len(),
        3
    );
    let values = "SELECT ?g ?t { GRAPH ?g { VALUES (?g ?t) { (UNDEF 1) (:g 2) } } } ORDER BY ?g ?t";
    assert_eq!(
        rows(&view, values),
        [
            "<http://x/g> \"1\"^^<xsd:integer>",
            "<http://x/g> \"2\"^^<xsd:integer>",
            "<http://x/h> \"1\"^^<xsd:integer>",
        ]
    );
}

#[test]
fn strings_of_a_language_are_concatenated_to_a_simple_literal() {
    let text =
        "SELECT (GROUP_CONCAT(?v; separator=\"+\") AS ?c) { VALUES ?v { \"a\"@en \"b\"@en } }";
    assert_eq!(rows(&numbers(), text), ["\"a+b\""]);
}

#[test]
fn dates_are_compared_by_value() {
    let text = "SELECT ?d { VALUES ?d { \"2020-02-01\"^^xsd:date \"2019-12-31\"^^xsd:date } \
                FILTER(?d > \"2020-01-01\"^^xsd:date) }";
    assert_eq!(rows(&numbers(), text), ["\"2020-02-01\"^^<xsd:date>"]);
    // Whether a day with a time zone is the same as one without cannot be said.
    let text = "SELECT ?d { VALUES ?d { \"2020-01-01Z\"^^xsd:date \"2019-01-01Z\"^^xsd:date } \
                FILTER(?d != \"2020-01-01\"^^xsd:date) }";
    assert_eq!(rows(&numbers(), text), ["\"2019-01-01Z\"^^<xsd:date>"]);
}

#[test]
fn a_predicate_that_is_its_own_end_is_found_behind_others() {
    let mut quads: Vec<Quad> = (0..3)
        .map(|n| quad(&format!("s{n}"), "p", iri("o")))
        .collect();
    quads.push(quad("p", "p", iri("p")));
    let view = NaiveView::stored(&quads);
    for text in [
        "SELECT DISTINCT ?p { ?s ?p ?p }",
        "SELECT DISTINCT ?p { ?p ?p ?o }",
        "SELECT (COUNT(DISTINCT ?p) AS ?n) { ?p ?p ?p }",
    ] {
        assert_eq!(rows(&view, text).len(), 1, "{text}");
        assert!(!rows(&view, text)[0].contains("\"0\""), "{text}");
    }
    let Answer::Boolean(found) = prepare("ASK { ?s ?p ?p }")
        .run(Invocation::new(&view, &execution()))
        .expect("answers")
    else {
        panic!("ASK says yes or no");
    };
    assert!(found);
}

#[test]
fn the_choice_among_equals_does_not_depend_on_the_order_of_ids() {
    // Of two names of one virtual shard, the one that is interned first has the lower id.
    let shard = |n: usize| VirtualShard::of_hash(term_hash(iri(&format!("s{n}")).as_ref().into()));
    let one = (1..).find(|n| shard(*n) == shard(0)).expect("names enough");
    let typed = |text: &str, datatype| Literal::new_typed_literal(text, datatype);
    let mut quads = Vec::new();
    for (n, value) in [
        (0, typed("01", xsd::INTEGER)),
        (one, typed("1.0", xsd::DECIMAL)),
    ] {
        quads.push(quad(&format!("s{n}"), "n", value));
    }
    let forwards = NaiveView::stored(&quads);
    quads.reverse();
    let backwards = NaiveView::stored(&quads);
    let any = "SELECT ?s { ?s :n ?n }";
    assert_ne!(
        rows(&forwards, any),
        rows(&backwards, any),
        "or it shows nothing"
    );
    for text in [
        "SELECT ?s { ?s :n ?n } ORDER BY ?n LIMIT 1",
        "SELECT ?s { ?s :n ?n } ORDER BY DESC(?n + 1) LIMIT 1",
        "SELECT ?s { ?s :n ?n } ORDER BY ?n OFFSET 1",
        "SELECT ?s (RAND() AS ?r) { ?s :n ?n } ORDER BY ?s",
        "SELECT ?s { ?s :n ?n FILTER(RAND() < 0.5) }",
        "SELECT ?s { ?s :n ?n } ORDER BY RAND()",
        "SELECT (MAX(IF(?s = :s0, RAND(), 0)) AS ?most) { ?s :n ?n }",
        "SELECT (MIN(?n) AS ?least) { ?s :n ?n }",
        "SELECT (MAX(IF(?s = :s0, ?n + 0.0, ?n)) AS ?most) { ?s :n ?n }",
    ] {
        assert_eq!(rows(&forwards, text), rows(&backwards, text), "{text}");
    }
    // The order of literals of unlike types is transitive: no three of them form a cycle.
    let mut unlike = ["\"2\"", "10", "\"1\"@en", "true", "\"5\"^^:t"];
    let least = |of: &[&str]| {
        let values = of.join(" ");
        let text = format!("SELECT (MIN(?v) AS ?x) (MAX(?v) AS ?y) {{ VALUES ?v {{ {values} }} }}");
        rows(&forwards, &text)
    };
    let first = least(&unlike);
    for _ in 1..unlike.len() {
        unlike.rotate_left(1);
        assert_eq!(least(&unlike), first, "{unlike:?}");
    }
    // Nor do three numbers, of which two are one and the same as doubles.
    for numbers in [
        ["9007199254740993", "9007199254740992E0", "9007199254740992"],
        ["16777217.0", "\"16777216\"^^xsd:float", "16777216.0"],
    ] {
        for by in ["?v", "DESC(?v)"] {
            let sorted = |of: &[&str]| {
                let values = of.join(" ");
                let text =
                    format!("SELECT ?v {{ VALUES ?v {{ {values} }} }} ORDER BY {by} LIMIT 9");
                (rows(&forwards, &text), least(of))
            };
            let mut turned = numbers;
            let first = sorted(&turned);
            for _ in 1..turned.len() {
                turned.rotate_left(1);
                assert_eq!(sorted(&turned), first, "{turned:?}");
            }
        }
    }
    // A template's blank nodes are the same for the same row, whichever place it has.
    let graph = |view: &NaiveView| {
        let text = "CONSTRUCT { ?s :b [] } { ?s :n ?n }";
        let Answer::Graph(triples) = prepare(text)
            .run(Invocation::new(view, &execution()))
            .expect("answers")
        else {
            panic!("CONSTRUCT makes a graph");
        };
        let mut triples: Vec<String> = triples.iter().map(ToString::to_string).collect();
        triples.sort();
        triples
    };
    assert_eq!(graph(&forwards), graph(&backwards));
}

#[test]
fn a_scan_reads_its_index_vertex_once_however_long_it_is() {
    // More edges by far than are walked between two looks at the limits.
    const FANS: usize = 40_000;
    let stars: Vec<Quad> = (0..FANS)
        .map(|n| iri(&format!("fan{n}")))
        .flat_map(|fan| ["a", "b", "c", "d"].map(|star| quad(star, "p", fan.clone())))
        .collect();
    let view = NaiveView::stored(&stars);
    let found = solutions(&view, "SELECT ?s ?o { ?s :p ?o }");
    assert_eq!(found.len(), 4 * FANS);
    assert_eq!(view.index_reads(), 1);
}

/// A view with three values of one group and one of another.
fn two_groups() -> NaiveView {
    let number = |n: i32| Literal::from(n);
    NaiveView::stored(&[
        quad("a", "n", number(1)),
        quad("a", "n", number(2)),
        quad("a", "n", number(3)),
        quad("b", "n", number(10)),
    ])
}

#[test]
fn a_grouped_column_reads_an_earlier_one() {
    let int = |n: i32| format!("\"{n}\"^^<xsd:integer>");
    let sums = "SELECT ?s (SUM(?n) AS ?sum) (?sum * 2 AS ?twice) (?twice + ?sum AS ?thrice) \
                { ?s :n ?n } GROUP BY ?s ORDER BY ?s";
    assert_eq!(
        rows(&two_groups(), sums),
        [
            format!("<http://x/a> {} {} {}", int(6), int(12), int(18)),
            format!("<http://x/b> {} {} {}", int(10), int(20), int(30)),
        ]
    );
    // Without GROUP BY, in a sub-select, in functions, and where the later column is ordered by.
    let all = "SELECT (SUM(?n) AS ?s) (?s*2 AS ?t) { ?x :n ?n }";
    assert_eq!(
        rows(&two_groups(), all),
        [format!("{} {}", int(16), int(32))]
    );
    let inner = "SELECT ?t { { SELECT ?s (COUNT(*) AS ?c) (IF(?c > 1, STR(?c), \"one\") AS ?t) \
                 { ?s :n ?n } GROUP BY ?s } } ORDER BY ?t";
    assert_eq!(rows(&two_groups(), inner), ["\"3\"", "\"one\""]);
    let ordered = "SELECT ?s (COUNT(*) AS ?c) (-?c AS ?d) { ?s :n ?n } GROUP BY ?s ORDER BY ?d";
    assert_eq!(
        rows(&two_groups(), ordered),
        [
            format!("<http://x/a> {} {}", int(3), int(-3)),
            format!("<http://x/b> {} {}", int(1), int(-1)),
        ]
    );
    // The same value, not the same expression a second time.
    let same = "SELECT (SAMPLE(?n) AS ?one) (RAND() AS ?r) (?r = ?r AS ?is) (?one AS ?other) \
                { ?s :n ?n FILTER(?s = :b) }";
    let row = rows(&two_groups(), same).remove(0);
    assert!(
        row.ends_with(&format!("\"true\"^^<xsd:boolean> {}", int(10))),
        "{row}"
    );
}

#[test]
fn having_reads_columns() {
    let int = |n: i32| format!("\"{n}\"^^<xsd:integer>");
    let one = [format!("<http://x/a> {}", int(3))];
    for having in [
        "HAVING(?c > 1)",
        "HAVING(COUNT(*) > 1)",
        "HAVING(?c > 1 && COUNT(*) > 1)",
        "HAVING(?c > 1) (SUM(?n) < 10)",
        "HAVING(BOUND(?c) && ?c IN (2, 3))",
    ] {
        let text = format!("SELECT ?s (COUNT(*) AS ?c) {{ ?s :n ?n }} GROUP BY ?s {having}");
        assert_eq!(rows(&two_groups(), &text), one, "{having}");
    }
    let several = "SELECT ?s (COUNT(*) AS ?c) (?c * 2 AS ?d) (STR(?d) AS ?e) { ?s :n ?n } \
                   GROUP BY ?s HAVING(?d > 2) VALUES ?s { :a :b }";
    assert_eq!(
        rows(&two_groups(), several),
        [format!("<http://x/a> {} {} \"6\"", int(3), int(6))]
    );
    let inner =
        "SELECT ?s { { SELECT ?s (SUM(?n) AS ?t) { ?s :n ?n } GROUP BY ?s HAVING(?t > 6) } }";
    assert_eq!(rows(&two_groups(), inner), ["<http://x/b>"]);
    // A grouped variable is the group's, and a name that nothing has stays unbound.
    let key = "SELECT ?s (MAX(?n) AS ?m) { ?s :n ?n } GROUP BY ?s HAVING(?s = :b)";
    assert_eq!(
        rows(&two_groups(), key),
        [format!("<http://x/b> {}", int(10))]
    );
    let none = "SELECT ?s (MAX(?n) AS ?m) { ?s :n ?n } GROUP BY ?s HAVING(?nothing > 1)";
    assert_eq!(rows(&two_groups(), none), Vec::<String>::new());
}

#[test]
fn group_concat_takes_the_text_of_numbers_and_iris() {
    let joined = |values: &str| {
        let text = format!(
            "SELECT (GROUP_CONCAT(?v; separator=\"+\") AS ?c) {{ VALUES ?v {{ {values} }} }}"
        );
        rows(&numbers(), &text).remove(0)
    };
    assert_eq!(joined("1 2.50 \"x\" \"y\"@en true"), "\"1+2.50+x+y+true\"");
    assert_eq!(joined(":a <http://y/b>"), "\"http://x/a+http://y/b\"");
    // A value that is missing, or has no text, makes the whole an error, as in STR.
    assert_eq!(
        rows(
            &numbers(),
            "SELECT (GROUP_CONCAT(BNODE(?v)) AS ?c) { VALUES ?v { \"a\" } }"
        ),
        ["-"]
    );
    // Different values with one text stay different ones.
    assert_eq!(
        rows(
            &numbers(),
            "SELECT (GROUP_CONCAT(DISTINCT ?v) AS ?c) { VALUES ?v { 1 \"1\" 1 \"1\" } }"
        ),
        ["\"1 1\""]
    );
}

#[test]
fn columns_that_read_columns_equal_spareval() {
    let quads = [
        quad("a", "n", Literal::from(1)),
        quad("a", "n", Literal::from(2)),
        quad("b", "n", Literal::from(10)),
        quad("b", "p", iri("a")),
    ];
    let view = NaiveView::stored(&quads);
    let dataset = quads.iter().collect();
    for text in [
        "SELECT ?s (SUM(?n) AS ?t) (?t * 2 AS ?u) { ?s :n ?n } GROUP BY ?s",
        "SELECT (COUNT(*) AS ?c) (IF(?c > 3, \"many\", STR(?c)) AS ?d) { ?s ?p ?o }",
        "SELECT ?s (COUNT(*) AS ?c) (?c + 1 AS ?d) { ?s :n ?n } GROUP BY ?s HAVING(?d > 2)",
        "SELECT ?s (COUNT(*) AS ?c) { ?s :n ?n } GROUP BY ?s HAVING(?c > 1 || ?s = :b)",
        "SELECT ?s ?d { ?s :p ?x { SELECT ?x (MAX(?n) AS ?m) (?m - 1 AS ?d) \
         { ?x :n ?n } GROUP BY ?x HAVING(BOUND(?m)) } }",
        "SELECT ?s (MIN(?n) AS ?m) (?m AS ?k) { ?s :n ?n } GROUP BY ?s \
         HAVING(EXISTS { ?s :p ?x } && ?k > 5) VALUES ?s { :a :b }",
    ] {
        let prepared = prepare(text);
        let mut ours = native(&view, &prepared);
        let mut theirs = oracle(&dataset, &prepared);
        ours.sort();
        theirs.sort();
        assert!(!ours.is_empty(), "{text}");
        assert_eq!(ours, theirs, "{text}");
    }
}
