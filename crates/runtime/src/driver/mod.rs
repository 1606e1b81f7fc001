//! The driver: a handle to the sequencer that all threads of the engine share, and what runs it.
//!
//! A driver has threads of its own (`live.rs`), or its callers drive it (`process.rs`). Before
//! changing anything here: callers reach the sequencer through channels alone. The part of a push
//! that runs on its caller's thread is in `push.rs`.

mod handle;
mod housekeeping;
mod live;
mod mailbox;
mod messages;
mod process;
mod push;
mod reads;
mod transactions;

pub use handle::{Pending, PendingInput};
pub use messages::{MessageOffer, MessageReceipt};
pub use process::Process;
pub use reads::{DriverStatus, SourceProgress};

use crate::checkpoints::{CheckpointPolicy, CheckpointWriter, Opened, RestoredState};
use crate::clock::{Clock, Now};
use crate::error::RuntimeError;
use crate::fabric::{Fabric, OnApplied};
use crate::handover::Handover;
use crate::host::{FiringAcks, Host, HostReport};
use crate::lane::{
    AnalyseRequest, AnswerRoom, CallAnalysis, CallArguments, CallKey, CallOutcome, CallRequest,
    Lane, LaneCounters, LaneEvent, LaneParts, Rerunner, UnreadOutcome, UpdateJob, UpdateOutcome,
    UpdateRequest, UpdateResult, WakeSequencer,
};
use crate::replay::LogReplay;
use crate::sequencer::{
    AckWhen, ChangeJob, CheckpointJob, Checkpoints, DriverConfig, Evaluation, Event, InputReceipt,
    Reply, Request, Sequencer, SequencerParts, Shared, SharedParts, Transactions, Triggers,
};
use crate::slot::{Awaited, slot};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use handle::Handle;
use live::Threads;
use mailbox::Mailbox;
use parking_lot::Mutex;
use process::CallerDriven;
use push::{RecentTerms, numbering};
use somersault_checkpoint::Manifest;
use somersault_log::{LoadSegment, Log, Recovered};
use somersault_model::{EventTime, QuadIds};
use somersault_query::Execution;
use somersault_store::Store;
use somersault_stream::{Input, ParsedCommand};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// The additional time for which a stop waits for the fabric to end, beyond its deadline.
const STOP_SLACK: Duration = Duration::from_secs(5);
/// Longer than the shards take for anything; a failure ends the wait.
const UNTIL_THERE_IS_ROOM: Duration = Duration::from_secs(86_400);

/// A call of a procedure.
pub struct ProcedureCall {
    /// The procedure.
    pub procedure: String,
    /// The arguments.
    pub arguments: CallArguments,
    /// Under which it is remembered: a call with a key that was used is not run again.
    pub key: Option<CallKey>,
    /// Its limits.
    pub execution: Execution,
    /// Where its answer waits to be read, if that is limited.
    pub room: Option<Arc<AnswerRoom>>,
}

/// The parts of a driver.
pub struct DriverParts {
    /// Settings.
    pub config: DriverConfig,
    /// The store.
    pub store: Arc<Store>,
    /// The log.
    pub log: Arc<Log>,
    /// The records that the log held when it was opened.
    pub recovered: Option<Recovered>,
    /// The state of the checkpoint behind which the log was opened.
    pub restored: Option<RestoredState>,
    /// Writes checkpoints; `None` where nothing is written to a folder.
    pub checkpoints: Option<CheckpointWriter>,
    /// The host, which keeps the queries.
    pub host: Arc<dyn Host>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The limits of transactions that messages lead to, and what they may use.
    pub execution: Execution,
    /// The process that callers give its turns; `None` for a driver with threads of its own.
    pub process: Option<Arc<dyn Process>>,
}

/// A handle to the sequencer; shared by all threads of the engine.
pub struct Driver {
    handle: Arc<Handle>,
    threads: Mutex<Option<Threads>>,
    recent: RecentTerms,
}

