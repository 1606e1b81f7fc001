//! The dull twin of the W3C runs: our parser and `spareval` over a plain set of quads. When it and
//! the engine disagree on a test, the fault is in the native path; when they agree, it is in a
//! published crate.

use super::outcome::{Outcome, Table};
use super::subject::Subject;
use oxrdf::{Dataset, GraphName, Literal, NamedNode, Term, Variable};
use oxrdfio::{RdfFormat, RdfParser};
use somersault_lang::spareval::{KEYED_FUNCTIONS, TIMESTAMP_FUNCTION};
use somersault_lang::{DatasetClause, Parser, Query};
use somersault_model::EventTime;
use sparesults::{QueryResultsFormat, QueryResultsSerializer};
use spareval::{QueryEvaluator, QueryResults};

/// Queries over plain quads; it knows no update.
#[derive(Default)]
pub struct SparevalSubject {
    dataset: Dataset,
}

impl Subject for SparevalSubject {
    fn clear(&mut self) -> Result<(), String> {
        self.dataset.clear();
        Ok(())
    }

    fn load(
        &mut self,
        graph: Option<&str>,
        bytes: &[u8],
        format: RdfFormat,
        base: &str,
    ) -> Result<(), String> {
        let graph = graph.map_or(GraphName::DefaultGraph, |graph| {
            NamedNode::new_unchecked(graph).into()
        });
        let parser = RdfParser::from_format(format)
            .with_base_iri(base)
            .map_err(|error| error.to_string())?
            .with_default_graph(graph)
            .rename_blank_nodes();
        for quad in parser.for_slice(bytes) {
            self.dataset
                .insert(&quad.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    fn query(
        &self,
        text: &str,
        base: &str,
        format: Option<QueryResultsFormat>,
    ) -> Result<Outcome, String> {
        let query = parser(base)
            .parse_query(text)
            .map_err(|error| error.to_string())?;
        match (
            evaluate(&query, EventTime(0), &self.dataset, Some(&query.dataset))?,
            format,
        ) {
            (Outcome::Solutions(table), Some(format)) => {
                let written = write(&table, format).map_err(|error| error.to_string())?;
                Outcome::read(format, &written)
            }
            (outcome, _) => Ok(outcome),
        }
    }

    fn update(&mut self, _text: &str, _base: &str) -> Result<(), String> {
        Err("the twin supports no updates".to_owned())
    }

    fn dump(&self) -> Result<Dataset, String> {
        Ok(self.dataset.clone())
    }

    fn check_query(&self, text: &str, base: &str) -> Result<(), String> {
        parser(base)
            .parse_query(text)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn check_update(&self, text: &str, base: &str) -> Result<(), String> {
        parser(base)
            .parse_update(text)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }
}

fn write(table: &Table, format: QueryResultsFormat) -> std::io::Result<Vec<u8>> {
    let variables: Vec<Variable> = table
        .variables
        .iter()
        .map(Variable::new_unchecked)
        .collect();
    let mut writer = QueryResultsSerializer::from_format(format)
        .serialize_solutions_to_writer(Vec::new(), variables.clone())?;
    for row in &table.rows {
        let bound = variables
            .iter()
            .zip(row)
            .filter_map(|(variable, term)| Some((variable.as_ref(), term.as_ref()?.as_ref())));
        writer.serialize(bound)?;
    }
    writer.finish()
}

fn parser(base: &str) -> Parser {
    Parser::new().with_base(base)
}

/// The answer of a query over plain quads; with a dataset, FROM and FROM NAMED choose among their
/// graphs.
pub fn evaluate(
    query: &Query,
    now: EventTime,
    dataset: &Dataset,
    clause: Option<&DatasetClause>,
) -> Result<Outcome, String> {
    evaluate_with(evaluator(), query, now, dataset, clause)
}

/// The same for a continuous query; `time` is the value of f:timestamp for the terms of a
/// statement.
pub fn evaluate_at(
    query: &Query,
    now: EventTime,
    dataset: &Dataset,
    time: impl Fn(&[Term]) -> Option<i64> + Send + Sync + 'static,
) -> Result<Outcome, String> {
    let name = NamedNode::new_unchecked(TIMESTAMP_FUNCTION);
    let evaluator = evaluator().with_custom_function(name, move |arguments| {
        Some(Literal::from(time(arguments)?).into())
    });
    evaluate_with(evaluator, query, now, dataset, None)
}

fn evaluate_with(
    evaluator: QueryEvaluator,
    query: &Query,
    now: EventTime,
    dataset: &Dataset,
    clause: Option<&DatasetClause>,
) -> Result<Outcome, String> {
    let opaque = query.for_spareval(now);
    let mut prepared = evaluator.prepare(&opaque);
    if let Some(clause) = clause.filter(|clause| clause.present) {
        let names = |nodes: &[NamedNode]| nodes.iter().cloned().map(GraphName::from).collect();
        let specification = prepared.dataset_mut();
        specification.set_default_graph(names(&clause.default));
        specification
            .set_available_named_graphs(clause.named.iter().cloned().map(Into::into).collect());
    }
    Ok(
        match prepared
            .execute(dataset)
            .map_err(|error| error.to_string())?
        {
            QueryResults::Boolean(value) => Outcome::Boolean(value),
            QueryResults::Graph(triples) => {
                let graph = triples
                    .collect::<Result<_, _>>()
                    .map_err(|error| error.to_string())?;
                Outcome::Graph(Box::new(graph))
            }
            QueryResults::Solutions(solutions) => Outcome::Solutions(Table {
                variables: solutions
                    .variables()
                    .iter()
                    .map(|variable| variable.as_str().to_owned())
                    .collect(),
                rows: solutions
                    .map(|solution| solution.map(|solution| solution.values().to_vec()))
                    .collect::<Result<_, _>>()
                    .map_err(|error| error.to_string())?,
                ordered: false,
            }),
        },
    )
}

/// The functions that our parser puts in the place of RAND, UUID, STRUUID and BNODE. The values are
/// fixed: the suites test their form only, and for BNODE that a label stands for one node within a
/// solution, which plain `spareval` does not distinguish.
fn evaluator() -> QueryEvaluator {
    const SOME_UUID: &str = "3b241101-e2bb-4255-8caf-4136c566a962";
    let [rand, uuid, struuid, bnode] = KEYED_FUNCTIONS.map(NamedNode::new_unchecked);
    QueryEvaluator::new()
        .with_custom_function(rand, |_| Some(Literal::from(0.5).into()))
        .with_custom_function(uuid, |_| {
            Some(NamedNode::new_unchecked(format!("urn:uuid:{SOME_UUID}")).into())
        })
        .with_custom_function(struuid, |_| Some(Literal::from(SOME_UUID).into()))
        .with_custom_function(bnode, |arguments| match arguments {
            [Term::Literal(label)] => Some(oxrdf::BlankNode::new(label.value()).ok()?.into()),
            [] => Some(oxrdf::BlankNode::default().into()),
            _ => None,
        })
}
