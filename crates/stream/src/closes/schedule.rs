//! The arithmetic of closes: when a query fires and what each of its windows then holds
//! (language.md, *Windows, exactly*).
//!
//! Before changing anything here: these few functions *are* the engine's semantics of time. Closes
//! are `origin + k·S` for every whole k, also before the origin and before the epoch; the content
//! of a window at its close `c` is `c−R ≤ event time < c`. The dull twin in tests/it compares all
//! of it with a list.

use crate::protocol::firing::{BatchShape, BatchSpan};
use crate::streams::adaptor::FARTHEST_MS;
use somersault_lang::{CreateStream, Extent};
use somersault_model::{EventTime, Millis};

/// The closes of a query: the union of arithmetic progressions with one origin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Schedule {
    origin: i64,
    /// Distinct and ascending, none a multiple of another.
    steps: Vec<i64>,
}

impl Schedule {
    /// The closes `origin + k·step` for each of the steps, which are above zero; without steps
    /// there are no closes.
    pub(crate) fn new(origin: EventTime, steps: impl IntoIterator<Item = Millis>) -> Schedule {
        let mut all: Vec<i64> = steps.into_iter().map(|step| step.0).collect();
        assert!(
            all.iter().all(|step| *step > 0),
            "steps are above zero: admission refuses others"
        );
        all.sort_unstable();
        let mut steps: Vec<i64> = Vec::with_capacity(all.len());
        for step in all {
            // A multiple of a smaller step adds no close of its own.
            if !steps.iter().any(|smaller| step % smaller == 0) {
                steps.push(step);
            }
        }
        // Origins that differ by whole steps mean the same closes; with several steps, only
        // identical origins are safe.
        let origin = match steps[..] {
            [] => 0,
            [step] => origin.0.rem_euclid(step),
            _ => origin.0,
        };
        Schedule { origin, steps }
    }

    /// The first close after `time`; the end of time if there is none.
    pub(crate) fn first_after(&self, time: EventTime) -> EventTime {
        let closes = self
            .steps
            .iter()
            .map(|step| latest(self.origin, *step, time.0).saturating_add(*step));
        EventTime(closes.min().unwrap_or(i64::MAX))
    }

    /// The first close at or after `time`.
    pub(crate) fn first_at_or_after(&self, time: EventTime) -> EventTime {
        self.first_after(EventTime(time.0.saturating_sub(1)))
    }

    /// The last close at or before `time`; the beginning of time if there is none.
    pub(crate) fn last_at_or_before(&self, time: EventTime) -> EventTime {
        let closes = self
            .steps
            .iter()
            .map(|step| latest(self.origin, *step, time.0));
        EventTime(closes.max().unwrap_or(i64::MIN))
    }

    /// The longest span that divides all closes.
    pub(crate) fn divisor(&self) -> Millis {
        Millis(greatest_common_divisor(
            self.steps.iter().copied().chain([self.origin]),
        ))
    }

    /// The longest time from one close to the next, at most.
    pub(crate) fn longest_step(&self) -> Millis {
        // The steps ascend, and every close of the shortest is one.
        Millis(self.steps[0])
    }

    /// A time from `first` on until which there are at most this many closes.
    pub(crate) fn after_closes(&self, first: EventTime, closes: u64) -> EventTime {
        let closes = i64::try_from(closes).unwrap_or(i64::MAX);
        let each = closes.saturating_sub(1) / self.steps.len().max(1) as i64;
        EventTime(
            first
                .0
                .saturating_add(self.longest_step().0.saturating_mul(each)),
        )
    }

    /// The number of closes in `first ..= last`, without walking over them.
    pub(crate) fn count(&self, first: EventTime, last: EventTime) -> u64 {
        if last < first {
            return 0;
        }
        // Inclusion and exclusion over the steps. A set of steps whose common multiples miss the
        // span ends its branch, so that the work follows the closes that coincide, not the number
        // of subsets.
        let count = count_union(self.origin, &self.steps, None, first.0, last.0);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// The signed sum over all non-empty subsets of `steps`, each joined with the common multiple
/// `so_far`.
fn count_union(origin: i64, steps: &[i64], so_far: Option<i128>, first: i64, last: i64) -> i128 {
    let mut sum = 0;
    for (at, step) in steps.iter().enumerate() {
        let multiple = match so_far {
            None => i128::from(*step),
            Some(so_far) => lcm(so_far, i128::from(*step)),
        };
        let here = count_multiples(i128::from(origin), multiple, first.into(), last.into());
        if here > 0 {
            sum += here - count_union(origin, &steps[at + 1..], Some(multiple), first, last);
        }
    }
    sum
}

fn count_multiples(origin: i128, step: i128, first: i128, last: i128) -> i128 {
    (last - origin).div_euclid(step) - (first - 1 - origin).div_euclid(step)
}

fn lcm(a: i128, b: i128) -> i128 {
    // A common multiple beyond i128 is beyond every span of event times too.
    (a / gcd(a, b)).checked_mul(b).unwrap_or(i128::MAX)
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The greatest span that divides all of these; 0 if all of them are 0.
pub(crate) fn greatest_common_divisor(spans: impl IntoIterator<Item = i64>) -> i64 {
    let all = spans
        .into_iter()
        .fold(0, |sum, span| gcd(sum, i128::from(span).abs()));
    i64::try_from(all).unwrap_or(i64::MAX)
}

/// The last `origin + k·step` at or before `time`.
fn latest(origin: i64, step: i64, time: i64) -> i64 {
    let since = i128::from(time) - i128::from(origin);
    let close = i128::from(origin) + since.div_euclid(i128::from(step)) * i128::from(step);
    i64::try_from(close).unwrap_or(i64::MIN)
}

/// When a window closes, and its content then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WindowShape {
    /// A span of time.
    Span(Span),
    /// The last `count` statements, closing every `step` statements.
    Statements { count: u64, step: u64 },
}

impl WindowShape {
    /// The shape of a window on its stream; it may depend on the stream's BATCH and KEEP.
    pub(crate) fn new(extent: Extent, origin: EventTime, stream: &CreateStream) -> WindowShape {
        let batch = stream.batch;
        let (range, until, step) = match extent {
            Extent::Time { range, until, step } => (range, until, step.unwrap_or(batch)),
            Extent::Now => (batch, Millis(0), batch),
            // As far back as KEEP, in whole batches.
            Extent::All => {
                let keep = stream.keep.0.min(FARTHEST_MS);
                let range = (keep - keep % batch.0).max(batch.0);
                (Millis(range), Millis(0), batch)
            }
            Extent::Statements { count, step } => return WindowShape::Statements { count, step },
        };
        WindowShape::Span(Span {
            origin,
            range,
            until,
            step,
        })
    }

    /// Whether the window holds an amended batch of its stream at a close.
    pub(crate) fn holds(&self, batch: &BatchSpan, close: EventTime) -> bool {
        // Admission refuses windows of a number of statements over streams that are amended.
        let span = self.span().map(|span| span.span_at(close));
        span.is_some_and(|(from, to)| from <= batch.start && batch.end <= to)
    }

    pub(crate) fn span(&self) -> Option<&Span> {
        match self {
            WindowShape::Span(span) => Some(span),
            WindowShape::Statements { .. } => None,
        }
    }
}

/// A window over a span of time with its origin: it closes every `step`, and then holds `range`,
/// which ends `until` before the close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    pub(crate) origin: EventTime,
    pub(crate) range: Millis,
    pub(crate) until: Millis,
    pub(crate) step: Millis,
}

impl Span {
    /// The latest close of this window at or before `close`, a close of its query.
    pub(crate) fn close_at(&self, close: EventTime) -> EventTime {
        EventTime(latest(self.origin.0, self.step.0, close.0))
    }

