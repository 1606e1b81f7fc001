//! Reads N-Triples and N-Quads on all cores: one thread cuts the document at line ends, several
//! threads parse and intern the chunks, and their results are handed on in document order.
//!
//! The one thing to know: the outcome is that of `oxttl` reading the document from beginning to
//! end, including the place of the first error. Only the order in which the chunks reach the
//! dictionary is left open.
//!
//! Beside whole graphs there are texts of several messages ([`MessageReader`], [`MessageWriter`]),
//! plain JSON and CSV ([`DocumentReader`]), and lines of streams ([`TimedLines`]).

mod chunks;
mod contexts;
mod documents;
mod messages;
mod pieces;
mod plain;
mod timed;

use chunks::Chunks;
pub use contexts::Contexts;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
pub use documents::{
    Document, DocumentReader, DocumentSyntax, FacadeSlot, FacadeTriple, FacadeValue,
    MEMBER_NAMESPACE, PLACE_BEGINNING, ROOT_TYPE,
};
pub use messages::{
    Message, MessageLimits, MessageReader, MessageSyntax, MessageWriter, RefusedMessage,
    TimestampPath,
};
use oxrdf::{GraphName, QuadRef};
use oxttl::{NQuadsParser, NTriplesParser, TurtleSyntaxError};
use plain::{Line, Lines};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
pub use timed::TimedLines;

const CHUNK_BYTES: usize = 1 << 20;

/// How to read the lines.
#[derive(Debug, Clone)]
pub struct LineSyntax {
    /// Whether lines may name a graph (N-Quads).
    pub with_graphs: bool,
    /// Whether IRIs and language tags are taken as they are. A lenient document whose IRIs span
    /// lines is not read correctly: if reading fails, read it again serially.
    pub lenient: bool,
    /// The graph of lines that name none.
    pub default_graph: GraphName,
    /// The approximate length of the chunks in bytes; 0 for a sensible length.
    pub chunk_bytes: usize,
}

/// A thread's consumer of the statements that it reads.
pub trait TakeLines {
    /// The result of a chunk.
    type Chunk: Send;
    /// Why a statement is refused.
    type Error: Send;

    /// Takes a statement of the current chunk.
    ///
    /// # Errors
    /// Ends the reading, with this error unless there is an earlier one in the document.
    fn take(&mut self, quad: QuadRef<'_>) -> Result<(), Self::Error>;

    /// Ends the current chunk and begins the next, which need not be its neighbour.
    ///
    /// # Errors
    /// As those of a statement.
    fn end_chunk(&mut self) -> Result<Self::Chunk, Self::Error>;
}

/// Why a document was not read to its end.
#[derive(Debug)]
pub enum LinesError<E> {
    /// The reader failed.
    Io(io::Error),
    /// It does not parse.
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The column in code points, from 1.
        column: u64,
        /// The parser's message.
        message: String,
    },
    /// A statement was refused.
    Refused(E),
}

/// Whole lines of a document.
struct Chunk {
    at: u64,
    bytes: Vec<u8>,
    is_last: bool,
}

struct Parsed<C> {
    chunk: C,
    lines: u64,
}

type ChunkResult<W> = Result<Parsed<<W as TakeLines>::Chunk>, LinesError<<W as TakeLines>::Error>>;

