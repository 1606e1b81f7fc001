//! From cut to stable: an SN is stable when every shard has applied it and its plan record is
//! durable (VT-1, S5). Only then do answers, firings and retired slices follow.

use super::Sequencer;
use super::change::ChangeReply;
use super::requests::{InputReceipt, Reply};
use super::shared::Shared;
use crate::error::RuntimeError;
use crate::feeds::StreamMessage;
use crate::lane::{Answered, UpdateResult};
use somersault_checkpoint::CheckpointTimes;
use somersault_log::Position;
use somersault_model::{BatchNumber, Sn, StreamUid};
use somersault_store::Store;
use somersault_stream::{Record, received_ms};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A caller to answer when an SN is stable.
pub(crate) enum Waiter {
    Input {
        sn: Sn,
        /// The position of its record: an input without a cut is still answered only when the
        /// record is durable.
        position: Position,
        /// Its number among the inputs while streams derived from it have yet to catch up; 0 once
        /// they have.
        input: u64,
        receipt: InputReceipt,
        reply: Reply,
    },
    Change {
        result: UpdateResult,
        reply: ChangeReply,
    },
    /// The callers of transactions that were handed over together.
    Transactions {
        sn: Sn,
        /// The position of their record, or of the newest one before it.
        position: Position,
        answered: Vec<Answered>,
    },
    /// Messages for readers of interior streams.
    Messages {
        sn: Sn,
        position: Position,
        messages: Vec<(StreamUid, StreamMessage)>,
        shared: Arc<Shared>,
    },
}

impl Waiter {
    fn is_due(&self, stable: Sn, durable: Position) -> bool {
        match self {
            Waiter::Input {
                sn,
                position,
                input,
                ..
            } => *input == 0 && *sn <= stable && *position <= durable,
            Waiter::Change { result, .. } => result.sn <= stable,
            Waiter::Transactions { sn, position, .. } | Waiter::Messages { sn, position, .. } => {
                *sn <= stable && *position <= durable
            }
        }
    }

    fn answer(self) {
        match self {
            Waiter::Input { receipt, reply, .. } => reply.send(Ok(receipt)),
            Waiter::Change { result, reply } => reply.send(Ok(result)),
            // The last one first: a caller that waits for the first of its calls is woken once, and
            // finds the answers to all.
            Waiter::Transactions { answered, .. } => {
                answered.into_iter().rev().for_each(Answered::send);
            }
            Waiter::Messages {
                messages, shared, ..
            } => shared.feeds.publish(messages),
        }
    }

    fn refuse(self, error: &RuntimeError) {
        let error = error.clone().unproven();
        match self {
            Waiter::Input { reply, .. } => reply.send(Err(error)),
            Waiter::Change { reply, .. } => reply.send(Err(error)),
            Waiter::Transactions { answered, .. } => {
                (answered.into_iter()).for_each(|it| it.refuse(error.clone()));
            }
            // Readers learn of the failure from the engine.
            Waiter::Messages { .. } => {}
        }
    }
}

/// A cut on its way to being stable.
struct Cut {
    sn: Sn,
    /// The position of its plan record.
    plan: Position,
    /// The newest input record in it, the last one that its firings waited for.
    input: Position,
    /// When `input` became durable; `None` also for records that recovery replays.
    acknowledged: Option<Instant>,
    /// The time of its newest record.
    time_ms: i64,
}

enum Retirement {
    Slices(StreamUid, BatchNumber),
    Stream(StreamUid),
}

/// Cuts that are not yet stable, and the callers and retirements that wait for them.
#[derive(Default)]
pub(crate) struct Stability {
    cuts: VecDeque<Cut>,
    /// The cuts that have just become stable, while their firings are released.
    released: Vec<(Sn, Option<Instant>)>,
    waiters: Vec<Waiter>,
    /// When positions became durable, until a cut is told; ascending.
    durable_at: VecDeque<(Position, Instant)>,
    /// Slices to retire once all SNs that were cut before are applied.
    retirements: VecDeque<(Sn, Retirement)>,
    last_input: Position,
    /// The time of the newest record, and of the newest one that the newest SN shows.
    times: CheckpointTimes,
}

impl Stability {
    /// After a checkpoint with these times.
    pub(crate) fn since(times: CheckpointTimes) -> Stability {
        Stability {
            times,
            ..Stability::default()
        }
    }

    /// The times for a checkpoint of the newest SN.
    pub(crate) fn times(&self) -> CheckpointTimes {
        self.times
    }

    pub(crate) fn unstable(&self) -> usize {
        self.cuts.len()
    }

    /// The newest SN that is cut and not stable.
    pub(crate) fn newest(&self) -> Option<Sn> {
        Some(self.cuts.back()?.sn)
    }

    /// Records when the newest input came.
    pub(crate) fn on_record(&mut self, record: &Record, position: Position) {
        let Some(received_ms) = received_ms(record) else {
            return;
        };
        self.last_input = position;
        self.times.newest_ms = self.times.newest_ms.max(received_ms);
    }

    /// Adds an SN that has been handed to the shards.
    pub(crate) fn cut(&mut self, sn: Sn, plan: Position) {
        debug_assert!(self.cuts.back().is_none_or(|last| last.sn < sn));
        self.times.shown_ms = self.times.newest_ms;
        self.cuts.push_back(Cut {
            sn,
            plan,
            input: self.last_input,
            acknowledged: None,
            time_ms: self.times.shown_ms,
        });
    }

