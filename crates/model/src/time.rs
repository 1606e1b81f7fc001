//! Numbers: batches, snapshot numbers, the uids of streams and queries.
//! All of them come from the log; nothing here reads a clock (S6).

use crate::event_time::{EventTime, Millis};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a batch: floor(event time / batch interval).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchNumber(pub i64);

impl BatchNumber {
    /// The batch that `time` falls into, with batches of `interval`.
    ///
    /// # Panics
    /// Where `interval` is not above zero: the declaration of a stream refuses that.
    #[inline]
    pub const fn of(time: EventTime, interval: Millis) -> BatchNumber {
        assert!(interval.0 > 0, "a batch interval is above zero");
        BatchNumber(time.0.div_euclid(interval.0))
    }

    /// When the batch begins (inclusive).
    pub const fn start(self, interval: Millis) -> EventTime {
        EventTime(self.0.saturating_mul(interval.0))
    }

    /// When the batch ends (exclusive).
    pub const fn end(self, interval: Millis) -> EventTime {
        EventTime(self.0.saturating_add(1).saturating_mul(interval.0))
    }

    /// The batch after this one.
    #[must_use]
    pub const fn next(self) -> BatchNumber {
        BatchNumber(self.0 + 1)
    }
}

/// A snapshot number: the state after applying the log up to a named point. Dense, from 0 (the
/// empty store) on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Sn(pub u64);

impl Sn {
    /// The empty store.
    pub const ZERO: Sn = Sn(0);

    /// The SN after this one.
    #[must_use]
    pub const fn next(self) -> Sn {
        Sn(self.0 + 1)
    }
}

impl fmt::Display for Sn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a stream, from CREATE to DROP; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamUid(pub u32);

/// One life of a continuous query, from registration to DROP; never reused (S13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QueryUid(pub u64);

/// One life of a procedure, from CREATE to DROP; never reused. OR REPLACE keeps it. Its order is
/// that of declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcedureUid(pub u32);

/// The place of a message in its stream: 1, 2, … in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_floor_also_before_the_epoch() {
        let interval = Millis(100);
        assert_eq!(BatchNumber::of(EventTime(0), interval), BatchNumber(0));
        assert_eq!(BatchNumber::of(EventTime(99), interval), BatchNumber(0));
        assert_eq!(BatchNumber::of(EventTime(100), interval), BatchNumber(1));
        assert_eq!(BatchNumber::of(EventTime(-1), interval), BatchNumber(-1));
        assert_eq!(BatchNumber(-1).start(interval), EventTime(-100));
        assert_eq!(BatchNumber(-1).end(interval), EventTime(0));
    }
}
