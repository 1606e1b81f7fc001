//! Timed work between inputs: logged advances of streams that have no time of their own, cuts for
//! freshness, pins that were held for too long, and memory that is no longer read.

use super::Sequencer;
use crate::error::RuntimeError;
use somersault_model::Millis;
use std::time::{Duration, Instant};

/// How often idle and ARRIVAL TIME streams are checked.
const TICK: Duration = Duration::from_millis(20);
/// How often pins are checked, and the memory that only pins kept.
const EXPIRY: Duration = Duration::from_secs(1);
/// How far an ARRIVAL TIME stream may be ahead of the clock before a warning is logged.
pub(crate) const CLOCK_SLACK: Millis = Millis(10_000);
/// The number of reclaimable terms checked at each tick, where no new terms pay for it.
const RECLAIMED_AT_A_TICK: usize = 1024;

impl Sequencer {
    /// Does what is due by now.
    pub(super) fn on_timers(&mut self) {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.shared.store.dictionary().tidy(RECLAIMED_AT_A_TICK);
            // Time waits for shards as inputs do: the number of SNs that are cut and not stable
            // must stay bounded.
            let goes_on = self.shared.clock.ticks() && !self.shards_are_behind();
            if goes_on && self.refuse_if_failed().is_ok() {
                let now_ms = self.shared.clock.now_ms();
                let inputs = self.shared.coordinator.lock().on_tick(now_ms);
                for input in inputs {
                    // Time waits for slow queries as pushes do.
                    if self.must_wait(&input) {
                        continue;
                    }
                    if let Err(error) = self.take_input(input) {
                        tracing::warn!("a stream's time could not go on: {error}");
                    }
                }
            }
        }
        if now >= self.next_expiry {
            self.next_expiry = now + EXPIRY;
            let expired = self
                .shared
                .store
                .snapshots()
                .expire(self.shared.pin_clock.now_ms());
            if expired > 0 {
                tracing::warn!("{expired} snapshots were pinned for too long and given up");
            }
            self.free_superseded();
            self.warn_of_clock();
            let floor = self.shared.store.snapshots().floor();
            self.shared.store.slices().forget_superseded(floor);
        }
        if let Some(since) = self.pending_since
            && !self.behind
            && now >= since + self.shared.config.freshness
            && self.refuse_if_failed().is_ok()
            && let Err(error) = self.cut_all()
        {
            tracing::warn!("no cut could be made: {error}");
        }
    }

    /// Warns once for each ARRIVAL TIME stream that the clock is behind.
    fn warn_of_clock(&mut self) {
        if !self.shared.clock.ticks() {
            return;
        }
        let now_ms = self.shared.clock.now_ms();
        let ahead = (self.shared.coordinator.lock()).ahead_of_clock(now_ms, CLOCK_SLACK);
        for (stream, by) in &ahead {
            if !self.ahead_of_clock.contains(stream) {
                tracing::warn!(
                    "the time of stream <{stream}> is {} s ahead of the clock, which was set back; until the clock gets there its \
                     statements have that time and no close comes due",
                    by.0 / 1_000
                );
            }
        }
        self.ahead_of_clock = ahead.into_iter().map(|(stream, _)| stream).collect();
    }

    /// Lets the shards free what large loads have replaced, once it is no longer read. Without
    /// further writes, no SN would do it.
    fn free_superseded(&mut self) {
        if self.shared.store.superseded() > 0
            && let Err(error) = self.fabric.tidy()
        {
            self.fail(RuntimeError::Fabric(error));
        }
    }

    /// The time until the next timer is due.
    pub(super) fn until_timer(&self) -> Duration {
        let now = Instant::now();
        let mut next = self.next_expiry;
        if self.shared.clock.ticks() {
            next = next.min(self.next_tick);
        }
        // Where no more cuts are made, waiting for one would spin.
        if let Some(since) = self.pending_since
            && !self.behind
            && self.refuse_if_failed().is_ok()
        {
            next = next.min(since + self.shared.config.freshness);
        }
        if let Some((until, _)) = &self.stopping {
            next = next.min(*until);
        }
        next.saturating_duration_since(now)
    }
}
