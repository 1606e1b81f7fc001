//! A transaction while it runs: which procedure is next, on which batches, with which slides.
//!
//! A run changes nothing. It ends in an entry, and [`Core::apply`](crate::Core::apply) takes that.
//!
//! Before changing anything here: the executions of a nest see each other's messages at once, and
//! the outside sees none before the entry is applied.

use super::{Core, Transaction};
use crate::event::{Consumed, Emitted, Entry, Origin, Outcome};
use crate::inlets::Batch;
use crate::shape::{Place, ProcedureUid};
use crate::windows::{Member, Slide, WindowRun};
use somersault_model::{EventTime, StreamUid};
use std::collections::{BTreeMap, VecDeque};

/// One procedure on its batches: the steps after the slides and their triggers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The procedure.
    pub procedure: ProcedureUid,
    /// NOW(): the greatest event time of its batches; of a call, when it was received.
    pub now: EventTime,
    /// For each stream that it consumes, in the order of its declaration: the batch, if the round
    /// has one.
    pub batches: Vec<(StreamUid, Option<Batch>)>,
    /// The slides of its windows, in their order. They come before the steps.
    pub slides: Vec<Slide>,
}

/// A transaction while it runs.
#[derive(Debug)]
pub struct Run<'a> {
    core: &'a Core,
    transaction: &'a Transaction,
    /// The number of procedures that have begun.
    begun: usize,
    /// What the newest procedure has still to consume.
    waiting: VecDeque<Vec<Option<Batch>>>,
    current: Option<(ProcedureUid, EventTime)>,
    consumed: Vec<Consumed>,
    emitted: Vec<Emitted>,
    /// The times of emitted messages by streams.
    added: BTreeMap<StreamUid, Vec<EventTime>>,
    windows: BTreeMap<(ProcedureUid, usize), WindowRun<'a>>,
}

impl Core {
    /// Walks through a transaction that this core gave.
    pub fn run<'a>(&'a self, transaction: &'a Transaction) -> Run<'a> {
        Run {
            core: self,
            transaction,
            begun: 0,
            waiting: VecDeque::new(),
            current: None,
            consumed: Vec::new(),
            emitted: Vec::new(),
            added: BTreeMap::new(),
            windows: BTreeMap::new(),
        }
    }
}

