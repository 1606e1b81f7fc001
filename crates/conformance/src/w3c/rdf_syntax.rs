//! The tests of the RDF syntaxes, on the readers and the canonical writing that loading, pushing
//! and answering use.

use super::manifest::{Folder, PUBLISHED, Test, format_of, vocabulary};
use super::outcome::same_dataset;
use oxrdf::Dataset;
use oxrdfio::RdfParser;

/// Runs a test of one of the `rdft:` classes; `None` for a class that is not of RDF syntax.
pub fn run(folder: &Folder, test: &Test) -> Option<Result<(), String>> {
    let kind = test.kind.strip_prefix("Test")?;
    let judge: fn(&Folder, &Test) -> Result<(), String> =
        if kind.ends_with("NegativeSyntax") || kind.ends_with("NegativeEval") {
            negative
        } else if kind.ends_with("PositiveC14N") {
            canonical
        } else if kind.ends_with("PositiveSyntax") {
            |folder, test| parse(folder, &action(test)?).map(|_| ())
        } else if kind.ends_with("Eval") {
            evaluation
        } else {
            return None;
        };
    Some(judge(folder, test))
}

fn action(test: &Test) -> Result<String, String> {
    test.description().iri(vocabulary::ACTION)
}

fn negative(folder: &Folder, test: &Test) -> Result<(), String> {
    match parse(folder, &action(test)?) {
        Ok(_) => Err("parses, and must not".to_owned()),
        Err(_) => Ok(()),
    }
}

fn evaluation(folder: &Folder, test: &Test) -> Result<(), String> {
    let expected = parse(folder, &test.description().iri(vocabulary::RESULT)?)?;
    same_dataset(&expected, &parse(folder, &action(test)?)?)
}

fn canonical(folder: &Folder, test: &Test) -> Result<(), String> {
    // Canonical N-Quads are a form of each line; the published files keep the lines in the order of
    // the input.
    let text = folder.text(&test.description().iri(vocabulary::RESULT)?)?;
    let mut expected: Vec<&str> = text.split_inclusive('\n').collect();
    expected.sort_unstable();
    let mut lines: Vec<String> = parse(folder, &action(test)?)?
        .iter()
        .map(|quad| format!("{quad} .\n"))
        .collect();
    lines.sort_unstable();
    if expected == lines {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, found {lines:?}"))
    }
}

fn parse(folder: &Folder, iri: &str) -> Result<Dataset, String> {
    debug_assert!(iri.starts_with(PUBLISHED), "tests are read from the folder");
    let parser = RdfParser::from_format(format_of(iri)?)
        .with_base_iri(iri)
        .map_err(|error| error.to_string())?;
    let mut dataset = Dataset::new();
    for quad in parser.for_slice(&folder.bytes(iri)?) {
        dataset.insert(&quad.map_err(|error| format!("does not parse: {error}"))?);
    }
    Ok(dataset)
}
