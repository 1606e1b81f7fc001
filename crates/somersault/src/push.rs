//! The input of a stream.

pub(crate) mod letter;
pub(crate) mod lines;
pub(crate) mod messages;
pub(crate) mod numbered;

use oxrdf::Quad;
use somersault_model::EventTime;

/// Triple terms nested deeper than this are refused: reading and dropping them recurses.
pub(crate) const NESTING_LIMIT: usize = 64;

/// One statement of a stream.
#[derive(Clone, Debug)]
pub struct StreamStatement {
    /// The event time; `None` on an ARRIVAL TIME stream.
    pub at: Option<EventTime>,
    /// The statement; its graph is used when it is absorbed, unless the stream says INTO.
    pub quad: Quad,
}

/// Statements for one stream, taken whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Push {
    /// The sending source; each source of a stream has its own order. `None` is the default source.
    pub source: Option<String>,
    /// The source's running number. Numbers may come in any order and with gaps. A push whose
    /// number was taken before from its stream and source is dropped and acknowledged again.
    pub seq: Option<u64>,
    /// The statements, with event times that do not go back.
    pub statements: Vec<StreamStatement>,
}

/// Statements for one stream as lines `t_ms<TAB>statement .`, taken whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct PushLines<'t> {
    /// As [`Push::source`].
    pub source: Option<String>,
    /// As [`Push::seq`].
    pub seq: Option<u64>,
    /// The lines: N-Triples or N-Quads behind event times in milliseconds.
    pub lines: &'t [u8],
}

/// The receipt that [`Engine::push`](crate::Engine::push) returns once the push is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushReceipt {
    /// Number of statements that were taken (0 for a repeat).
    pub accepted: u64,
    /// Number of statements that were late and dropped, under the stream's LATE DROP.
    pub dropped: u64,
    /// Whether this number of the stream's source had been taken before.
    pub repeated: bool,
}
