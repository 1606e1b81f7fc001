//! Registered continuous queries: cohorts, their firings, and their subscribers. [`Registry`] is
//! the driver's [`Host`](somersault_runtime::Host).
//!
//! The one thing to know before changing it: the driver's thread calls the host in order and must
//! not wait. It only notes what changes; threads of the query pool execute firings and put changes
//! in place. Results are published in close order, by one thread of a cohort at a time.
//!
//! Rooms, lowest first: saved, metrics, resources, order, subscriptions, evaluation, stages,
//! delivery, cohort, registry.

mod cohort;
mod delivery;
mod evaluation;
mod metrics;
mod order;
mod registry;
mod resources;
mod saved;
mod stages;
mod subscriptions;

pub use cohort::ended_by;
pub use evaluation::continuous_dataset;
pub use metrics::{Latency, QueryMetrics, Recorder};
pub use registry::{
    CohortSize, DurableEvent, DurableReader, DurableState, MemberSummary, Registry,
};
pub use resources::{DeltaMode, Settings, Stopwatch};
pub use saved::{AnswerRecord, AnswersError};
#[cfg(feature = "futures")]
pub use subscriptions::SubscriptionStream;
pub use subscriptions::{
    Backlog, FiringId, FiringResult, ParseFiringIdError, RecvTimeoutError, SubscribeOptions,
    Subscription, SubscriptionEvent, WhenSlow,
};
