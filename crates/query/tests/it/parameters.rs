//! State kept between executions changes no answer: queries whose constants were lifted out, plans
//! made for other data and other constants, values given for variables.

use crate::equals_spareval::{answer_rows, data, group, native, query};
use crate::naive::NaiveView;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Term};
use proptest::prelude::*;
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits};
use somersault_query::{Answer, Execution, Invocation, PlanCache, Prepared, QueryError};
use std::time::Duration;

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

fn execution() -> Execution {
    Execution::new(Limits::default(), EventTime(0))
}

fn parse(text: &str) -> Result<somersault_lang::Query, String> {
    parse_from(None, text)
}

fn parse_from(base: Option<&str>, text: &str) -> Result<somersault_lang::Query, String> {
    let parser = match base {
        Some(base) => Parser::new().with_base(base),
        None => Parser::new(),
    };
    parser.parse_query(text).map_err(|error| error.to_string())
}

fn prepare(text: &str) -> Prepared {
    Prepared::new(parse(text).expect("a query"))
}

/// The same query about other things.
fn about_others(text: &str, by: usize) -> String {
    let nodes = ["a", "b", "c", "d", "e", "nowhere"];
    let mut text = text.to_owned();
    for (at, node) in nodes.iter().enumerate() {
        text = text.replace(&format!("/{node}>"), &format!("/{at}#>"));
    }
    for at in 0..nodes.len() {
        let other = nodes[(at + by) % nodes.len()];
        text = text.replace(&format!("/{at}#>"), &format!("/{other}>"));
    }
    text.replace(
        "\"x\"",
        if by.is_multiple_of(2) {
            "\"x\""
        } else {
            "'FILTER(?a = <u>) }'"
        },
    )
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_lifted_query_answers_as_its_text(data in data(), text in query(), based in any::<bool>()) {
        let view = data.view();
        let cache = PlanCache::new(16);
        let base = based.then_some("http://x/y/");
        let parse = |text: &str| parse_from(base, text);
        for by in [0, 1, 3, 0, 5] {
            let text = about_others(&text, by);
            let Ok(cached) = cache.get_or_prepare(&text, base, 0, parse) else {
                prop_assert!(parse(&text).is_err());
                continue;
            };
            let ours = cached.run(Invocation::new(&view, &execution())).expect("no limit is near");
            let plain = native(&view, &prepare(&text));
            prop_assert_eq!(sorted(answer_rows(&view, ours)), sorted(plain), "\n{}", text);
        }
    }

    #[test]
    fn a_kept_plan_answers_as_a_new_one(first in data(), second in data(), text in query()) {
        let Ok(parsed) = parse(&text) else { return Ok(()) };
        let kept = Prepared::new(parsed);
        for data in [first, second] {
            let view = data.view();
            prop_assert_eq!(
                sorted(native(&view, &kept)),
                sorted(native(&view, &prepare(&text))),
                "\n{}", text
            );
        }
    }

    #[test]
    fn values_count_as_if_they_were_written(data in data(), group in group(2)) {
        // Inside a sub-select that does not project it, `?b` is another variable.
        prop_assume!(!group.contains("SELECT"));
        let view = data.view();
        let text = |group: &str| {
            format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> SELECT * {{ {group} }}")
        };
        let Ok(parsed) = parse(&text(&group)) else { return Ok(()) };
        let Ok(prepared) = Prepared::with_parameters(parsed, &["b"]) else { return Ok(()) };
        for value in [Term::from(iri("a")), iri("d").into(), Literal::from(1).into()] {
            let Ok(written) = parse(&text(&group.replace("?b", &value.to_string()))) else {
                continue;
            };
            let values = [value.clone()];
            let ours = match prepared.run(Invocation::new(&view, &execution()).terms(&values)) {
                Err(QueryError::Parameters { .. }) if !value.is_named_node() => continue,
                answer => answer.expect("no limit is near"),
            };
            let Answer::Solutions(solutions) = &ours else { panic!("SELECT has solutions") };
            let names: Vec<String> = (written.projection().iter())
                .map(|v| written.variable_name(*v).to_owned())
                .collect();
            let columns: Vec<usize> = names.iter()
                .filter_map(|name| solutions.variables().iter().position(|v| v == name))
                .collect();
            prop_assert_eq!(columns.len(), names.len());
            let place = solutions.variables().iter().position(|v| v == "b");
            let ours = answer_rows(&view, ours);
            if let Some(place) = place {
                let own = crate::equals_spareval::canonical(Some(value));
                prop_assert!(ours.iter().all(|row| row[place] == own));
            }
            let ours = ours.into_iter().map(|row| columns.iter().map(|c| row[*c].clone()).collect());
            let theirs = native(&view, &Prepared::new(written));
            prop_assert_eq!(sorted(ours.collect()), sorted(theirs), "\n{}", group);
        }
    }
}

