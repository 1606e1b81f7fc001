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
        self.push_bytes(&bytes)
    }

    /// Adds a record that has its encoding already.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), CheckpointError> {
        self.file.write_number(bytes.len() as u64)?;
        self.file.write(bytes)
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
        until_error(move || self.take())
    }

    /// The records that are left, as bytes. An error is the last item.
    pub fn into_bytes(mut self) -> impl Iterator<Item = Result<Vec<u8>, CheckpointError>> {
        until_error(move || Ok(self.take_bytes()?.map(<[u8]>::to_vec)))
    }

    /// Takes the next record; `None` at the end of the file, which is then checked as a whole.
    ///
    /// # Errors
    /// Damage, which includes a record of another type, or IO.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CheckpointError> {
        let Some(bytes) = self.take_bytes()? else {
            return Ok(None);
        };
        let read = match postcard::take_from_bytes(bytes) {
            Ok((record, [])) => Some(record),
            _ => None,
        };
        let unreadable = || self.file.damaged("a record does not decode");
        read.map(Some).ok_or_else(unreadable)
    }

    fn take_bytes(&mut self) -> Result<Option<&[u8]>, CheckpointError> {
        if self.file.is_at_end()? {
            return Ok(None);
        }
        let length = self.file.take_small()?;
        self.file.take(length).map(Some)
    }
}

/// The items up to the first error, or to the end.
fn until_error<T>(
    mut take: impl FnMut() -> Result<Option<T>, CheckpointError>,
) -> impl Iterator<Item = Result<T, CheckpointError>> {
    let mut is_ended = false;
    std::iter::from_fn(move || {
        let next = match is_ended {
            true => None,
            false => take().transpose(),
        };
        is_ended = !matches!(next, Some(Ok(_)));
        next
    })
}
