//! The promises of the generators of one-shot workloads: repeatable, distinct, in proportion,
//! readable, and with queries whose constants exist.

use oxrdf::Triple;
use oxttl::NTriplesParser;
use somersault_generate::{NamedQuery, Sp2Bench, WatDiv};
use std::collections::{HashMap, HashSet};

fn watdiv(scale: u32, seed: u64) -> Vec<Triple> {
    let mut triples = Vec::new();
    WatDiv::new(scale, seed).generate(|triple| triples.push(triple));
    triples
}

fn sp2bench(size: u64, seed: u64) -> Vec<Triple> {
    let mut triples = Vec::new();
    Sp2Bench::new(size, seed).generate(|triple| triples.push(triple));
    triples
}

/// The number of triples of each predicate, by the last part of its name.
fn by_predicate(triples: &[Triple]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for triple in triples {
        let predicate = triple.predicate.as_str();
        let local = predicate.rsplit(['#', '/']).next().unwrap_or(predicate);
        *counts.entry(local).or_default() += 1;
    }
    counts
}

/// The number of subjects of each class.
fn by_class(triples: &[Triple]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for triple in triples {
        if triple.predicate.as_str().ends_with("#type") {
            *counts.entry(triple.object.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn the_same_seed_gives_the_same_data_and_another_does_not() {
    assert!(watdiv(1, 1) == watdiv(1, 1));
    assert!(watdiv(1, 1) != watdiv(1, 2));
    assert!(sp2bench(20_000, 1) == sp2bench(20_000, 1));
    assert!(sp2bench(20_000, 1) != sp2bench(20_000, 2));
    assert_eq!(WatDiv::new(1, 1).queries(), WatDiv::new(1, 1).queries());
}

#[test]
fn no_triple_is_given_twice_and_all_of_them_parse() {
    for triples in [watdiv(1, 1), sp2bench(30_000, 1)] {
        let distinct: HashSet<&Triple> = triples.iter().collect();
        assert_eq!(distinct.len(), triples.len());
        let text: String = triples
            .iter()
            .map(|triple| format!("{triple} .\n"))
            .collect();
        let read: Result<Vec<Triple>, _> = NTriplesParser::new().for_slice(&text).collect();
        assert!(read.expect("every line is N-Triples") == triples);
    }
}

#[test]
fn a_shop_has_the_proportions_of_watdiv() {
    let triples = watdiv(4, 1);
    assert!(
        (90_000..120_000).contains(&(triples.len() / 4)),
        "{} triples a scale",
        triples.len() / 4
    );
    let counts = by_predicate(&triples);
    let mut wrong = Vec::new();
    // As published for scale 100, divided by a hundred; within a third, since it is drawn.
    for (predicate, published) in [
        ("friendOf", 44_911),
        ("follows", 32_893),
        ("likes", 1_124),
        ("subscribes", 1_523),
        ("makesPurchase", 1_500),
        ("purchaseFor", 1_500),
        ("hasReview", 1_496),
        ("includes", 900),
        ("offers", 1_193),
        ("tag", 1_473),
        ("hasGenre", 588),
        ("gender", 598),
        ("age", 501),
        ("nationality", 199),
        ("jobTitle", 50),
        ("homepage", 112),
        ("caption", 25),
        ("description", 150),
    ] {
        let made = counts.get(predicate).copied().unwrap_or_default() as f64 / 4.0;
        let share = made / f64::from(published);
        if !(0.6..1.5).contains(&share) {
            wrong.push(format!(
                "{predicate}: {made} a scale, {published} published"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_bibliography_grows_to_its_size() {
    for size in [10_000, 50_000] {
        let made = sp2bench(size, 1).len() as u64;
        assert!((size..size + 2_500).contains(&made), "{made} for {size}");
    }
}

#[test]
fn a_bibliography_has_the_shape_of_dblp() {
    let triples = sp2bench(100_000, 1);
    let classes = by_class(&triples);
    let of = |class: &str| {
        let iri = format!("<http://localhost/vocabulary/bench/{class}>");
        classes.get(&iri).copied().unwrap_or_default()
    };
    assert!(of("Article") > of("Inproceedings") && of("Inproceedings") > of("Book"));
    assert!((20..60).contains(&(of("Article") / of("Journal"))));
    let counts = by_predicate(&triples);
    let articles = of("Article") + of("Inproceedings");
    assert!((85..98).contains(&(counts["pages"] * 100 / articles)));
    // Erdoes writes ten a year; of the others few write much and most little.
    let mut written: HashMap<String, usize> = HashMap::new();
    for triple in &triples {
        if triple.predicate.as_str().ends_with("/creator") {
            *written.entry(triple.object.to_string()).or_default() += 1;
        }
    }
    let erdoes = written.remove("<http://localhost/persons/Paul_Erdoes>");
    assert!(erdoes.is_some_and(|documents| documents >= 200 && documents % 10 == 0));
    let most = written.values().max().copied().unwrap_or_default();
    let once = written
        .values()
        .filter(|&&documents| documents == 1)
        .count();
    assert!(most > 20 && once * 2 > written.len(), "{most} {once}");
    // A cited document was written before.
    let mut seen = HashSet::new();
    for triple in &triples {
        seen.insert(triple.subject.to_string());
        if triple.predicate.as_str().contains("rdf-syntax-ns#_") {
            assert!(seen.contains(&triple.object.to_string()), "{triple}");
        }
    }
}

#[test]
fn queries_have_their_constants_and_their_names() {
    let names = |queries: Vec<NamedQuery>| {
        let mut names = HashSet::new();
        for query in queries {
            assert!(!query.text.contains('%'), "{} has a hole left", query.name);
            names.insert(query.name);
        }
        names.len()
    };
    assert_eq!(names(WatDiv::new(1, 1).queries()), 20);
    assert_eq!(names(Sp2Bench::new(1_000, 1).queries()), 14);
}

#[test]
fn constants_of_watdiv_are_of_the_data() {
    let shop = WatDiv::new(2, 1);
    let mut nodes = HashSet::new();
    shop.generate(|triple| {
        nodes.insert(triple.subject.to_string());
        nodes.insert(triple.object.to_string());
    });
    for query in shop.queries() {
        let constants = query
            .text
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("wsdbm:"))
            .filter(|local| local.ends_with(|last: char| last.is_ascii_digit()));
        for local in constants {
            let node = format!("<http://db.uwaterloo.ca/~galuc/wsdbm/{local}>");
            assert!(nodes.contains(&node), "{}: {node} is not there", query.name);
        }
    }
}
