//! How far a source is: the stream knows its positions, and a file or the memory has its note.

use crate::declared::write_whole;
use crate::error::SourceError;
use crate::source::Ledger;
use serde_json::Value;
use somersault::Engine;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the notes of sources without a data folder are, by name.
pub(crate) type NotesInMemory = Arc<Mutex<BTreeMap<String, Value>>>;

/// The place of a source's note.
#[derive(Clone, Debug)]
pub(crate) enum NotePlace {
    File(PathBuf),
    Memory(NotesInMemory, String),
}

impl NotePlace {
    fn read(&self) -> Option<Value> {
        match self {
            // A note that is not there, or was damaged, is none: the source says what it then does.
            NotePlace::File(path) => serde_json::from_slice(&std::fs::read(path).ok()?).ok(),
            NotePlace::Memory(notes, name) => lock(notes).get(name).cloned(),
        }
    }

    fn write(&self, note: Value) -> Result<(), SourceError> {
        match self {
            NotePlace::File(path) => {
                write_whole(path, &note.to_string()).map_err(SourceError::Note)?;
            }
            NotePlace::Memory(notes, name) => _ = lock(notes).insert(name.clone(), note),
        }
        Ok(())
    }

    /// Removes the note: its source is dropped.
    pub(crate) fn forget(&self) {
        match self {
            NotePlace::File(path) => {
                let removed = std::fs::remove_file(path);
                if let Err(error) = removed
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::warn!("the note {} stays: {error}", path.display());
                }
            }
            NotePlace::Memory(notes, name) => _ = lock(notes).remove(name),
        }
    }
}

fn lock(
    notes: &Mutex<BTreeMap<String, Value>>,
) -> std::sync::MutexGuard<'_, BTreeMap<String, Value>> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ledger of a source that feeds a stream of an engine.
pub(crate) struct StreamLedger {
    pub(crate) engine: Engine,
    pub(crate) stream: String,
    pub(crate) place: NotePlace,
}

impl Ledger for StreamLedger {
    fn position(&self, partition: &str) -> Result<Option<u64>, SourceError> {
        Ok(self.engine.source_position(&self.stream, partition)?)
    }

    fn note(&self) -> Option<Value> {
        self.place.read()
    }

    fn keep(&self, note: Value) -> Result<(), SourceError> {
        self.place.write(note)
    }
}
