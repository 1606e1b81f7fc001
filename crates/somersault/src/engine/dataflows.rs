//! What is declared for streaming transactions, and how far it is.
//!
//! The one thing to know before changing it: a listing waits for the transaction that runs, and
//! shows one moment between two transactions.

use super::Engine;
use crate::access::RightKind;
use crate::error::EngineError;
use crate::info::{
    AbortInfo, AbortedInfo, ConsumedStreamInfo, DataflowInfo, OwnedWindowInfo, ParameterInfo,
    ProcedureInfo,
};
use somersault_lang::{OnAbort, Recovery};
use somersault_runtime::{DataflowListing, ProcedureStatus};
use somersault_txn::{AbortList, AbortedRound, DataflowState, Round};

/// Each of these rights shows the procedure that it names.
const SEE_PROCEDURE: &[RightKind] = &[RightKind::Call, RightKind::Register, RightKind::Monitor];
/// Each of these rights shows the dataflow that it names, and the steps of a procedure.
pub(super) const SEE_DATAFLOW: &[RightKind] = &[RightKind::Register, RightKind::Monitor];

/// # Dataflows
///
/// What is declared, how far it is, and what aborted.
impl Engine {
    /// Returns all procedures, by name.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE note(?what IRI) AS { RETURN ASK { ?what ?p ?o } }")?;
    /// let all = engine.procedures()?;
    /// assert_eq!(all[0].name, "note");
    /// assert_eq!(all[0].parameters[0].kind, "IRI");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn procedures(&self) -> Result<Vec<ProcedureInfo>, EngineError> {
        self.check_running()?;
        let all = self.inner.driver.procedures()?;
        let all = all.into_iter().map(ProcedureInfo::of);
        let is_seen = |info: &ProcedureInfo| self.access.allows_one(SEE_PROCEDURE, &info.name);
        Ok(all.filter(is_seen).collect())
    }

    /// Returns one procedure.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:in> TIMELESS BATCH 1s")?;
    /// engine.declare(
    ///     "CREATE PROCEDURE keep ON STREAM <urn:in> BATCH 2 MESSAGES
    ///      AS { INSERT { ?s ?p ?o } WHERE { BATCH { ?s ?p ?o } } }",
    /// )?;
    /// let keep = engine.procedure_info("keep")?;
    /// assert_eq!(keep.streams[0].batch, "BATCH 2 MESSAGES");
    /// assert_eq!(keep.streams[0].waiting_messages, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such procedure.
    pub fn procedure_info(&self, name: &str) -> Result<ProcedureInfo, EngineError> {
        self.access.require_one(SEE_PROCEDURE, name)?;
        self.check_running()?;
        let found = self.inner.driver.procedure(name)?;
        let status = found.ok_or_else(|| not_found("procedure", name))?;
        Ok(ProcedureInfo::of(status))
    }

    /// Returns all dataflows, by name.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// assert!(engine.dataflows()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn dataflows(&self) -> Result<Vec<DataflowInfo>, EngineError> {
        self.check_running()?;
        let all = self.inner.driver.dataflows()?;
        let all = all.into_iter().map(DataflowInfo::of);
        let is_seen = |info: &DataflowInfo| self.access.allows_one(SEE_DATAFLOW, &info.name);
        Ok(all.filter(is_seen).collect())
    }

    /// Returns one dataflow.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { INSERT DATA { <urn:a> <urn:p> 1 } }")?;
    /// engine.declare("CREATE DATAFLOW flow { p } ON ABORT STOP")?;
    /// let flow = engine.dataflow_info("flow")?;
    /// assert_eq!((flow.state, flow.recovery, flow.on_abort), ("running", "STRONG", "STOP"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn dataflow_info(&self, name: &str) -> Result<DataflowInfo, EngineError> {
        self.access.require_one(SEE_DATAFLOW, name)?;
        self.check_running()?;
        let found = self.inner.driver.dataflow(name)?;
        let listing = found.ok_or_else(|| not_found("dataflow", name))?;
        Ok(DataflowInfo::of(listing))
    }

    /// Returns the state of a dataflow: `running`, `paused`, or `stopped` by an abort.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE p() AS { INSERT DATA { <urn:a> <urn:p> 1 } }")?;
    /// engine.declare("CREATE DATAFLOW flow { p }")?;
    /// assert_eq!(engine.dataflow_state("flow")?, "running");
    /// engine.declare("PAUSE DATAFLOW flow")?;
    /// assert_eq!(engine.dataflow_state("flow")?, "paused");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn dataflow_state(&self, name: &str) -> Result<&'static str, EngineError> {
        self.access.require_one(SEE_DATAFLOW, name)?;
        self.check_running()?;
        let found = self.inner.driver.dataflow_state(name)?;
        found
            .map(|state| state_name(&state))
            .ok_or_else(|| not_found("dataflow", name))
    }

    /// Returns the newest transactions of a dataflow that aborted: the last 1,000, also after a
    /// restart, and the number of those before them.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.create_stream(None, "CREATE STREAM <urn:in> TIMELESS BATCH 1s")?;
    /// let never = "CREATE PROCEDURE p ON STREAM <urn:in> BATCH 1 MESSAGE AS { ABORT \"no\" }";
    /// engine.declare(never)?;
    /// engine.declare("CREATE DATAFLOW flow { p }")?;
    /// assert!(engine.aborted("flow")?.newest.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such dataflow.
    pub fn aborted(&self, dataflow: &str) -> Result<AbortedInfo, EngineError> {
        self.access.require_one(SEE_DATAFLOW, dataflow)?;
        self.check_running()?;
        let found = self.inner.driver.aborted_in(dataflow)?;
        let list = found.ok_or_else(|| not_found("dataflow", dataflow))?;
        Ok(AbortedInfo::of(&list))
    }

    /// Returns the newest transactions that a streaming procedure aborted, in a dataflow or in
    /// none. An abort of a call is its answer, and is not listed.
    ///
    /// ```
    /// use somersault::{Engine, EngineConfig};
    /// # fn main() -> Result<(), somersault::EngineError> {
    /// # let engine = Engine::open(EngineConfig::default())?;
    /// engine.declare("CREATE PROCEDURE never() AS { ABORT \"no\" }")?;
    /// engine.call("never").run()?;
    /// assert!(engine.aborted_by("never")?.newest.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// There is no such procedure.
    pub fn aborted_by(&self, procedure: &str) -> Result<AbortedInfo, EngineError> {
        self.access.require_one(SEE_PROCEDURE, procedure)?;
        self.check_running()?;
        let found = self.inner.driver.aborted_by(procedure)?;
        let list = found.ok_or_else(|| not_found("procedure", procedure))?;
        Ok(AbortedInfo::of(&list))
    }
}

