//! `MAPPED BY CONSTRUCT` and `CONTEXT`: documents in, messages out.
//!
//! The one thing to know before changing it: this runs on the thread of the caller, before
//! anything is logged. What is logged are the statements, so a replay evaluates no mapping.

use oxrdf::Quad;
use rustc_hash::FxHashMap;
use somersault_lang::CreateStream;
use somersault_lines::{
    Contexts, Document, DocumentReader, DocumentSyntax, FacadeSlot, FacadeTriple, FacadeValue,
    Message, MessageLimits, RefusedMessage,
};
use somersault_model::{EventTime, Limits, QueryUid, TermId, TripleIds};
use somersault_query::{DocumentGraph, DocumentQuery, Execution};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The bytes that the text of one message or document may have.
pub(crate) const MESSAGE_BYTES: usize = 16 << 20;
/// The time that the mapping of one document may take.
const DOCUMENT_TIME: Duration = Duration::from_secs(5);
/// The number of member names whose predicates a reader remembers.
const REMEMBERED_NAMES: usize = 1_024;

/// What a stream that is declared with `MAPPED BY` or `CONTEXT` makes of documents: each becomes
/// one message.
/// Any number of threads may use it. [`Engine::mapping`](crate::Engine::mapping) gives it.
///
/// ```
/// use somersault::{DocumentSyntax, Engine, EngineConfig};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::open(EngineConfig::default())?;
/// let text = "PREFIX xyz: <http://sparql.xyz/facade-x/data/>
/// CREATE STREAM <urn:s> ARRIVAL TIME
/// MAPPED BY CONSTRUCT { ?sensor <urn:celsius> ?celsius }
///           WHERE { ?d xyz:sensor ?name ; xyz:celsius ?celsius
///                   BIND(IRI(CONCAT('urn:sensor:', ?name)) AS ?sensor) }";
/// engine.create_stream(None, text)?;
/// let mapping = engine.mapping("urn:s")?.expect("the stream is mapped");
/// let documents = r#"[{"sensor": "north", "celsius": 20.5}, {"sensor": "south"}]"#;
/// let mapped = mapping.messages(documents.as_bytes(), DocumentSyntax::Json);
/// let mapped: Vec<_> = mapped.collect::<Result<_, _>>()?;
/// let statements = mapped[0].message.statements.as_ref().unwrap();
/// assert_eq!(statements[0].subject.to_string(), "<urn:sensor:north>");
/// assert!(mapped[1].message.statements.is_err(), "it has no statement");
/// # Ok(())
/// # }
/// ```
pub struct Mapping {
    meaning: Meaning,
    limits: Limits,
    /// With the number of a document: what RAND, UUID and BNODE are keyed by.
    key: QueryUid,
    documents: AtomicU64,
    now: Box<dyn Fn() -> EventTime + Send + Sync>,
}

/// What makes statements of a document.
enum Meaning {
    /// A CONSTRUCT over its triples.
    Construct(Box<DocumentQuery>),
    /// It is JSON-LD below the context of this URL.
    Context(String, Contexts),
}

/// A message, and the text of the document that it is made of.
#[derive(Debug, Clone)]
pub struct MappedMessage {
    /// The message. Without statements it says why the document makes none.
    pub message: Message,
    /// The text, as it came.
    pub text: Vec<u8>,
}

impl Mapping {
    /// The mapping of a declaration; `None` if it has none. `key` tells its random values from
    /// those of other mappings; `now` is NOW().
    pub(crate) fn of(
        declaration: &CreateStream,
        contexts: &Contexts,
        limits: &Limits,
        key: u64,
        now: impl Fn() -> EventTime + Send + Sync + 'static,
    ) -> Option<Mapping> {
        let meaning = match (&declaration.mapping, &declaration.context) {
            (Some(mapping), _) => {
                Meaning::Construct(Box::new(DocumentQuery::new(&mapping.construct)))
            }
            (None, Some(url)) => Meaning::Context(url.as_str().to_owned(), contexts.clone()),
            (None, None) => return None,
        };
        Some(Mapping {
            meaning,
            limits: Limits {
                query_time: limits.query_time.min(DOCUMENT_TIME),
                result_rows: limits.push_statements,
                ..limits.clone()
            },
            key: QueryUid(key),
            documents: AtomicU64::new(0),
            now: Box::new(now),
        })
    }

