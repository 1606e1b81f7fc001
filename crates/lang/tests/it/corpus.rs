//! Every query of the public test data parses, and the recogniser agrees with the parser on the W3C
//! suites.

use crate::{files_below, test_data};
use somersault_lang::{Dialect, Parser};

/// The queries of the benchmarks, except the parts of published files that are no C-SPARQL by
/// themselves.
#[test]
fn every_benchmark_query_parses() {
    let Some(data) = test_data() else { return };
    let parser = Parser::new().with_default_namespace("http://example.org/x#");
    let mut count = 0;
    for folder in ["lsbench", "citybench", "csrbench", "lubm"] {
        for file in files_below(&data.join(folder), &[".csparql", ".rq"]) {
            let text = std::fs::read_to_string(&file).expect("a test file is readable");
            let is_continuous = file.extension().is_some_and(|ending| ending == "csparql");
            let refused = if is_continuous {
                parser.parse_continuous(&text).err()
            } else {
                parser.parse_query(&text).err()
            };
            assert!(
                refused.is_none(),
                "{}: {}",
                file.display(),
                refused.expect("just seen")
            );
            count += 1;
        }
    }
    // As published: without a header, and all in lower case.
    for file in files_below(&data.join("citybench/queries/published"), &[".txt"]) {
        let text = std::fs::read_to_string(&file).expect("a test file is readable");
        let refused = parser.parse_continuous(&text).err();
        assert!(
            refused.is_none(),
            "{}: {}",
            file.display(),
            refused.expect("just seen")
        );
    }
    assert!(count > 50, "only {count} queries found");
}

#[test]
fn the_papers_query_means_the_same_in_both_dialects() {
    let Some(data) = test_data() else { return };
    let parser = Parser::new().with_default_namespace("http://example.org/x#");
    let read = |name: &str| {
        std::fs::read_to_string(data.join("lsbench/fig1").join(name))
            .expect("a test file is readable")
    };
    let paper = parser
        .parse_continuous(&read("QC-paper.csparql"))
        .expect("the paper's query parses");
    let ours = parser
        .parse_continuous(&read("QC.csparql"))
        .expect("our spelling of it parses");
    assert_eq!(
        (paper.dialect, ours.dialect),
        (Dialect::Paper, Dialect::CSparql)
    );
    assert_eq!(paper.query.pattern, ours.query.pattern);
    assert_eq!(paper.query.dataset.named, ours.query.dataset.named);
    let windows = |query: &somersault_lang::ContinuousQuery| {
        query
            .windows
            .iter()
            .map(|w| (w.stream.clone(), w.extent, w.in_default, w.named))
            .collect::<Vec<_>>()
    };
    assert_eq!(windows(&paper), windows(&ours));
}

/// Negative syntax tests of the W3C that the parser passes over and the recogniser does not:
/// `?a<?b&&?c>?d`, whose longest match is an IRI, and triple terms whose subject is a literal or a
/// triple term.
const MORE_THAN_THE_GRAMMAR: [&str; 3] = [
    "syn-bad-26.rq",
    "tripleterm-subject-03.rq",
    "tripleterm-subject-06.rq",
];

/// Syntax tests of the W3C: whatever the parser accepts, the recogniser must accept; where the
/// parser refuses, the recogniser should be what finds the words (a few rules only the parser
/// knows).
#[test]
fn the_grammar_accepts_what_the_parser_accepts() {
    let Some(data) = test_data() else { return };
    let parser = Parser::new().with_base("http://example.org/base/");
    let mut checked = 0;
    let mut wrong = Vec::new();
    for file in files_below(&data.join("w3c"), &[".rq", ".ru"]) {
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let is_update = file.extension().is_some_and(|ending| ending == "ru");
        let accepted = if is_update {
            parser.parse_update(&text).is_ok()
        } else {
            parser.parse_query(&text).is_ok()
        };
        let judged = somersault_lang::check_grammar(&text, is_update, true);
        if MORE_THAN_THE_GRAMMAR
            .iter()
            .any(|name| file.ends_with(name))
        {
            continue;
        }
        if let (true, Err(error)) = (accepted, judged) {
            wrong.push(format!("{}: {error}", file.display()));
        }
        checked += 1;
    }
    println!("{checked} texts");
    assert!(
        wrong.is_empty(),
        "{} texts are refused by the grammar only:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
