//! What every other crate speaks in: term ids with inline values, event times, batches, snapshot
//! numbers, vector timestamps, placement and limits. Nothing here has state, a clock or a thread;
//! the one thing to know before changing it: ids, hashes and shards are written to disk and sent
//! between processes (S7), so their bits never change.

mod hash;
pub mod inline;
mod limits;
mod placement;
mod statement;
mod term_id;
mod time;

pub use hash::term_hash;
pub use limits::Limits;
pub use placement::{Placement, ShardId, VIRTUAL_SHARDS, VirtualShard};
pub use statement::{Direction, Mutation, Operation, QuadIds, TimedTriple, TripleIds};
pub use term_id::{Tag, TermId};
pub use time::{BatchNumber, EventTime, Millis, QueryUid, Sn, StreamUid, VectorTimestamp};

use oxrdf::TermRef;

/// Turns terms into ids, adding those that are new. Implemented by the store's dictionary; the
/// parts that must not know the store (`stream`) are handed this instead.
pub trait Intern {
    /// The id of `term`; two calls with the same term give the same id.
    fn intern(&self, term: TermRef<'_>) -> TermId;
}
