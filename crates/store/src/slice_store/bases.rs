//! What the next version of a window is made from: all of it but for its last batch, as one run, made before that batch comes
//! and its firings wait. Only for windows of many batches that are small enough for one run; larger ones have theirs from `levels`.

use super::{StreamSlices, ViewKey};
use crate::WindowVersion;
use somersault_model::BatchNumber;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A window of fewer batches than this is merged at its close: to read so large a part of it as its newest batch is from a run of
/// its own would cost firings more than the merging that they wait for.
const LEAST_BATCHES: i64 = 16;

/// Which windows lack one batch alone until their next close, by the end of the one before.
#[derive(Default)]
pub(super) struct Bases {
    due: BTreeMap<BatchNumber, Vec<ViewKey>>,
}

impl Bases {
    /// The newest version of a window ends at `hi`.
    pub(super) fn expect_next(&mut self, key: ViewKey, hi: BatchNumber) {
        if key.range < LEAST_BATCHES {
            return;
        }
        // The window that another one waited for has been made by now.
        if self.due.first_key_value().is_some_and(|(due, _)| *due < hi) {
            self.due = self.due.split_off(&hi);
        }
        let all_but_one = BatchNumber(hi.0.saturating_add(key.step - 1));
        self.due.entry(all_but_one).or_default().push(key);
    }

    /// The windows that lack one batch when all before `hi` have come; those for which that was so earlier are forgotten.
    fn take(&mut self, hi: BatchNumber) -> Vec<ViewKey> {
        let later = self.due.split_off(&hi.next());
        let mut passed = std::mem::replace(&mut self.due, later);
        passed.remove(&hi).unwrap_or_default()
    }
}

impl StreamSlices {
    /// Makes what the windows will be made from that close with the batch `hi`. All slices before it have come.
    pub(super) fn make_bases(&self, hi: BatchNumber) {
        let due = self.bases.lock().take(hi);
        for key in due {
            let Some(view) = self.views.lock().get(&key).map(Arc::clone) else {
                continue;
            };
            let lo = BatchNumber((hi.0 + 1).saturating_sub(key.range));
            let (generation, slices) = self.range(lo, hi);
            // Merged without the lock: a firing may ask for the version that there is.
            let previous: Vec<Arc<WindowVersion>> = {
                let view = view.lock();
                let latest = view.latest.iter();
                let latest = latest.filter(|(made, _)| *made == generation);
                let latest = latest.map(|(_, version)| version);
                view.base.iter().chain(latest).map(Arc::clone).collect()
            };
            let mut previous = previous.iter();
            let previous = previous.find(|version| version.run_count() == 1);
            let base = WindowVersion::base(previous.map(|it| &**it), slices, lo, hi);
            view.lock().base = base.map(Arc::new);
        }
    }
}
