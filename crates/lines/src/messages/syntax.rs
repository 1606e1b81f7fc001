//! The syntaxes of messages, and how one message is read by the library's parsers.

use super::RefusedMessage;
use crate::pieces::Place;
use oxrdf::{GraphName, Quad, Triple};
use oxttl::{NQuadsParser, NTriplesParser, TriGParser, TurtleParser, TurtleSyntaxError};

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageSyntax {
    /// RDF Messages in N-Triples.
    NTriples,
    /// RDF Messages in N-Quads.
    NQuads,
    /// RDF Messages in Turtle.
    Turtle,
    /// RDF Messages in TriG.
    TriG,
    /// JSON-LD, one message a line.
    NdJsonLd,
}

impl MessageSyntax {
    /// All of them.
    pub const ALL: [MessageSyntax; 5] = [
        MessageSyntax::NTriples,
        MessageSyntax::NQuads,
        MessageSyntax::Turtle,
        MessageSyntax::TriG,
        MessageSyntax::NdJsonLd,
    ];

    /// The media type, with the parameter that says that there are messages.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            MessageSyntax::NTriples => "application/n-triples;version=1.2-messages",
            MessageSyntax::NQuads => "application/n-quads;version=1.2-messages",
            MessageSyntax::Turtle => "text/turtle;version=1.2-messages",
            MessageSyntax::TriG => "application/trig;version=1.2-messages",
            MessageSyntax::NdJsonLd => "application/x-ld+ndjson",
        }
    }

    /// The syntax of a media type; `None` if that says nothing of messages.
    ///
    /// ```
    /// use somersault_lines::MessageSyntax;
    /// let of = MessageSyntax::of_media_type;
    /// let turtle = Some(MessageSyntax::Turtle);
    /// assert_eq!(of("Text/Turtle; charset=utf-8; version=\"1.2-messages\""), turtle);
    /// assert_eq!(of("text/turtle"), None);
    /// assert_eq!(of("application/x-ld+ndjson"), Some(MessageSyntax::NdJsonLd));
    /// ```
    #[must_use]
    pub fn of_media_type(media_type: &str) -> Option<MessageSyntax> {
        let mut parts = media_type.split(';').map(str::trim);
        let name = parts.next()?;
        let has_messages = parts.any(|parameter| {
            parameter.split_once('=').is_some_and(|(name, value)| {
                let value = value.trim().trim_matches('"');
                name.trim().eq_ignore_ascii_case("version") && value == "1.2-messages"
            })
        });
        MessageSyntax::ALL.into_iter().find(|syntax| {
            let known = syntax.media_type();
            let (known, needs) = known
                .split_once(';')
                .map_or((known, false), |it| (it.0, true));
            known.eq_ignore_ascii_case(name) && (has_messages || !needs)
        })
    }

    /// Whether its statements may be in named graphs.
    #[must_use]
    pub fn has_graphs(self) -> bool {
        !matches!(self, MessageSyntax::NTriples | MessageSyntax::Turtle)
    }
}

/// What is wrong with a message, with its place in it if that is known: the line and the column of
/// the message, from 0.
#[derive(Debug)]
pub(crate) struct Fault {
    place: Option<(u64, u64)>,
    reason: String,
}

impl Fault {
    pub(crate) fn new(reason: impl Into<String>) -> Fault {
        Fault {
            place: None,
            reason: reason.into(),
        }
    }

    pub(crate) fn at(line: u64, column: u64, reason: impl Into<String>) -> Fault {
        Fault {
            place: Some((line, column)),
            reason: reason.into(),
        }
    }

    /// The refusal of a message that begins at a place.
    pub(crate) fn refused(self, start: &Place, ends_reading: bool) -> RefusedMessage {
        let (line, column) = match self.place {
            None => (start.line, start.column),
            Some((0, column)) => (start.line, start.column + column),
            Some((line, column)) => (start.line + line, column + 1),
        };
        RefusedMessage {
            line,
            column,
            reason: self.reason,
            ends_reading,
        }
    }
}

