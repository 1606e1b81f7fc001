//! Transactions, on the sequencer's side: what the lane has handed over is logged as one record and
//! cut as one SN; commands for procedures pass the lane's judgement (`lane`, `handover`).
//!
//! Before changing anything here: a cut that changes the stored graphs by anything but transactions
//! is *foreign*. Before it the handover is closed and what waits there is logged, in one step with
//! the cut. The handover opens at the end of the step, unless a phase needs it closed: while a
//! change is computed, or the lane judges a command, no transaction may commit. Nor may one while
//! the lane freezes what is declared, since that must be the state at the end of the log.

use super::requests::{AckWhen, Event, Reply};
use super::stability::Waiter;
use super::{Phase, Sequencer};
use crate::checkpoints::{DeclarationRecord, RestoredTransactions};
use crate::error::RuntimeError;
use crate::feeds::StreamMessage;
use crate::handover::Handover;
use crate::lane::{
    Accepted, Answered, Declared, Drained, InLog, LaneEvent, Logged, Rerunner, UpdateRequest,
    in_log, is_declaration,
};
use crossbeam_channel::Sender;
use somersault_log::{
    Command, CommandRecord, ConsumerBegin, PlanRecord, Resolved, TxnItem, TxnMessage, TxnOutcome,
    TxnRecord,
};
use somersault_model::{EventTime, Place, QuadIds, Sn, StreamUid};
use somersault_query::{Effects, decode};
use somersault_stream::{
    Consumers, Coordinator, Input, KeptMessage, NumberedTransactions, ParsedCommand, Record,
    RecordedTransactions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// While an SN is on its way, transactions wait this long for others to share theirs.
const GROUP: Duration = Duration::from_millis(2);
/// While none is, they wait this long for those that the lane runs next: about the time of a sync,
/// which these would have to wait for otherwise.
const BURST: Duration = Duration::from_micros(200);
/// This many wait for no others.
const LARGE_GROUP: usize = 1_024;

/// The lane's counterpart.
pub(crate) struct Transactions {
    handover: Arc<Handover<Accepted>>,
    lane: Sender<LaneEvent>,
    /// While the log is replayed.
    replayed: Option<Box<Declared>>,
    /// Runs transactions again until the log has been replayed.
    rerunner: Rerunner,
    /// Whether anything was declared, or an update came.
    is_used: bool,
    is_closed: bool,
    /// Whether the lane freezes what is declared.
    is_freezing: bool,
    /// The SN of the newest foreign cut.
    epoch: Sn,
    /// The number of accepted transactions that were taken.
    taken: u64,
    /// Since when some wait.
    waiting_since: Option<Instant>,
    has_told_failure: bool,
    /// The names of the procedures that consume a stream, by its IRI.
    consumers: BTreeMap<String, BTreeSet<String>>,
    /// The number of events that the lane was sent.
    told: u64,
    /// The number of those after which it was idle last.
    idle: Arc<AtomicU64>,
}

/// An input that the lane judges: a command for procedures, or one that takes a stream away.
pub(super) struct UnderJudgement {
    input: Input,
    reply: Reply,
}

impl Transactions {
    /// Without anything declared, and closed.
    pub(crate) fn new(
        handover: Arc<Handover<Accepted>>,
        lane: Sender<LaneEvent>,
        idle: Arc<AtomicU64>,
        rerunner: Rerunner,
    ) -> Transactions {
        Transactions {
            handover,
            lane,
            replayed: Some(Box::default()),
            rerunner,
            is_used: false,
            is_closed: true,
            is_freezing: false,
            epoch: Sn::ZERO,
            taken: 0,
            waiting_since: None,
            has_told_failure: false,
            consumers: BTreeMap::new(),
            told: 0,
            idle,
        }
    }

    fn tell(&mut self, event: LaneEvent) {
        self.told += 1;
        // A lane that has ended answers nothing; its callers have been told.
        let _ = self.lane.send(event);
    }

    /// The lane is to run transactions. All cuts so far are in its first base.
    fn start_lane(&mut self, newest: Sn) {
        if !self.is_used {
            self.is_used = true;
            self.epoch = newest;
        }
    }

    /// The replay begins from a checkpoint.
    pub(super) fn restore(&mut self, restored: RestoredTransactions, coordinator: &Coordinator) {
        for procedure in restored.procedures.values() {
            for consumed in &procedure.consumes {
                let stream = consumed.stream.as_str().to_owned();
                let consumers = self.consumers.entry(stream).or_default();
                consumers.insert(procedure.name.clone());
            }
        }
        self.replayed = Some(Box::new(Declared::restored(restored, coordinator)));
    }

    /// An SN has become stable.
    pub(super) fn on_stable(&mut self) {
        if self.is_used {
            self.tell(LaneEvent::Moved);
        }
    }

    /// The log was replayed: the lane begins.
    pub(super) fn begin(&mut self, newest: Sn) {
        self.epoch = newest;
        if let Some(declared) = self.replayed.take() {
            self.rerunner.forget();
            self.is_used = declared.is_used();
            self.tell(LaneEvent::Begin(declared));
        }
    }

    /// Nothing is logged any more.
    pub(super) fn fail(&mut self, error: &RuntimeError) {
        if self.has_told_failure {
            return;
        }
        self.has_told_failure = true;
        self.is_closed = true;
        for accepted in self.handover.close() {
            if let Some(answered) = accepted.answered {
                answered.refuse(error.clone().unproven());
            }
        }
        self.tell(LaneEvent::Failed(error.clone()));
    }

    /// The sequencer has ended.
    pub(super) fn end(&mut self) {
        for accepted in self.handover.close() {
            if let Some(answered) = accepted.answered {
                answered.refuse(RuntimeError::Stopped);
            }
        }
        self.tell(LaneEvent::End);
    }

    /// When waiting transactions are logged at the latest, with this number of SNs on their way.
    pub(super) fn next_group(&self, unstable: usize) -> Option<Instant> {
        let patience = if unstable == 0 { BURST } else { GROUP };
        self.waiting_since.map(|since| since + patience)
    }

    /// Whether nothing is handed over that is not logged, and the lane has nothing to run.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle = !self.is_used || self.idle.load(Ordering::Relaxed) == self.told;
        is_idle && self.handover.waiting() == 0
    }

    /// Messages came into a stream that procedures consume.
    pub(super) fn take_messages(
        &mut self,
        stream: StreamUid,
        messages: Vec<KeptMessage>,
    ) -> Result<(), RuntimeError> {
        match &mut self.replayed {
            Some(declared) => declared.take_messages(stream, messages),
            None => {
                self.tell(LaneEvent::Messages(stream, messages));
                Ok(())
            }
        }
    }

    /// Transactions have emitted messages into a stream that procedures consume. The lane has kept
    /// them since it ran these transactions.
    pub(super) fn take_emitted(
        &mut self,
        stream: StreamUid,
        messages: Vec<KeptMessage>,
    ) -> Result<(), RuntimeError> {
        match &mut self.replayed {
            Some(declared) => declared.take_messages(stream, messages),
            None => Ok(()),
        }
    }

    /// A stream that procedures consume is complete through a time.
    pub(super) fn reach(
        &mut self,
        stream: StreamUid,
        through: EventTime,
    ) -> Result<(), RuntimeError> {
        match &mut self.replayed {
            Some(declared) => declared.reach(stream, through),
            None => {
                self.tell(LaneEvent::Reached(stream, through));
                Ok(())
            }
        }
    }

    /// Notes which procedures consume which streams. Returns the streams of which that changes.
    fn note_consumers(&mut self, command: &ParsedCommand) -> Vec<String> {
        let name = match (&command.record().command, command.procedure()) {
            (_, Some(procedure)) => &procedure.name,
            (Command::DropProcedure { name, .. }, _) => name,
            _ => return Vec::new(),
        };
        let mut changed = Vec::new();
        for (stream, consumers) in &mut self.consumers {
            if consumers.remove(name) {
                changed.push(stream.clone());
            }
        }
        for consumed in command.procedure().iter().flat_map(|it| &it.consumes) {
            let stream = consumed.stream.as_str().to_owned();
            let consumers = self.consumers.entry(stream.clone()).or_default();
            consumers.insert(name.clone());
            changed.push(stream);
        }
        changed
    }
}

