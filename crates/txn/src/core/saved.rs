//! The core in a checkpoint: made by [`Core::freeze`], taken back by [`Core::restore`].
//!
//! Before changing anything here: each field of the state is in a record, or follows from what is
//! declared. A restored core is checked, so that no record leads to a panic later.

use super::{Consumer, Core, Flow};
use crate::dataflows::{Aborts, Dataflow, DataflowState};
use crate::declarations::Declarations;
use crate::event::{Places, Round};
use crate::inlets::{Cut, Inlet, Interval, end};
use crate::saved::{
    ANSWERS, Counts, InletId, PORTION, RestoreError, SavedRecord, VERSION, WindowId, broken,
    portions,
};
use crate::shape::{BatchShape, DataflowShape, Place, ProcedureShape, ProcedureUid, StreamShape};
use crate::streams::{Arrival, Kept, Stream};
use crate::windows::{Member, Progress, Window};
use somersault_model::{EventTime, StreamUid};
use std::collections::{BTreeMap, BTreeSet};

/// No number of a checkpoint reaches it, so that numbers go on without overflow.
const NUMBERS: u64 = 1 << 62;

impl Core {
    /// The state after the events so far.
    pub fn freeze(&self) -> Vec<SavedRecord> {
        let newest = self.declared.newest();
        let mut out = vec![SavedRecord::Counts(VERSION, self.counts, newest)];
        for (uid, shape) in self.declared.streams() {
            let stream = &self.streams[uid];
            let next = Place(stream.next());
            out.push(SavedRecord::Stream(shape.clone(), next, stream.through()));
            let messages = portions(stream.kept().copied(), PORTION);
            out.extend(messages.map(|messages| SavedRecord::Messages(*uid, messages)));
        }
        for (uid, shape) in self.declared.procedures() {
            out.push(SavedRecord::Procedure(*uid, shape.clone()));
            if let Some(consumer) = self.consumers.get(uid) {
                consumer.save(*uid, &mut out);
            }
        }
        for (name, shape) in self.declared.dataflows() {
            let Flow { state, aborts } = &self.dataflows[name];
            let saved = SavedRecord::Dataflow(shape.clone(), state.state.clone(), state.calls);
            out.push(saved);
            let newest = aborts.newest().cloned().collect();
            out.push(SavedRecord::Aborts(name.clone(), aborts.count(), newest));
        }
        for (source, floor, answers) in self.keys.sources() {
            let answers = answers
                .iter()
                .map(|(number, answer)| (*number, answer.clone()));
            let answers = portions(answers, ANSWERS);
            out.extend(answers.map(|some| SavedRecord::Keys(source.to_owned(), floor, some)));
        }
        out.push(SavedRecord::End(out.len() as u64));
        out
    }

    /// The core that [`Core::freeze`] has saved.
    ///
    /// # Errors
    /// The first error of `records`, or why they make no core.
    pub fn restore<E: From<RestoreError>>(
        records: impl IntoIterator<Item = Result<SavedRecord, E>>,
    ) -> Result<Core, E> {
        let mut restorer = Restorer::default();
        for record in records {
            restorer.take(record?)?;
        }
        Ok(restorer.finish()?)
    }
}

impl Consumer {
    fn save(&self, uid: ProcedureUid, out: &mut Vec<SavedRecord>) {
        for (number, inlet) in (0u32..).zip(&self.inlets) {
            let id = (uid, number);
            out.push(SavedRecord::Inlet(id, inlet.taken()));
            match &inlet.cut {
                Cut::Count { open, batches, .. } => {
                    let batches = portions(batches.values().cloned(), PORTION);
                    out.extend(batches.map(|some| SavedRecord::Batches(id, some)));
                    let open = portions(open.iter().copied().map(Place), PORTION);
                    out.extend(open.map(|some| SavedRecord::Open(id, some)));
                }
                Cut::Span(intervals) => {
                    let intervals = intervals.iter().map(|(number, interval)| {
                        let places: Vec<u64> = interval.places.iter().copied().collect();
                        (*number, interval.complete, Places::of(&places))
                    });
                    let intervals = portions(intervals, PORTION);
                    out.extend(intervals.map(|some| SavedRecord::Intervals(id, some)));
                }
            }
        }
        for (number, window) in (0u32..).zip(&self.windows) {
            let id = (uid, number);
            let active = window.active() as u64;
            out.push(SavedRecord::Window(id, window.progress(), active));
            let members = portions(window.held().copied(), PORTION);
            out.extend(members.map(|some| SavedRecord::Members(id, some)));
            let late = portions(window.late().iter().copied(), PORTION);
            out.extend(late.map(|some| SavedRecord::LateMembers(id, some)));
        }
        let newest = self.aborts.newest().cloned().collect();
        let aborts = SavedRecord::AbortsOfProcedure(uid, self.aborts.count(), newest);
        out.push(aborts);
    }
}

