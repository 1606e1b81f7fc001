//! The graph of procedures: units in topological order, what feeds them, and who consumes a stream.
//!
//! 1. A unit is a streaming procedure in no nest, or a nest.
//! 2. Units are nodes; a stream that one unit emits and another consumes is an edge.
//! 3. Among units that may be next, the order of the dataflow's text decides, then of declaration.
//!
//! Before changing anything here: the order of units is part of the schedule that WEAK recovery
//! follows again. It depends on what is declared alone.

use super::order::in_order;
use super::{Declarations, not_found};
use crate::refusal::Refusal;
use crate::shape::{DataflowShape, Part, ProcedureUid, StreamSource};
use somersault_model::StreamUid;
use std::collections::{BTreeMap, BTreeSet};

/// Procedures that run as one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    /// In the order in which they run.
    pub(crate) children: Vec<ProcedureUid>,
    pub(crate) is_nest: bool,
    /// The units that something comes from, directly or through others.
    pub(crate) upstream: Vec<usize>,
    pub(crate) dataflow: Option<String>,
    /// It consumes interior streams of other units.
    pub(crate) is_fed: bool,
    /// Its dataflow takes messages from outside here.
    pub(crate) is_entry: bool,
    /// One procedure with one stream: batches run in the order of the stream.
    pub(crate) is_simple: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Graph {
    /// In topological order.
    units: Vec<Unit>,
    unit_of: BTreeMap<ProcedureUid, usize>,
    /// The procedures that consume a stream, with the number of the stream among theirs.
    consumers: BTreeMap<StreamUid, Vec<(ProcedureUid, usize)>>,
    producers: BTreeMap<StreamUid, Vec<ProcedureUid>>,
    /// Whether a unit consumes both what other units emit and what clients push.
    has_mixed_units: bool,
}

impl Graph {
    pub(crate) fn units(&self) -> &[Unit] {
        &self.units
    }

    pub(crate) fn has_mixed_units(&self) -> bool {
        self.has_mixed_units
    }

    pub(crate) fn unit_of(&self, procedure: ProcedureUid) -> Option<&Unit> {
        Some(&self.units[*self.unit_of.get(&procedure)?])
    }

    pub(crate) fn consumers(&self, stream: StreamUid) -> &[(ProcedureUid, usize)] {
        self.consumers.get(&stream).map_or(&[], Vec::as_slice)
    }

    /// The procedures that emit into a stream.
    pub(crate) fn producers(&self, stream: StreamUid) -> &[ProcedureUid] {
        self.producers.get(&stream).map_or(&[], Vec::as_slice)
    }

    /// The graph of all that is declared.
    pub(crate) fn of(declared: &Declarations) -> Result<Graph, Refusal> {
        let mut graph = Graph::default();
        for (uid, shape) in declared.procedures() {
            for (input, consumption) in shape.consumes.iter().enumerate() {
                let consumers = graph.consumers.entry(consumption.stream).or_default();
                consumers.push((*uid, input));
            }
            let emits: BTreeSet<StreamUid> = shape.emits.iter().copied().collect();
            for stream in emits {
                graph.producers.entry(stream).or_default().push(*uid);
            }
        }
        let mut groups = Groups::default();
        for dataflow in declared.dataflows().values() {
            groups.add(dataflow, declared)?;
        }
        graph.check_filled(declared, &groups)?;
        let groups = groups.finish(declared);
        graph.place_units(declared, groups)?;
        graph.check_nests(declared)?;
        graph.describe_units(declared);
        Ok(graph)
    }

