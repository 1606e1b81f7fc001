//! The form that a list gets when it is published: one member, a block, a block with dates, or a
//! base with tails.
//!
//! Before changing it: a published list replaces one that readers at earlier SNs may be reading, so
//! it holds all that they see, and the replaced one is retired and not freed.
#![allow(unsafe_code)]

use super::ApplyPass;
use crate::lists::{self, List, Tail, changed};
use crate::lists::{Base, FLAT_LIMIT, FreshBase};
use crate::lists::{Block, Date, Dated, LONGEST_DATED};
use crate::lists::{Cell, Content};
use crate::lists::{Changes, gallop, merge_into};
use somersault_model::TermId;
use std::ptr::NonNull;
use std::sync::Arc;

/// While readers are no further behind than this, replaced memory is freed soon, and a list may be
/// written again for each SN.
const FEW_SNS: u64 = 16;
/// Beyond that, all replaced memory is kept: only lists up to this length are cheaper than their
/// tails.
const LONGEST_KEPT: usize = 16;

impl ApplyPass<'_> {
    /// Publishes a list with effective changes made at this SN.
    pub(super) fn publish_changed(
        &mut self,
        cell: &Cell,
        content: &Content<'_>,
        after: usize,
        effective: &Changes,
    ) {
        match content {
            Content::One { born, id } if self.is_dated(content, effective) => {
                let one = Dated {
                    born: *born,
                    ids: std::slice::from_ref(id),
                    dates: &[],
                };
                self.publish_dated(cell, one, &effective.inserts);
            }
            Content::Block(block) if self.is_dated(content, effective) => {
                self.publish_dated(cell, *block, &effective.inserts);
            }
            Content::One { born, id } if *born == self.sn => {
                self.publish_ids(cell, self.sn, &changed(&[*id], effective));
            }
            Content::Block(Dated {
                born,
                ids,
                dates: [],
            }) if *born == self.sn && after <= FLAT_LIMIT => {
                self.publish_ids(cell, self.sn, &changed(ids, effective));
            }
            Content::One { born, id } => {
                self.publish_tail(cell, *born, Base::One([*id]), None, effective);
            }
            Content::Block(block) if block.dates.is_empty() => {
                // SAFETY: this is the writer, and the cell leads to a block.
                let base = Base::Flat(unsafe { cell.block() });
                self.publish_tail(cell, block.born, base, None, effective);
            }
            Content::Block(block) => self.publish_undated(cell, *block, effective),
            Content::List(list) => match lists::fold(list, self.retained) {
                Some(folded) => {
                    self.account_fold(&folded);
                    self.publish_tail(cell, folded.born, folded.base.base, folded.tail, effective);
                }
                None => {
                    let (base, tail) = (list.base.clone(), list.tail.clone());
                    self.publish_tail(cell, list.born, base, tail, effective);
                }
            },
            Content::Nothing | Content::Counter(_) => {
                unreachable!("an empty list is published again, and a count is not a list")
            }
        }
    }

    /// Whether to publish a list that is short and only added to as a block with dates.
    pub(super) fn is_dated(&self, content: &Content<'_>, effective: &Changes) -> bool {
        let before = match content {
            Content::One { .. } => 1,
            Content::Block(block) => block.ids.len(),
            Content::Nothing | Content::List(_) | Content::Counter(_) => return false,
        };
        let longest = if self.sn.saturating_sub(self.retained.floor) <= FEW_SNS {
            LONGEST_DATED
        } else {
            LONGEST_KEPT
        };
        effective.deletes.is_empty() && before + effective.inserts.len() <= longest
    }

    /// Publishes a short list with members added at this SN.
    pub(super) fn publish_dated(&mut self, cell: &Cell, block: Dated<'_>, inserts: &[TermId]) {
        let (mut ids, mut dates) = std::mem::take(&mut self.state.dated);
        ids.clear();
        dates.clear();
        merge_into(block.ids, inserts, &[], &mut ids);
        let mut before = block.waited_for(self.retained.floor).peekable();
        let mut at = 0;
        for (more, id) in inserts.iter().enumerate() {
            at += gallop(&block.ids[at..], *id);
            while let Some(date) = before.next_if(|date| date.place() < at) {
                dates.push(Date::new(date.sn(), date.place() + more));
            }
            dates.push(Date::new(self.sn, at + more));
        }
        dates.extend(before.map(|date| Date::new(date.sn(), date.place() + inserts.len())));
        let all_are_new = dates.len() == ids.len() && dates.iter().all(|date| date.sn() == self.sn);
        let dates_kept = if all_are_new { &[] } else { &dates[..] };
        let made = Block::dated(self.sn, &ids, dates_kept);
        self.state.live_bytes += made.bytes() as isize;
        // SAFETY: this is the writer.
        let old = unsafe { cell.publish_block(made) };
        self.state.retire(old);
        self.state.dated = (ids, dates);
    }

    /// Publishes a list with effective changes made at this SN whose block has dates and cannot
    /// keep them: the additions of each SN become a tail.
    fn publish_undated(&mut self, cell: &Cell, block: Dated<'_>, effective: &Changes) {
        let mut waiting: Vec<Date> = block.waited_for(self.retained.floor).collect();
        if waiting.is_empty() {
            // SAFETY: this is the writer, and the cell leads to a block.
            let base = Base::Flat(unsafe { cell.block() });
            self.publish_tail(cell, 0, base, None, effective);
            return;
        }
        let mut scratch = Vec::with_capacity(block.ids.len() - waiting.len());
        let base = FreshBase::of(block.read(self.retained.floor, &mut scratch));
        // By SN, and among those of one SN still by place.
        waiting.sort_by_key(|date| date.sn());
        let mut tail = None;
        let mut now = Changes::default();
        for of_sn in waiting.chunk_by(|a, b| a.sn() == b.sn()) {
            let changes = Changes {
                inserts: of_sn.iter().map(|date| block.ids[date.place()]).collect(),
                deletes: Vec::new(),
            };
            let sn = of_sn[0].sn();
            if sn == self.sn {
                now = changes;
            } else {
                let older = tail.take();
                let made = Tail { sn, changes, older };
                self.state.live_bytes += made.bytes() as isize;
                self.state.tail_bytes += made.bytes();
                tail = Some(Arc::new(made));
            }
        }
        self.state.live_bytes += base.bytes as isize;
        self.publish_tail(cell, 0, base.base, tail, &now.then(effective));
    }

    pub(super) fn publish_tail(
        &mut self,
        cell: &Cell,
        born: u64,
        base: Base,
        older: Option<Arc<Tail>>,
        effective: &Changes,
    ) {
        let (changes, older) = match older {
            Some(tail) if tail.sn == self.sn => {
                let (changes, older) = (tail.changes.then(effective), tail.older.clone());
                self.drop_unpublished(tail);
                (changes, older)
            }
            older => (effective.clone(), older),
        };
        if changes.is_empty() {
            self.publish_parts(cell, born, base, older);
            return;
        }
        let tail = Tail {
            sn: self.sn,
            changes,
            older,
        };
        self.state.live_bytes += tail.bytes() as isize;
        self.state.tail_bytes += tail.bytes();
        self.publish_parts(cell, born, base, Some(Arc::new(tail)));
        self.state.waiting.push_back((self.sn, NonNull::from(cell)));
    }

    /// Drops a tail, and subtracts it from the counts if it was counted and no published list has
    /// it.
    fn drop_unpublished(&mut self, tail: Arc<Tail>) {
        if let Some(tail) = Arc::into_inner(tail) {
            self.state.live_bytes -= tail.bytes() as isize;
            self.state.tail_bytes -= tail.bytes();
        }
    }

    /// Publishes a list in the plainest form that holds it.
    pub(super) fn publish_parts(
        &mut self,
        cell: &Cell,
        born: u64,
        base: Base,
        tail: Option<Arc<Tail>>,
    ) {
        // SAFETY: this is the writer.
        let old = unsafe {
            match (base, tail) {
                (Base::Flat(block), None) if block.is_empty() => {
                    self.state.live_bytes -= block.release() as isize;
                    cell.publish_nothing()
                }
                // The block's own SN is that of the list, or 0 after folding.
                (Base::Flat(block), None) => cell.publish_block(block),
                (Base::One(one), None) => cell.publish_ids(born, &one),
                (base, tail) => {
                    self.state.live_bytes += size_of::<List>() as isize;
                    cell.publish_list(List { born, base, tail })
                }
            }
        };
        self.state.retire(old);
    }

    pub(super) fn publish_ids(&mut self, cell: &Cell, born: u64, ids: &[TermId]) {
        if ids.len() > 1 {
            self.state.live_bytes += Block::bytes_of(ids.len()) as isize;
        }
        // SAFETY: this is the writer.
        let old = unsafe {
            if ids.is_empty() {
                cell.publish_nothing()
            } else {
                cell.publish_ids(born, ids)
            }
        };
        self.state.retire(old);
    }
}