/// Work that the sequencer hands out, each kind for a lane of its own.
struct Lanes {
    evaluations: Receiver<Evaluation>,
    checkpoints: Receiver<CheckpointJob>,
    transactions: Lane,
}

/// The sequencer's ends of the lanes.
struct LaneEnds {
    evaluations: Sender<Evaluation>,
    checkpoints: Sender<CheckpointJob>,
    transactions: Transactions,
    lane: Sender<LaneEvent>,
    counters: Arc<LaneCounters>,
}

impl Lanes {
    fn new(shared: &Shared, events: &Sender<Event>, execution: Execution) -> (LaneEnds, Lanes) {
        let (to_evaluate, evaluations) = unbounded();
        let (to_write, checkpoints) = unbounded();
        let (lane, lane_inbox) = unbounded();
        let handover = Arc::new(Handover::new());
        let idle = Arc::new(AtomicU64::new(0));
        let rerunner = Rerunner::new(Arc::clone(&shared.store), execution.clone());
        let counters = Arc::new(LaneCounters::default());
        let lanes = Lanes {
            evaluations,
            checkpoints,
            transactions: Lane::new(LaneParts {
                store: Arc::clone(&shared.store),
                handover: Arc::clone(&handover),
                events: lane_inbox,
                wake: wake(events),
                execution,
                idle: Arc::clone(&idle),
                counters: Arc::clone(&counters),
            }),
        };
        let ends = LaneEnds {
            evaluations: to_evaluate,
            checkpoints: to_write,
            transactions: Transactions::new(handover, lane.clone(), idle, rerunner),
            lane,
            counters,
        };
        (ends, lanes)
    }
}

/// The replay of a log, read by a thread where there may be threads.
fn replay_of(
    recovered: Recovered,
    has_threads: bool,
    shared: &Arc<Shared>,
) -> Result<LogReplay, RuntimeError> {
    match has_threads {
        true => LogReplay::ahead(recovered, numbering(shared)),
        false => Ok(LogReplay::here(recovered)),
    }
}

impl Driver {
    /// Replays the log and starts the sequencer. `fabric` receives the function to call when shards
    /// have applied something.
    ///
    /// # Errors
    /// Errors of the log or the fabric, or a record that cannot be applied.
    pub fn start(
        parts: DriverParts,
        fabric: impl FnOnce(OnApplied) -> Result<Box<dyn Fabric>, RuntimeError>,
    ) -> Result<Arc<Driver>, RuntimeError> {
        let ((events, events_inbox), (reads, reads_inbox)) = (unbounded(), unbounded());
        let (requests, requests_inbox) = match parts.process {
            None => bounded(parts.config.inbox),
            // Nothing takes requests while one is sent.
            Some(_) => unbounded(),
        };
        let shared = Arc::new(Shared::new(SharedParts {
            config: parts.config,
            store: parts.store,
            log: parts.log,
            host: parts.host,
            clock: parts.clock,
        }));
        shared.host.attach(answered(&events));
        let fabric = fabric(on_applied(&events))?;
        observe_log(&shared, events.clone());
        let triggers = triggers(&shared, parts.restored.as_ref());
        let (ready, is_ready) = slot();
        let (ends, lanes) = Lanes::new(&shared, &events, parts.execution);
        let sequencer = SequencerParts {
            shared: Arc::clone(&shared),
            fabric,
            evaluations: ends.evaluations,
            events: events.clone(),
            delivered: (parts.recovered.as_ref()).map(|log| log.delivered().collect()),
            restored: None,
            checkpoints: Checkpoints::new(parts.checkpoints, ends.checkpoints, triggers),
            transactions: ends.transactions,
            ready,
        };
        let sequencer = begin(sequencer, parts.restored)?;
        let (unanswered, untaken) = (reads_inbox.clone(), requests_inbox.clone());
        let replay = (parts.recovered).map(|log| replay_of(log, parts.process.is_none(), &shared));
        let mailbox = Mailbox::new(
            events_inbox,
            reads_inbox,
            requests_inbox,
            replay.transpose()?,
        );
        let mut handle = Handle {
            shared,
            requests,
            events,
            reads,
            lane: ends.lane,
            counters: ends.counters,
            unanswered,
            untaken,
            caller_driven: None,
        };
        let driver = match parts.process {
            None => {
                let handle = Arc::new(handle);
                let threads = Threads::start(sequencer, mailbox, lanes, &handle)?;
                Driver::new(handle, Some(threads))
            }
            Some(process) => {
                let shared = Arc::clone(&handle.shared);
                let driven = CallerDriven::new(process, sequencer, mailbox, lanes, shared);
                handle.caller_driven = Some(driven);
                Driver::new(Arc::new(handle), None)
            }
        };
        driver.await_replay(&is_ready)?;
        Ok(Arc::new(driver))
    }

