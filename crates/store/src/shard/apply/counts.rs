//! Counts of statements, with their values at the SNs that some reader can still ask for.
#![allow(unsafe_code)]

use super::ApplyPass;
use crate::lists::{Content, Counter, Key};
use somersault_model::Operation;
use std::ptr::NonNull;

impl ApplyPass<'_> {
    pub(super) fn count(&mut self, key: Key, statements: u64, operation: Operation) {
        // SAFETY: this is the writer: nothing is freed while it works.
        let found = unsafe { self.generation.segments.find(key) };
        let (cell, fresh) = match found {
            Some(cell) => (NonNull::from(cell), false),
            None => (self.new_cell(key), true),
        };
        self.note_change(cell);
        // SAFETY: the cell is one of the newest generation, which is not freed; content as above.
        let (reached, content) = unsafe { (cell.as_ref(), cell.as_ref().content()) };
        let mut kept = Vec::new();
        let mut value = 0;
        if fresh {
            value = self.generation.image.count(key.graph, key.predicate);
            if value > 0 {
                kept.push((0, value));
            }
        }
        if let Content::Counter(counter) = content {
            value = counter.value;
            kept = self.kept_counts(counter);
        }
        let value = match operation {
            Operation::Insert => value + statements,
            Operation::Delete => value - statements,
        };
        let older = kept.into_iter().rev().fold(None, |older, (sn, value)| {
            Some(Box::new(Counter { sn, value, older }))
        });
        let counter = Counter {
            sn: self.sn,
            value,
            older,
        };
        self.state.live_bytes += counter.bytes() as isize;
        // SAFETY: this is the writer.
        let old = unsafe { reached.publish_counter(counter) };
        self.state.retire(old);
        if fresh {
            self.insert_cell(cell, key);
        }
    }

    /// The earlier counts that some reader can still ask for, newest first.
    fn kept_counts(&self, counter: &Counter) -> Vec<(u64, u64)> {
        let mut kept = Vec::new();
        let mut newer = self.sn;
        let mut next = Some(counter);
        while let Some(count) = next {
            if count.sn != self.sn && !self.retained.same_to_all(count.sn, newer) {
                kept.push((count.sn, count.value));
                newer = count.sn;
            }
            if count.sn <= self.retained.floor {
                break;
            }
            next = count.older.as_deref();
        }
        kept
    }
}
