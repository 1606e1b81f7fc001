//! The outcome of a query, expected or actual, read from every form in which the suites write it:
//! SPARQL results in XML, JSON, TSV and CSV, `rs:ResultSet` in RDF, and plain graphs. CSV is lossy,
//! so for it both sides are compared as the text of their cells.

use super::manifest::{Description, Folder, format_of, vocabulary};
use crate::bag::{self, Numbers, Row};
use oxrdf::graph::CanonicalizationAlgorithm;
use oxrdf::vocab::rdf;
use oxrdf::{BlankNode, Dataset, Graph, Literal, NamedOrBlankNode, Term, TermRef};
use sparesults::{QueryResultsFormat, QueryResultsParser, ReaderQueryResultsParserOutput};
use std::collections::BTreeMap;

/// An answer.
#[derive(Debug)]
pub enum Outcome {
    /// The answer of ASK.
    Boolean(bool),
    /// The answer of SELECT.
    Solutions(Table),
    /// The answer of CONSTRUCT and DESCRIBE.
    Graph(Box<Graph>),
}

/// Solutions in columns.
#[derive(Debug)]
pub struct Table {
    /// The columns' names.
    pub variables: Vec<String>,
    /// The solutions.
    pub rows: Vec<Row>,
    /// Whether the order of the rows is part of the answer.
    pub ordered: bool,
}

/// The number of times that a row may occur, which differs for REDUCED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// Exactly as often as expected.
    Strict,
    /// At least once and at most as often as expected.
    Lax,
}

/// The format that an expected answer is written in, where it is a format of SPARQL results.
pub fn results_format(iri: &str) -> Option<QueryResultsFormat> {
    match iri.rsplit_once('.')?.1 {
        "srx" => Some(QueryResultsFormat::Xml),
        "srj" => Some(QueryResultsFormat::Json),
        "csv" => Some(QueryResultsFormat::Csv),
        "tsv" => Some(QueryResultsFormat::Tsv),
        _ => None,
    }
}

impl Outcome {
    /// Reads the expected answer of a test.
    pub fn expected(folder: &Folder, iri: &str) -> Result<Self, String> {
        if let Some(format) = results_format(iri) {
            return Self::read(format, &folder.bytes(iri)?)
                .map_err(|error| format!("<{iri}>: {error}"));
        }
        format_of(iri)?;
        let graph = folder.graph(iri)?;
        match graph.subject_for_predicate_object(rdf::TYPE, vocabulary::RESULT_SET) {
            Some(node) => result_set(&graph, node.into_owned()),
            None => Ok(Self::Graph(Box::new(graph))),
        }
    }

    /// Reads SPARQL results.
    pub fn read(format: QueryResultsFormat, bytes: &[u8]) -> Result<Self, String> {
        if format == QueryResultsFormat::Csv {
            let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
            return csv_table(text).map(Self::Solutions);
        }
        let parser = QueryResultsParser::from_format(format);
        match parser
            .for_reader(bytes)
            .map_err(|error| error.to_string())?
        {
            ReaderQueryResultsParserOutput::Boolean(value) => Ok(Self::Boolean(value)),
            ReaderQueryResultsParserOutput::Solutions(solutions) => {
                let variables = solutions
                    .variables()
                    .iter()
                    .map(|v| v.as_str().to_owned())
                    .collect();
                let rows = solutions
                    .map(|solution| solution.map(|solution| solution.values().to_vec()))
                    .collect::<Result<_, _>>()
                    .map_err(|error| error.to_string())?;
                Ok(Self::Solutions(Table {
                    variables,
                    rows,
                    ordered: false,
                }))
            }
        }
    }

    /// Compares this expected answer with the one found.
    pub fn compare(&self, found: &Self, cardinality: Cardinality) -> Result<(), String> {
        match (self, found) {
            (Self::Boolean(expected), Self::Boolean(found)) if expected == found => Ok(()),
            (Self::Boolean(expected), Self::Boolean(found)) => {
                Err(format!("expected {expected}, found {found}"))
            }
            (Self::Solutions(expected), Self::Solutions(found)) => {
                expected.compare(found, cardinality)
            }
            (Self::Graph(expected), Self::Graph(found)) => same_graph(expected, found),
            (Self::Graph(_), _) => Err("expected a graph and found something else".to_owned()),
            (Self::Solutions(_), _) => {
                Err("expected solutions and found something else".to_owned())
            }
            (Self::Boolean(_), _) => Err("expected a boolean and found something else".to_owned()),
        }
    }
}

