//! The base of the next version of a window: all of it except its last batch, as one run, made
//! before that batch arrives and its firings wait. Only for windows of many batches that are small
//! enough for one run; larger ones have their runs from `levels`.

use super::{StreamSlices, ViewKey};
use crate::windows::WindowVersion;
use crate::windows::window::Before;
use somersault_model::BatchNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A window of fewer batches is merged at its close. Its newest batch is so large a part of it that
/// reading the batch from a run of its own would cost firings more than waiting for the merge.
const LEAST_BATCHES: i64 = 16;

/// The windows that lack only one batch until their next close, by the end of the previous close.
#[derive(Default)]
pub(super) struct Bases {
    due: BTreeMap<BatchNumber, BTreeSet<ViewKey>>,
}

impl Bases {
    /// Records that the newest version of a window ends at `hi`. May be called again for a version
    /// that was made again.
    pub(super) fn expect_next(&mut self, key: ViewKey, hi: BatchNumber) {
        if key.range < LEAST_BATCHES {
            return;
        }
        // The window that another one waited for has been made by now.
        if self.due.first_key_value().is_some_and(|(due, _)| *due < hi) {
            self.due = self.due.split_off(&hi);
        }
        let all_but_one = BatchNumber(hi.0.saturating_add(key.step - 1));
        self.due.entry(all_but_one).or_default().insert(key);
    }

    /// Takes the windows that lack one batch once all before `hi` have arrived. Windows for which
    /// that was true earlier are forgotten.
    fn take(&mut self, hi: BatchNumber) -> BTreeSet<ViewKey> {
        let later = self.due.split_off(&hi.next());
        let mut passed = std::mem::replace(&mut self.due, later);
        passed.remove(&hi).unwrap_or_default()
    }
}

impl StreamSlices {
    /// Makes the bases of the windows that close with the batch `hi`. All slices before it have
    /// arrived.
    pub(super) fn make_bases(&self, hi: BatchNumber) {
        let due = self.bases.lock().take(hi);
        for key in due {
            let Some(view) = self.views.lock().get(&key).map(Arc::clone) else {
                continue;
            };
            // Merged without the lock, since a firing may ask for the existing version.
            let (base, latest) = {
                let view = view.lock();
                let latest = view.latest.as_ref();
                (
                    view.base.clone(),
                    latest.map(|(_, version)| Arc::clone(version)),
                )
            };
            // As far back as the window reaches, but not before it began.
            let begun = latest.as_ref().map(|latest| latest.batches().0);
            let lo = BatchNumber((hi.0 + 1).saturating_sub(key.range)).max(begun.unwrap_or(hi));
            let before = Before {
                base: base.as_deref(),
                latest: latest.as_deref(),
                amended: None,
            };
            let slices = self.range(lo, hi).1;
            let base = WindowVersion::base(before, &slices, lo, hi).map(Arc::new);
            let mut view = view.lock();
            // Another shard may have been here sooner, and further.
            if view
                .base
                .as_ref()
                .is_none_or(|there| there.batches().1 < hi)
            {
                view.base = base;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_requests_for_a_merge_are_due_once() {
        let key = |step| ViewKey {
            range: LEAST_BATCHES,
            until: 0,
            step,
        };
        let mut bases = Bases::default();
        for _ in 0..10 {
            bases.expect_next(key(4), BatchNumber(20));
            bases.expect_next(key(8), BatchNumber(20));
        }
        assert!(bases.take(BatchNumber(22)).is_empty());
        assert_eq!(bases.take(BatchNumber(23)), BTreeSet::from([key(4)]));
        bases.expect_next(key(8), BatchNumber(28));
        assert!(bases.take(BatchNumber(34)).is_empty());
        assert_eq!(bases.take(BatchNumber(35)), BTreeSet::from([key(8)]));
        let narrow = ViewKey {
            range: LEAST_BATCHES - 1,
            ..key(1)
        };
        bases.expect_next(narrow, BatchNumber(40));
        assert!(bases.due.is_empty(), "it is merged at its close");
    }
}
