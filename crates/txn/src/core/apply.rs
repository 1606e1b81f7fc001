//! Events, applied: the only way by which the state changes, live and in replay.
//!
//! Before changing anything here: an entry says what was consumed and emitted, and slides follow
//! from that. Messages may be applied earlier, in relation to entries, in replay than they were
//! live, because the log orders inputs before the transactions that a lane ran beside them. So
//! nothing here depends on how many messages wait.

use super::Core;
use crate::dataflows::{AbortedRound, DataflowState};
use crate::event::{
    Answer, Consumed, Contradiction, Emitted, Entry, Event, Origin, Outcome, Output, Round,
    contradiction,
};
use crate::inlets::Batch;
use crate::shape::{OnAbort, Place, ProcedureUid};
use crate::streams::{Arrival, Kept};
use crate::windows::{Member, WindowRun};
use somersault_model::{EventTime, StreamUid};
use std::collections::BTreeSet;

impl Core {
    /// Applies what was logged.
    ///
    /// # Errors
    /// The event contradicts the state: TX-1, each batch is consumed once, in order; TX-2, messages
    /// are emitted by what is declared to, in order; TX-3, a nest is one transaction. The core is
    /// not to be used afterwards.
    pub fn apply(&mut self, event: &Event) -> Result<Vec<Output>, Contradiction> {
        let mut out = Vec::new();
        match event {
            Event::Message { stream, place, at } => self.apply_message(*stream, *place, *at)?,
            Event::Complete { stream, through } => {
                self.counts.stamps += 1;
                self.complete(*stream, *through, true)?;
            }
            Event::Advance(advances) => {
                for (stream, through) in advances {
                    self.complete(*stream, *through, false)?;
                }
            }
            Event::Command(command) => self.apply_command(command, &mut out)?,
            Event::Entry(entry) => self.apply_entry(entry, &mut out)?,
        }
        Ok(out)
    }

    fn apply_message(
        &mut self,
        uid: StreamUid,
        place: Place,
        at: EventTime,
    ) -> Result<(), Contradiction> {
        let stream = self.streams.get(&uid).filter(|stream| stream.is_pushed());
        let Some(stream) = stream else {
            return contradiction(format!("stream {} takes no pushed message", uid.0));
        };
        if stream.next() != place.0 {
            let next = stream.next();
            return contradiction(format!("message {} comes where {next} is next", place.0));
        }
        let stamp = self.counts.stamps;
        self.counts.stamps += 1;
        let arrival = Arrival::Pushed { stamp };
        self.append(uid, Kept { at, arrival });
        Ok(())
    }

    /// Appends a message to a stream and offers it to all that consume it.
    fn append(&mut self, uid: StreamUid, message: Kept) {
        let consumers = self.graph.consumers(uid);
        let stream = self
            .streams
            .get_mut(&uid)
            .expect("the caller found the stream");
        stream.append(message, !consumers.is_empty());
        for (procedure, input) in consumers {
            let consumer = self.consumers.get_mut(procedure).expect("it is declared");
            consumer.inlets[*input].offer(stream);
        }
    }

    fn complete(
        &mut self,
        uid: StreamUid,
        through: EventTime,
        is_pushed: bool,
    ) -> Result<(), Contradiction> {
        let found = self.streams.get_mut(&uid);
        let Some(stream) = found.filter(|stream| stream.is_pushed() == is_pushed) else {
            return contradiction(format!("stream {} is not advanced in this way", uid.0));
        };
        if stream.complete(through) {
            for (procedure, input) in self.graph.consumers(uid) {
                let consumer = self.consumers.get_mut(procedure).expect("it is declared");
                consumer.inlets[*input].complete(through, self.counts.stamps);
            }
        }
        Ok(())
    }

