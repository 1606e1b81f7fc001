//! The core: the state of all procedures, and which transaction runs next.
//!
//! [`Core::next`] decides in these steps.
//! 1. Of each unit: the next round of which all batches are there. A join or a nest waits until all
//!    that feeds it has ended the round.
//! 2. Rounds that a held dataflow would begin are left out.
//! 3. Transactions that others led to come first: of the round that began first, the first unit
//!    along the graph. So a round ends before another one begins (depth first).
//! 4. Then border batches, in the order in which inputs completed them.
//!
//! Before changing anything here: `next` changes nothing and gives the same until something is
//! applied. `apply` (in `apply`) is the only way by which the state changes.

mod admit;
mod apply;
pub(crate) mod run;
mod saved;
mod status;

use crate::dataflows::{Aborts, Dataflow};
use crate::declarations::Declarations;
use crate::declarations::graph::{Graph, Unit};
use crate::event::{Answer, Contradiction, Key, Origin, Round, contradiction};
use crate::inlets::{Batch, Inlet, Ready};
use crate::keys::{KeyState, Keys, REMEMBERED_NUMBERS};
use crate::refusal::Refusal;
use crate::saved::Counts;
use crate::shape::ProcedureUid;
use crate::streams::{Arrival, Stream};
use crate::windows::Window;
use somersault_model::{EventTime, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

pub use status::{AbortList, DataflowStatus, InletStatus};

/// The state of all procedures.
#[derive(Clone, Debug, Default)]
pub struct Core {
    declared: Declarations,
    graph: Graph,
    streams: BTreeMap<StreamUid, Stream>,
    consumers: BTreeMap<ProcedureUid, Consumer>,
    dataflows: BTreeMap<String, Flow>,
    keys: Keys,
    counts: Counts,
}

/// The state of a streaming procedure.
#[derive(Clone, Debug, Default)]
struct Consumer {
    /// One for each stream that it consumes, in the order of its declaration.
    inlets: Vec<Inlet>,
    windows: Vec<Window>,
    /// While it is in no dataflow.
    aborts: Aborts,
}

/// The state of a dataflow, with what aborted in it.
#[derive(Clone, Debug)]
struct Flow {
    state: Dataflow,
    aborts: Aborts,
}

/// A transaction that may run: one unit on the batches of one round, or a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    procedures: Vec<ProcedureUid>,
    round: Round,
    taken: Vec<Taken>,
    call: Option<CallHead>,
    is_triggered: bool,
}

/// A batch that a transaction consumes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Taken {
    procedure: ProcedureUid,
    input: usize,
    batch: Batch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CallHead {
    key: Option<Key>,
    received: EventTime,
}

impl Transaction {
    /// Its round; the number of a call.
    pub fn round(&self) -> Round {
        self.round
    }

    /// Its procedures, in the order in which they run.
    pub fn procedures(&self) -> &[ProcedureUid] {
        &self.procedures
    }

    /// Whether other transactions led to it. Such a one runs before calls and updates that wait.
    pub fn is_triggered(&self) -> bool {
        self.is_triggered
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAdmission {
    /// It runs.
    Run(Transaction),
    /// Its key was used: this is what the call was answered.
    Answered(Answer),
}

/// The order of transactions that may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// By the entry that began the round.
    Triggered(u64),
    /// By the input that completed the batches.
    Border(u64),
}

impl Core {
    /// A core in which nothing is declared.
    pub fn new() -> Core {
        Core::default()
    }

    /// The transaction that runs next, if batches wait for one.
    pub fn next(&self) -> Option<Transaction> {
        self.next_without(&BTreeSet::new())
    }

    /// The transaction that runs next while these procedures cannot run: of the others, those that
    /// do not begin a round which leads to one of these.
    pub fn next_without(&self, absent: &BTreeSet<ProcedureUid>) -> Option<Transaction> {
        let units = self.graph.units().iter().enumerate();
        let units = units.filter(|(number, unit)| {
            absent.is_empty() || !self.waits_for_absent(*number, unit, absent)
        });
        let due = units.flat_map(|(number, unit)| {
            let (simple, others) = match unit.is_simple {
                true => (self.due_of_simple(unit), Vec::new()),
                false => (None, self.due(unit)),
            };
            let due = simple.into_iter().chain(others);
            due.map(move |(turn, round)| (turn, number, round))
        });
        let (_, number, round) = due.min()?;
        Some(self.transaction(&self.graph.units()[number], round))
    }

