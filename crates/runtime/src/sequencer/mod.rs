//! The sequencer: the state machine that puts inputs in order, and owns the coordinator.
//!
//! [`Sequencer::step`] takes one event and does what follows from it: admit → log → apply → cuts →
//! inject → (applied by every shard, and the plan record durable) → stable → firings to the pool.
//! Every change of the engine's state passes through `take` (`record.rs`).
//!
//! Before changing anything here: a step never waits and is never re-entered. What has to wait is a
//! [`Phase`], or is in a list (`held`, `catching_up`, `derived`, the waiters of `stability.rs`).
//! A later step goes on with it. There is no clock and no thread here: time comes in with each
//! event, and `driver` says what runs where.

mod acks;
mod ahead;
mod change;
mod check;
mod checkpoints;
mod closes;
mod directory;
mod firings;
mod injection;
mod limits;
mod record;
mod recovery;
mod requests;
mod shared;
mod stability;
mod timers;
mod transactions;
mod triggers;

pub(crate) use change::Evaluation;
pub(crate) use checkpoints::{CheckpointJob, Checkpoints};
pub(crate) use requests::{AckWhen, Event, Read, Reply, Request};
pub use requests::{Change, ChangeJob, InputReceipt, Outcome};
pub use shared::DriverConfig;
pub(crate) use shared::{Shared, SharedParts};
pub(crate) use transactions::Transactions;
pub(crate) use triggers::Triggers;

use crate::checkpoints::RestoredCores;
use crate::clock::Now;
use crate::delivery::Delivery;
use crate::error::RuntimeError;
use crate::fabric::Fabric;
use crate::host::Exceeded;
use crate::slot::Answering;
use acks::Ack;
use change::{AwaitedSnapshot, UnderEvaluation};
use closes::{CatchingUp, HeldInput, Turn};
use crossbeam_channel::Sender;
use directory::DirectoryWriter;
use firings::Derived;
use injection::Injection;
use recovery::Recovery;
use somersault_checkpoint::CheckpointTimes;
use somersault_log::{DeliveredRecord, GroupHold, Position};
use somersault_model::StreamUid;
use somersault_stream::{Coordinator, Input};
use stability::Stability;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transactions::UnderJudgement;

/// This many SNs may be cut and not stable before inputs have to wait.
const UNSTABLE_LIMIT: usize = 256;
/// The time that the shards may take to stop.
const FABRIC_STOP: Duration = Duration::from_secs(5);

/// The state machine that puts inputs in order.
pub(crate) struct Sequencer {
    shared: Arc<Shared>,
    coordinator: Coordinator,
    fabric: Box<dyn Fabric>,
    /// The thread for evaluations of changes, with the way back.
    evaluations: Sender<Evaluation>,
    events: Sender<Event>,
    phase: Phase,
    /// The time of the step at hand.
    now: Now,
    injection: Injection,
    /// The streams that have taken pushes in this step.
    grown: Vec<StreamUid>,
    directory: DirectoryWriter,
    stability: Stability,
    delivery: Delivery,
    checkpoints: Checkpoints,
    transactions: Transactions,
    /// The position of the newest record in the log.
    log_end: Position,
    /// Keeps a record in one group with the cut that follows from it.
    group: Option<GroupHold>,
    /// Why nothing becomes stable any more.
    failure: Option<RuntimeError>,
    /// Answers of firings for derived streams, not yet taken.
    derived: VecDeque<Derived>,
    /// Answers that durable subscriptions are to lose, not yet logged.
    exceeded: VecDeque<Exceeded>,
    /// When the host is to look at the deadlines of durable subscriptions.
    next_deadline: Option<Instant>,
    /// Whether closes that are due wait for their cut.
    behind: bool,
    /// While closes are cut for the input that made them due, before others come.
    turn: Option<Turn>,
    /// Whether late statements wait for a cut.
    late: bool,
    /// Inputs that wait for closes or firings of their streams, in order.
    held: VecDeque<HeldInput>,
    /// Inputs that are answered when no close waits for its cut.
    catching_up: Vec<CatchingUp>,
    /// The number of inputs that have been taken, answers of firings not counted.
    inputs: u64,
    /// The number of the input that is being taken, or that led to the one being taken.
    input: u64,
    /// When something first waited for the next cut.
    pending_since: Option<Instant>,
    next_tick: Instant,
    quiescing: Vec<Answering<Result<(), RuntimeError>>>,
    stopping: Option<Stopping>,
    reported_failure: bool,
    /// Whether an SN may have become stable, or something waits for an SN that may be stable.
    moved: bool,
    /// Whether the next step has something to do without an event.
    is_busy: bool,
}

