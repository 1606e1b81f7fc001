//! Streams, batches, windows, cuts and continuous queries: events in, commands out.
//!
//! Before changing anything here: this crate has no clock, thread, disk or random source, and no
//! answer of it depends on hash order (S6). A driver feeds it inputs, logs the records it asks for,
//! and carries out its outputs: [`Coordinator::admit`] → log → [`Coordinator::apply`] →
//! [`Coordinator::next_due_cut`] → log → apply → … → [`Coordinator::on_stable`] →
//! [`Coordinator::on_fired`].

mod adaptor;
mod admit;
mod ahead;
mod amend;
mod coordinator;
mod cuts;
mod declaration;
mod derive;
mod due;
mod explain;
mod groups;
mod input;
mod numbered;
mod output;
mod queries;
mod refusal;
mod schedule;
mod status;
mod stream;
mod taken;

pub use adaptor::{StreamTerms, Timing};
pub use ahead::StreamLimits;
pub use coordinator::Coordinator;
pub use declaration::{QueryDeclaration, Resolve, ResolveError, WindowDeclaration};
pub use input::{
    Admission, Input, Push, PushHead, PushStatement, PushVerdict, ReadPush, Repeat, Taken,
};
pub use output::{
    AmendedBatch, BatchChange, BatchShape, ClosedBatch, Firing, FiringKey, Inject, JoiningMember,
    Output, Pause, QueryChange, QueryEvent, Statements, WindowBatches,
};
pub use queries::MemberId;
pub use refusal::{Refusal, RefusalKind};
pub use status::{NamePosition, QueryStatus, Reached, StreamStatus};
