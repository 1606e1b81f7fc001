//! Queries of the shapes that rewriting looks for, which [`crate::equals_spareval::query`] seldom
//! makes.

use crate::equals_spareval::{basic, constant, group, node, predicate, variable};
use proptest::prelude::*;
use proptest::sample::select;

/// A query of two parts that only a comparison connects, some of whose sides have more.
pub(crate) fn apart() -> impl Strategy<Value = String> {
    let side = |v: &'static str, w: &'static str| {
        (predicate(), predicate(), any::<bool>()).prop_map(move |(p, q, more)| {
            let more = if more {
                format!("?x{v} {q} ?{v}")
            } else {
                String::new()
            };
            format!("?{w} {p} ?{v} . {more}")
        })
    };
    (side("a", "s"), side("b", "t"), select(vec!["=", "=", "!="])).prop_map(|(one, other, op)| {
        format!("SELECT * WHERE {{ {one} {other} FILTER(?a {op} ?b) }}")
    })
}

/// A query with equalities that tie a predicate or a vertex to a constant or to another variable,
/// on its own level, inside a UNION, or between the sides of an OPTIONAL, whose absence may be
/// asked.
pub(crate) fn identities() -> impl Strategy<Value = String> {
    let name = || prop_oneof![3 => predicate(), 1 => node()].prop_map(|n| n.to_string());
    let same = || {
        (
            select(vec!["?b", "?a", "?c", "?d"]),
            prop_oneof![2 => name(), 2 => variable(), 1 => constant()],
            0..3,
        )
            .prop_map(|(v, other, form)| match form {
                0 => format!("FILTER({other} = {v})"),
                1 => format!("FILTER(sameTerm({v}, {other}))"),
                _ => format!("FILTER({v} = {other})"),
            })
    };
    let first = select(vec![
        "?a ?b ?c .",
        "?a ?b ?a .",
        "?a ?b ?c . ?c ?b ?d .",
        "?c ?a ?b . ?a <http://x/q> ?d .",
    ]);
    let left = (first, same(), proptest::option::of(basic()))
        .prop_map(|(first, same, more)| format!("{first} {} {same}", more.unwrap_or_default()))
        .boxed();
    let optional = (
        basic(),
        predicate(),
        predicate(),
        select(vec!["?e", "?f"]),
        select(vec!["?a", "?b", "?c"]),
        proptest::option::of(select(vec!["&& ?f < ?c", "&& ?f != ?d", "&& ?e = ?f", "&& BOUND(?e)"])),
        proptest::option::of(select(vec![
            "MINUS { ?a ?h ?i }",
            "OPTIONAL { ?g ?h ?a }",
            "{ ?g ?h ?i FILTER(!BOUND(?a)) }",
            "FILTER NOT EXISTS { ?a ?h ?b }",
            "BIND(?a AS ?i)",
            "{ SELECT ?g { ?a ?h ?g } }",
        ])),
        proptest::option::of(select(vec!["FILTER(!BOUND(?e))", "FILTER(!BOUND(?f))", "FILTER(BOUND(?f))"])),
    )
        .prop_map(|(left, p, q, inner, outer, more, beside, asked)| {
            let (more, asked) = (more.unwrap_or_default(), asked.unwrap_or_default());
            let beside = beside.unwrap_or_default();
            format!(
                "{left} OPTIONAL {{ ?g {p} ?e . ?g {q} ?f {beside} FILTER({inner} = {outer} {more}) }} {asked}"
            )
        }).boxed();
    let group = prop_oneof![
        2 => left.clone(),
        2 => optional.clone(),
        1 => (left.clone(), group(1)).prop_map(|(l, g)| format!("{l} {g}")),
        1 => (left.clone(), group(1)).prop_map(|(l, g)| format!("{{ {l} }} UNION {{ {g} }} ?a ?b ?d")),
        1 => (group(1), left.clone()).prop_map(|(g, l)| format!("{g} OPTIONAL {{ {l} }}")),
        1 => (group(1), left).prop_map(|(g, l)| format!("{g} MINUS {{ {l} }}")),
        1 => (optional, group(1)).prop_map(|(o, g)| format!("{g} {{ {o} }}")),
    ];
    let form = select(vec![
        "*",
        "?a",
        "?c ?f",
        "DISTINCT ?b",
        "(COUNT(*) AS ?n)",
        "(COUNT(DISTINCT *) AS ?n)",
    ]);
    (form, group).prop_map(|(form, group)| {
        format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\nSELECT {form} {{ {group} }}")
    })
}

