//! Closes in slices: cuts for due closes, between which other inputs are taken (ADR 23).
//!
//! 1. An input makes the cuts for the closes that it made due, up to a bound of number and time:
//!    this is its *turn*, in which no other input is taken. It is made a slice at a time.
//! 2. If closes are left after it, the sequencer is *behind*. Each step then makes one slice of
//!    cuts, as far as the firings of those queries keep up. Between slices requests are taken.
//!    Effects of updates and loads are cut at once, before the closes that are left.
//! 3. An input of a stream whose closes wait for their cut is held, and so is one of a stream with
//!    too many firings under way. A source is thus as slow as the queries over its stream, and no
//!    slower than that through other streams.
//!
//! Before changing anything here: the log decides what a close sees. Whichever record comes first
//! in it is applied first, live and in recovery, so these bounds change no answer after a crash.

use super::Sequencer;
use super::requests::{AckWhen, InputReceipt, Reply};
use super::stability::Waiter;
use crate::error::RuntimeError;
use somersault_log::{PlanRecord, Position};
use somersault_model::QueryUid;
use somersault_stream::{CutPace, Input, Record, Refusal};
use std::time::Instant;

/// At most this many closes are cut before the input that made them due lets others in.
const CLOSES_IN_A_TURN: usize = 256;
/// At most this many closes are cut in one step.
const CLOSES_IN_A_SLICE: usize = 64;

/// While closes wait for their cut, at most this many inputs wait with them: each keeps a thread of
/// its caller.
const MOST_HELD: usize = 64;

/// The turn of an input that has made closes due.
pub(super) struct Turn {
    /// When it is over at the latest.
    until: Instant,
    /// The number of closes that have been cut in it.
    closes: usize,
}

/// An input that waits for closes or firings of its stream.
pub(super) struct HeldInput {
    input: Input,
    ack_when: AckWhen,
    reply: Reply,
}

/// An input that was taken, and is answered once no close is left that waits for its cut.
pub(super) struct CatchingUp {
    position: Position,
    receipt: InputReceipt,
    reply: Reply,
}

impl Sequencer {
    /// Begins to make the cuts that due closes ask for. While earlier closes wait for their cut, it
    /// makes only the cuts that precede them.
    pub(super) fn cut_due(&mut self) -> Result<(), RuntimeError> {
        if self.behind {
            self.cut_before_closes()?;
            self.note_pending();
            return Ok(());
        }
        self.turn = Some(Turn {
            until: self.now.at + self.shared.config.closes_patience,
            closes: 0,
        });
        self.cut_some().map(|_| ())
    }

    /// Whether an input has its turn: closes that it made due are cut before others come.
    pub(super) fn has_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// When the turn of an input is over at the latest.
    pub(super) fn end_of_turn(&self) -> Option<Instant> {
        self.turn.as_ref().map(|turn| turn.until)
    }

    /// Makes one slice of the cuts that are due. Whether more can be made at once.
    fn cut_some(&mut self) -> Result<bool, RuntimeError> {
        let mut closes = 0;
        let has_more = loop {
            let Some(plan) = self.next_due_cut() else {
                self.set_behind(false);
                self.turn = None;
                break false;
            };
            if plan.through.is_some() {
                // Each close holds a pin and slices until it is answered.
                let is_throttled = self.is_throttled();
                if closes == CLOSES_IN_A_SLICE || is_throttled {
                    self.set_behind(true);
                    break !is_throttled;
                }
                closes += 1;
            }
            if let Err(error) = self.make_cut(plan) {
                self.turn = None;
                return Err(error);
            }
        };
        if let Some(turn) = &mut self.turn {
            turn.closes += closes;
            if turn.closes >= CLOSES_IN_A_TURN || self.now.at >= turn.until {
                self.turn = None;
            }
        }
        self.note_pending();
        Ok(has_more)
    }

    /// Notes whether something waits for a cut, and since when.
    fn note_pending(&mut self) {
        self.late = self.coordinator.has_amendments();
        if !self.coordinator.has_pending() {
            self.pending_since = None;
        } else if self.pending_since.is_none() {
            self.pending_since = Some(self.now.at);
        }
    }

