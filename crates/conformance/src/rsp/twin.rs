//! The naive twin of the stream runs: it keeps the whole history, cuts each window out of it again
//! for each close, and `spareval` answers over plain sets of quads. It shares only the parser with
//! the engine. It requires that all streams advance together.

use super::expected::Given;
use super::host::{Counters, Firing, Host};
use super::suite::open;
use crate::error::ConformanceError;
use crate::w3c::outcome::Outcome;
use crate::w3c::twin::{evaluate, evaluate_at};
use oxrdf::{Dataset, GraphName, NamedNode, Quad, Term, Triple};
use oxrdfio::RdfParser;
use somersault::StreamStatement;
use somersault_lang::{
    Classification, ContinuousQuery, CreateStream, Dialect, Extent, Parser, Statement,
    StreamOperator, WindowClause,
};
use somersault_model::EventTime;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The twin's whole state.
pub struct Twin {
    parser: Parser,
    /// The stored statements, in order of arrival.
    stored: Vec<Quad>,
    streams: BTreeMap<String, Stream>,
    standing: Vec<Standing>,
    time_ms: Option<i64>,
    firings: Vec<Firing>,
}

struct Stream {
    declaration: CreateStream,
    fed: Vec<(i64, Quad)>,
    /// The number of statements fed that have been absorbed or skipped.
    absorbed: usize,
}

/// A registered query with the stored graphs that it reads.
struct Standing {
    number: usize,
    query: ContinuousQuery,
    world: Dataset,
    /// The number of stored statements that are in `world`.
    synced: usize,
    /// The rows of the firing before.
    before: Vec<Vec<Option<String>>>,
}

impl Twin {
    /// An empty one.
    pub fn new(default_namespace: Option<&str>) -> Self {
        let parser = Parser::new();
        Self {
            parser: match default_namespace {
                Some(namespace) => parser.with_default_namespace(namespace),
                None => parser,
            },
            stored: Vec::new(),
            streams: BTreeMap::new(),
            standing: Vec::new(),
            time_ms: None,
            firings: Vec::new(),
        }
    }

    /// Absorbs the timeless statements of the batches that end at or before a time.
    fn absorb(&mut self, time_ms: i64) {
        for stream in self.streams.values_mut() {
            let batch_ms = stream.declaration.batch.0;
            let closed_ms = time_ms.div_euclid(batch_ms) * batch_ms;
            while let Some((at_ms, quad)) = stream.fed.get(stream.absorbed)
                && *at_ms < closed_ms
            {
                if stream.declaration.is_timeless(quad) {
                    let mut quad = quad.clone();
                    if let Some(graph) = &stream.declaration.into {
                        quad.graph_name = graph.clone().into();
                    }
                    self.stored.push(quad);
                }
                stream.absorbed += 1;
            }
        }
    }

    fn fire(&mut self, at: usize, close_ms: i64) {
        let standing = &mut self.standing[at];
        for quad in &self.stored[standing.synced..] {
            for quad in visible(&standing.query, quad) {
                standing.world.insert(&quad);
            }
        }
        standing.synced = self.stored.len();
        let mut added = Vec::new();
        let mut times: BTreeMap<Vec<String>, i64> = BTreeMap::new();
        for window in &standing.query.windows {
            let origin_ms = standing.query.starting_at.0;
            for (at_ms, triple) in content(window, &self.streams, origin_ms, close_ms) {
                let parts = [
                    triple.subject.clone().into(),
                    triple.predicate.clone().into(),
                    triple.object.clone(),
                ];
                let newest = times
                    .entry(parts.iter().map(value_of).collect())
                    .or_insert(at_ms);
                *newest = at_ms.max(*newest);
                let default = window.in_default.then_some(GraphName::DefaultGraph);
                let named = window.named.then(|| window.name.clone().into());
                for graph in default.into_iter().chain(named) {
                    let quad = triple.clone().in_graph(graph);
                    if standing.world.insert(&quad) {
                        added.push(quad);
                    }
                }
            }
        }
        let answer = evaluate_at(
            &standing.query.query,
            EventTime(close_ms),
            &standing.world,
            move |parts| {
                times
                    .get(&parts.iter().map(value_of).collect::<Vec<_>>())
                    .copied()
            },
        );
        for quad in &added {
            standing.world.remove(quad);
        }
        self.firings.push(Firing {
            query: standing.number,
            close_ms,
            revision: 0,
            answer: answer.map(given).map(|given| standing.changed(given)),
        });
    }
}

