//! The windows that an SN's firings read, made before the SN is stable: the last shard to finish
//! the SN's slices slides them, so that no firing's execution has to. They are handed over with the
//! firings; the store would make the same ones (S11).

use somersault_model::Sn;
use somersault_store::{Store, ViewKey, WindowVersion};
use somersault_stream::{Output, WindowBatches};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The distinct windows of one SN's firings. Holding this keeps the versions alive: the injectors
/// may be several closes ahead of a firing, and the store keeps the newest version only.
#[derive(Debug)]
pub struct DueWindows {
    sn: Sn,
    /// Each window with its index in `versions`.
    windows: HashMap<WindowBatches, usize>,
    shards_left: AtomicUsize,
    versions: OnceLock<Vec<Arc<WindowVersion>>>,
}

impl DueWindows {
    /// The windows of the firings that these outputs make due; `None` if all of them are sure to be
    /// empty. Each of `shards` shards has to call [`DueWindows::shard_done`].
    pub(crate) fn of(outputs: &[Output], shards: u16) -> Option<Arc<DueWindows>> {
        let mut due = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Due(firing) => Some(firing),
                _ => None,
            })
            .peekable();
        // The outputs are of one record, and it cuts one SN at most.
        let sn = due.peek()?.sn;
        // An amended firing makes its own windows when it has its turn: one late statement may
        // amend thousands of closes, and all their versions would be made before any of them is
        // read.
        let first_revisions = due.filter(|firing| firing.revision == 0);
        let made_before = first_revisions
            .flat_map(|firing| firing.windows.iter())
            // A window of a number of statements belongs to one firing alone, which makes it.
            .filter(|window| window.statements.is_none() && window.lo < window.hi);
        let mut windows = HashMap::new();
        for window in made_before {
            let next = windows.len();
            windows.entry(*window).or_insert(next);
        }
        (!windows.is_empty()).then(|| {
            Arc::new(DueWindows {
                sn,
                windows,
                shards_left: AtomicUsize::new(shards.into()),
                versions: OnceLock::new(),
            })
        })
    }

    /// Notes that one more shard has applied the SN, and all SNs before. The last one makes the
    /// versions: only then is every slice of every window there.
    pub(crate) fn shard_done(&self, store: &Store) {
        // Release and acquire: the last shard sees all that the others have written.
        if self.shards_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut windows: Vec<(&WindowBatches, &usize)> = self.windows.iter().collect();
            windows.sort_unstable_by_key(|(_, place)| **place);
            let versions = windows
                .into_iter()
                .map(|(window, _)| window_version(store, window, self.sn));
            // Each shard calls this once, so the versions were not set before.
            let _ = self.versions.set(versions.collect());
        }
    }

    /// The version of a window, if it is among these and they are made.
    pub(crate) fn version(&self, window: &WindowBatches) -> Option<Arc<WindowVersion>> {
        let place = *self.windows.get(window)?;
        self.versions.get()?.get(place).map(Arc::clone)
    }
}