    fn new(handle: Arc<Handle>, threads: Option<Threads>) -> Driver {
        Driver {
            handle,
            threads: Mutex::new(threads),
            recent: RecentTerms::new(),
        }
    }

    fn await_replay(
        &self,
        is_ready: &Awaited<Result<(), RuntimeError>>,
    ) -> Result<(), RuntimeError> {
        match self.handle.wait(is_ready) {
            Err(RuntimeError::Stopped) => Err(RuntimeError::Internal(
                "the sequencer ended while it replayed the log".to_owned(),
            )),
            ready => ready?,
        }
    }

    /// One step of a driver that its callers drive. Whether anything was done; `false` for a driver
    /// with threads of its own.
    pub fn turn(&self) -> bool {
        let driven = self.handle.caller_driven.as_ref();
        driven.is_some_and(|driven| driven.step(&self.handle))
    }

    fn check_writable(&self) -> Result<(), RuntimeError> {
        match self.handle.shared.config.read_only {
            true => Err(RuntimeError::ReadOnly),
            false => Ok(()),
        }
    }

    /// Takes an input and returns when its record is durable.
    ///
    /// # Errors
    /// The input is refused, or the log has failed.
    pub fn log_input(&self, input: Input) -> Result<InputReceipt, RuntimeError> {
        self.hand_in(input)?.wait()
    }

    /// Hands in an input, to be waited for later. The driver takes the inputs of one thread in the
    /// order in which the thread hands them in, and many of them can become durable together. A
    /// push waits here until there is room for its bytes.
    ///
    /// # Errors
    /// The driver has stopped, the log is only read, or there is no room for a push.
    pub fn hand_in(&self, input: Input) -> Result<PendingInput, RuntimeError> {
        self.check_writable()?;
        let patience = self.handle.shared.config.inflight_patience;
        let credit = self.handle.credit(input.statement_bytes(), patience)?;
        let (reply, answer) = slot();
        self.handle.send(Request::Input {
            input: Box::new(input),
            ack_when: AckWhen::Durable,
            reply: Reply::new(reply, credit),
        })?;
        let handle = Arc::clone(&self.handle);
        Ok(PendingInput { answer, handle })
    }

    /// Takes an input, cuts, and returns when that snapshot is stable.
    ///
    /// # Errors
    /// The input is refused, or the log or a shard has failed.
    pub fn apply_input(&self, input: Input) -> Result<InputReceipt, RuntimeError> {
        let bytes = input.statement_bytes();
        self.apply_bytes(input, bytes)
    }

    /// Takes an input of this many bytes. Its caller waits for its snapshot in any case, so it
    /// waits for room for as long as that takes.
    fn apply_bytes(&self, input: Input, bytes: usize) -> Result<InputReceipt, RuntimeError> {
        self.check_writable()?;
        let credit = self.handle.credit(bytes, UNTIL_THERE_IS_ROOM)?;
        self.handle.ask(|reply| Request::Input {
            input: Box::new(input),
            ack_when: AckWhen::Stable,
            reply: Reply::new(reply, credit),
        })
    }

