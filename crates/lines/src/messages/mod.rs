//! Messages: statements that belong together, several in one text.
//!
//! Five syntaxes: RDF Messages in N-Triples, N-Quads, Turtle and TriG, as the W3C's RDF Stream
//! Processing group drafts them (<https://w3c-cg.github.io/rsp/spec/messages>), and NDJSON-LD, one
//! message a line.
//!
//! The one thing to know before changing it: a message that cannot be read refuses itself alone.
//! Its number counts, and reading goes on behind its delimiter. Only where the text does not tell
//! where the next message begins, the rest is refused with it. Prefixes, the base and a context
//! line go on from message to message; labels of blank nodes are the message's own, and whoever
//! keeps several messages has to tell them apart.

mod cutter;
mod json;
mod syntax;
mod timestamp;
mod write;

use cutter::{Cutter, DEEPEST_TRIPLE_TERMS, Delimiter, Grammar};
use json::{JsonLine, JsonReader};
use oxrdf::Quad;
use std::io::{self, Read};
use std::ops::Range;
pub use syntax::MessageSyntax;
use syntax::{Declarations, Fault};
pub use timestamp::TimestampPath;
pub use write::MessageWriter;

/// The bytes that are asked of the source at once.
const READ_BYTES: usize = 64 << 10;

/// The greatest message that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// The bytes of its text.
    pub bytes: usize,
    /// Its statements.
    pub statements: usize,
}

/// One message of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its place among the messages of the text, from 0; refused ones count.
    pub ordinal: u64,
    /// The line of its first word, from 1; VERSION of N-Triples and N-Quads does not count.
    pub line: u64,
    /// Its statements, in the order of the text; at least one.
    pub statements: Result<Vec<Quad>, RefusedMessage>,
}

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedMessage {
    /// The line of the fault in the whole text, from 1.
    pub line: u64,
    /// The column of the fault in characters, from 1.
    pub column: u64,
    /// A sentence that says what is wrong and what to do.
    pub reason: String,
    /// Whether all that follows in the text is refused with it, because the text does not tell
    /// where the next message begins.
    pub ends_reading: bool,
}

/// Reads the messages of a text one after the other, and holds one of them at a time.
///
/// ```
/// use somersault_lines::{MessageLimits, MessageReader, MessageSyntax};
/// let text = "VERSION \"1.2-messages\"
/// PREFIX : <urn:>
/// :a :p 1 .
/// MESSAGE
/// :b :p .
/// MESSAGE
/// :c :p 3 .";
/// let limits = MessageLimits { bytes: 1 << 20, statements: 1_000 };
/// let reader = MessageReader::new(text.as_bytes(), MessageSyntax::Turtle, limits);
/// let messages: Vec<_> = reader.collect::<Result<_, _>>()?;
/// assert_eq!(messages.len(), 3);
/// let refused = messages[1].statements.as_ref().unwrap_err();
/// assert_eq!((refused.line, refused.ends_reading), (5, false));
/// assert_eq!(messages[2].statements.as_ref().unwrap().len(), 1);
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MessageReader<R> {
    source: R,
    syntax: MessageSyntax,
    limits: MessageLimits,
    pieces: Pieces,
    declarations: Declarations,
    json: JsonReader,
    ordinal: u64,
    /// Whether the `.` behind the `@message` before this message is missing.
    lacks_dot: bool,
    is_over: bool,
}

impl<R: Read> MessageReader<R> {
    /// A reader at the beginning of a text.
    pub fn new(source: R, syntax: MessageSyntax, limits: MessageLimits) -> MessageReader<R> {
        let cut = match syntax {
            MessageSyntax::NTriples | MessageSyntax::NQuads => {
                Cut::Delimiters(Cutter::new(Grammar::Lines))
            }
            MessageSyntax::Turtle | MessageSyntax::TriG => {
                Cut::Delimiters(Cutter::new(Grammar::Terse))
            }
            MessageSyntax::NdJsonLd => Cut::LineEnds,
        };
        MessageReader {
            source,
            syntax,
            limits,
            pieces: Pieces::new(cut),
            declarations: Declarations::default(),
            json: JsonReader::default(),
            ordinal: 0,
            lacks_dot: false,
            is_over: false,
        }
    }