/// Whether the lane has to know of a command.
fn concerns_lane(command: &Command) -> bool {
    let is_of_stream = matches!(
        command,
        Command::CreateStream { .. } | Command::DropStream { .. } | Command::ResetStream { .. }
    );
    is_of_stream || is_declaration(command)
}

impl Sequencer {
    /// Replays a record of the log, with the effects of transactions that run again.
    pub(super) fn replay_transactions(&mut self, record: Record) -> Result<Record, RuntimeError> {
        let transactions = &mut self.transactions;
        let (Record::Txn(RecordedTransactions::Terms(logged)), Some(declared)) =
            (&record, &mut transactions.replayed)
        else {
            return Ok(record);
        };
        let whole = transactions.rerunner.replay(declared, logged)?;
        Ok(whole.map_or(record, |whole| Record::Txn(whole.into())))
    }

    /// Applies to what is declared what a record says, or tells the lane. Both know of
    /// transactions.
    pub(super) fn note_transactions(&mut self, record: &Record) -> Result<(), RuntimeError> {
        match record {
            Record::Command(command) => self.note_declaration(command),
            _ => Ok(()),
        }
    }

    /// Applies a command to what is declared, or tells the lane, and lets streams know their
    /// consumers.
    fn note_declaration(&mut self, command: &ParsedCommand) -> Result<(), RuntimeError> {
        if let Command::DropStream { iri } | Command::ResetStream { iri } =
            &command.record().command
        {
            self.shared.feeds.end(iri);
        }
        let transactions = &mut self.transactions;
        match &mut transactions.replayed {
            Some(declared) => {
                declared.apply(command)?;
                if concerns_lane(&command.record().command) {
                    transactions.rerunner.forget();
                }
            }
            None => {
                transactions.is_used |= is_declaration(&command.record().command);
                if concerns_lane(&command.record().command) {
                    let declared = LaneEvent::Declared(Box::new(command.clone()));
                    transactions.tell(declared);
                }
            }
        }
        for stream in self.transactions.note_consumers(command) {
            let Some(uid) = self.coordinator.clock_of(&stream).map(|clock| clock.uid()) else {
                continue;
            };
            let consumers = &self.transactions.consumers[&stream];
            let next = self.coordinator.newest_message(uid);
            let next = Place(next.map_or(1, |newest| newest.0 + 1));
            let floor = self.coordinator.kept_messages(uid).next();
            let floor = floor.map_or(next, |message| message.place);
            let consumers = consumers.first().map(|holder| Consumers {
                floor,
                holder: holder.clone(),
            });
            self.coordinator.set_consumers(uid, consumers);
        }
        Ok(())
    }