    /// Takes a load segment, whose statements are passed by pointer. Returns when it is stable.
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn load(
        &self,
        segment: LoadSegment,
        statements: Arc<[QuadIds]>,
    ) -> Result<InputReceipt, RuntimeError> {
        let resolver = &self.handle.shared.resolver;
        let bytes = size_of_val(&statements[..]);
        resolver.hand_over(&segment, statements);
        let load = Input::Load {
            received_ms: self.now_ms(),
            segment: segment.clone(),
            clears: Vec::new(),
        };
        let done = self.apply_bytes(load, bytes);
        resolver.forget(&segment);
        done
    }

    /// Computes a change on the newest snapshot and makes its effects the next one (S15). Meanwhile
    /// no other input is taken. The job holds statements of `bytes` bytes; its effects count once
    /// they are known.
    ///
    /// # Errors
    /// The log or a shard has failed.
    pub fn change(&self, job: ChangeJob, bytes: usize) -> Result<UpdateResult, RuntimeError> {
        self.check_writable()?;
        let credit = self.handle.credit(bytes, UNTIL_THERE_IS_ROOM)?;
        let request = |reply| Request::Change {
            job,
            reply: Reply::new(reply, credit),
        };
        self.handle.ask(request)
    }

    /// Carries out an update as a transaction, and returns when its effects are in a stable
    /// snapshot. It reads everything that was taken before it, and many share a snapshot (S15).
    ///
    /// # Errors
    /// The log is only read, its disk is full, or the log or a shard has failed. That an operation
    /// cannot be carried out is no error.
    pub fn update(
        &self,
        job: UpdateJob,
        execution: Execution,
    ) -> Result<UpdateOutcome, RuntimeError> {
        let (update, pending) = self.update_request(job, execution)?;
        self.handle.send(Request::Update(update))?;
        pending.wait()
    }

    /// As [`Driver::update`]; hands the update in, to be waited for later. `None` if too many
    /// inputs wait for the sequencer, so that the update would have to wait to be handed in.
    ///
    /// # Errors
    /// The driver has stopped, the log is only read, or its disk is full.
    pub fn hand_in_update(
        &self,
        job: UpdateJob,
        execution: Execution,
    ) -> Result<Option<Pending<UpdateOutcome>>, RuntimeError> {
        let (update, pending) = self.update_request(job, execution)?;
        let is_sent = self.handle.try_send(Request::Update(update))?;
        Ok(is_sent.then_some(pending))
    }

    fn update_request(
        &self,
        job: UpdateJob,
        execution: Execution,
    ) -> Result<(Box<UpdateRequest>, Pending<UpdateOutcome>), RuntimeError> {
        self.check_writable()?;
        if let Some(error) = self.handle.shared.log.no_room() {
            return Err(error.into());
        }
        let (reply, answer) = slot();
        let update = Box::new(UpdateRequest {
            job,
            execution,
            reply,
            repeats: 0,
            needs_all_in_base: false,
        });
        let handle = Arc::clone(&self.handle);
        Ok((update, Pending { answer, handle }))
    }

    /// Takes a statement about procedures or dataflows, and returns when it is durable.
    ///
    /// # Errors
    /// It does not fit what is declared, or the log has failed.
    pub fn declare(&self, command: ParsedCommand) -> Result<InputReceipt, RuntimeError> {
        self.check_writable()?;
        self.handle.ask(|reply| Request::Declare {
            command: Box::new(command),
            reply: Reply::new(reply, None),
        })
    }

    /// Calls a procedure, and returns when its effects are in a stable snapshot.
    ///
    /// # Errors
    /// There is no such procedure, an argument does not fit, or the log or a shard has failed. That
    /// the procedure aborts is no error.
    pub fn call(&self, call: ProcedureCall) -> Result<CallOutcome, RuntimeError> {
        Ok(self.hand_in_call(call)?.wait()?.read())
    }