/// A core while its records are read.
#[derive(Debug, Default)]
struct Restorer {
    /// The records so far.
    count: u64,
    is_ended: bool,
    counts: Counts,
    newest: u32,
    streams: Vec<StreamShape>,
    messages: BTreeMap<StreamUid, (u64, EventTime, Vec<Kept>)>,
    procedures: Vec<(ProcedureUid, ProcedureShape)>,
    inlets: BTreeMap<InletId, SavedInlet>,
    windows: BTreeMap<WindowId, SavedWindow>,
    dataflows: Vec<DataflowShape>,
    flows: BTreeMap<String, Flow>,
    aborts: BTreeMap<ProcedureUid, Aborts>,
    keys: crate::keys::Keys,
}

/// What was saved of an inlet.
#[derive(Debug, Default)]
struct SavedInlet {
    taken: u64,
    batches: Vec<Places>,
    open: Vec<Place>,
    intervals: Vec<(i64, Option<u64>, Places)>,
}

/// What was saved of a window.
#[derive(Debug, Default)]
struct SavedWindow {
    progress: Progress,
    active: u64,
    members: Vec<Member>,
    late: Vec<Member>,
}

impl Restorer {
    fn take(&mut self, record: SavedRecord) -> Result<(), RestoreError> {
        let is_first = matches!(record, SavedRecord::Counts(..));
        if self.is_ended || is_first != (self.count == 0) {
            return broken("its records are not in their order");
        }
        match record {
            SavedRecord::Counts(version, counts, newest) => {
                if version > VERSION {
                    return Err(RestoreError::Newer {
                        found: version,
                        known: VERSION,
                    });
                }
                self.counts = counts;
                self.newest = newest;
            }
            SavedRecord::Stream(shape, next, through) => {
                self.messages
                    .insert(shape.uid, (next.0, through, Vec::new()));
                self.streams.push(shape);
            }
            SavedRecord::Messages(stream, messages) => match self.messages.get_mut(&stream) {
                Some((_, _, kept)) => kept.extend(messages),
                None => return broken("messages have no stream"),
            },
            SavedRecord::Procedure(uid, shape) => self.procedures.push((uid, shape)),
            SavedRecord::Inlet(id, taken) => self.inlets.entry(id).or_default().taken = taken,
            SavedRecord::Batches(id, some) => {
                self.inlets.entry(id).or_default().batches.extend(some)
            }
            SavedRecord::Open(id, some) => self.inlets.entry(id).or_default().open.extend(some),
            SavedRecord::Intervals(id, some) => {
                self.inlets.entry(id).or_default().intervals.extend(some);
            }
            SavedRecord::Window(id, progress, active) => {
                let window = self.windows.entry(id).or_default();
                (window.progress, window.active) = (progress, active);
            }
            SavedRecord::Members(id, some) => {
                self.windows.entry(id).or_default().members.extend(some);
            }
            SavedRecord::LateMembers(id, some) => {
                self.windows.entry(id).or_default().late.extend(some);
            }
            SavedRecord::Dataflow(shape, state, calls) => self.take_dataflow(shape, state, calls),
            SavedRecord::Aborts(name, count, newest) => {
                let flow = self.flows.get_mut(&name);
                if !flow.is_some_and(|flow| flow.aborts.restore(count, newest)) {
                    return broken("aborted transactions have no dataflow");
                }
            }
            SavedRecord::AbortsOfProcedure(uid, count, newest) => {
                if !self.aborts.entry(uid).or_default().restore(count, newest) {
                    return broken("it has more aborted transactions than are kept");
                }
            }
            SavedRecord::Keys(source, floor, answers) => {
                if !self.keys.restore(&source, floor, answers) {
                    return broken("it has more answers of a source than are remembered");
                }
            }
            SavedRecord::End(count) if count == self.count => self.is_ended = true,
            SavedRecord::End(count) => {
                return broken(format!("it has {} of {count} records", self.count));
            }
        }
        self.count += 1;
        Ok(())
    }

