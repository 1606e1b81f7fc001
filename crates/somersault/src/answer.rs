//! Answers as the user sees them: ids are decoded only while rows are read or written.

use crate::error::EngineError;
use oxrdf::{Term, Triple};
use oxrdfio::RdfFormat;
use sparesults::QueryResultsFormat;
use std::io::Write;

/// The answer of a one-shot query or of a firing. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Answer {
    _inner: (),
}

/// Which of the three shapes an [`Answer`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// SELECT: a bag of rows.
    Solutions,
    /// ASK: yes or no.
    Boolean,
    /// CONSTRUCT and DESCRIBE: a set of triples.
    Graph,
}

impl Answer {
    /// Its shape.
    pub fn kind(&self) -> AnswerKind {
        unimplemented!()
    }

    /// The names of the columns, without `?`; empty for ASK, and `subject`, `predicate`, `object` for a graph.
    pub fn variables(&self) -> &[String] {
        unimplemented!()
    }

    /// How many rows or triples there are (1 for ASK).
    pub fn len(&self) -> usize {
        unimplemented!()
    }

    /// Whether there is no row and no triple; an ASK answer is never empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The yes or no of ASK.
    pub fn boolean(&self) -> Option<bool> {
        unimplemented!()
    }

    /// The rows of SELECT, one decoded at a time, with as many cells as there are variables.
    pub fn rows(&self) -> Rows<'_> {
        unimplemented!()
    }

    /// The triples of CONSTRUCT or DESCRIBE.
    pub fn triples(&self) -> Triples<'_> {
        unimplemented!()
    }

    /// Writes solutions or the boolean in a SPARQL result format.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] if this is a graph, [`EngineError::Io`] if `writer` fails.
    pub fn write_results(
        &self,
        _format: QueryResultsFormat,
        _writer: impl Write,
    ) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Writes a graph in an RDF syntax.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] if this is not a graph, [`EngineError::Io`] if `writer` fails.
    pub fn write_graph(&self, _format: RdfFormat, _writer: impl Write) -> Result<(), EngineError> {
        unimplemented!()
    }
}

/// Iterator of [`Answer::rows`].
#[derive(Debug)]
pub struct Rows<'a> {
    _answer: &'a Answer,
}

impl Iterator for Rows<'_> {
    type Item = Vec<Option<Term>>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}

/// Iterator of [`Answer::triples`].
#[derive(Debug)]
pub struct Triples<'a> {
    _answer: &'a Answer,
}

impl Iterator for Triples<'_> {
    type Item = Triple;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