    /// Hands in a call, to be waited for later. The calls of one thread run in the order in which
    /// the thread hands them in, and many of them share a snapshot.
    ///
    /// # Errors
    /// The driver has stopped, the log is only read, or the disk is full.
    pub fn hand_in_call(
        &self,
        call: ProcedureCall,
    ) -> Result<Pending<UnreadOutcome>, RuntimeError> {
        self.check_writable()?;
        if let Some(error) = self.handle.shared.log.no_room() {
            return Err(error.into());
        }
        let place = self.handle.counters.room().take(&call.arguments)?;
        let (reply, answer) = slot();
        let request = CallRequest {
            procedure: call.procedure,
            arguments: call.arguments,
            key: call.key,
            execution: call.execution,
            room: call.room,
            reply,
            received: EventTime(self.now_ms()),
            repeats: 0,
            _place: place,
        };
        let sent = self.handle.lane.send(LaneEvent::Call(Box::new(request)));
        sent.map_err(|_| RuntimeError::Stopped)?;
        let handle = Arc::clone(&self.handle);
        Ok(Pending { answer, handle })
    }

    /// Runs a call in a transaction that is undone, and returns what it did. Its key and room do
    /// not count.
    ///
    /// # Errors
    /// As [`Driver::call`].
    pub fn analyse_call(&self, call: ProcedureCall) -> Result<CallAnalysis, RuntimeError> {
        let (reply, answer) = slot();
        let request = AnalyseRequest {
            procedure: call.procedure,
            arguments: call.arguments,
            execution: call.execution,
            reply,
            received: EventTime(self.now_ms()),
            repeats: 0,
        };
        let sent = self.handle.lane.send(LaneEvent::Analyse(Box::new(request)));
        sent.map_err(|_| RuntimeError::Stopped)?;
        self.handle.wait(&answer)?
    }

    /// Asks for a checkpoint, which exists when this is answered.
    ///
    /// # Errors
    /// The driver has stopped. The answer is an error if another checkpoint is being written, if
    /// nothing is written to a folder, or if writing fails. Nothing else has changed then.
    pub fn checkpoint(&self) -> Result<Pending<Manifest>, RuntimeError> {
        self.check_writable()?;
        let (reply, answer) = slot();
        self.handle.send(Request::Checkpoint { reply })?;
        let handle = Arc::clone(&self.handle);
        Ok(Pending { answer, handle })
    }

    /// Takes the checkpoint of a clean shutdown, within this time; `None` if the next start is
    /// quick without it.
    ///
    /// # Errors
    /// It could not be written, or not in time. Nothing else has changed then.
    pub fn last_checkpoint(&self, patience: Duration) -> Result<Option<Manifest>, RuntimeError> {
        match self.handle.last_checkpoint(patience) {
            Err(RuntimeError::NoCheckpoint(_)) => Ok(None),
            written => written.map(Some),
        }
    }

    /// Waits until all due firings have been answered.
    ///
    /// # Errors
    /// [`RuntimeError::Timeout`], or the failure of the driver.
    pub fn quiesce(&self, timeout: Duration) -> Result<(), RuntimeError> {
        let (reply, answer) = slot();
        self.handle.send(Request::Quiesce { reply })?;
        let answered = self.handle.wait_for(&answer, timeout)?;
        answered.unwrap_or(Err(RuntimeError::Timeout {
            what: "answering everything that is due",
            waited_ms: timeout.as_millis(),
        }))
    }

