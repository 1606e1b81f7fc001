//! What the core says of itself: states, aborted transactions, what waits.

use super::Core;
use crate::dataflows::{AbortedRound, Aborts, DataflowState};
use crate::shape::{DataflowShape, Place, ProcedureShape, ProcedureUid, Recovery, StreamShape};
use somersault_model::{EventTime, StreamUid};

/// How far a procedure is with a stream that it consumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InletStatus {
    /// The IRI of the stream.
    pub stream: String,
    /// The number of batches that it has been through, aborted ones included; of a pushed stream
    /// the number of the newest round.
    pub batches: u64,
    /// The number of complete batches that wait.
    pub waiting_batches: u64,
    /// The number of messages that wait, in complete batches or not.
    pub waiting_messages: u64,
}

/// Aborted transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AbortList {
    /// The newest, oldest first.
    pub newest: Vec<AbortedRound>,
    /// The number of those before them that are not kept any more.
    pub dropped: u64,
}

/// The state of a dataflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataflowStatus {
    /// Whether its rounds begin.
    pub state: DataflowState,
    /// The number of its transactions that aborted.
    pub aborts: u64,
    /// The newest of them, oldest first.
    pub aborted: Vec<AbortedRound>,
}

impl Core {
    /// Whether nothing was ever declared.
    pub fn is_unused(&self) -> bool {
        self.declared.newest() == 0 && self.declared.dataflows().is_empty()
    }

    /// The streams that it was told of, by uid.
    pub fn streams(&self) -> impl Iterator<Item = &StreamShape> {
        self.declared.streams().values()
    }

    /// The procedures by name, in the order of their declaration.
    pub fn procedures(&self) -> impl Iterator<Item = (ProcedureUid, &ProcedureShape)> {
        self.declared
            .procedures()
            .iter()
            .map(|(uid, shape)| (*uid, shape))
    }

    /// The dataflows, in the order of their names.
    pub fn dataflows(&self) -> impl Iterator<Item = &DataflowShape> {
        self.declared.dataflows().values()
    }

    /// Procedures that run as one transaction, in the order of a round: a procedure, or the
    /// children of a nest, with the name of the dataflow. Called ones are not among them.
    pub fn units(&self) -> impl Iterator<Item = (&[ProcedureUid], Option<&str>)> {
        let units = self.graph.units().iter();
        units.map(|unit| (unit.children.as_slice(), unit.dataflow.as_deref()))
    }

    /// The name of a procedure; empty if there is none.
    pub fn name(&self, procedure: ProcedureUid) -> String {
        self.declared.name(procedure)
    }

    /// The state of a dataflow.
    pub fn dataflow(&self, name: &str) -> Option<DataflowStatus> {
        let flow = self.dataflows.get(name)?;
        Some(DataflowStatus {
            state: flow.state.state.clone(),
            aborts: flow.aborts.count(),
            aborted: listed(&flow.aborts).newest,
        })
    }

    /// Whether the rounds of a dataflow begin.
    pub fn dataflow_state(&self, name: &str) -> Option<&DataflowState> {
        self.dataflows.get(name).map(|flow| &flow.state.state)
    }

    /// The number of a dataflow's transactions that aborted, and the newest of them.
    pub fn aborts_of_dataflow(&self, name: &str) -> Option<(u64, Option<&AbortedRound>)> {
        let aborts = &self.dataflows.get(name)?.aborts;
        let newest = aborts.newest().next_back();
        Some((aborts.count(), newest.map(|(_, aborted)| aborted)))
    }

    /// The newest transactions of a dataflow that aborted.
    pub fn aborted_in(&self, dataflow: &str) -> Option<AbortList> {
        let flow = self.dataflows.get(dataflow)?;
        Some(listed(&flow.aborts))
    }

    /// The newest transactions that a procedure aborted: of those that are kept for its dataflow,
    /// if it is in one.
    pub fn aborted(&self, procedure: ProcedureUid) -> AbortList {
        let Some(aborts) = self.aborts_with(procedure) else {
            return AbortList::default();
        };
        let mut list = listed(aborts);
        list.newest = self.aborts_of(procedure).cloned().collect();
        list
    }

    /// The newest transaction that a procedure aborted, of those that are kept.
    pub fn last_abort(&self, procedure: ProcedureUid) -> Option<&AbortedRound> {
        self.aborts_of(procedure).next_back()
    }

    fn aborts_of(&self, procedure: ProcedureUid) -> impl DoubleEndedIterator<Item = &AbortedRound> {
        let aborts = self.aborts_with(procedure).into_iter();
        let all = aborts.flat_map(Aborts::newest);
        let of_it = all.filter(move |(of, _)| *of == procedure);
        of_it.map(|(_, aborted)| aborted)
    }

    /// The list that a procedure's aborts are in.
    fn aborts_with(&self, procedure: ProcedureUid) -> Option<&Aborts> {
        let unit = self.graph.unit_of(procedure)?;
        match &unit.dataflow {
            Some(name) => self.dataflows.get(name).map(|flow| &flow.aborts),
            None => self.consumers.get(&procedure).map(|it| &it.aborts),
        }
    }