    /// When the records that this SN needed were acknowledged, if the SN has just become stable.
    pub(crate) fn acknowledged(&self, sn: Sn) -> Option<Instant> {
        let found = self.released.iter().find(|(released, _)| *released == sn);
        found.and_then(|(_, acknowledged)| *acknowledged)
    }

    /// Whether a waiter waits for derived streams that have caught up: nothing is under way for
    /// inputs before `oldest`.
    pub(crate) fn has_underived(&self, oldest: Option<u64>) -> bool {
        self.waiters.iter().any(|waiter| match waiter {
            Waiter::Input { input, .. } => {
                *input > 0 && oldest.is_none_or(|oldest| *input < oldest)
            }
            Waiter::Change { .. } | Waiter::Transactions { .. } | Waiter::Messages { .. } => false,
        })
    }

    /// Lets the waiters for such streams see them as of `newest`.
    pub(crate) fn derived(&mut self, oldest: Option<u64>, newest: Sn) {
        for waiter in &mut self.waiters {
            if let Waiter::Input {
                sn, input, receipt, ..
            } = waiter
                && *input > 0
                && oldest.is_none_or(|oldest| *input < oldest)
            {
                *input = 0;
                *sn = newest;
                receipt.sn = newest;
            }
        }
    }

    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    pub(crate) fn retire(&mut self, after: Sn, stream: StreamUid, below: BatchNumber) {
        self.retirements
            .push_back((after, Retirement::Slices(stream, below)));
    }

    pub(crate) fn drop_stream(&mut self, after: Sn, stream: StreamUid) {
        self.retirements
            .push_back((after, Retirement::Stream(stream)));
    }

    /// Tells all waiters that nothing becomes stable any more.
    pub(crate) fn give_up(&mut self, error: &RuntimeError) {
        for waiter in self.waiters.drain(..) {
            waiter.refuse(error);
        }
    }

    /// All records up to this position have been durable since then.
    pub(crate) fn on_durable(&mut self, position: Position, at: Instant) {
        self.durable_at.push_back((position, at));
    }

    /// Tells the cuts since when their records have been durable; both sides ascend.
    fn acknowledge(&mut self) {
        let mut cuts = self
            .cuts
            .iter_mut()
            .filter(|cut| cut.acknowledged.is_none());
        let mut next = cuts.next();
        for (durable, at) in self.durable_at.drain(..) {
            while let Some(cut) = next.as_mut().filter(|cut| cut.input <= durable) {
                cut.acknowledged = Some(at);
                next = cuts.next();
            }
        }
    }

    /// Removes the cuts that are applied and durable from the queue. Returns the newest of them,
    /// with its time.
    fn settle(&mut self, applied: Sn, durable: Position) -> Option<(Sn, i64)> {
        self.released.clear();
        let mut newest = None;
        while let Some(cut) = self.cuts.front()
            && cut.sn <= applied
            && cut.plan <= durable
        {
            self.released.push((cut.sn, cut.acknowledged));
            newest = Some((cut.sn, cut.time_ms));
            self.cuts.pop_front();
        }
        newest
    }

    fn answer(&mut self, stable: Sn, durable: Position) {
        if self.waiters.is_empty() {
            return;
        }
        let (answered, waiting) = std::mem::take(&mut self.waiters)
            .into_iter()
            .partition(|waiter| waiter.is_due(stable, durable));
        self.waiters = waiting;
        let answered: Vec<Waiter> = answered;
        for waiter in answered {
            waiter.answer();
        }
    }

    fn carry_out_retirements(&mut self, stable: Sn, store: &Store) {
        while let Some((after, _)) = self.retirements.front()
            && *after <= stable
        {
            match self.retirements.pop_front() {
                Some((_, Retirement::Slices(stream, below))) => {
                    store.retire(stream, below);
                }
                Some((_, Retirement::Stream(stream))) => store.slices().drop_stream(stream),
                None => {}
            }
        }
    }
}

impl Sequencer {
    /// Answers a caller when an SN is stable.
    pub(super) fn wait_stable(&mut self, waiter: Waiter) {
        self.stability.wait(waiter);
        // It may be stable already.
        self.moved = true;
    }

    /// Publishes what has become stable and releases what waited for it.
    pub(super) fn publish(&mut self) {
        let applied = match self.fabric.applied() {
            Ok(applied) => applied,
            Err(error) => {
                self.fail(RuntimeError::Fabric(error));
                return;
            }
        };
        // Before anything is answered: a caller finds the room that it has left.
        self.injection.applied(applied);
        self.publish_credit();
        self.stability.acknowledge();
        let durable = self.shared.log.durable();
        let settled = self.stability.settle(applied, durable);
        if let Some((stable, time_ms)) = settled {
            self.shared.store.snapshots().publish_stable(stable);
            self.shared.host.stable(stable, time_ms);
            let mut outputs = Vec::new();
            self.coordinator.on_stable(stable, &mut outputs);
            // Releasing firings injects nothing, so this cannot fail.
            let released = self.carry_out(outputs, self.log_end);
            debug_assert!(released.is_ok());
        }
        let store = &self.shared.store;
        let stable = store.snapshots().stable();
        self.stability.answer(stable, durable);
        if settled.is_some() {
            self.transactions.on_stable();
        }
        if !self.checkpoints.keeps_slices() {
            self.stability.carry_out_retirements(stable, store);
        }
        let unstable = self.stability.unstable();
        self.shared.figures.set_unstable(unstable);
    }
}
