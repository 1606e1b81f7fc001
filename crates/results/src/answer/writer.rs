//! Answers as text, written on demand: a sender takes a piece, passes it on, and returns for the
//! next, so neither the whole text nor a thread waits for a slow reader.
//!
//! Rows are written straight from the columns of ids. The one thing to know before changing it:
//! nothing here may allocate or decode per cell, and a piece may end after any row.

use super::Answer;
use crate::error::AnswerError;
use crate::formats::{Csv, Json, JsonLines, Syntax, Tsv, Xml};
use crate::terms::Terms;
use oxrdf::{GraphNameRef, Quad, QuadRef};
use oxrdfio::{RdfFormat, RdfSerializer, WriterQuadSerializer};
use parking_lot::Mutex;
use somersault_dictionary::Located;
use somersault_model::TermId;
use somersault_query::{Answer as Inner, Solutions};
use sparesults::{QueryResultsFormat, QueryResultsSerializer};
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

/// The number of rows whose terms are looked up before the first is written.
const BLOCK_ROWS: usize = 64;
/// The usual size of a cell, and the size of the text around all cells, in bytes.
const CELL_BYTES: usize = 96;
const HEAD_BYTES: usize = 256;

/// Writes an answer piece by piece; made by [`Answer::results_writer`] and
/// [`Answer::graph_writer`]. It needs no snapshot and may be kept for as long as its reader needs.
pub struct AnswerWriter {
    answer: Answer,
    state: State,
}

enum State {
    Json(Json, Progress),
    Lines(JsonLines, Progress),
    Xml(Xml, Progress),
    Csv(Progress),
    Tsv(Progress),
    Boolean(QueryResultsFormat),
    BooleanLine,
    Graph(Box<GraphState>),
    Ended,
}

/// The progress of writing solutions.
#[derive(Default)]
struct Progress {
    next_row: usize,
    begun: bool,
    /// The text of an inline value.
    scratch: String,
    /// The last term of each column, and its position in the piece.
    written: Vec<(TermId, Range<usize>)>,
}

/// A graph that is being written. The serialiser writes into `piece`, which is emptied each time.
struct GraphState {
    serializer: WriterQuadSerializer<Piece>,
    piece: Piece,
    next: usize,
}

#[derive(Clone, Default)]
struct Piece(Arc<Mutex<Vec<u8>>>);

impl Write for Piece {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AnswerWriter {
    pub(crate) fn of_results(
        answer: &Answer,
        format: QueryResultsFormat,
    ) -> Result<AnswerWriter, AnswerError> {
        let variables = answer.variables();
        let progress = Progress {
            written: vec![(TermId::UNBOUND, 0..0); variables.len()],
            ..Progress::default()
        };
        let state = match (&**answer.inner(), format) {
            (Inner::Graph(_) | Inner::Dataset(_), _) => {
                return Err(AnswerError::CannotHold(format!(
                    "the answer is a graph, which {} cannot hold; ask for an RDF syntax such as Turtle",
                    format.media_type()
                )));
            }
            (Inner::Boolean(_), format) => State::Boolean(format),
            (Inner::Solutions(_), QueryResultsFormat::Json) => {
                State::Json(Json::new(variables), progress)
            }
            (Inner::Solutions(_), QueryResultsFormat::Xml) => {
                State::Xml(Xml::new(variables)?, progress)
            }
            (Inner::Solutions(_), QueryResultsFormat::Csv) => State::Csv(progress),
            (Inner::Solutions(_), QueryResultsFormat::Tsv) => State::Tsv(progress),
            (Inner::Solutions(_), _) => {
                return Err(AnswerError::NotSupported(format!(
                    "no writer of {} is known",
                    format.media_type()
                )));
            }
        };
        Ok(AnswerWriter {
            answer: answer.clone(),
            state,
        })
    }

    pub(crate) fn of_lines(answer: &Answer) -> Result<AnswerWriter, AnswerError> {
        let variables = answer.variables();
        let state = match &**answer.inner() {
            Inner::Solutions(_) => {
                let progress = Progress {
                    written: vec![(TermId::UNBOUND, 0..0); variables.len()],
                    ..Progress::default()
                };
                State::Lines(JsonLines::new(variables), progress)
            }
            Inner::Boolean(_) => State::BooleanLine,
            Inner::Graph(_) | Inner::Dataset(_) => {
                return Err(AnswerError::CannotHold(
                    "the answer is a graph, which lines of JSON cannot hold; ask for an RDF syntax such as N-Triples"
                        .to_owned(),
                ));
            }
        };
        Ok(AnswerWriter {
            answer: answer.clone(),
            state,
        })
    }

