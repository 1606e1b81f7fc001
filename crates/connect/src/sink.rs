//! What a sink is, and what it says about repeats.

use crate::error::SinkError;
use crate::line::AnswerKey;
use crate::worker::StopSignal;
use somersault::FiringResult;
use std::sync::Arc;

/// The number of answers that are delivered and acknowledged together, at most.
pub(crate) const PORTION: usize = 64;

/// What happens to an answer that is delivered again, because a crash came between its delivery and
/// its acknowledgement. (An event stream that clients follow without a durable subscription is
/// *fire-and-forget*: what it did not get is not sent again.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkClass {
    /// The sink keeps the answer and its key in one step, and drops the repeat itself.
    Transactional,
    /// The receiver drops the repeat by its key, which is sent with each answer.
    Idempotent,
}

impl std::fmt::Display for SinkClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            SinkClass::Transactional => "transactional",
            SinkClass::Idempotent => "idempotent",
        })
    }
}

/// A place to which answers are delivered.
pub trait Sink: Send {
    /// What it does with repeats.
    fn class(&self) -> SinkClass;

    /// Prepares it, also again after an error. `acknowledged` is the newest answer that the engine
    /// knows it to have.
    ///
    /// # Errors
    /// It takes no answers at present.
    fn open(&mut self, acknowledged: Option<AnswerKey>) -> Result<(), SinkError>;

    /// Delivers answers, in the order of their keys. Answers that it has already count as
    /// delivered. When it returns, it has all of them for good. If `stop` is set while it waits for
    /// the receiver, it returns soon: what it does not know to be delivered is delivered again.
    ///
    /// # Errors
    /// Why it does not have all of them, with the number of those that it has, counted from the
    /// first; [`SinkError::Stopped`] if it was stopped before.
    fn deliver(
        &mut self,
        answers: &[Arc<FiringResult>],
        stop: &StopSignal,
    ) -> Result<(), (usize, SinkError)>;
}
