//! Streaming transactions: which procedure runs next, and on which messages. Events in,
//! transactions out.
//!
//! Before changing anything here: this crate has no clock, thread, disk or random source, it knows
//! no term and no step, and no answer of it depends on hash order (S6). A driver asks
//! [`Core::next`] for a transaction, walks it with [`Core::run`], and gives the entry to
//! [`Core::apply`]. That is the only way by which the state changes, live and in replay.
//!
//! Rooms, lowest first: shape, refusal, event, declarations, streams, inlets, windows, keys,
//! dataflows, saved, core, texts.
//!
//! A room is a folder or a file; it imports from rooms before it in that list, never from one after
//! it. `declarations` checks what is declared and orders it. `streams` holds the messages that some
//! consumer needs, `inlets` cuts them into batches, `windows` says which of them an owned window
//! holds. `core` owns the state and decides what runs. `texts` makes shapes of what `lang` has
//! read.

mod core;
mod dataflows;
mod declarations;
mod event;
mod inlets;
mod keys;
mod refusal;
mod saved;
mod shape;
mod streams;
mod texts;
mod windows;

pub use crate::core::run::{Execution, Run};
pub use crate::core::{AbortList, CallAdmission, Core, DataflowStatus, InletStatus, Transaction};
pub use dataflows::{AbortedRound, DataflowState};
pub use event::{
    Answer, Beginning, Command, Consumed, Contradiction, Emitted, Entry, Event, Key, Origin,
    Outcome, Output, Places, Round,
};
pub use inlets::Batch;
pub use keys::{ANSWER_BYTES, REMEMBERED_NUMBERS};
pub use refusal::Refusal;
pub use saved::{RestoreError, SavedRecord};
pub use shape::{
    BatchShape, Consumption, DataflowShape, Extent, OnAbort, Part, Place, ProcedureShape,
    ProcedureUid, Recovery, StreamShape, StreamSource, TriggerEvent, TriggerShape, WindowShape,
};
pub use windows::Slide;
