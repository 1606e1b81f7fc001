//! The dictionary of Somersault: terms to ids and back. It knows no statement, shard or snapshot,
//! and has no thread of its own: callers intern, look up and decode from any thread.
//!
//! Decoding takes no lock: an id leads to bytes that are written completely before the id is known,
//! and that never move. The modules `arena`, `dictionary`, `interner`, `located` and `memory` hold
//! all the `unsafe` there is, and run under miri.

mod arena;
mod dictionary;
mod epochs;
mod interner;
mod located;
mod memory;
mod shared_text;
mod term_view;
mod transient;

pub use dictionary::{
    Dictionary, DictionaryCounts, DictionaryExport, DictionaryMark, DictionaryRestore,
    ExportedRows, Mentions, RestoreError, RestoredLeases, SavedEpochs, SavedForm, SavedRow,
    SavedTerm, SavedText, SavedTransient, StripeRestore, TermPin, rdf_type,
};
pub use interner::{Interner, Recent};
pub use located::Located;
pub use memory::{Slots, prefetch};
pub use term_view::{TermKind, TermView, inline_view};