    fn apply_entry(&mut self, entry: &Entry, out: &mut Vec<Output>) -> Result<(), Contradiction> {
        self.counts.entries += 1;
        let mut changed = BTreeSet::new();
        let (round, root) = match &entry.origin {
            Origin::Call {
                number, received, ..
            } => {
                if *number != self.counts.calls + 1 {
                    return contradiction(format!("call {number} is not the next one"));
                }
                self.counts.calls += 1;
                self.counts.call_time = self.counts.call_time.max(*received);
                (Round::Call(*number), self.counts.entries)
            }
            Origin::Round { round, consumed } => (*round, self.root_of(consumed)),
        };
        if let Outcome::Committed { emitted, .. } = &entry.outcome {
            self.append_emitted(&entry.origin, emitted, round, root)?;
            changed.extend(emitted.iter().map(|message| message.stream));
        }
        match &entry.origin {
            Origin::Call { key: Some(key), .. } => {
                let answer = match &entry.outcome {
                    Outcome::Committed { answer, .. } => Answer::remembered(answer),
                    Outcome::Aborted { reason, .. } => Answer::Aborted(reason.clone()),
                };
                self.keys.remember(key, answer);
            }
            Origin::Call { key: None, .. } => {}
            Origin::Round { consumed, .. } => {
                let is_committed = matches!(entry.outcome, Outcome::Committed { .. });
                let at = match is_committed {
                    true => EventTime::MIN,
                    false => self.time_of(consumed),
                };
                self.consume(round, consumed, is_committed)?;
                changed.extend(consumed.iter().map(|of| of.stream));
                if let Outcome::Aborted { procedure, reason } = &entry.outcome {
                    self.note_abort(*procedure, (round, at), reason, out)?;
                }
            }
        }
        for stream in changed {
            self.release(stream, out);
        }
        Ok(())
    }

    /// The number of the entry that began the round of these batches.
    fn root_of(&self, consumed: &[Consumed]) -> u64 {
        let roots = consumed.iter().filter_map(|of| {
            let last = of.places.last()?;
            match self.streams.get(&of.stream)?.find(last.0)?.arrival {
                Arrival::Emitted { root, .. } => Some(root),
                Arrival::Pushed { .. } => None,
            }
        });
        let first = consumed
            .first()
            .and_then(|of| self.graph.unit_of(of.procedure));
        let newest = self.counts.entries;
        let begun = if first.is_some_and(|unit| unit.is_fed) {
            newest - 1
        } else {
            newest
        };
        roots.max().unwrap_or(begun)
    }

    /// The event time of batches, while their messages wait: the greatest of them.
    fn time_of(&self, consumed: &[Consumed]) -> EventTime {
        let times = consumed.iter().flat_map(|of| {
            let stream = self.streams.get(&of.stream);
            let kept = of.places.iter().map(move |place| stream?.find(place.0));
            kept.flatten().map(|message| message.at)
        });
        times.max().unwrap_or(EventTime::MIN)
    }

    /// TX-2: each message has the next place of an interior stream that the procedures emit into.
    fn append_emitted(
        &mut self,
        origin: &Origin,
        emitted: &[Emitted],
        round: Round,
        root: u64,
    ) -> Result<(), Contradiction> {
        if emitted.is_empty() {
            return Ok(());
        }
        let procedures: Vec<ProcedureUid> = match origin {
            Origin::Call { procedure, .. } => vec![*procedure],
            Origin::Round { consumed, .. } => {
                let unit = consumed
                    .first()
                    .and_then(|of| self.graph.unit_of(of.procedure));
                unit.map_or_else(Vec::new, |unit| unit.children.clone())
            }
        };
        for message in emitted {
            let mut producers = self.graph.producers(message.stream).iter();
            if !producers.any(|producer| procedures.contains(producer)) {
                let stream = self.declared.stream_name(message.stream);
                return contradiction(format!(
                    "a transaction emits into {stream}, which is not its"
                ));
            }
            let next = self.streams[&message.stream].next();
            if next != message.place.0 {
                let place = message.place.0;
                return contradiction(format!("message {place} is emitted where {next} is next"));
            }
            let arrival = Arrival::Emitted { round, root };
            let at = message.at;
            self.append(message.stream, Kept { at, arrival });
        }
        Ok(())
    }