    /// Whether the entries so far say by themselves that this transaction, which is next, is next.
    /// Where it is not so, messages that clients push meanwhile may let another one come first.
    pub fn follows_from_entries(&self, next: &Transaction) -> bool {
        next.is_triggered && !self.graph.has_mixed_units()
    }

    /// Whether a unit waits for a procedure that cannot run: its own, or where a round begins one
    /// that it leads to.
    fn waits_for_absent(
        &self,
        number: usize,
        unit: &Unit,
        absent: &BTreeSet<ProcedureUid>,
    ) -> bool {
        let is_absent = |unit: &Unit| unit.children.iter().any(|it| absent.contains(it));
        let mut led_to = self.graph.units().iter();
        is_absent(unit)
            || !unit.is_fed && led_to.any(|it| it.upstream.contains(&number) && is_absent(it))
    }

    /// What becomes of a call now.
    ///
    /// # Errors
    /// There is no such procedure, it is a streaming one, or the key's number is too old to know.
    pub fn call(
        &self,
        procedure: &str,
        key: Option<Key>,
        received: EventTime,
    ) -> Result<CallAdmission, Refusal> {
        let uid = self.declared.uid(procedure);
        let uid = uid.ok_or_else(|| crate::declarations::not_found("procedure", procedure))?;
        if self.declared.procedures()[&uid].is_streaming() {
            let procedure = procedure.to_owned();
            return Err(Refusal::CallOfStreaming { procedure });
        }
        match key.as_ref().map(|key| (key, self.keys.find(key))) {
            Some((_, KeyState::Answered(answer))) => Ok(CallAdmission::Answered(answer.clone())),
            Some((key, KeyState::Forgotten)) => Err(Refusal::KeyForgotten {
                source_name: key.source.clone(),
                number: key.number,
                remembered: REMEMBERED_NUMBERS,
            }),
            Some((_, KeyState::Free)) | None => Ok(CallAdmission::Run(Transaction {
                procedures: vec![uid],
                round: Round::Call(self.counts.calls + 1),
                taken: Vec::new(),
                call: Some(CallHead { key, received }),
                is_triggered: false,
            })),
        }
    }

    /// The transaction of a logged origin, to run it again (WEAK recovery).
    ///
    /// # Errors
    /// Its batches do not wait.
    pub fn again(&self, origin: &Origin) -> Result<Transaction, Contradiction> {
        let (round, consumed) = match origin {
            Origin::Call {
                procedure,
                key,
                received,
                ..
            } => {
                let name = self.declared.name(*procedure);
                return match self.call(&name, key.clone(), *received) {
                    Ok(CallAdmission::Run(transaction)) => Ok(transaction),
                    Ok(CallAdmission::Answered(_)) => contradiction("a call is logged twice"),
                    Err(refusal) => contradiction(refusal.to_string()),
                };
            }
            Origin::Round { round, consumed } => (*round, consumed),
        };
        let unit = consumed
            .first()
            .and_then(|first| self.graph.unit_of(first.procedure));
        let Some(unit) = unit else {
            return contradiction("a round has no procedure");
        };
        let mut taken = Vec::new();
        for of in consumed {
            let Some((input, inlet)) = self.inlet(of.procedure, of.stream) else {
                return contradiction("a procedure consumes a stream that it does not name");
            };
            // What a nest made by itself comes again by itself.
            if let Some(ready) = inlet.find(&of.places, &self.streams[&of.stream]) {
                taken.push(Taken {
                    procedure: of.procedure,
                    input,
                    batch: ready.batch,
                });
            }
        }
        if taken.is_empty() {
            return contradiction("a round is logged twice");
        }
        Ok(Transaction {
            procedures: unit.children.clone(),
            round,
            taken,
            call: None,
            is_triggered: unit.is_fed,
        })
    }

