//! The counters and times of firings.
//!
//! The one thing to know before changing it: thousands of queries may not have fired yet, so a
//! recorder takes memory only from its first duration on.

use crate::saved::SavedTally;
use hdrhistogram::Histogram;
use std::fmt;
use std::time::Duration;

/// A distribution of durations.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Latency {
    /// Number of durations measured.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// Half of them took at most this.
    pub p50: Duration,
    /// 90 of 100 took at most this.
    pub p90: Duration,
    /// 99 of 100 took at most this.
    pub p99: Duration,
    /// The longest.
    pub max: Duration,
    /// (upper bound in seconds, number of durations up to it), ascending.
    pub buckets: Vec<(f64, u64)>,
}

/// Counters of a continuous query, or of a group of queries of one shape.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QueryMetrics {
    /// Its name; for a group, the name of one of its queries.
    pub name: String,
    /// Number of queries of one shape that it stands for, those of its group.
    pub members: u64,
    /// Firings, empty ones included; for a group, one for each close.
    pub firings: u64,
    /// Answers that these firings gave to its queries.
    pub executions: u64,
    /// Answers that had rows.
    pub nonempty: u64,
    /// Closes that were skipped because their windows held nothing.
    pub skipped_empty: u64,
    /// Firings that were not executed because a newer one was due (ON OVERLOAD SKIP).
    pub skipped: u64,
    /// Firings that failed.
    pub failed: u64,
    /// Rows in all answers.
    pub rows: u64,
    /// Approximate memory of the answers that are kept for subscribers, in bytes.
    pub kept_bytes: u64,
    /// Start of execution → answer ready.
    pub execution: Latency,
    /// Last needed statement acknowledged → answer ready.
    pub delay: Latency,
    /// The part of the delay spent waiting behind other queries.
    pub waiting: Latency,
}

/// Records durations in steps of 100 ns, to 1 part in 100. It allocates with the first duration,
/// and only as much as the longest needs, unless it was made by [`Recorder::with_all_room`].
#[derive(Default)]
pub struct Recorder {
    histogram: Option<Box<Histogram<u32>>>,
    sum: Duration,
}

/// The times of one firing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FiringTimes {
    pub(crate) execution: Duration,
    pub(crate) delay: Duration,
    pub(crate) waiting: Duration,
}

/// The times of all firings.
#[derive(Default)]
struct Timings {
    execution: Recorder,
    delay: Recorder,
    waiting: Recorder,
}

/// The counts of a cohort's firings.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) firings: u64,
    /// Answers that these firings gave to queries.
    pub(crate) executions: u64,
    /// Answers that had rows.
    pub(crate) nonempty: u64,
    pub(crate) failed: u64,
    pub(crate) rows: u64,
    pub(crate) skipped_empty: u64,
    pub(crate) skipped: u64,
    /// The error of the newest firing, if it failed.
    pub(crate) last_error: Option<String>,
    /// `None` before the first firing.
    timings: Option<Box<Timings>>,
}

/// The longest duration that is distinguished: one hour.
const LONGEST_STEPS: u64 = 36_000_000_000;

/// Upper bounds of the exported buckets, in microseconds.
const BUCKETS_US: [u64; 20] = [
    10, 20, 50, 100, 130, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000, 1_000_000, 5_000_000, 30_000_000,
];

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("sum", &self.sum)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder that never allocates again, some 15 kB in size.
    pub fn with_all_room() -> Recorder {
        let histogram = Histogram::new_with_max(LONGEST_STEPS, 2)
            .expect("the histogram allows the bound and the precision");
        Recorder {
            histogram: Some(Box::new(histogram)),
            sum: Duration::ZERO,
        }
    }

    /// Adds a duration.
    pub fn record(&mut self, duration: Duration) {
        let steps = (duration.as_nanos() / 100).min(u128::from(LONGEST_STEPS)) as u64;
        self.histogram()
            .record(steps.max(1))
            .expect("the histogram grows to what it is given, which is at most an hour");
        self.sum += duration;
    }

    fn histogram(&mut self) -> &mut Histogram<u32> {
        self.histogram.get_or_insert_with(|| {
            let histogram = Histogram::new(2);
            Box::new(histogram.expect("the precision is one that the histogram allows"))
        })
    }

    /// Adds the durations of another recorder.
    pub fn add(&mut self, other: &Recorder) {
        if let Some(histogram) = &other.histogram {
            self.histogram()
                .add(&**histogram)
                .expect("the histogram grows to what it is given");
        }
        self.sum += other.sum;
    }

    pub(crate) fn quantile(&self, quantile: f64) -> Duration {
        self.histogram.as_ref().map_or(Duration::ZERO, |histogram| {
            Duration::from_nanos(histogram.value_at_quantile(quantile) * 100)
        })
    }

    /// Returns the distribution of the durations.
    pub fn latency(&self) -> Latency {
        let histogram = self.histogram.as_deref();
        let count_up_to = |us: u64| histogram.map_or(0, |it| it.count_between(0, us * 10));
        Latency {
            count: histogram.map_or(0, Histogram::len),
            sum: self.sum,
            p50: self.quantile(0.50),
            p90: self.quantile(0.90),
            p99: self.quantile(0.99),
            max: Duration::from_nanos(histogram.map_or(0, Histogram::max) * 100),
            buckets: BUCKETS_US
                .iter()
                .map(|us| (*us as f64 / 1e6, count_up_to(*us)))
                .collect(),
        }
    }
}

