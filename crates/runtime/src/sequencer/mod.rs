//! The sequencer's loop: one thread, one order. Every change of the engine's state passes through
//! `take` (`record.rs`); all timed work, through `on_timers` (`timers.rs`).

mod acks;
mod closes;
mod firings;
mod injection;
mod record;
mod recovery;
mod requests;
mod shared;
mod stability;
mod timers;
mod update;

pub use requests::{Change, Done, Outcome, PendingInput, UpdateJob, UpdateResult};
pub(crate) use requests::{Request, Want};
pub use shared::DriverConfig;
pub(crate) use shared::{Channels, Shared, Waker};
pub(crate) use timers::CLOCK_SLACK;

use crate::error::RuntimeError;
use crate::fabric::Fabric;
use acks::Ack;
use closes::{CatchingUp, HeldInput, Reply};
use crossbeam_channel::{Sender, never, select};
use firings::{Derived, Firings};
use injection::Injection;
use somersault_log::Position;
use somersault_stream::Input;
use stability::Stability;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// This many SNs may be cut and not stable before inputs have to wait.
const UNSTABLE_LIMIT: usize = 256;
/// This many requests are taken before stability is checked again.
const REQUESTS_IN_A_ROW: usize = 64;

pub(crate) struct Sequencer {
    pub(super) shared: Arc<Shared>,
    pub(super) fabric: Box<dyn Fabric>,
    pub(super) channels: Channels,
    pub(super) injection: Injection,
    pub(super) stability: Stability,
    pub(super) firings: Firings,
    /// Answers of firings for derived streams, not yet taken.
    pub(super) derived: VecDeque<Derived>,
    /// Whether closes that are due wait for their cut.
    pub(super) behind: bool,
    /// Whether late statements wait for a cut.
    pub(super) late: bool,
    /// Inputs that wait for closes or firings of their streams, in order.
    pub(super) held: VecDeque<HeldInput>,
    /// Inputs that are answered when no close waits for its cut.
    pub(super) catching_up: Vec<CatchingUp>,
    /// How many inputs have been taken, answers of firings not counted.
    pub(super) inputs: u64,
    /// The number of the input that is being taken, or that led to the one being taken.
    pub(super) input: u64,
    /// When something first waited for the next cut.
    pub(super) pending_since: Option<Instant>,
    pub(super) next_tick: Instant,
    pub(super) next_expiry: Instant,
    quiescing: Vec<Sender<Result<(), RuntimeError>>>,
    pub(super) stopping: Option<(Instant, Vec<Sender<()>>)>,
    reported_failure: bool,
    /// ARRIVAL TIME streams for which a warning said that the clock is behind them.
    pub(super) ahead_of_clock: BTreeSet<String>,
}

