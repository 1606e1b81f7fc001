//! One shard as a snapshot reads it. All reads of shards go through here, so that a shard of
//! another process can be a further variant.
#![allow(unsafe_code)]

use crate::image::{Edges, Image};
use crate::lists::Key;
use crate::shard::{Generation, Shard};
use somersault_model::{Direction, TermId};

/// The target of a shard's reads. A method with an `sn` is for holders of a pin at that SN,
/// throughout the call and as long as the borrowed result is used.
#[derive(Clone, Copy)]
pub(crate) enum ShardSource<'a> {
    /// The shard is in this process: its generation for the snapshot's SN.
    Here(&'a Generation),
}

impl<'a> ShardSource<'a> {
    /// The source of a shard's reads at `sn`.
    ///
    /// # Safety
    /// The caller holds a pin at `sn` throughout `'a`.
    #[inline]
    pub(crate) unsafe fn of(shard: &'a Shard, sn: u64) -> ShardSource<'a> {
        // SAFETY: passed on.
        ShardSource::Here(unsafe { shard.at(sn) })
    }

    /// The generation that is read.
    #[inline]
    pub(crate) fn generation(self) -> &'a Generation {
        match self {
            ShardSource::Here(generation) => generation,
        }
    }

    /// The edges of a predicate that the image has, and whether cells have to be read first.
    pub(crate) fn edges(
        self,
        graph: TermId,
        predicate: TermId,
        direction: Direction,
    ) -> (Option<&'a Edges>, bool) {
        let held = self.image().held(graph, predicate, direction);
        let edges = held.map(|held| &*held.edges);
        (edges, held.is_none_or(|held| held.is_changed()))
    }

    /// The image: the statements that were loaded in bulk.
    pub(crate) fn image(self) -> &'a Image {
        &self.generation().image
    }

    /// As [`Generation::read`].
    ///
    /// # Safety
    /// The caller holds a pin throughout `'b`.
    #[inline]
    pub(crate) unsafe fn read<'b>(
        self,
        sn: u64,
        key: Key,
        scratch: &'b mut Vec<TermId>,
    ) -> &'b [TermId]
    where
        'a: 'b,
    {
        // SAFETY: passed on.
        unsafe { self.generation().read(sn, key, scratch) }
    }

    /// As [`Generation::len`].
    ///
    /// # Safety
    /// As for [`ShardSource::read`], and so below.
    #[inline]
    pub(crate) unsafe fn len(self, sn: u64, key: Key) -> usize {
        // SAFETY: passed on.
        unsafe { self.generation().len(sn, key) }
    }

    /// As [`Generation::contains`].
    ///
    /// # Safety
    /// As for [`ShardSource::read`].
    #[inline]
    pub(crate) unsafe fn contains(self, sn: u64, key: Key, id: TermId) -> bool {
        // SAFETY: passed on.
        unsafe { self.generation().contains(sn, key, id) }
    }

    /// As [`Generation::count`].
    ///
    /// # Safety
    /// As for [`ShardSource::read`].
    pub(crate) unsafe fn count(self, sn: u64, key: Key) -> u64 {
        // SAFETY: passed on.
        unsafe { self.generation().count(sn, key) }
    }

    /// As [`Generation::changed`].
    ///
    /// # Safety
    /// As for [`ShardSource::read`].
    pub(crate) unsafe fn changed(self, sn: u64, key: Key) -> u64 {
        // SAFETY: passed on.
        unsafe { self.generation().changed(sn, key) }
    }
}
