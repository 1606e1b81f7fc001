//! Firings that became due and are not done, and the slices that they read.
//!
//! Before changing anything here: when a firing is done follows its pace, so nothing that the
//! coordinator decides while it applies a record depends on what is here, but for what is retired.

use crate::protocol::firing::{Firing, FiringKey};
use rustc_hash::FxHashMap;
use somersault_model::{BatchNumber, QueryUid, Sn, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// The firings that are not done.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedFirings {
    /// For each SN with such firings: their number, and the batches that they hold.
    by_sn: BTreeMap<Sn, HeldSlices>,
    /// The SN of each firing; looked up only.
    sn_of: FxHashMap<FiringKey, Sn>,
    /// For each stream: the first batch that the firings of an SN read.
    first_read: BTreeMap<StreamUid, BTreeSet<(BatchNumber, Sn)>>,
    /// The streams whose slices are held by others than when this was last asked for.
    changed: BTreeSet<StreamUid>,
}

/// The unfinished firings of one SN.
#[derive(Debug, Default)]
struct HeldSlices {
    firings: usize,
    /// For each stream that they window: the first batch that they read.
    from: BTreeMap<StreamUid, BatchNumber>,
}

impl UnfinishedFirings {
    /// Holds the slices of a firing until it is done.
    pub(crate) fn hold(&mut self, firing: &Firing) {
        let held = self.by_sn.entry(firing.sn).or_default();
        held.firings += 1;
        for window in firing.windows.iter() {
            let before = held.from.get(&window.stream).copied();
            if before.is_none_or(|before| window.lo < before) {
                let read = self.first_read.entry(window.stream).or_default();
                if let Some(before) = before {
                    read.remove(&(before, firing.sn));
                }
                read.insert((window.lo, firing.sn));
                held.from.insert(window.stream, window.lo);
                self.changed.insert(window.stream);
            }
        }
        self.sn_of.insert(firing.key(), firing.sn);
    }

    /// Notes that a firing is done. Returns its SN, and the streams whose slices are held no
    /// longer; `None` if it was done before.
    pub(crate) fn finish(&mut self, key: FiringKey) -> Option<(Sn, Vec<StreamUid>)> {
        let sn = self.sn_of.remove(&key)?;
        let held = self.by_sn.get_mut(&sn)?;
        held.firings -= 1;
        if held.firings > 0 {
            return Some((sn, Vec::new()));
        }
        let from = std::mem::take(&mut held.from);
        self.by_sn.remove(&sn);
        for (uid, batch) in &from {
            if let Some(read) = self.first_read.get_mut(uid) {
                read.remove(&(*batch, sn));
                if read.is_empty() {
                    self.first_read.remove(uid);
                }
            }
        }
        self.changed.extend(from.keys());
        Some((sn, from.into_keys().collect()))
    }

    /// The first batch of a stream that an unfinished firing reads.
    pub(crate) fn first_read(&self, uid: StreamUid) -> Option<BatchNumber> {
        let (batch, _) = self.first_read.get(&uid)?.first()?;
        Some(*batch)
    }

    /// The number of unfinished firings of a query.
    pub(crate) fn count_of(&self, query: QueryUid) -> usize {
        let keys = self.sn_of.keys();
        keys.filter(|key| key.query == query).count()
    }

    /// Returns the streams whose held slices have changed since the last time.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<StreamUid> {
        std::mem::take(&mut self.changed)
    }
}
