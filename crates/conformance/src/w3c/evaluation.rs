//! The SPARQL tests: evaluation of queries and updates, and syntax.

use super::manifest::{Description, Folder, Test, format_of, vocabulary};
use super::outcome::{Cardinality, Outcome, graphs_of, results_format, same_dataset};
use super::subject::Subject;
use oxrdf::{Dataset, GraphName, NamedNode, NamedNodeRef, Quad};
use oxrdfio::RdfParser;
use std::collections::BTreeMap;

/// Files by the graph that they belong to; `None` is the default graph.
type Graphs = BTreeMap<Option<String>, Vec<String>>;

/// `QueryEvaluationTest` and `CSVResultFormatTest`. `rewrite` is applied to every text that is
/// read: the federation tests put the addresses of their servers in with it.
pub fn query_evaluation(
    folder: &Folder,
    test: &Test,
    subject: &mut dyn Subject,
    rewrite: &dyn Fn(String) -> String,
) -> Result<(), String> {
    let description = test.description();
    let action = description.resource(vocabulary::ACTION)?;
    let query_iri = action.iri(vocabulary::QUERY)?;
    let text = rewrite(folder.text(&query_iri)?);
    let mut graphs = graphs_of(&action, vocabulary::DATA, vocabulary::GRAPH_DATA)?;
    if graphs.is_empty() {
        graphs = dataset_clause(&text, &query_iri);
    }
    subject.clear()?;
    load(folder, &graphs, subject, rewrite)?;

    let result_iri = description.iri(vocabulary::RESULT)?;
    let expected = expected_outcome(folder, &result_iri, rewrite)?;
    let lax = description
        .iris(vocabulary::RESULT_CARDINALITY)
        .iter()
        .any(|iri| *iri == vocabulary::LAX_CARDINALITY);
    let cardinality = if lax {
        Cardinality::Lax
    } else {
        Cardinality::Strict
    };
    let found = subject.query(&text, &query_iri, results_format(&result_iri))?;
    expected.compare(&found, cardinality)
}

fn expected_outcome(
    folder: &Folder,
    iri: &str,
    rewrite: &dyn Fn(String) -> String,
) -> Result<Outcome, String> {
    match results_format(iri) {
        Some(format) => Outcome::read(format, rewrite(folder.text(iri)?).as_bytes())
            .map_err(|error| format!("<{iri}>: {error}")),
        None => Outcome::expected(folder, iri),
    }
}

/// Loads the files of a test.
pub fn load(
    folder: &Folder,
    graphs: &Graphs,
    subject: &mut dyn Subject,
    rewrite: &dyn Fn(String) -> String,
) -> Result<(), String> {
    for (graph, files) in graphs {
        for file in files {
            let text = rewrite(folder.text(file)?);
            subject
                .load(graph.as_deref(), text.as_bytes(), format_of(file)?, file)
                .map_err(|error| format!("loading <{file}>: {error}"))?;
        }
    }
    Ok(())
}

/// If the manifest names no data, the query's FROM and FROM NAMED name the files.
fn dataset_clause(text: &str, base: &str) -> Graphs {
    let mut graphs = Graphs::new();
    let folder = &base[..base.rfind('/').map_or(0, |at| at + 1)];
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        if !word.eq_ignore_ascii_case("FROM") {
            continue;
        }
        let named = words
            .get(at + 1)
            .is_some_and(|next| next.eq_ignore_ascii_case("NAMED"));
        let reference = words
            .get(at + 1 + usize::from(named))
            .copied()
            .unwrap_or_default();
        if let Some((file, _)) = reference.trim_start_matches('<').split_once('>') {
            // A graph is loaded under its own name either way: FROM takes it from there.
            let iri = format!("{folder}{file}");
            graphs.insert(Some(iri.clone()), vec![iri]);
        }
    }
    graphs
}

/// `UpdateEvaluationTest`.
pub fn update_evaluation(
    folder: &Folder,
    test: &Test,
    subject: &mut dyn Subject,
) -> Result<(), String> {
    let description = test.description();
    let action = description.resource(vocabulary::ACTION)?;
    let request = action.iri(vocabulary::REQUEST)?;
    let graphs = |description: &Description<'_>| {
        graphs_of(
            description,
            vocabulary::UPDATE_DATA,
            vocabulary::UPDATE_GRAPH_DATA,
        )
    };
    subject.clear()?;
    load(folder, &graphs(&action)?, subject, &|text| text)?;
    subject.update(&folder.text(&request)?, &request)?;

    let mut expected = Dataset::new();
    for (graph, files) in graphs(&description.resource(vocabulary::RESULT)?)? {
        for file in files {
            read_into(folder, &file, graph.as_deref(), &mut expected)?;
        }
    }
    same_dataset(&expected, &subject.dump()?)
}

fn read_into(
    folder: &Folder,
    file: &str,
    graph: Option<&str>,
    dataset: &mut Dataset,
) -> Result<(), String> {
    let name = graph.map_or(GraphName::DefaultGraph, |graph| {
        NamedNode::new_unchecked(graph).into()
    });
    let parser = RdfParser::from_format(format_of(file)?)
        .with_base_iri(file)
        .map_err(|error| format!("<{file}>: {error}"))?
        .with_default_graph(name)
        .rename_blank_nodes();
    for quad in parser.for_slice(&folder.bytes(file)?) {
        let quad: Quad = quad.map_err(|error| format!("<{file}>: {error}"))?;
        dataset.insert(&quad);
    }
    Ok(())
}

/// The language that a syntax test parses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// SPARQL Query.
    Query,
    /// SPARQL Update.
    Update,
}

/// Positive and negative syntax tests.
pub fn syntax(
    folder: &Folder,
    test: &Test,
    subject: &dyn Subject,
    language: Language,
    must_parse: bool,
) -> Result<(), String> {
    let iri = action_file(
        &test.description(),
        &[vocabulary::QUERY, vocabulary::REQUEST],
    )?;
    let parsed = match String::from_utf8(folder.bytes(&iri)?) {
        Ok(text) if language == Language::Query => subject.check_query(&text, &iri),
        Ok(text) => subject.check_update(&text, &iri),
        Err(_) => Err("the text is not UTF-8".to_owned()),
    };
    match (parsed, must_parse) {
        (Err(error), true) => Err(format!("does not parse: {error}")),
        (Ok(()), false) => Err("parses, and must not".to_owned()),
        _ => Ok(()),
    }
}

/// The file that a test acts on: the action itself, or a property of it.
pub fn action_file(
    description: &Description<'_>,
    properties: &[NamedNodeRef<'_>],
) -> Result<String, String> {
    let action = description.resource(vocabulary::ACTION)?;
    properties
        .iter()
        .find_map(|property| action.iri(*property).ok())
        .map_or_else(|| description.iri(vocabulary::ACTION), Ok)
}
