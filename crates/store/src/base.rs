//! The part of a list below its tails: ids in ascending order, as one value, one block, or, where
//! it is long and has been changed since it was built, a two-level directory of pieces. Folding
//! changes in makes fresh pieces where something changed and shares all others (S8).
//!
//! The first base of a long list of an image is the image's own slice: nothing is copied until it
//! is folded, and then only the touched pieces.
//!
//! A piece may be a stretch of a larger block (a list that was built in one go is cut up only when
//! it is first changed), so at most as much memory as that block had stays behind in it.
#![allow(unsafe_code)]

use crate::block::Block;
use crate::changes::{Changes, merge_into};
use somersault_model::TermId;
use std::ops::Deref;
use std::sync::Arc;

/// Up to this length a list is one block and is rewritten whole.
pub(crate) const FLAT_LIMIT: usize = 1024;
/// Length of a fresh piece.
const PIECE: usize = 512;
/// A fresh piece shorter than this takes in its neighbour.
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

/// Ids in the image of the generation whose cell leads to them.
#[derive(Clone, Copy)]
pub(crate) struct ImageIds(&'static [TermId]);

/// Where the ids of a piece are.
#[derive(Clone)]
enum Source {
    Block(Block),
    Image(ImageIds),
}

impl Deref for Source {
    type Target = [TermId];

    fn deref(&self) -> &[TermId] {
        match self {
            Source::Block(block) => block,
            Source::Image(ids) => ids.0,
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
    source: Source,
    start: u32,
    length: u32,
}

impl Piece {
    fn new(source: Source, start: usize, length: usize) -> Piece {
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

    /// The whole base as one slice, where it is one.
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

    /// Appends the base with changes made to `out`.
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

    /// The base with changes made; `None` where nothing is left. Costs what is touched, or the
    /// whole where it is short or mostly changed.
    pub(crate) fn fold(&self, changes: &Changes) -> Option<Base> {
        let length = self.len().checked_add_signed(changes.net())?;
        if length == 0 {
            return None;
        }
        if length <= FLAT_LIMIT || changes.len() * 4 >= self.len() {
            let mut ids = Vec::with_capacity(length);
            self.write(&changes.inserts, &changes.deletes, &mut ids);
            debug_assert_eq!(ids.len(), length, "changes are effective");
            return Some(Base::of(&ids));
        }
        let directory = match self {
            Base::Pieces(directory) => directory.fold(changes),
            Base::Flat(block) => Directory::of(&Source::Block(block.clone())).fold(changes),
            Base::Image(ids) => Directory::of(&Source::Image(*ids)).fold(changes),
            Base::One(one) => Directory::of(&Source::Block(Block::new(0, one))).fold(changes),
        };
        debug_assert_eq!(directory.length, length, "changes are effective");
        Some(Base::Pieces(Arc::new(directory)))
    }

    /// These ids (not none) as a base.
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
        // SAFETY: the caller promises that nobody looks at them when they are gone.
        let ids = unsafe { std::slice::from_raw_parts(ids.as_ptr(), ids.len()) };
        Base::Image(ImageIds(ids))
    }

    /// Size in memory besides this value itself, shared parts included.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            // What is the image's is counted with it.
            Base::One(_) | Base::Image(_) => 0,
            Base::Flat(block) => block.bytes(),
            Base::Pieces(directory) => directory.bytes(),
        }
    }
}

impl Directory {
    /// A directory over untouched ids: nothing is copied.
    fn of(source: &Source) -> Directory {
        let mut pieces = Vec::with_capacity(source.len().div_ceil(PIECE));
        for start in (0..source.len()).step_by(PIECE) {
            let length = PIECE.min(source.len() - start);
            pieces.push(Piece::new(source.clone(), start, length));
        }
        Directory::from_branches(pieces.chunks(BRANCH).map(Branch::of).collect())
    }

    /// Size in memory, shared parts included.
    pub(crate) fn bytes(&self) -> usize {
        let branch = |b: &Arc<Branch>| b.pieces.len() * size_of::<Piece>() + size_of::<Branch>();
        self.length * size_of::<TermId>() + self.branches.iter().map(branch).sum::<usize>()
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

    fn fold(&self, changes: &Changes) -> Directory {
        let (mut inserts, mut deletes) = (&changes.inserts[..], &changes.deletes[..]);
        let mut branches = Vec::with_capacity(self.branches.len() + 1);
        for (at, branch) in self.branches.iter().enumerate() {
            let end = self.branches.get(at + 1).map(|next| next.first);
            let these = (cut(&mut inserts, end), cut(&mut deletes, end));
            if these.0.is_empty() && these.1.is_empty() {
                branches.push(Arc::clone(branch));
                continue;
            }
            let pieces = branch.fold(these.0, these.1);
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
    fn of(pieces: &[Piece]) -> Arc<Branch> {
        Arc::new(Branch {
            first: pieces[0].first,
            length: pieces.iter().map(|p| p.length as usize).sum(),
            pieces: pieces.to_vec(),
        })
    }

    /// The pieces of this branch with changes made; untouched pieces are shared.
    fn fold(&self, mut inserts: &[TermId], mut deletes: &[TermId]) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.pieces.len() + 1);
        let mut fresh: Vec<TermId> = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let end = self.pieces.get(at + 1).map(|next| next.first);
            let these = (cut(&mut inserts, end), cut(&mut deletes, end));
            let untouched = these.0.is_empty() && these.1.is_empty();
            if untouched && (fresh.is_empty() || fresh.len() >= SMALL_PIECE) {
                flush(&mut fresh, &mut pieces);
                pieces.push(piece.clone());
            } else {
                // A small fresh piece also takes in an untouched neighbour: deletions would
                // otherwise leave a trail of crumbs.
                merge_into(piece.ids(), these.0, these.1, &mut fresh);
            }
        }
        flush(&mut fresh, &mut pieces);
        pieces
    }
}

/// Cuts what has gathered into pieces of about equal length.
fn flush(fresh: &mut Vec<TermId>, pieces: &mut Vec<Piece>) {
    if fresh.is_empty() {
        return;
    }
    let count = fresh.len().div_ceil(PIECE);
    for ids in fresh.chunks(fresh.len().div_ceil(count)) {
        pieces.push(Piece::new(Source::Block(Block::new(0, ids)), 0, ids.len()));
    }
    fresh.clear();
}

/// Takes the members below `end` off the front of an ascending list (all, without an end).
fn cut<'a>(list: &mut &'a [TermId], end: Option<TermId>) -> &'a [TermId] {
    let at = end.map_or(list.len(), |end| crate::changes::gallop(list, end));
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
        let before = Base::of(&ids).fold(&insert(1)).expect("not empty");
        let after = before.fold(&insert(300_001)).expect("not empty");
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
                    Some(base) => base.fold(&changes),
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