    fn inlet(&self, procedure: ProcedureUid, stream: StreamUid) -> Option<(usize, &Inlet)> {
        let consumers = self.graph.consumers(stream).iter();
        let mut inputs = consumers
            .filter(|(of, _)| *of == procedure)
            .map(|(_, input)| *input);
        let input = inputs.next()?;
        Some((input, self.consumers.get(&procedure)?.inlets.get(input)?))
    }

    /// The inlets of a unit's procedures: the procedure, the number of the inlet, and its stream.
    fn inlets(&self, unit: &Unit) -> impl Iterator<Item = (ProcedureUid, usize, &Inlet, &Stream)> {
        unit.children.iter().flat_map(move |child| {
            let inlets = self.consumers[child].inlets.iter();
            let consumptions = self.declared.procedures()[child].consumes.iter();
            let pairs = inlets.zip(consumptions).enumerate();
            pairs.map(move |(input, (inlet, consumption))| {
                (*child, input, inlet, &self.streams[&consumption.stream])
            })
        })
    }

    /// The round that a unit of one procedure with one stream may run now, with its turn: that of
    /// its first batch.
    fn due_of_simple(&self, unit: &Unit) -> Option<(Turn, Round)> {
        let inlet = self.consumers[&unit.children[0]].inlets.first()?;
        if !inlet.has_batch() {
            return None;
        }
        let (.., inlet, stream) = self.inlets(unit).next()?;
        let first = inlet.first(stream)?;
        let is_held = self.is_held(unit, first.round);
        (!is_held).then(|| (self.turn_of([first.arrival], unit), first.round))
    }

    /// The rounds that another unit may run now, with their turns.
    fn due(&self, unit: &Unit) -> Vec<(Turn, Round)> {
        let rounds = self.rounds_of_all_sides(unit).into_iter();
        let rounds = rounds.filter(|round| !self.is_held(unit, *round));
        rounds
            .map(|round| (self.turn(unit, round), round))
            .collect()
    }

    /// Whether the unit's dataflow holds a round.
    fn is_held(&self, unit: &Unit, round: Round) -> bool {
        let flow = unit
            .dataflow
            .as_ref()
            .and_then(|name| self.dataflows.get(name));
        flow.is_some_and(|flow| flow.state.holds(round, unit.is_entry))
    }

    /// The least round of batches and the least round of calls, where all that belongs to them is
    /// there.
    fn rounds_of_all_sides(&self, unit: &Unit) -> Vec<Round> {
        let least = |from: Round| {
            let rounds = self.inlets(unit);
            rounds
                .filter_map(|(.., inlet, stream)| inlet.least_round(from, stream))
                .min()
        };
        let of_batches = least(Round::Batch(0)).filter(|round| matches!(round, Round::Batch(_)));
        let of_calls = least(Round::Call(0));
        let rounds = of_batches.into_iter().chain(of_calls);
        rounds
            .filter(|round| self.has_all_sides(unit, *round))
            .collect()
    }

    fn has_all_sides(&self, unit: &Unit, round: Round) -> bool {
        let has_border_batch = |inlet: &Inlet, stream: &Stream| match round {
            Round::Batch(number) => {
                inlet.taken() >= number
                    || inlet
                        .first(stream)
                        .is_some_and(|first| first.round == round)
            }
            Round::Call(_) => true,
        };
        let mut own = self.inlets(unit);
        own.all(|(.., inlet, stream)| !inlet.is_pushed() || has_border_batch(inlet, stream))
            && unit
                .upstream
                .iter()
                .all(|at| self.has_ended(&self.graph.units()[*at], round))
    }

