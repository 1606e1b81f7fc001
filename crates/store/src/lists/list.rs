//! A list with tails: the content of a key while readers can tell more than one SN apart.
//! Immutable; the writer publishes another one for each SN that changes the key.
//!
//! The state at SN s is the base, if it was born at or before s, with the changes of all tails at
//! or before s. Tails go from newest to oldest and ascend by SN without repeats.

use crate::lists::base::{Base, FLAT_LIMIT, FreshBase};
use crate::lists::changes::{Changes, merge_into};
use somersault_model::TermId;
use std::ops::AddAssign;
use std::sync::Arc;

/// A long list is folded when one in this many of its members has changed: about eight in a piece.
const FOLD_SHARE: usize = 64;

pub(crate) struct List {
    /// The SN at which the base was created; 0 once every reader may see it.
    pub(crate) born: u64,
    pub(crate) base: Base,
    pub(crate) tail: Option<Arc<Tail>>,
}

/// The changes of one SN, or of several that no reader can tell apart any more.
pub(crate) struct Tail {
    pub(crate) sn: u64,
    pub(crate) changes: Changes,
    pub(crate) older: Option<Arc<Tail>>,
}

/// The number of bytes that were freed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Freed {
    /// All of them.
    pub(crate) bytes: usize,
    /// Those of tails.
    pub(crate) tails: usize,
}

impl From<usize> for Freed {
    fn from(bytes: usize) -> Freed {
        Freed { bytes, tails: 0 }
    }
}

impl AddAssign for Freed {
    fn add_assign(&mut self, other: Freed) {
        self.bytes += other.bytes;
        self.tails += other.tails;
    }
}

impl List {
    /// The tails that a reader at `sn` sees, newest first.
    fn tails(&self, sn: u64) -> impl Iterator<Item = &Tail> {
        std::iter::successors(self.tail.as_deref(), |tail| tail.older.as_deref())
            .skip_while(move |tail| tail.sn > sn)
    }

    /// The members at `sn`, ascending: borrowed if no merging is needed, else in `scratch`.
    pub(crate) fn read<'a>(&'a self, sn: u64, scratch: &'a mut Vec<TermId>) -> &'a [TermId] {
        if self.born > sn {
            return &[];
        }
        let mut tails = self.tails(sn);
        let Some(newest) = tails.next() else {
            return match self.base.as_slice() {
                Some(ids) => ids,
                None => {
                    self.base.write(&[], &[], scratch);
                    scratch
                }
            };
        };
        match tails.next() {
            None => {
                let changes = &newest.changes;
                self.base.write(&changes.inserts, &changes.deletes, scratch);
            }
            Some(older) => {
                let mut changes = older.changes.then(&newest.changes);
                for tail in tails {
                    changes = tail.changes.then(&changes);
                }
                self.base.write(&changes.inserts, &changes.deletes, scratch);
            }
        }
        scratch
    }

    /// Whether `id` is a member at `sn`.
    pub(crate) fn contains(&self, sn: u64, id: TermId) -> bool {
        if self.born > sn {
            return false;
        }
        for tail in self.tails(sn) {
            if tail.changes.inserts.binary_search(&id).is_ok() {
                return true;
            }
            if tail.changes.deletes.binary_search(&id).is_ok() {
                return false;
            }
        }
        self.base.contains(id)
    }

    /// The number of members at `sn`.
    pub(crate) fn len(&self, sn: u64) -> usize {
        if self.born > sn {
            return 0;
        }
        let net: isize = self.tails(sn).map(|tail| tail.changes.net()).sum();
        self.base.len().saturating_add_signed(net)
    }

    /// The changes of the SNs after `since` up to `sn`, of which a pin keeps the first; `None` if
    /// the list had no base at `since`.
    pub(crate) fn changes_between(&self, since: u64, sn: u64) -> Option<Changes> {
        if self.born > since {
            return None;
        }
        let tails = self.tails(sn).take_while(|tail| tail.sn > since);
        Some(tails.fold(Changes::default(), |sum, tail| tail.changes.then(&sum)))
    }

    /// The bytes that only this list holds, without the pieces of its base: about the bytes it
    /// takes once it is replaced.
    pub(crate) fn own_bytes(&self) -> usize {
        let base = match &self.base {
            Base::Flat(block) => block.own_bytes(),
            _ => 0,
        };
        size_of::<List>() + base
    }

    /// Drops the list. Returns the bytes freed. Parts that a newer version shares stay.
    pub(crate) fn release(self) -> Freed {
        let mut freed = Freed::from(size_of::<List>());
        freed.bytes += self.base.release();
        let mut tail = self.tail;
        while let Some(last) = tail.and_then(Arc::into_inner) {
            freed.bytes += last.bytes();
            freed.tails += last.bytes();
            tail = last.older;
        }
        freed
    }
}