impl Timings {
    fn record(&mut self, took: FiringTimes) {
        self.execution.record(took.execution);
        self.delay.record(took.delay);
        self.waiting.record(took.waiting);
    }

    fn quantiles(&self) -> [[Duration; 2]; 3] {
        [&self.execution, &self.delay, &self.waiting]
            .map(|recorder| [recorder.quantile(0.50), recorder.quantile(0.99)])
    }
}

impl Tally {
    /// Returns p50 and p99 of execution, delay and waiting.
    pub(crate) fn quantiles(&self) -> [[Duration; 2]; 3] {
        let timings = self.timings.as_deref();
        timings.map_or_else(Default::default, Timings::quantiles)
    }

    /// Returns the counts, without the times.
    pub(crate) fn save(&self) -> SavedTally {
        SavedTally {
            firings: self.firings,
            executions: self.executions,
            nonempty: self.nonempty,
            failed: self.failed,
            rows: self.rows,
            skipped_empty: self.skipped_empty,
            skipped: self.skipped,
        }
    }

    /// Returns a tally that goes on with these counts; the times begin again.
    pub(crate) fn restore(saved: SavedTally, last_error: Option<String>) -> Tally {
        Tally {
            firings: saved.firings,
            executions: saved.executions,
            nonempty: saved.nonempty,
            failed: saved.failed,
            rows: saved.rows,
            skipped_empty: saved.skipped_empty,
            skipped: saved.skipped,
            last_error,
            timings: None,
        }
    }

    /// Counts a firing, except its rows.
    pub(crate) fn fired(&mut self, took: FiringTimes, error: Option<String>) {
        self.firings += 1;
        self.failed += u64::from(error.is_some());
        self.last_error = error;
        self.timings.get_or_insert_default().record(took);
    }

    /// Counts closes that were passed without a firing.
    pub(crate) fn passed(&mut self, count: u64) {
        self.skipped_empty += count;
    }

    pub(crate) fn metrics(&self, name: String, members: u64) -> QueryMetrics {
        let latency = |of: fn(&Timings) -> &Recorder| {
            let timings = self.timings.as_deref();
            timings.map_or_else(|| Recorder::default().latency(), |it| of(it).latency())
        };
        QueryMetrics {
            name,
            members,
            firings: self.firings,
            executions: self.executions,
            nonempty: self.nonempty,
            skipped_empty: self.skipped_empty,
            skipped: self.skipped,
            failed: self.failed,
            rows: self.rows,
            kept_bytes: 0,
            execution: latency(|timings| &timings.execution),
            delay: latency(|timings| &timings.delay),
            waiting: latency(|timings| &timings.waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorder_with_all_room_keeps_its_size() {
        let mut recorder = Recorder::with_all_room();
        let room = recorder.histogram().distinct_values();
        for seconds in [0, 1, 3_599, 100_000] {
            recorder.record(Duration::from_secs(seconds));
        }
        assert_eq!(recorder.histogram().distinct_values(), room);
        assert_eq!(recorder.latency().count, 4);
    }

    #[test]
    fn durations_of_any_length_are_recorded_and_take_memory_only_then() {
        let mut recorder = Recorder::default();
        assert!(recorder.histogram.is_none());
        assert_eq!(recorder.latency().count, 0);
        assert_eq!(recorder.quantile(0.99), Duration::ZERO);
        for micros in [0, 1, 1_000] {
            recorder.record(Duration::from_micros(micros));
        }
        assert!(recorder.histogram().distinct_values() <= 2048);
        let mut all = Recorder::default();
        all.record(Duration::from_secs(100_000));
        all.add(&recorder);
        let latency = all.latency();
        assert_eq!(latency.count, 4);
        assert!(
            latency.p50 <= Duration::from_micros(2) && latency.max >= Duration::from_secs(3600)
        );
        let up_to = |seconds: f64| {
            let mut buckets = latency.buckets.iter();
            buckets
                .find(|(bound, _)| *bound == seconds)
                .map(|(_, count)| *count)
        };
        assert_eq!(
            [up_to(1e-5), up_to(1e-3), up_to(30.0)],
            [Some(2), Some(3), Some(3)]
        );
    }
}
