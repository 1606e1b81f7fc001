//! Golden plans: each `tests/plans/NAME.rq` has its expected steps in `NAME.plan`, for the social
//! network of `data()`. `UPDATE_EXPECT=1` refreshes them.

use crate::naive::NaiveView;
use oxrdf::{GraphName, Literal, NamedNode, Quad, Triple, vocab::rdf};
use proptest::prelude::*;
use somersault_lang::Parser;
use somersault_model::{EventTime, Limits};
use somersault_query::{Execution, Invocation, Prepared};
use std::path::Path;

fn iri(name: &str) -> NamedNode {
    NamedNode::new_unchecked(format!("http://x/{name}"))
}

/// Forty people who know five others each, ten groups, and windows of posts and likes.
fn data() -> NaiveView {
    let person = |n: u32| iri(&format!("person{}", n % 40));
    let mut quads = Vec::new();
    let mut stored = |s: NamedNode, p: NamedNode, o: NamedNode| {
        quads.push(Quad::new(s, p, o, GraphName::DefaultGraph));
    };
    for n in 0..40 {
        stored(person(n), rdf::TYPE.into_owned(), iri("Person"));
        for other in 1..6 {
            stored(person(n), iri("knows"), person(n * 7 + other));
        }
        stored(person(n), iri("member"), iri(&format!("group{}", n % 10)));
    }
    for n in 0..40 {
        let age = Literal::from(i64::from(20 + n));
        quads.push(Quad::new(
            person(n),
            iri("age"),
            age,
            GraphName::DefaultGraph,
        ));
    }
    quads.extend(university());
    let post = |n: u32| iri(&format!("post{n}"));
    let posts = (0..30)
        .flat_map(|n| {
            [
                Triple::new(person(n * 3), iri("posts"), post(n)),
                Triple::new(post(n), iri("tag"), iri(&format!("tag{}", n % 4))),
            ]
        })
        .collect();
    let likes = (0..10)
        .map(|n| Triple::new(person(n * 5), iri("likes"), post(n)))
        .collect();
    NaiveView::with_windows(&quads, &[(iri("Posts"), posts), (iri("Likes"), likes)])
}

/// Three universities of four departments each; thirty students in each department, who have
/// studied before elsewhere, a professor for ten of them, and courses that the professors teach and
/// that are taken by their own students more than by others.
fn university() -> Vec<Quad> {
    let mut quads = Vec::new();
    let mut stored = |s: &str, p: &str, o: &str| {
        let predicate = if p == "a" {
            rdf::TYPE.into_owned()
        } else {
            iri(p)
        };
        quads.push(Quad::new(
            iri(s),
            predicate,
            iri(o),
            GraphName::DefaultGraph,
        ));
    };
    for d in 0..12 {
        let (department, university) = (format!("department{d}"), format!("university{}", d % 3));
        stored(&university, "a", "University");
        stored(&department, "a", "Department");
        stored(&department, "subOrganizationOf", &university);
        for p in 0..3 {
            let professor = format!("professor{d}x{p}");
            stored(&professor, "a", "Professor");
            stored(&professor, "memberOf", &department);
            for c in 0..2 {
                let course = format!("course{d}x{p}x{c}");
                stored(&course, "a", "Course");
                stored(&professor, "teaches", &course);
            }
        }
        for s in 0..30 {
            let student = format!("student{d}x{s}");
            stored(&student, "a", "Student");
            stored(&student, "memberOf", &department);
            stored(&student, "degreeFrom", &format!("university{}", s % 3));
            stored(&student, "advisor", &format!("professor{d}x{}", s % 3));
            stored(&student, "takes", &format!("course{d}x{}x0", s % 3));
            stored(
                &student,
                "takes",
                &format!("course{}x{}x1", (d + s) % 12, s % 2),
            );
        }
    }
    quads
}

/// Four hundred universities of which twenty have departments, forty each, and each department
/// fifteen groups; students who are in a department and have a degree from any of the universities.
fn many_universities() -> NaiveView {
    let mut quads = Vec::new();
    let mut stored = |s: String, p: NamedNode, o: String| {
        quads.push(Quad::new(iri(&s), p, iri(&o), GraphName::DefaultGraph));
    };
    let class = || rdf::TYPE.into_owned();
    // The few are among the many as they come.
    let of_department = |d: u32| format!("university{}", d % 20 * 20);
    for u in 0..400 {
        stored(format!("university{u}"), class(), "University".to_owned());
    }
    for d in 0..800 {
        stored(format!("department{d}"), class(), "Department".to_owned());
        stored(
            format!("department{d}"),
            iri("subOrganizationOf"),
            of_department(d),
        );
        for g in 0..15 {
            let group = format!("group{d}x{g}");
            stored(group, iri("subOrganizationOf"), format!("department{d}"));
        }
    }
    for s in 0..40_000 {
        let student = format!("student{s}");
        stored(
            student.clone(),
            iri("memberOf"),
            format!("department{}", s % 800),
        );
        stored(
            student,
            iri("degreeFrom"),
            format!("university{}", s * 7 % 400),
        );
    }
    NaiveView::with_windows(&quads, &[])
}

