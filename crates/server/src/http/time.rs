//! Durations in JSON.

use std::time::Duration;

/// Returns a duration in whole microseconds, for JSON.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
