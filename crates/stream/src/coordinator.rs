//! The coordinator: the one state transition from log records to snapshot numbers and firings.
//!
//! Before changing anything here: [`Coordinator::apply`] is used live and in recovery alike, and must be a pure
//! function of the records so far (S2, S6): no clock, no random source, no hash order.

use crate::declaration::{Resolve, ResolveError};
use crate::input::{Admission, Input};
use crate::output::Output;
use crate::refusal::Refusal;
use crate::status::{QueryStatus, StreamStatus};
use somersault_log::{PlanRecord, Position, Record};
use somersault_model::{EventTime, QueryUid, Sn};

/// Turns inputs into records, records into SNs, and complete streams into firings.
#[derive(Debug, Default)]
pub struct Coordinator {}

#[allow(unused_variables, missing_docs)]
impl Coordinator {
    pub fn new() -> Coordinator {
        unimplemented!()
    }
    /// Checks an input against the state and says what to log. Changes nothing.
    pub fn admit(&self, input: Input) -> Result<Admission, Refusal> {
        unimplemented!()
    }
    /// Takes one logged record, live and in recovery alike.
    pub fn apply(
        &mut self,
        record: &Record,
        resolve: &dyn Resolve,
        out: &mut Vec<Output>,
    ) -> Result<(), ResolveError> {
        unimplemented!()
    }
    /// The cut that must come next: log it, apply it, and ask again, until there is none.
    pub fn next_due_cut(&self, log_end: Position) -> Option<PlanRecord> {
        unimplemented!()
    }
    /// The cut that makes everything that is closed and pending visible; a due cut if there is one.
    pub fn freshness_cut(&self, log_end: Position) -> Option<PlanRecord> {
        unimplemented!()
    }
    /// Advances of IDLE and ARRIVAL TIME streams that are worth a record at this time.
    pub fn on_tick(&self, now_ms: i64) -> Vec<Input> {
        unimplemented!()
    }
    /// All SNs up to this one are applied and durable: releases their firings (S5).
    pub fn on_stable(&mut self, sn: Sn, out: &mut Vec<Output>) {
        unimplemented!()
    }
    /// A firing has been executed and needs its slices no more.
    pub fn on_fired(&mut self, query: QueryUid, close: EventTime, out: &mut Vec<Output>) {
        unimplemented!()
    }
    /// Before replaying a log: closes of this query up to this one have been delivered and are not released again (S12).
    pub fn expect_delivered(&mut self, query: QueryUid, close: EventTime) {
        unimplemented!()
    }
    /// The newest SN that was cut.
    pub fn last_cut(&self) -> Sn {
        unimplemented!()
    }
    /// Whether anything closed, loaded or updated waits for a cut.
    pub fn has_pending(&self) -> bool {
        unimplemented!()
    }
    /// All streams, by IRI.
    pub fn streams(&self) -> Vec<StreamStatus> {
        unimplemented!()
    }
    /// One stream.
    pub fn stream(&self, iri: &str) -> Option<StreamStatus> {
        unimplemented!()
    }
    /// All queries, by name.
    pub fn queries(&self) -> Vec<QueryStatus> {
        unimplemented!()
    }
    /// One query.
    pub fn query(&self, name: &str) -> Option<QueryStatus> {
        unimplemented!()
    }
}