    /// Logs and cuts the transactions that wait, if they need not wait for others.
    pub(super) fn take_transactions(&mut self) {
        let waiting = self.transactions.handover.waiting();
        if waiting == 0 || self.failure.is_some() {
            return;
        }
        let transactions = &mut self.transactions;
        transactions.waiting_since.get_or_insert(self.now.at);
        let unstable = self.stability.unstable();
        let is_due = (unstable == 0 && !transactions.handover.has_upcoming())
            || waiting >= LARGE_GROUP
            || transactions.next_group(unstable) <= Some(self.now.at);
        if is_due {
            // Times of interior streams may make closes due.
            let logged = self.log_transactions(false).and_then(|_| self.cut_due());
            if let Err(error) = logged {
                tracing::warn!("transactions could not be logged: {error}");
            }
        }
    }

    /// Takes what waits in the handover, which is closed if `closes`; logs it and cuts it. Returns
    /// whether anything waited.
    fn log_transactions(&mut self, closes: bool) -> Result<bool, RuntimeError> {
        let accepted = match closes {
            true => self.transactions.handover.close(),
            false => self.transactions.handover.take(),
        };
        self.transactions.is_closed |= closes;
        self.transactions.waiting_since = None;
        if accepted.is_empty() {
            return Ok(false);
        }
        self.transactions.taken += accepted.len() as u64;
        let (mut items, mut answered) = (Vec::new(), Vec::new());
        let mut released = BTreeMap::new();
        // The terms of messages, until they are logged and applied.
        let mut terms = Vec::new();
        let mut alone = None;
        for accepted in accepted {
            // Places ascend.
            released.extend(accepted.released);
            terms.extend(accepted.terms);
            match accepted.logged {
                Logged::Alone(effects) => {
                    // The last one: the lane has closed the handover.
                    alone = Some((effects, accepted.answered));
                    continue;
                }
                Logged::Item(item, in_log) => items.push((item, in_log)),
                Logged::Nothing => {}
            }
            answered.extend(accepted.answered);
        }
        self.transactions.is_closed |= alone.is_some();
        let released = released.into_iter().collect();
        let logged = self.log_items(items, released);
        drop(terms);
        if let Err(error) = logged {
            // The lane has applied what the log does not hold.
            self.fail(error.clone());
            let unproven = error.clone().unproven();
            answered.extend(alone.and_then(|(_, answered)| answered));
            answered
                .into_iter()
                .for_each(|it| it.refuse(unproven.clone()));
            return Err(error);
        }
        self.answer_transactions(answered);
        if let Some((effects, answered)) = alone {
            self.log_alone(*effects, answered);
        }
        self.transactions.tell(LaneEvent::Drained(Drained {
            through: self.transactions.taken,
            sn: self.coordinator.last_cut(),
        }));
        Ok(true)
    }

