//! How many one-shot queries run or wait, against the limit of how many may. Threads that answer light
//! queries one after the other would all write to that one count, twice for each; so each lane keeps one
//! place that was given up for the next query of its threads. A kept place still counts as taken; who
//! finds all taken takes one that a lane keeps, so that no query is refused for the sake of none.

use super::lanes::{LANES, own};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
pub(super) struct Places {
    limit: u64,
    /// Places that are taken or kept.
    taken: AtomicU64,
    kept: Box<[Kept]>,
}

/// Whether a lane keeps a place. A cache line of its own, and the one that is fetched along with it.
#[repr(align(128))]
struct Kept(AtomicBool);

impl Places {
    pub(super) fn new(limit: u64) -> Places {
        let kept = std::iter::repeat_with(|| Kept(AtomicBool::new(false)));
        Places {
            limit,
            taken: AtomicU64::new(0),
            kept: kept.take(LANES).collect(),
        }
    }

    /// Takes a place; `false` where as many queries as may be run or wait.
    pub(super) fn take(&self) -> bool {
        let order = Ordering::Relaxed;
        let one_more = |taken: u64| (taken < self.limit).then_some(taken + 1);
        self.kept[own()].take()
            || self.taken.fetch_update(order, order, one_more).is_ok()
            || self.kept.iter().any(Kept::take)
    }

    /// Gives a place up.
    pub(super) fn give(&self) {
        // Of two places a lane keeps one.
        if self.kept[own()].0.swap(true, Ordering::Relaxed) {
            self.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Kept {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_may_be_get_a_place_whoever_gave_one_up() {
        let places = Places::new(3);
        let take = || (0..5).filter(|_| places.take()).count();
        assert_eq!(take(), 3);
        // Other threads give up what this one took, each perhaps in a lane of its own.
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| places.give());
            }
        });
        assert_eq!(take(), 3);
        (0..3).for_each(|_| places.give());
        assert_eq!(take(), 3);
    }

    #[test]
    fn there_are_never_more_than_may_be() {
        let places = Places::new(2);
        let inside = AtomicU64::new(0);
        let most = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..5_000 {
                        if !places.take() {
                            std::thread::yield_now();
                            continue;
                        }
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        places.give();
                    }
                });
            }
        });
        assert!((1..=2).contains(&most.into_inner()));
        assert!(places.take() && places.take() && !places.take());
    }
}
