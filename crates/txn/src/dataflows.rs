//! Dataflows: whether their rounds begin, and which of them aborted.
//!
//! Before changing anything here: a held dataflow begins no round, and ends those that began. A
//! round of a batch begins where the dataflow takes messages from outside. A round of a call has
//! begun if the call ran before the hold.

use crate::event::Round;
use crate::shape::ProcedureUid;
use serde::{Deserialize, Serialize};
use somersault_model::EventTime;
use std::collections::VecDeque;

/// The number of aborted rounds that are kept for each graph.
pub(crate) const KEPT_ABORTS: usize = 1_000;

/// Whether a dataflow's rounds begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DataflowState {
    /// They begin.
    Running,
    /// PAUSE holds them.
    Paused,
    /// An abort holds them, under ON ABORT STOP.
    Stopped(AbortedRound),
}

/// A transaction that aborted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbortedRound {
    /// The procedure whose abort it was.
    pub procedure: String,
    /// The round.
    pub round: Round,
    /// The reason.
    pub reason: String,
    /// The event time of its batches: the greatest of their messages.
    pub at: EventTime,
}

/// The state of a dataflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dataflow {
    pub(crate) state: DataflowState,
    /// The number of calls before it was held.
    pub(crate) calls: u64,
}

impl Dataflow {
    pub(crate) fn new() -> Dataflow {
        Dataflow {
            state: DataflowState::Running,
            calls: 0,
        }
    }

    /// Holds it from now on. The first hold counts.
    pub(crate) fn hold(&mut self, state: DataflowState, calls: u64) {
        if self.state == DataflowState::Running {
            self.calls = calls;
        }
        self.state = state;
    }

    /// Whether a transaction waits. `begins` says that a batch of this round would begin it.
    pub(crate) fn holds(&self, round: Round, begins: bool) -> bool {
        let is_new = match round {
            Round::Batch(_) => begins,
            Round::Call(number) => number > self.calls,
        };
        self.state != DataflowState::Running && is_new
    }
}

/// The aborted transactions of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aborts {
    count: u64,
    newest: VecDeque<(ProcedureUid, AbortedRound)>,
}

impl Aborts {
    pub(crate) fn add(&mut self, procedure: ProcedureUid, aborted: AbortedRound) {
        self.count += 1;
        self.newest.push_back((procedure, aborted));
        if self.newest.len() > KEPT_ABORTS {
            self.newest.pop_front();
        }
    }

    /// The number of all that ever aborted.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn newest(&self) -> impl DoubleEndedIterator<Item = &(ProcedureUid, AbortedRound)> {
        self.newest.iter()
    }

    /// Adds what was saved. Says whether it may be.
    pub(crate) fn restore(
        &mut self,
        count: u64,
        newest: Vec<(ProcedureUid, AbortedRound)>,
    ) -> bool {
        self.count = count;
        self.newest.extend(newest);
        self.newest.len() <= KEPT_ABORTS && self.newest.len() as u64 <= count
    }
}