/// The phases of the sequencer. Reads, acknowledgements and firings go on in every phase.
enum Phase {
    /// It replays the log.
    Recovering(Recovery),
    /// It takes inputs.
    Open,
    /// It takes no input: a change waits until the snapshot that it reads is stable.
    AwaitingSnapshot(AwaitedSnapshot),
    /// It takes no input: a change is evaluated.
    EvaluatingChange(UnderEvaluation),
    /// It takes no input: the lane judges a command.
    Judging(Box<UnderJudgement>),
    /// It takes no input and cuts nothing but transactions: one has been overtaken, and runs again.
    Yielding,
    /// It does nothing any more.
    Ended,
}

/// The inputs that a sequencer takes. Others have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    /// None.
    Nothing,
    /// Records of the log that is replayed.
    Records,
    /// Requests of callers.
    Requests,
}

/// A stop that was asked for: no input is taken, and what is due is finished.
struct Stopping {
    until: Instant,
    replies: Vec<Answering<()>>,
}

/// The ports of a sequencer.
pub(crate) struct SequencerParts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) fabric: Box<dyn Fabric>,
    pub(crate) evaluations: Sender<Evaluation>,
    pub(crate) events: Sender<Event>,
    /// The marks of the log that is replayed; `None` if there is nothing to replay.
    pub(crate) delivered: Option<Vec<DeliveredRecord>>,
    /// The state of a checkpoint from which the log is replayed.
    pub(crate) restored: Option<RestoredCores>,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) transactions: Transactions,
    /// Told when the log has been replayed, or cannot be.
    pub(crate) ready: Answering<Result<(), RuntimeError>>,
}

impl Sequencer {
    /// A sequencer that begins with the replay of its log, if there is one.
    pub(crate) fn new(parts: SequencerParts, now: Now) -> Sequencer {
        let shared = parts.shared;
        let is_restored = parts.restored.is_some();
        let RestoredCores {
            coordinator,
            transactions: restored,
            times,
        } = parts.restored.unwrap_or_default();
        let mut coordinator = coordinator.with_limits(shared.config.limits);
        for mark in parts.delivered.iter().flatten() {
            coordinator.expect_delivered(mark);
        }
        let mut sequencer = Sequencer {
            phase: Phase::Recovering(Recovery::new(
                parts.delivered.is_some(),
                now.at,
                parts.ready,
            )),
            coordinator,
            fabric: parts.fabric,
            evaluations: parts.evaluations,
            events: parts.events,
            now,
            injection: Injection::new(shared.config.portion),
            grown: Vec::new(),
            directory: DirectoryWriter::default(),
            stability: Stability::since(times),
            delivery: Delivery::new(shared.config.kept_firings),
            checkpoints: parts.checkpoints,
            transactions: parts.transactions,
            log_end: shared.log.end(),
            group: None,
            failure: None,
            derived: VecDeque::new(),
            exceeded: VecDeque::new(),
            next_deadline: None,
            behind: false,
            turn: None,
            late: false,
            held: VecDeque::new(),
            catching_up: Vec::new(),
            inputs: 0,
            input: 0,
            pending_since: None,
            next_tick: now.at,
            quiescing: Vec::new(),
            stopping: None,
            reported_failure: false,
            moved: false,
            is_busy: true,
            shared,
        };
        if is_restored {
            sequencer.announce(times);
            sequencer
                .transactions
                .restore(restored, &sequencer.coordinator);
            let numbers = sequencer.coordinator.all_source_numbers();
            sequencer.shared.show_checkpointed(Arc::new(numbers));
        }
        sequencer.show_checkpoints();
        sequencer
    }

