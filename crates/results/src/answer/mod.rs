//! Answers as the user sees them.
//!
//! The one thing to know before changing it: ids are decoded only while rows are read or written,
//! so an unread answer costs no strings. Decoding needs the dictionary and no snapshot (S9).

mod cursor;
#[cfg(test)]
mod tests;
mod writer;

pub use cursor::{Cell, CellKind, Cursor, Row};
pub use writer::AnswerWriter;

use crate::error::AnswerError;
use oxrdf::{Quad, Term, Triple};
use oxrdfio::RdfFormat;
use somersault_dictionary::Dictionary;
use somersault_query::Answer as Inner;
use sparesults::QueryResultsFormat;
use std::fmt;
use std::io::Write;
use std::sync::{Arc, LazyLock};

/// The number of bytes that are written before they are passed on to a writer.
const PIECE_BYTES: usize = 64 * 1024;

/// The columns of a dataset; those of a graph are the first three.
static GRAPH_COLUMNS: LazyLock<[String; 4]> =
    LazyLock::new(|| ["subject", "predicate", "object", "graph"].map(str::to_owned));

/// The placeholder for an answer whose memory is being reused.
static NO_ANSWER: LazyLock<Arc<Inner>> = LazyLock::new(|| Arc::new(Inner::Graph(Vec::new())));

/// The answer of a one-shot query or of a firing. Cheap to clone.
#[derive(Clone)]
pub struct Answer {
    inner: Arc<Inner>,
    dictionary: Arc<Dictionary>,
}

/// The shape of an [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// SELECT: a bag of rows.
    Solutions,
    /// ASK: yes or no.
    Boolean,
    /// CONSTRUCT and DESCRIBE: a set of triples.
    Graph,
    /// CONSTRUCT with GRAPH in its template: a set of quads.
    Dataset,
}

/// For the crates that make answers; not part of the engine's API.
#[doc(hidden)]
impl Answer {
    /// Returns the answer of a query whose ids this dictionary decodes.
    pub fn new(inner: impl Into<Arc<Inner>>, dictionary: Arc<Dictionary>) -> Answer {
        Answer {
            inner: inner.into(),
            dictionary,
        }
    }

    /// Returns the answer in ids.
    pub fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Takes out the answer itself if there is no other holder; an answer without rows is left.
    pub fn reclaim(&mut self) -> Option<Arc<Inner>> {
        Arc::get_mut(&mut self.inner)?;
        Some(std::mem::replace(&mut self.inner, Arc::clone(&NO_ANSWER)))
    }

    /// Becomes another answer; keeps its reference to the dictionary if that is the same.
    pub fn replace(&mut self, inner: Arc<Inner>, dictionary: &Arc<Dictionary>) {
        self.inner = inner;
        if !Arc::ptr_eq(&self.dictionary, dictionary) {
            self.dictionary = Arc::clone(dictionary);
        }
    }

    pub(crate) fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }
}

impl Answer {
    /// Returns its shape.
    ///
    /// ```
    /// use somersault::{AnswerKind, Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("ASK { ?s ?p ?o }").run()?;
    /// assert_eq!(found.answer.kind(), AnswerKind::Boolean);
    /// # Ok(())
    /// # }
    /// ```
    pub fn kind(&self) -> AnswerKind {
        match *self.inner {
            Inner::Solutions(_) => AnswerKind::Solutions,
            Inner::Boolean(_) => AnswerKind::Boolean,
            Inner::Graph(_) => AnswerKind::Graph,
            Inner::Dataset(_) => AnswerKind::Dataset,
        }
    }