    pub(crate) fn of_graph(
        answer: &Answer,
        format: RdfFormat,
    ) -> Result<AnswerWriter, AnswerError> {
        match &**answer.inner() {
            Inner::Graph(_) => {}
            Inner::Dataset(_) if format.supports_datasets() => {}
            Inner::Dataset(_) => {
                return Err(AnswerError::CannotHold(format!(
                    "the answer has named graphs, which {} cannot hold; ask for N-Quads or TriG",
                    format.media_type()
                )));
            }
            Inner::Solutions(_) | Inner::Boolean(_) => {
                return Err(AnswerError::CannotHold(format!(
                    "the answer is no graph, which is all that {} can hold; ask for a SPARQL result format such as SPARQL JSON",
                    format.media_type()
                )));
            }
        }
        let piece = Piece::default();
        let serializer = RdfSerializer::from_format(format).for_writer(piece.clone());
        Ok(AnswerWriter {
            answer: answer.clone(),
            state: State::Graph(Box::new(GraphState {
                serializer,
                piece,
                next: 0,
            })),
        })
    }

    /// Returns the capacity in bytes to reserve for the first piece of `bytes`: less for a small
    /// answer.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, QueryResultsFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let writer = found.answer.results_writer(QueryResultsFormat::Json)?;
    /// let piece: Vec<u8> = Vec::with_capacity(writer.expected_bytes(1 << 16));
    /// assert!(piece.capacity() < 1 << 16);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expected_bytes(&self, bytes: usize) -> usize {
        let cells = self
            .answer
            .len()
            .saturating_mul(self.answer.variables().len());
        let all = cells.saturating_mul(CELL_BYTES).saturating_add(HEAD_BYTES);
        all.min(bytes.saturating_add(bytes / 8))
    }

    /// Empties `piece` and writes the next rows into it, at least `bytes` bytes unless the answer
    /// ends earlier. Returns whether there is more; after the end, pieces stay empty.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig, QueryResultsFormat};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// # engine.update("INSERT DATA { <urn:a> <urn:p> 1, 2 }").run()?;
    /// let found = engine.query("SELECT ?o { ?s ?p ?o }").run()?;
    /// let mut writer = found.answer.results_writer(QueryResultsFormat::Tsv)?;
    /// let (mut piece, mut bytes) = (Vec::new(), 0);
    /// while writer.next_piece(&mut piece, 1024)? {
    ///     bytes += piece.len();
    /// }
    /// bytes += piece.len();
    /// assert_eq!(bytes, "?o\n1\n2\n".len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The format cannot express a value; nothing more can be written then.
    pub fn next_piece(&mut self, piece: &mut Vec<u8>, bytes: usize) -> Result<bool, AnswerError> {
        piece.clear();
        let more = self.write(piece, bytes.max(1));
        if !matches!(more, Ok(true)) {
            self.state = State::Ended;
        }
        more
    }

    fn write(&mut self, piece: &mut Vec<u8>, bytes: usize) -> Result<bool, AnswerError> {
        let answer = &self.answer;
        match (&mut self.state, &**answer.inner()) {
            (State::Json(json, progress), Inner::Solutions(solutions)) => {
                progress.advance(json, answer, solutions, piece, bytes)
            }
            (State::Lines(lines, progress), Inner::Solutions(solutions)) => {
                progress.advance(lines, answer, solutions, piece, bytes)
            }
            (State::BooleanLine, Inner::Boolean(yes)) => {
                piece.extend_from_slice(format!("{{\"boolean\":{yes}}}\n").as_bytes());
                Ok(false)
            }
            (State::Xml(xml, progress), Inner::Solutions(solutions)) => {
                progress.advance(xml, answer, solutions, piece, bytes)
            }
            (State::Csv(progress), Inner::Solutions(solutions)) => {
                progress.advance(&Csv, answer, solutions, piece, bytes)
            }
            (State::Tsv(progress), Inner::Solutions(solutions)) => {
                progress.advance(&Tsv, answer, solutions, piece, bytes)
            }
            (State::Boolean(format), Inner::Boolean(yes)) => {
                QueryResultsSerializer::from_format(*format)
                    .serialize_boolean_to_writer(piece, *yes)
                    .map_err(AnswerError::Io)?;
                Ok(false)
            }
            (State::Graph(graph), Inner::Graph(_) | Inner::Dataset(_)) => {
                while let Some(quad) = quad_at(answer.inner(), graph.next) {
                    graph.next += 1;
                    let wrote = graph.serializer.serialize_quad(quad);
                    wrote.map_err(AnswerError::Io)?;
                    let mut written = graph.piece.0.lock();
                    if written.len() >= bytes {
                        std::mem::swap(piece, &mut *written);
                        return Ok(true);
                    }
                }
                self.end_graph(piece)?;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    fn end_graph(&mut self, piece: &mut Vec<u8>) -> Result<(), AnswerError> {
        if let State::Graph(graph) = std::mem::replace(&mut self.state, State::Ended) {
            let last = graph.serializer.finish().map_err(AnswerError::Io)?;
            std::mem::swap(piece, &mut *last.0.lock());
        }
        Ok(())
    }
}

/// Returns a statement of a graph or dataset.
fn quad_at(answer: &Inner, at: usize) -> Option<QuadRef<'_>> {
    match answer {
        Inner::Graph(triples) => {
            let triple = triples.get(at)?.as_ref();
            Some(triple.in_graph(GraphNameRef::DefaultGraph))
        }
        Inner::Dataset(quads) => quads.get(at).map(Quad::as_ref),
        Inner::Solutions(_) | Inner::Boolean(_) => None,
    }
}

impl fmt::Debug for AnswerWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerWriter")
            .field("answer", &self.answer)
            .finish_non_exhaustive()
    }
}

