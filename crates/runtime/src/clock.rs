//! The clock, passed in by the caller: the core reads none (S6).

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> i64;

    /// Whether time advances by itself: only then are idle and ARRIVAL TIME streams advanced.
    fn ticks(&self) -> bool;

    /// The instant by which timers and deadlines go; it never goes back.
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// One reading of a clock.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The instant.
    pub at: Instant,
    /// Milliseconds since the Unix epoch.
    pub ms: i64,
}

impl Now {
    /// Reads a clock.
    pub fn read(clock: &dyn Clock) -> Now {
        Now {
            at: clock.instant(),
            ms: clock.now_ms(),
        }
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the engine reads the wall clock; what it reads goes into records"
    )]
    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |elapsed| elapsed.as_millis() as i64)
    }

    fn ticks(&self) -> bool {
        true
    }
}

/// A clock that stands still; only pushes and advances move event time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManualClock;

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        0
    }

    fn ticks(&self) -> bool {
        false
    }
}
