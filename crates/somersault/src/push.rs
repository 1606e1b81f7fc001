//! What goes into a stream.

pub(crate) mod lines;

use oxrdf::Quad;

/// One statement of a stream.
#[derive(Clone, Debug)]
pub struct StreamStatement {
    /// The event time in milliseconds since the Unix epoch; `None` on an ARRIVAL TIME stream.
    pub at_ms: Option<i64>,
    /// The statement; its graph counts when it is absorbed, unless the stream says INTO.
    pub quad: Quad,
}

/// Statements for one stream, taken whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Push {
    /// Who sends; sources of a stream are ordered each for itself. `None` is the default source.
    pub source: Option<String>,
    /// The sender's running number: a push whose number is not above the newest that was taken of
    /// its stream and source is dropped and acknowledged again.
    pub seq: Option<u64>,
    /// What is sent, with event times that do not go back.
    pub statements: Vec<StreamStatement>,
}

/// Statements for one stream as lines `t_ms<TAB>statement .`, taken whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct PushLines<'t> {
    /// As [`Push::source`].
    pub source: Option<String>,
    /// As [`Push::seq`].
    pub seq: Option<u64>,
    /// The lines, N-Triples or N-Quads behind event times in milliseconds.
    pub lines: &'t [u8],
}

/// What [`Engine::push`](crate::Engine::push) answers once the push is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushReceipt {
    /// How many statements were taken (0 for a repeat).
    pub accepted: u64,
    /// How many were too late and dropped, as the stream's LATE DROP says.
    pub dropped: u64,
    /// Whether this number of the stream's source, or one above it, had been taken before.
    pub repeated: bool,
}
