//! Files that are rows of records: of the coordinator, of answers, of manifests. A record is its
//! length and one value in postcard's encoding.
//!
//! Before changing it: postcard describes nothing, so the fields and variants of a record's type
//! keep their order and meaning within one version of the file's kind.

use crate::container::{FileReader, FileSummary, FileWriter};
use crate::error::CheckpointError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes records.
pub struct RecordWriter {
    file: FileWriter,
}

impl RecordWriter {
    /// Records are the content of this file.
    #[must_use]
    pub fn new(file: FileWriter) -> RecordWriter {
        RecordWriter { file }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of the disk, and of a value that postcard cannot write.
    pub fn push(&mut self, record: &impl Serialize) -> Result<(), CheckpointError> {
        let bytes = postcard::to_stdvec(record).map_err(|error| CheckpointError::Unwritable {
            file: self.file.place().to_owned(),
            what: format!("a record has no encoding ({error})"),
        })?;
        self.file.write_number(bytes.len() as u64)?;
        self.file.write(&bytes)
    }

    /// The file, to be finished.
    #[must_use]
    pub fn into_file(self) -> FileWriter {
        self.file
    }

    /// Finishes the file, as [`FileWriter::finish`] does.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(self) -> Result<FileSummary, CheckpointError> {
        self.file.finish()
    }
}

/// Reads records.
pub struct RecordReader {
    file: FileReader,
}

impl RecordReader {
    /// The content of this file is records.
    #[must_use]
    pub fn new(file: FileReader) -> RecordReader {
        RecordReader { file }
    }

    /// The records that are left, all of one type. An error is the last item.
    pub fn into_records<T: DeserializeOwned>(
        mut self,
    ) -> impl Iterator<Item = Result<T, CheckpointError>> {
        let mut is_ended = false;
        std::iter::from_fn(move || {
            let next = if is_ended {
                None
            } else {
                self.take().transpose()
            };
            is_ended = !matches!(next, Some(Ok(_)));
            next
        })
    }

    /// Takes the next record; `None` at the end of the file, which is then checked as a whole.
    ///
    /// # Errors
    /// Damage, which includes a record of another type, or IO.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CheckpointError> {
        if self.file.is_at_end()? {
            return Ok(None);
        }
        let length = self.file.take_small()?;
        let read = match postcard::take_from_bytes(self.file.take(length)?) {
            Ok((record, [])) => Some(record),
            _ => None,
        };
        let unreadable = || self.file.damaged("a record does not decode");
        read.map(Some).ok_or_else(unreadable)
    }
}
