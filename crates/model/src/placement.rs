//! The owner of a vertex: virtual shard (in the id, S7) → shard (chosen at start).

use crate::TermId;
use crate::virtual_shard::{VIRTUAL_SHARDS, VirtualShard};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One partition of the store, written by exactly one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub u16);

/// The number of virtual shards in a stripe. A shard holds whole stripes, and so do parts of the
/// dictionary and of files.
pub const STRIPE: u16 = 16;

const STRIPES: u32 = (VIRTUAL_SHARDS / STRIPE) as u32;

/// Which shard holds which virtual shards: a contiguous range of whole stripes each (S7). Where one
/// number of shards is a multiple of another, each range of the larger number lies in one range of
/// the smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    shards: u16,
}

impl Placement {
    /// A placement over `shards` shards; at least 1, at most 256 (other numbers are clamped).
    pub const fn new(shards: u16) -> Placement {
        let most = VIRTUAL_SHARDS / STRIPE;
        Placement {
            shards: if shards == 0 {
                1
            } else if shards > most {
                most
            } else {
                shards
            },
        }
    }

    /// The number of shards.
    #[inline]
    pub const fn shards(self) -> u16 {
        self.shards
    }

    /// The shard that holds this virtual shard.
    #[inline]
    pub const fn shard_of(self, shard: VirtualShard) -> ShardId {
        let stripe = (shard.number() / STRIPE) as u32;
        ShardId((stripe * self.shards as u32 / STRIPES) as u16)
    }

    /// The numbers of the virtual shards that a shard holds.
    ///
    /// # Panics
    /// Where there is no such shard.
    pub fn range_of(self, shard: ShardId) -> Range<u16> {
        assert!(shard.0 < self.shards, "{shard:?} of {}", self.shards);
        let start = |shard: u16| {
            let stripe = (u32::from(shard) * STRIPES).div_ceil(u32::from(self.shards));
            stripe as u16 * STRIPE
        };
        start(shard.0)..start(shard.0 + 1)
    }

    /// The shard that owns this vertex.
    #[inline]
    pub const fn owner(self, vertex: TermId) -> ShardId {
        if self.shards == 1 {
            return ShardId(0);
        }
        self.shard_of(vertex.virtual_shard())
    }

    /// All shards, in order.
    pub fn all(self) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(ShardId)
    }
}