impl From<TurtleSyntaxError> for Fault {
    fn from(error: TurtleSyntaxError) -> Fault {
        let place = error.location().start;
        let reason = format!("{}; correct the message and send it again", error.message());
        Fault::at(place.line, place.column, reason)
    }
}

/// The declarations of the messages so far, which go on.
#[derive(Debug, Default)]
pub(super) struct Declarations {
    prefixes: Vec<(String, String)>,
    base: Option<String>,
}

impl Declarations {
    /// The statements of a message. The declarations of a message that is refused go on, too.
    pub(super) fn read(
        &mut self,
        syntax: MessageSyntax,
        text: &[u8],
        most: usize,
    ) -> Result<Vec<Quad>, Fault> {
        let mut read = Statements::new(most);
        match syntax {
            MessageSyntax::NTriples => NTriplesParser::new()
                .for_slice(text)
                .for_each(|triple| read.take(triple.map(in_default_graph))),
            MessageSyntax::NQuads => NQuadsParser::new()
                .for_slice(text)
                .for_each(|quad| read.take(quad)),
            MessageSyntax::Turtle => {
                let mut parser = TurtleParser::new();
                for (prefix, namespace) in &self.prefixes {
                    parser = parser.with_prefix(prefix, namespace).map_err(invalid)?;
                }
                if let Some(base) = &self.base {
                    parser = parser.with_base_iri(base).map_err(invalid)?;
                }
                let mut parser = parser.for_slice(text);
                parser
                    .by_ref()
                    .for_each(|triple| read.take(triple.map(in_default_graph)));
                self.keep(parser.prefixes(), parser.base_iri());
            }
            _ => {
                let mut parser = TriGParser::new();
                for (prefix, namespace) in &self.prefixes {
                    parser = parser.with_prefix(prefix, namespace).map_err(invalid)?;
                }
                if let Some(base) = &self.base {
                    parser = parser.with_base_iri(base).map_err(invalid)?;
                }
                let mut parser = parser.for_slice(text);
                parser.by_ref().for_each(|quad| read.take(quad));
                self.keep(parser.prefixes(), parser.base_iri());
            }
        }
        read.end()
    }

    fn keep<'p>(&mut self, prefixes: impl Iterator<Item = (&'p str, &'p str)>, base: Option<&str>) {
        let owned = |(prefix, namespace): (&str, &str)| (prefix.to_owned(), namespace.to_owned());
        self.prefixes = prefixes.map(owned).collect();
        self.base = base.map(str::to_owned);
    }
}

fn in_default_graph(triple: Triple) -> Quad {
    triple.in_graph(GraphName::DefaultGraph)
}

fn invalid(error: impl std::fmt::Display) -> Fault {
    let message = format!("a prefix or base declared before this message is not valid ({error})");
    Fault::new(message)
}

/// The statements of one message so far, up to its first fault.
pub(super) struct Statements {
    quads: Vec<Quad>,
    most: usize,
    fault: Option<Fault>,
}

impl Statements {
    pub(super) fn new(most: usize) -> Statements {
        Statements {
            quads: Vec::new(),
            most,
            fault: None,
        }
    }

    /// Takes what a parser says next. Behind a fault it is read for its declarations alone.
    pub(super) fn take<E: Into<Fault>>(&mut self, said: Result<Quad, E>) {
        if self.fault.is_some() {
            return;
        }
        match said {
            Ok(_) if self.quads.len() == self.most => {
                self.fault = Some(Fault::new(format!(
                    "the message has more than {} statements; send it in several, or raise the limit",
                    self.most
                )));
            }
            Ok(statement) => self.quads.push(statement),
            Err(error) => self.fault = Some(error.into()),
        }
    }

    pub(super) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    pub(super) fn end(self) -> Result<Vec<Quad>, Fault> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.quads),
        }
    }
}
