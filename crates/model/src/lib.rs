//! The types that all other crates share: term ids with inline values, event times, batches,
//! snapshot numbers, vector timestamps, placement and limits.
//!
//! Nothing here has state, a clock or a thread. Before changing anything here: ids, hashes and
//! shards are written to disk and sent between processes (S7), so their bits never change.

mod civil;
mod event_time;
mod hash;
pub mod inline;
mod lease;
mod limits;
mod placement;
mod random;
mod statement;
mod term_id;
mod time;
mod virtual_shard;

pub use event_time::{EventTime, Millis, ParseEventTimeError};
pub use hash::{scattered, term_hash};
pub use lease::{Epoch, Lease};
pub use limits::Limits;
pub use placement::{Placement, STRIPE, ShardId};
pub use random::SeededRandom;
pub use statement::{Direction, Mutation, Operation, QuadIds, TimedTriple, TripleIds};
pub use term_id::{Tag, TermId};
pub use time::{BatchNumber, Place, ProcedureUid, QueryUid, Sn, StreamUid};
pub use virtual_shard::{VIRTUAL_SHARDS, VirtualShard};

use oxrdf::TermRef;

/// Turns terms into ids, adding those that are new. The dictionary implements it; parts that must
/// not know the dictionary (`stream`) are given this trait instead.
pub trait Intern {
    /// The id of `term`, which stays known for good; two calls with the same term give the same id.
    fn intern(&self, term: TermRef<'_>) -> TermId;

    /// A lease for timing statements of a stream; `None` where no term is ever reclaimed.
    fn lease(&self, _stream: StreamUid) -> Option<Lease> {
        None
    }

    /// The id of `term`, which a timing statement mentions. If nothing else does, it stays known as
    /// long as a lease on that stream's terms does that is as old as this one.
    fn intern_transient(&self, term: TermRef<'_>, _lease: &Lease) -> TermId {
        self.intern(term)
    }

    /// A timing statement mentions the term of an id, which is known now, as by
    /// [`Intern::intern_transient`].
    fn mention(&self, _id: TermId, _lease: &Lease) {}

    /// The term of an id, which is known now, stays known for good.
    fn make_permanent(&self, _id: TermId) {}
}