    /// Whether documents of this syntax mean something: a context says nothing of CSV.
    #[must_use]
    pub fn reads(&self, syntax: DocumentSyntax) -> bool {
        match self.meaning {
            Meaning::Construct(_) => true,
            Meaning::Context(..) => syntax != DocumentSyntax::Csv,
        }
    }

    /// The messages that the documents of a text make, one after the other, while the text is read.
    pub fn messages<R: Read>(&self, text: R, syntax: DocumentSyntax) -> MappedMessages<'_, R> {
        let limits = MessageLimits {
            bytes: MESSAGE_BYTES,
            statements: usize::try_from(self.limits.push_statements).unwrap_or(usize::MAX),
        };
        MappedMessages {
            documents: DocumentReader::new(text, syntax, limits),
            mapper: Mapper {
                mapping: self,
                document: DocumentGraph::new(),
                names: FxHashMap::default(),
                most: limits.statements,
                execution: Execution::new(self.limits.clone(), (self.now)()),
            },
        }
    }
}

/// The messages of a text: see [`Mapping::messages`].
pub struct MappedMessages<'m, R> {
    documents: DocumentReader<R>,
    mapper: Mapper<'m>,
}

impl<R: Read> Iterator for MappedMessages<'_, R> {
    type Item = io::Result<MappedMessage>;

    fn next(&mut self) -> Option<io::Result<MappedMessage>> {
        let document = match self.documents.next()? {
            Ok(document) => document,
            Err(error) => return Some(Err(error)),
        };
        let message = Message {
            ordinal: document.ordinal,
            line: document.line,
            statements: self.mapper.statements(&document),
        };
        Some(Ok(MappedMessage {
            message,
            text: document.into_text(),
        }))
    }
}

/// Maps documents one after the other, with the buffers of those before.
struct Mapper<'m> {
    mapping: &'m Mapping,
    document: DocumentGraph,
    /// The predicates of member names, where the CONSTRUCT reads some predicates alone; `None` for
    /// names that it does not read.
    names: FxHashMap<String, Option<TermId>>,
    most: usize,
    execution: Execution,
}

impl Mapper<'_> {
    fn statements(&mut self, document: &Document) -> Result<Vec<Quad>, RefusedMessage> {
        let refused = |reason: String| RefusedMessage {
            line: document.line,
            column: 1,
            reason,
            ends_reading: false,
        };
        let query = match &self.mapping.meaning {
            Meaning::Construct(query) => query,
            Meaning::Context(url, contexts) => {
                let statements = document.statements_below(url, contexts, self.most)?;
                return match statements.is_empty() {
                    true => Err(refused(format!(
                        "the document makes no statement below the context <{url}>; compare its members with the terms of the context"
                    ))),
                    false => Ok(statements),
                };
            }
        };
        self.document.clear();
        document.triples(self.most, |triple| self.add(query, triple))?;
        let number = self.mapping.documents.fetch_add(1, Ordering::Relaxed);
        self.execution.query = self.mapping.key;
        self.execution.close = EventTime(number.cast_signed());
        match query.construct(&mut self.document, &self.execution) {
            Ok(statements) if statements.is_empty() => Err(refused(
                "the mapping makes no statement of this document; compare its WHERE with the members of the document"
                    .to_owned(),
            )),
            Ok(statements) => Ok(statements),
            Err(error) => Err(refused(format!(
                "the mapping failed on this document: {error}"
            ))),
        }
    }

    fn add(&mut self, query: &DocumentQuery, triple: FacadeTriple<'_>) {
        let Some(predicate) = self.predicate(query, &triple.slot) else {
            return;
        };
        let document = &mut self.document;
        let subject = query.container(triple.container, document);
        let object = match triple.value {
            FacadeValue::Container(number) => query.container(number, document),
            value => query.term(value.term(), document),
        };
        document.add(TripleIds::new(subject, predicate, object));
    }

    fn predicate(&mut self, query: &DocumentQuery, slot: &FacadeSlot<'_>) -> Option<TermId> {
        let document = &mut self.document;
        let FacadeSlot::Member(name) = slot else {
            return query.predicate(&slot.iri(), document);
        };
        if let Some(known) = self.names.get(*name) {
            return *known;
        }
        let found = query.predicate(&slot.iri(), document);
        if query.shares_predicates() && self.names.len() < REMEMBERED_NAMES {
            self.names.insert((*name).to_owned(), found);
        }
        found
    }
}
