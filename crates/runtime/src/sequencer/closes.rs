//! Closes in slices: cuts for due closes, between which other inputs are taken (ADR 23).
//!
//! 1. An input makes the cuts for the closes that it made due, up to a bound of number and time. If
//!    some are left, the sequencer is *behind*.
//! 2. While it is behind, the loop makes a slice of cuts at a time, as far as the firings of those
//!    queries keep up. Between slices requests are taken. Effects of updates and loads are cut at
//!    once, before the closes that are left.
//! 3. An input of a stream whose closes wait for their cut is held, and so is one of a stream with
//!    too many firings under way. A source is thus as slow as the queries over its stream, and no
//!    slower than that through other streams.
//!
//! Before changing anything here: the log decides what a close sees. Whichever record comes first
//! in it is applied first, live and in recovery, so these bounds change no answer after a crash.

use super::Sequencer;
use super::requests::{Done, Want};
use super::stability::Waiter;
use crate::error::RuntimeError;
use crossbeam_channel::Sender;
use somersault_log::{PlanRecord, Position};
use somersault_model::QueryUid;
use somersault_stream::{Input, Record, Refusal};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// At most this many closes are cut before the input that made them due lets others in.
const CLOSES_IN_A_ROW: usize = 256;
/// At most this many closes are cut between two looks at what else there is.
const CLOSES_IN_A_SLICE: usize = 64;

/// While closes wait for their cut, at most this many inputs wait with them: each keeps a thread of
/// its caller.
const MOST_HELD: usize = 64;

/// The sender of an answer to an input.
pub(super) type Reply = Sender<Result<Done, RuntimeError>>;

/// An input that waits for closes or firings of its stream.
pub(super) struct HeldInput {
    input: Input,
    want: Want,
    reply: Reply,
}

/// An input that was taken, and is answered once no close is left that waits for its cut.
pub(super) struct CatchingUp {
    position: Position,
    done: Done,
    reply: Reply,
}

impl Sequencer {
    /// Makes the cuts that due closes ask for, or as many as may be made at once.
    pub(super) fn cut_due(&mut self) -> Result<(), RuntimeError> {
        let until = Instant::now() + self.shared.config.closes_patience;
        let mut closes = 0;
        loop {
            let Some(plan) = self.next_due_cut() else {
                self.set_behind(false);
                break;
            };
            if plan.through.is_some() {
                let is_late = closes == CLOSES_IN_A_ROW || Instant::now() >= until;
                if self.behind || is_late {
                    self.set_behind(true);
                    break;
                }
                // Each close holds a pin and slices until it is answered.
                if self.is_throttled() {
                    self.wait_until(|sequencer| {
                        !sequencer.is_throttled() || Instant::now() >= until
                    })?;
                    continue;
                }
                closes += 1;
            }
            self.make_cut(plan)?;
        }
        let coordinator = self.shared.coordinator.lock();
        self.late = coordinator.has_amendments();
        if !coordinator.has_pending() {
            self.pending_since = None;
        } else if self.pending_since.is_none() {
            self.pending_since = Some(Instant::now());
        }
        Ok(())
    }

    /// Cuts until nothing that can be made visible is left; while closes wait for their cut, only
    /// what comes before them.
    pub(super) fn cut_all(&mut self) -> Result<(), RuntimeError> {
        if self.behind {
            return self.cut_before_closes();
        }
        loop {
            let end = self.shared.log.end();
            let amends = !self.firings.joins_amendments();
            let plan = (self.shared.coordinator.lock()).freshness_cut_amending(end, amends);
            let Some(plan) = plan else { break };
            self.make_cut(plan)?;
        }
        self.pending_since = None;
        Ok(())
    }

    /// Cuts effects of updates and loads, and amendments.
    fn cut_before_closes(&mut self) -> Result<(), RuntimeError> {
        while let Some(plan) = self.next_due_cut() {
            if plan.through.is_some() {
                break;
            }
            self.make_cut(plan)?;
        }
        Ok(())
    }

    /// One slice of the cuts that are left. Whether more can be made at once.
    pub(super) fn cut_slice(&mut self) -> bool {
        if !self.behind || self.stopping.is_some() || self.shared.failure().is_some() {
            return false;
        }
        for _ in 0..CLOSES_IN_A_SLICE {
            let Some(plan) = self.next_due_cut() else {
                self.set_behind(false);
                self.pending_since.get_or_insert_with(Instant::now);
                break;
            };
            if plan.through.is_some() && self.is_throttled() {
                return false;
            }
            if let Err(error) = self.make_cut(plan) {
                tracing::warn!("no cut could be made: {error}");
                return false;
            }
        }
        true
    }

