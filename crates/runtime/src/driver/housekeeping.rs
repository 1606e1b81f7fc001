//! Housekeeping: memory that is no longer read, images of shards that are renewed in small steps,
//! pins that were held for too long, and the warning of a clock that was set back. None of it
//! changes an answer, so it runs beside the sequencer, on a thread of its own.

use super::handle::Handle;
use crate::sequencer::Event;
use somersault_model::Millis;
use somersault_store::{RenewalNeed, RenewalState};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The interval between searches for reclaimable terms.
const TICK: Duration = Duration::from_millis(20);
/// The interval between checks of pins, and of the memory that only pins kept.
const EXPIRY: Duration = Duration::from_secs(1);
/// The distance by which an ARRIVAL TIME stream may be ahead of the clock before a warning is
/// logged.
pub(super) const CLOCK_SLACK: Millis = Millis(10_000);
/// The number of steps in renewing images at each tick, each about a millisecond.
const RENEWED_AT_A_TICK: usize = 8;
/// The number of ticks for which a renewal waits for the next work of a shard before the shard is
/// asked to go on with it. A shard that is written to needs no asking.
const RENEWAL_PATIENCE: usize = 5;
/// The number of reclaimable terms checked at each tick, where no new terms pay for it.
const RECLAIMED_AT_A_TICK: usize = 1024;

/// The tasks and their times.
pub(super) struct Housekeeping {
    next_tick: Instant,
    next_expiry: Instant,
    /// The number of ticks for which renewals of images have waited for shards.
    renewal_waits: usize,
    /// ARRIVAL TIME streams for which a warning said that the clock is behind them.
    ahead_of_clock: BTreeSet<String>,
}

impl Housekeeping {
    pub(super) fn new(now: Instant) -> Housekeeping {
        Housekeeping {
            next_tick: now,
            next_expiry: now,
            renewal_waits: 0,
            ahead_of_clock: BTreeSet::new(),
        }
    }

    /// When something is to be done next.
    pub(super) fn next(&self) -> Instant {
        self.next_tick.min(self.next_expiry)
    }

    /// Does what is due by now.
    pub(super) fn run(&mut self, handle: &Handle) {
        let now = handle.shared.clock.instant();
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            let dictionary = handle.shared.store.dictionary();
            dictionary.tidy(RECLAIMED_AT_A_TICK);
            self.renew(handle);
        }
        if now >= self.next_expiry {
            self.next_expiry = now + EXPIRY;
            self.expire(handle, now);
            self.warn_of_clock(handle);
        }
    }

    /// Goes on with renewing images. The number of steps is fixed: a simulated clock stands still
    /// meanwhile.
    fn renew(&mut self, handle: &Handle) {
        let need = renewal_need(handle);
        for _ in 0..RENEWED_AT_A_TICK {
            match handle.shared.store.renew_portion(need) {
                RenewalState::Working => self.renewal_waits = 0,
                RenewalState::Idle => return,
                RenewalState::Waiting => {
                    self.renewal_waits += 1;
                    if self.renewal_waits.is_multiple_of(RENEWAL_PATIENCE) {
                        // The sequencer may have ended.
                        let _ = handle.events.send(Event::TidyShards);
                    }
                    return;
                }
            }
        }
    }

    fn expire(&mut self, handle: &Handle, now: Instant) {
        let store = &handle.shared.store;
        let expired = store.snapshots().expire(handle.shared.pin_clock.ms_at(now));
        if expired > 0 {
            tracing::warn!("{expired} snapshots were pinned for too long and given up");
        }
        self.limit_superseded(handle);
        // Without further writes, no SN would free what large loads have replaced.
        if store.superseded() > 0 {
            // The sequencer may have ended.
            let _ = handle.events.send(Event::TidyShards);
        }
        let floor = store.snapshots().floor();
        store.slices().forget_superseded(floor);
    }

    /// Gives up the oldest reader, where too much memory is kept for readers of earlier SNs. What
    /// that frees shows at the next check.
    fn limit_superseded(&self, handle: &Handle) {
        let (store, limit) = (&handle.shared.store, handle.shared.config.superseded_bytes);
        let kept = store.superseded_bytes();
        if kept > limit
            && let Some(sn) = store.snapshots().revoke_oldest()
        {
            tracing::warn!(
                "{kept} bytes of replaced data are kept for readers of earlier snapshots, more than {limit} \
                 (superseded_bytes); the queries of snapshot {sn} were ended"
            );
        }
    }

    /// Warns once for each ARRIVAL TIME stream that the clock is behind.
    fn warn_of_clock(&mut self, handle: &Handle) {
        let ahead = handle.ahead_of_clock();
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
}

/// Which images may begin to be renewed. While inputs are on their way to the shards, the cores
/// have more urgent work. While readers keep an older generation, a renewal would add a third one.
fn renewal_need(handle: &Handle) -> RenewalNeed {
    let shared = &handle.shared;
    if shared.credit.level_bytes() > 0 || shared.store.superseded() > 0 {
        RenewalNeed::Overdue
    } else {
        RenewalNeed::Worthwhile
    }
}
