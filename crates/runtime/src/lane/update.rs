//! Updates: transactions whose steps are a job of the caller. They emit nothing, and the core of
//! transactions does not know them.
//!
//! 1. An update runs over the snapshot with all that committed since, like a call.
//! 2. Few effects are an item of the record that it shares with other transactions.
//! 3. Graphs that are cleared by their names, and many effects, are a record of its own and a
//!    foreign cut. Nothing of them is laid over the snapshot, and nothing runs until that cut is
//!    stable.
//!
//! Before changing anything here: graphs that are cleared are counted in the snapshot, so such an
//! update waits until the snapshot has all that committed.

use super::call::{Accepted, Answered, Logged, Ran, changes};
use super::entries::InLog;
use super::{Lane, LaneRequest};
use crate::error::RuntimeError;
use crate::slot::Answering;
use somersault_log::{TxnEntry, TxnItem, TxnOrigin, TxnOutcome};
use somersault_model::Sn;
use somersault_query::{Effects, Execution, MOST_LISTED, NetEffects, QueryError, Txn, UpdateKey};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

/// Carries out the operations of an update. It runs again if the update was overtaken.
pub type UpdateJob = Box<dyn Fn(&mut Txn<'_>, UpdateKey) -> Result<(), QueryError> + Send>;

/// The outcome of a change or an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdateResult {
    /// The SN that it was evaluated at.
    pub evaluated_at: Sn,
    /// The SN in which its effects are visible; the same if there are none.
    pub sn: Sn,
    /// Statements that were inserted.
    pub inserted: u64,
    /// Statements that were deleted.
    pub deleted: u64,
    /// Whether the job called it off.
    pub called_off: bool,
}

/// How an update has ended.
#[derive(Debug)]
pub enum UpdateOutcome {
    /// Its effects are visible.
    Done(UpdateResult),
    /// It left nothing, because an operation could not be carried out.
    Failed(QueryError),
}

/// The way of an update's answer.
pub(crate) type UpdateReply = Answering<Result<UpdateOutcome, RuntimeError>>;

/// An update that waits.
pub(crate) struct UpdateRequest {
    pub(crate) job: UpdateJob,
    /// Its limits.
    pub(crate) execution: Execution,
    pub(crate) reply: UpdateReply,
    /// How often it had to run again.
    pub(crate) repeats: u32,
    /// Whether it waits until the snapshot has all that committed.
    pub(crate) needs_all_in_base: bool,
}

/// An update is given up if it cannot be carried out after this many interruptions.
const MOST_REPEATS: u32 = 8;

impl UpdateRequest {
    /// Answers an update of which nothing is in the log.
    pub(crate) fn refuse(&self, error: RuntimeError) {
        self.reply.send(Err(error));
    }

    fn handed_over(&self, outcome: UpdateOutcome, logged: Logged) -> Accepted {
        Accepted {
            logged,
            answered: Some(Answered::Update {
                outcome,
                reply: self.reply.clone(),
            }),
            released: Vec::new(),
            terms: Vec::new(),
        }
    }
}

/// The result of an update that ran on this base. The sequencer says in which SN it is visible.
fn done(base: Sn, inserted: u64, deleted: u64) -> UpdateOutcome {
    UpdateOutcome::Done(UpdateResult {
        evaluated_at: base,
        sn: base,
        inserted,
        deleted,
        called_off: false,
    })
}

/// Whether effects have a record of their own.
fn stands_alone(net: &NetEffects) -> bool {
    let count = (net.deletes.len() + net.inserts.len()) as u64;
    !net.clears.is_empty() || count > MOST_LISTED
}

impl Lane {
    /// Runs an update, which is answered, handed over, or first again.
    pub(super) fn run_update(&mut self, mut update: UpdateRequest) {
        if update.needs_all_in_base && !self.base.state().is_settled() {
            self.requests.push_front(LaneRequest::Update(update));
            self.is_blocked = true;
            return;
        }
        match self.try_update(&mut update) {
            Ran::Accepted => {}
            Ran::Refused(error) => {
                self.give_up_turn();
                update.refuse(error);
            }
            Ran::Again => {
                update.repeats += 1;
                self.run_again(update.repeats, LaneRequest::Update(update));
            }
        }
    }

    fn try_update(&mut self, update: &mut UpdateRequest) -> Ran {
        let is_settled = self.base.state().is_settled();
        let base = self.base.state().base().sn();
        if !self.parts.handover.admits(base) {
            return Ran::Again;
        }
        let key = self.base.next_key();
        let mut txn = self.base.begin(update.execution.clone());
        let ran = catch_unwind(AssertUnwindSafe(|| (update.job)(&mut txn, key)));
        match ran {
            Err(_) => {
                let what = "the evaluation of an update panicked";
                return Ran::Refused(RuntimeError::Internal(what.to_owned()));
            }
            Ok(Err(error)) => {
                drop(txn);
                return self.fail_update(update, error);
            }
            Ok(Ok(())) => {}
        }
        let net = txn.effects();
        if net.is_empty() {
            txn.keep();
            let unchanged = update.handed_over(done(base, 0, 0), Logged::Nothing);
            self.hand_over_nothing(unchanged);
            return Ran::Accepted;
        }
        if stands_alone(&net) {
            drop(txn);
            update.needs_all_in_base |= !is_settled && !net.clears.is_empty();
            return match update.needs_all_in_base && !is_settled {
                true => Ran::Again,
                false => self.commit_alone(update, &net),
            };
        }
        let entry = TxnEntry {
            origin: TxnOrigin::Update,
            outcome: TxnOutcome::Committed {
                changes: changes(&net),
                emitted: Vec::new(),
                answer: Vec::new(),
            },
        };
        let outcome = done(base, net.inserts.len() as u64, net.deletes.len() as u64);
        let accepted =
            update.handed_over(outcome, Logged::Item(TxnItem::Entry(entry), InLog::Whole));
        match self.parts.handover.commit(base, accepted) {
            Err(_) => Ran::Again,
            Ok(is_first) => {
                txn.keep();
                self.base.accepted();
                self.announce(is_first);
                Ran::Accepted
            }
        }
    }

    /// Hands over an update with a record of its own.
    fn commit_alone(&mut self, update: &UpdateRequest, net: &NetEffects) -> Ran {
        let snapshot = self.base.state().base();
        let (base, effects) = (snapshot.sn(), Effects::of(net, snapshot));
        let outcome = done(base, effects.inserted(), effects.deleted());
        let accepted = update.handed_over(outcome, Logged::Alone(Box::new(effects)));
        match self.parts.handover.commit_last(base, accepted) {
            Err(_) => Ran::Again,
            Ok(is_first) => {
                self.base.accepted();
                self.announce(is_first);
                Ran::Accepted
            }
        }
    }

    /// Ends an update that failed, or lets it run again if it was interrupted.
    fn fail_update(&mut self, update: &UpdateRequest, error: QueryError) -> Ran {
        if error.is_interruption() && update.repeats < MOST_REPEATS {
            let cancel = update.execution.cancel.as_ref();
            return match cancel.is_some_and(|flag| flag.load(Relaxed)) {
                true => Ran::Refused(RuntimeError::Stopped),
                false => Ran::Again,
            };
        }
        let failed = update.handed_over(UpdateOutcome::Failed(error), Logged::Nothing);
        self.hand_over_nothing(failed);
        Ran::Accepted
    }
}
