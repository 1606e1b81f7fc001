//! What is declared: streams, procedures, dataflows; and whether a command may change it.
//!
//! Before changing anything here: a command is checked against all that would be declared after it,
//! so that the order of declarations decides nothing but ties.

pub(crate) mod graph;
mod order;
mod procedure;

use crate::event::Command;
use crate::refusal::Refusal;
use crate::shape::{DataflowShape, ProcedureShape, ProcedureUid, StreamShape};
use graph::Graph;
use somersault_model::StreamUid;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    streams: BTreeMap<StreamUid, StreamShape>,
    procedures: BTreeMap<ProcedureUid, ProcedureShape>,
    dataflows: BTreeMap<String, DataflowShape>,
    /// The uid of the newest procedure.
    newest: u32,
}

impl Declarations {
    pub(crate) fn streams(&self) -> &BTreeMap<StreamUid, StreamShape> {
        &self.streams
    }

    pub(crate) fn procedures(&self) -> &BTreeMap<ProcedureUid, ProcedureShape> {
        &self.procedures
    }

    pub(crate) fn dataflows(&self) -> &BTreeMap<String, DataflowShape> {
        &self.dataflows
    }

    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// The uid of a procedure.
    pub(crate) fn uid(&self, name: &str) -> Option<ProcedureUid> {
        let mut all = self.procedures.iter();
        all.find(|(_, shape)| shape.name == name)
            .map(|(uid, _)| *uid)
    }

    pub(crate) fn name(&self, procedure: ProcedureUid) -> String {
        let shape = self.procedures.get(&procedure);
        shape.map_or_else(String::new, |shape| shape.name.clone())
    }

    pub(crate) fn stream_name(&self, stream: StreamUid) -> String {
        let shape = self.streams.get(&stream);
        shape.map_or_else(|| stream.0.to_string(), |shape| shape.name.clone())
    }

    /// What would be declared after a command, and its graph.
    pub(crate) fn after(&self, command: &Command) -> Result<(Declarations, Graph), Refusal> {
        let mut after = self.clone();
        after.change(command)?;
        let graph = Graph::of(&after)?;
        Ok((after, graph))
    }

    fn change(&mut self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::CreateStream(shape) => {
                if self.streams.insert(shape.uid, shape.clone()).is_some() {
                    let name = shape.name.clone();
                    return Err(Refusal::StreamExists { name });
                }
            }
            Command::DropStream(stream) => self.drop_stream(*stream)?,
            Command::CreateProcedure {
                shape, or_replace, ..
            } => {
                let uid = match self.uid(&shape.name) {
                    Some(_) if !or_replace => return Err(taken("procedure", &shape.name)),
                    Some(uid) => uid,
                    None => ProcedureUid(self.newest + 1),
                };
                procedure::check(self, uid, shape)?;
                self.newest = self.newest.max(uid.0);
                self.procedures.insert(uid, shape.clone());
            }
            Command::DropProcedure { name, .. } => {
                let uid = self.uid(name).ok_or_else(|| not_found("procedure", name))?;
                let mut dataflows = self.dataflows.values();
                if let Some(dataflow) = dataflows.find(|flow| flow.names().any(|one| one == name)) {
                    return Err(Refusal::InDataflow {
                        procedure: name.clone(),
                        dataflow: dataflow.name.clone(),
                    });
                }
                self.procedures.remove(&uid);
            }
            Command::CreateDataflow { shape, or_replace } => {
                let before = self.dataflows.insert(shape.name.clone(), shape.clone());
                if before.is_some() && !or_replace {
                    return Err(taken("dataflow", &shape.name));
                }
            }
            Command::DropDataflow { name } => {
                let gone = self.dataflows.remove(name);
                gone.ok_or_else(|| not_found("dataflow", name))?;
            }
            Command::PauseDataflow { name } | Command::ResumeDataflow { name } => {
                let found = self.dataflows.get(name);
                found.ok_or_else(|| not_found("dataflow", name))?;
            }
        }
        Ok(())
    }

    fn drop_stream(&mut self, stream: StreamUid) -> Result<(), Refusal> {
        let uses = |shape: &&ProcedureShape| {
            shape.emits.contains(&stream)
                || (shape.consumes.iter()).any(|consumption| consumption.stream == stream)
        };
        if let Some(procedure) = self.procedures.values().find(uses) {
            return Err(Refusal::StreamInUse {
                stream: self.stream_name(stream),
                procedure: procedure.name.clone(),
            });
        }
        let gone = self.streams.remove(&stream);
        gone.ok_or_else(|| not_found("stream", &stream.0.to_string()))?;
        Ok(())
    }

    /// What was saved; `None` where it contradicts itself.
    pub(crate) fn restore(
        streams: Vec<StreamShape>,
        procedures: Vec<(ProcedureUid, ProcedureShape)>,
        dataflows: Vec<DataflowShape>,
        newest: u32,
    ) -> Result<(Declarations, Graph), Refusal> {
        let mut restored = Declarations {
            newest,
            ..Declarations::default()
        };
        for shape in streams {
            restored.change(&Command::CreateStream(shape))?;
        }
        for (uid, shape) in procedures {
            if restored.uid(&shape.name).is_some() || uid.0 > newest {
                return Err(taken("procedure", &shape.name));
            }
            procedure::check(&restored, uid, &shape)?;
            restored.procedures.insert(uid, shape);
        }
        for shape in dataflows {
            let or_replace = false;
            restored.change(&Command::CreateDataflow { shape, or_replace })?;
        }
        let graph = Graph::of(&restored)?;
        Ok((restored, graph))
    }
}

fn taken(kind: &'static str, name: &str) -> Refusal {
    let name = name.to_owned();
    Refusal::NameTaken { kind, name }
}

pub(crate) fn not_found(kind: &'static str, name: &str) -> Refusal {
    let name = name.to_owned();
    Refusal::NotFound { kind, name }
}
