//! The stored graphs and the declarations as texts that an engine takes again.
//!
//! The one thing to know: the statements are read a few lists at a time, at one snapshot, by a
//! reader that renews its pin. So a dump of any size holds little memory and no version of the
//! store for long.

use super::Engine;
use crate::access::RightKind;
use crate::error::EngineError;
use oxrdf::{GraphName, NamedOrBlankNode, QuadRef, Term};
use oxrdfio::RdfFormat;
use oxttl::nquads::LowLevelNQuadsSerializer;
use oxttl::trig::LowLevelTriGSerializer;
use oxttl::{NQuadsSerializer, TriGSerializer};
use somersault_model::{Direction, ShardId, Sn, TermId};
use somersault_store::{ListKey, ListReader, Store};
use somersault_stream::QueryStatus;
use somersault_txn::DataflowState;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

/// Lists that are read from the store at a time.
const LISTS_AT_A_TIME: usize = 256;

/// # Store
///
/// All that is stored and declared, as texts.
impl Engine {
    /// Begins to write out all stored statements, at the stable snapshot.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let mut dump = engine.dump()?;
    /// let mut text = Vec::new();
    /// dump.write_to(&mut text)?;
    /// let line = "<urn:a> <urn:p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n";
    /// assert_eq!(text, line.as_bytes());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The engine is stopping.
    pub fn dump(&self) -> Result<Dump, EngineError> {
        self.admit(RightKind::Admin, None)?;
        self.begin_dump(DumpSyntax::NQuads(NQuadsSerializer::new().low_level()))
    }

    /// Begins to write out all stored statements in N-Quads or TriG, as [`Engine::dump`] does, for
    /// a handle that may read all graphs.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, RdfFormat};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> <urn:b> } }").run()?;
    /// let mut text = Vec::new();
    /// engine.dump_as(RdfFormat::TriG)?.write_to(&mut text)?;
    /// assert_eq!(text, b"<urn:g> {\n\t<urn:a> <urn:p> <urn:b> .\n}\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The format holds no named graphs, or the handle may not read all graphs.
    pub fn dump_as(&self, format: RdfFormat) -> Result<Dump, EngineError> {
        self.admit(RightKind::Read, None)?;
        self.access.require(RightKind::Read, Some("default"))?;
        self.begin_dump(match format {
            RdfFormat::NQuads => DumpSyntax::NQuads(NQuadsSerializer::new().low_level()),
            RdfFormat::TriG => DumpSyntax::TriG(Box::new(TriGSerializer::new().low_level())),
            other => {
                return Err(EngineError::Invalid(format!(
                    "{other} is no format for a whole dataset; ask for N-Quads or TriG"
                )));
            }
        })
    }

    fn begin_dump(&self, syntax: DumpSyntax) -> Result<Dump, EngineError> {
        let store = Arc::clone(&self.inner.store);
        let pin = store.pin_stable();
        let sn = pin.sn();
        let mut shards: Vec<ShardId> = store.placement().all().collect();
        shards.reverse();
        let mut dump = Dump {
            store,
            sn,
            shards,
            reader: None,
            syntax,
            statements: 0,
        };
        // Nothing is stored before SN 1. Otherwise the first reader keeps the SN from here on.
        if sn > Sn::ZERO {
            dump.next_shard()?;
        }
        Ok(dump)
    }