    /// The first close of this window that may hold statements before `time`.
    pub(crate) fn first_close_over(&self, time: EventTime) -> EventTime {
        let time = time.plus(self.until);
        let before = latest(self.origin.0, self.step.0, time.0.saturating_sub(1));
        EventTime(before.saturating_add(self.step.0))
    }

    /// The first close of this window whose content begins after this time.
    pub(crate) fn shown_until(&self, at: EventTime) -> EventTime {
        self.first_close_over(at.plus(Millis(self.range.0.saturating_add(1))))
    }

    /// The window, counted in batches of this length, which divides all its spans.
    pub(crate) fn in_batches(&self, interval: Millis) -> BatchShape {
        BatchShape {
            range: self.range.0 / interval.0,
            until: self.until.0 / interval.0,
            step: self.step.0 / interval.0,
        }
    }

    /// The content of the window at a close of its query: `from ≤ event time < to`.
    pub(crate) fn span_at(&self, close: EventTime) -> (EventTime, EventTime) {
        let to = self.close_at(close).minus(self.until);
        (to.minus(self.range), to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(origin: i64, steps: &[i64]) -> Schedule {
        Schedule::new(EventTime(origin), steps.iter().map(|step| Millis(*step)))
    }

    #[test]
    fn closes_are_the_same_whatever_the_first_time_was() {
        let every_second = schedule(0, &[1000]);
        assert_eq!(every_second.first_after(EventTime(999)), EventTime(1000));
        assert_eq!(every_second.first_after(EventTime(1000)), EventTime(2000));
        assert_eq!(
            every_second.first_at_or_after(EventTime(1000)),
            EventTime(1000)
        );
        assert_eq!(every_second.first_after(EventTime(-1)), EventTime(0));
        assert_eq!(every_second, schedule(5000, &[1000, 2000]));
    }

    #[test]
    fn a_window_of_a_longer_step_shows_its_latest_close() {
        let window = Span {
            origin: EventTime(0),
            range: Millis(300),
            until: Millis(0),
            step: Millis(200),
        };
        assert_eq!(
            window.span_at(EventTime(500)),
            (EventTime(100), EventTime(400))
        );
        let past = Span {
            until: Millis(1000),
            ..window
        };
        assert_eq!(
            past.span_at(EventTime(500)),
            (EventTime(-900), EventTime(-600))
        );
        assert_eq!(past.first_close_over(EventTime(-600)), EventTime(400));
        assert_eq!(past.first_close_over(EventTime(-599)), EventTime(600));
        assert_eq!(
            window.span_at(EventTime(600)),
            (EventTime(300), EventTime(600))
        );
    }

    proptest! {
        #[test]
        fn agrees_with_walking_over_every_millisecond(
            origin in -20i64..20,
            steps in proptest::collection::vec(1i64..12, 1..5),
            first in -60i64..60,
            length in 0i64..120,
        ) {
            let schedule = schedule(origin, &steps);
            let is_close = |t: i64| steps.iter().any(|step| (t - origin).rem_euclid(*step) == 0);
            let walked = (first..=first + length).filter(|t| is_close(*t)).count() as u64;
            prop_assert_eq!(schedule.count(EventTime(first), EventTime(first + length)), walked);
            let next = (first + 1..).find(|t| is_close(*t)).expect("closes have no end");
            prop_assert_eq!(schedule.first_after(EventTime(first)), EventTime(next));
            let last = (-1000..=first).rev().find(|t| is_close(*t)).expect("closes have no beginning");
            prop_assert_eq!(schedule.last_at_or_before(EventTime(first)), EventTime(last));
        }
    }
}