#[test]
fn texts_of_one_shape_share_a_query() {
    let cache = PlanCache::new(4);
    let text = |name: &str, number: i32| {
        format!("PREFIX : <http://x/> SELECT ?o {{ :{name} :p ?o FILTER(?o != {number}) }}")
    };
    let mut rows = Vec::new();
    let view = NaiveView::stored(&[
        Quad::new(
            iri("a"),
            iri("p"),
            Literal::from(1),
            GraphName::DefaultGraph,
        ),
        Quad::new(
            iri("b"),
            iri("p"),
            Literal::from(2),
            GraphName::DefaultGraph,
        ),
    ]);
    for (name, number) in [("a", 2), ("b", 1), ("a", 1), ("unheard", 3)] {
        let query = cache
            .get_or_prepare(&text(name, number), None, 0, parse)
            .expect("a query");
        assert_eq!(query.prepared().parameters(), 2);
        let answer = query
            .run(Invocation::new(&view, &execution()))
            .expect("answers");
        rows.push(answer_rows(&view, answer).len());
    }
    assert_eq!(rows, [1, 1, 0, 0]);
    assert_eq!((cache.shapes(), cache.len()), (1, 0));
    // A repeated text is found.
    cache
        .get_or_prepare(&text("a", 2), None, 0, parse)
        .expect("a query");
    assert_eq!(cache.len(), 1);
}

/// A plan that was made for one predicate is no plan for another.
#[test]
fn a_predicate_that_a_filter_names_is_not_shared() {
    let cache = PlanCache::new(4);
    for name in ["p", "q"] {
        let text = format!("PREFIX : <http://x/> SELECT ?s {{ ?s ?p ?o FILTER(?p = :{name}) }}");
        let query = cache
            .get_or_prepare(&text, None, 0, parse)
            .expect("a query");
        assert_eq!(query.prepared().parameters(), 0);
    }
    assert_eq!(cache.len(), 2);
}

#[test]
fn texts_with_a_base_share_a_query_of_that_base() {
    let cache = PlanCache::new(8);
    let quad = |name: &str| Quad::new(iri(name), iri("p"), iri(name), GraphName::DefaultGraph);
    let view = NaiveView::stored(&[quad("a"), quad("y/b")]);
    let rows = |base: &str, subject: &str| {
        let text = format!("SELECT ?o {{ {subject} <p> ?o }}");
        let query = cache
            .get_or_prepare(&text, Some(base), 0, |text| parse_from(Some(base), text))
            .expect("a query");
        let answer = query
            .run(Invocation::new(&view, &execution()))
            .expect("answers");
        let rows = answer_rows(&view, answer);
        let plain = parse_from(Some(base), &text).expect("a query");
        assert_eq!(rows, native(&view, &Prepared::new(plain)), "{text}");
        rows.len()
    };
    // A predicate is part of the shape, and another one with another base.
    assert_eq!(rows("http://x/", "<http://x/a>"), 1);
    assert_eq!(rows("http://x/", "<http://x/y/b>"), 1);
    assert_eq!(rows("http://x/y/", "<http://x/a>"), 0);
    assert_eq!(rows("http://x/", "<y/b>"), 1);
    assert_eq!(rows("http://x/y/", "<b>"), 0);
    rows("http://x/", "<http://x/y/../a>");
    // Texts with relative IRIs are cached by the text and the base.
    assert_eq!((cache.shapes(), cache.len()), (2, 3));
}

