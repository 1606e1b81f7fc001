//! The limit on times that lie ahead, which keeps one wrong time from stopping a stream.
//!
//! Before changing anything here: the limit is judged at admission alone and never by `apply`. The
//! records of the log were admitted, so a replay with another limit gives the same state.

use super::clock::StreamClock;
use somersault_model::{EventTime, Millis};
use std::fmt;

/// The distance by which the first time of a stream may lie ahead of the clock: a hundred years.
const FIRST_AHEAD: Millis = Millis(36_525 * 86_400_000);

/// Limits on what one input may do to streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The distance by which a time may lie ahead of both the stream's newest time and the clock,
    /// where the stream's declaration does not set it (AHEAD). `None`, without a clock, means no
    /// limit.
    pub ahead: Option<Millis>,
    /// The number of closes of one query that a push or an advance may make due.
    pub closes_at_once: u64,
}

impl Default for StreamLimits {
    /// No limit, for a coordinator without a clock.
    fn default() -> Self {
        StreamLimits {
            ahead: None,
            closes_at_once: u64::MAX,
        }
    }
}

/// Follows a stream's newest time through an input, so that the grouping of statements into pushes
/// does not matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AheadGate {
    limit: Option<Millis>,
    newest: Option<EventTime>,
    received: EventTime,
}

/// Why a time does not pass the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooFarAhead {
    pub(crate) limit: Millis,
    /// `None` where the stream has no time yet.
    pub(crate) newest: Option<EventTime>,
}

impl fmt::Display for TooFarAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = spell(self.limit);
        match self.newest {
            None => write!(f, "more than {limit} ahead of the clock"),
            Some(newest) => write!(
                f,
                "more than {limit} ahead of both the clock and the stream's newest time {} ({})",
                newest.0, newest
            ),
        }
    }
}

/// A span in its longest whole unit, as CREATE STREAM takes it.
fn spell(span: Millis) -> String {
    const UNITS: [(i64, &str); 4] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
    ];
    let whole = UNITS.iter().find(|(ms, _)| span.0 > 0 && span.0 % ms == 0);
    whole.map_or_else(
        || format!("{}ms", span.0),
        |(ms, unit)| format!("{}{unit}", span.0 / ms),
    )
}

impl AheadGate {
    /// The gate of a stream for an input received at this time.
    pub(crate) fn new(stream: &StreamClock, received_ms: i64) -> AheadGate {
        AheadGate {
            limit: stream.ahead_limit(),
            newest: stream.newest(),
            received: EventTime(received_ms),
        }
    }

    /// Lets a time through, or says why not.
    pub(crate) fn pass(&mut self, at: EventTime) -> Result<(), TooFarAhead> {
        if let Some(limit) = self.limit {
            // A stream begins where its source says: recorded data may be of any plausible year.
            let limit = match self.newest {
                Some(_) => limit,
                None => limit.max(FIRST_AHEAD),
            };
            let base = self
                .newest
                .map_or(self.received, |it| it.max(self.received));
            if at > base.plus(limit) {
                let newest = self.newest;
                return Err(TooFarAhead { limit, newest });
            }
        }
        self.newest = self.newest.max(Some(at));
        Ok(())
    }
}
