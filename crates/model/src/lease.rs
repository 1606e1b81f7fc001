//! What keeps the terms of timing statements: a lease travels with the statements, from the push
//! that brought them to the slice that they end in, and the dictionary reclaims a term once no
//! lease covers it.
//!
//! The one thing to know before changing it: a lease covers what statements of its stream mentioned
//! in its epoch *and later*, so where statements of several epochs are put together the oldest
//! lease is enough.

use crate::StreamUid;
use std::sync::Arc;

/// A stretch of a stream's pushes, as the dictionary counts them. Numbers go up over all streams.
#[derive(Debug, PartialEq, Eq)]
pub struct Epoch {
    stream: StreamUid,
    number: u64,
}

impl Epoch {
    /// Only the dictionary calls this: it hears of the last lease's end by what it keeps of the
    /// first.
    pub fn new(stream: StreamUid, number: u64) -> Epoch {
        Epoch { stream, number }
    }

    /// Whose pushes.
    pub fn stream(&self) -> StreamUid {
        self.stream
    }

    /// Higher than that of every epoch that began before.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A hold on the terms that timing statements of a stream mentioned from an epoch on; let go of by
/// dropping it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(Arc<Epoch>);

impl Lease {
    /// The first or a further lease of an epoch.
    pub fn new(epoch: Arc<Epoch>) -> Lease {
        Lease(epoch)
    }

    /// Which epoch it begins with.
    pub fn epoch(&self) -> &Epoch {
        &self.0
    }

    /// The one of two that covers what both do; of a statement without terms to reclaim there is
    /// none.
    pub fn older(one: Option<Lease>, other: Option<Lease>) -> Option<Lease> {
        match (one, other) {
            (Some(one), Some(other)) => {
                debug_assert_eq!(one.0.stream, other.0.stream, "statements of one stream");
                Some(if one.0.number <= other.0.number {
                    one
                } else {
                    other
                })
            }
            (one, other) => one.or(other),
        }
    }
}