impl Tail {
    /// Size in memory of this tail and all older ones.
    pub(crate) fn chain_bytes(&self) -> usize {
        let chain = std::iter::successors(Some(self), |tail| tail.older.as_deref());
        chain.map(Tail::bytes).sum()
    }

    /// Size in memory of this tail alone.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Tail>() + 16 + self.changes.len() * size_of::<TermId>()
    }
}

/// The SNs that a reader may still ask for, which decide what is folded.
#[derive(Debug, Clone)]
pub(crate) struct Retained {
    /// No reader is below this SN.
    pub(crate) floor: u64,
    /// Every SN from here on may still be asked for.
    pub(crate) stable: u64,
    /// The pinned SNs, ascending.
    pub(crate) pinned: Vec<u64>,
}

impl Retained {
    /// Whether no reader can tell the state at `older` from that at `newer`.
    pub(crate) fn same_to_all(&self, older: u64, newer: u64) -> bool {
        let next = self.pinned.partition_point(|pin| *pin < older);
        newer <= self.stable && self.pinned.get(next).is_none_or(|pin| *pin >= newer)
    }
}

/// A list taken apart by the writer: tails at or below the floor are folded into the base, and
/// tails that no reader can tell apart are joined. All tails are new.
pub(crate) struct Folded {
    pub(crate) born: u64,
    pub(crate) base: FreshBase,
    pub(crate) tail: Option<Arc<Tail>>,
}

/// Folds as far as the retained SNs allow. Returns `None` if there is nothing to do.
pub(crate) fn fold(list: &List, retained: &Retained) -> Option<Folded> {
    let newest = list.tail.as_deref()?;
    if newest.older.is_none() {
        // Most lists have a single tail of one SN, which is folded at once or stays.
        let ripe =
            newest.sn <= retained.floor && !is_left_as_tail(&list.base, newest.changes.len());
        return ripe.then(|| Folded {
            born: 0,
            base: folded_base(&list.base, &newest.changes),
            tail: None,
        });
    }
    let mut tails = Vec::new();
    let mut next = &list.tail;
    while let Some(tail) = next {
        tails.push(tail);
        next = &tail.older;
    }
    tails.reverse();
    let mut below = tails.partition_point(|tail| tail.sn <= retained.floor);
    let changed: usize = tails[..below].iter().map(|tail| tail.changes.len()).sum();
    if is_left_as_tail(&list.base, changed) {
        below = 0;
    }
    let joined = join(&tails[below..], retained);
    if below == 0 && joined.is_none() {
        return None;
    }
    let mut changes = Changes::default();
    for tail in &tails[..below] {
        changes = changes.then(&tail.changes);
    }
    let base = if changes.is_empty() {
        FreshBase::shared(list.base.clone())
    } else {
        folded_base(&list.base, &changes)
    };
    let rest = joined.unwrap_or_else(|| {
        let kept = tails[below..].iter();
        kept.map(|tail| (tail.sn, tail.changes.clone())).collect()
    });
    let tail = rest.into_iter().fold(None, |older, (sn, changes)| {
        Some(Arc::new(Tail { sn, changes, older }))
    });
    let born = if below > 0 { 0 } else { list.born };
    Some(Folded { born, base, tail })
}

/// The base with the changes applied, empty if no member is left.
fn folded_base(base: &Base, changes: &Changes) -> FreshBase {
    base.fold(changes).unwrap_or_else(|| FreshBase::of(&[]))
}

/// Whether changes to a long list stay a tail. Ids are spread by hash, so a few changes touch as
/// many pieces; they stay tails until a piece has a handful of them.
fn is_left_as_tail(base: &Base, changes: usize) -> bool {
    base.len() > FLAT_LIMIT && changes < base.len() / FOLD_SHARE
}

/// Joins neighbouring tails (oldest first) that no reader can tell apart, if the older is not much
/// longer: so a tail is copied a logarithmic number of times while a long query is pinned.
fn join(tails: &[&Arc<Tail>], retained: &Retained) -> Option<Vec<(u64, Changes)>> {
    let joinable = |older: u64, long: usize, newer: &Tail| {
        retained.same_to_all(older, newer.sn) && long <= 2 * newer.changes.len().max(8)
    };
    let any = (tails.windows(2)).any(|pair| joinable(pair[0].sn, pair[0].changes.len(), pair[1]));
    if !any {
        return None;
    }
    let mut out: Vec<(u64, Changes)> = Vec::with_capacity(tails.len());
    for tail in tails {
        match out.last_mut() {
            Some((sn, changes)) if joinable(*sn, changes.len(), tail) => {
                *changes = changes.then(&tail.changes);
                *sn = tail.sn;
            }
            _ => out.push((tail.sn, tail.changes.clone())),
        }
    }
    Some(out)
}

/// The members of `ids` with the changes applied.
pub(crate) fn changed(ids: &[TermId], changes: &Changes) -> Vec<TermId> {
    let mut out = Vec::new();
    merge_into(ids, &changes.inserts, &changes.deletes, &mut out);
    out
}
