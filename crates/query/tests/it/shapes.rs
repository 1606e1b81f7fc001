//! Queries of the shapes that rewriting looks for, which [`crate::equals_spareval::query`] seldom makes.

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
/// on its own level, inside a UNION, or between the sides of an OPTIONAL, whose absence may be asked.
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
        proptest::option::of(select(vec!["FILTER(!BOUND(?e))", "FILTER(!BOUND(?f))", "FILTER(BOUND(?f))"])),
    )
        .prop_map(|(left, p, q, inner, outer, more, asked)| {
            let (more, asked) = (more.unwrap_or_default(), asked.unwrap_or_default());
            format!(
                "{left} OPTIONAL {{ ?g {p} ?e . ?g {q} ?f FILTER({inner} = {outer} {more}) }} {asked}"
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