    /// Answers transactions when what is logged by now is stable.
    fn answer_transactions(&mut self, mut answered: Vec<Answered>) {
        if answered.is_empty() {
            return;
        }
        let sn = self.coordinator.last_cut();
        answered.iter_mut().for_each(|it| it.shown_at(sn));
        self.wait_stable(Waiter::Transactions {
            sn,
            position: self.log_end,
            answered,
        });
    }

    /// Logs an update in a record of its own, which becomes a foreign cut. If it cannot be logged,
    /// it alone is refused: nothing depends on it yet.
    fn log_alone(&mut self, effects: Effects, answered: Option<Answered>) {
        let before = self.log_end;
        let update = Input::Update {
            received_ms: self.now.ms,
            evaluated_at: None,
            clears: effects.clears,
            deletes: effects.deletes,
            inserts: effects.inserts,
        };
        let logged = self.in_one_group(|sequencer| {
            sequencer.take(update)?;
            sequencer.cut_effects()
        });
        let Some(answered) = answered else { return };
        match logged {
            Ok(()) => self.answer_transactions(vec![answered]),
            Err(error) => answered.refuse(self.for_request(error, before)),
        }
    }

    fn log_items(
        &mut self,
        items: Vec<(TxnItem<QuadIds>, InLog)>,
        released: Vec<(StreamUid, Place)>,
    ) -> Result<(), RuntimeError> {
        if items.is_empty() && released.is_empty() {
            return Ok(());
        }
        self.in_one_group(|sequencer| sequencer.log_and_cut(items, released))
    }