    /// Cuts until everything that can be visible is. While closes wait for their cut, it makes only
    /// the cuts that precede them.
    pub(super) fn cut_all(&mut self) -> Result<(), RuntimeError> {
        if self.behind {
            return self.cut_before_closes();
        }
        loop {
            let plan = (self.coordinator).freshness_cut(self.log_end, &self.pace());
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
        if self.stopping.is_some() || self.failure.is_some() {
            self.turn = None;
            return false;
        }
        if !self.behind {
            return false;
        }
        self.cut_some().unwrap_or_else(|error| {
            tracing::warn!("no cut could be made: {error}");
            false
        })
    }

    /// The next cut.
    fn next_due_cut(&self) -> Option<PlanRecord> {
        (self.coordinator).next_due_cut(self.log_end, &self.pace())
    }

    /// What the next cut leaves for later. Late statements wait while the firings that earlier ones
    /// amended are under way, so that those that come meanwhile are joined into one amendment. What
    /// changes for a live query waits while too many of its firings are under way.
    fn pace(&self) -> CutPace {
        CutPace {
            amends: !self.delivery.joins_amendments(),
            held: self.delivery.held_live().clone(),
        }
    }

    /// Whether a live query is due that can keep up.
    pub(super) fn has_live_due(&self) -> bool {
        self.coordinator.has_live_due(self.delivery.held_live())
    }

    /// Cuts for live queries that are due: they could not keep up before.
    pub(super) fn cut_live(&mut self) {
        let can_cut = self.stopping.is_none() && self.failure.is_none();
        if can_cut
            && !self.behind
            && self.has_live_due()
            && let Err(error) = self.cut_due()
        {
            tracing::warn!("no cut could be made: {error}");
        }
    }

    /// Cuts the amendments that have waited, once the firings of the one before are done.
    pub(super) fn cut_late_amendments(&mut self) {
        if self.delivery.joins_amendments()
            || self.stopping.is_some()
            || self.failure.is_some()
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
        self.shared.figures.set_behind(behind);
    }

    /// Makes a cut. Where transactions have to come before it, they are logged and cut instead, and
    /// the next cut has to be asked for again.
    fn make_cut(&mut self, plan: PlanRecord) -> Result<(), RuntimeError> {
        match self.log_before(&plan)? {
            true => Ok(()),
            false => self.cut(plan),
        }
    }

    fn cut(&mut self, plan: PlanRecord) -> Result<(), RuntimeError> {
        let (sn, is_foreign) = (plan.sn, self.coordinator.is_foreign(&plan));
        let record = Record::Plan(plan);
        let position = self.append(&record)?;
        self.group = None;
        self.apply(&record, position)?;
        if is_foreign {
            self.note_foreign(sn);
        }
        Ok(())
    }

    /// Cuts the effects of transactions that have just been logged.
    pub(super) fn cut_effects(&mut self) -> Result<(), RuntimeError> {
        loop {
            let pace = CutPace {
                amends: false,
                ..self.pace()
            };
            let plan = (self.coordinator).next_due_cut(self.log_end, &pace);
            match plan.filter(|plan| plan.through.is_none()) {
                Some(plan) => self.cut(plan)?,
                None => return Ok(()),
            }
        }
    }

    /// Whether the firings of the queries whose close is due next, or the shards, are too far
    /// behind for another close.
    fn is_throttled(&self) -> bool {
        if self.failure.is_some() {
            return false;
        }
        self.are_shards_behind()
            || (self.delivery.is_backlogged()
                && (self.delivery).are_behind(&self.coordinator.queries_due_next()))
    }

    /// Holds an input whose stream has closes that wait for their cut, or too many firings under
    /// way; gives back any other.
    pub(super) fn hold(
        &mut self,
        input: Input,
        ack_when: AckWhen,
        reply: Reply,
    ) -> Option<(Input, Reply)> {
        if !self.must_wait(&input) {
            return Some((input, reply));
        }
        if self.behind && self.held.len() >= MOST_HELD {
            let refusal = Refusal::ClosesAhead {
                closes: self.coordinator.closes_due(),
                waiting: self.held.len(),
            };
            reply.send(Err(refusal.into()));
            return None;
        }
        self.held.push_back(HeldInput {
            input,
            ack_when,
            reply,
        });
        None
    }

    pub(super) fn must_wait(&self, input: &Input) -> bool {
        if self.behind && self.coordinator.waits_for_closes(input) {
            return true;
        }
        self.delivery.is_backlogged() && {
            let queries: Vec<QueryUid> = self.coordinator.fed_by(input).collect();
            self.delivery.fill_up(&queries)
        }
    }

    /// Takes held inputs that need not wait any more, in the order in which they came, and answers
    /// those that waited for the last close.
    pub(super) fn release_held(&mut self) {
        // Those that an input with a turn keeps from being looked at stay first.
        let mut seen = 0;
        for _ in 0..self.held.len() {
            if self.has_turn() {
                break;
            }
            let Some(HeldInput {
                input,
                ack_when,
                reply,
            }) = self.held.pop_front()
            else {
                break;
            };
            // One that has to wait still goes to the end, so that their order stays.
            let left = self.held.len();
            self.on_input(input, ack_when, reply);
            seen += usize::from(self.held.len() > left);
        }
        self.held.rotate_right(seen);
        if !self.behind && !self.catching_up.is_empty() && !self.late {
            self.answer_caught_up();
        }
    }

    fn answer_caught_up(&mut self) {
        let cut = self.cut_all();
        for CatchingUp {
            position,
            mut receipt,
            reply,
        } in std::mem::take(&mut self.catching_up)
        {
            if let Err(error) = &cut {
                reply.send(Err(error.clone()));
                continue;
            }
            receipt.sn = self.coordinator.last_cut();
            self.answer_when_stable(position, receipt, reply);
        }
    }

    /// Answers an input when all that is due by now is in a stable snapshot.
    pub(super) fn answer_when_stable(
        &mut self,
        position: Position,
        receipt: InputReceipt,
        reply: Reply,
    ) {
        let input = self.delivery.oldest_underived().map_or(0, |_| self.inputs);
        self.wait_stable(Waiter::Input {
            sn: receipt.sn,
            position,
            input,
            receipt,
            reply,
        });
    }

    /// Answers an input once no close waits for its cut.
    pub(super) fn answer_when_caught_up(
        &mut self,
        position: Position,
        receipt: InputReceipt,
        reply: Reply,
    ) {
        self.catching_up.push(CatchingUp {
            position,
            receipt,
            reply,
        });
    }

    /// Nothing that waits is taken any more.
    pub(super) fn refuse_waiting(&mut self, error: &RuntimeError) {
        for held in self.held.drain(..) {
            held.reply.send(Err(error.clone().not_taken()));
        }
        for waiting in self.catching_up.drain(..) {
            waiting.reply.send(Err(error.clone().unproven()));
        }
    }
}
