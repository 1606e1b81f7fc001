//! What is declared, as callers see it: procedures and dataflows with their states.
//!
//! Before changing anything here: a listing is made between two transactions, on the lane, so all
//! of it belongs to one moment. It must stay cheap: transactions wait meanwhile.

use super::Declared;
use somersault_lang::procedure::{CreateDataflow, CreateProcedure};
use somersault_model::ProcedureUid;
use somersault_txn::{AbortList, AbortedRound, DataflowState, InletStatus};
use std::sync::Arc;

/// A declared procedure.
#[derive(Clone, Debug)]
pub struct ProcedureStatus {
    /// Its uid; those of procedures that were declared later are greater.
    pub uid: ProcedureUid,
    /// Its declaration.
    pub declaration: Arc<CreateProcedure>,
    /// Whether it is native, and no program has registered its body.
    pub is_absent: bool,
    /// The dataflow that names it.
    pub dataflow: Option<String>,
    /// How far it is with each stream that it consumes, in the order of the text.
    pub inlets: Vec<InletStatus>,
    /// The newest transaction that it aborted on a batch, of those that are kept.
    pub last_abort: Option<AbortedRound>,
}

/// A declared dataflow.
#[derive(Clone, Debug)]
pub struct DataflowListing {
    /// Its declaration.
    pub declaration: Arc<CreateDataflow>,
    /// Whether its rounds begin.
    pub state: DataflowState,
    /// The procedures that run as one transaction, in the order of a round.
    pub units: Vec<Vec<String>>,
    /// The number of the newest round that has begun.
    pub rounds: u64,
    /// The number of complete batches that wait for its procedures.
    pub waiting_batches: u64,
    /// The number of its transactions that aborted on a batch.
    pub aborts: u64,
    /// The newest of them.
    pub last_abort: Option<AbortedRound>,
}

/// A dataflow that an abort has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedDataflow {
    /// Its name.
    pub name: String,
    /// The abort.
    pub abort: AbortedRound,
}

impl Declared {
    /// All procedures, by name.
    pub(crate) fn list_procedures(&self) -> Vec<ProcedureStatus> {
        let uids = self.procedures().keys();
        let mut all: Vec<_> = uids.filter_map(|uid| self.procedure_status(*uid)).collect();
        all.sort_unstable_by(|a, b| a.declaration.name.cmp(&b.declaration.name));
        all
    }

    /// One procedure.
    pub(crate) fn procedure(&self, name: &str) -> Option<ProcedureStatus> {
        self.procedure_status(self.uid(name)?)
    }

    fn procedure_status(&self, uid: ProcedureUid) -> Option<ProcedureStatus> {
        let declaration = Arc::clone(self.procedures().get(&uid)?);
        let core = self.core();
        let mut dataflows = core.dataflows();
        let dataflow = dataflows.find(|flow| flow.names().any(|one| one == declaration.name));
        Some(ProcedureStatus {
            uid,
            is_absent: self.absent().contains(&uid),
            dataflow: dataflow.map(|flow| flow.name.clone()),
            inlets: core.inlets_of(uid),
            last_abort: core.last_abort(uid).cloned(),
            declaration,
        })
    }

    /// All dataflows, by name.
    pub(crate) fn list_dataflows(&self) -> Vec<DataflowListing> {
        let names = self.core().dataflows().map(|flow| flow.name.as_str());
        names.filter_map(|name| self.dataflow(name)).collect()
    }

    /// One dataflow.
    pub(crate) fn dataflow(&self, name: &str) -> Option<DataflowListing> {
        let core = self.core();
        let (aborts, last_abort) = core.aborts_of_dataflow(name)?;
        let units = core.units().filter(|(_, of)| *of == Some(name));
        let units: Vec<&[ProcedureUid]> = units.map(|(procedures, _)| procedures).collect();
        let inlets = units.iter().flat_map(|unit| unit.iter());
        let inlets = inlets.flat_map(|uid| core.inlets_of(*uid));
        let named = |unit: &&[ProcedureUid]| unit.iter().map(|uid| core.name(*uid)).collect();
        Some(DataflowListing {
            declaration: Arc::clone(self.dataflow_text(name)?),
            state: core.dataflow_state(name)?.clone(),
            waiting_batches: inlets.map(|inlet| inlet.waiting_batches).sum(),
            units: units.iter().map(named).collect(),
            rounds: core.rounds_of(name),
            aborts,
            last_abort: last_abort.cloned(),
        })
    }

    /// The newest transactions of a dataflow that aborted.
    pub(crate) fn aborted_in(&self, dataflow: &str) -> Option<AbortList> {
        self.core().aborted_in(dataflow)
    }

    /// The newest transactions that a procedure aborted on batches.
    pub(crate) fn aborted_by(&self, procedure: &str) -> Option<AbortList> {
        Some(self.core().aborted(self.uid(procedure)?))
    }

    /// The native procedures whose body no program has registered, by name.
    pub(super) fn absent_names(&self) -> Vec<String> {
        let absent = self.absent().iter();
        let mut names: Vec<String> = absent.map(|uid| self.core().name(*uid)).collect();
        names.sort_unstable();
        names
    }

    /// The dataflows that aborts have stopped, by name.
    pub(crate) fn stopped(&self) -> Vec<StoppedDataflow> {
        let core = self.core();
        let stopped = core.dataflows().filter_map(|flow| {
            let DataflowState::Stopped(abort) = core.dataflow_state(&flow.name)? else {
                return None;
            };
            Some(StoppedDataflow {
                name: flow.name.clone(),
                abort: abort.clone(),
            })
        });
        stopped.collect()
    }
}