    fn log_and_cut(
        &mut self,
        items: Vec<(TxnItem<QuadIds>, InLog)>,
        released: Vec<(StreamUid, Place)>,
    ) -> Result<(), RuntimeError> {
        let messages = self.messages_to_feed(&items);
        let is_whole = items.iter().all(|(_, in_log)| *in_log == InLog::Whole);
        let logged = (!is_whole).then(|| in_log(&items));
        let whole = TxnRecord {
            received_ms: self.now.ms,
            items: items.into_iter().map(|(item, _)| item).collect(),
            released,
        };
        let (record, position) = match logged {
            None => {
                let record = self.numbered(whole);
                let position = self.append(&record)?;
                (record, position)
            }
            Some(items) => {
                let logged = self.numbered(TxnRecord {
                    received_ms: whole.received_ms,
                    items,
                    released: whole.released.clone(),
                });
                let whole = NumberedTransactions::unwritten(whole);
                let position = self.append(&logged)?;
                (Record::Txn(RecordedTransactions::Numbered(whole)), position)
            }
        };
        self.apply(&record, position)?;
        self.cut_effects()?;
        if !messages.is_empty() {
            self.wait_stable(Waiter::Messages {
                sn: self.coordinator.last_cut(),
                position,
                messages,
                shared: Arc::clone(&self.shared),
            });
        }
        Ok(())
    }

    /// The messages of transactions that have readers outside.
    fn messages_to_feed(
        &self,
        items: &[(TxnItem<QuadIds>, InLog)],
    ) -> Vec<(StreamUid, StreamMessage)> {
        let committed = items.iter().filter_map(|(item, _)| match item {
            TxnItem::Entry(entry) => match &entry.outcome {
                TxnOutcome::Committed { emitted, .. } => Some(emitted),
                TxnOutcome::Aborted { .. } | TxnOutcome::Rerun => None,
            },
            TxnItem::Advance(_) | TxnItem::Triggered(_) => None,
        });
        let feeds = &self.shared.feeds;
        let followed = committed.flatten().filter(|it| feeds.has(it.stream));
        let dictionary = self.shared.resolver.store.dictionary();
        let message = |it: &TxnMessage<QuadIds>| StreamMessage {
            place: it.place,
            at: it.at,
            statements: (it.statements.iter())
                .map(|quad| decode(*quad, dictionary))
                .collect(),
        };
        followed.map(|it| (it.stream, message(it))).collect()
    }

    /// A record in the form that the log needs. The ids of effects are known for good, and those of
    /// messages as long as the transaction holds them.
    fn numbered(&self, record: TxnRecord<QuadIds>) -> Record {
        let shared = &self.shared;
        let numbered = match shared.log.is_volatile() {
            true => NumberedTransactions::unwritten(record),
            false => {
                let dictionary = shared.resolver.store.dictionary();
                NumberedTransactions::written(record, |id| {
                    let term = dictionary.decode(id);
                    term.expect("the terms of transactions are known while they are logged")
                })
            }
        };
        Record::Txn(RecordedTransactions::Numbered(numbered))
    }

    /// Closes the handover, and logs and cuts what waits there. It opens at the end of the step.
    pub(super) fn close_handover(&mut self) -> Result<(), RuntimeError> {
        match self.transactions.is_used && !self.transactions.is_closed {
            true => self.log_transactions(true).map(|_| ()),
            false => Ok(()),
        }
    }

    /// Has the lane freeze what is declared, as it is at the end of the log. The handover is closed
    /// for that. Whether there is anything to wait for.
    pub(super) fn freeze_transactions(&mut self) -> bool {
        let transactions = &mut self.transactions;
        debug_assert!(transactions.replayed.is_none(), "replays are not frozen");
        if !transactions.is_used {
            return false;
        }
        debug_assert!(transactions.is_closed);
        let events = self.events.clone();
        let frozen = Box::new(move |frozen| {
            // The sequencer may have ended.
            let _ = events.send(Event::TransactionsFrozen(frozen));
        });
        transactions.is_freezing = true;
        transactions.tell(LaneEvent::Freeze(frozen));
        true
    }

    /// The lane has frozen what is declared; it goes on.
    pub(super) fn on_transactions_frozen(&mut self, frozen: Vec<DeclarationRecord>) {
        self.transactions.is_freezing = false;
        self.checkpoints.take_transactions(frozen);
    }