    /// Returns the declarations of all streams, continuous queries, procedures and dataflows, as
    /// statements that `somersault register` declares again, each after those that it needs.
    /// Derived streams come with their queries. PAUSE follows paused queries and dataflows.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s")?;
    /// let query = "SELECT ?x FROM STREAM <urn:s> [RANGE 2s STEP 1s] WHERE { ?x ?p ?o }";
    /// engine.register(Some("q"), query)?;
    /// let text = engine.declarations()?;
    /// assert!(text.starts_with("CREATE STREAM <urn:s> BATCH 1s\n;\n"));
    /// assert!(text.contains("REGISTER QUERY \"q\" AS\nSELECT ?x"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The engine is stopping.
    pub fn declarations(&self) -> Result<String, EngineError> {
        self.admit(RightKind::Admin, None)?;
        let mut text = String::new();
        let mut declared = HashSet::new();
        for stream in self.streams() {
            if stream.derived_by.is_none() {
                push_statement(&mut text, &stream.text);
                declared.insert(stream.iri);
            }
        }
        let mut queries = self.inner.driver.queries();
        queries.sort_unstable_by_key(|query| query.uid);
        // A query that derives a stream may have been replaced after those that window it.
        while !queries.is_empty() {
            let (ready, waiting): (Vec<_>, Vec<_>) = queries
                .into_iter()
                .partition(|query| is_ready(query, &declared));
            if ready.is_empty() {
                let names: Vec<_> = waiting.into_iter().map(|query| query.name).collect();
                return Err(EngineError::Internal(format!(
                    "no stream is declared for the windows of the queries {}",
                    names.join(", ")
                )));
            }
            for query in ready {
                self.push_query(&mut text, &query)?;
                let derived = query.declaration.derives.as_ref();
                declared.extend(derived.map(|stream| stream.iri.as_str().to_owned()));
            }
            queries = waiting;
        }
        self.push_procedures(&mut text)?;
        Ok(text)
    }

    /// Procedures in the order of their declaration, which decides ties, and dataflows behind them.
    fn push_procedures(&self, text: &mut String) -> Result<(), EngineError> {
        let mut procedures = self.inner.driver.procedures()?;
        procedures.sort_unstable_by_key(|procedure| procedure.uid);
        for procedure in procedures {
            push_statement(text, &procedure.declaration.text);
        }
        for dataflow in self.inner.driver.dataflows()? {
            push_statement(text, &dataflow.declaration.text);
            if dataflow.state == DataflowState::Paused {
                let name = quoted(&dataflow.declaration.name);
                push_statement(text, &format!("PAUSE DATAFLOW {name}"));
            }
        }
        Ok(())
    }

    fn push_query(&self, text: &mut String, query: &QueryStatus) -> Result<(), EngineError> {
        let name = quoted(&query.name);
        match self.parser(None).parse_continuous(&query.text)?.name {
            Some(_) => push_statement(text, &query.text),
            None => push_statement(
                text,
                &format!("REGISTER QUERY {name} AS\n{}", query.text.trim()),
            ),
        }
        if query.paused {
            push_statement(text, &format!("PAUSE QUERY {name}"));
        }
        Ok(())
    }
}

/// Whether all streams that a query windows are declared.
fn is_ready(query: &QueryStatus, declared: &HashSet<String>) -> bool {
    let mut windows = query.declaration.windows.iter();
    windows.all(|window| declared.contains(window.stream.as_str()))
}

/// Adds a statement, which may end with a comment.
fn push_statement(text: &mut String, statement: &str) {
    text.push_str(statement.trim());
    text.push_str("\n;\n");
}

/// A name as a string of the language.
fn quoted(name: &str) -> String {
    let mut quoted = String::from("\"");
    for char in name.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            char if char.is_control() => {
                let written = write!(quoted, "\\u{:04X}", u32::from(char));
                written.expect("a string takes everything");
            }
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

/// How statements are written out.
enum DumpSyntax {
    NQuads(LowLevelNQuadsSerializer),
    TriG(Box<LowLevelTriGSerializer>),
}

impl DumpSyntax {
    fn write(&mut self, quad: QuadRef<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            DumpSyntax::NQuads(lines) => lines.serialize_quad(quad, out),
            DumpSyntax::TriG(blocks) => blocks.serialize_quad(quad, out),
        }
    }

    /// Writes what closes the last statement.
    fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            DumpSyntax::NQuads(_) => Ok(()),
            DumpSyntax::TriG(blocks) => blocks.finish(out),
        }
    }
}

