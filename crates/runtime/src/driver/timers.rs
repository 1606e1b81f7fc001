//! What time brings, looked at between inputs: logged advances of streams that have none of their
//! own, cuts that freshness asks for, pins that were held for too long, and memory that nobody
//! reads any more.

use super::sequencer::Sequencer;
use crate::error::RuntimeError;
use somersault_model::Millis;
use std::time::{Duration, Instant};

/// How often idle and arrival-time streams are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often pins are looked at, and what only they kept.
const EXPIRY: Duration = Duration::from_secs(1);
/// How far an ARRIVAL TIME stream may be ahead of the clock before that is worth a word.
pub(super) const CLOCK_SLACK: Millis = Millis(10_000);
/// So many terms that have gone are looked at then, where nothing comes that pays for it.
const RECLAIMED_AT_A_TICK: usize = 1024;

impl Sequencer {
    /// Does what is due by now.
    pub(super) fn on_timers(&mut self) {
        let now = Instant::now();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.shared.store.dictionary().tidy(RECLAIMED_AT_A_TICK);
            // Time waits for shards as inputs do: what is cut and not stable must not grow without
            // end.
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

    /// Says once of each ARRIVAL TIME stream that the clock is behind it.
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

    /// Has the shards free what large loads have replaced, once nobody reads it: where nothing more
    /// is written, no SN would come to do it.
    fn free_superseded(&mut self) {
        if self.shared.store.superseded() > 0
            && let Err(error) = self.fabric.tidy()
        {
            self.fail(RuntimeError::Fabric(error));
        }
    }

    /// How long nothing is due.
    pub(super) fn until_timer(&self) -> Duration {
        let now = Instant::now();
        let mut next = self.next_expiry;
        if self.shared.clock.ticks() {
            next = next.min(self.next_tick);
        }
        // Where no cut is made any more, waiting for one would be turning round and round.
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