    /// Before a cut: brings transactions into the log that a foreign one must come after. Returns
    /// whether there were any: then the next cut may be another.
    pub(super) fn log_before(&mut self, plan: &PlanRecord) -> Result<bool, RuntimeError> {
        let transactions = &self.transactions;
        if !transactions.is_used || transactions.is_closed || !self.coordinator.is_foreign(plan) {
            return Ok(false);
        }
        self.log_transactions(true)
    }

    /// After a foreign cut: no transaction commits that has not seen it.
    pub(super) fn note_foreign(&mut self, sn: Sn) {
        debug_assert!(!self.transactions.is_used || self.transactions.is_closed);
        self.transactions.epoch = sn;
    }

    /// At the end of a step: opens the handover, unless the phase needs it closed.
    pub(super) fn open_handover(&mut self) {
        let needs_closed = !matches!(self.phase, Phase::Open | Phase::Yielding);
        let transactions = &mut self.transactions;
        if !transactions.is_closed
            || !transactions.is_used
            || transactions.is_freezing
            || needs_closed
            || transactions.has_told_failure
        {
            return;
        }
        transactions.is_closed = false;
        transactions.handover.open(transactions.epoch);
        transactions.tell(LaneEvent::Moved);
    }

    /// Waits for a transaction that foreign cuts have overtaken, or goes on after it.
    pub(super) fn yield_to_lane(&mut self) {
        let wants = self.failure.is_none() && self.transactions.handover.wants_turn();
        match self.phase {
            Phase::Open if wants && !self.has_turn() => self.phase = Phase::Yielding,
            Phase::Yielding if !wants => self.phase = Phase::Open,
            _ => {}
        }
    }

    /// Passes an update on to the lane. Everything that was taken before it is cut, so the update
    /// reads it.
    pub(super) fn pass_on(&mut self, update: Box<UpdateRequest>) {
        let ready = self.refuse_if_failed();
        self.transactions.start_lane(self.coordinator.last_cut());
        let ready = ready.and_then(|()| self.cut_all());
        match ready {
            Ok(()) => self.transactions.tell(LaneEvent::Update(update)),
            Err(error) => update.refuse(error.not_taken()),
        }
    }

    /// Has a command for procedures or dataflows judged by the lane. Until then no other is taken,
    /// and no transaction commits.
    pub(super) fn begin_declaration(&mut self, command: ParsedCommand, reply: Reply) {
        if !self.transactions.is_used {
            // Everything so far is in the first base.
            self.transactions.epoch = self.coordinator.last_cut();
        }
        let ready = self.refuse_if_failed().and_then(|()| self.close_handover());
        if let Err(error) = ready {
            reply.send(Err(error.not_taken()));
            return;
        }
        let events = self.events.clone();
        let judged = Box::new(move |judged| {
            // The sequencer may have ended.
            let _ = events.send(Event::Judged(judged));
        });
        let begins = self.begins(&command);
        let command = Box::new(command.with_begins(begins));
        let judge = LaneEvent::Judge(command.clone(), judged);
        self.transactions.tell(judge);
        let input = Input::Declaration(command);
        self.phase = Phase::Judging(Box::new(UnderJudgement { input, reply }));
    }

    /// Where the streams stand that a procedure consumes.
    fn begins(&self, command: &ParsedCommand) -> Vec<ConsumerBegin> {
        let consumed = command.procedure().into_iter().flat_map(|it| &it.consumes);
        let begin = |iri: &str| {
            let clock = self.coordinator.clock_of(iri)?;
            let newest = self.coordinator.newest_message(clock.uid())?;
            Some(ConsumerBegin {
                stream: clock.uid(),
                next: Place(newest.0 + 1),
                through: clock.watermark().unwrap_or(EventTime::MIN),
            })
        };
        consumed
            .filter_map(|consumed| begin(consumed.stream.as_str()))
            .collect()
    }