    fn take_dataflow(&mut self, shape: DataflowShape, state: DataflowState, calls: u64) {
        let mut dataflow = Dataflow::new();
        dataflow.state = state;
        dataflow.calls = calls;
        let flow = Flow {
            state: dataflow,
            aborts: Aborts::default(),
        };
        self.flows.insert(shape.name.clone(), flow);
        self.dataflows.push(shape);
    }

    fn finish(mut self) -> Result<Core, RestoreError> {
        if !self.is_ended {
            return broken("its last record is missing");
        }
        let counts = self.counts;
        if [counts.entries, counts.stamps, counts.calls]
            .iter()
            .any(|count| *count >= NUMBERS)
        {
            return broken("its counts are not possible");
        }
        let streams = self.restore_streams()?;
        let (declared, graph) = Declarations::restore(
            std::mem::take(&mut self.streams),
            std::mem::take(&mut self.procedures),
            std::mem::take(&mut self.dataflows),
            self.newest,
        )?;
        let mut core = Core {
            declared,
            graph,
            streams,
            consumers: BTreeMap::new(),
            dataflows: std::mem::take(&mut self.flows),
            keys: std::mem::take(&mut self.keys),
            counts,
        };
        for (uid, shape) in core.declared.procedures() {
            if shape.is_streaming() {
                let consumer = self.restore_consumer(*uid, shape, &core.streams)?;
                core.consumers.insert(*uid, consumer);
            }
        }
        if !self.inlets.is_empty() || !self.windows.is_empty() || !self.aborts.is_empty() {
            return broken("it has the state of a procedure that is not declared");
        }
        for (uid, stream) in &core.streams {
            let needed = core.holder(*uid).map(|(place, _)| place.0);
            if needed != Some(stream.first()) {
                return broken("a stream keeps other messages than are needed");
            }
        }
        Ok(core)
    }

    fn restore_streams(&mut self) -> Result<BTreeMap<StreamUid, Stream>, RestoreError> {
        let mut streams = BTreeMap::new();
        for shape in &self.streams {
            let (next, through, kept) = self.messages.remove(&shape.uid).unwrap_or_default();
            let first = next
                .checked_sub(kept.len() as u64)
                .filter(|first| *first > 0);
            let Some(first) = first.filter(|_| next < NUMBERS) else {
                return broken("the places of a stream are not possible");
            };
            let mut stream = Stream::restore(shape.source, first, through);
            for message in kept {
                let is_pushed = matches!(message.arrival, Arrival::Pushed { .. });
                if is_pushed != stream.is_pushed() {
                    return broken("a stream has a message of another kind");
                }
                stream.append(message, true);
            }
            streams.insert(shape.uid, stream);
        }
        Ok(streams)
    }

