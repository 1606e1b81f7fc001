//! The lane: runs transactions one after another, over a stable snapshot and all that committed on
//! it since, and hands them to the sequencer ([`Handover`]).
//!
//! It is a state machine without a thread: [`Lane::step`] takes the events that are there, and runs
//! one transaction at most. `driver` says what runs it.
//!
//! Before changing anything here: the lane owns the core of transactions, and the core changes when
//! a transaction is accepted by the handover, or a command is in the log, and never before. Whoever
//! called is answered by the sequencer, when the SN of the transaction is stable (S5).

mod analyse;
mod answer;
mod base;
mod call;
mod counters;
mod declared;
mod entries;
mod listing;
mod messages;
mod native;
mod rerun;
mod rounds;
mod update;
mod waiting;

pub(crate) use analyse::AnalyseRequest;
pub use analyse::{AnalysedEffects, CallAnalysis};
pub use answer::{AnswerRoom, CallAnswer, CallOutcome, UnreadOutcome};
pub(crate) use base::Drained;
pub(crate) use call::{Accepted, Answered, CallRequest, Logged};
pub use call::{CallArguments, CallKey};
pub(crate) use counters::LaneCounters;
pub use counters::TransactionCounts;
pub use declared::saved_transactions_again;
pub(crate) use declared::{Declared, is_declaration};
pub use listing::{DataflowListing, ProcedureStatus, StoppedDataflow};
pub use native::NativeBody;
pub(crate) use native::Registration;
pub(crate) use update::UpdateRequest;
pub use update::{UpdateJob, UpdateOutcome, UpdateResult};
pub(crate) use waiting::WaitingPlace;

pub(crate) use entries::{InLog, in_log};
pub(crate) use rerun::{Rerunner, has_reruns};

use crate::checkpoints::DeclarationRecord;
use crate::error::RuntimeError;
use crate::handover::Handover;
use base::Base;
use call::Ran;
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use native::WaitingCalls;
use oxrdf::NamedNode;
use somersault_lang::procedure::CreateProcedure;
use somersault_model::{EventTime, Place, ProcedureUid, StreamUid};
use somersault_query::{CompiledProcedure, Execution, Procedure};
use somersault_store::Store;
use somersault_stream::{KeptMessage, ParsedCommand};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The time after which a lane with calls that wait looks whether one was called off.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Something that the lane has to know or to do.
pub(crate) enum LaneEvent {
    /// The log has been replayed: this is declared.
    Begin(Box<Declared>),
    /// A call of a procedure.
    Call(Box<CallRequest>),
    /// An update.
    Update(Box<UpdateRequest>),
    /// A call that is analysed.
    Analyse(Box<AnalyseRequest>),
    /// A command is to be logged if nothing speaks against it. Its caller lets nothing else be
    /// logged before it has the answer.
    Judge(Box<ParsedCommand>, Judged),
    /// A program gives the body of a procedure.
    Register(Box<Registration>),
    /// A command is in the log.
    Declared(Box<ParsedCommand>),
    /// Messages came into a stream that procedures consume.
    Messages(StreamUid, Vec<KeptMessage>),
    /// A stream that procedures consume is complete through a time.
    Reached(StreamUid, EventTime),
    /// A checkpoint is made of what is declared. The handover is closed until this is answered.
    Freeze(FreezeDeclared),
    /// A caller wants to read what is declared.
    Read(ReadDeclared),
    /// Transactions are in the log.
    Drained(Drained),
    /// The handover is open again, or an SN has become stable.
    Moved,
    /// Nothing is logged any more.
    Failed(RuntimeError),
    /// It is to end.
    End,
}

/// Reads what is declared between two transactions.
pub(crate) type ReadDeclared = Box<dyn FnOnce(&Declared) + Send>;

/// The way of the answer to [`LaneEvent::Freeze`].
pub(crate) type FreezeDeclared = Box<dyn FnOnce(Vec<DeclarationRecord>) + Send>;

/// The way of the answer to [`LaneEvent::Judge`].
pub(crate) type Judged = Box<dyn FnOnce(Result<(), RuntimeError>) + Send>;

/// Tells the sequencer that a transaction waits in the handover, or that the lane wants a turn.
pub(crate) type WakeSequencer = Box<dyn Fn() + Send>;

/// The parts of a lane.
pub(crate) struct LaneParts {
    pub(crate) store: Arc<Store>,
    pub(crate) handover: Arc<Handover<Accepted>>,
    pub(crate) events: Receiver<LaneEvent>,
    pub(crate) wake: WakeSequencer,
    /// The limits of a transaction that messages lead to.
    pub(crate) execution: Execution,
    /// The number of events of the sequencer after which the lane was idle last.
    pub(crate) idle: Arc<AtomicU64>,
    pub(crate) counters: Arc<LaneCounters>,
}