    /// How far a procedure is with each stream that it consumes, in the order of its declaration.
    pub fn inlets_of(&self, procedure: ProcedureUid) -> Vec<InletStatus> {
        let (Some(shape), Some(consumer)) = (
            self.declared.procedures().get(&procedure),
            self.consumers.get(&procedure),
        ) else {
            return Vec::new();
        };
        let inlets = shape.consumes.iter().zip(&consumer.inlets);
        let status = inlets.map(|(consumption, inlet)| InletStatus {
            stream: self.declared.stream_name(consumption.stream),
            batches: inlet.taken(),
            waiting_batches: inlet.complete_batches(),
            waiting_messages: inlet.waiting().count() as u64,
        });
        status.collect()
    }

    /// The number of the newest round that some procedure of a dataflow has begun.
    pub fn rounds_of(&self, dataflow: &str) -> u64 {
        let shape = self.declared.dataflows().get(dataflow);
        let names = shape.into_iter().flat_map(DataflowShape::names);
        let uids = names.filter_map(|name| self.declared.uid(name));
        let consumers = uids.filter_map(|uid| self.consumers.get(&uid));
        let inlets = consumers.flat_map(|consumer| &consumer.inlets);
        let pushed = inlets.filter(|inlet| inlet.is_pushed());
        pushed.map(|inlet| inlet.taken()).max().unwrap_or(0)
    }

    /// The number of complete batches that wait for a procedure.
    pub fn waiting_batches(&self) -> u64 {
        let inlets = self.consumers.values().flat_map(|it| &it.inlets);
        inlets.map(|inlet| inlet.complete_batches()).sum()
    }

    /// How the effects of a procedure's transactions are logged, also of a called one.
    pub fn recovery(&self, procedure: ProcedureUid) -> Recovery {
        let dataflows = self.declared.dataflows();
        let dataflow = match self.graph.unit_of(procedure) {
            Some(unit) => unit.dataflow.as_ref().map(|name| &dataflows[name]),
            None => {
                let shape = self.declared.procedures().get(&procedure);
                shape.and_then(|shape| {
                    let mut flows = dataflows.values();
                    flows.find(|flow| flow.names().any(|name| name == shape.name))
                })
            }
        };
        dataflow.map_or(Recovery::Strong, |dataflow| dataflow.recovery)
    }

    /// The place of a stream's next message.
    pub fn next_place(&self, stream: StreamUid) -> Option<Place> {
        self.streams.get(&stream).map(|stream| Place(stream.next()))
    }

    /// The time that a stream is complete through.
    pub fn through(&self, stream: StreamUid) -> Option<EventTime> {
        self.streams.get(&stream).map(|stream| stream.through())
    }

    /// The first place of a stream that is needed, and the procedure that needs it. Without one,
    /// the place of the next message.
    pub fn holder(&self, stream: StreamUid) -> Option<(Place, Option<ProcedureUid>)> {
        let next = self.streams.get(&stream)?.next();
        let needs = self
            .graph
            .consumers(stream)
            .iter()
            .filter_map(|(procedure, input)| {
                Some((self.least_needed(*procedure, *input)?, Some(*procedure)))
            });
        needs
            .chain([(Place(next), None)])
            .min_by_key(|(place, _)| *place)
    }

    /// The number of messages of a stream that wait for a procedure.
    pub fn waiting(&self, procedure: ProcedureUid, stream: StreamUid) -> u64 {
        let inlet = self.inlet(procedure, stream);
        inlet.map_or(0, |(_, inlet)| inlet.waiting().count() as u64)
    }

    /// The messages that a window of a procedure shows between two transactions. An executor begins
    /// with them after a restart. `window` is its number among those of the procedure, from 0.
    pub fn window(&self, procedure: ProcedureUid, window: usize) -> impl Iterator<Item = Place> {
        let consumer = self.consumers.get(&procedure);
        let window = consumer.and_then(|consumer| consumer.windows.get(window));
        let shown = window.map(|window| window.held().take(window.active()));
        shown.into_iter().flatten().map(|member| member.place)
    }

    /// The first place that an inlet or the windows on its stream need.
    fn least_needed(&self, procedure: ProcedureUid, input: usize) -> Option<Place> {
        let shape = &self.declared.procedures()[&procedure];
        let stream = shape.consumes[input].stream;
        let consumer = &self.consumers[&procedure];
        let windows = shape.windows.iter().zip(&consumer.windows);
        let windows = windows.filter(|(window, _)| window.stream == stream);
        let needs = windows.filter_map(|(_, window)| window.least());
        let waits = consumer.inlets[input].least().map(Place);
        needs.chain(waits).min()
    }
}

fn listed(aborts: &Aborts) -> AbortList {
    let newest = aborts.newest().map(|(_, aborted)| aborted.clone());
    let newest: Vec<AbortedRound> = newest.collect();
    AbortList {
        dropped: aborts.count() - newest.len() as u64,
        newest,
    }
}
