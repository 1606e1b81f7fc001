//! The engine as the subject of a suite: each call of the trait is one request or a few, some of
//! which the engine is killed at. What was not acknowledged is asked again with the same numbers.
//!
//! Before changing anything here: an update and a statement have no number, so the engine is killed
//! before or after them, never while one is carried out.

use super::emitted::EmittedInLog;
use super::host::{EngineRequest, EngineResponse, HostCall};
use super::place::EnginePlace;
use crate::error::ConformanceError;
use crate::rsp::child::Draw;
use serde_json::{Value, json};
use somersault::oxrdf::Quad;
use somersault::{EventTime, MessageSyntax, MessageWriter};
use somersault_lang::procedure::CreateProcedure;
use somersault_lang::{Parser, Statement};
use somersault_suites::{
    AbortedTransaction, AlwaysQuery, BodyOfMessages, EmittedMessage, ProcedureCall, PushTally,
    Subject, SuiteError, terms,
};
use std::collections::{BTreeMap, BTreeSet};

/// A text with one message that cannot be read, and one with one message without statements.
const UNREADABLE: &str = "VERSION \"1.2-messages\"\nunreadable\n";
const EMPTY: &str = "VERSION \"1.2-messages\"\nMESSAGE\n";

/// When the engine is killed, and when it takes checkpoints.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// The numbers of the requests at which it is killed.
    pub(super) points: BTreeSet<usize>,
    /// The number of requests between two checkpoints; 0 for none.
    pub(super) checkpoint_every: usize,
    /// The number of shards; after restarts from checkpoints it changes.
    pub(super) shards: u16,
}

/// The engine under test.
pub(super) struct TransactionSubject<'e> {
    place: &'e mut dyn EnginePlace,
    plan: Plan,
    draw: Draw,
    always: Vec<AlwaysQuery>,
    procedures: BTreeMap<String, CreateProcedure>,
    /// The numbers of messages that were acknowledged, by stream and source.
    acknowledged: BTreeMap<(String, String), BTreeSet<u64>>,
    /// The calls that got a key here.
    own_keys: u64,
    emitted: EmittedInLog,
    pub(super) requests: usize,
    pub(super) kills: usize,
    pub(super) checkpoints: usize,
    /// Why no checkpoint was taken, the first time.
    pub(super) no_checkpoint: Option<String>,
    /// The queries that the reader asked.
    pub(super) asked: u64,
}