/// Reads a document. Each thread has its own worker; `merge` receives the chunks in order.
///
/// # Errors
/// The first error in document order. The chunks before the one that has it were merged; none
/// after it is.
pub fn read_lines<W: TakeLines>(
    reader: impl Read,
    syntax: &LineSyntax,
    worker: impl Fn() -> W + Sync,
    mut merge: impl FnMut(W::Chunk) -> Result<(), W::Error> + Send,
) -> Result<(), LinesError<W::Error>> {
    let length = match syntax.chunk_bytes {
        0 => CHUNK_BYTES,
        length => length,
    };
    let mut chunks = Chunks::new(reader, length);
    let mut first = Vec::new();
    if !chunks.next_into(&mut first).map_err(LinesError::Io)? {
        return Ok(());
    }
    if chunks.is_at_end() {
        // A single chunk is not worth a thread.
        let chunk = Chunk {
            at: 0,
            bytes: first,
            is_last: true,
        };
        let parsed = parse_chunk(&chunk, syntax, &mut worker())?;
        return merge(parsed.chunk).map_err(LinesError::Refused);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = AtomicBool::new(false);
    let (work, to_parse) = bounded::<Chunk>(threads + 1);
    let (done, to_merge) = unbounded::<(u64, ChunkResult<W>)>();
    let (spare, spares) = unbounded::<Vec<u8>>();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (to_parse, done, spare) = (to_parse.clone(), done.clone(), spare.clone());
            let (worker, stop) = (&worker, &stop);
            scope.spawn(move || {
                let mut worker = worker();
                for chunk in to_parse {
                    if !stop.load(Ordering::Relaxed) {
                        let result = parse_chunk(&chunk, syntax, &mut worker);
                        // The merging thread lives as long as this thread does.
                        let _ = done.send((chunk.at, result));
                    }
                    let _ = spare.send(chunk.bytes);
                }
            });
        }
        drop(to_parse);
        let stop = &stop;
        let merged = scope.spawn(move || {
            let outcome = merge_in_order::<W>(&to_merge, &mut merge);
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
                // Drains the channel until the other threads have stopped, so that none waits for
                // room in it.
                to_merge.iter().for_each(drop);
            }
            outcome
        });
        read_chunks::<W>(&mut chunks, first, &work, &done, &spares, stop);
        drop((work, done));
        merged
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Cuts chunks and hands them out until the end of the document, its first error, or `stop`.
fn read_chunks<W: TakeLines>(
    chunks: &mut Chunks<impl Read>,
    first: Vec<u8>,
    work: &Sender<Chunk>,
    done: &Sender<(u64, ChunkResult<W>)>,
    spares: &Receiver<Vec<u8>>,
    stop: &AtomicBool,
) {
    let mut bytes = first;
    for at in 0.. {
        let is_last = chunks.is_at_end();
        let chunk = Chunk { at, bytes, is_last };
        if stop.load(Ordering::Relaxed) || work.send(chunk).is_err() {
            return;
        }
        bytes = spares.try_recv().unwrap_or_default();
        match chunks.next_into(&mut bytes) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                // The error comes after all chunks that could be read, as in a serial read.
                let _ = done.send((at + 1, Err(LinesError::Io(error))));
                return;
            }
        }
    }
}