impl Table {
    fn compare(&self, found: &Self, cardinality: Cardinality) -> Result<(), String> {
        let mut expected_names = self.variables.clone();
        let mut found_names = found.variables.clone();
        expected_names.sort_unstable();
        found_names.sort_unstable();
        if expected_names != found_names {
            return Err(format!(
                "expected the variables {expected_names:?}, found {found_names:?}"
            ));
        }
        let columns: Vec<usize> = self
            .variables
            .iter()
            .filter_map(|name| found.variables.iter().position(|other| other == name))
            .collect();
        let rows: Vec<Row> = found
            .rows
            .iter()
            .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
            .collect();
        let numbers = vec![Numbers::ByValue; columns.len()];
        match cardinality {
            Cardinality::Lax => {
                bag::same_set(&self.rows, &rows, &numbers)?;
                if rows.len() > self.rows.len() {
                    return Err(format!(
                        "expected at most {} rows, found {}",
                        self.rows.len(),
                        rows.len()
                    ));
                }
                Ok(())
            }
            Cardinality::Strict if self.ordered => bag::same_sequence(&self.rows, &rows, &numbers),
            Cardinality::Strict => bag::same_bag(&self.rows, &rows, &numbers),
        }
    }
}

fn result_set(graph: &Graph, node: NamedOrBlankNode) -> Result<Outcome, String> {
    let text = |node: &NamedOrBlankNode, property| match graph
        .object_for_subject_predicate(node, property)
    {
        Some(TermRef::Literal(literal)) => Some(literal.value().to_owned()),
        _ => None,
    };
    if let Some(value) = text(&node, vocabulary::BOOLEAN) {
        return Ok(Outcome::Boolean(value == "true" || value == "1"));
    }
    let variables: Vec<String> = graph
        .objects_for_subject_predicate(&node, vocabulary::RESULT_VARIABLE)
        .filter_map(|term| match term {
            TermRef::Literal(literal) => Some(literal.value().to_owned()),
            _ => None,
        })
        .collect();
    let mut rows: Vec<(u64, Row)> = Vec::new();
    let mut ordered = false;
    for solution in graph.objects_for_subject_predicate(&node, vocabulary::SOLUTION) {
        let solution = node_of(solution)?;
        let mut row: Row = vec![None; variables.len()];
        for binding in graph.objects_for_subject_predicate(&solution, vocabulary::BINDING) {
            let binding = node_of(binding)?;
            let name =
                text(&binding, vocabulary::VARIABLE).ok_or("a binding without rs:variable")?;
            let column = variables
                .iter()
                .position(|variable| *variable == name)
                .ok_or_else(|| format!("?{name} is bound but is no rs:resultVariable"))?;
            row[column] = graph
                .object_for_subject_predicate(&binding, vocabulary::VALUE)
                .map(TermRef::into_owned);
        }
        let index = text(&solution, vocabulary::INDEX).and_then(|index| index.parse().ok());
        ordered |= index.is_some();
        rows.push((index.unwrap_or(0), row));
    }
    rows.sort_by_key(|(index, _)| *index);
    Ok(Outcome::Solutions(Table {
        variables,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        ordered,
    }))
}

fn node_of(term: TermRef<'_>) -> Result<NamedOrBlankNode, String> {
    match term {
        TermRef::NamedNode(node) => Ok(node.into_owned().into()),
        TermRef::BlankNode(node) => Ok(node.into_owned().into()),
        other => Err(format!("{other} stands where a resource is expected")),
    }
}