/// All stored statements at one snapshot, written out piece by piece. Blank nodes have
/// the labels by which the engine knows them.
pub struct Dump {
    store: Arc<Store>,
    sn: Sn,
    /// The shards that have not been begun, the next one last.
    shards: Vec<ShardId>,
    /// Reads the current shard, and keeps the snapshot.
    reader: Option<ListReader>,
    syntax: DumpSyntax,
    statements: u64,
}

impl Dump {
    /// The snapshot number that is written out.
    pub fn sn(&self) -> Sn {
        self.sn
    }

    /// The number of statements that have been written.
    pub fn statements(&self) -> u64 {
        self.statements
    }

    /// Appends the lines of the next statements. Returns whether there may be more.
    ///
    /// # Errors
    /// [`EngineError::Internal`] if the store names a term that the dictionary does not have.
    pub fn next_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, EngineError> {
        let Some(mut reader) = self.reader.take() else {
            return Ok(false);
        };
        let mut written = Ok(());
        let more = reader.portion(LISTS_AT_A_TIME, &mut |key, members| {
            if written.is_ok() && key.direction == Direction::Out {
                written = self.write_list(&key, members, out);
            }
        });
        written?;
        self.reader = Some(reader);
        if !more {
            self.next_shard()?;
            if self.reader.is_none() {
                self.syntax.finish(out).map_err(unwritten)?;
            }
        }
        Ok(self.reader.is_some())
    }

    /// Writes the lines of all statements that have not been written.
    ///
    /// # Errors
    /// Those of [`Dump::next_piece`] and of `out`.
    pub fn write_to(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut piece = Vec::new();
        let mut more = true;
        while more {
            more = self.next_piece(&mut piece).map_err(io::Error::other)?;
            out.write_all(&piece)?;
            piece.clear();
        }
        Ok(())
    }

    /// Moves on to the next shard. Its reader is made while the one before keeps the snapshot.
    fn next_shard(&mut self) -> Result<(), EngineError> {
        self.reader = match self.shards.pop() {
            None => None,
            Some(shard) => {
                let reader = self.store.lists_at(shard, self.sn);
                Some(reader.map_err(|error| EngineError::Internal(error.to_string()))?)
            }
        };
        Ok(())
    }

    fn write_list(
        &mut self,
        key: &ListKey,
        members: &[TermId],
        out: &mut Vec<u8>,
    ) -> Result<(), EngineError> {
        let graph_name = match key.graph {
            TermId::DEFAULT_GRAPH => GraphName::DefaultGraph,
            graph => node(self.term(graph)?)?.into(),
        };
        let subject = node(self.term(key.vertex)?)?;
        let Term::NamedNode(predicate) = self.term(key.predicate)? else {
            return Err(EngineError::Internal("a predicate is no IRI".to_owned()));
        };
        for member in members {
            let object = self.term(*member)?;
            let quad = QuadRef {
                subject: subject.as_ref(),
                predicate: predicate.as_ref(),
                object: object.as_ref(),
                graph_name: graph_name.as_ref(),
            };
            self.syntax.write(quad, out).map_err(unwritten)?;
        }
        self.statements += members.len() as u64;
        Ok(())
    }

    fn term(&self, id: TermId) -> Result<Term, EngineError> {
        let term = self.store.dictionary().decode(id);
        term.ok_or_else(|| {
            EngineError::Internal(format!("the store holds id {}, which is no term", id.raw()))
        })
    }
}

fn unwritten(source: io::Error) -> EngineError {
    EngineError::Io {
        context: "a statement could not be written".to_owned(),
        source,
    }
}

fn node(term: Term) -> Result<NamedOrBlankNode, EngineError> {
    match term {
        Term::NamedNode(node) => Ok(node.into()),
        Term::BlankNode(node) => Ok(node.into()),
        _ => Err(EngineError::Internal(
            "a subject or a graph is a literal or a triple term".to_owned(),
        )),
    }
}