/// Merges chunks in the order of the document, up to the first error, whose line becomes that of
/// the document.
fn merge_in_order<W: TakeLines>(
    parsed: &Receiver<(u64, ChunkResult<W>)>,
    merge: &mut impl FnMut(W::Chunk) -> Result<(), W::Error>,
) -> Result<(), LinesError<W::Error>> {
    let mut waiting = BTreeMap::new();
    let (mut next, mut lines) = (0, 0);
    for (at, result) in parsed {
        waiting.insert(at, result);
        while let Some(result) = waiting.remove(&next) {
            next += 1;
            match result {
                Ok(parsed) => {
                    merge(parsed.chunk).map_err(LinesError::Refused)?;
                    lines += parsed.lines;
                }
                Err(LinesError::Syntax {
                    line,
                    column,
                    message,
                }) => {
                    return Err(LinesError::Syntax {
                        line: lines + line,
                        column,
                        message,
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn parse_chunk<W: TakeLines>(chunk: &Chunk, syntax: &LineSyntax, worker: &mut W) -> ChunkResult<W> {
    let (bytes, is_last) = (&*chunk.bytes, chunk.is_last);
    let mut lines = 0;
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_text(text, is_last, syntax, worker, &mut lines)?,
        // The chunk is not valid UTF-8, but another error may come first.
        Err(_) => {
            parse_slowly(bytes, bytes.len(), is_last, syntax, worker)?;
            lines = line_ends(bytes);
        }
    }
    let chunk = worker.end_chunk().map_err(LinesError::Refused)?;
    Ok(Parsed { chunk, lines })
}

fn parse_text<W: TakeLines>(
    text: &str,
    is_last: bool,
    syntax: &LineSyntax,
    worker: &mut W,
    lines: &mut u64,
) -> Result<(), LinesError<W::Error>> {
    let default_graph = syntax.default_graph.as_ref();
    let mut plain = Lines::new(text, syntax.with_graphs);
    while !plain.is_at_end() {
        let start = plain.at();
        match plain.next() {
            Some(Line::Empty) => *lines += 1,
            Some(Line::Statement(statement)) => {
                let quad = plain.quad(&statement, default_graph);
                worker.take(quad).map_err(LinesError::Refused)?;
                *lines += 1;
            }
            None => {
                let end = end_of_run(&mut plain, text, start);
                let bytes = text.as_bytes();
                parse_slowly(&bytes[start..], end - start, is_last, syntax, worker)
                    .map_err(|error| later(error, *lines))?;
                *lines += line_ends(&bytes[start..end]);
                plain.go_to(end);
            }
        }
    }
    Ok(())
}

/// The end of the run of lines from `start` on of which none is plain.
fn end_of_run(plain: &mut Lines<'_>, text: &str, start: usize) -> usize {
    let mut end = start;
    loop {
        match text[end..].find('\n') {
            Some(length) => end += length + 1,
            None => return text.len(),
        }
        plain.go_to(end);
        if plain.is_at_end() || plain.next().is_some() {
            return end;
        }
    }
}

/// Reads the first `length` bytes, which are whole lines, with `oxttl`. If they do not parse, the
/// error is the one that reading on would give: it may depend on the text behind them.
fn parse_slowly<W: TakeLines>(
    bytes: &[u8],
    length: usize,
    is_last: bool,
    syntax: &LineSyntax,
    worker: &mut W,
) -> Result<(), LinesError<W::Error>> {
    let mut refused = None;
    let parsed = each_quad(&bytes[..length], syntax, |quad| {
        refused = worker.take(quad).err();
        refused.is_none()
    });
    if let Some(error) = refused {
        return Err(LinesError::Refused(error));
    }
    let Err(error) = parsed else {
        return Ok(());
    };
    // If a text or an IRI does not end in its line, `oxttl` looks for the end further on; where the
    // document continues there is one.
    let mut ended = bytes.to_vec();
    if !is_last {
        ended.extend_from_slice(b"\">\n");
    }
    let error = each_quad(&ended, syntax, |_| true).err().unwrap_or(error);
    let place = error.location().start;
    Err(LinesError::Syntax {
        line: place.line + 1,
        column: place.column + 1,
        message: error.message().to_owned(),
    })
}

/// Calls `each` with the statements of the lines, as long as it returns true.
fn each_quad(
    bytes: &[u8],
    syntax: &LineSyntax,
    mut each: impl FnMut(QuadRef<'_>) -> bool,
) -> Result<(), TurtleSyntaxError> {
    if syntax.with_graphs {
        let parser = NQuadsParser::new();
        let parser = if syntax.lenient {
            parser.lenient()
        } else {
            parser
        };
        for quad in parser.for_slice(bytes) {
            let quad = quad?;
            let mut quad = quad.as_ref();
            if quad.graph_name.is_default_graph() {
                quad.graph_name = syntax.default_graph.as_ref();
            }
            if !each(quad) {
                break;
            }
        }
    } else {
        let parser = NTriplesParser::new();
        let parser = if syntax.lenient {
            parser.lenient()
        } else {
            parser
        };
        for triple in parser.for_slice(bytes) {
            if !each(triple?.as_ref().in_graph(syntax.default_graph.as_ref())) {
                break;
            }
        }
    }
    Ok(())
}

/// The same error, `lines` lines further down.
fn later<E>(error: LinesError<E>, lines: u64) -> LinesError<E> {
    match error {
        LinesError::Syntax {
            line,
            column,
            message,
        } => LinesError::Syntax {
            line: line + lines,
            column,
            message,
        },
        error => error,
    }
}

/// The number of line ends: `\n`, `\r\n`, and `\r` alone.
fn line_ends(bytes: &[u8]) -> u64 {
    let mut count = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let ends = match byte {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        count += u64::from(ends);
    }
    count
}
