//! Wukong, section 6: graphs with many predicates; the largest of its data sets has some 14,000.
//! The same number of triples is stored with 14 predicates and with many: loading, memory, and
//! queries whose predicate is known or not.

use super::ask::ask_for;
use super::{Failure, PaperPart, PapersOptions};
use crate::figures::sheet::{Grid, Sheet};
use crate::figures::table::thousands;
use crate::harness::target::{Row, at_most};
use crate::streams::stage::configuration;
use somersault::Engine;
use somersault::oxrdf::{GraphName, NamedNode, Quad};
use std::time::{Duration, Instant};

pub(super) const PART: PaperPart = PaperPart {
    name: "predicates",
    run,
    rows,
};

/// The number of predicates that the many are compared with.
const FEW: u32 = 14;
/// Triples of each subject.
const EACH: u64 = 10;
const BYTES: &str = "bytes a triple";
const LOADED: &str = "loaded, triples/s";

/// The queries: a name, and a text with `{s}` for a subject and `{p}` for a predicate.
const QUERIES: [(&str, &str); 5] = [
    (
        "a vertex, all edges, p50, ms",
        "SELECT ?p ?o { <{s}> ?p ?o }",
    ),
    (
        "two steps, all edges, p50, ms",
        "SELECT (COUNT(*) AS ?n) { <{s}> ?p ?o . ?o ?q ?end }",
    ),
    (
        "a vertex, one predicate, p50, ms",
        "SELECT ?o { <{s}> <{p}> ?o }",
    ),
    (
        "backwards, all edges, p50, ms",
        "SELECT ?p ?x { ?x ?p <{s}> }",
    ),
    ("all predicates, p50, ms", "SELECT DISTINCT ?p { ?s ?p ?o }"),
];

/// Measures, and prints the figures as they come.
fn run(options: &PapersOptions) -> Result<Sheet, Failure> {
    let sheet = Sheet::new(
        "Papers: many predicates (Wukong, 6)",
        format!(
            "{} triples of subjects with ten edges each, subjects, predicates and objects drawn evenly.",
            thousands(options.triples)
        ),
    );
    let mut columns = [LOADED, BYTES, "", "", "", "", ""];
    for (column, (name, _)) in columns[2..].iter_mut().zip(QUERIES) {
        *column = name;
    }
    let mut grid = Grid::new("predicates", columns);
    for predicates in [FEW, options.predicates] {
        grid.line(predicates.to_string(), of(options, predicates)?.map(Some));
    }
    Ok(sheet.with([grid]))
}

fn of(options: &PapersOptions, predicates: u32) -> Result<[f64; 7], Failure> {
    let engine = Engine::open(configuration(options.workers))?;
    let start = Instant::now();
    let stored = engine
        .load_quads(quads(options.triples, predicates))?
        .stored;
    let seconds = start.elapsed().as_secs_f64();
    let memory = engine.metrics().memory;
    let bytes = (memory.store_bytes + memory.dictionary_bytes) as f64;
    let mut figures = [0.0; 7];
    figures[0] = stored as f64 / seconds;
    figures[1] = bytes / stored.max(1) as f64;
    let Some(some) = quads(options.triples, predicates).next() else {
        return Err("no triples were asked for (--triples)".into());
    };
    let (subject, predicate) = (entity(0), some.predicate);
    let least = Duration::from_millis(options.seconds.unsigned_abs() * 250);
    for (figure, (_, text)) in figures[2..].iter_mut().zip(QUERIES) {
        let text = text.replace("{s}", subject.as_str());
        let text = text.replace("{p}", predicate.as_str());
        *figure = ask_for(&engine, &text, least)?.p50();
    }
    engine.shutdown()?;
    Ok(figures)
}

fn entity(number: u64) -> NamedNode {
    NamedNode::new_unchecked(format!("http://example.org/entity/{number}"))
}

/// Triples of subjects in order; predicates and objects are drawn.
fn quads(triples: u64, predicates: u32) -> impl Iterator<Item = Quad> {
    let entities = triples.div_ceil(EACH);
    let names: Vec<NamedNode> = (0..predicates.max(1))
        .map(|number| format!("http://example.org/predicate/{number}"))
        .map(NamedNode::new_unchecked)
        .collect();
    (0..triples).map(move |number| {
        let drawn = mixed(number);
        let predicate = names[(drawn % names.len() as u64) as usize].clone();
        let object = entity(mixed(drawn) % entities);
        Quad::new(
            entity(number / EACH),
            predicate,
            object,
            GraphName::DefaultGraph,
        )
    })
}

/// Mixes the bits of a number (the last step of splitmix64).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The targets that these figures are held to.
fn rows(sheet: Option<&Sheet>) -> Vec<Row> {
    let spread = |column: &str| sheet.and_then(|sheet| sheet.spread(column));
    let row = |what: &str, column: &str| {
        let what = format!("papers: {what}, few predicates and many, slower against quicker");
        at_most(&what, 1.5, spread(column), "×")
    };
    vec![
        row("loading", LOADED),
        row("a vertex and all its edges", QUERIES[0].0),
        at_most(
            "papers: bytes a triple, few predicates and many, more against less",
            1.5,
            spread(BYTES),
            "×",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_are_as_many_as_asked_for() {
        let made: Vec<Quad> = quads(20_000, 200).collect();
        let mut predicates: Vec<_> = made.iter().map(|quad| quad.predicate.as_str()).collect();
        predicates.sort_unstable();
        predicates.dedup();
        assert_eq!((made.len(), predicates.len()), (20_000, 200));
        assert_eq!(made[9].subject, made[0].subject);
        assert_ne!(made[10].subject, made[0].subject);
    }
}