impl Standing {
    /// Applies ISTREAM or DSTREAM to an answer. Graphs are compared as graphs, which is the same
    /// where a template has the variables of its pattern and no blank node.
    fn changed(&mut self, (names, now): Rows) -> Rows {
        let operator = self.query.operator;
        if !operator.compares() {
            return (names, now);
        }
        let before = std::mem::replace(&mut self.before, now.clone());
        let (mut rows, others) = match operator {
            StreamOperator::DStream => (before, now),
            _ => (now, before),
        };
        for other in &others {
            if let Some(at) = rows.iter().position(|row| row == other) {
                rows.swap_remove(at);
            }
        }
        (names, rows)
    }
}

/// The names of an answer's columns, and its rows.
type Rows = (Vec<String>, Vec<Vec<Option<String>>>);

/// The places of a stored statement in the dataset of a continuous query: FROM merges graphs into
/// the default one, FROM NAMED names them, and without any FROM the stored default graph takes
/// part, in CQELS-QL the stored named graphs too.
fn visible(query: &ContinuousQuery, quad: &Quad) -> Vec<Quad> {
    let clause = &query.query.dataset;
    let is_in = |graphs: &[NamedNode]| matches!(&quad.graph_name, GraphName::NamedNode(name) if graphs.contains(name));
    let in_default = if clause.default.is_empty() {
        quad.graph_name.is_default_graph()
    } else {
        is_in(&clause.default)
    };
    let mut places = Vec::new();
    if in_default {
        places.push(Triple::from(quad.clone()).in_graph(GraphName::DefaultGraph));
    }
    let reads_all = query.dialect == Dialect::CqelsQl && !clause.present;
    if is_in(&clause.named) || (reads_all && !quad.graph_name.is_default_graph()) {
        places.push(quad.clone());
    }
    places
}

/// RANGE, how far before its close it ends, and STEP. KEEP is longer than any window of the suites
/// but ALL.
fn spans(window: &WindowClause, stream: &Stream) -> (i64, i64, i64) {
    let (batch_ms, keep_ms) = (stream.declaration.batch.0, stream.declaration.keep.0);
    match window.extent {
        Extent::Time { range, until, step } => (range.0, until.0, step.map_or(batch_ms, |s| s.0)),
        Extent::Now => (batch_ms, 0, batch_ms),
        Extent::All => (keep_ms / batch_ms * batch_ms, 0, batch_ms),
        // It may close with every batch, and reaches back as far as its number of statements needs.
        Extent::Statements { .. } => (0, 0, batch_ms),
    }
}

/// The number of statements of a stream before a time.
fn count_before(stream: &Stream, time_ms: i64) -> usize {
    stream.fed.partition_point(|(at_ms, _)| *at_ms < time_ms)
}

/// A term by its value, since `spareval` respells the numbers that it returns.
fn value_of(term: &Term) -> String {
    match term {
        Term::Literal(literal) => match literal.value().parse::<f64>() {
            Ok(number) => format!("{number} {}", literal.datatype()),
            Err(_) => literal.to_string(),
        },
        other => other.to_string(),
    }
}

