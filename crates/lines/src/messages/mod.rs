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

pub(crate) mod json;
pub(crate) mod syntax;
mod timestamp;
mod write;

use crate::contexts::Contexts;
use crate::pieces::delimiters::{Cutter, DEEPEST_TRIPLE_TERMS, Grammar};
use crate::pieces::{Cut, Piece, Pieces};
use json::{JsonLine, JsonReader};
use oxrdf::Quad;
use std::io::{self, Read};
pub use syntax::MessageSyntax;
use syntax::{Declarations, Fault};
pub use timestamp::TimestampPath;
pub use write::MessageWriter;

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

    /// With the contexts that messages of JSON-LD may name by their URLs; without, there are none.
    #[must_use]
    pub fn with_contexts(mut self, contexts: &Contexts) -> MessageReader<R> {
        self.json = JsonReader::new(contexts);
        self
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
