//! Timed work between inputs: logged advances of streams that have no time of their own, and cuts
//! for freshness.

use super::{Phase, Sequencer};
use crate::clock::Now;
use std::time::{Duration, Instant};

/// The interval at which idle and ARRIVAL TIME streams are checked.
const TICK: Duration = Duration::from_millis(20);
/// The longest wait of a sequencer that has no timer.
const IDLE: Duration = Duration::from_secs(3600);

impl Sequencer {
    /// Does what is due by now.
    pub(super) fn on_timers(&mut self) {
        let now = self.now.at;
        if self.shared.clock.ticks() && now >= self.next_tick {
            self.next_tick = now + TICK;
            // Time waits for shards as inputs do: the number of SNs that are cut and not stable
            // must stay bounded.
            let has_room = self.shared.log.no_room().is_none();
            if has_room && !self.are_shards_behind() && self.refuse_if_failed().is_ok() {
                self.advance_by_clock();
            }
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

    fn advance_by_clock(&mut self) {
        for input in self.coordinator.on_tick(self.now.ms) {
            // Time waits for slow queries as pushes do. What an input with a turn leaves comes with
            // the next tick.
            if self.has_turn() || self.must_wait(&input) {
                continue;
            }
            if let Err(error) = self.take_input(input) {
                tracing::warn!("a stream's time could not go on: {error}");
            }
        }
    }

    /// The time to wait for an event before the next step: until the next timer, or none if there
    /// is something to do.
    pub(crate) fn until_next(&self, now: Now) -> Duration {
        if self.is_busy || self.moved {
            return Duration::ZERO;
        }
        let next = self.next_timer();
        next.map_or(IDLE, |next| next.saturating_duration_since(now.at))
    }

    fn next_timer(&self) -> Option<Instant> {
        let stop = self.stopping.as_ref().map(|stopping| stopping.until);
        if !matches!(self.phase, Phase::Open) {
            return stop.or(self.end_of_turn());
        }
        let tick = self.shared.clock.ticks().then_some(self.next_tick);
        // If no more cuts are made, waiting for one would spin.
        let makes_cuts = !self.behind && self.refuse_if_failed().is_ok();
        let freshness = self.pending_since.filter(|_| makes_cuts);
        let freshness = freshness.map(|since| since + self.shared.config.freshness);
        let look = self.checkpoints.next_look();
        let deadline = self.next_deadline();
        let group = self.transactions.next_group(self.stability.unstable());
        let timers = [
            stop,
            tick,
            freshness,
            self.end_of_turn(),
            look,
            deadline,
            group,
        ];
        timers.into_iter().flatten().min()
    }
}