/// The version of a window that a firing at this SN sees.
pub fn window_version(store: &Store, window: &WindowBatches, sn: Sn) -> Arc<WindowVersion> {
    if window.lo >= window.hi {
        return WindowVersion::empty();
    }
    if let Some(part) = window.statements {
        let (first, last) = (part.skip as usize, part.upto as usize);
        return (store.slices()).stretch(window.stream, (window.lo, first), (window.hi, last));
    }
    let shape = window.shape;
    let view = ViewKey {
        range: shape.range,
        until: shape.until,
        step: shape.step,
    };
    let batches = (window.lo, window.hi);
    store.slices().window_at(window.stream, batches, view, sn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{Apply, Injectors, ShardWork, SliceKind, SliceWork};
    use somersault_model::{
        BatchNumber, EventTime, Millis, Placement, QueryUid, ShardId, StreamUid, TermId,
        TimedTriple, TripleIds,
    };
    use somersault_store::ShardBatch;
    use somersault_stream::{BatchShape, Firing};

    const STREAM: StreamUid = StreamUid(3);

    fn window(lo: i64, hi: i64) -> WindowBatches {
        WindowBatches {
            stream: STREAM,
            lo: BatchNumber(lo),
            hi: BatchNumber(hi),
            shape: BatchShape {
                range: 2,
                until: 0,
                step: 1,
            },
            statements: None,
        }
    }

    fn due(lo: i64, hi: i64) -> Output {
        Output::Due(Firing {
            query: QueryUid(1),
            members: 0,
            close: EventTime(hi),
            ordinal: 0,
            revision: 0,
            repeated: false,
            sn: Sn(1),
            windows: [window(lo, hi)].into(),
            changed: None,
            complete_from: None,
        })
    }

    fn work(shard: u16, batches: &[i64], windows: &Arc<DueWindows>) -> ShardWork {
        let placement = Placement::new(2);
        let slices = batches.iter().map(|number| SliceWork {
            stream: STREAM,
            batch: BatchNumber(*number),
            interval: Millis(1),
            statements: vec![TimedTriple {
                at: EventTime(*number),
                triple: TripleIds::new(
                    TermId::from_raw(1 << 60 | *number as u64),
                    TermId::from_raw(1 << 60 | 99),
                    TermId::from_raw(1 << 60 | 7),
                ),
            }],
            lease: None,
            kind: SliceKind::Whole,
        });
        ShardWork {
            batch: ShardBatch::split(&[], placement).swap_remove(usize::from(shard)),
            prepared: Vec::new(),
            slices: slices.collect(),
            windows: Some(Arc::clone(windows)),
        }
    }

    #[test]
    fn one_window_is_made_once_and_an_empty_one_not_at_all() {
        let windows = DueWindows::of(&[due(0, 2), due(0, 2), due(5, 5)], 1).unwrap();
        assert_eq!(windows.windows.len(), 1);
        assert!(DueWindows::of(&[due(5, 5)], 1).is_none());
    }

    #[test]
    fn amended_firings_make_their_windows_themselves() {
        let amended = (0..100).map(|close| match due(close, close + 2) {
            Output::Due(firing) => Output::Due(Firing {
                revision: 1,
                ..firing
            }),
            other => other,
        });
        let mut outputs: Vec<Output> = amended.collect();
        assert!(DueWindows::of(&outputs, 1).is_none());
        outputs.push(due(7, 9));
        assert_eq!(DueWindows::of(&outputs, 1).unwrap().windows.len(), 1);
    }

    #[test]
    fn many_windows_are_not_compared_with_each_other() {
        // Comparing them in pairs would take 10^11 steps.
        let outputs: Vec<Output> = (0..500_000).map(|close| due(close, close + 2)).collect();
        let windows = DueWindows::of(&outputs, 1).unwrap();
        assert_eq!(windows.windows.len(), outputs.len());
    }

    #[test]
    fn the_last_shard_makes_what_a_firing_would_make_itself() {
        let store = Store::new(2);
        let injectors = Injectors::new(&store).unwrap();
        let windows = DueWindows::of(&[due(0, 2)], 2).unwrap();
        injectors.apply(ShardId(1), Sn(1), work(1, &[1], &windows));
        assert!(
            windows.version(&window(0, 2)).is_none(),
            "shard 0 has not come yet"
        );
        injectors.apply(ShardId(0), Sn(1), work(0, &[0], &windows));
        let window = window(0, 2);
        let made = windows.version(&window).unwrap();
        assert_eq!(made.len(), 2);
        let asked = window_version(&store, &window, windows.sn);
        assert!(Arc::ptr_eq(&made, &asked), "the store has it ready");

        // Another close follows, and the first version stays as long as a firing may read it.
        let next = DueWindows::of(&[due(1, 3)], 2).unwrap();
        injectors.apply(ShardId(0), Sn(2), work(0, &[2], &next));
        injectors.apply(ShardId(1), Sn(2), work(1, &[], &next));
        let asked = window_version(&store, &window, windows.sn);
        assert!(Arc::ptr_eq(&made, &asked));

        // Once the versions are no longer needed, retiring the slices drops them too.
        let weak = Arc::downgrade(&next.version(&self::window(1, 3)).unwrap());
        drop((windows, next, made, asked));
        store.slices().retire(STREAM, BatchNumber(3));
        assert!(weak.upgrade().is_none());
        assert_eq!(store.slices().memory_bytes(STREAM), 0);
    }
}
