//! Streams, batches, windows, cuts and continuous queries: events in, commands out.
//!
//! Before changing anything here: this crate has no clock, thread, disk or random source, and no
//! answer of it depends on hash order (S6). A driver feeds it inputs, logs the records it asks for,
//! and carries out its outputs: [`Coordinator::admit`] → log → [`Coordinator::apply`] →
//! [`Coordinator::next_due_cut`] → log → apply → … → [`Coordinator::on_stable`] →
//! [`Coordinator::on_fired`].
//!
//! Rooms, lowest first: protocol, saved, streams, output, live, closes, queries, admission,
//! coordinator, texts.
//!
//! A room is a folder or a file; it imports from rooms before it in that list, never from one after
//! it. `streams` is the home of data: sources, gates, sequence numbers, batches, BUDGET. `live`
//! says which changes of stored graphs concern which live query, by ids of terms. `closes`
//! and `queries` are the planner: times and counts, and no term (`tidy` checks it), so that a
//! planner can stand apart from the homes of streams one day. `admission` reads all of it and
//! decides what is logged. The coordinator owns the machines and dispatches; a handler borrows
//! those that it needs. `texts` alone parses: texts are read before they reach the coordinator.

mod admission;
mod closes;
mod coordinator;
mod live;
mod output;
mod protocol;
mod queries;
mod saved;
mod streams;
mod texts;

pub use coordinator::{Coordinator, CutPace, FrozenCore};
pub use output::{JoiningMember, Output, Pause, QueryChange, QueryEvent};
pub use protocol::cohort_view::CohortView;
pub use protocol::command::{ParsedCommand, ParsedQuery, ReadTexts};
pub use protocol::declaration::{
    LiveDeclaration, QueryDeclaration, Resolve, ResolveError, RestoredTerms, WindowDeclaration,
};
pub use protocol::firing::{
    BatchShape, ChangedStatements, Firing, FiringKey, Statements, WindowBatches,
};
pub use protocol::inject::{AmendedBatch, BatchChange, ClosedBatch, Inject, OpenBatch};
pub use protocol::input::{
    Admission, Applied, Input, MessageOutcome, MessagesInput, OfferedMessage, Push, PushHead,
    PushStatement, ReadPush, Repeat, SubscriptionAsk, SubscriptionRequest, Taken,
};
pub use protocol::refusal::{Refusal, RefusalKind};
pub use protocol::statements::{
    Numbered, NumberedBuilder, NumberedStatement, PushStatements, PushedQuad, Record, received_ms,
};
pub use protocol::status::{
    MemberId, NamePosition, QueryStatus, SourceNumbers, StreamProgress, StreamStatus,
    SubscriptionStatus,
};
pub use protocol::transactions::{NumberedTransactions, RecordedTransactions};
pub use saved::queries::{
    QueryRecord, SavedCohort, SavedCounts, SavedDerivation, SavedGroup, SavedHistory,
    SavedLiveQuery, SavedMark, SavedMember, SavedWave, SavedWindow,
};
pub use saved::streams::{
    BatchKind, SavedBatch, SavedDerived, SavedMessage, SavedMessages, SavedSource, SavedStream,
    SavedTotals, ShownBatches, StreamRecord,
};
pub use saved::{CoreRecord, RestoreError, SavedCounters, SavedLimit, SavedSubscription};
pub use streams::adaptor::{StreamTerms, Timing};
pub use streams::ahead::StreamLimits;
pub use streams::clock::StreamClock;
pub use streams::messages::{Consumers, KeptMessage};
pub use texts::LoggedTexts;