/// A query that counts the solutions of one pattern by one of its ends.
pub(crate) fn counted() -> impl Strategy<Value = String> {
    let pattern = (
        select(vec!["?a", "?b", "?a", "_:x"]),
        predicate(),
        select(vec!["?b", "?a", "?b", "?c"]),
    )
        .prop_map(|(s, p, o)| format!("{s} {p} {o} ."));
    let graph = select(vec![
        "",
        "GRAPH <http://x/g>",
        "GRAPH <http://x/v>",
        "GRAPH ?g",
    ]);
    let group = (graph, pattern).prop_map(|(graph, pattern)| match graph {
        "" => pattern,
        graph => format!("{graph} {{ {pattern} }}"),
    });
    let count = select(vec![
        "*",
        "?a",
        "?b",
        "DISTINCT ?b",
        "DISTINCT ?a",
        "DISTINCT *",
        "?c",
    ]);
    let end = select(vec!["", "HAVING (COUNT(*) > 1)"]);
    (group, select(vec!["?a", "?b"]), count.clone(), count, end).prop_map(
        |(group, key, one, other, end)| {
            format!(
                "SELECT {key} (COUNT({one}) AS ?n) (COUNT({other}) AS ?m) {{ {group} }} GROUP BY {key} {end}"
            )
        },
    )
}

/// A query that does not count the rows of its patterns, and leaves most variables behind.
pub(crate) fn uncounted() -> impl Strategy<Value = String> {
    let end = || prop_oneof![4 => variable(), 1 => node().prop_map(|n| n.to_string())];
    let pattern = || {
        let predicate = prop_oneof![1 => variable(), 1 => predicate().prop_map(|n| n.to_string())];
        (end(), predicate, prop_oneof![4 => end(), 1 => constant()])
            .prop_map(|(s, p, o)| format!("{s} {p} {o} ."))
    };
    let patterns = proptest::collection::vec(pattern(), 1..4)
        .prop_map(|list| list.join(" "))
        .boxed();
    let one = patterns.clone();
    let group = prop_oneof![
        3 => one.clone(),
        2 => (one.clone(), one.clone()).prop_map(|(a, b)| format!("{{ {a} }} UNION {{ {b} }}")),
        1 => (one.clone(), one.clone()).prop_map(|(a, b)| format!("{a} OPTIONAL {{ {b} }}")),
        1 => (one.clone(), one.clone()).prop_map(|(a, b)| format!("{a} FILTER EXISTS {{ {b} }}")),
        1 => (one.clone(), one.clone()).prop_map(|(a, b)| format!("{a} MINUS {{ {b} }}")),
        1 => one.clone().prop_map(|a| format!("GRAPH ?d {{ {a} }}")),
        1 => (one.clone(), one).prop_map(|(a, b)| format!("{a} {{ SELECT DISTINCT ?a {{ {b} }} }}")),
        1 => (patterns, group(1)).prop_map(|(a, b)| format!("{a} {b}")),
    ];
    let form = select(vec![
        ("SELECT DISTINCT ?b", ""),
        ("SELECT DISTINCT ?a ?c", ""),
        ("SELECT DISTINCT *", ""),
        ("SELECT (COUNT(DISTINCT ?b) AS ?n)", ""),
        ("SELECT (COUNT(DISTINCT *) AS ?n)", ""),
        ("SELECT ?a (COUNT(DISTINCT ?b) AS ?n)", "GROUP BY ?a"),
        (
            "SELECT ?a (COUNT(DISTINCT ?b) AS ?n) (COUNT(?c) AS ?m)",
            "GROUP BY ?a",
        ),
        ("SELECT (COUNT(*) AS ?n) { SELECT DISTINCT ?b", "}"),
        ("SELECT ?b", ""),
        ("ASK", ""),
        ("CONSTRUCT { ?a <http://x/made> ?c } WHERE", ""),
    ]);
    (form, group).prop_map(|((form, end), group)| {
        format!("PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n{form} {{ {group} }} {end}")
    })
}
