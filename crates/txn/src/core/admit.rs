//! Commands: whether one may be logged, and what it changes once it is.

use super::{Consumer, Core, Flow};
use crate::dataflows::{Aborts, Dataflow, DataflowState};
use crate::declarations::graph::Graph;
use crate::event::{Beginning, Command, Contradiction, Output};
use crate::inlets::Inlet;
use crate::refusal::Refusal;
use crate::shape::{ProcedureShape, ProcedureUid};
use crate::streams::Stream;
use crate::windows::Window;
use std::collections::BTreeMap;

impl Core {
    /// Whether a command may be logged.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, command: &Command) -> Result<(), Refusal> {
        self.declared.after(command)?;
        match command {
            Command::CreateProcedure { shape, .. } => {
                let Some(uid) = self.declared.uid(&shape.name) else {
                    return Ok(());
                };
                let goes_on = |before: &&crate::shape::Consumption| {
                    let mut after = shape.consumes.iter();
                    !after.any(|consumption| consumption.stream == before.stream)
                };
                let before = self.declared.procedures()[&uid].consumes.iter();
                let gone = before.filter(goes_on).map(|consumption| consumption.stream);
                self.check_nothing_waits(uid, gone)
            }
            Command::DropProcedure {
                name,
                discard: false,
            } => {
                let Some(uid) = self.declared.uid(name) else {
                    return Ok(());
                };
                let streams = self.declared.procedures()[&uid].consumes.iter();
                self.check_nothing_waits(uid, streams.map(|consumption| consumption.stream))
            }
            _ => Ok(()),
        }
    }

    fn check_nothing_waits(
        &self,
        procedure: ProcedureUid,
        mut streams: impl Iterator<Item = somersault_model::StreamUid>,
    ) -> Result<(), Refusal> {
        let full = streams.find(|stream| self.waiting(procedure, *stream) > 0);
        full.map_or(Ok(()), |stream| {
            Err(Refusal::MessagesWait {
                procedure: self.declared.name(procedure),
                stream: self.declared.stream_name(stream),
                messages: self.waiting(procedure, stream),
            })
        })
    }

    pub(super) fn apply_command(
        &mut self,
        command: &Command,
        out: &mut Vec<Output>,
    ) -> Result<(), Contradiction> {
        let refused = |refusal: Refusal| Contradiction(refusal.to_string());
        self.admit(command).map_err(refused)?;
        let (declared, graph) = self.declared.after(command).map_err(refused)?;
        match command {
            Command::CreateStream(shape) => {
                self.streams.insert(shape.uid, Stream::new(shape.source));
            }
            Command::DropStream(stream) => _ = self.streams.remove(stream),
            Command::CreateProcedure { shape, begins, .. } => {
                self.begin(begins);
                let uid = declared.uid(&shape.name).expect("it is declared now");
                let before = self.consumers.remove(&uid).unwrap_or_default();
                let shape_before = self.declared.procedures().get(&uid);
                if shape.is_streaming() {
                    let rounds = self.rounds_upstream(uid, &graph);
                    let consumer = self.replaced(shape, shape_before, before, rounds);
                    self.consumers.insert(uid, consumer);
                }
            }
            Command::DropProcedure { name, .. } => {
                let uid = self.declared.uid(name);
                uid.and_then(|uid| self.consumers.remove(&uid));
            }
            Command::CreateDataflow { shape, .. } => {
                let flow = || Flow {
                    state: Dataflow::new(),
                    aborts: Aborts::default(),
                };
                self.dataflows
                    .entry(shape.name.clone())
                    .or_insert_with(flow);
            }
            Command::DropDataflow { name } => _ = self.dataflows.remove(name),
            Command::PauseDataflow { name } => {
                let calls = self.counts.calls;
                if let Some(flow) = self.dataflows.get_mut(name)
                    && flow.state.state == DataflowState::Running
                {
                    flow.state.hold(DataflowState::Paused, calls);
                }
            }
            Command::ResumeDataflow { name } => {
                if let Some(flow) = self.dataflows.get_mut(name) {
                    flow.state = Dataflow::new();
                }
            }
        }
        self.declared = declared;
        self.graph = graph;
        self.align_rounds();
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            self.release(stream, out);
        }
        Ok(())
    }

    /// The newest round that what feeds a procedure has begun.
    fn rounds_upstream(&self, procedure: ProcedureUid, graph: &Graph) -> u64 {
        let unit = graph.unit_of(procedure);
        let upstream = unit.into_iter().flat_map(|unit| &unit.upstream);
        let before = upstream.flat_map(|at| &graph.units()[*at].children);
        let consumers = before.filter_map(|child| self.consumers.get(child));
        let inlets = consumers.flat_map(|consumer| &consumer.inlets);
        let pushed = inlets.filter(|inlet| inlet.is_pushed());
        pushed.map(Inlet::taken).max().unwrap_or(0)
    }

    /// The next round of a unit takes the next batch of each pushed stream, however many batches
    /// its procedures have consumed before they belonged together.
    fn align_rounds(&mut self) {
        for unit in self.graph.units() {
            let pushed = self.inlets(unit).filter(|(.., inlet, _)| inlet.is_pushed());
            let rounds = pushed
                .map(|(.., inlet, _)| inlet.taken())
                .max()
                .unwrap_or(0);
            for child in &unit.children {
                let consumer = self.consumers.get_mut(child).expect("it is declared");
                let pushed = consumer.inlets.iter_mut().filter(|inlet| inlet.is_pushed());
                pushed.for_each(|inlet| inlet.pass_rounds(rounds));
            }
        }
    }

    /// Streams whose first consumer comes now.
    fn begin(&mut self, begins: &[Beginning]) {
        for beginning in begins {
            let has_consumer = !self.graph.consumers(beginning.stream).is_empty();
            if let Some(stream) = self.streams.get_mut(&beginning.stream)
                && !has_consumer
                && stream.is_pushed()
            {
                stream.begin(beginning.next.0, beginning.through);
            }
        }
    }

    /// The state of a procedure with a new declaration. A stream that it consumed before goes on
    /// where it was, and a window with the same clause keeps what it holds.
    fn replaced(
        &self,
        shape: &ProcedureShape,
        shape_before: Option<&ProcedureShape>,
        before: Consumer,
        rounds_upstream: u64,
    ) -> Consumer {
        let consumed = shape_before.map_or(&[][..], |shape| &shape.consumes);
        let owned = shape_before.map_or(&[][..], |shape| &shape.windows);
        let streams = consumed.iter().map(|consumption| consumption.stream);
        let mut inlets: BTreeMap<_, Inlet> = streams.zip(before.inlets).collect();
        let pushed = inlets.values().filter(|inlet| inlet.is_pushed());
        // A stream that is added joins in the round that comes next.
        let rounds = pushed.map(Inlet::taken).max().unwrap_or(rounds_upstream);
        let inlets = shape.consumes.iter().map(|consumption| {
            let stream = &self.streams[&consumption.stream];
            match inlets.remove(&consumption.stream) {
                Some(inlet) if inlet.shape() == consumption.batch => inlet,
                Some(inlet) => inlet.recut(consumption.batch, stream, self.counts.stamps),
                None => Inlet::new(consumption.batch, stream, rounds),
            }
        });
        let inlets = inlets.collect();
        let windows = shape.windows.iter().map(|window| {
            let same = owned.iter().position(|other| other == window);
            let kept = same.and_then(|at| before.windows.get(at).cloned());
            kept.unwrap_or_else(|| Window::new(window.extent))
        });
        Consumer {
            inlets,
            windows: windows.collect(),
            aborts: before.aborts,
        }
    }
}