/// The statements that a window shows at a close: those of its own latest close. A window of a
/// number of statements is taken to close once with a batch at most.
fn content(
    window: &WindowClause,
    streams: &BTreeMap<String, Stream>,
    origin_ms: i64,
    close_ms: i64,
) -> Vec<(i64, Triple)> {
    let Some(stream) = streams.get(window.stream.as_str()) else {
        return Vec::new();
    };
    let (range_ms, until_ms, step_ms) = spans(window, stream);
    let close_ms = origin_ms + (close_ms - origin_ms).div_euclid(step_ms) * step_ms;
    let end_ms = close_ms - until_ms;
    let (from, to) = match window.extent {
        Extent::Statements { count, step } => {
            let before = count_before(stream, end_ms);
            let to = before - before % step as usize;
            (to.saturating_sub(count as usize), to)
        }
        _ => (
            count_before(stream, end_ms - range_ms),
            count_before(stream, end_ms),
        ),
    };
    stream.fed[from..to.max(from)]
        .iter()
        .map(|(at_ms, quad)| (*at_ms, quad.clone().into()))
        .collect()
}

/// The closes of a query in `from_ms < t ≤ to_ms`.
fn closes(
    query: &ContinuousQuery,
    streams: &BTreeMap<String, Stream>,
    from_ms: i64,
    to_ms: i64,
) -> BTreeSet<i64> {
    let stream_of = |window: &WindowClause| streams.get(window.stream.as_str());
    let is_count = |window: &&WindowClause| matches!(window.extent, Extent::Statements { .. });
    let step = |window: &WindowClause| Some(spans(window, stream_of(window)?).2);
    let steps: Vec<i64> = match query.computed_every {
        Some(every) => vec![every.0],
        None => (query.windows.iter())
            .filter(|window| !is_count(window))
            .filter_map(step)
            .collect(),
    };
    let mut by_number = BTreeSet::new();
    for window in query.windows.iter().filter(is_count) {
        if let (Extent::Statements { step, .. }, Some(stream), None) =
            (window.extent, stream_of(window), query.computed_every)
        {
            let batch_ms = stream.declaration.batch.0;
            let closes = |end_ms: i64| count_before(stream, end_ms) / step as usize;
            let ends = from_ms.div_euclid(batch_ms) + 1..=to_ms.div_euclid(batch_ms);
            let ends = ends.map(|number| number * batch_ms);
            by_number.extend(ends.filter(|end_ms| closes(*end_ms) > closes(end_ms - batch_ms)));
        }
    }
    let origin_ms = query.starting_at.0;
    let (from_ms, to_ms) = (from_ms - origin_ms, to_ms - origin_ms);
    let times = |step: i64| {
        let k = from_ms.div_euclid(step) + 1..=to_ms.div_euclid(step);
        k.map(move |k| origin_ms + k * step)
    };
    steps.into_iter().flat_map(times).chain(by_number).collect()
}

trait IsTimeless {
    fn is_timeless(&self, quad: &Quad) -> bool;
}

impl IsTimeless for CreateStream {
    fn is_timeless(&self, quad: &Quad) -> bool {
        match &self.classification {
            Classification::Timeless => true,
            Classification::TimingAll => false,
            Classification::Timing(predicates) => !predicates.contains(&quad.predicate),
        }
    }
}

fn given(outcome: Outcome) -> Rows {
    match outcome {
        Outcome::Boolean(value) => (Vec::new(), vec![vec![Some(value.to_string())]]),
        Outcome::Graph(graph) => {
            let row = |triple: oxrdf::TripleRef<'_>| {
                let terms = [
                    triple.subject.to_string(),
                    triple.predicate.to_string(),
                    triple.object.to_string(),
                ];
                terms.map(Some).to_vec()
            };
            let names = ["subject", "predicate", "object"]
                .map(str::to_owned)
                .to_vec();
            (names, graph.iter().map(row).collect())
        }
        Outcome::Solutions(table) => {
            let row = |row: Vec<Option<oxrdf::Term>>| {
                row.into_iter()
                    .map(|term| term.map(|term| term.to_string()))
                    .collect()
            };
            (table.variables, table.rows.into_iter().map(row).collect())
        }
    }
}

impl Host for Twin {
    fn load(&mut self, path: &Path, graph: Option<&str>) -> Result<(), ConformanceError> {
        let graph = graph.map_or(GraphName::DefaultGraph, |graph| {
            NamedNode::new_unchecked(graph).into()
        });
        let parser = RdfParser::from_format(super::host::rdf_format(path)?)
            .with_default_graph(graph)
            .rename_blank_nodes();
        for quad in parser.for_reader(open(path)?) {
            self.stored
                .push(quad.map_err(|error| ConformanceError::broken(path, error.to_string()))?);
        }
        Ok(())
    }

