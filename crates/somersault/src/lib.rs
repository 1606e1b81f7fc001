//! Somersault, the stateful stream query engine for linked data, as a library.
//!
//! [`Engine`] is the whole system in process: it keeps an RDF dataset in memory (and, with a data
//! directory, on disk), absorbs streams of timestamped statements, and answers one-shot SPARQL as
//! well as continuous C-SPARQL queries over the same data. The server and the command line use only
//! the public API of this crate.
//!
//! Rooms, lowest first: process, config, blank, error, access, info, load, metrics, mapping, push,
//! syntax, contexts, archive, engine, folder, live, replay.
//!
//! ---
//!
#![doc = include_str!("../../../README.md")]

mod access;
mod archive;
mod blank;
mod config;
mod contexts;
mod engine;
mod error;
pub mod folder;
mod info;
pub mod live;
mod load;
mod mapping;
mod metrics;
mod process;
mod push;
pub mod replay;
pub mod syntax;

pub use access::{Access, Right, RightKind};
pub use config::{Clock, EngineConfig, FabricKind};
#[doc(hidden)]
pub use contexts::contexts_of;
pub use contexts::{ContextInfo, document_loader};
#[doc(hidden)]
pub use engine::PendingCheckpoint;
pub use engine::{
    Backup, BegunUpdate, CallRequest, CancelToken, DeferredQuery, DeferredUpdate, Dump,
    DurableInfo, DurableOptions, DurableStart, Engine, FastPath, NewQuery, PendingCall,
    PendingUpdate, PreparedQuery, QueryOptions, QueryPage, QueryRequest, QueryResults, Registered,
    Replacement, Txn, UpdateOptions, UpdateRequest, UpdateSummary, WhenFull,
};
pub use error::{EngineError, LimitKind};
pub use info::{
    AbortInfo, AbortedInfo, CheckpointInfo, ConsumedStreamInfo, DataflowInfo, GroupInfo, Health,
    HealthStatus, OwnedWindowInfo, ParameterInfo, ProcedureInfo, QueryInfo, SourceInfo,
    StoppedInfo, StreamInfo, StreamProgress, WindowInfo,
};
pub use load::{GraphWrite, LoadOptions, LoadProgress, LoadSummary};
pub use mapping::{MappedMessage, MappedMessages, Mapping};
pub use metrics::{MemoryUse, MetricsSnapshot, ShardMetrics, StreamMetrics};
pub use push::letter::DeadLetter;
pub use push::messages::{
    DocumentPush, MessageNumbers, MessagePush, MessageRefusal, MessageSender, MessagesReceipt,
};
pub use push::numbered::{
    NumberedMessage, NumberedOutcome, NumberedPush, NumberedReceipt, NumberedSyntax,
};
pub use push::{Push, PushLines, PushReceipt, StreamStatement};

#[cfg(feature = "futures")]
pub use somersault_continuous::SubscriptionStream;
pub use somersault_continuous::{
    Backlog, DeltaMode, DurableEvent, DurableReader, FiringId, FiringResult, Latency,
    ParseFiringIdError, QueryMetrics, RecvTimeoutError, SubscribeOptions, Subscription,
    SubscriptionEvent, WhenSlow,
};
pub use somersault_lang::{Argument, Statement};
pub use somersault_lines::{
    Contexts, DocumentSyntax, Message, MessageLimits, MessageReader, MessageSyntax, MessageWriter,
    RefusedMessage, TimedLines,
};
pub use somersault_log::{OpenPhase, OpenProgress};
pub use somersault_model::{EventTime, Limits, ParseEventTimeError, Place, Sn};
pub use somersault_query::{Abort, AbortCause, Remote, RemoteSolutions};
pub use somersault_results::{
    Answer, AnswerError, AnswerKind, AnswerWriter, Cell, CellKind, Cursor, Row, Rows, Triples,
    answer_format,
};
pub use somersault_runtime::{
    AnswerRoom, CallAnswer, CallKey, CallOutcome, CheckpointConfig, CheckpointStatus, FeedEnd,
    FeedReader, FeedStart, NewestCheckpoint, RestartEstimate, StreamMessage, TransactionCounts,
};

/// A process without threads, for simulations.
#[doc(hidden)]
pub mod process_simulation {
    pub use crate::process::{Part, SimulatedProcess, Turn};
}

/// The disk under an engine with a data directory, for tests that tear, fill and crash it.
pub mod disk {
    pub use somersault_disk::{
        Access, AlteredDisk, CrashKeep, Disk, DiskFile, DiskLock, RealDisk, SimDisk,
    };
}

/// The RDF terms of this API.
pub use oxrdf;
/// The RDF syntaxes that [`Engine::load`] and [`Answer::write_graph`] support.
pub use oxrdfio::RdfFormat;
/// The SPARQL result formats that [`Answer::write_results`] supports.
pub use sparesults::QueryResultsFormat;
