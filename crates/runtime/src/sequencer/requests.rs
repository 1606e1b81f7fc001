//! The inputs of the sequencer: events, requests among them, and their answers.

use crate::checkpoints::DeclarationRecord;
use crate::credit::Permit;
use crate::error::RuntimeError;
use crate::host::{Fired, LimitReport};
use crate::lane::{UpdateRequest, UpdateResult};
use crate::replay::Portion;
use crate::slot::Answering;
use oxrdf::GraphName;
use somersault_checkpoint::Manifest;
use somersault_log::{LoadSegment, LogError, Position, Resolved};
use somersault_model::{QuadIds, Sn};
use somersault_query::Effects;
use somersault_store::Snapshot;
use somersault_stream::{
    Coordinator, Input, MessageOutcome, ParsedCommand, Refusal, Repeat, Taken,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that the sequencer has to know or to do.
pub(crate) enum Event {
    /// A caller's request.
    Request(Request),
    /// A caller wants to read the registry.
    Read(Read),
    /// The next records of the log that is replayed.
    Replayed(Result<Portion, RuntimeError>),
    /// The host has answered a firing.
    Fired(Fired),
    /// The host has looked at the deadlines of durable subscriptions.
    Limits(LimitReport),
    /// All records up to this position have been durable since then.
    Durable { position: Position, at: Instant },
    /// The log makes nothing more durable.
    LogFailed(LogError),
    /// The shards may have applied more, or have failed.
    Applied,
    /// A change has been evaluated.
    ChangeEvaluated(Result<Option<Change>, RuntimeError>),
    /// The lane has judged a command for procedures or dataflows.
    Judged(Result<(), RuntimeError>),
    /// The lane has frozen procedures, dataflows and their core for a checkpoint.
    TransactionsFrozen(Vec<DeclarationRecord>),
    /// A transaction waits in the handover, or the lane wants a turn or has had it.
    TransactionsWait,
    /// The lane runs no transaction any more.
    LaneFailed(RuntimeError),
    /// A checkpoint has been written, or could not be.
    CheckpointWritten(Result<Manifest, RuntimeError>),
    /// Shards may free what was replaced, and go on with renewing their images.
    TidyShards,
    /// Time has passed.
    Tick,
    /// It is to end at once.
    Abort,
}

/// Reads the registry between two steps of the sequencer.
pub(crate) type Read = Box<dyn FnOnce(&Coordinator) + Send>;

/// The way of an answer to a request for a checkpoint.
pub(crate) type CheckpointReply = Answering<Result<Manifest, RuntimeError>>;

/// When an input is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckWhen {
    /// When its record is durable.
    Durable,
    /// When a snapshot that holds it is stable; a cut is made for it.
    Stable,
}

/// The way of an answer to an input or a change, and the credit of its statements until then.
pub(crate) struct Reply<T = InputReceipt> {
    to: Answering<Result<T, RuntimeError>>,
    credit: Option<Permit>,
}

impl<T> Reply<T> {
    /// The way of an answer to this caller.
    pub(crate) fn new(to: Answering<Result<T, RuntimeError>>, credit: Option<Permit>) -> Reply<T> {
        Reply { to, credit }
    }

    /// Gives the credit back, and answers.
    pub(crate) fn send(self, answer: Result<T, RuntimeError>) {
        drop(self.credit);
        self.to.send(answer);
    }

    /// Gives the credit back before the answer: the shards have the statements.
    pub(crate) fn release_credit(&mut self) {
        self.credit = None;
    }
}

/// The outcome of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was logged.
    Taken {
        /// Statements of a push that went into batches, 0 for other inputs.
        statements: u64,
        /// Statements of a push that were late and dropped (LATE DROP).
        late: u64,
    },
    /// Messages were judged.
    Messages {
        /// What became of the first of them; see [`somersault_stream::Admission::Messages`].
        outcomes: Vec<MessageOutcome>,
        /// The statements of those taken that went into batches.
        statements: u64,
        /// The statements of those taken that were late and dropped (LATE DROP).
        late: u64,
    },
    /// A stream begins again.
    Reset {
        /// The number of dropped statements that windows might still have shown.
        dropped: u64,
    },
    /// The result that a command resolved to.
    Command(Resolved),
    /// The outcome of each query that was registered together with others.
    Several(Vec<Result<Taken, Refusal>>),
    /// The same input was taken before.
    Repeat(Repeat),
    /// It changes nothing.
    Nothing,
}

/// The answer to an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputReceipt {
    /// The outcome of the input.
    pub outcome: Outcome,
    /// The newest SN that was cut when the input was taken; it is stable if the caller asked for
    /// that.
    pub sn: Sn,
}

/// The effects of a change.
#[derive(Debug)]
pub enum Change {
    /// Statements to delete and to insert.
    Effects(Effects),
    /// Statements to insert, too many for a record: they are in a segment of their own.
    Load {
        /// Graphs to empty before.
        clears: Vec<GraphName>,
        /// The segment, finished.
        segment: LoadSegment,
        /// Its statements.
        statements: Arc<[QuadIds]>,
        /// The number of them that are new.
        inserted: u64,
        /// The number of statements that the graphs lose.
        deleted: u64,
    },
}

impl From<Effects> for Change {
    fn from(effects: Effects) -> Change {
        Change::Effects(effects)
    }
}

/// Computes a change on the pinned newest snapshot; `None` calls it off.
pub type ChangeJob = Box<dyn FnOnce(Snapshot) -> Option<Change> + Send>;

/// A request to the sequencer. Requests are taken in the order in which they come.
pub(crate) enum Request {
    Input {
        input: Box<Input>,
        ack_when: AckWhen,
        reply: Reply,
    },
    /// What a job makes of the newest snapshot is to be the next one.
    Change {
        job: ChangeJob,
        reply: Reply<UpdateResult>,
    },
    /// An update for the lane of transactions.
    Update(Box<UpdateRequest>),
    /// A command for procedures or dataflows.
    Declare {
        command: Box<ParsedCommand>,
        reply: Reply,
    },
    Quiesce {
        reply: Answering<Result<(), RuntimeError>>,
    },
    /// Writes a checkpoint.
    Checkpoint { reply: CheckpointReply },
    /// Writes a checkpoint if it makes the next start noticeably shorter.
    LastCheckpoint { reply: CheckpointReply },
    /// Checks the state of the sequencer and the delivery ledger.
    Check {
        reply: Answering<Result<(), String>>,
    },
    Stop {
        deadline: Duration,
        reply: Answering<()>,
    },
}