    /// The next cut. Late statements wait while the firings that earlier ones amended are under
    /// way, so that those that come meanwhile are joined into one amendment.
    fn next_due_cut(&self) -> Option<PlanRecord> {
        let end = self.shared.log.end();
        let amends = !self.firings.joins_amendments();
        let coordinator = self.shared.coordinator.lock();
        coordinator.next_due_cut_amending(end, amends)
    }

    /// Cuts the amendments that have waited, once the firings of the one before are done.
    pub(super) fn cut_late_amendments(&mut self) {
        if self.firings.joins_amendments()
            || self.stopping.is_some()
            || self.shared.failure().is_some()
            || !self.late
        {
            return;
        }
        if let Err(error) = self.cut_due() {
            tracing::warn!("no cut could be made: {error}");
        }
    }

    fn set_behind(&mut self, behind: bool) {
        self.behind = behind;
        self.shared.behind.store(behind, Ordering::Relaxed);
    }

    fn make_cut(&mut self, plan: PlanRecord) -> Result<(), RuntimeError> {
        let record = Record::Plan(plan);
        let position = self.shared.log.append(&record)?;
        self.apply(&record, position)?;
        Ok(())
    }

    /// Whether the firings of the queries whose close is due next, or the shards, are too far
    /// behind for another close.
    fn is_throttled(&self) -> bool {
        if self.shared.failure().is_some() {
            return false;
        }
        if self.shards_are_behind() {
            return true;
        }
        self.firings.backlogged() && {
            let queries = self.shared.coordinator.lock().queries_due_next();
            self.firings.are_behind(&queries)
        }
    }

    /// Holds an input whose stream has closes that wait for their cut, or too many firings under
    /// way; gives back any other.
    pub(super) fn hold(
        &mut self,
        input: Input,
        want: Want,
        reply: Reply,
    ) -> Option<(Input, Reply)> {
        if !self.must_wait(&input) {
            return Some((input, reply));
        }
        if self.behind && self.held.len() >= MOST_HELD {
            let closes = self.shared.coordinator.lock().closes_due();
            let waiting = self.held.len();
            let refusal = Refusal::ClosesAhead { closes, waiting };
            let _ = reply.send(Err(refusal.into()));
            return None;
        }
        self.held.push_back(HeldInput { input, want, reply });
        None
    }

    pub(super) fn must_wait(&self, input: &Input) -> bool {
        if !(self.behind || self.firings.backlogged()) {
            return false;
        }
        let coordinator = self.shared.coordinator.lock();
        if self.behind && coordinator.waits_for_closes(input) {
            return true;
        }
        self.firings.backlogged() && {
            let queries: Vec<QueryUid> = coordinator.fed_by(input).collect();
            self.firings.fill_up(&queries)
        }
    }

    /// Takes held inputs that need not wait any more, in the order in which they came, and answers
    /// those that waited for the last close.
    pub(super) fn release_held(&mut self) {
        for _ in 0..self.held.len() {
            let Some(HeldInput { input, want, reply }) = self.held.pop_front() else {
                break;
            };
            // One that has to wait still goes to the end, so that their order stays.
            self.on_input(input, want, reply);
        }
        if !self.behind && !self.catching_up.is_empty() && !self.late {
            let cut = self.cut_all();
            for CatchingUp {
                position,
                mut done,
                reply,
            } in std::mem::take(&mut self.catching_up)
            {
                if let Err(error) = &cut {
                    let _ = reply.send(Err(error.clone()));
                    continue;
                }
                done.sn = self.last_cut();
                self.answer_when_stable(position, done, reply);
            }
        }
    }

    /// Answers an input when all that is due by now is in a stable snapshot.
    pub(super) fn answer_when_stable(&mut self, position: Position, done: Done, reply: Reply) {
        self.stability.wait(Waiter::Input {
            sn: done.sn,
            position,
            input: self.firings.oldest_underived().map_or(0, |_| self.inputs),
            done,
            reply,
        });
    }

    /// Answers an input once no close waits for its cut.
    pub(super) fn answer_when_caught_up(&mut self, position: Position, done: Done, reply: Reply) {
        self.catching_up.push(CatchingUp {
            position,
            done,
            reply,
        });
    }

    /// Nothing that waits is taken any more.
    pub(super) fn refuse_waiting(&mut self, error: &RuntimeError) {
        for held in self.held.drain(..) {
            let _ = held.reply.send(Err(error.clone().not_taken()));
        }
        for waiting in self.catching_up.drain(..) {
            let _ = waiting.reply.send(Err(error.clone().unproven()));
        }
    }
}