    /// Lets the host, the ledger and the directory know the restored streams and queries.
    fn announce(&mut self, times: CheckpointTimes) {
        let stable = self.coordinator.last_cut();
        self.shared.host.stable(stable, times.shown_ms);
        let mut outputs = Vec::new();
        self.coordinator.announce(&mut outputs);
        // Streams and queries are made known; nothing is injected.
        let announced = self.carry_out(outputs, self.log_end);
        debug_assert!(announced.is_ok());
        // The thread that reads the log for the replay looks streams up.
        self.directory.publish(&self.shared.directory);
        let queries = self.coordinator.query_count();
        self.shared.figures.set_queries(queries);
    }

    /// Takes one event at this time, and does what follows from it.
    pub(crate) fn step(&mut self, event: Event, now: Now) {
        self.now = now;
        self.handle(event);
        if !self.has_ended() {
            self.go_on();
            self.prepare_open();
            self.open_handover();
        }
        self.directory.publish(&self.shared.directory);
        self.publish_credit();
    }

    /// Counts what is handed to the shards and not yet applied by every shard.
    fn publish_credit(&self) {
        self.shared
            .credit
            .set_injected(self.injection.bytes() as u64);
    }

    /// What it takes now besides the events that are taken in every state.
    pub(crate) fn intake(&self) -> Intake {
        match &self.phase {
            Phase::Recovering(recovery) if recovery.needs_records() => Intake::Records,
            Phase::Open if self.takes_inputs() && !self.are_shards_behind() => Intake::Requests,
            _ => Intake::Nothing,
        }
    }

    /// Whether nothing more is to be done.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    /// Stops the shards and gives the coordinator back.
    pub(crate) fn end(mut self) -> Coordinator {
        self.checkpoints.end();
        self.transactions.end();
        if let Err(error) = self.fabric.stop(FABRIC_STOP) {
            tracing::warn!("{error}");
        }
        for reply in self.stopping.into_iter().flat_map(|it| it.replies) {
            reply.send(());
        }
        self.coordinator
    }