    /// The message that a piece of the text holds; `None` if it holds none.
    fn message(&mut self, piece: Piece) -> Option<Message> {
        let is_json = self.syntax == MessageSyntax::NdJsonLd;
        let lacks_dot = std::mem::replace(
            &mut self.lacks_dot,
            piece.delimiter.is_some_and(|it| it.lacks_dot),
        );
        let read = if piece.is_too_long {
            Err(Fault::new(format!(
                "the message has more than {} bytes; send it in several, or raise the limit",
                self.limits.bytes
            )))
        } else if lacks_dot {
            Err(Fault::new(
                "`@message` ends with `.`; write `@message .`, or MESSAGE alone",
            ))
        } else if piece.deepest > DEEPEST_TRIPLE_TERMS {
            Err(Fault::new(format!(
                "triple terms are nested more than {DEEPEST_TRIPLE_TERMS} deep; flatten them with rdf:reifies"
            )))
        } else if is_json {
            match self.json.read(&piece.text, self.limits.statements) {
                Ok(JsonLine::Statements(statements)) => Ok(statements),
                Ok(JsonLine::Nothing) => return None,
                Err(fault) => Err(fault),
            }
        } else {
            self.declarations
                .read(self.syntax, &piece.text, self.limits.statements)
        };
        let is_last = piece.delimiter.is_none();
        let is_inside = piece.delimiter.is_some_and(|it| it.is_inside);
        let read = match read {
            // What stands behind the last delimiter, without a statement, is no message.
            Ok(statements) if statements.is_empty() && is_last && !is_json => return None,
            Ok(statements) if statements.is_empty() => Err(Fault::new(
                "the message is empty; a message has one statement at least",
            )),
            _ if is_inside => Err(Fault::new(
                "a delimiter of messages stands inside brackets; close them before it. \
                 Where the next message begins cannot be told, so nothing behind it is read",
            )),
            read => read,
        };
        self.is_over |= is_inside;
        let ordinal = self.ordinal;
        self.ordinal += 1;
        Some(Message {
            ordinal,
            line: piece.line,
            statements: read.map_err(|fault| fault.refused(&piece.place, is_inside)),
        })
    }
}

impl<R: Read> Iterator for MessageReader<R> {
    type Item = io::Result<Message>;

    fn next(&mut self) -> Option<io::Result<Message>> {
        while !self.is_over {
            let piece = match self.pieces.next(&mut self.source, self.limits.bytes) {
                Ok(piece) => piece,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            };
            self.is_over = piece.delimiter.is_none();
            if let Some(message) = self.message(piece) {
                return Some(Ok(message));
            }
        }
        None
    }
}

/// What ends a message.
#[derive(Debug)]
enum Cut {
    Delimiters(Cutter),
    LineEnds,
}

/// The text between two delimiters.
#[derive(Debug)]
struct Piece {
    /// Its bytes; empty if there were too many.
    text: Vec<u8>,
    is_too_long: bool,
    place: Place,
    /// The line of its first word.
    line: u64,
    /// The depth of its triple terms.
    deepest: usize,
    /// The delimiter behind it; `None` at the end of the text.
    delimiter: Option<Delimiter>,
}

/// The place of a byte in the whole text, from line 1, column 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: u64,
    column: u64,
}

impl Place {
    /// The place behind these bytes. Lines end with `\n`; columns count characters.
    fn behind(self, bytes: &[u8]) -> Place {
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u64;
        let line_start = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let is_first_of_character = |byte: &&u8| **byte & 0xc0 != 0x80;
        let columns = bytes[line_start..].iter().filter(is_first_of_character);
        let columns = columns.count() as u64;
        match lines {
            0 => Place {
                column: self.column + columns,
                ..self
            },
            _ => Place {
                line: self.line + lines,
                column: columns + 1,
            },
        }
    }
}

/// Cuts what a source gives into pieces.
#[derive(Debug)]
struct Pieces {
    cut: Cut,
    /// The bytes of the piece that is read, and maybe of those behind it.
    buffer: Vec<u8>,
    /// The bytes of the buffer in which no delimiter was found.
    scanned: usize,
    /// The bytes that the source gave last.
    read: Box<[u8]>,
    /// The place of the first byte of the piece, and of the first byte of the buffer.
    start: Place,
    at: Place,
    /// Whether the first bytes of the piece were dropped.
    is_too_long: bool,
    is_at_end: bool,
}

