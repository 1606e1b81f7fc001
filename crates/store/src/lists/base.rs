//! The part of a list below its tails: ids in ascending order, as one value, one block, or, if it
//! is long and has changed since it was built, a two-level directory of pieces. Folding makes fresh
//! pieces where something changed and shares all others (S8).
//!
//! The first base of a long list of an image is the image's own slice: nothing is copied until it
//! is folded, and then only the touched pieces.
//!
//! A piece may be a stretch of a larger block: a list that was built in one go is cut up only when
//! it first changes. So at most as much memory as that block had stays behind in it.
#![allow(unsafe_code)]

use crate::lists::block::Block;
use crate::lists::changes::{Changes, merge_into};
use somersault_model::TermId;
use std::ops::Deref;
use std::sync::Arc;

/// Up to this length a list is one block and is rewritten whole.
pub(crate) const FLAT_LIMIT: usize = 1024;
/// Length of a fresh piece.
const PIECE: usize = 512;
/// A fresh piece shorter than this absorbs its neighbour.
const SMALL_PIECE: usize = 128;
/// Pieces in a fresh branch; branches split at twice that.
const BRANCH: usize = 128;

#[derive(Clone)]
pub(crate) enum Base {
    One([TermId; 1]),
    Flat(Block),
    Image(ImageIds),
    Pieces(Arc<Directory>),
}

/// A base that was just made.
pub(crate) struct FreshBase {
    pub(crate) base: Base,
    /// Bytes allocated for it, besides the parts that it shares with an older base.
    pub(crate) bytes: usize,
}

