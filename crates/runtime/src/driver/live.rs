//! The driver's threads: the sequencer, the lanes on which changes are computed and checkpoints
//! written, and the housekeeping.

use super::Lanes;
use super::handle::Handle;
use super::housekeeping::Housekeeping;
use super::mailbox::Mailbox;
use crate::clock::{Clock, Now};
use crate::error::RuntimeError;
use crate::lane::Lane;
use crate::sequencer::{CheckpointJob, Evaluation, Event, Sequencer, Shared};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use somersault_pool::lower_own_priority;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The stack of the sequencer's thread, which parses the texts of a log, of the thread that
/// computes changes, and of the one that writes checkpoints, for which the host may compile
/// queries: deeply nested patterns take recursion.
const DEEP_STACK: usize = 16 << 20;
/// The stack of the housekeeping.
const FLAT_STACK: usize = 1 << 20;

/// The threads of a driver.
pub(super) struct Threads {
    sequencer: JoinHandle<()>,
    changes: JoinHandle<()>,
    transactions: JoinHandle<()>,
    checkpoints: JoinHandle<()>,
    housekeeping: JoinHandle<()>,
    /// Dropping it ends the housekeeping.
    keeps_house: Sender<()>,
}

impl Threads {
    pub(super) fn start(
        sequencer: Sequencer,
        mailbox: Mailbox,
        lanes: Lanes,
        handle: &Arc<Handle>,
    ) -> Result<Threads, RuntimeError> {
        let Lanes {
            evaluations,
            checkpoints,
            transactions,
        } = lanes;
        let changes = spawn("changes", DEEP_STACK, move || {
            evaluations.into_iter().for_each(Evaluation::run);
        })?;
        let checkpoints = spawn("checkpoints", DEEP_STACK, move || {
            if !lower_own_priority() {
                tracing::debug!("checkpoints are written with the usual priority");
            }
            checkpoints
                .into_iter()
                .for_each(|job: CheckpointJob| job.run(None));
        })?;
        let (shared, events) = (Arc::clone(&handle.shared), handle.events.clone());
        let transactions = spawn("transactions", DEEP_STACK, move || {
            run_lane(transactions, &shared, &events);
        })?;
        let shared = Arc::clone(&handle.shared);
        let sequencer = spawn("sequencer", DEEP_STACK, move || {
            run(sequencer, mailbox, &shared)
        })?;
        let (keeps_house, ends) = bounded(0);
        let handle = Arc::clone(handle);
        let housekeeping = spawn("housekeeping", FLAT_STACK, move || {
            keep_house(&handle, &ends)
        })?;
        Ok(Threads {
            sequencer,
            changes,
            transactions,
            checkpoints,
            housekeeping,
            keeps_house,
        })
    }

    /// Waits until all have ended. The sequencer has been told to.
    pub(super) fn join(self) {
        join(self.sequencer);
        // The sequencer was the last to send evaluations and checkpoints.
        join(self.changes);
        join(self.transactions);
        join(self.checkpoints);
        drop(self.keeps_house);
        join(self.housekeeping);
    }
}

fn spawn(
    name: &str,
    stack_bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RuntimeError> {
    let thread = std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(stack_bytes)
        .spawn(run);
    thread.map_err(|error| RuntimeError::Internal(format!("a thread cannot be started: {error}")))
}

/// Joins a thread, unless it is this one: it may hold the last handle.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        let _ = thread.join();
    }
}

/// Runs the sequencer until it has ended.
fn run(mut sequencer: Sequencer, mut mailbox: Mailbox, shared: &Shared) {
    let clock = &*shared.clock;
    let steps = AssertUnwindSafe(|| take_steps(&mut sequencer, &mut mailbox, clock));
    if catch_unwind(steps).is_err() {
        let error = RuntimeError::Internal(
            "the sequencer panicked; restart the engine to go on".to_owned(),
        );
        shared.fail(error.clone());
        shared.host.failed(&error);
    }
    let coordinator = sequencer.end();
    shared.end(coordinator, mailbox.unanswered());
}

/// Runs transactions until the lane has ended. If it panics, the sequencer fails.
fn run_lane(mut lane: Lane, shared: &Shared, events: &Sender<Event>) {
    let steps = AssertUnwindSafe(|| {
        while !lane.has_ended() {
            if !lane.step() {
                lane.wait();
            }
        }
    });
    if catch_unwind(steps).is_err() {
        let error = RuntimeError::Internal(
            "the lane of transactions panicked; restart the engine to go on".to_owned(),
        );
        shared.fail(error.clone());
        // The sequencer may have ended.
        let _ = events.send(Event::LaneFailed(error));
    }
}

fn take_steps(sequencer: &mut Sequencer, mailbox: &mut Mailbox, clock: &dyn Clock) {
    let mut now = Now::read(clock);
    while !sequencer.has_ended() {
        // From the begin of the last step on: a clock read once a step is exact enough for timers.
        let wait = sequencer.until_next(now);
        let event = mailbox.next(sequencer.intake(), wait);
        now = Now::read(clock);
        sequencer.step(event, now);
    }
}

fn keep_house(handle: &Handle, ends: &Receiver<()>) {
    let mut housekeeping = Housekeeping::new(handle.shared.clock.instant());
    loop {
        let now = handle.shared.clock.instant();
        let wait = housekeeping.next().saturating_duration_since(now);
        match ends.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => housekeeping.run(handle),
            _ => return,
        }
    }
}
