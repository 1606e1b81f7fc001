//! Files of the data folder as the log reads and names them.
//!
//! The one thing to know: a failure names the file with its folder, so every message about a file
//! goes through [`place`].

use crate::error::LogError;
use somersault_disk::Disk;
use std::io::Read;

/// A file of the data folder as messages name it.
pub(crate) fn place(disk: &dyn Disk, name: &str) -> String {
    format!("{}/{name}", disk.describe())
}

/// The first `length` bytes of a file, or all if it is shorter.
pub(crate) fn read_file(disk: &dyn Disk, name: &str, length: u64) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    disk.read(name)
        .and_then(|reader| reader.take(length).read_to_end(&mut bytes))
        .map_err(|error| LogError::io("read", &place(disk, name), &error))?;
    Ok(bytes)
}

/// `name` with `ending`; with a number behind it if that name is taken.
pub(crate) fn free_name(names: &[String], name: &str, ending: &str) -> String {
    let first = format!("{name}{ending}");
    let numbered = (2..).map(|number| format!("{name}{ending}{number}"));
    let is_free = |candidate: &String| !names.contains(candidate);
    let mut candidates = std::iter::once(first.clone()).chain(numbered);
    candidates.find(is_free).unwrap_or(first)
}