/// The state machine that runs transactions.
pub(crate) struct Lane {
    parts: LaneParts,
    declared: Declared,
    procedures: BTreeMap<ProcedureUid, RunnableProcedure>,
    /// The steps of the procedure that was judged last.
    judged: Option<Arc<CompiledProcedure>>,
    base: Base,
    requests: VecDeque<LaneRequest>,
    waiting: WaitingCalls,
    /// Messages that were let go, which is not handed over yet.
    released: Vec<(StreamUid, Place)>,
    /// Whether the next transaction may be a request although a border batch waits.
    is_turn_of_requests: bool,
    /// How often the round that is next had to run again.
    repeats: u32,
    /// The number of events that the sequencer has sent.
    told: u64,
    has_begun: bool,
    /// Whether the next transaction waits for an event.
    is_blocked: bool,
    /// Whether a newer snapshot may be stable.
    has_moved: bool,
    /// Whether the sequencer was told of a transaction while others were to run.
    may_wait_for_others: bool,
    failure: Option<RuntimeError>,
    has_ended: bool,
}

/// A request of a caller that waits.
enum LaneRequest {
    Call(CallRequest),
    Update(UpdateRequest),
    Analyse(AnalyseRequest),
}

impl LaneRequest {
    /// Whether it waits until the snapshot has all that committed.
    fn needs_all_in_base(&self) -> bool {
        matches!(self, LaneRequest::Update(update) if update.needs_all_in_base)
    }

    /// Answers a request of which nothing is in the log.
    fn refuse(&self, error: RuntimeError) {
        match self {
            LaneRequest::Call(call) => call.answer(Err(error)),
            LaneRequest::Update(update) => update.refuse(error),
            LaneRequest::Analyse(request) => request.answer(Err(error)),
        }
    }
}

/// A procedure that can be run.
struct RunnableProcedure {
    text: Arc<CreateProcedure>,
    /// An error if this version does not compile its steps any more.
    steps: Result<Procedure, String>,
    /// Of a native one, if a program has registered it.
    body: Option<NativeBody>,
    /// The streams that it emits into, in the order of the text.
    emits: Vec<StreamUid>,
    /// The streams that its windows are on.
    windows: Vec<StreamUid>,
}

impl RunnableProcedure {
    fn new(
        text: &Arc<CreateProcedure>,
        steps: Result<Procedure, String>,
        declared: &Declared,
    ) -> RunnableProcedure {
        let uid = |iri: &NamedNode| {
            let uid = declared.stream(iri.as_str());
            uid.expect("a procedure is declared after the streams that it names")
        };
        RunnableProcedure {
            emits: text.emits().into_iter().map(uid).collect(),
            windows: text
                .windows
                .iter()
                .map(|window| uid(&window.stream))
                .collect(),
            text: Arc::clone(text),
            steps,
            body: None,
        }
    }
}

impl Lane {
    pub(crate) fn new(parts: LaneParts) -> Lane {
        Lane {
            base: Base::new(Arc::clone(&parts.store)),
            parts,
            declared: Declared::default(),
            procedures: BTreeMap::new(),
            judged: None,
            requests: VecDeque::new(),
            waiting: WaitingCalls::default(),
            released: Vec::new(),
            is_turn_of_requests: true,
            repeats: 0,
            told: 0,
            has_begun: false,
            is_blocked: false,
            has_moved: false,
            may_wait_for_others: false,
            failure: None,
            has_ended: false,
        }
    }

    /// Whether nothing more is to be done.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Takes the events that are there, and runs one transaction, if one can run. Whether anything
    /// was done.
    pub(crate) fn step(&mut self) -> bool {
        let mut took_events = self.take_events();
        if self.has_moved || self.base.lags() {
            took_events |= self.move_base();
        }
        let can_run = self.has_begun && !self.is_blocked && !self.has_ended;
        let ran = can_run && self.failure.is_none() && self.run_next();
        if !ran {
            self.base.let_terms_go();
            if self.procedures.is_empty() {
                self.base.forget_if_empty();
            }
        }
        if can_run && !ran && self.parts.idle.swap(self.told, Relaxed) != self.told {
            (self.parts.wake)();
        }
        self.note_upcoming() || took_events || ran
    }

    /// Tells the sequencer that a transaction waits in the handover, if it is the first. The
    /// sequencer may leave it there for those that run next.
    fn announce(&mut self, is_first: bool) {
        if is_first {
            self.may_wait_for_others = self.has_upcoming();
            let handover = &self.parts.handover;
            handover.set_has_upcoming(self.may_wait_for_others);
            (self.parts.wake)();
        }
    }