impl Pieces {
    fn new(cut: Cut) -> Pieces {
        let start = Place { line: 1, column: 1 };
        Pieces {
            cut,
            buffer: Vec::new(),
            scanned: 0,
            read: vec![0; READ_BYTES].into(),
            start,
            at: start,
            is_too_long: false,
            is_at_end: false,
        }
    }

    /// The next piece. The one without a delimiter is the last.
    fn next(&mut self, source: &mut impl Read, limit: usize) -> io::Result<Piece> {
        loop {
            if let Some(delimiter) = self.scan() {
                return Ok(self.piece(Some(delimiter), limit));
            }
            if self.is_at_end {
                return Ok(self.piece(None, limit));
            }
            if self.is_too_long || self.buffer.len() > limit {
                self.is_too_long = true;
                self.drop_scanned();
            }
            let length = read_some(source, &mut self.read)?;
            self.buffer.extend_from_slice(&self.read[..length]);
            self.is_at_end = length == 0;
        }
    }

    fn scan(&mut self) -> Option<Delimiter> {
        let found = match &mut self.cut {
            Cut::Delimiters(cutter) => cutter.next(&self.buffer, &mut self.scanned),
            Cut::LineEnds => {
                let rest = &self.buffer[self.scanned..];
                let length = memchr::memchr(b'\n', rest);
                let start = self.scanned + length.unwrap_or(rest.len());
                self.scanned = start + usize::from(length.is_some());
                length.map(|_| Delimiter {
                    start,
                    end: start + 1,
                    is_inside: false,
                    lacks_dot: false,
                })
            }
        };
        match &mut self.cut {
            Cut::Delimiters(cutter) if found.is_none() && self.is_at_end => {
                cutter.end(self.buffer.len())
            }
            _ => found,
        }
    }

    fn drop_scanned(&mut self) {
        self.at = self.at.behind(&self.buffer[..self.scanned]);
        self.buffer.drain(..self.scanned);
        if let Cut::Delimiters(cutter) = &mut self.cut {
            cutter.forget(self.scanned);
        }
        self.scanned = 0;
    }

    fn piece(&mut self, delimiter: Option<Delimiter>, limit: usize) -> Piece {
        let (start, end) = delimiter.map_or((self.buffer.len(), self.buffer.len()), |it| {
            (it.start.min(it.end), it.end)
        });
        let is_too_long = std::mem::take(&mut self.is_too_long) || start > limit;
        let (deepest, versions) = match &mut self.cut {
            Cut::Delimiters(cutter) => cutter.begin(),
            Cut::LineEnds => (0, Vec::new()),
        };
        let mut text = match is_too_long {
            true => Vec::new(),
            false => self.buffer[..start].to_vec(),
        };
        versions
            .into_iter()
            .for_each(|line| blank_version(&mut text, line));
        let first_word = text
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let place = self.start;
        let line = place.behind(&text[..first_word]).line;
        self.at = self.at.behind(&self.buffer[..end]);
        self.start = self.at;
        self.buffer.drain(..end);
        if let Cut::Delimiters(cutter) = &mut self.cut {
            cutter.forget(end);
        }
        self.scanned = self.scanned.saturating_sub(end);
        Piece {
            text,
            is_too_long,
            place,
            line,
            deepest,
            delimiter,
        }
    }
}

/// Blanks a line `VERSION "…"`, which `oxttl` does not know in N-Triples and N-Quads. A malformed
/// one stays, for the parser to refuse.
fn blank_version(text: &mut [u8], line: Range<usize>) {
    let Some(line) = text.get_mut(line) else {
        return;
    };
    let words = String::from_utf8_lossy(line);
    let rest = words["VERSION".len()..].trim();
    let is_version = ['"', '\''].iter().any(|quote| {
        let inside = rest
            .strip_prefix(*quote)
            .and_then(|rest| rest.split_once(*quote));
        inside.is_some_and(|(_, behind)| {
            behind.trim().is_empty() || behind.trim_start().starts_with('#')
        })
    });
    if is_version {
        line.fill(b' ');
    }
}

fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
