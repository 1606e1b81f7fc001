//! Declared sources and sinks: where messages come from, and where answers go.
//!
//! The one thing to know before changing it: a declaration says what the text says. Which kinds,
//! options and formats there are, the crate `connect` knows.

use oxrdf::NamedNode;
use std::ops::Range;

/// The two sorts of connectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectorSort {
    /// It brings messages into a stream.
    Source,
    /// It takes answers of a query away.
    Sink,
}

impl ConnectorSort {
    /// Returns it as a word: `source` or `sink`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectorSort::Source => "source",
            ConnectorSort::Sink => "sink",
        }
    }
}

/// `option = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectorOption {
    /// The option, in small letters.
    pub name: String,
    /// The value: a string without its quotes and escapes, an IRI without its brackets, anything
    /// else as it is written.
    pub value: String,
    /// The bytes of the value in the text.
    pub span: Range<usize>,
}

/// `KIND ( option = value, … ) [FORMAT …]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The kind, in capital letters: `FILE`, `MQTT` …
    pub kind: String,
    /// The options, each once.
    pub options: Vec<ConnectorOption>,
    /// The format as it is written, a string without its quotes.
    pub format: Option<String>,
}

/// `CREATE [OR REPLACE] SOURCE name INTO stream FROM … [DEAD LETTER INTO stream]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSource {
    /// Its name.
    pub name: String,
    /// Whether it may take the place of another of this name.
    pub or_replace: bool,
    /// The stream that it feeds.
    pub stream: NamedNode,
    /// Where its messages come from.
    pub from: Endpoint,
    /// The stream that is told of refused messages.
    pub dead_letter: Option<NamedNode>,
    /// The text as given.
    pub text: String,
}

/// `CREATE [OR REPLACE] SINK name FROM QUERY name INTO …`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSink {
    /// Its name.
    pub name: String,
    /// Whether it may take the place of another of this name.
    pub or_replace: bool,
    /// The query whose answers it takes. A derived stream has the name of its query.
    pub query: String,
    /// Where the answers go.
    pub into: Endpoint,
    /// The text as given.
    pub text: String,
}

/// What happens to a declared connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectorCommand {
    /// `DROP`
    Drop,
    /// `PAUSE`
    Pause,
    /// `RESUME`
    Resume,
}

/// `DROP`, `PAUSE` or `RESUME`, `SOURCE` or `SINK`, and a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManageConnector {
    /// What happens to it.
    pub command: ConnectorCommand,
    /// What it is.
    pub sort: ConnectorSort,
    /// Its name.
    pub name: String,
}
