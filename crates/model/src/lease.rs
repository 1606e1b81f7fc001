//! Leases keep the terms of timing statements: a lease travels with the statements, from the push
//! that brought them to the slice that they end in, and the dictionary reclaims a term once no
//! lease covers it.
//!
//! The one thing to know before changing it: a lease covers the mentions of its stream in its epoch
//! *and later*, so for statements of several epochs the oldest lease is enough.

use crate::StreamUid;
use std::sync::Arc;

/// A run of one stream's pushes, as the dictionary counts them. Numbers ascend over all streams.
#[derive(Debug, PartialEq, Eq)]
pub struct Epoch {
    stream: StreamUid,
    number: u64,
}

impl Epoch {
    /// Only the dictionary calls this. It keeps a weak reference to the epoch, which tells it when
    /// the last lease has been dropped.
    pub fn new(stream: StreamUid, number: u64) -> Epoch {
        Epoch { stream, number }
    }

    /// The stream that the pushes belong to.
    pub fn stream(&self) -> StreamUid {
        self.stream
    }

    /// The epoch's number, higher than that of every epoch that began before.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A hold on the terms that timing statements of a stream have mentioned since an epoch. Dropping
/// it releases them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease(Arc<Epoch>);

impl Lease {
    /// A lease of an epoch, the first or a further one.
    pub fn new(epoch: Arc<Epoch>) -> Lease {
        Lease(epoch)
    }

    /// The epoch that it begins with.
    pub fn epoch(&self) -> &Epoch {
        &self.0
    }

    /// The older lease of two, which covers both. `None` stands for statements without terms to
    /// reclaim.
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