    /// Who feeds whom, as pairs with the stream.
    fn arrows(&self) -> impl Iterator<Item = (ProcedureUid, StreamUid, ProcedureUid)> + '_ {
        self.producers.iter().flat_map(|(stream, producers)| {
            let consumers = self.consumers(*stream);
            producers
                .iter()
                .flat_map(move |from| consumers.iter().map(move |(to, _)| (*from, *stream, *to)))
        })
    }

    /// Orders children inside of groups, and groups.
    fn place_units(&mut self, declared: &Declarations, groups: Vec<Group>) -> Result<(), Refusal> {
        let mut ordered = Vec::new();
        for group in &groups {
            ordered.push(self.children_in_order(declared, group)?);
        }
        let mut group_of = BTreeMap::new();
        for (number, children) in ordered.iter().enumerate() {
            group_of.extend(children.iter().map(|child| (*child, number)));
        }
        let edges = self.arrows().filter_map(|(from, _, to)| {
            let (from, to) = (*group_of.get(&from)?, *group_of.get(&to)?);
            (from != to).then_some((from, to))
        });
        let order = in_order(groups.len(), &edges.collect()).map_err(|way| Refusal::Cycle {
            way: way
                .into_iter()
                .map(|at| named(&ordered[at], declared))
                .collect(),
        })?;
        for at in order {
            let number = self.units.len();
            self.unit_of
                .extend(ordered[at].iter().map(|child| (*child, number)));
            self.units.push(Unit {
                children: ordered[at].clone(),
                is_nest: groups[at].is_nest,
                upstream: Vec::new(),
                dataflow: groups[at].dataflow.clone(),
                is_fed: false,
                is_entry: false,
                is_simple: false,
            });
        }
        Ok(())
    }

    fn children_in_order(
        &self,
        declared: &Declarations,
        group: &Group,
    ) -> Result<Vec<ProcedureUid>, Refusal> {
        let number = |uid: &ProcedureUid| group.children.iter().position(|child| child == uid);
        let streams = self
            .arrows()
            .filter_map(|(from, _, to)| Some((number(&from)?, number(&to)?)));
        let streams: BTreeSet<(usize, usize)> = streams.collect();
        let names = |way: Vec<usize>| -> Vec<String> {
            way.into_iter()
                .map(|at| declared.name(group.children[at]))
                .collect()
        };
        in_order(group.children.len(), &streams)
            .map_err(|way| Refusal::Cycle { way: names(way) })?;
        let pairs = group.order.iter();
        let pairs = pairs.filter_map(|(from, to)| Some((number(from)?, number(to)?)));
        let edges = streams.iter().copied().chain(pairs).collect();
        let order = in_order(group.children.len(), &edges)
            .map_err(|way| Refusal::OrderAgainstStreams { way: names(way) })?;
        Ok(order.into_iter().map(|at| group.children[at]).collect())
    }

    /// No nest consumes from inside another one.
    fn check_nests(&self, declared: &Declarations) -> Result<(), Refusal> {
        for (from, stream, to) in self.arrows() {
            let (Some(producer), Some(consumer)) = (self.unit_of(from), self.unit_of(to)) else {
                continue;
            };
            if producer.is_nest && consumer.is_nest && producer != consumer {
                return Err(Refusal::FromInsideNest {
                    consumer: declared.name(to),
                    stream: declared.stream_name(stream),
                    producer: declared.name(from),
                });
            }
        }
        Ok(())
    }

    /// Each interior stream that a procedure of a dataflow consumes may be filled.
    fn check_filled(&self, declared: &Declarations, groups: &Groups) -> Result<(), Refusal> {
        for uid in groups.dataflow_of.keys() {
            for consumption in &declared.procedures()[uid].consumes {
                let stream = &declared.streams()[&consumption.stream];
                let is_filled = !self.producers(stream.uid).is_empty();
                if stream.source == StreamSource::Interior && !is_filled {
                    return Err(Refusal::NotFilled {
                        procedure: declared.name(*uid),
                        stream: stream.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn describe_units(&mut self, declared: &Declarations) {
        let mut fed_by: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.units.len()];
        for (from, _, to) in self.arrows() {
            if let (Some(from), Some(to)) = (self.unit_of.get(&from), self.unit_of.get(&to))
                && from != to
            {
                fed_by[*to].insert(*from);
            }
        }
        // Feeders come first, so theirs are complete.
        for at in 0..fed_by.len() {
            let further: Vec<usize> = fed_by[at]
                .iter()
                .flat_map(|by| fed_by[*by].clone())
                .collect();
            fed_by[at].extend(further);
        }
        for (at, by) in fed_by.into_iter().enumerate() {
            let unit = &self.units[at];
            let streams = unit.children.iter();
            let streams = streams.flat_map(|child| &declared.procedures()[child].consumes);
            let (mut is_fed, mut is_entry, mut has_pushed, mut count) = (false, false, false, 0);
            for consumption in streams {
                let stream = consumption.stream;
                let is_pushed = declared.streams()[&stream].source == StreamSource::Pushed;
                let producers = self.producers(stream).iter();
                let mut units = producers.filter_map(|producer| self.unit_of.get(producer));
                let is_inner = !is_pushed && units.clone().any(|from| *from == at);
                has_pushed |= is_pushed;
                is_fed |= !is_pushed && !is_inner;
                let is_foreign = |from: &usize| self.units[*from].dataflow != unit.dataflow;
                is_entry |= is_pushed || units.any(is_foreign);
                count += 1;
            }
            let is_simple = !unit.is_nest && count == 1;
            self.has_mixed_units |= is_fed && has_pushed;
            let unit = &mut self.units[at];
            unit.upstream = by.into_iter().collect();
            unit.is_fed = is_fed;
            unit.is_entry = is_entry;
            unit.is_simple = is_simple;
        }
    }
}

/// A unit before it has a place.
#[derive(Debug)]
struct Group {
    children: Vec<ProcedureUid>,
    order: Vec<(ProcedureUid, ProcedureUid)>,
    is_nest: bool,
    dataflow: Option<String>,
}

/// The parts of all dataflows.
#[derive(Debug, Default)]
struct Groups {
    /// With the first declared procedure of its dataflow, and its place in the text.
    parts: Vec<((ProcedureUid, usize), Group)>,
    dataflow_of: BTreeMap<ProcedureUid, String>,
}

impl Groups {
    fn add(&mut self, dataflow: &DataflowShape, declared: &Declarations) -> Result<(), Refusal> {
        let find = |name: &str| {
            declared
                .uid(name)
                .ok_or_else(|| not_found("procedure", name))
        };
        let mut first = None;
        for name in dataflow.names() {
            let uid = find(name)?;
            first = first.min(Some(uid)).or(Some(uid));
            match self.dataflow_of.insert(uid, dataflow.name.clone()) {
                None => {}
                Some(same) if same == dataflow.name => {
                    return Err(Refusal::NamedTwice {
                        procedure: name.to_owned(),
                        dataflow: same,
                    });
                }
                Some(other) => {
                    return Err(Refusal::InDataflow {
                        procedure: name.to_owned(),
                        dataflow: other,
                    });
                }
            }
        }
        let Some(first) = first else {
            let dataflow = dataflow.name.clone();
            return Err(Refusal::NoPart { dataflow });
        };
        for (number, part) in dataflow.parts.iter().enumerate() {
            let (names, order, is_nest) = match part {
                Part::One(name) => (std::slice::from_ref(name), [].as_slice(), false),
                Part::Nest { names, order } => (names.as_slice(), order.as_slice(), true),
            };
            let mut group = Group {
                children: names
                    .iter()
                    .map(|name| find(name))
                    .collect::<Result<_, _>>()?,
                order: Vec::new(),
                is_nest,
                dataflow: Some(dataflow.name.clone()),
            };
            for pair in order {
                let stranger = [&pair.0, &pair.1]
                    .into_iter()
                    .find(|name| !names.contains(name));
                if let Some(name) = stranger {
                    let name = name.clone();
                    return Err(Refusal::OrderOfStranger { name });
                }
                group.order.push((find(&pair.0)?, find(&pair.1)?));
            }
            let is_called = |uid: &ProcedureUid| !declared.procedures()[uid].is_streaming();
            match group.children.iter().copied().find(is_called) {
                Some(called) if is_nest => {
                    let procedure = declared.name(called);
                    return Err(Refusal::CallInNest { procedure });
                }
                // It is called, and no unit of rounds.
                Some(_) => {}
                None => self.parts.push(((first, number), group)),
            }
        }
        Ok(())
    }

    /// All groups in the order of ties, procedures in no dataflow as groups of their own.
    fn finish(self, declared: &Declarations) -> Vec<Group> {
        let mut parts = self.parts;
        for (uid, shape) in declared.procedures() {
            if shape.is_streaming() && !self.dataflow_of.contains_key(uid) {
                let group = Group {
                    children: vec![*uid],
                    order: Vec::new(),
                    is_nest: false,
                    dataflow: None,
                };
                parts.push(((*uid, 0), group));
            }
        }
        parts.sort_by_key(|(key, _)| *key);
        parts.into_iter().map(|(_, group)| group).collect()
    }
}

fn named(children: &[ProcedureUid], declared: &Declarations) -> String {
    let names: Vec<String> = children.iter().map(|child| declared.name(*child)).collect();
    match names.as_slice() {
        [name] => name.clone(),
        names => format!("NEST {{ {} }}", names.join(", ")),
    }
}