/// Ids in an image, reached through a cell of the image's generation.
#[derive(Clone, Copy)]
pub(crate) struct ImageIds(&'static [TermId]);

/// The place of a piece's ids.
#[derive(Clone)]
enum PieceIds {
    Block(Block),
    Image(ImageIds),
}

impl Deref for PieceIds {
    type Target = [TermId];

    fn deref(&self) -> &[TermId] {
        match self {
            PieceIds::Block(block) => block,
            PieceIds::Image(ids) => ids.0,
        }
    }
}

/// A long list in branches of pieces.
pub(crate) struct Directory {
    length: usize,
    branches: Vec<Arc<Branch>>,
}

struct Branch {
    first: TermId,
    length: usize,
    pieces: Vec<Piece>,
}

#[derive(Clone)]
struct Piece {
    first: TermId,
    source: PieceIds,
    start: u32,
    length: u32,
}

impl Piece {
    fn new(source: PieceIds, start: usize, length: usize) -> Piece {
        Piece {
            first: source[start],
            source,
            start: start as u32,
            length: length as u32,
        }
    }

    fn ids(&self) -> &[TermId] {
        let start = self.start as usize;
        &self.source[start..start + self.length as usize]
    }
}

impl Base {
    pub(crate) fn len(&self) -> usize {
        match self {
            Base::One(_) => 1,
            Base::Flat(block) => block.len(),
            Base::Image(ids) => ids.0.len(),
            Base::Pieces(directory) => directory.length,
        }
    }

    /// The whole base as one slice, if it is one.
    pub(crate) fn as_slice(&self) -> Option<&[TermId]> {
        match self {
            Base::One(one) => Some(one),
            Base::Flat(block) => Some(block),
            Base::Image(ids) => Some(ids.0),
            Base::Pieces(_) => None,
        }
    }

    pub(crate) fn contains(&self, id: TermId) -> bool {
        match self {
            Base::One([one]) => *one == id,
            Base::Flat(block) => block.binary_search(&id).is_ok(),
            Base::Image(ids) => ids.0.binary_search(&id).is_ok(),
            Base::Pieces(directory) => directory.contains(id),
        }
    }

    /// Appends the base with the changes applied to `out`.
    pub(crate) fn write(&self, inserts: &[TermId], deletes: &[TermId], out: &mut Vec<TermId>) {
        let Base::Pieces(directory) = self else {
            merge_into(self.as_slice().unwrap_or(&[]), inserts, deletes, out);
            return;
        };
        let (mut inserts, mut deletes) = (inserts, deletes);
        out.reserve(directory.length + inserts.len());
        let mut pieces = directory.branches.iter().flat_map(|b| &b.pieces).peekable();
        while let Some(piece) = pieces.next() {
            let end = pieces.peek().map(|next| next.first);
            let these = (cut(&mut inserts, end), cut(&mut deletes, end));
            merge_into(piece.ids(), these.0, these.1, out);
        }
        out.extend_from_slice(inserts);
    }

    /// The base with the changes applied; `None` if it becomes empty. The cost is that of the
    /// touched pieces, or of the whole base if it is short or mostly changed.
    pub(crate) fn fold(&self, changes: &Changes) -> Option<FreshBase> {
        let length = self.len().checked_add_signed(changes.net())?;
        if length == 0 {
            return None;
        }
        if length <= FLAT_LIMIT || changes.len() * 4 >= self.len() {
            let mut ids = Vec::with_capacity(length);
            self.write(&changes.inserts, &changes.deletes, &mut ids);
            debug_assert_eq!(ids.len(), length, "changes are effective");
            return Some(FreshBase::of(&ids));
        }
        let mut block_bytes = 0;
        let directory = match self {
            Base::Pieces(directory) => directory.fold(changes, &mut block_bytes),
            Base::Flat(block) => {
                Directory::of(&PieceIds::Block(block.clone())).fold(changes, &mut block_bytes)
            }
            Base::Image(ids) => {
                Directory::of(&PieceIds::Image(*ids)).fold(changes, &mut block_bytes)
            }
            Base::One(_) => unreachable!("one member and its changes are a short list"),
        };
        debug_assert_eq!(directory.length, length, "changes are effective");
        Some(FreshBase {
            bytes: directory.unshared_bytes() + block_bytes,
            base: Base::Pieces(Arc::new(directory)),
        })
    }

    /// A base of these ids, at least one.
    pub(crate) fn of(ids: &[TermId]) -> Base {
        match ids {
            [one] => Base::One([*one]),
            _ => Base::Flat(Block::new(0, ids)),
        }
    }

    /// The ids of a list of an image, borrowed.
    ///
    /// # Safety
    /// They outlive every list that is made with this base or with one folded from it.
    pub(crate) unsafe fn of_image(ids: &[TermId]) -> Base {
        // SAFETY: the caller promises that they are not read after they are freed.
        let ids = unsafe { std::slice::from_raw_parts(ids.as_ptr(), ids.len()) };
        Base::Image(ImageIds(ids))
    }

    /// Drops the base. Returns the number of bytes freed. Parts that another base shares stay.
    pub(crate) fn release(self) -> usize {
        match self {
            // The image counts its own ids.
            Base::One(_) | Base::Image(_) => 0,
            Base::Flat(block) => block.release(),
            Base::Pieces(directory) => Arc::into_inner(directory).map_or(0, Directory::release),
        }
    }
}

impl FreshBase {
    /// A copy of these ids.
    pub(crate) fn of(ids: &[TermId]) -> FreshBase {
        let base = Base::of(ids);
        let bytes = match &base {
            Base::Flat(block) => block.bytes(),
            Base::One(_) | Base::Image(_) | Base::Pieces(_) => 0,
        };
        FreshBase { base, bytes }
    }

    /// A base that exists already.
    pub(crate) fn shared(base: Base) -> FreshBase {
        FreshBase { base, bytes: 0 }
    }
}

#[cfg(test)]
impl Base {
    /// Bytes of this base besides the value itself and the blocks in `seen`: the result of a walk,
    /// for tests of the counts.
    pub(crate) fn walk_bytes(&self, seen: &mut std::collections::HashSet<*const u8>) -> usize {
        let mut block_bytes = |block: &Block| match seen.insert(block.as_ptr_of_head()) {
            true => block.bytes(),
            false => 0,
        };
        match self {
            Base::One(_) | Base::Image(_) => 0,
            Base::Flat(block) => block_bytes(block),
            Base::Pieces(directory) => {
                let mut bytes = directory.own_bytes();
                for branch in &directory.branches {
                    bytes += branch.own_bytes();
                    for piece in &branch.pieces {
                        if let PieceIds::Block(block) = &piece.source {
                            bytes += block_bytes(block);
                        }
                    }
                }
                bytes
            }
        }
    }
}

impl Directory {
    /// A directory over untouched ids: nothing is copied.
    fn of(source: &PieceIds) -> Directory {
        let mut pieces = Vec::with_capacity(source.len().div_ceil(PIECE));
        for start in (0..source.len()).step_by(PIECE) {
            let length = PIECE.min(source.len() - start);
            pieces.push(Piece::new(source.clone(), start, length));
        }
        Directory::from_branches(pieces.chunks(BRANCH).map(Branch::of).collect())
    }

    /// Size in memory with the branches that no other directory shares, without blocks.
    fn unshared_bytes(&self) -> usize {
        let unshared = self.branches.iter().filter(|b| Arc::strong_count(b) == 1);
        self.own_bytes() + unshared.map(|b| b.own_bytes()).sum::<usize>()
    }

    /// Drops the directory. Returns the number of bytes freed.
    fn release(self) -> usize {
        let own = self.own_bytes();
        let branches = self.branches.into_iter().filter_map(Arc::into_inner);
        own + branches.map(Branch::release).sum::<usize>()
    }

    /// Size in memory without the branches.
    fn own_bytes(&self) -> usize {
        size_of::<Directory>() + self.branches.capacity() * size_of::<Arc<Branch>>()
    }

    fn from_branches(branches: Vec<Arc<Branch>>) -> Directory {
        Directory {
            length: branches.iter().map(|b| b.length).sum(),
            branches,
        }
    }

    fn contains(&self, id: TermId) -> bool {
        let branch = self.branches.partition_point(|b| b.first <= id);
        let Some(branch) = branch.checked_sub(1).map(|at| &self.branches[at]) else {
            return false;
        };
        let piece = branch.pieces.partition_point(|p| p.first <= id);
        piece
            .checked_sub(1)
            .is_some_and(|at| branch.pieces[at].ids().binary_search(&id).is_ok())
    }

    /// The directory with the changes applied; the bytes of new blocks are added to `block_bytes`.
    fn fold(&self, changes: &Changes, block_bytes: &mut usize) -> Directory {
        let (mut inserts, mut deletes) = (&changes.inserts[..], &changes.deletes[..]);
        let mut branches = Vec::with_capacity(self.branches.len() + 1);
        for (at, branch) in self.branches.iter().enumerate() {
            let end = self.branches.get(at + 1).map(|next| next.first);
            let these = (cut(&mut inserts, end), cut(&mut deletes, end));
            if these.0.is_empty() && these.1.is_empty() {
                branches.push(Arc::clone(branch));
                continue;
            }
            let pieces = branch.fold(these.0, these.1, block_bytes);
            if pieces.len() <= 2 * BRANCH {
                if !pieces.is_empty() {
                    branches.push(Branch::of(&pieces));
                }
            } else {
                branches.extend(pieces.chunks(BRANCH).map(Branch::of));
            }
        }
        Directory::from_branches(branches)
    }
}

impl Branch {
    /// Size in memory without the blocks that its pieces are of.
    fn own_bytes(&self) -> usize {
        size_of::<Branch>() + self.pieces.capacity() * size_of::<Piece>()
    }

    fn of(pieces: &[Piece]) -> Arc<Branch> {
        Arc::new(Branch {
            first: pieces[0].first,
            length: pieces.iter().map(|p| p.length as usize).sum(),
            pieces: pieces.to_vec(),
        })
    }

    /// Drops the branch. Returns the number of bytes freed.
    fn release(self) -> usize {
        let own = self.own_bytes();
        let blocks = self.pieces.into_iter().map(|piece| match piece.source {
            PieceIds::Block(block) => block.release(),
            PieceIds::Image(_) => 0,
        });
        own + blocks.sum::<usize>()
    }

    /// The pieces of this branch with the changes applied; untouched pieces are shared.
    fn fold(
        &self,
        mut inserts: &[TermId],
        mut deletes: &[TermId],
        block_bytes: &mut usize,
    ) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.pieces.len() + 1);
        let mut fresh: Vec<TermId> = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let end = self.pieces.get(at + 1).map(|next| next.first);
            let these = (cut(&mut inserts, end), cut(&mut deletes, end));
            let untouched = these.0.is_empty() && these.1.is_empty();
            if untouched && (fresh.is_empty() || fresh.len() >= SMALL_PIECE) {
                *block_bytes += flush(&mut fresh, &mut pieces);
                pieces.push(piece.clone());
            } else {
                // A small fresh piece also takes in an untouched neighbour: deletions would
                // otherwise leave a trail of crumbs.
                merge_into(piece.ids(), these.0, these.1, &mut fresh);
            }
        }
        *block_bytes += flush(&mut fresh, &mut pieces);
        pieces
    }
}