    /// Has the lane judge whether a stream may be taken away, where procedures are declared; gives
    /// back any other input.
    pub(super) fn judge_stream(&mut self, input: Input, reply: Reply) -> Option<(Input, Reply)> {
        let command = match &input {
            Input::DropStream { iri, .. } => Command::DropStream { iri: iri.clone() },
            Input::ResetStream { iri, .. } => Command::ResetStream { iri: iri.clone() },
            _ => return Some((input, reply)),
        };
        if !self.transactions.is_used || self.refuse_if_failed().is_err() {
            return Some((input, reply));
        }
        if let Err(error) = self.close_handover() {
            reply.send(Err(error.not_taken()));
            return None;
        }
        let events = self.events.clone();
        let judged = Box::new(move |judged| {
            // The sequencer may have ended.
            let _ = events.send(Event::Judged(judged));
        });
        let command = ParsedCommand::without_text(CommandRecord {
            received_ms: self.now.ms,
            command,
            resolved: Resolved::default(),
        });
        let judge = LaneEvent::Judge(Box::new(command), judged);
        self.transactions.tell(judge);
        self.phase = Phase::Judging(Box::new(UnderJudgement { input, reply }));
        None
    }

    /// Takes a command that the lane has judged.
    pub(super) fn on_judged(&mut self, judged: Result<(), RuntimeError>) {
        let phase = std::mem::replace(&mut self.phase, Phase::Open);
        let Phase::Judging(judgement) = phase else {
            debug_assert!(false, "one command is judged at a time");
            self.phase = phase;
            return;
        };
        let UnderJudgement { input, reply } = *judgement;
        match judged {
            Err(error) => reply.send(Err(error)),
            Ok(()) => self.on_input(input, AckWhen::Durable, reply),
        }
    }

    /// Tells the caller of a command that is being judged that nothing will come of it.
    pub(super) fn refuse_judgement(&mut self, error: &RuntimeError) {
        if let Phase::Judging(_) = &self.phase
            && let Phase::Judging(judgement) = std::mem::replace(&mut self.phase, Phase::Open)
        {
            judgement.reply.send(Err(error.clone().not_taken()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::tests::Alone;
    use super::*;
    use crate::clock::Now;
    use crate::sequencer::Request;
    use crate::slot::slot;
    use somersault_model::Limits;
    use somersault_query::Execution;

    fn nothing() -> Accepted {
        Accepted {
            logged: Logged::Nothing,
            answered: None,
            released: Vec::new(),
            terms: Vec::new(),
        }
    }

    /// While no SN is on its way, a transaction waits for those that run next, and not for long.
    #[test]
    fn a_transaction_waits_for_those_that_run_next() {
        let mut sequencer = Alone::new().sequencer;
        let at = Instant::now();
        let mut step = |event, after| {
            sequencer.step(
                event,
                Now {
                    at: at + after,
                    ms: 0,
                },
            );
            sequencer.transactions.handover.clone()
        };
        let update = UpdateRequest {
            job: Box::new(|_, _| Ok(())),
            execution: Execution::new(Limits::default(), EventTime(0)),
            reply: slot().0,
            repeats: 0,
            needs_all_in_base: false,
        };
        let update = Event::Request(Request::Update(Box::new(update)));
        let handover = step(update, Duration::ZERO);
        handover.follow(nothing());
        step(Event::TransactionsWait, Duration::ZERO);
        assert_eq!(handover.waiting(), 0, "nothing runs next");
        handover.set_has_upcoming(true);
        handover.follow(nothing());
        step(Event::TransactionsWait, Duration::ZERO);
        step(Event::Tick, BURST / 2);
        assert_eq!(handover.waiting(), 1);
        step(Event::Tick, BURST);
        assert_eq!(handover.waiting(), 0, "it has waited long enough");
        handover.follow(nothing());
        step(Event::TransactionsWait, BURST);
        assert_eq!(handover.waiting(), 1);
        handover.set_has_upcoming(false);
        step(Event::TransactionsWait, BURST);
        assert_eq!(handover.waiting(), 0, "nothing runs next any more");
    }
}
