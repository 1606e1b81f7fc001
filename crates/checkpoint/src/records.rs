//! Manifests are rows of records. A record is its length and one value in postcard's encoding.
//!
//! Before changing it: postcard describes nothing, so the fields and variants of a record's type
//! keep their order and meaning within one version of the file's kind.

use crate::container::{FileReader, FileWriter};
use crate::error::CheckpointError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use somersault_disk::Disk;

/// Writes records.
pub(crate) struct RecordWriter {
    file: FileWriter,
}

impl RecordWriter {
    /// Records are the content of this file.
    #[must_use]
    pub(crate) fn new(file: FileWriter) -> RecordWriter {
        RecordWriter { file }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of the disk, and of a value that postcard cannot write.
    pub(crate) fn push(&mut self, record: &impl Serialize) -> Result<(), CheckpointError> {
        let bytes = encoded(&self.file, record)?;
        self.file.write_number(bytes.len() as u64)?;
        self.file.write(&bytes)
    }

    /// Finishes the file, as [`FileWriter::finish_as_named`] does.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn finish_as_named(self, disk: &dyn Disk) -> Result<(), CheckpointError> {
        self.file.finish_as_named(disk)
    }
}

/// Reads records.
pub(crate) struct RecordReader {
    file: FileReader,
}

impl RecordReader {
    /// The content of this file is records.
    #[must_use]
    pub(crate) fn new(file: FileReader) -> RecordReader {
        RecordReader { file }
    }

    /// Takes the next record; `None` at the end of the file, which is then checked as a whole.
    ///
    /// # Errors
    /// Damage, which includes a record of another type, or IO.
    pub(crate) fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, CheckpointError> {
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

/// A value in postcard's encoding, for this file.
pub(crate) fn encoded(
    file: &FileWriter,
    value: &impl Serialize,
) -> Result<Vec<u8>, CheckpointError> {
    postcard::to_stdvec(value).map_err(|error| CheckpointError::Unwritable {
        file: file.place().to_owned(),
        what: format!("a record has no encoding ({error})"),
    })
}

/// The items up to the first error, or to the end.
pub(crate) fn until_error<T>(
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