    /// Checks that the state of the sequencer agrees with the coordinator and the log (SQ-1), and
    /// that the ledger of firings is in order (DL-1). Takes its turn among the inputs. A driver
    /// that has stopped has no firings.
    ///
    /// # Errors
    /// [`RuntimeError::Internal`] with what is violated.
    pub fn check(&self) -> Result<(), RuntimeError> {
        let (reply, answer) = slot();
        let sent = self.handle.send(Request::Check { reply });
        match sent.and_then(|()| self.handle.wait(&answer)) {
            Ok(checked) => checked.map_err(RuntimeError::Internal),
            Err(RuntimeError::Stopped) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The failure that stopped the driver, if there is one.
    pub fn failure(&self) -> Option<RuntimeError> {
        self.handle.shared.failure()
    }

    /// Milliseconds on the clock by which pins expire, at a time that the caller has read.
    pub fn uptime_ms_at(&self, at: Instant) -> i64 {
        self.handle.shared.pin_clock.ms_at(at)
    }

    /// The time of reception for inputs, by the clock that the driver was given; milliseconds since
    /// the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.handle.shared.clock.now_ms()
    }

    /// Takes no more inputs, answers everything that is due or gives up after `deadline`, and ends.
    /// Returns when the sequencer has ended.
    pub fn stop(&self, deadline: Duration) {
        // Callers that wait for room go on, and are refused or answered.
        self.handle.shared.credit.end();
        self.handle.stop(deadline, STOP_SLACK);
        self.abort();
    }

    /// Ends the sequencer at once, without finishing work under way.
    pub fn abort(&self) {
        self.handle.shared.credit.end();
        // It may have ended.
        let _ = self.handle.events.send(Event::Abort);
        if let Some(driven) = &self.handle.caller_driven {
            driven.abort();
        }
        let threads = self.threads.lock().take();
        if let Some(threads) = threads {
            threads.join();
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.abort();
    }
}

fn wake(events: &Sender<Event>) -> WakeSequencer {
    let events = events.clone();
    // The sequencer may have ended.
    Box::new(move || drop(events.send(Event::TransactionsWait)))
}

/// Begins a sequencer, with the state of a checkpoint if there is one. The host has its answers
/// before it meets their queries.
fn begin(
    mut parts: SequencerParts,
    restored: Option<RestoredState>,
) -> Result<Sequencer, RuntimeError> {
    let now = Now::read(&*parts.shared.clock);
    let Some(state) = restored else {
        return Ok(Sequencer::new(parts, now));
    };
    let host = Arc::clone(&parts.shared.host);
    // The leases keep the terms of answers until these hold them.
    let (cores, _leases) = state.give_answers(&*host)?;
    parts.restored = Some(cores);
    let sequencer = Sequencer::new(parts, now);
    host.check_restored()?;
    Ok(sequencer)
}

/// The triggers of checkpoints, for a log that was just opened.
fn triggers(shared: &Shared, restored: Option<&RestoredState>) -> Triggers {
    let log = &shared.log;
    let newest = restored.map(|state| state.newest.clone());
    let covered = newest.as_ref().map_or(0, |newest| newest.position);
    // The log does not say how long its records are: they are taken for equally long.
    let records = (log.end().0 + 1).saturating_sub(log.first().0).max(1);
    let behind = log.end().0.saturating_sub(covered).min(records);
    let opened = Opened {
        log_bytes: (u128::from(log.bytes()) * u128::from(behind) / u128::from(records)) as u64,
        appended: log.written_bytes(),
        load: restored.map(|state| (state.newest.bytes, state.load)),
    };
    let policy = CheckpointPolicy::new(shared.config.checkpoints.clone(), opened);
    Triggers::new(policy, newest, shared.clock.instant())
}

fn answered(events: &Sender<Event>) -> FiringAcks {
    let events = events.clone();
    FiringAcks::new(move |report| {
        let event = match report {
            HostReport::Fired(fired) => Event::Fired(fired),
            HostReport::Limits(limits) => Event::Limits(limits),
        };
        // The sequencer may have ended.
        let _ = events.send(event);
    })
}

fn on_applied(events: &Sender<Event>) -> OnApplied {
    let events = events.clone();
    Arc::new(move || {
        // The sequencer may have ended.
        let _ = events.send(Event::Applied);
    })
}

/// Answers acknowledgements and tells the sequencer whenever a group is durable. Where nothing is
/// written, a record is durable once the sequencer has appended it.
fn observe_log(shared: &Arc<Shared>, events: Sender<Event>) {
    if shared.log.is_volatile() {
        return;
    }
    let weak = Arc::downgrade(shared);
    shared.log.on_durable(Box::new(move |position| {
        let Some(shared) = weak.upgrade() else { return };
        let failure = shared.log.failed();
        shared.acks.settle(position, failure.clone());
        let at = shared.clock.instant();
        // The sequencer may have ended.
        let _ = events.send(Event::Durable { position, at });
        if let Some(error) = failure {
            let _ = events.send(Event::LogFailed(error));
        }
    }));
}
