//! The callers' reads of procedures and dataflows. The lane answers them between two transactions;
//! counters are read beside it.

use super::Driver;
use crate::error::RuntimeError;
use crate::feeds::{FeedReader, FeedStart};
use crate::lane::{
    DataflowListing, Declared, LaneEvent, NativeBody, ProcedureStatus, Registration,
    StoppedDataflow, TransactionCounts,
};
use crate::slot::{Awaited, slot};
use somersault_lang::StreamSource;
use somersault_model::Place;
use somersault_txn::{AbortList, DataflowState};
use std::sync::Arc;
use std::time::Duration;

/// The time for which counters wait for a lane that runs a long transaction.
const PATIENCE: Duration = Duration::from_millis(100);

impl Driver {
    /// All procedures, by name.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn procedures(&self) -> Result<Vec<ProcedureStatus>, RuntimeError> {
        self.read_declared(Declared::list_procedures)
    }

    /// One procedure.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn procedure(&self, name: &str) -> Result<Option<ProcedureStatus>, RuntimeError> {
        let name = name.to_owned();
        self.read_declared(move |declared| declared.procedure(&name))
    }

    /// All dataflows, by name.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn dataflows(&self) -> Result<Vec<DataflowListing>, RuntimeError> {
        self.read_declared(Declared::list_dataflows)
    }

    /// One dataflow.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn dataflow(&self, name: &str) -> Result<Option<DataflowListing>, RuntimeError> {
        let name = name.to_owned();
        self.read_declared(move |declared| declared.dataflow(&name))
    }

    /// Whether the rounds of a dataflow begin; `None` if there is no such dataflow.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn dataflow_state(&self, name: &str) -> Result<Option<DataflowState>, RuntimeError> {
        let name = name.to_owned();
        self.read_declared(move |declared| declared.core().dataflow_state(&name).cloned())
    }

    /// The newest transactions of a dataflow that aborted; `None` if there is no such dataflow.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn aborted_in(&self, dataflow: &str) -> Result<Option<AbortList>, RuntimeError> {
        let name = dataflow.to_owned();
        self.read_declared(move |declared| declared.aborted_in(&name))
    }

    /// The newest transactions that a procedure aborted on batches; `None` if there is no such
    /// procedure.
    ///
    /// # Errors
    /// The driver has stopped.
    pub fn aborted_by(&self, procedure: &str) -> Result<Option<AbortList>, RuntimeError> {
        let name = procedure.to_owned();
        self.read_declared(move |declared| declared.aborted_by(&name))
    }

    /// LaneCounters of transactions. Does not wait for a transaction that takes long.
    pub fn transaction_counts(&self) -> TransactionCounts {
        let counters = Arc::clone(&self.handle.counters);
        let noted = self.ask_lane(move |declared| counters.note_waiting(declared));
        if let Ok(noted) = noted {
            // Without an answer, what waited before is told.
            let _ = self.handle.wait_for(&noted, PATIENCE);
        }
        self.handle.counters.read()
    }

    /// The dataflows that aborts have stopped. Does not wait for a transaction.
    pub fn stopped_dataflows(&self) -> Vec<StoppedDataflow> {
        self.handle.counters.stopped()
    }

    /// The native procedures whose body no program has registered. Does not wait for a transaction.
    pub fn absent_procedures(&self) -> Vec<String> {
        self.handle.counters.absent()
    }

    /// A reader of the messages of an interior stream.
    ///
    /// # Errors
    /// There is no such stream, or clients push into it.
    pub fn read_messages(
        &self,
        iri: &str,
        start: FeedStart,
    ) -> Result<Option<FeedReader>, RuntimeError> {
        let iri = iri.to_owned();
        let shared = Arc::clone(&self.handle.shared);
        self.handle.read(move |coordinator| {
            let streams = coordinator.streams();
            let Some(stream) = streams.iter().find(|it| it.declaration.iri.as_str() == iri) else {
                return Ok(None);
            };
            if stream.declaration.source != StreamSource::Interior {
                return Err(RuntimeError::Invalid(format!(
                    "stream <{iri}> is no interior stream; the messages of interior streams alone are sent out. Register a query on it, and subscribe to its answers"
                )));
            }
            let newest = coordinator.newest_message(stream.uid).unwrap_or(Place(0));
            let named = (stream.uid, &*iri);
            Ok(Some(shared.feeds.reader(named, newest, start)))
        })
    }

    /// Takes the body of a declared native procedure. Calls and rounds that wait for it go on.
    ///
    /// # Errors
    /// There is no such procedure, it has steps, or the driver has stopped.
    pub fn register(&self, procedure: &str, body: NativeBody) -> Result<(), RuntimeError> {
        let (reply, answer) = slot();
        let registration = Registration {
            procedure: procedure.to_owned(),
            body,
            // The program that registers it waits for the answer.
            reply: Box::new(move |result| reply.send(result)),
        };
        let sent = self
            .handle
            .lane
            .send(LaneEvent::Register(Box::new(registration)));
        sent.map_err(|_| RuntimeError::Stopped)?;
        self.handle.wait(&answer)?
    }

    /// Reads what is declared, between two transactions.
    fn read_declared<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Declared) -> T + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let answer = self.ask_lane(read)?;
        self.handle.wait(&answer)
    }

    fn ask_lane<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Declared) -> T + Send + 'static,
    ) -> Result<Awaited<T>, RuntimeError> {
        let (reply, answer) = slot();
        let read = Box::new(move |declared: &Declared| reply.send(read(declared)));
        let sent = self.handle.lane.send(LaneEvent::Read(read));
        sent.map_err(|_| RuntimeError::Stopped)?;
        Ok(answer)
    }
}