/// Why calls and rounds of a native procedure wait.
pub(super) fn waits_for_body(procedure: &str) -> String {
    format!(
        "procedure {procedure} is native, and the program that runs this engine has not registered its body: its calls and rounds wait until it does (Engine::procedure)"
    )
}

/// The error of a name that nothing has.
pub(super) fn not_found(kind: &str, name: &str) -> EngineError {
    EngineError::NotFound(format!("there is no {kind} {name}; create it first"))
}

fn state_name(state: &DataflowState) -> &'static str {
    match state {
        DataflowState::Running => "running",
        DataflowState::Paused => "paused",
        DataflowState::Stopped(_) => "stopped",
    }
}

impl AbortInfo {
    pub(super) fn of(aborted: &AbortedRound) -> AbortInfo {
        let (round, is_of_call) = match aborted.round {
            Round::Batch(number) => (number, false),
            Round::Call(number) => (number, true),
        };
        AbortInfo {
            procedure: aborted.procedure.clone(),
            round,
            is_of_call,
            reason: aborted.reason.clone(),
            time: aborted.at,
        }
    }
}

impl AbortedInfo {
    fn of(list: &AbortList) -> AbortedInfo {
        AbortedInfo {
            newest: list.newest.iter().map(AbortInfo::of).collect(),
            dropped: list.dropped,
        }
    }
}

impl ProcedureInfo {
    fn of(status: ProcedureStatus) -> ProcedureInfo {
        let declaration = &status.declaration;
        let parameters = declaration
            .parameters
            .iter()
            .map(|parameter| ParameterInfo {
                name: parameter.name.clone(),
                kind: parameter.kind.to_string(),
            });
        let consumed = declaration.consumes.iter().zip(&status.inlets);
        let streams = consumed.map(|(consumed, inlet)| ConsumedStreamInfo {
            stream: inlet.stream.clone(),
            batch: consumed.batch.to_string(),
            batches: inlet.batches,
            waiting_batches: inlet.waiting_batches,
            waiting_messages: inlet.waiting_messages,
        });
        let windows = declaration.windows.iter().map(|window| OwnedWindowInfo {
            name: window.name.as_str().to_owned(),
            stream: window.stream.as_str().to_owned(),
            extent: window.extent.to_string(),
        });
        let emits = declaration.emits().into_iter();
        ProcedureInfo {
            name: declaration.name.clone(),
            text: declaration.text.clone(),
            body: match declaration.native {
                None => "STEPS",
                Some(_) => "NATIVE",
            },
            waits: (status.is_absent).then(|| waits_for_body(&declaration.name)),
            parameters: parameters.collect(),
            streams: streams.collect(),
            windows: windows.collect(),
            emits: emits.map(|iri| iri.as_str().to_owned()).collect(),
            dataflow: status.dataflow,
            last_abort: status.last_abort.as_ref().map(AbortInfo::of),
        }
    }
}

impl DataflowInfo {
    fn of(listing: DataflowListing) -> DataflowInfo {
        let declaration = &listing.declaration;
        let stopped_by = match &listing.state {
            DataflowState::Stopped(abort) => Some(AbortInfo::of(abort)),
            DataflowState::Running | DataflowState::Paused => None,
        };
        DataflowInfo {
            name: declaration.name.clone(),
            text: declaration.text.clone(),
            state: state_name(&listing.state),
            recovery: match declaration.recovery {
                Recovery::Strong => "STRONG",
                Recovery::Weak => "WEAK",
            },
            on_abort: match declaration.on_abort {
                OnAbort::Skip => "SKIP",
                OnAbort::Stop => "STOP",
            },
            units: listing.units,
            rounds: listing.rounds,
            waiting_batches: listing.waiting_batches,
            aborts: listing.aborts,
            last_abort: listing.last_abort.as_ref().map(AbortInfo::of),
            stopped_by,
        }
    }
}