#[test]
fn a_term_that_is_learnt_later_is_found_then() {
    let prepared = prepare("SELECT ?o { <http://x/late> <http://x/p> ?o }");
    let view = NaiveView::stored(&[]);
    assert_eq!(native(&view, &prepared).len(), 0);
    let quad = Quad::new(iri("late"), iri("p"), iri("o"), GraphName::DefaultGraph);
    let later = NaiveView::stored(&[quad]);
    assert_eq!(native(&later, &prepared).len(), 1);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let query = || parse("SELECT * { ?s ?p ?o }").expect("a query");
    let prepared = Prepared::with_parameters(query(), &["p", "?o"]).expect("both are free");
    let view = NaiveView::stored(&[]);
    let run = |values: &[Term]| prepared.run(Invocation::new(&view, &execution()).terms(values));
    assert!(run(&[iri("p").into(), Literal::from(1).into()]).is_ok());
    for values in [
        vec![],
        vec![Term::from(iri("p"))],
        vec![Literal::from(1).into(), iri("o").into()],
    ] {
        let error = run(&values).expect_err("they do not fit");
        assert!(matches!(error, QueryError::Parameters { .. }), "{error}");
    }
    for names in [&["nobody"][..], &["s", "s"]] {
        assert!(Prepared::with_parameters(query(), names).is_err());
    }
    let sent = "SELECT * { ?s ?p ?o SERVICE ?e { ?o ?q ?x } }";
    let with = |name| Prepared::with_parameters(parse(sent).expect("a query"), &[name]);
    for name in ["o", "x"] {
        let error = with(name).err().expect("the endpoint is sent the text");
        assert!(error.to_string().contains("SERVICE"), "{error}");
    }
    assert!(with("s").is_ok() && with("e").is_ok());
    let assigned = parse("SELECT * { ?s ?p ?o BIND(1 AS ?x) }").expect("a query");
    assert!(Prepared::with_parameters(assigned, &["x"]).is_err());
}

#[test]
fn a_heavy_query_stops_within_the_light_budget() {
    let quads: Vec<Quad> = (0..600)
        .map(|n| {
            let name = format!("n{n}");
            Quad::new(iri(&name), iri("p"), iri(&name), GraphName::DefaultGraph)
        })
        .collect();
    let view = NaiveView::stored(&quads);
    let heavy = prepare("SELECT * { ?a ?p ?b . ?c ?q ?d }");
    let tried = Execution {
        // Judged by the plan's estimate, so that other load on the machine does not matter.
        budget: Some(Duration::from_secs(3_600)),
        ..execution()
    };
    let error = heavy
        .run(Invocation::new(&view, &tried))
        .expect_err("360,000 rows");
    assert!(matches!(error, QueryError::OverBudget), "{error}");
    assert!(!heavy.is_light(), "not tried again at once");
    let answer = heavy
        .run(Invocation::new(&view, &execution()))
        .expect("no limit is near");
    assert!(matches!(answer, Answer::Solutions(rows) if rows.len() == 360_000));
    let light = prepare("SELECT * { <http://x/n1> ?p ?b }");
    assert!(light.run(Invocation::new(&view, &tried)).is_ok());
    assert!(light.is_light());
    // It was answered, but took far longer than it might.
    for pause in [1, 3] {
        assert!(light.run(Invocation::new(&view, &tried)).is_ok());
        light.note_in_place(false);
        assert!((0..pause).all(|_| !light.is_light()));
        assert!(light.is_light());
    }
    light.note_in_place(true);
    light.note_in_place(false);
    assert!(!light.is_light() && light.is_light(), "a pause of one");
}

#[test]
fn a_shape_is_compared_by_its_terms_and_not_by_their_texts() {
    let simple = |text: &str| Term::from(Literal::new_simple_literal(text));
    let of_shape = |template: &str, plain: &str, pairs: &[(Term, Term)]| {
        let (placeholders, constants): (Vec<Term>, Vec<Term>) = pairs.iter().cloned().unzip();
        let (plain, template) = (
            parse(plain).expect("a query"),
            parse(template).expect("a query"),
        );
        Prepared::of_shape(&plain, template, placeholders, &constants)
    };
    // The literal with a language is no parameter, though it has the text of one.
    let text =
        |of: &str| format!("SELECT ?s {{ ?s <http://x/p> \"{of}\" ; <http://x/q> \"{of}\"@en }}");
    let pairs = [(simple("zz"), simple("yy"))];
    assert!(of_shape(&text("zz"), &text("yy"), &pairs).is_none());
    // One parameter's value is another's placeholder.
    let text = |s: &str, o: &str| format!("SELECT ?p {{ <http://x/{s}> ?p <http://x/{o}> }}");
    let pairs = [
        (iri("11").into(), iri("22").into()),
        (iri("22").into(), iri("a").into()),
    ];
    assert!(of_shape(&text("11", "22"), &text("22", "a"), &pairs).is_some());
    // A placeholder has the name of an operator of the algebra.
    let text = |of: &str| format!("SELECT ?s {{ ?s <http://x/p> \"{of}\" }}");
    let pairs = [(simple("Group"), simple("a"))];
    assert!(of_shape(&text("Group"), &text("a"), &pairs).is_some());
    // A text that is compiled into the query cannot be a parameter.
    let text = |of: &str| format!("SELECT ?s {{ ?s <http://x/p> ?o FILTER(REGEX(?o, \"{of}\")) }}");
    let pairs = [(simple("zz"), simple("a"))];
    assert!(of_shape(&text("zz"), &text("a"), &pairs).is_none());
}