/// The cells of CSV results: blank nodes stay blank nodes, everything else becomes its text, and an
/// empty cell is unbound.
fn csv_table(text: &str) -> Result<Table, String> {
    let mut records = csv_records(text)?.into_iter();
    let variables = records.next().ok_or("CSV results without a header")?;
    let rows = records
        .map(|record| {
            if record.len() != variables.len() {
                return Err(format!(
                    "a CSV row has {} cells instead of {}",
                    record.len(),
                    variables.len()
                ));
            }
            Ok(record
                .into_iter()
                .map(|cell| match cell.strip_prefix("_:") {
                    Some(label) => Some(BlankNode::new_unchecked(label).into()),
                    None if cell.is_empty() => None,
                    None => Some(Literal::new_simple_literal(cell).into()),
                })
                .collect())
        })
        .collect::<Result<_, String>>()?;
    Ok(Table {
        variables,
        rows,
        ordered: false,
    })
}

/// RFC 4180: cells may be quoted, quotes are doubled, lines end in CRLF (LF is taken too).
fn csv_records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut cell = String::new();
    let mut quoted = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\r' if !quoted && characters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            other => cell.push(other),
        }
    }
    if quoted {
        return Err("a CSV cell is not closed".to_owned());
    }
    if !cell.is_empty() || !record.is_empty() {
        record.push(cell);
        records.push(record);
    }
    Ok(records)
}

/// Whether two graphs are isomorphic, with numbers by value.
pub fn same_graph(expected: &Graph, found: &Graph) -> Result<(), String> {
    let dataset = |graph: &Graph| {
        graph
            .iter()
            .map(|triple| triple.in_graph(oxrdf::GraphNameRef::DefaultGraph))
            .collect()
    };
    same_dataset(&dataset(expected), &dataset(found))
}

/// Whether two datasets are isomorphic; failing that, whether they are with numbers compared by
/// value.
pub fn same_dataset(expected: &Dataset, found: &Dataset) -> Result<(), String> {
    let canonical = |dataset: &Dataset| {
        let mut copy = dataset.clone();
        copy.canonicalize(CanonicalizationAlgorithm::Unstable);
        copy
    };
    if canonical(expected) == canonical(found) {
        return Ok(());
    }
    let rows = |dataset: &Dataset| -> Vec<Row> {
        dataset
            .iter()
            .map(|quad| {
                let graph = match quad.graph_name {
                    oxrdf::GraphNameRef::DefaultGraph => None,
                    oxrdf::GraphNameRef::NamedNode(node) => Some(Term::from(node.into_owned())),
                    oxrdf::GraphNameRef::BlankNode(node) => Some(Term::from(node.into_owned())),
                };
                vec![
                    graph,
                    Some(Term::from(quad.subject.into_owned())),
                    Some(Term::from(quad.predicate.into_owned())),
                    Some(quad.object.into_owned()),
                ]
            })
            .collect()
    };
    bag::same_bag(
        &rows(expected),
        &rows(found),
        &[
            Numbers::BySpelling,
            Numbers::BySpelling,
            Numbers::BySpelling,
            Numbers::ByValue,
        ],
    )
}

/// The graphs that a test starts from or ends with: name (`None` = default graph) and the IRIs of
/// the files.
pub fn graphs_of(
    description: &Description<'_>,
    data: oxrdf::NamedNodeRef<'_>,
    graph_data: oxrdf::NamedNodeRef<'_>,
) -> Result<BTreeMap<Option<String>, Vec<String>>, String> {
    let mut graphs: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for file in description.iris(data) {
        graphs.entry(None).or_default().push(file.into_string());
    }
    for graph in description.resources(graph_data) {
        match graph.node() {
            NamedOrBlankNode::NamedNode(file) => {
                let name = file.as_str().to_owned();
                graphs.entry(Some(name.clone())).or_default().push(name);
            }
            NamedOrBlankNode::BlankNode(_) => {
                let file = graph
                    .iris(vocabulary::UPDATE_GRAPH)
                    .into_iter()
                    .chain(graph.iris(vocabulary::DATA))
                    .next()
                    .ok_or("a named graph without a file")?
                    .into_string();
                let name = graph
                    .text(vocabulary::LABEL)
                    .unwrap_or_else(|| file.clone());
                graphs.entry(Some(name)).or_default().push(file);
            }
        }
    }
    Ok(graphs)
}