    fn create_stream(&mut self, text: &str) -> Result<(), ConformanceError> {
        match self.parser.parse_statement(text) {
            Ok(Statement::CreateStream(declaration)) => {
                let stream = Stream {
                    declaration,
                    fed: Vec::new(),
                    absorbed: 0,
                };
                self.streams
                    .insert(stream.declaration.iri.as_str().to_owned(), stream);
                Ok(())
            }
            Ok(_) => Err(ConformanceError::engine(
                "declare a stream",
                format!("the text declares no stream: {text}"),
            )),
            Err(error) => Err(ConformanceError::engine("declare a stream", error)),
        }
    }

    fn register(
        &mut self,
        query: usize,
        _name: Option<&str>,
        text: &str,
    ) -> Result<(), ConformanceError> {
        let parsed = self.parser.parse_continuous(text).map_err(|error| {
            ConformanceError::engine(format!("register this query:\n{text}"), error)
        })?;
        self.standing.push(Standing {
            number: query,
            query: parsed,
            world: Dataset::new(),
            synced: 0,
            before: Vec::new(),
        });
        Ok(())
    }

    fn push(
        &mut self,
        stream: &str,
        _seq: u64,
        statements: Vec<StreamStatement>,
    ) -> Result<(), ConformanceError> {
        let stream = self.streams.get_mut(stream).ok_or_else(|| {
            ConformanceError::engine("take a push", format!("there is no stream <{stream}>"))
        })?;
        let timed = statements
            .into_iter()
            .filter_map(|statement| Some((statement.at?.0, statement.quad)));
        stream.fed.extend(timed);
        Ok(())
    }

    fn advance(&mut self, to_ms: &[(String, i64)]) -> Result<(), ConformanceError> {
        let Some((_, time_ms)) = to_ms.first() else {
            return Ok(());
        };
        if to_ms.len() != self.streams.len() || to_ms.iter().any(|(_, other)| other != time_ms) {
            return Err(ConformanceError::engine(
                "advance",
                "the twin advances all streams together",
            ));
        }
        if let Some(from_ms) = self.time_ms.replace(*time_ms) {
            let due: BTreeSet<(i64, usize)> = (0..self.standing.len())
                .flat_map(|at| {
                    closes(&self.standing[at].query, &self.streams, from_ms, *time_ms)
                        .into_iter()
                        .map(move |close_ms| (close_ms, at))
                })
                .collect();
            for (close_ms, at) in due {
                self.absorb(close_ms);
                self.fire(at, close_ms);
            }
        }
        self.absorb(*time_ms);
        Ok(())
    }

    fn query(
        &mut self,
        text: &str,
        default_graph: Option<&str>,
    ) -> Result<Given, ConformanceError> {
        let query = match self.parser.parse_query(text) {
            Ok(query) => query,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let world = match default_graph {
            None => self.stored.iter().collect(),
            Some(graph) => {
                let graph = GraphName::from(NamedNode::new_unchecked(graph));
                let inside = self.stored.iter().filter(|quad| quad.graph_name == graph);
                inside
                    .map(|quad| Triple::from(quad.clone()).in_graph(GraphName::DefaultGraph))
                    .collect()
            }
        };
        let time = EventTime(self.time_ms.unwrap_or_default());
        Ok(evaluate(&query, time, &world, None).map(given))
    }

    fn firings(&mut self, _settle: bool) -> Result<Vec<Firing>, ConformanceError> {
        Ok(std::mem::take(&mut self.firings))
    }

    fn counters(&mut self) -> Result<Counters, ConformanceError> {
        let stored: std::collections::HashSet<&Quad> = self.stored.iter().collect();
        Ok(Counters {
            stored: stored.len() as u64,
            ..Counters::default()
        })
    }

    fn close(&mut self) -> Result<(), ConformanceError> {
        Ok(())
    }
}