impl<'e> TransactionSubject<'e> {
    pub(super) fn new(
        place: &'e mut dyn EnginePlace,
        plan: Plan,
        seed: u64,
    ) -> TransactionSubject<'e> {
        TransactionSubject {
            place,
            plan,
            draw: Draw::new(seed ^ 0x5eed),
            always: Vec::new(),
            procedures: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            own_keys: 0,
            emitted: EmittedInLog::default(),
            requests: 0,
            kills: 0,
            checkpoints: 0,
            no_checkpoint: None,
            asked: 0,
        }
    }

    /// Makes a request until it is answered.
    fn ask(&mut self, request: &EngineRequest) -> Result<EngineResponse, SuiteError> {
        let asked = self.ask_killed(request);
        asked.map_err(|error| SuiteError::engine(request.name(), error))
    }

    fn ask_killed(&mut self, request: &EngineRequest) -> Result<EngineResponse, ConformanceError> {
        self.requests += 1;
        let every = self.plan.checkpoint_every;
        if every > 0 && self.requests.is_multiple_of(every) {
            self.take_checkpoint()?;
        }
        let is_point = self.plan.points.contains(&self.requests);
        self.ask_at_point(request, is_point)
    }

    fn ask_at_point(
        &mut self,
        request: &EngineRequest,
        is_point: bool,
    ) -> Result<EngineResponse, ConformanceError> {
        if !is_point {
            return self.place.ask(request);
        }
        self.kills += 1;
        let moment = self.draw.below(4);
        match moment {
            // In half of the cases while it is carried out.
            0 | 1 if request.is_repeatable() => {
                let answer = self.place.ask_and_kill(request, &mut self.draw)?;
                self.restart()?;
                match answer {
                    Some(answer) => Ok(answer),
                    None => self.place.ask(request),
                }
            }
            0 | 2 => {
                self.place.kill(&mut self.draw)?;
                self.restart()?;
                self.place.ask(request)
            }
            _ => {
                let answer = self.place.ask(request)?;
                self.place.kill(&mut self.draw)?;
                self.restart()?;
                Ok(answer)
            }
        }
    }

    /// Kills the engine and takes a checkpoint of the one that comes after it, which is killed
    /// meanwhile each other time.
    ///
    /// Checkpoints end with a trim of the log, up to the one before. So the log is read before each
    /// of them, and no message is gone that was not read.
    fn take_checkpoint(&mut self) -> Result<(), ConformanceError> {
        self.kills += 1;
        self.place.kill(&mut self.draw)?;
        self.restart()?;
        let is_killed = self.checkpoints.is_multiple_of(2);
        match self.ask_at_point(&EngineRequest::Checkpoint, is_killed)? {
            EngineResponse::Refused(reason) => {
                self.no_checkpoint.get_or_insert(reason);
            }
            _ => self.checkpoints += 1,
        }
        Ok(())
    }

    fn restart(&mut self) -> Result<(), ConformanceError> {
        self.read_log()?;
        if self.plan.checkpoint_every > 0 {
            // A checkpoint is for any number of shards.
            self.plan.shards = [1, 2, 4][self.draw.below(3)];
        }
        self.place.restart(self.plan.shards)?;
        self.place
            .ask(&EngineRequest::Watch(self.always.clone()))
            .map(drop)
    }

    /// What the log of a killed or stopped engine has is what an engine on it will know.
    fn read_log(&mut self) -> Result<(), ConformanceError> {
        let disk = self.place.disk()?;
        let read = self.emitted.read(disk);
        read.map_err(|error| ConformanceError::engine("leave a log that can be read", error))
    }

    /// Makes a request that is done, or refused for a reason.
    fn ask_done(&mut self, request: &EngineRequest) -> Result<Result<(), String>, SuiteError> {
        match self.ask(request)? {
            EngineResponse::Done => Ok(Ok(())),
            EngineResponse::Refused(reason) => Ok(Err(reason)),
            other => Err(unexpected(request, &other)),
        }
    }

    /// Pushes one body of messages of one kind.
    fn push_text(
        &mut self,
        body: &BodyOfMessages<'_>,
        seq: u64,
        count: usize,
        (syntax, text): (MessageSyntax, String),
        tally: &mut PushTally,
    ) -> Result<(), SuiteError> {
        let request = EngineRequest::Push {
            stream: body.stream.to_owned(),
            source: body.source.to_owned(),
            seq,
            media_type: syntax.media_type().to_owned(),
            count: count as u64,
            text,
        };
        let answer = match self.ask(&request)? {
            EngineResponse::Pushed(answer) => answer,
            other => return Err(unexpected(&request, &other)),
        };
        let of = (body.stream.to_owned(), body.source.to_owned());
        let acknowledged = self.acknowledged.entry(of).or_default();
        tally.refused.extend(answer.refused);
        for number in answer.taken {
            match acknowledged.insert(number) {
                true => tally.taken.push(number),
                false => {
                    let reason = format!("message {number} was taken twice");
                    return Err(SuiteError::engine("keep its numbers", reason));
                }
            }
        }
        for number in answer.repeated {
            // It was taken before a kill, and nobody had been told.
            match acknowledged.insert(number) {
                true => tally.taken.push(number),
                false => tally.repeated.push(number),
            }
        }
        Ok(())
    }

    fn note_declaration(&mut self, text: &str) {
        let parsed = Parser::new().parse_statement(text);
        match parsed {
            Ok(Statement::CreateProcedure(procedure)) => {
                self.procedures.insert(procedure.name.clone(), *procedure);
            }
            Ok(Statement::DropProcedure(dropped)) => {
                self.procedures.remove(&dropped.name);
            }
            _ => {}
        }
    }

    /// A call as the engine gets it; `None` if its arguments are refused.
    fn call_of(&mut self, call: &ProcedureCall) -> Option<HostCall> {
        let declared = self.procedures.get(&call.procedure);
        let arguments = match declared {
            Some(declared) => terms::arguments(call, declared)?,
            // The engine refuses it.
            None => Vec::new(),
        };
        let key = match (&call.key, self.plan.points.is_empty()) {
            (Some(key), _) => Some(key.clone()),
            (None, true) => None,
            (None, false) => {
                self.own_keys += 1;
                Some(("somersault-conformance".to_owned(), self.own_keys))
            }
        };
        Some(HostCall {
            procedure: call.procedure.clone(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            key,
        })
    }
}