/// Few of the universities have a department: those that have none are left out before their
/// graduates are looked for.
#[test]
fn rows_without_an_edge_that_is_needed_later_are_dropped_early() {
    let text = "SELECT ?x ?y ?z {
        ?y a <http://x/University> . ?x <http://x/degreeFrom> ?y .
        ?x <http://x/memberOf> ?z . ?z <http://x/subOrganizationOf> ?y .
    }";
    let plan = plan_on(&many_universities(), text);
    assert!(
        plan.contains("reduce ?y by ?z <subOrganizationOf> ?y"),
        "{plan}"
    );
}

/// Few of all organisations are departments, but all organisations directly below a university are.
/// Only rows that pass through both patterns show that; pairs of patterns do not.
#[test]
fn sampled_rows_show_the_joint_selectivity_of_three_patterns() {
    let text = "SELECT ?y ?z {
        ?y a <http://x/University> . ?z <http://x/subOrganizationOf> ?y .
        ?z a <http://x/Department> .
    }";
    let mut execution = Execution::new(Limits::default(), EventTime(0));
    execution.plan_choices.try_out = true;
    let plan = explained(&many_universities(), text, &execution);
    assert!(
        plan.contains("check ?z <type> <Department>  ~800"),
        "{plan}"
    );
}

fn plan(text: &str) -> String {
    plan_on(&data(), text)
}

fn plan_on(view: &NaiveView, text: &str) -> String {
    explained(view, text, &Execution::new(Limits::default(), EventTime(0)))
}

fn explained(view: &NaiveView, text: &str, execution: &Execution) -> String {
    let prepared = Prepared::new(Parser::new().parse_query(text).expect("a query"));
    prepared
        .explain(Invocation::new(view, execution), false)
        .expect("no limit is near")
        .to_string()
}

#[test]
fn plans_are_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut names: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of plans")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "rq"))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for path in names {
        let text = std::fs::read_to_string(&path).expect("a readable query");
        expect_test::expect_file![path.with_extension("plan")].assert_eq(&plan(&text));
    }
}

/// Patterns, filters and blocks that together give every kind of step something to do.
const ELEMENTS: [&str; 10] = [
    "?a <http://x/knows> ?b .",
    "?b <http://x/knows> ?c .",
    "?c <http://x/knows> ?a .",
    "?c <http://x/member> <http://x/group3> .",
    "?a a <http://x/Person> .",
    "?a <http://x/member> ?g .",
    "?d <http://x/posts> ?e .",
    "FILTER(?a != ?c)",
    "{ ?a <http://x/posts> ?p } UNION { ?a <http://x/likes> ?p }",
    "VALUES ?g { <http://x/group1> <http://x/group2> }",
];

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn no_plan_depends_on_the_order_of_the_text(
        elements in proptest::sample::subsequence(ELEMENTS.to_vec(), 2..=ELEMENTS.len()),
        shuffled in any::<u64>(),
    ) {
        let text = |elements: &[&str]| {
            format!("SELECT ?a ?b ?c ?d ?e ?g ?p {{ {} }}", elements.join(" "))
        };
        let expected = plan(&text(&elements));
        let mut other = elements.clone();
        let count = other.len();
        for at in 0..count {
            other.swap(at, (shuffled >> (6 * at % 58)) as usize % count);
        }
        prop_assert_eq!(plan(&text(&other)), expected, "{:?}", other);
    }
}

#[test]
fn analyze_shows_what_happened() {
    let prepared = Prepared::new(
        Parser::new()
            .parse_query("SELECT * { ?a <http://x/member> <http://x/group3> }")
            .expect("a query"),
    );
    let execution = Execution::new(Limits::default(), EventTime(0));
    let text = prepared
        .explain(Invocation::new(&data(), &execution), true)
        .expect("runs")
        .to_string();
    assert!(text.contains("rows 4 "), "{text}");
    assert!(text.contains("µs"), "{text}");
}

#[test]
fn planning_a_deeply_nested_query_takes_no_time_to_speak_of() {
    let mut group = "?a <http://x/knows> ?b".to_owned();
    for depth in 0..40 {
        group = format!(
            "?a <http://x/knows> ?c{depth} {{ {{ {group} }} UNION {{ ?a <http://x/member> ?b }} }}"
        );
    }
    // Exponential work would not end; what the plan is does not matter here.
    assert!(plan(&format!("SELECT * {{ {group} }}")).lines().count() > 80);
}
