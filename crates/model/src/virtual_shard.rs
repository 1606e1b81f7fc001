//! The parts onto which terms are hashed. Their number and the hash are in every id and never
//! change (S7).

use serde::{Deserialize, Serialize};

/// The number of virtual shards. It is part of every id and never changes (S7).
pub const VIRTUAL_SHARDS: u16 = 4096;

/// One of the 4,096 parts onto which terms are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VirtualShard(u16);

impl VirtualShard {
    /// The virtual shard with this number, or `None` from 4,096 on.
    pub const fn new(number: u16) -> Option<VirtualShard> {
        if number < VIRTUAL_SHARDS {
            Some(VirtualShard(number))
        } else {
            None
        }
    }

    /// The virtual shard of the lower 12 bits.
    #[inline]
    pub const fn truncated(number: u16) -> VirtualShard {
        VirtualShard(number & (VIRTUAL_SHARDS - 1))
    }

    /// The virtual shard of a term with this [`term_hash`](crate::term_hash).
    #[inline]
    pub const fn of_hash(hash: u64) -> VirtualShard {
        VirtualShard((hash >> 52) as u16)
    }

    /// Its number, below 4,096.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0
    }
}