impl Sequencer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        fabric: Box<dyn Fabric>,
        channels: Channels,
    ) -> Sequencer {
        let now = Instant::now();
        Sequencer {
            injection: Injection::default(),
            stability: Stability::default(),
            firings: Firings::new(shared.config.kept_firings),
            derived: VecDeque::new(),
            behind: false,
            late: false,
            held: VecDeque::new(),
            catching_up: Vec::new(),
            inputs: 0,
            input: 0,
            shared,
            fabric,
            channels,
            pending_since: None,
            next_tick: now,
            next_expiry: now,
            quiescing: Vec::new(),
            stopping: None,
            reported_failure: false,
            ahead_of_clock: BTreeSet::new(),
        }
    }

    /// Runs until it is stopped.
    pub(crate) fn run(mut self) {
        loop {
            let busy = self.advance();
            if self.shared.aborted.load(Ordering::SeqCst) || self.has_stopped() {
                break;
            }
            let wait = if busy {
                Duration::ZERO
            } else {
                self.until_timer()
            };
            let never_requests = never();
            let requests = if self.shards_are_behind() {
                &never_requests
            } else {
                &self.channels.requests
            };
            select! {
                recv(self.channels.fired) -> fired => {
                    if let Ok(fired) = fired {
                        self.on_fired(fired);
                    }
                }
                recv(self.channels.woken) -> _ => {}
                recv(requests) -> request => match request {
                    Ok(request) => self.on_requests(request),
                    // The last handle was dropped.
                    Err(_) => break,
                },
                default(wait) => {}
            }
        }
        let _ = self.fabric.stop(Duration::from_secs(5));
        if let Some((_, replies)) = self.stopping.take() {
            for reply in replies {
                let _ = reply.send(());
            }
        }
    }

    /// Does everything that needs no new message: shards without threads, SNs that have become
    /// stable, timers. Returns whether to call it again at once.
    pub(super) fn advance(&mut self) -> bool {
        let busy = self.fabric.drive();
        while let Ok(fired) = self.channels.fired.try_recv() {
            self.on_fired(fired);
        }
        self.take_derived();
        self.give_up_unpinned();
        self.publish();
        let has_more = self.cut_slice();
        self.cut_late_amendments();
        self.release_held();
        self.settle_derivations();
        self.on_timers();
        self.report_failure();
        self.answer_quiescing();
        busy || has_more
    }

    /// Whether all inputs have to wait until shards have caught up.
    pub(super) fn shards_are_behind(&self) -> bool {
        self.shared.failure().is_none() && self.stability.unstable() > UNSTABLE_LIMIT
    }

    /// Whether a replay has to wait until firings or shards have caught up.
    pub(super) fn backlogged(&self) -> bool {
        self.shared.failure().is_none()
            && (self.firings.backlogged() || self.stability.unstable() > UNSTABLE_LIMIT)
    }

    fn on_requests(&mut self, first: Request) {
        let mut request = Some(first);
        for _ in 0..REQUESTS_IN_A_ROW {
            let Some(next) = request.take() else { break };
            self.on_request(next);
            if self.shards_are_behind() {
                break;
            }
            request = self.channels.requests.try_recv().ok();
        }
        if let Some(next) = request {
            self.on_request(next);
        }
    }

    fn on_request(&mut self, request: Request) {
        match request {
            Request::Input { input, want, reply } => self.on_input(*input, want, reply),
            Request::Update { job, reply } => {
                let result = self
                    .refuse_if_failed()
                    .and_then(|()| self.begin_update(job));
                match result {
                    Ok(result) => self.answer_update(result, reply),
                    Err(error) => {
                        let _ = reply.send(Err(error));
                    }
                }
            }
            Request::Quiesce { reply } => self.quiescing.push(reply),
            Request::Stop { deadline, reply } => {
                let until = Instant::now() + deadline;
                let (_, replies) = self.stopping.get_or_insert((until, Vec::new()));
                replies.push(reply);
                self.refuse_waiting(&RuntimeError::Stopped);
            }
        }
    }

    pub(super) fn refuse_if_failed(&self) -> Result<(), RuntimeError> {
        if self.stopping.is_some() {
            return Err(RuntimeError::Stopped);
        }
        let failure = self.shared.failure();
        failure.map_or(Ok(()), |error| Err(error.not_taken()))
    }

    /// Converts an error for a request that found the log's end at `before`.
    pub(super) fn for_request(&self, error: RuntimeError, before: Position) -> RuntimeError {
        if self.shared.log.end() > before {
            error.unproven()
        } else {
            error.not_taken()
        }
    }

    pub(super) fn on_input(&mut self, input: Input, want: Want, reply: Reply) {
        if let Err(error) = self.refuse_if_failed() {
            let _ = reply.send(Err(error));
            return;
        }
        let Some((input, reply)) = self.hold(input, want, reply) else {
            return;
        };
        let is_advance = matches!(input, Input::Advance { .. });
        let before = self.shared.log.end();
        let taken = self.take_input(input);
        let (outcome, position) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                let _ = reply.send(Err(self.for_request(error, before)));
                return;
            }
        };
        if want == Want::Stable
            && let Err(error) = self.cut_all()
        {
            let _ = reply.send(Err(self.for_request(error, before)));
            return;
        }
        let sn = self.last_cut();
        let done = Done { outcome, sn };
        if want == Want::Stable && is_advance && (self.behind || self.late) {
            self.answer_when_caught_up(position, done, reply);
            return;
        }
        match want {
            Want::Durable => {
                self.shared.acks.add(Ack {
                    position,
                    answer: done,
                    reply,
                });
                // The group may have become durable before the acknowledgement was added.
                let log = &self.shared.log;
                self.shared.acks.settle(log.durable(), log.failed());
            }
            Want::Stable => self.answer_when_stable(position, done, reply),
        }
    }

    /// Records a failure after which nothing becomes stable any more.
    pub(super) fn fail(&mut self, error: RuntimeError) {
        self.shared.failure.lock().get_or_insert(error);
    }

    fn report_failure(&mut self) {
        let Some(error) = self.shared.failure() else {
            return;
        };
        self.stability.give_up(&error);
        self.refuse_waiting(&error);
        if !self.reported_failure {
            self.reported_failure = true;
            tracing::error!("{error}");
            self.shared.host.failed(&error);
        }
    }

    /// Whether all that was cut is stable and answered.
    fn is_drained(&self) -> bool {
        self.stability.unstable() == 0 && self.firings.outstanding() == 0 && self.derived.is_empty()
    }

    /// Whether nothing is under way, and nothing waits.
    fn is_quiet(&self) -> bool {
        let waits = self.behind || self.late;
        self.is_drained() && !waits && self.held.is_empty() && self.catching_up.is_empty()
    }

    /// A caller that waits for a snapshot waits until the streams derived from its content have
    /// caught up, and sees their content by then. That makes a replay exact, and it makes a source
    /// that sends advances as slow as the queries that follow from it.
    fn settle_derivations(&mut self) {
        let oldest = self.firings.oldest_underived();
        if self.behind || !self.stability.has_underived(oldest) {
            return;
        }
        if let Err(error) = self.cut_all() {
            tracing::warn!("no cut could be made: {error}");
        }
        let newest = self.last_cut();
        self.stability.derived(oldest, newest);
        self.publish();
    }

    fn answer_quiescing(&mut self) {
        if self.quiescing.is_empty() {
            return;
        }
        let result = match self.shared.failure() {
            Some(error) => Err(error),
            None if self.is_quiet() => Ok(()),
            None => return,
        };
        for reply in self.quiescing.drain(..) {
            let _ = reply.send(result.clone());
        }
    }

    fn has_stopped(&self) -> bool {
        let Some((until, _)) = &self.stopping else {
            return false;
        };
        // Remaining closes are cut after the restart.
        self.is_drained() || self.shared.failure().is_some() || Instant::now() >= *until
    }

    /// Handles everything but requests until `done` holds or something has failed.
    pub(super) fn wait_until(
        &mut self,
        mut done: impl FnMut(&mut Sequencer) -> bool,
    ) -> Result<(), RuntimeError> {
        loop {
            let busy = self.fabric.drive();
            while let Ok(fired) = self.channels.fired.try_recv() {
                self.on_fired(fired);
            }
            self.publish();
            if done(self) {
                return Ok(());
            }
            if let Some(error) = self.shared.failure() {
                return Err(error);
            }
            if self.shared.aborted.load(Ordering::SeqCst) {
                return Err(RuntimeError::Stopped);
            }
            let wait = if busy {
                Duration::ZERO
            } else {
                // Only an abort comes without a signal.
                Duration::from_millis(200)
            };
            select! {
                recv(self.channels.fired) -> fired => {
                    if let Ok(fired) = fired {
                        self.on_fired(fired);
                    }
                }
                recv(self.channels.woken) -> _ => {}
                default(wait) => {}
            }
        }
    }
}