impl Run<'_> {
    /// The next execution, after all that the one before it emitted; `None` when all are done.
    pub fn step(&mut self) -> Option<Execution> {
        loop {
            if let Some(batches) = self.waiting.pop_front() {
                let procedure = self.transaction.procedures[self.begun - 1];
                return Some(self.execute(procedure, batches));
            }
            let procedure = *self.transaction.procedures.get(self.begun)?;
            self.begun += 1;
            self.waiting = self.executions_of(procedure);
        }
    }

    /// The current execution emits a message: its place, and its event time. That is the time of
    /// the batch, unless the stream is complete through a later one already.
    ///
    /// # Panics
    /// Before the first step, and for a stream that is not declared: its procedure would not be.
    pub fn emit(&mut self, stream: StreamUid) -> Emitted {
        let (_, now) = self.current.expect("an execution emits");
        let known = &self.core.streams[&stream];
        let times = self.added.entry(stream).or_default();
        let emitted = Emitted {
            stream,
            place: Place(known.next() + times.len() as u64),
            at: now.max(known.through()),
        };
        times.push(emitted.at);
        self.emitted.push(emitted);
        emitted
    }

    /// The transaction commits, with what a call is answered.
    ///
    /// # Panics
    /// While executions are left: a transaction is whole.
    pub fn commit(mut self, answer: Vec<u8>) -> Entry {
        assert!(
            self.step().is_none(),
            "each execution of a transaction runs"
        );
        let consumed = std::mem::take(&mut self.consumed);
        let emitted = std::mem::take(&mut self.emitted);
        Entry {
            origin: self.origin(consumed),
            outcome: Outcome::Committed { emitted, answer },
        }
    }

    /// The current execution aborts, and with it the transaction.
    ///
    /// # Panics
    /// Before the first step.
    pub fn abort(self, reason: impl Into<String>) -> Entry {
        let (procedure, _) = self.current.expect("an execution aborts");
        let taken = self
            .transaction
            .taken
            .iter()
            .map(|taken| self.consumption(taken.procedure, taken.input, &taken.batch));
        Entry {
            origin: self.origin(taken.collect()),
            outcome: Outcome::Aborted {
                procedure,
                reason: reason.into(),
            },
        }
    }

    fn origin(&self, consumed: Vec<Consumed>) -> Origin {
        match (&self.transaction.call, self.transaction.round) {
            (Some(call), crate::event::Round::Call(number)) => Origin::Call {
                procedure: self.transaction.procedures[0],
                number,
                key: call.key.clone(),
                received: call.received,
            },
            (_, round) => Origin::Round { round, consumed },
        }
    }

    fn consumption(&self, procedure: ProcedureUid, input: usize, batch: &Batch) -> Consumed {
        Consumed {
            procedure,
            stream: self.core.declared.procedures()[&procedure].consumes[input].stream,
            places: batch.places.clone(),
        }
    }

    /// What a procedure consumes in this transaction: execution by execution, stream by stream.
    fn executions_of(&self, procedure: ProcedureUid) -> VecDeque<Vec<Option<Batch>>> {
        if self.transaction.call.is_some() {
            return VecDeque::from([Vec::new()]);
        }
        let consumes = &self.core.declared.procedures()[&procedure].consumes;
        let sides: Vec<Vec<Batch>> = (0..consumes.len())
            .map(|input| {
                let taken = self.transaction.taken.iter();
                let of_it = taken.filter(|one| one.procedure == procedure && one.input == input);
                let mut side: Vec<Batch> = of_it.map(|taken| taken.batch.clone()).collect();
                let stream = consumes[input].stream;
                if let Some(added) = self.added.get(&stream) {
                    let end = self.core.streams[&stream].next() + added.len() as u64;
                    let inlet = &self.core.consumers[&procedure].inlets[input];
                    let from = self.core.streams[&stream].next();
                    side.extend(inlet.inner(from, end, |place| self.time_of(stream, place)));
                }
                side
            })
            .collect();
        let count = sides.iter().map(Vec::len).max().unwrap_or(0);
        let execution =
            |number: usize| sides.iter().map(|side| side.get(number).cloned()).collect();
        (0..count).map(execution).collect()
    }

    fn time_of(&self, stream: StreamUid, place: u64) -> EventTime {
        let known = &self.core.streams[&stream];
        match (place.checked_sub(known.next()), self.added.get(&stream)) {
            (Some(number), Some(added)) => added[number as usize],
            _ => known.get(place).at,
        }
    }

    fn execute(&mut self, procedure: ProcedureUid, batches: Vec<Option<Batch>>) -> Execution {
        let shape = &self.core.declared.procedures()[&procedure];
        let mut slides = Vec::new();
        for (input, batch) in batches.iter().enumerate() {
            let Some(batch) = batch else {
                continue;
            };
            let consumed = self.consumption(procedure, input, batch);
            self.consumed.push(consumed);
        }
        for (number, window) in shape.windows.iter().enumerate() {
            let mut consumes = shape.consumes.iter();
            let input = consumes.position(|consumption| consumption.stream == window.stream);
            if let Some(batch) = input.and_then(|input| batches[input].as_ref()) {
                let members: Vec<Member> = self.members(window.stream, batch).collect();
                let core = self.core;
                let windows = &core.consumers[&procedure].windows;
                let run = (self.windows.entry((procedure, number)))
                    .or_insert_with(|| WindowRun::new(&windows[number], number));
                run.stage(members.into_iter(), batch.limit, &mut slides);
            }
        }
        let times = batches.iter().flatten().map(|batch| batch.at);
        let received = self.transaction.call.as_ref().map(|call| call.received);
        let now = times.chain(received).max().unwrap_or(EventTime::MIN);
        self.current = Some((procedure, now));
        let streams = shape.consumes.iter().map(|consumption| consumption.stream);
        Execution {
            procedure,
            now,
            batches: streams.zip(batches).collect(),
            slides,
        }
    }

    fn members<'b>(
        &'b self,
        stream: StreamUid,
        batch: &'b Batch,
    ) -> impl Iterator<Item = Member> + 'b {
        batch.places.iter().map(move |place| Member {
            at: self.time_of(stream, place.0),
            place,
        })
    }
}
