//! The serial twin: the semantics of transactions by the prose, on lists that never shrink. Each
//! answer is computed from the whole history: batches are cut again from all messages, windows are
//! filled again from all committed batches.

use crate::driver::{Act, Done, Executed, Script};
use somersault_txn::{
    BatchShape, Command, DataflowShape, Extent, OnAbort, Part, ProcedureShape, Round, StreamSource,
    WindowShape,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Message {
    at: i64,
    /// For pushed messages: the number of inputs before it.
    stamp: u64,
    /// For emitted ones: the round, and the transaction that began it.
    round: Option<(Round, u64)>,
}

#[derive(Clone, Debug)]
struct Stream {
    is_pushed: bool,
    messages: Vec<Message>,
    /// Complete-through times, with the inputs before them.
    through: Vec<(i64, u64)>,
}

impl Stream {
    fn through(&self) -> i64 {
        self.through.last().map_or(i64::MIN, |(time, _)| *time)
    }
}

/// One stream of one procedure.
#[derive(Clone, Debug)]
struct Side {
    stream: u32,
    batch: BatchShape,
    /// Places that this clause cuts: from here on, without some.
    from: u64,
    without: BTreeSet<u64>,
    consumed: Vec<Vec<u64>>,
    /// Batches that were consumed under other clauses.
    before: u64,
    /// The inputs before the clause.
    since: u64,
}

#[derive(Clone, Debug)]
struct Window {
    shape: WindowShape,
    /// Committed batches: messages with their times, and the limit of slides.
    fed: Vec<(Vec<(u64, i64)>, i64)>,
}

#[derive(Clone, Debug)]
struct Procedure {
    shape: ProcedureShape,
    sides: Vec<Side>,
    windows: Vec<Window>,
}

#[derive(Clone, Debug)]
struct Flow {
    shape: DataflowShape,
    /// While it is held: the number of calls before.
    held: Option<u64>,
}

#[derive(Clone, Debug)]
struct Batch {
    procedure: usize,
    side: usize,
    places: Vec<u64>,
    at: i64,
    limit: i64,
    round: Round,
    stamp: u64,
    root: Option<u64>,
}

pub(crate) struct Twin {
    script: Script,
    streams: BTreeMap<u32, Stream>,
    /// In the order of declaration; `None` once dropped.
    procedures: Vec<Option<Procedure>>,
    flows: BTreeMap<String, Flow>,
    inputs: u64,
    entries: u64,
    calls: u64,
    call_time: i64,
    pub(crate) done: Vec<Done>,
    pub(crate) stopped: BTreeSet<String>,
}

impl Twin {
    pub(crate) fn new(script: Script) -> Twin {
        Twin {
            script,
            streams: BTreeMap::new(),
            procedures: Vec::new(),
            flows: BTreeMap::new(),
            inputs: 0,
            entries: 0,
            calls: 0,
            call_time: i64::MIN,
            done: Vec::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// An act that the core accepted.
    pub(crate) fn act(&mut self, act: &Act) {
        self.carry_out(act);
        if matches!(act, Act::Command(_)) {
            // The next round of a unit takes the next batch of each of its border streams.
            for unit in self.units() {
                let rounds = self.rounds(&unit);
                self.pass_rounds(&unit, rounds);
            }
        }
    }

    /// The border rounds that a unit has been through.
    fn rounds(&self, unit: &[usize]) -> u64 {
        let sides = unit.iter().flat_map(|of| &self.get(*of).sides);
        let border = sides.filter(|side| self.streams[&side.stream].is_pushed);
        border
            .map(|side| side.before + side.consumed.len() as u64)
            .max()
            .unwrap_or(0)
    }

    fn pass_rounds(&mut self, unit: &[usize], rounds: u64) {
        for of in unit {
            let procedure = self.procedures[*of].as_mut().expect("the procedure exists");
            for side in &mut procedure.sides {
                if self.streams[&side.stream].is_pushed {
                    side.before = rounds - side.consumed.len() as u64;
                }
            }
        }
    }

    fn carry_out(&mut self, act: &Act) {
        match act {
            Act::Message(stream, at) => {
                let stamp = self.inputs;
                self.inputs += 1;
                let messages = &mut self
                    .streams
                    .get_mut(stream)
                    .expect("the stream exists")
                    .messages;
                messages.push(Message {
                    at: *at,
                    stamp,
                    round: None,
                });
            }
            Act::Complete(stream, time) => {
                self.inputs += 1;
                let stream = self.streams.get_mut(stream).expect("the stream exists");
                if *time > stream.through() {
                    stream.through.push((*time, self.inputs));
                }
            }
            Act::Command(command) => self.command(command),
            Act::Call(name, received) => self.call(name, *received),
            Act::Run => _ = self.run_next(),
            Act::Settle => while self.run_next() {},
            Act::Advance => {
                let interior = self.streams.iter().filter(|(_, stream)| !stream.is_pushed);
                let times: Vec<_> = interior
                    .map(|(uid, _)| (*uid, self.complete_through(*uid)))
                    .collect();
                for (uid, time) in times {
                    let stream = self.streams.get_mut(&uid).expect("the stream exists");
                    if time > stream.through() {
                        stream.through.push((time, self.inputs));
                    }
                }
            }
        }
    }

    fn find(&self, name: &str) -> usize {
        let is_it = |procedure: &Option<Procedure>| {
            procedure
                .as_ref()
                .is_some_and(|procedure| procedure.shape.name == name)
        };
        self.procedures
            .iter()
            .position(is_it)
            .expect("the procedure exists")
    }

    fn get(&self, procedure: usize) -> &Procedure {
        self.procedures[procedure]
            .as_ref()
            .expect("the procedure exists")
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::CreateStream(shape) => {
                let stream = Stream {
                    is_pushed: shape.source == StreamSource::Pushed,
                    messages: Vec::new(),
                    through: Vec::new(),
                };
                self.streams.insert(shape.uid.0, stream);
            }
            Command::DropStream(uid) => _ = self.streams.remove(&uid.0),
            Command::CreateProcedure { shape, .. } => {
                let names = self.procedures.iter().flatten().map(|of| &of.shape.name);
                match names.into_iter().any(|name| *name == shape.name) {
                    true => self.replace(shape),
                    false => {
                        let none = Procedure {
                            shape: ProcedureShape {
                                consumes: Vec::new(),
                                windows: Vec::new(),
                                ..shape.clone()
                            },
                            sides: Vec::new(),
                            windows: Vec::new(),
                        };
                        self.procedures.push(Some(none));
                        self.replace(shape);
                    }
                }
            }
            Command::DropProcedure { name, .. } => {
                let at = self.find(name);
                self.procedures[at] = None;
            }
            Command::CreateDataflow { shape, .. } => {
                let held = self.flows.get(&shape.name).and_then(|flow| flow.held);
                let shape = shape.clone();
                self.flows.insert(shape.name.clone(), Flow { shape, held });
            }
            Command::DropDataflow { name } => {
                self.stopped.remove(name);
                self.flows.remove(name);
            }
            Command::PauseDataflow { name } => {
                let calls = self.calls;
                self.flows
                    .get_mut(name)
                    .expect("the dataflow exists")
                    .held
                    .get_or_insert(calls);
            }
            Command::ResumeDataflow { name } => {
                self.stopped.remove(name);
                self.flows.get_mut(name).expect("the dataflow exists").held = None;
            }
        }
    }

    fn replace(&mut self, shape: &ProcedureShape) {
        let at = self.find(&shape.name);
        let before = self.get(at).clone();
        let is_pushed = |side: &&Side| self.streams[&side.stream].is_pushed;
        let rounds = before.sides.iter().filter(is_pushed);
        let rounds = rounds
            .map(|side| side.before + side.consumed.len() as u64)
            .max();
        let sides = shape.consumes.iter().map(|consumption| {
            let stream = consumption.stream.0;
            let next = self.streams[&stream].messages.len() as u64 + 1;
            match before.sides.iter().find(|side| side.stream == stream) {
                Some(same) if same.batch == consumption.batch => same.clone(),
                Some(other) => Side {
                    batch: consumption.batch,
                    without: (other.without.iter().copied())
                        .chain(other.consumed.iter().flatten().copied())
                        .collect(),
                    before: other.before + other.consumed.len() as u64,
                    consumed: Vec::new(),
                    since: self.inputs,
                    ..other.clone()
                },
                None => Side {
                    stream,
                    batch: consumption.batch,
                    from: next,
                    without: BTreeSet::new(),
                    consumed: Vec::new(),
                    before: rounds.unwrap_or(0),
                    since: self.inputs,
                },
            }
        });
        let windows = shape.windows.iter().map(|window| {
            let mut same = before.windows.iter().filter(|other| other.shape == *window);
            same.next().cloned().unwrap_or_else(|| Window {
                shape: window.clone(),
                fed: Vec::new(),
            })
        });
        self.procedures[at] = Some(Procedure {
            sides: sides.collect(),
            windows: windows.collect(),
            shape: shape.clone(),
        });
        if rounds.is_none() {
            let units = self.units();
            let own = units.iter().find(|unit| unit.contains(&at));
            let own = own.cloned().unwrap_or_default();
            let rounds = self.rounds_before(&own, &units);
            self.pass_rounds(&[at], rounds);
        }
    }

    /// The border rounds that what feeds a unit has been through.
    fn rounds_before(&self, unit: &[usize], units: &[Vec<usize>]) -> u64 {
        let feeds = |other: &&Vec<usize>| {
            other.as_slice() != unit
                && other
                    .iter()
                    .any(|from| unit.iter().any(|to| self.feeds(*from, *to)))
        };
        let before = units.iter().filter(feeds);
        let rounds = before.map(|other| self.rounds(other).max(self.rounds_before(other, units)));
        rounds.max().unwrap_or(0)
    }

    /// All batches of a side that are complete and not consumed, cut again from all messages.
    fn batches(&self, procedure: usize, number: usize) -> Vec<Batch> {
        let side = &self.get(procedure).sides[number];
        let stream = &self.streams[&side.stream];
        let message = |place: u64| &stream.messages[place as usize - 1];
        let consumed: BTreeSet<u64> = side.consumed.iter().flatten().copied().collect();
        let all = (side.from..=stream.messages.len() as u64)
            .filter(|place| !side.without.contains(place));
        let mut cut: Vec<(Vec<u64>, Option<i64>)> = Vec::new();
        match side.batch {
            BatchShape::Messages(count) => {
                let all: Vec<u64> = all.collect();
                cut.extend(
                    all.chunks_exact(count as usize)
                        .map(|batch| (batch.to_vec(), None)),
                );
                cut.retain(|(batch, _)| !consumed.contains(&batch[0]));
            }
            BatchShape::Span(span) => {
                let mut intervals: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
                for place in all.filter(|place| !consumed.contains(place)) {
                    let number = message(place).at.div_euclid(span.0);
                    intervals.entry(number).or_default().push(place);
                }
                let ends = intervals
                    .into_iter()
                    .map(|(number, batch)| (batch, (number + 1) * span.0));
                let complete = ends.filter(|(_, end)| *end <= stream.through());
                cut.extend(complete.map(|(batch, end)| (batch, Some(end))));
            }
        }
        let begun = side.before + side.consumed.len() as u64;
        let numbered = cut.into_iter().zip(begun + 1..);
        let batches = numbered.map(|((places, end), border_round)| {
            let last = message(*places.last().expect("it is there"));
            let at = places
                .iter()
                .map(|place| message(*place).at)
                .max()
                .expect("it is there");
            let completed = end.map(|end| {
                let reached = stream.through.iter().find(|(time, _)| *time >= end);
                reached
                    .expect("it is there")
                    .1
                    .max(last.stamp)
                    .max(side.since)
            });
            Batch {
                procedure,
                side: number,
                at,
                limit: end.unwrap_or(at),
                round: last
                    .round
                    .map_or(Round::Batch(border_round), |(round, _)| round),
                stamp: completed.unwrap_or(last.stamp),
                root: last.round.map(|(_, root)| root),
                places,
            }
        });
        batches.collect()
    }

    fn emits(&self, procedure: usize, stream: u32) -> bool {
        self.get(procedure)
            .shape
            .emits
            .iter()
            .any(|uid| uid.0 == stream)
    }

    fn consumes(&self, procedure: usize, stream: u32) -> bool {
        self.get(procedure)
            .sides
            .iter()
            .any(|side| side.stream == stream)
    }

    fn feeds(&self, from: usize, to: usize) -> bool {
        self.get(from)
            .shape
            .emits
            .iter()
            .any(|stream| self.consumes(to, stream.0))
    }

    fn streaming(&self) -> impl Iterator<Item = usize> + '_ {
        let all = self.procedures.iter().enumerate();
        let those = all.filter(|(_, procedure)| {
            procedure
                .as_ref()
                .is_some_and(|procedure| !procedure.sides.is_empty())
        });
        those.map(|(at, _)| at)
    }

    fn flow_of(&self, procedure: usize) -> Option<&Flow> {
        let name = &self.get(procedure).shape.name;
        self.flows
            .values()
            .find(|flow| flow.shape.names().any(|of| of == name))
    }

    /// Nests, and procedures in no nest, along the graph; children along it, too.
    fn units(&self) -> Vec<Vec<usize>> {
        let mut units: Vec<((usize, usize), Vec<usize>)> = Vec::new();
        for flow in self.flows.values() {
            let first = flow
                .shape
                .names()
                .map(|name| self.find(name))
                .min()
                .expect("it is there");
            for (number, part) in flow.shape.parts.iter().enumerate() {
                let (names, order) = match part {
                    Part::One(name) => (vec![name.clone()], vec![]),
                    Part::Nest { names, order } => (names.clone(), order.clone()),
                };
                let children: Vec<usize> = names.iter().map(|name| self.find(name)).collect();
                if children
                    .iter()
                    .any(|child| self.get(*child).sides.is_empty())
                {
                    continue;
                }
                let before = |a: &usize, b: &usize| {
                    self.feeds(*a, *b)
                        || order
                            .iter()
                            .any(|(x, y)| self.find(x) == *a && self.find(y) == *b)
                };
                units.push(((first, number), along(children, before)));
            }
        }
        for procedure in self.streaming() {
            if self.flow_of(procedure).is_none() {
                units.push(((procedure, 0), vec![procedure]));
            }
        }
        units.sort();
        let units = units.into_iter().map(|(_, unit)| unit).collect();
        along(units, |a: &Vec<usize>, b: &Vec<usize>| {
            a.iter()
                .any(|from| b.iter().any(|to| self.feeds(*from, *to)))
        })
    }

    fn is_nest(&self, unit: &[usize]) -> bool {
        let name = &self.get(unit[0]).shape.name;
        let flow = self.flow_of(unit[0]);
        flow.is_some_and(|flow| {
            let mut parts = flow.shape.parts.iter();
            parts.any(|part| matches!(part, Part::Nest { names, .. } if names.contains(name)))
        })
    }

    fn all_batches(&self, unit: &[usize]) -> Vec<Batch> {
        let sides = unit
            .iter()
            .flat_map(|of| (0..self.get(*of).sides.len()).map(move |side| (*of, side)));
        sides
            .flat_map(|(of, side)| self.batches(of, side))
            .collect()
    }

    /// Whether a unit, and all before it, ran all of a round.
    fn has_ended(&self, unit: &[usize], round: Round, units: &[Vec<usize>]) -> bool {
        let waits = self
            .all_batches(unit)
            .into_iter()
            .any(|batch| match (batch.round, round) {
                (Round::Batch(of), Round::Batch(now)) => of <= now,
                (of, now) => of == now,
            });
        let border = unit.iter().flat_map(|of| &self.get(*of).sides);
        let mut border = border.filter(|side| self.streams[&side.stream].is_pushed);
        let ran = border.all(|side| match round {
            Round::Batch(now) => side.before + side.consumed.len() as u64 >= now,
            Round::Call(_) => true,
        });
        !waits && ran && self.have_ended_before(unit, round, units)
    }

    fn have_ended_before(&self, unit: &[usize], round: Round, units: &[Vec<usize>]) -> bool {
        let is_before = |other: &&Vec<usize>| {
            other.as_slice() != unit
                && other
                    .iter()
                    .any(|from| unit.iter().any(|to| self.feeds(*from, *to)))
        };
        let mut before = units.iter().filter(is_before);
        before.all(|other| self.has_ended(other, round, units))
    }

    /// The batches of the next transaction of each unit, with its turn.
    fn due(&self, unit: &[usize], units: &[Vec<usize>]) -> Vec<((bool, u64), Vec<Batch>)> {
        let batches = self.all_batches(unit);
        let is_nest = self.is_nest(unit);
        let sides: usize = unit.iter().map(|of| self.get(*of).sides.len()).sum();
        let mut sets: Vec<Vec<Batch>> = Vec::new();
        if !is_nest && sides == 1 {
            sets.extend(batches.first().map(|first| vec![first.clone()]));
        } else {
            let is_call = |round: &Round| matches!(round, Round::Call(_));
            let rounds = || batches.iter().map(|batch| batch.round);
            let next = rounds().filter(|round| !is_call(round)).min();
            for round in next.into_iter().chain(rounds().filter(is_call).min()) {
                let of_round = |batch: &&Batch| batch.round == round;
                let mut set: Vec<Batch> = batches.iter().filter(of_round).cloned().collect();
                if !is_nest {
                    set.dedup_by_key(|batch| batch.side);
                }
                let border = unit
                    .iter()
                    .flat_map(|of| (0..self.get(*of).sides.len()).map(move |side| (*of, side)));
                let has_border = border.into_iter().all(|(of, side)| {
                    let of_side = &self.get(of).sides[side];
                    let Round::Batch(now) = round else {
                        return true;
                    };
                    !self.streams[&of_side.stream].is_pushed
                        || of_side.before + of_side.consumed.len() as u64 >= now
                        || set
                            .iter()
                            .any(|batch| (batch.procedure, batch.side) == (of, side))
                });
                if has_border && self.have_ended_before(unit, round, units) {
                    sets.push(set);
                }
            }
        }
        let flow = self.flow_of(unit[0]);
        let is_held = |set: &Vec<Batch>| {
            flow.and_then(|flow| flow.held)
                .is_some_and(|calls| match set[0].round {
                    Round::Call(number) => number > calls,
                    Round::Batch(_) => self.is_entry(unit),
                })
        };
        sets.retain(|set| !is_held(set));
        let turn = |set: &Vec<Batch>| match set.iter().filter_map(|batch| batch.root).max() {
            Some(root) => (false, root),
            None if self.is_fed(unit) => (false, self.entries),
            None => (
                true,
                set.iter()
                    .map(|batch| batch.stamp)
                    .max()
                    .expect("it is there"),
            ),
        };
        sets.into_iter().map(|set| (turn(&set), set)).collect()
    }

    /// Whether rounds come into its dataflow here.
    fn is_entry(&self, unit: &[usize]) -> bool {
        let flow = |of: usize| self.flow_of(of).map(|flow| flow.shape.name.clone());
        let mut sides = unit.iter().flat_map(|of| &self.get(*of).sides);
        sides.any(|side| {
            let is_foreign = |of: usize| self.emits(of, side.stream) && flow(of) != flow(unit[0]);
            self.streams[&side.stream].is_pushed || self.streaming().any(is_foreign)
        })
    }

    fn is_fed(&self, unit: &[usize]) -> bool {
        let mut sides = unit.iter().flat_map(|of| &self.get(*of).sides);
        sides.any(|side| {
            !self.streams[&side.stream].is_pushed
                && !unit.iter().any(|of| self.emits(*of, side.stream))
        })
    }

    fn run_next(&mut self) -> bool {
        let units = self.units();
        let due = units.iter().enumerate().flat_map(|(number, unit)| {
            let due = self.due(unit, &units).into_iter();
            due.map(move |(turn, set)| (turn, number, set))
        });
        let next = due.min_by_key(|(turn, number, set)| (*turn, *number, set[0].round));
        let Some(((is_border, root), number, set)) = next else {
            return false;
        };
        self.entries += 1;
        let root = if is_border { self.entries } else { root };
        self.run(&units[number], set, root);
        true
    }

    fn run(&mut self, unit: &[usize], set: Vec<Batch>, root: u64) {
        let (round, before) = (set[0].round, self.clone_state());
        let mut done = Done {
            round,
            executions: Vec::new(),
            emitted: Vec::new(),
            aborted: None,
        };
        for child in unit {
            // What waited before, and what earlier children made.
            let is_own = |batch: &Batch| {
                set.iter().any(|of| {
                    (of.procedure, of.side, &of.places)
                        == (batch.procedure, batch.side, &batch.places)
                })
            };
            let count = self.get(*child).sides.len();
            let sides: Vec<Vec<Batch>> = (0..count)
                .map(|side| {
                    let known = before.1.get(&self.get(*child).sides[side].stream).copied();
                    let mut batches = self.batches(*child, side);
                    batches.retain(|batch| is_own(batch) || batch.places.last().copied() > known);
                    batches
                })
                .collect();
            let executions = sides.iter().map(Vec::len).max().unwrap_or(0);
            for number in 0..executions {
                let batches: Vec<Batch> = sides
                    .iter()
                    .filter_map(|side| side.get(number).cloned())
                    .collect();
                if !self.execute(*child, batches, round, root, &mut done) {
                    // The abort undoes all but that the batches are consumed.
                    let name = self.get(*child).shape.name.clone();
                    (self.procedures, self.streams) = (before.0, before.2);
                    for batch in set {
                        let procedure = self.procedures[batch.procedure]
                            .as_mut()
                            .expect("the procedure exists");
                        procedure.sides[batch.side].consumed.push(batch.places);
                    }
                    done.emitted.clear();
                    done.aborted = Some(name.clone());
                    let calls = self.calls;
                    let mut flows = self.flows.values_mut();
                    let flow = flows.find(|flow| flow.shape.names().any(|of| of == name));
                    if let Some(flow) = flow.filter(|flow| flow.shape.on_abort == OnAbort::Stop) {
                        flow.held.get_or_insert(calls);
                        self.stopped.insert(flow.shape.name.clone());
                    }
                    self.done.push(done);
                    return;
                }
            }
        }
        self.done.push(done);
    }

    #[allow(clippy::type_complexity, reason = "the parts that an abort puts back")]
    fn clone_state(
        &self,
    ) -> (
        Vec<Option<Procedure>>,
        BTreeMap<u32, u64>,
        BTreeMap<u32, Stream>,
    ) {
        let lengths = self
            .streams
            .iter()
            .map(|(uid, stream)| (*uid, stream.messages.len() as u64));
        (
            self.procedures.clone(),
            lengths.collect(),
            self.streams.clone(),
        )
    }

    /// One execution; `false` if it aborts.
    fn execute(
        &mut self,
        procedure: usize,
        batches: Vec<Batch>,
        round: Round,
        root: u64,
        done: &mut Done,
    ) -> bool {
        let shape = self.get(procedure).shape.clone();
        let now = batches
            .iter()
            .map(|batch| batch.at)
            .max()
            .expect("it is there");
        let mut executed = Executed {
            procedure: shape.name.clone(),
            now,
            batches: Vec::new(),
            slides: Vec::new(),
            saw: Vec::new(),
        };
        for batch in &batches {
            let stream = self.get(procedure).sides[batch.side].stream;
            executed.batches.push((stream, batch.places.clone()));
            let own = self.procedures[procedure]
                .as_mut()
                .expect("the procedure exists");
            own.sides[batch.side].consumed.push(batch.places.clone());
        }
        let mut emitted = Vec::new();
        let mut aborts = false;
        for number in 0..shape.windows.len() {
            let on = self.get(procedure).windows[number].shape.stream.0;
            let own = |batch: &&Batch| self.get(procedure).sides[batch.side].stream == on;
            let Some(batch) = batches.iter().find(own).cloned() else {
                continue;
            };
            let messages = &self.streams[&on].messages;
            let times = batch
                .places
                .iter()
                .map(|place| (*place, messages[*place as usize - 1].at));
            let times = times.collect();
            let own = self.procedures[procedure]
                .as_mut()
                .expect("the procedure exists");
            let before = history(&own.windows[number]).0.len();
            own.windows[number].fed.push((times, batch.limit));
            for content in history(&own.windows[number]).0.into_iter().skip(before) {
                if content.is_empty() || aborts {
                    continue;
                }
                let steps = self.script.trigger(&shape, number, &content);
                executed.slides.push((number, content));
                emitted.extend(steps.emits);
                aborts = steps.aborts;
            }
        }
        if !aborts {
            let windows = &self.get(procedure).windows;
            executed.saw = windows.iter().map(|window| history(window).1).collect();
            let steps = self.script.steps(&shape, &executed.batches);
            emitted.extend(steps.emits);
            aborts = steps.aborts;
        }
        done.executions.push(executed);
        for stream in emitted {
            self.emit(stream.0, now, round, root, done);
        }
        !aborts
    }

    fn emit(&mut self, uid: u32, now: i64, round: Round, root: u64, done: &mut Done) {
        let stream = self.streams.get_mut(&uid).expect("the stream exists");
        let at = now.max(stream.through());
        stream.messages.push(Message {
            at,
            stamp: 0,
            round: Some((round, root)),
        });
        done.emitted.push((uid, stream.messages.len() as u64, at));
    }

    fn call(&mut self, name: &str, received: i64) {
        self.entries += 1;
        self.calls += 1;
        self.call_time = self.call_time.max(received);
        let shape = self.get(self.find(name)).shape.clone();
        let round = Round::Call(self.calls);
        let mut done = Done {
            round,
            executions: vec![Executed {
                procedure: name.to_owned(),
                now: received,
                batches: Vec::new(),
                slides: Vec::new(),
                saw: Vec::new(),
            }],
            emitted: Vec::new(),
            aborted: None,
        };
        let steps = self.script.steps(&shape, &[(0, vec![self.calls])]);
        match steps.aborts {
            true => done.aborted = Some(name.to_owned()),
            false => {
                for stream in steps.emits {
                    self.emit(stream.0, received, round, self.entries, &mut done);
                }
            }
        }
        self.done.push(done);
    }

    /// The least of the complete-through times of what leads to a stream, and of the times of
    /// messages that wait on the way.
    pub(crate) fn complete_through(&self, uid: u32) -> i64 {
        let stream = &self.streams[&uid];
        if stream.is_pushed {
            return stream.through();
        }
        let producers = self.streaming().filter(|of| self.emits(*of, uid));
        let bounds = producers.map(|of| {
            let sides = self.get(of).sides.iter();
            let bounds = sides.map(|side| {
                let waits = self.waiting(side).into_iter();
                let messages = &self.streams[&side.stream].messages;
                let times = waits.map(|place| messages[place as usize - 1].at);
                times
                    .chain([self.complete_through(side.stream)])
                    .min()
                    .expect("it is there")
            });
            bounds.min().expect("it is there")
        });
        let is_called = self
            .procedures
            .iter()
            .flatten()
            .any(|of| of.sides.is_empty() && of.shape.emits.iter().any(|into| into.0 == uid));
        let called = is_called.then_some(self.call_time);
        bounds
            .min()
            .or(called)
            .map_or(stream.through(), |time| time.max(stream.through()))
    }

    fn waiting(&self, side: &Side) -> BTreeSet<u64> {
        let all = side.from..=self.streams[&side.stream].messages.len() as u64;
        let consumed: BTreeSet<u64> = side.consumed.iter().flatten().copied().collect();
        all.filter(|place| !consumed.contains(place) && !side.without.contains(place))
            .collect()
    }

    /// The first place of a stream that a procedure or a window needs; the next one if none does.
    pub(crate) fn needed(&self, uid: u32) -> u64 {
        let next = self.streams[&uid].messages.len() as u64 + 1;
        let sides = self.streaming().flat_map(|of| &self.get(of).sides);
        let waits = sides
            .filter(|side| side.stream == uid)
            .flat_map(|side| self.waiting(side));
        let windows = self.streaming().flat_map(|of| &self.get(of).windows);
        let windows = windows.filter(|window| window.shape.stream.0 == uid);
        let held = windows.flat_map(|window| {
            let (_, content, staged) = history(window);
            content.into_iter().chain(staged)
        });
        waits.chain(held).min().unwrap_or(next)
    }
}

/// What a window held after each of its slides, what it holds, and what is staged; by place.
fn history(window: &Window) -> (Vec<Vec<u64>>, Vec<u64>, Vec<u64>) {
    let (mut slides, mut active, staged) = filled(window);
    slides
        .iter_mut()
        .chain([&mut active])
        .for_each(|places| places.sort_unstable());
    (slides, active, staged)
}

/// The same, in the order in which messages were consumed.
fn filled(window: &Window) -> (Vec<Vec<u64>>, Vec<u64>, Vec<u64>) {
    let (mut slides, mut active, mut staged) = (Vec::new(), Vec::new(), Vec::new());
    match window.shape.extent {
        Extent::Last { messages, slide } => {
            let mut was_full = false;
            for (place, _) in window.fed.iter().flat_map(|(batch, _)| batch) {
                staged.push(*place);
                if staged.len() as u64 == if was_full { slide } else { messages } {
                    active.append(&mut staged);
                    let gone = active.len().saturating_sub(messages as usize);
                    active.drain(..gone);
                    slides.push(active.clone());
                    was_full = true;
                }
            }
        }
        Extent::Range { range, slide } => {
            let (range, slide) = (range.0, slide.0);
            let mut next = None;
            let mut all: Vec<(u64, i64)> = Vec::new();
            for (batch, limit) in &window.fed {
                for (place, at) in batch {
                    let first = at.div_euclid(slide) * slide + range;
                    next.get_or_insert((first + slide - 1).div_euclid(slide) * slide);
                    all.push((*place, *at));
                    staged.push(*place);
                }
                while let Some(close) = next.filter(|close| close <= limit) {
                    let is_in = |at: i64| close - range <= at && at < close;
                    let shown = all.iter().filter(|(_, at)| is_in(*at));
                    active = shown.map(|(place, _)| *place).collect();
                    slides.push(active.clone());
                    // What is older than the close is shown now or never.
                    let time = |place: u64| {
                        all.iter()
                            .find(|(of, _)| *of == place)
                            .expect("it is there")
                            .1
                    };
                    staged.retain(|place| time(*place) >= close);
                    next = Some(close + slide);
                }
            }
        }
    }
    (slides, active, staged)
}

/// The elements so that each comes after those that lead to it; of several, the first.
fn along<T>(mut left: Vec<T>, leads: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_free = |at: &usize| {
            let others = (0..left.len()).filter(|other| other != at);
            others
                .into_iter()
                .all(|other| !leads(&left[other], &left[*at]))
        };
        let next = (0..left.len()).find(is_free).expect("there is no cycle");
        ordered.push(left.remove(next));
    }
    ordered
}