    fn restore_consumer(
        &mut self,
        uid: ProcedureUid,
        shape: &ProcedureShape,
        streams: &BTreeMap<StreamUid, Stream>,
    ) -> Result<Consumer, RestoreError> {
        let mut consumer = Consumer {
            aborts: self.aborts.remove(&uid).unwrap_or_default(),
            ..Consumer::default()
        };
        for (number, consumption) in (0u32..).zip(&shape.consumes) {
            let Some(saved) = self.inlets.remove(&(uid, number)) else {
                return broken(format!("a stream of procedure {} is missing", shape.name));
            };
            let stream = &streams[&consumption.stream];
            consumer
                .inlets
                .push(saved.restore(consumption.batch, stream)?);
        }
        for (number, window) in (0u32..).zip(&shape.windows) {
            let saved = self.windows.remove(&(uid, number)).unwrap_or_default();
            let stream = &streams[&window.stream];
            let mut members = saved.members.iter().chain(&saved.late);
            let is_kept = |member: &Member| {
                stream
                    .find(member.place.0)
                    .is_some_and(|kept| kept.at == member.at)
            };
            let members_hold = members.all(is_kept);
            let active = usize::try_from(saved.active).unwrap_or(usize::MAX);
            let members = (saved.members, saved.late);
            let restored = Window::restore(window.extent, saved.progress, active, members);
            match restored.filter(|_| members_hold) {
                Some(window) => consumer.windows.push(window),
                None => return broken(format!("window {} is not possible", window.name)),
            }
        }
        Ok(consumer)
    }
}

impl SavedInlet {
    fn restore(self, shape: BatchShape, stream: &Stream) -> Result<Inlet, RestoreError> {
        let listed = self
            .batches
            .iter()
            .chain(self.intervals.iter().map(|(_, _, places)| places));
        let mut waiting = BTreeSet::new();
        for places in listed {
            let ascends = match places {
                Places::Run { first, count } => {
                    let after = first.0.saturating_add(*count);
                    *count > 0 && first.0 >= stream.first() && after <= stream.next()
                }
                Places::List(list) => !list.is_empty() && list.is_sorted_by(|a, b| a < b),
            };
            let is_new = |place: Place| stream.find(place.0).is_some() && waiting.insert(place.0);
            if !ascends || !places.iter().all(is_new) {
                return broken("a batch has messages that are not possible");
            }
        }
        let is_new = |place: &Place| stream.find(place.0).is_some() && waiting.insert(place.0);
        let opens = self.open.is_sorted() && self.open.iter().all(is_new);
        if !opens || self.taken >= NUMBERS {
            return broken("the rest of a stream is not possible");
        }
        let cut = match shape {
            BatchShape::Messages(size) => self.restore_counted(size, stream),
            BatchShape::Span(span) => {
                let fits = |(number, complete, places): &(i64, Option<u64>, Places)| {
                    let is_due = end(*number, span) <= stream.through();
                    let mut times = places.iter().map(|place| stream.get(place.0).at.0);
                    times.all(|time| time.div_euclid(span.0) == *number)
                        && is_due == complete.is_some()
                };
                let is_sorted = self.intervals.is_sorted_by(|a, b| a.0 < b.0);
                let is_span = self.batches.is_empty() && self.open.is_empty() && is_sorted;
                let intervals = self.intervals.iter().map(|(number, complete, places)| {
                    let places = places.iter().map(|place| place.0).collect();
                    let complete = *complete;
                    (*number, Interval { places, complete })
                });
                let holds = is_span && self.intervals.iter().all(fits);
                holds.then(|| Cut::Span(intervals.collect()))
            }
        };
        match cut {
            Some(cut) => Ok(Inlet::restore(shape, stream.is_pushed(), self.taken, cut)),
            None => broken("the batches of a stream are not possible"),
        }
    }

    fn restore_counted(&self, size: u64, stream: &Stream) -> Option<Cut> {
        let mut rounds: BTreeSet<(Round, u64)> = BTreeSet::new();
        let mut batches = BTreeMap::new();
        for places in &self.batches {
            let (first, last) = (places.first()?.0, places.last()?.0);
            if places.iter().count() as u64 != size {
                return None;
            }
            if let Arrival::Emitted { round, .. } = stream.get(last).arrival {
                rounds.insert((round, first));
            }
            batches.insert(first, places.clone());
        }
        let holds = self.intervals.is_empty() && (self.open.len() as u64) < size;
        holds.then(|| Cut::Count {
            open: self.open.iter().map(|place| place.0).collect(),
            batches,
            rounds,
        })
    }
}