impl Progress {
    /// Writes rows until the piece has this many bytes.
    fn advance(
        &mut self,
        syntax: &impl Syntax,
        answer: &Answer,
        solutions: &Solutions,
        piece: &mut Vec<u8>,
        bytes: usize,
    ) -> Result<bool, AnswerError> {
        let mut out = String::from_utf8(std::mem::take(piece)).expect("no bytes are valid UTF-8");
        if !self.begun {
            self.begun = true;
            syntax.head(solutions.variables(), &mut out);
        }
        let wrote = self.rows(syntax, answer, solutions, &mut out, bytes);
        let more = self.next_row < solutions.len();
        if wrote.is_ok() && !more {
            syntax.tail(&mut out);
        }
        *piece = out.into_bytes();
        wrote.map(|()| more)
    }

    fn rows(
        &mut self,
        syntax: &impl Syntax,
        answer: &Answer,
        solutions: &Solutions,
        out: &mut String,
        bytes: usize,
    ) -> Result<(), AnswerError> {
        let terms = Terms::new(solutions, answer.dictionary());
        let columns: Vec<&[TermId]> = (0..self.written.len())
            .map(|column| solutions.column(column))
            .collect();
        // The last piece is gone, and its text can no longer be repeated.
        self.written.fill((TermId::UNBOUND, 0..0));
        let mut located = Vec::with_capacity(columns.len() * BLOCK_ROWS.min(solutions.len()));
        while self.next_row < solutions.len() && out.len() < bytes {
            let block = self.next_row..solutions.len().min(self.next_row + BLOCK_ROWS);
            located.clear();
            let ids = columns.iter().flat_map(|ids| &ids[block.clone()]);
            terms.locate(ids, &mut located);
            for row in block.clone() {
                if out.len() >= bytes {
                    break;
                }
                syntax.open_row(row, out);
                let mut bound_before = false;
                for (column, ids) in columns.iter().enumerate() {
                    let place = located[column * block.len() + row - block.start];
                    let bound =
                        self.cell(syntax, &terms, (column, ids[row], place), bound_before, out)?;
                    bound_before |= bound;
                }
                syntax.close_row(out);
                self.next_row += 1;
            }
        }
        Ok(())
    }

    /// Writes a cell, and returns whether it is bound.
    #[inline]
    fn cell<'a>(
        &mut self,
        syntax: &impl Syntax,
        terms: &Terms<'a>,
        (column, id, located): (usize, TermId, Located<'a>),
        bound_before: bool,
        out: &mut String,
    ) -> Result<bool, AnswerError> {
        let (last, place) = &mut self.written[column];
        if *last == id && !id.is_unbound() {
            syntax.separate(column, bound_before, true, out);
            out.extend_from_within(place.clone());
            return Ok(true);
        }
        let value = terms.resolve_located(id, located, &mut self.scratch);
        syntax.separate(column, bound_before, value.is_some(), out);
        let Some(value) = value else {
            return Ok(false);
        };
        let start = out.len();
        syntax.cell(column, value, terms, out)?;
        (*last, *place) = (id, start..out.len());
        Ok(true)
    }
}