    /// Returns the names of the columns, without `?`: none for ASK, `subject`, `predicate` and
    /// `object` for a graph, and `graph` as well for a dataset.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("SELECT ?s ?o { ?s ?p ?o }").run()?;
    /// assert_eq!(found.answer.variables(), ["s", "o"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn variables(&self) -> &[String] {
        match &*self.inner {
            Inner::Solutions(solutions) => solutions.variables(),
            Inner::Boolean(_) => &[],
            Inner::Graph(_) => &GRAPH_COLUMNS[..3],
            Inner::Dataset(_) => &*GRAPH_COLUMNS,
        }
    }

    /// Returns the number of rows, triples or quads (1 for ASK).
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// assert_eq!(found.answer.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        match &*self.inner {
            Inner::Solutions(solutions) => solutions.len(),
            Inner::Boolean(_) => 1,
            Inner::Graph(triples) => triples.len(),
            Inner::Dataset(quads) => quads.len(),
        }
    }

    /// Whether there is no row and no triple; an ASK answer is never empty.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s <urn:q> ?o }").run()?;
    /// assert!(found.answer.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the truth value of ASK.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("ASK { ?s ?p ?o }").run()?;
    /// assert_eq!(found.answer.boolean(), Some(true));
    /// # Ok(())
    /// # }
    /// ```
    pub fn boolean(&self) -> Option<bool> {
        match *self.inner {
            Inner::Boolean(yes) => Some(yes),
            Inner::Solutions(_) | Inner::Graph(_) | Inner::Dataset(_) => None,
        }
    }

    /// Returns the rows of SELECT, decoded one at a time, with as many cells as there are
    /// variables.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("SELECT ?s ?o { ?s ?p ?o }").run()?;
    /// for row in found.answer.rows() {
    ///     assert!(row.iter().all(Option::is_some));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn rows(&self) -> Rows<'_> {
        Rows {
            answer: self,
            next: 0,
        }
    }

    /// Returns the triples of CONSTRUCT or DESCRIBE.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("CONSTRUCT WHERE { ?s ?p ?o }").run()?;
    /// assert_eq!(found.answer.triples().count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn triples(&self) -> Triples<'_> {
        let triples: &[Triple] = match &*self.inner {
            Inner::Graph(triples) => triples,
            Inner::Solutions(_) | Inner::Boolean(_) | Inner::Dataset(_) => &[],
        };
        Triples {
            inner: triples.iter(),
        }
    }

    /// Returns the quads of CONSTRUCT with GRAPH in its template.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let text = "CONSTRUCT { GRAPH <urn:g> { ?s ?p ?o } } WHERE { ?s ?p ?o }";
    /// let found = engine.query(text).run()?;
    /// assert_eq!(found.answer.quads().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn quads(&self) -> &[Quad] {
        match &*self.inner {
            Inner::Dataset(quads) => quads,
            Inner::Solutions(_) | Inner::Boolean(_) | Inner::Graph(_) => &[],
        }
    }

    /// Returns the rows of SELECT as text, borrowed and not copied: the fast way to read a large
    /// answer.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let (mut cursor, mut rows) = (found.answer.cursor(), 0);
    /// while let Some(row) = cursor.next_row() {
    ///     rows += row.cells().flatten().count();
    /// }
    /// assert_eq!(rows, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }

    /// Returns a writer of solutions or the boolean in a SPARQL result format, a piece at a time.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, QueryResultsFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let mut writer = found.answer.results_writer(QueryResultsFormat::Csv)?;
    /// let (mut piece, mut text) = (Vec::new(), Vec::new());
    /// loop {
    ///     let more = writer.next_piece(&mut piece, 1024)?;
    ///     text.append(&mut piece);
    ///     if !more {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(text, b"o\r\n1\r\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AnswerError::CannotHold`] if this is a graph, or if the format cannot hold the name of a
    /// column.
    pub fn results_writer(&self, format: QueryResultsFormat) -> Result<AnswerWriter, AnswerError> {
        AnswerWriter::of_results(self, format)
    }

    /// Returns a writer of solutions or the boolean as lines of JSON, a piece at a time: an object
    /// for each row, with its bound columns as in SPARQL 1.1 Query Results JSON; of a boolean
    /// `{"boolean":true}`.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> <urn:b> }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let mut piece = Vec::new();
    /// found.answer.lines_writer()?.next_piece(&mut piece, 1024)?;
    /// assert_eq!(piece, b"{\"o\":{\"type\":\"uri\",\"value\":\"urn:b\"}}\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AnswerError::CannotHold`] if this is a graph.
    pub fn lines_writer(&self) -> Result<AnswerWriter, AnswerError> {
        AnswerWriter::of_lines(self)
    }

    /// Returns a writer of a graph or dataset in an RDF syntax, a piece at a time.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, RdfFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("CONSTRUCT WHERE { ?s ?p ?o }").run()?;
    /// let mut writer = found.answer.graph_writer(RdfFormat::NTriples)?;
    /// let mut piece = Vec::new();
    /// writer.next_piece(&mut piece, 1024)?;
    /// assert!(piece.starts_with(b"<urn:a> <urn:p> "));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AnswerError::CannotHold`] if this is neither, or a dataset in a syntax for a single graph.
    pub fn graph_writer(&self, format: RdfFormat) -> Result<AnswerWriter, AnswerError> {
        AnswerWriter::of_graph(self, format)
    }

    /// Writes solutions or the boolean in a SPARQL result format.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, QueryResultsFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let mut text = Vec::new();
    /// found.answer.write_results(QueryResultsFormat::Csv, &mut text)?;
    /// assert_eq!(text, b"o\r\n1\r\n");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AnswerError::CannotHold`] if this is a graph or holds what the format cannot,
    /// [`AnswerError::Io`] if `writer` fails.
    pub fn write_results(
        &self,
        format: QueryResultsFormat,
        writer: impl Write,
    ) -> Result<(), AnswerError> {
        write_all(self.results_writer(format)?, writer)
    }

    /// Writes a graph or dataset in an RDF syntax.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, RdfFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
    /// let found = engine.query("CONSTRUCT WHERE { ?s ?p ?o }").run()?;
    /// let mut text = Vec::new();
    /// found.answer.write_graph(RdfFormat::NTriples, &mut text)?;
    /// assert!(text.starts_with(b"<urn:a> <urn:p> "));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Answer::graph_writer`], and [`AnswerError::Io`] if `writer` fails.
    pub fn write_graph(&self, format: RdfFormat, writer: impl Write) -> Result<(), AnswerError> {
        write_all(self.graph_writer(format)?, writer)
    }
}