/// Cuts the ids in `fresh` into pieces of about equal length. Returns the bytes of their blocks.
fn flush(fresh: &mut Vec<TermId>, pieces: &mut Vec<Piece>) -> usize {
    if fresh.is_empty() {
        return 0;
    }
    let mut bytes = 0;
    let count = fresh.len().div_ceil(PIECE);
    for ids in fresh.chunks(fresh.len().div_ceil(count)) {
        let block = Block::new(0, ids);
        bytes += block.bytes();
        pieces.push(Piece::new(PieceIds::Block(block), 0, ids.len()));
    }
    fresh.clear();
    bytes
}

/// Takes the members below `end` off the front of an ascending list (all members, if there is no
/// end).
fn cut<'a>(list: &mut &'a [TermId], end: Option<TermId>) -> &'a [TermId] {
    let at = end.map_or(list.len(), |end| crate::lists::changes::gallop(list, end));
    let (head, rest) = list.split_at(at);
    *list = rest;
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn written(base: &Base) -> Vec<TermId> {
        let mut out = Vec::new();
        base.write(&[], &[], &mut out);
        out
    }

    fn shared(a: &Base, b: &Base) -> usize {
        let (Base::Pieces(a), Base::Pieces(b)) = (a, b) else {
            return 0;
        };
        let of = |d: &Directory| -> BTreeSet<*const TermId> {
            let pieces = d.branches.iter().flat_map(|b| &b.pieces);
            pieces.map(|p| p.ids().as_ptr()).collect()
        };
        of(a).intersection(&of(b)).count()
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes under miri")]
    fn folding_touches_only_the_touched_pieces() {
        let ids: Vec<_> = (0..300_000).map(|n| TermId::from_raw(n * 2)).collect();
        let insert = |id: u64| Changes {
            inserts: vec![TermId::from_raw(id)],
            deletes: vec![],
        };
        let fold = |base: &Base, id| base.fold(&insert(id)).expect("not empty").base;
        let before = fold(&Base::of(&ids), 1);
        let after = fold(&before, 300_001);
        assert_eq!(after.len(), 300_002);
        // The first insertion cut its piece in two; the second touched one piece.
        let pieces = 300_000usize.div_ceil(PIECE) + 1;
        assert_eq!(shared(&before, &after), pieces - 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        #[cfg_attr(miri, ignore = "minutes under miri")]
        fn folding_equals_the_set(
            start in prop::collection::btree_set(0u64..20_000, 0..6_000),
            steps in prop::collection::vec(
                (0u64..20_000, 1u64..3_000, any::<bool>(), 1usize..7), 1..12),
        ) {
            let mut model = start;
            let mut base = (!model.is_empty()).then(|| {
                Base::of(&model.iter().copied().map(TermId::from_raw).collect::<Vec<_>>())
            });
            for (from, width, insert, stride) in steps {
                let range = (from..from + width).step_by(stride);
                let touched: Vec<u64> = range.filter(|n| model.contains(n) != insert).collect();
                let ids = touched.iter().copied().map(TermId::from_raw).collect();
                let mut changes = Changes::default();
                if insert {
                    changes.inserts = ids;
                    model.extend(&touched);
                } else {
                    changes.deletes = ids;
                    model.retain(|n| touched.binary_search(n).is_err());
                }
                base = match base {
                    Some(base) => base.fold(&changes).map(|fresh| fresh.base),
                    None if changes.inserts.is_empty() => None,
                    None => Some(Base::of(&changes.inserts)),
                };
                let expected: Vec<_> = model.iter().copied().map(TermId::from_raw).collect();
                prop_assert_eq!(base.as_ref().map(written).unwrap_or_default(), expected);
                if let Some(base) = &base {
                    prop_assert_eq!(base.len(), model.len());
                    for n in [from, from + width, from / 2] {
                        prop_assert_eq!(base.contains(TermId::from_raw(n)), model.contains(&n));
                    }
                }
            }
        }
    }
}
