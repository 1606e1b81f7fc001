//! The coordinator's look-ups while it applies a record, and the part of a query's text that it
//! keeps. Texts are parsed before (`command.rs`).
//!
//! Before changing anything here: all of [`Resolve`] must be a pure function of the record (and,
//! for ids, of the dictionary), or recovery ends in a state other than that of the live run (S6).

use oxrdf::NamedNode;
use somersault_lang::{
    ContinuousQuery, DerivedStream, Extent, Overload, ParseError, Report, StoredPattern,
    StreamOperator,
};
use somersault_log::LoadSegment;
use somersault_model::{EventTime, Intern, Lease, Millis, QuadIds, StreamUid};
use std::sync::Arc;

/// The windows and closes of a continuous query's text, or what a live query reads; its pattern is
/// left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueryDeclaration {
    /// Which part of each answer the query reports.
    pub operator: StreamOperator,
    /// The windows, in the order of the text.
    pub windows: Vec<WindowDeclaration>,
    /// `COMPUTED EVERY`.
    pub computed_every: Option<Millis>,
    /// `STARTING AT`, the origin of the closes.
    pub starting_at: EventTime,
    /// Which firings the query reports.
    pub report: Report,
    /// The behaviour of a query that cannot keep up.
    pub overload: Overload,
    /// The stream that the query's answers fill.
    pub derives: Option<Box<DerivedStream>>,
    /// For a query without windows, which fires when the stored graphs change: what it reads.
    pub live: Option<Box<LiveDeclaration>>,
}

/// When a live query fires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LiveDeclaration {
    /// The statements that may change its answer.
    pub reads: Vec<StoredPattern>,
    /// The shortest time between two firings.
    pub every: Option<Millis>,
}

/// One window over a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WindowDeclaration {
    /// The stream.
    pub stream: NamedNode,
    /// The window's content, and when it closes.
    pub extent: Extent,
}

impl QueryDeclaration {
    /// Whether the query compares each answer with the one before.
    pub fn compares(&self) -> bool {
        self.operator.compares() || self.report.on_change
    }

    /// Whether a window is over a number of statements.
    pub(crate) fn counts(&self) -> bool {
        let mut extents = self.windows.iter().map(|window| window.extent);
        extents.any(|extent| matches!(extent, Extent::Statements { .. }))
    }
}

impl From<&ContinuousQuery> for QueryDeclaration {
    fn from(query: &ContinuousQuery) -> Self {
        QueryDeclaration {
            operator: query.operator,
            windows: query
                .windows
                .iter()
                .map(|window| WindowDeclaration {
                    stream: window.stream.clone(),
                    extent: window.extent,
                })
                .collect(),
            computed_every: query.computed_every,
            starting_at: query.starting_at,
            report: query.report,
            overload: query.overload,
            derives: query.derives.clone().map(Box::new),
            live: query.is_live().then(|| {
                Box::new(LiveDeclaration {
                    reads: query.query.stored_reads(),
                    every: query.every,
                })
            }),
        }
    }
}

/// Look-ups for applying a record.
pub trait Resolve: Intern {
    /// The statements of a load segment, interned; their blank nodes already belong to the segment.
    ///
    /// # Errors
    /// If the segment is missing or does not match its hash.
    fn load_segment(&self, segment: &LoadSegment) -> Result<Arc<[QuadIds]>, ResolveError>;
}

/// The terms that a checkpoint brings back.
pub trait RestoredTerms: Intern {
    /// The lease that statements of a stream had before; `None` if the dictionary of the checkpoint
    /// knows of none in that epoch.
    fn lease_of(&self, stream: StreamUid, epoch: u64) -> Option<Lease>;
}

/// Why a logged record cannot be applied: the log is intact, but what it refers to is not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    /// A text in the log does not parse (it was written by another version).
    #[error(
        "the log holds a text that this version does not understand ({error}): {text}\nOpen the data folder with the version that wrote it."
    )]
    Text {
        /// The text.
        text: String,
        /// The parser's error.
        error: Box<ParseError>,
    },
    /// A text that was logged as CREATE STREAM is something else.
    #[error(
        "the log holds as CREATE STREAM what is none: {text}\nOpen the data folder with the version that wrote it."
    )]
    NotAStream {
        /// The text.
        text: String,
    },
    /// A text that was logged as CREATE PROCEDURE or CREATE DATAFLOW is something else.
    #[error(
        "the log holds as a declaration what is none: {text}\nOpen the data folder with the version that wrote it."
    )]
    NotADeclaration {
        /// The text.
        text: String,
    },
    /// A load segment cannot be read.
    #[error("{reason}")]
    Segment {
        /// The file's name.
        name: String,
        /// The fault, in a sentence that names it and the remedy.
        reason: String,
    },
}
