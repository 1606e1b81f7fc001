//! The pace of the lane that writes checkpoints: at most a share of the time while the engine has
//! other work.
//!
//! Before changing anything here: this is a policy without a clock and without a thread. The lane
//! tells it the time between any two small parts, and rests for as long as it says.
//!
//! 1. The lane works for [`PORTION`]; if nothing else is due then, it goes on at once.
//! 2. While inputs or firings are due, it then rests until it has worked for one part of
//!    [`PARTS`] of the time since its last rest.
//! 3. The share doubles every [`DOUBLED_AFTER`], so that a checkpoint of any size ends. Until then
//!    slices and replaced lists stay in memory, and the log grows.

use std::time::{Duration, Instant};

/// The time for which the lane works before it rests.
const PORTION: Duration = Duration::from_micros(500);
/// At first the lane works for one of this number of parts of the time.
const PARTS: u32 = 8;
/// The time after which the share doubles.
const DOUBLED_AFTER: Duration = Duration::from_secs(60);
/// The longest rest. A lane that was preempted has not worked for all of the time that passed.
const LONGEST_REST: Duration = Duration::from_millis(20);

/// The times of one checkpoint that is being written.
#[derive(Debug)]
pub(super) struct Pace {
    begun: Instant,
    /// When the last rest ended.
    rested: Instant,
}

impl Pace {
    /// The pace of a checkpoint whose writing begins now.
    pub(super) fn new(now: Instant) -> Pace {
        Pace {
            begun: now,
            rested: now,
        }
    }

    /// The rest that is due between two small parts; none, if nothing else is due.
    pub(super) fn rest(&mut self, now: Instant, is_busy: impl FnOnce() -> bool) -> Duration {
        let worked = now.saturating_duration_since(self.rested);
        if worked < PORTION {
            return Duration::ZERO;
        }
        if !is_busy() {
            self.rested = now;
            return Duration::ZERO;
        }
        let rest = (worked * (self.parts(now) - 1)).min(LONGEST_REST);
        self.rested = now + rest;
        rest
    }

    /// The number of parts of the time, of which the lane works for one.
    fn parts(&self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.begun);
        let doubled = passed.as_secs() / DOUBLED_AFTER.as_secs();
        (PARTS >> doubled.min(31)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of one second that a lane works. The lane looks at the clock every 100 µs; the
    /// second begins `begun_before_s` seconds after the lane has begun.
    fn share(begun_before_s: u64, is_busy: bool) -> f64 {
        let step = Duration::from_micros(100);
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let first = begun + Duration::from_secs(begun_before_s);
        pace.rested = first;
        let (mut now, mut worked) = (first, Duration::ZERO);
        while now < first + Duration::from_secs(1) {
            (now, worked) = (now + step, worked + step);
            now += pace.rest(now, || is_busy);
        }
        worked.as_secs_f64() / now.duration_since(first).as_secs_f64()
    }

    #[test]
    fn beside_other_work_the_share_is_kept_and_doubles_with_time() {
        for (after_s, parts) in [
            (0, 8.0),
            (59, 8.0),
            (60, 4.0),
            (120, 2.0),
            (180, 1.0),
            (9_999, 1.0),
        ] {
            let share = share(after_s, true);
            assert!(
                (share * parts - 1.0).abs() < 0.02,
                "{share} after {after_s} s"
            );
        }
    }

    #[test]
    fn without_other_work_nothing_is_waited_for() {
        assert!((share(0, false) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_lane_that_was_preempted_rests_no_longer_than_others() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let rest = pace.rest(begun + Duration::from_secs(5), || true);
        assert_eq!(rest, LONGEST_REST);
    }
}