    /// Whether another transaction may run next: an event may bring it.
    fn has_upcoming(&self) -> bool {
        let can_run = !self.is_blocked && self.failure.is_none() && !self.has_ended;
        let waits = || !self.requests.is_empty() || !self.parts.events.is_empty();
        can_run && (waits() || self.declared.core().next().is_some())
    }

    /// Notes whether another transaction runs next. Whether the sequencer was told that none does.
    fn note_upcoming(&mut self) -> bool {
        let has_upcoming = self.has_upcoming();
        self.parts.handover.set_has_upcoming(has_upcoming);
        let tells = !has_upcoming && std::mem::take(&mut self.may_wait_for_others);
        if tells {
            (self.parts.wake)();
        }
        tells
    }

    /// Goes to the stable snapshot, after the events that were sent before it was. Whether there
    /// were any: whoever waits for an event must know, for it may have been the last.
    fn move_base(&mut self) -> bool {
        let Some(snapshot) = self.base.pin() else {
            return false;
        };
        // What is in the snapshot is told by now.
        let took_events = self.take_events();
        self.base.settle_on(snapshot);
        self.has_moved = false;
        took_events
    }

    /// Runs one transaction, if one can run: first what others led to, then requests and border
    /// batches in turn. Whether one did.
    fn run_next(&mut self) -> bool {
        let next = self.declared.next();
        let first = self.requests.front();
        let is_turn_of_requests =
            self.is_turn_of_requests || first.is_some_and(LaneRequest::needs_all_in_base);
        match next {
            Some(next)
                if next.is_triggered() || self.requests.is_empty() || !is_turn_of_requests =>
            {
                self.is_turn_of_requests |= !next.is_triggered();
                match self.run_round(&next) {
                    Ran::Accepted => self.repeats = 0,
                    Ran::Again => self.run_round_again(),
                    Ran::Refused(error) => self.fail(error),
                }
                true
            }
            None if self.requests.is_empty() => self.base.is_held() && self.hand_over_advances(),
            _ => {
                self.is_turn_of_requests = false;
                self.run_next_request()
            }
        }
    }

    fn run_round_again(&mut self) {
        self.repeats += 1;
        if self.repeats >= 2 {
            self.parts.handover.set_wants_turn(true);
            (self.parts.wake)();
        }
        self.wait_for_base();
    }

    /// Waits for an event, unless a transaction on the stable snapshot can be accepted.
    fn wait_for_base(&mut self) {
        let stable = self.parts.store.snapshots().stable();
        self.is_blocked = !self.parts.handover.admits(stable);
    }

    /// Waits for an event.
    pub(crate) fn wait(&mut self) {
        let Some(patience) = self.waiting.patience() else {
            match self.parts.events.recv() {
                Ok(event) => self.handle(event),
                Err(_) => self.has_ended = true,
            }
            return;
        };
        match self.parts.events.recv_timeout(patience.min(LONGEST_WAIT)) {
            Ok(event) => self.handle(event),
            Err(RecvTimeoutError::Timeout) => self.give_up_waiting(),
            Err(RecvTimeoutError::Disconnected) => self.has_ended = true,
        }
    }

    /// Takes the events that are there.
    fn take_events(&mut self) -> bool {
        let mut took = false;
        loop {
            match self.parts.events.try_recv() {
                Ok(event) => self.handle(event),
                Err(TryRecvError::Empty) => return took,
                Err(TryRecvError::Disconnected) => {
                    let ends = !self.has_ended;
                    self.has_ended = true;
                    return took || ends;
                }
            }
            took = true;
        }
    }

    fn handle(&mut self, event: LaneEvent) {
        self.is_blocked = false;
        let is_of_sequencer = !matches!(
            event,
            LaneEvent::Call(_)
                | LaneEvent::Analyse(_)
                | LaneEvent::Register(_)
                | LaneEvent::Read(_)
        );
        if is_of_sequencer {
            self.told += 1;
        }
        match event {
            LaneEvent::Begin(declared) => self.begin(*declared),
            LaneEvent::Call(call) => match self.failure.clone() {
                Some(error) => call.answer(Err(error.not_taken())),
                None => self.requests.push_back(LaneRequest::Call(*call)),
            },
            LaneEvent::Update(update) => match self.failure.clone() {
                Some(error) => update.refuse(error.not_taken()),
                None => self.requests.push_back(LaneRequest::Update(*update)),
            },
            LaneEvent::Analyse(request) => match self.failure.clone() {
                Some(error) => request.answer(Err(error.not_taken())),
                None => self.requests.push_back(LaneRequest::Analyse(*request)),
            },
            LaneEvent::Judge(command, judged) => {
                let result = self.judge(&command);
                judged(result);
            }
            LaneEvent::Register(registration) => self.register(*registration),
            LaneEvent::Declared(command) => self.declare(&command),
            LaneEvent::Messages(stream, messages) => {
                if let Err(error) = self.declared.take_messages(stream, messages) {
                    self.fail(error);
                }
            }
            LaneEvent::Reached(stream, through) => {
                if let Err(error) = self.declared.reach(stream, through) {
                    self.fail(error);
                }
            }
            LaneEvent::Freeze(freeze) => freeze(self.declared.freeze()),
            LaneEvent::Read(read) => read(&self.declared),
            LaneEvent::Drained(drained) => self.base.drained(drained),
            // So a lane without work holds no old snapshot.
            LaneEvent::Moved => self.has_moved = true,
            LaneEvent::Failed(error) => {
                for request in self.requests.drain(..) {
                    request.refuse(error.clone().not_taken());
                }
                for call in self.waiting.take_all() {
                    call.answer(Err(error.clone().not_taken()));
                }
                self.failure = Some(error);
            }
            LaneEvent::End => {
                self.requests.clear();
                self.waiting.take_all();
                self.has_ended = true;
            }
        }
    }