    /// Answers reads between two steps.
    pub(crate) fn answer(&self, reads: impl Iterator<Item = Read>) {
        reads.for_each(|read| read(&self.coordinator));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Request(request) => self.on_request(request),
            Event::Read(read) => read(&self.coordinator),
            Event::Replayed(read) => self.on_replayed(read),
            Event::Fired(fired) => self.on_fired(fired),
            Event::Limits(limits) => self.on_limits(limits),
            Event::Durable { position, at } => {
                self.stability.on_durable(position, at);
                self.moved = true;
            }
            Event::LogFailed(error) => self.fail(RuntimeError::Log(error)),
            Event::Applied => self.moved = true,
            Event::ChangeEvaluated(change) => self.on_evaluated(change),
            Event::Judged(judged) => self.on_judged(judged),
            Event::TransactionsFrozen(frozen) => self.on_transactions_frozen(frozen),
            Event::TransactionsWait => {}
            Event::LaneFailed(error) => self.fail(error),
            Event::CheckpointWritten(written) => self.on_checkpoint_written(written),
            Event::TidyShards => {
                if let Err(error) = self.fabric.tidy() {
                    self.fail(RuntimeError::Fabric(error));
                }
            }
            Event::Tick => {}
            Event::Abort => self.phase = Phase::Ended,
        }
    }

    /// Does everything that needs no further event: work of shards without threads, SNs that have
    /// become stable, what waits for them, timers.
    fn go_on(&mut self) {
        self.is_busy = self.fabric.drive();
        self.give_up_unpinned();
        if self.is_busy || self.moved {
            self.moved = false;
            self.publish();
        }
        match self.phase {
            Phase::Recovering(_) => self.is_busy |= self.recover(),
            Phase::AwaitingSnapshot(_) => self.evaluate_awaited(),
            _ => {}
        }
        self.yield_to_lane();
        match self.phase {
            Phase::Open => {
                self.is_busy |= self.cut_slice();
                self.take_more();
            }
            Phase::Yielding => self.take_transactions(),
            _ => {}
        }
        self.look_at_checkpoints();
        self.go_on_with_checkpoint();
        self.report_failure();
        self.answer_quiescing();
        if self.has_stopped() {
            self.phase = Phase::Ended;
        }
    }

    /// Hands what pushes have brought into open batches to the shards, to be prepared. Callers have
    /// their answers by now.
    fn prepare_open(&mut self) {
        for stream in self.grown.drain(..) {
            let open = self.coordinator.open_batches(stream);
            if let Err(error) = self.injection.prepare(open, self.fabric.as_mut()) {
                // Reading what is applied finds the same failure, and says so.
                tracing::debug!("nothing is prepared: {error}");
                self.moved = true;
            }
        }
    }

    /// Takes inputs that are here already, and those of the clock, unless one has its turn.
    fn take_more(&mut self) {
        let parts: [fn(&mut Sequencer); 9] = [
            Sequencer::take_transactions,
            Sequencer::take_derived,
            Sequencer::look_at_deadlines,
            Sequencer::take_exceeded,
            Sequencer::cut_late_amendments,
            Sequencer::cut_live,
            Sequencer::release_held,
            Sequencer::settle_derivations,
            Sequencer::on_timers,
        ];
        for part in parts {
            if !self.takes_inputs() {
                break;
            }
            part(self);
        }
    }

    fn takes_inputs(&self) -> bool {
        matches!(self.phase, Phase::Open) && !self.has_turn()
    }

    /// Whether all inputs have to wait until shards have caught up.
    fn are_shards_behind(&self) -> bool {
        self.failure.is_none() && self.stability.unstable() > UNSTABLE_LIMIT
    }

    /// Whether a replay has to wait until firings or shards have caught up.
    fn is_backlogged(&self) -> bool {
        self.failure.is_none()
            && (self.delivery.is_backlogged() || self.stability.unstable() > UNSTABLE_LIMIT)
    }

    fn on_request(&mut self, request: Request) {
        match request {
            Request::Input {
                input,
                ack_when,
                reply,
            } => {
                if let Some((input, reply)) = self.judge_stream(*input, reply) {
                    self.on_input(input, ack_when, reply);
                }
            }
            Request::Change { job, reply } => self.begin_change(job, reply),
            Request::Update(update) => self.pass_on(update),
            Request::Declare { command, reply } => self.begin_declaration(*command, reply),
            Request::Quiesce { reply } => self.quiescing.push(reply),
            Request::Checkpoint { reply } => self.begin_checkpoint(reply),
            Request::LastCheckpoint { reply } => self.begin_last_checkpoint(reply),
            Request::Check { reply } => reply.send(self.check()),
            Request::Stop { deadline, reply } => {
                let until = self.now.at + deadline;
                let stopping = self.stopping.get_or_insert(Stopping {
                    until,
                    replies: Vec::new(),
                });
                stopping.replies.push(reply);
                self.refuse_waiting(&RuntimeError::Stopped);
            }
        }
    }

    fn refuse_if_failed(&self) -> Result<(), RuntimeError> {
        if self.stopping.is_some() {
            return Err(RuntimeError::Stopped);
        }
        let failure = self.failure.clone();
        failure.map_or(Ok(()), |error| Err(error.not_taken()))
    }

    /// Converts an error for a request that found the log's end at `before`.
    fn for_request(&self, error: RuntimeError, before: Position) -> RuntimeError {
        if self.log_end > before {
            error.unproven()
        } else {
            error.not_taken()
        }
    }

    fn on_input(&mut self, input: Input, ack_when: AckWhen, reply: Reply) {
        if let Err(error) = self.refuse_if_failed() {
            reply.send(Err(error));
            return;
        }
        let Some((input, mut reply)) = self.hold(input, ack_when, reply) else {
            return;
        };
        let is_advance = matches!(input, Input::Advance { .. });
        let before = self.log_end;
        let taken = match ack_when {
            AckWhen::Durable => self.take_input(input),
            AckWhen::Stable => self.in_one_group(|sequencer| {
                let taken = sequencer.take_input(input)?;
                sequencer.cut_all()?;
                Ok(taken)
            }),
        };
        let (outcome, position) = match taken {
            Ok(taken) => taken,
            Err(error) => {
                reply.send(Err(self.for_request(error, before)));
                return;
            }
        };
        self.publish_credit();
        if ack_when == AckWhen::Stable {
            // Until it is durable, a push also has its bytes for the log. Others have not.
            reply.release_credit();
        }
        let sn = self.coordinator.last_cut();
        let receipt = InputReceipt { outcome, sn };
        match ack_when {
            AckWhen::Stable if is_advance && (self.behind || self.late) => {
                self.answer_when_caught_up(position, receipt, reply);
            }
            AckWhen::Stable => self.answer_when_stable(position, receipt, reply),
            AckWhen::Durable => {
                let ack = Ack {
                    position,
                    answer: receipt,
                    reply,
                };
                let log = &self.shared.log;
                self.shared.acks.answer(ack, || log.durable());
            }
        }
    }

    /// Records a failure after which nothing becomes stable any more.
    fn fail(&mut self, error: RuntimeError) {
        self.shared.fail(error.clone());
        self.failure.get_or_insert(error);
    }

    fn report_failure(&mut self) {
        let Some(error) = self.failure.clone() else {
            return;
        };
        self.stability.give_up(&error);
        self.refuse_waiting(&error);
        self.refuse_judgement(&error);
        self.transactions.fail(&error);
        self.checkpoints.give_up(&*self.shared.host, &error);
        if !self.reported_failure {
            self.reported_failure = true;
            tracing::error!("{error}");
            self.shared.host.failed(&error);
        }
    }

    /// Whether all that was cut is stable and answered.
    fn is_drained(&self) -> bool {
        self.stability.unstable() == 0 && self.delivery.under_way() == 0 && self.derived.is_empty()
    }

    /// Whether nothing is under way, and nothing waits.
    fn is_quiet(&self) -> bool {
        let waits = self.behind || self.late || self.has_live_due();
        let is_quiet = self.held.is_empty() && self.catching_up.is_empty();
        self.is_drained() && !waits && is_quiet && self.transactions.is_quiet()
    }

    /// A caller that waits for a snapshot waits until the streams derived from its content have
    /// caught up, and sees their content by then. That makes a replay exact, and it makes a source
    /// that sends advances as slow as the queries that follow from it.
    fn settle_derivations(&mut self) {
        let oldest = self.delivery.oldest_underived();
        if self.behind || !self.stability.has_underived(oldest) {
            return;
        }
        if let Err(error) = self.cut_all() {
            tracing::warn!("no cut could be made: {error}");
        }
        let newest = self.coordinator.last_cut();
        self.stability.derived(oldest, newest);
        self.moved = true;
    }

    fn answer_quiescing(&mut self) {
        if self.quiescing.is_empty() {
            return;
        }
        let result = match &self.failure {
            Some(error) => Err(error.clone()),
            None if self.is_quiet() => Ok(()),
            None => return,
        };
        for reply in self.quiescing.drain(..) {
            reply.send(result.clone());
        }
    }

    fn has_stopped(&self) -> bool {
        let Some(stopping) = &self.stopping else {
            return false;
        };
        // Remaining closes are cut after the restart.
        self.is_drained() || self.failure.is_some() || self.now.at >= stopping.until
    }
}
