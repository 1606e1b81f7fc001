//! The system under test, behind one trait: our engine through its facade, or its dull twin,
//! `spareval` over plain sets of quads. Every test starts from an empty store.

use super::outcome::{Outcome, Table};
use oxrdf::{Dataset, GraphName, NamedNode, NamedOrBlankNode, Quad, Term};
use oxrdfio::RdfFormat;
use somersault::{
    AnswerKind, Engine, EngineConfig, LoadOptions, QueryOptions, UpdateOptions, syntax,
};
use somersault_server::HttpRemote;
use sparesults::QueryResultsFormat;
use std::sync::Arc;
use std::time::Duration;

/// The time limit of one test; the suites are small, so a longer one counts as stuck.
const TEST_TIME: Duration = Duration::from_secs(20);

/// The operations that the suites need of a SPARQL system.
pub trait Subject {
    /// Empties the store.
    fn clear(&mut self) -> Result<(), String>;
    /// Adds a document to a graph; `None` is the default graph.
    fn load(
        &mut self,
        graph: Option<&str>,
        bytes: &[u8],
        format: RdfFormat,
        base: &str,
    ) -> Result<(), String>;
    /// Answers a query. With a format, solutions and booleans are written in it and read back, so
    /// that the writers are tested too.
    fn query(
        &self,
        text: &str,
        base: &str,
        format: Option<QueryResultsFormat>,
    ) -> Result<Outcome, String>;
    /// Carries out an update.
    fn update(&mut self, text: &str, base: &str) -> Result<(), String>;
    /// Everything that is stored.
    fn dump(&self) -> Result<Dataset, String>;
    /// Whether a query parses.
    fn check_query(&self, text: &str, base: &str) -> Result<(), String>;
    /// Whether an update parses.
    fn check_update(&self, text: &str, base: &str) -> Result<(), String>;
}

/// Our engine.
pub struct EngineSubject {
    engine: Engine,
}

impl EngineSubject {
    /// An engine in memory with one shard. SERVICE is allowed, since the federation tests call
    /// servers of our own on loopback.
    pub fn open() -> Result<Self, String> {
        let config = EngineConfig {
            workers: 1,
            query_threads: 1,
            allow_remote: true,
            remote: Some(Arc::new(HttpRemote::new())),
            ..EngineConfig::default()
        };
        let engine = Engine::open(config).map_err(|error| error.to_string())?;
        Ok(Self { engine })
    }

    /// The engine, for a server to serve.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl Subject for EngineSubject {
    fn clear(&mut self) -> Result<(), String> {
        self.update("CLEAR ALL", super::manifest::PUBLISHED)
    }

    fn load(
        &mut self,
        graph: Option<&str>,
        bytes: &[u8],
        format: RdfFormat,
        base: &str,
    ) -> Result<(), String> {
        let options = LoadOptions {
            graph: graph.map(NamedNode::new_unchecked),
            base: Some(base.to_owned()),
            ..LoadOptions::default()
        };
        self.engine
            .load(bytes, format, options)
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn query(
        &self,
        text: &str,
        base: &str,
        format: Option<QueryResultsFormat>,
    ) -> Result<Outcome, String> {
        let options = QueryOptions {
            base: Some(base.to_owned()),
            timeout: Some(TEST_TIME),
            ..QueryOptions::default()
        };
        let answer = self
            .engine
            .query(text)
            .options(&options)
            .run()
            .map_err(|error| error.to_string())?
            .answer;
        if answer.kind() == AnswerKind::Graph {
            return Ok(Outcome::Graph(Box::new(answer.triples().collect())));
        }
        if let Some(format) = format {
            let mut written = Vec::new();
            answer
                .write_results(format, &mut written)
                .map_err(|error| error.to_string())?;
            return Outcome::read(format, &written);
        }
        Ok(match answer.boolean() {
            Some(value) => Outcome::Boolean(value),
            None => Outcome::Solutions(Table {
                variables: answer.variables().to_vec(),
                rows: answer.rows().collect(),
                ordered: false,
            }),
        })
    }

    fn update(&mut self, text: &str, base: &str) -> Result<(), String> {
        let options = UpdateOptions {
            base: Some(base.to_owned()),
            timeout: Some(TEST_TIME),
            ..UpdateOptions::default()
        };
        self.engine
            .update(text)
            .options(&options)
            .run()
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    fn dump(&self) -> Result<Dataset, String> {
        let all = "SELECT ?g ?s ?p ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }";
        let Outcome::Solutions(table) = self.query(all, super::manifest::PUBLISHED, None)? else {
            return Err("SELECT did not give solutions".to_owned());
        };
        table.rows.into_iter().map(quad_of).collect()
    }

    fn check_query(&self, text: &str, base: &str) -> Result<(), String> {
        syntax::check_query(text, Some(base)).map_err(|error| error.to_string())
    }

    fn check_update(&self, text: &str, base: &str) -> Result<(), String> {
        syntax::check_update(text, Some(base)).map_err(|error| error.to_string())
    }
}

fn quad_of(row: crate::bag::Row) -> Result<Quad, String> {
    let shown = crate::bag::show(&row);
    let mut terms = row.into_iter();
    let mut next = || terms.next().flatten();
    let node = |term: Option<Term>| match term {
        Some(Term::NamedNode(node)) => Some(NamedOrBlankNode::from(node)),
        Some(Term::BlankNode(node)) => Some(node.into()),
        _ => None,
    };
    let graph = node(next()).map_or(GraphName::DefaultGraph, GraphName::from);
    let quad = match (node(next()), next(), next()) {
        (Some(subject), Some(Term::NamedNode(predicate)), Some(object)) => {
            Some(Quad::new(subject, predicate, object, graph))
        }
        _ => None,
    };
    quad.ok_or_else(|| format!("the store gave {shown}, which is no statement"))
}
