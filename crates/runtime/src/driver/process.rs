//! A driver without threads: everything that it does happens on the threads of its callers, which
//! take turns with the other parts of one process. With a manual clock, and a log, a pool and a
//! fabric that have no threads either, a run is a function of its inputs.

use super::Lanes;
use super::handle::Handle;
use super::housekeeping::Housekeeping;
use super::mailbox::Mailbox;
use crate::clock::Now;
use crate::lane::Lane;
use crate::sequencer::{CheckpointJob, Evaluation, Event, Sequencer, Shared};
use crossbeam_channel::Receiver;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process that a driver without threads belongs to: the driver, a log, a pool.
pub trait Process: Send + Sync + 'static {
    /// Gives one part its turn and says whether anything was done. `driver` is the driver's turn;
    /// it says the same. Which part comes is the process's choice, but it says that nothing was
    /// done only if no part has anything to do.
    fn turn(&self, driver: &dyn Fn() -> bool) -> bool;
}

/// The state of a driver that its callers drive.
pub(super) struct CallerDriven {
    process: Arc<dyn Process>,
    /// None once the sequencer has ended.
    parts: Mutex<Option<Parts>>,
    evaluations: Receiver<Evaluation>,
    checkpoints: Receiver<CheckpointJob>,
    transactions: Mutex<Lane>,
    housekeeping: Mutex<Housekeeping>,
    /// Whether the sequencer comes first in the next step: every other time, so that transactions
    /// are logged while others run.
    is_turn_of_sequencer: AtomicBool,
}

struct Parts {
    sequencer: Sequencer,
    mailbox: Mailbox,
    shared: Arc<Shared>,
}

impl CallerDriven {
    pub(super) fn new(
        process: Arc<dyn Process>,
        sequencer: Sequencer,
        mailbox: Mailbox,
        lanes: Lanes,
        shared: Arc<Shared>,
    ) -> CallerDriven {
        let housekeeping = Housekeeping::new(shared.clock.instant());
        let Lanes {
            evaluations,
            checkpoints,
            transactions,
        } = lanes;
        CallerDriven {
            process,
            parts: Mutex::new(Some(Parts {
                sequencer,
                mailbox,
                shared,
            })),
            evaluations,
            checkpoints,
            transactions: Mutex::new(transactions),
            housekeeping: Mutex::new(housekeeping),
            is_turn_of_sequencer: AtomicBool::new(false),
        }
    }

    /// Gives the process a turn. Whether anything was done.
    pub(super) fn turn(&self, handle: &Handle) -> bool {
        self.process.turn(&|| self.step(handle))
    }

    /// One step of the driver: a change is computed, a transaction runs, a checkpoint is written
    /// with turns of all others between its parts, the sequencer takes an event, or memory is
    /// freed. Whether anything was done.
    pub(super) fn step(&self, handle: &Handle) -> bool {
        if self.is_turn_of_sequencer.fetch_xor(true, Ordering::Relaxed) && self.step_sequencer() {
            return true;
        }
        if let Ok(evaluation) = self.evaluations.try_recv() {
            evaluation.run();
            return true;
        }
        if self.transactions.lock().step() {
            return true;
        }
        if let Ok(job) = self.checkpoints.try_recv() {
            job.run(Some(&|| {
                self.turn(handle);
            }));
            return true;
        }
        let mut housekeeping = self.housekeeping.lock();
        if handle.shared.clock.instant() >= housekeeping.next() {
            housekeeping.run(handle);
            return true;
        }
        drop(housekeeping);
        self.step_sequencer()
    }

    fn step_sequencer(&self) -> bool {
        let mut parts = self.parts.lock();
        let Some(Parts {
            sequencer,
            mailbox,
            shared,
        }) = parts.as_mut()
        else {
            return false;
        };
        let now = Now::read(&*shared.clock);
        let event = mailbox.ready(sequencer.intake());
        if event.is_none() && !sequencer.until_next(now).is_zero() {
            return false;
        }
        sequencer.step(event.unwrap_or(Event::Tick), now);
        if sequencer.has_ended() {
            end(parts.take());
        }
        true
    }

    /// Answers the reads that wait.
    pub(super) fn answer_reads(&self) {
        if let Some(parts) = self.parts.lock().as_mut() {
            parts.sequencer.answer(parts.mailbox.reads().try_iter());
        }
    }

    /// Ends the sequencer at once.
    pub(super) fn abort(&self) {
        end(self.parts.lock().take());
    }
}

fn end(parts: Option<Parts>) {
    let Some(parts) = parts else { return };
    let coordinator = parts.sequencer.end();
    parts.shared.end(coordinator, parts.mailbox.unanswered());
}