fn write_all(mut pieces: AnswerWriter, mut writer: impl Write) -> Result<(), AnswerError> {
    let mut piece = Vec::with_capacity(pieces.expected_bytes(PIECE_BYTES));
    loop {
        let more = pieces.next_piece(&mut piece, PIECE_BYTES)?;
        writer.write_all(&piece).map_err(AnswerError::Io)?;
        if !more {
            return Ok(());
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("kind", &self.kind())
            .field("variables", &self.variables())
            .field("len", &self.len())
            .finish()
    }
}

/// Iterator of [`Answer::rows`].
#[derive(Debug)]
pub struct Rows<'a> {
    answer: &'a Answer,
    next: usize,
}

impl Iterator for Rows<'_> {
    type Item = Vec<Option<Term>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Inner::Solutions(solutions) = &*self.answer.inner else {
            return None;
        };
        if self.next >= solutions.len() {
            return None;
        }
        let row = self.next;
        self.next += 1;
        let columns = 0..solutions.variables().len();
        let dictionary = &self.answer.dictionary;
        Some(
            columns
                .map(|column| solutions.term(row, column, dictionary))
                .collect(),
        )
    }
}

/// Iterator of [`Answer::triples`].
#[derive(Debug)]
pub struct Triples<'a> {
    inner: std::slice::Iter<'a, Triple>,
}

impl Iterator for Triples<'_> {
    type Item = Triple;

    fn next(&mut self) -> Option<Self::Item> {
        self.inner.next().cloned()
    }
}