    /// TX-1: each batch waits, is the next one of its round, and has the round of the transaction.
    fn consume(
        &mut self,
        round: Round,
        consumed: &[Consumed],
        is_committed: bool,
    ) -> Result<(), Contradiction> {
        let Some(first) = consumed.first() else {
            return contradiction(format!("{round} has no procedure"));
        };
        for of in consumed {
            let Some(unit) = self.graph.unit_of(first.procedure) else {
                return contradiction(format!("{round} has no procedure"));
            };
            let is_simple = unit.is_simple;
            let Some((input, _)) = self.inlet(of.procedure, of.stream) else {
                return contradiction("a procedure consumes a stream that it does not name");
            };
            if !unit.children.contains(&of.procedure) {
                return contradiction(format!("{round} has procedures of two nests"));
            }
            let stream = &self.streams[&of.stream];
            let inlet = &self.consumers[&of.procedure].inlets[input];
            let found = inlet.find(&of.places, stream);
            let next = match is_simple {
                true => inlet.first(stream),
                false => inlet.of_round(round, stream).into_iter().next(),
            };
            let Some(ready) = found.filter(|ready| ready.round == round) else {
                return contradiction(format!("{round} takes a batch that does not wait for it"));
            };
            if next.is_none_or(|next| next.batch != ready.batch) {
                return contradiction(format!("{round} takes a batch before its turn"));
            }
            if is_committed {
                self.stage(of, &ready.batch);
            }
            let stream = &self.streams[&of.stream];
            let consumer = self.consumers.get_mut(&of.procedure).expect("it was found");
            consumer.inlets[input].take(&of.places, is_simple, stream)?;
        }
        self.check_whole(round, first.procedure)
    }

    /// TX-3: after a nest's round, no batch of it is left. TX-1: nor has it passed over one.
    fn check_whole(&self, round: Round, procedure: ProcedureUid) -> Result<(), Contradiction> {
        let Some(unit) = self.graph.unit_of(procedure) else {
            return Ok(());
        };
        let is_left = |least: Round| match (least, round) {
            (Round::Batch(least), Round::Batch(now)) if unit.is_nest => least <= now,
            (Round::Batch(least), Round::Batch(now)) => least < now,
            (least, now) => unit.is_nest && least == now,
        };
        let from = match round {
            Round::Batch(_) => Round::Batch(0),
            Round::Call(_) => round,
        };
        for (procedure, _, inlet, stream) in self.inlets(unit).filter(|_| !unit.is_simple) {
            if inlet.least_round(from, stream).is_some_and(is_left) {
                let name = self.declared.name(procedure);
                return contradiction(format!("{round} leaves out a batch of procedure {name}"));
            }
        }
        Ok(())
    }

    /// Slides the windows of a procedure over a batch that it consumed.
    fn stage(&mut self, of: &Consumed, batch: &Batch) {
        let stream = &self.streams[&of.stream];
        let shape = &self.declared.procedures()[&of.procedure];
        let consumer = self
            .consumers
            .get_mut(&of.procedure)
            .expect("it is declared");
        let windows = shape.windows.iter().zip(&mut consumer.windows);
        for (_, window) in windows.filter(|(window, _)| window.stream == of.stream) {
            let members = of.places.iter().map(|place| Member {
                at: stream.get(place.0).at,
                place,
            });
            let mut run = WindowRun::new(window, 0);
            run.stage(members, batch.limit, &mut Vec::new());
            let change = run.finish();
            window.fold(change);
        }
    }

    fn note_abort(
        &mut self,
        procedure: ProcedureUid,
        (round, at): (Round, EventTime),
        reason: &str,
        out: &mut Vec<Output>,
    ) -> Result<(), Contradiction> {
        let Some(unit) = self.graph.unit_of(procedure) else {
            return contradiction(format!("{round} was aborted by no procedure"));
        };
        let aborted = AbortedRound {
            procedure: self.declared.name(procedure),
            round,
            reason: reason.to_owned(),
            at,
        };
        let Some(name) = &unit.dataflow else {
            let consumer = self.consumers.get_mut(&procedure).expect("it is declared");
            consumer.aborts.add(procedure, aborted);
            return Ok(());
        };
        let flow = self
            .dataflows
            .get_mut(name)
            .expect("its procedures name it");
        if self.declared.dataflows()[name].on_abort == OnAbort::Stop {
            let calls = self.counts.calls;
            flow.state
                .hold(DataflowState::Stopped(aborted.clone()), calls);
            let dataflow = name.clone();
            out.push(Output::Stopped { dataflow });
        }
        flow.aborts.add(procedure, aborted);
        Ok(())
    }

    /// Lets go of the messages of a stream that no consumer and no window needs.
    pub(super) fn release(&mut self, uid: StreamUid, out: &mut Vec<Output>) {
        let Some((below, _)) = self.holder(uid) else {
            return;
        };
        let stream = self.streams.get_mut(&uid).expect("it has a holder");
        if stream.release(below.0) {
            out.push(Output::Release { stream: uid, below });
        }
    }
}