    fn begin(&mut self, declared: Declared) {
        for (uid, text) in declared.procedures() {
            let steps = CompiledProcedure::new(text);
            let steps = steps.map(|compiled| self.base.state().install(Arc::new(compiled)));
            let runnable = RunnableProcedure::new(text, steps, &declared);
            self.procedures.insert(*uid, runnable);
        }
        self.declared = declared;
        self.parts.counters.note_stopped(&self.declared);
        self.parts.counters.note_absent(&self.declared);
        self.has_begun = true;
        for uid in self.procedures.keys().copied().collect::<Vec<_>>() {
            if let Err(error) = self.fill_windows(uid) {
                self.fail(error);
            }
        }
    }

    fn judge(&mut self, command: &ParsedCommand) -> Result<(), RuntimeError> {
        self.declared.judge(command)?;
        self.judged = match command.procedure() {
            None => None,
            Some(procedure) => {
                let compiled = CompiledProcedure::new(procedure).map_err(RuntimeError::Invalid)?;
                Some(Arc::new(compiled))
            }
        };
        Ok(())
    }

    /// Applies a command that is in the log, after its judgement.
    fn declare(&mut self, command: &ParsedCommand) {
        if let Err(error) = self.declared.apply(command) {
            self.fail(error);
            return;
        }
        self.parts.counters.note_stopped(&self.declared);
        self.parts.counters.note_absent(&self.declared);
        if let (Some(text), Some(compiled)) = (command.procedure(), self.judged.take())
            && let Some(uid) = self.declared.uid(&text.name)
        {
            let before = self.procedures.remove(&uid);
            let body = before.as_ref().and_then(|before| before.body.clone());
            let before = before.map(|before| before.steps);
            let state = self.base.state();
            let steps = match before {
                Some(Ok(before)) => state.replace(before, compiled),
                _ => state.install(compiled),
            };
            let runnable = RunnableProcedure::new(text, Ok(steps), &self.declared);
            // A native procedure that takes the place of one keeps its body.
            let body = body.filter(|_| text.native.is_some());
            let runnable = RunnableProcedure { body, ..runnable };
            self.procedures.insert(uid, runnable);
        }
        self.release_waiting();
        let known = self.declared.procedures();
        let uids = self.procedures.keys().copied();
        let gone: Vec<ProcedureUid> = uids.filter(|uid| !known.contains_key(uid)).collect();
        for uid in gone {
            let procedure = self.procedures.remove(&uid);
            if let Some(Ok(steps)) = procedure.map(|procedure| procedure.steps) {
                self.base.state().remove(steps);
            }
        }
    }

    /// A broken rule of the engine: no transaction runs any more.
    fn fail(&mut self, error: RuntimeError) {
        tracing::error!("{error}");
        self.handle(LaneEvent::Failed(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;
    use somersault_model::Limits;

    /// The end may come after a step has looked for events, and before the snapshot that it goes
    /// to: no event comes behind it.
    #[test]
    fn an_end_that_is_taken_with_a_snapshot_is_not_waited_for() {
        let (sequencer, events) = unbounded();
        let mut lane = Lane::new(LaneParts {
            store: Store::new(1),
            handover: Arc::new(Handover::new()),
            events,
            wake: Box::new(|| {}),
            execution: Execution::new(Limits::default(), EventTime(0)),
            idle: Arc::default(),
            counters: Arc::default(),
        });
        lane.base.state();
        sequencer.send(LaneEvent::End).unwrap();
        assert!(lane.move_base(), "it has taken an event");
        assert!(lane.has_ended());
        assert!(!lane.move_base(), "there was no other");
    }
}