    /// Whether a unit has run all of a round and, of batches, all rounds before it.
    fn has_ended(&self, unit: &Unit, round: Round) -> bool {
        self.inlets(unit).all(|(.., inlet, stream)| match round {
            Round::Batch(number) if inlet.is_pushed() => inlet.taken() >= number,
            Round::Batch(_) => {
                let least = inlet.least_round(Round::Batch(0), stream);
                least.is_none_or(|least| least > round)
            }
            Round::Call(_) => inlet.least_round(round, stream) != Some(round),
        })
    }

    /// The batches of a round, with the procedures and inlets that they wait at.
    fn batches<'a>(
        &'a self,
        unit: &'a Unit,
        round: Round,
    ) -> impl Iterator<Item = (ProcedureUid, usize, Ready)> + 'a {
        self.inlets(unit)
            .flat_map(move |(child, input, inlet, stream)| {
                let all = match unit.is_simple {
                    true => inlet.first(stream).into_iter().collect(),
                    false => inlet.of_round(round, stream),
                };
                // Several batches of one round are one transaction of a nest, and several of a
                // procedure.
                let count = if unit.is_nest { all.len() } else { 1 };
                all.into_iter()
                    .take(count)
                    .map(move |ready| (child, input, ready))
            })
    }

    fn turn(&self, unit: &Unit, round: Round) -> Turn {
        let batches = self.batches(unit, round);
        self.turn_of(batches.map(|(.., ready)| ready.arrival), unit)
    }

    fn turn_of(&self, arrivals: impl IntoIterator<Item = Arrival>, unit: &Unit) -> Turn {
        let (mut stamp, mut root) = (0, None);
        for arrival in arrivals {
            match arrival {
                Arrival::Pushed { stamp: of } => stamp = stamp.max(of),
                Arrival::Emitted { root: of, .. } => root = root.max(Some(of)),
            }
        }
        match root {
            Some(root) => Turn::Triggered(root),
            None if unit.is_fed => Turn::Triggered(self.counts.entries),
            None => Turn::Border(stamp),
        }
    }

    fn transaction(&self, unit: &Unit, round: Round) -> Transaction {
        let taken = self
            .batches(unit, round)
            .map(|(procedure, input, ready)| Taken {
                procedure,
                input,
                batch: ready.batch,
            });
        Transaction {
            procedures: unit.children.clone(),
            round,
            taken: taken.collect(),
            call: None,
            is_triggered: matches!(self.turn(unit, round), Turn::Triggered(_)),
        }
    }

    /// The interior streams that are complete through later times than before, with these times:
    /// the least of what their producers' streams are complete through, and of the times of
    /// messages that wait for these producers. A driver logs them as an `Advance` when it wants to.
    pub fn advances(&self) -> Vec<(StreamUid, EventTime)> {
        let mut bounds: BTreeMap<ProcedureUid, EventTime> = BTreeMap::new();
        let mut advances = BTreeMap::new();
        let mut through = |uid: StreamUid, bounds: &BTreeMap<ProcedureUid, EventTime>| {
            let stream = &self.streams[&uid];
            if stream.is_pushed() {
                return stream.through();
            }
            let producers = self.graph.producers(uid);
            let least = producers
                .iter()
                .filter_map(|producer| bounds.get(producer))
                .min();
            let called = (!producers.is_empty()).then_some(&self.counts.call_time);
            let now = least
                .or(called)
                .map_or(stream.through(), |time| stream.through().max(*time));
            if now > stream.through() {
                advances.insert(uid, now);
            }
            now
        };
        for procedure in self.graph.units().iter().flat_map(|unit| &unit.children) {
            let consumptions = self.declared.procedures()[procedure].consumes.iter();
            let inlets = &self.consumers[procedure].inlets;
            let times = consumptions.zip(inlets).map(|(consumption, inlet)| {
                let uid = consumption.stream;
                let waits = inlet.least_time(&self.streams[&uid]);
                waits.into_iter().chain([through(uid, &bounds)]).min()
            });
            let least = times.flatten().min().unwrap_or(EventTime::MIN);
            bounds.insert(*procedure, least);
        }
        for (uid, stream) in &self.streams {
            if !stream.is_pushed() {
                through(*uid, &bounds);
            }
        }
        advances.into_iter().collect()
    }
}