fn unexpected(request: &EngineRequest, response: &EngineResponse) -> SuiteError {
    let reason = match response {
        EngineResponse::Refused(reason) => reason.clone(),
        other => format!("it answered {other:?}"),
    };
    SuiteError::engine(request.name(), reason)
}

/// The kinds of messages, of which a body has one.
#[derive(PartialEq, Eq, Clone, Copy)]
enum MessageKind {
    Whole,
    Empty,
    Unreadable,
}

fn kind_of(message: &somersault_lines::Message) -> MessageKind {
    match &message.statements {
        Ok(statements) if statements.is_empty() => MessageKind::Empty,
        Ok(_) => MessageKind::Whole,
        Err(_) => MessageKind::Unreadable,
    }
}

fn text_of(
    body: &BodyOfMessages<'_>,
    messages: &[somersault_lines::Message],
) -> Result<String, SuiteError> {
    let failed = |error: &dyn std::fmt::Display| SuiteError::engine("be sent messages", error);
    let mut writer = MessageWriter::new(Vec::new(), body.syntax);
    for message in messages {
        let statements = message.statements.iter().flatten();
        let written = writer.write(statements.map(Quad::as_ref));
        written.map_err(|error| failed(&error))?;
    }
    let bytes = writer.finish().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

impl Subject for TransactionSubject<'_> {
    fn begin(&mut self, stored: Vec<Quad>, always: &[AlwaysQuery]) -> Result<(), SuiteError> {
        let lines: Vec<String> = stored.iter().map(ToString::to_string).collect();
        self.ask(&EngineRequest::Store(lines))?;
        self.always = always.to_vec();
        self.ask(&EngineRequest::Watch(self.always.clone()))
            .map(drop)
    }

    fn statement(&mut self, text: &str) -> Result<Result<(), String>, SuiteError> {
        let done = self.ask_done(&EngineRequest::Statement(text.to_owned()))?;
        if done.is_ok() {
            self.note_declaration(text);
        }
        Ok(done)
    }

    fn push(&mut self, body: BodyOfMessages<'_>) -> Result<PushTally, SuiteError> {
        let mut tally = PushTally::default();
        let mut at = 0;
        while let Some(first) = body.messages.get(at) {
            let kind = kind_of(first);
            let rest = &body.messages[at..];
            let count = match kind {
                MessageKind::Whole => rest.iter().take_while(|it| kind_of(it) == kind).count(),
                MessageKind::Empty | MessageKind::Unreadable => 1,
            };
            let text = match kind {
                MessageKind::Whole => (body.syntax, text_of(&body, &rest[..count])?),
                MessageKind::Empty => (MessageSyntax::NTriples, EMPTY.to_owned()),
                MessageKind::Unreadable => (MessageSyntax::NTriples, UNREADABLE.to_owned()),
            };
            self.push_text(&body, body.first_seq + at as u64, count, text, &mut tally)?;
            at += count;
        }
        Ok(tally)
    }

    fn advance(&mut self, streams: &[String], to: EventTime) -> Result<(), SuiteError> {
        let request = EngineRequest::Advance(streams.to_vec(), to.0);
        let done = self.ask_done(&request)?;
        done.map_err(|reason| SuiteError::engine(request.name(), reason))
    }

    fn call(&mut self, calls: &[ProcedureCall]) -> Result<Vec<Value>, SuiteError> {
        let calls: Vec<Option<HostCall>> = calls.iter().map(|call| self.call_of(call)).collect();
        let sent: Vec<HostCall> = calls.iter().flatten().cloned().collect();
        let request = EngineRequest::Calls(sent);
        let mut answers = match self.ask(&request)? {
            EngineResponse::Answers(answers) => answers.into_iter(),
            other => return Err(unexpected(&request, &other)),
        };
        let answers = calls.iter().map(|call| match call {
            Some(_) => answers.next().unwrap_or_default(),
            None => json!({"refused": true}),
        });
        Ok(answers.collect())
    }

    fn update(&mut self, text: &str) -> Result<Result<(), String>, SuiteError> {
        self.ask_done(&EngineRequest::Update(text.to_owned()))
    }

    fn state(&mut self, dataflow: &str) -> Result<Result<String, String>, SuiteError> {
        let request = EngineRequest::State(dataflow.to_owned());
        match self.ask(&request)? {
            EngineResponse::State(state) => Ok(Ok(state)),
            EngineResponse::Refused(reason) => Ok(Err(reason)),
            other => Err(unexpected(&request, &other)),
        }
    }

    fn query(&mut self, text: &str) -> Result<Value, SuiteError> {
        let request = EngineRequest::Query(text.to_owned());
        match self.ask(&request)? {
            EngineResponse::Answer(answer) => Ok(answer),
            other => Err(unexpected(&request, &other)),
        }
    }

    fn settle(&mut self) -> Result<(), SuiteError> {
        let done = self.ask_done(&EngineRequest::Settle)?;
        done.map_err(|reason| SuiteError::engine(EngineRequest::Settle.name(), reason))
    }

    fn violations(&mut self) -> Result<Vec<String>, SuiteError> {
        let untold = self.place.untold();
        let mut all = untold.map_err(|error| SuiteError::engine("list violations", error))?;
        match self.ask(&EngineRequest::Violations)? {
            EngineResponse::Violations(violations, asked) => {
                self.asked += asked;
                all.extend(violations);
            }
            other => return Err(unexpected(&EngineRequest::Violations, &other)),
        }
        all.sort();
        all.dedup();
        all.append(&mut self.emitted.faults);
        Ok(all)
    }

    fn aborted(&mut self, dataflow: &str) -> Result<Vec<AbortedTransaction>, SuiteError> {
        let request = EngineRequest::Aborted(dataflow.to_owned());
        match self.ask(&request)? {
            EngineResponse::Aborted(aborted) => Ok(aborted),
            other => Err(unexpected(&request, &other)),
        }
    }

    fn end(&mut self) -> Result<(), SuiteError> {
        let done = self.ask_done(&EngineRequest::Close)?;
        done.map_err(|reason| SuiteError::engine("pass its own check and stop", reason))
    }

    fn emitted(
        &mut self,
        streams: &[String],
    ) -> Result<Result<Vec<Vec<EmittedMessage>>, String>, SuiteError> {
        let read = self.read_log();
        read.map_err(|error| SuiteError::engine("leave a log", error))?;
        if let Some(reason) = self.emitted.why_incomplete() {
            return Ok(Err(reason));
        }
        if let Some(fault) = self.emitted.faults.first() {
            return Err(SuiteError::engine("show its emitted messages", fault));
        }
        let messages = streams.iter().map(|stream| self.emitted.of(stream));
        Ok(Ok(messages.collect()))
    }
}
