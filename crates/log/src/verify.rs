//! Verifying a log without opening it: every checksum of every segment and load segment, and all
//! damage that there is, not only the first.
//!
//! The one thing to know: nothing in the folder is changed, and the caller keeps writing processes
//! away ([`crate::Log::lock_to_read`]).

use crate::copy::COPY_FILE;
use crate::error::LogError;
use crate::identity::LogIdentity;
use crate::load::{is_load_file, load_number, segment_text};
use crate::open::{TornTail, damaged_segments, read_whole};
use crate::progress::OpenProgress;
use crate::proof::PROOF_FILE;
use crate::record::{LoadSegment, Position, Record};
use crate::room::RESERVE_FILE;
use crate::segment::segment_number;
use somersault_disk::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The purpose of a file of a log, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogFileKind {
    /// A segment.
    Segment,
    /// A finished load segment.
    Load,
    /// The mark of a copy that has not become a branch.
    CopyMark,
    /// The proof file.
    Proof,
    /// The file whose space is given up when the disk is full.
    Reserve,
    /// A file that was being written when its process ended, or that opening set aside.
    Leftover,
}

impl LogFileKind {
    /// The purpose of the file of this name; `None` if the log has no such file.
    ///
    /// ```
    /// use somersault_log::LogFileKind;
    /// assert_eq!(LogFileKind::of("log-0000000001.seg"), Some(LogFileKind::Segment));
    /// assert_eq!(LogFileKind::of("notes.txt"), None);
    /// ```
    #[must_use]
    pub fn of(name: &str) -> Option<LogFileKind> {
        let whole = without_ending(name);
        let is_whole = whole.len() == name.len();
        let kind = if segment_number(whole).is_some() {
            LogFileKind::Segment
        } else if load_number(whole).is_some() && is_load_file(whole) {
            LogFileKind::Load
        } else if whole == PROOF_FILE {
            LogFileKind::Proof
        } else if whole == COPY_FILE {
            LogFileKind::CopyMark
        } else if whole == RESERVE_FILE {
            LogFileKind::Reserve
        } else {
            return None;
        };
        Some(match is_whole {
            true => kind,
            false => LogFileKind::Leftover,
        })
    }
}

/// The name without the ending of an unfinished file, or of one that was set aside.
fn without_ending(name: &str) -> &str {
    if let Some(whole) = name.strip_suffix(".tmp") {
        return whole;
    }
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    [".torn", ".orphan"]
        .into_iter()
        .find_map(|ending| unnumbered.strip_suffix(ending))
        .unwrap_or(name)
}

/// A log whose files were verified.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct VerifiedLog {
    /// Its identity; `None` if it has version 1, or does not read back.
    pub identity: Option<LogIdentity>,
    /// The number of its newest opening to write; 0 in version 1.
    pub incarnation: u64,
    /// The position before its oldest record.
    pub before: Position,
    /// The position of its newest record.
    pub end: Position,
    /// Whether it was closed in order.
    pub closed: bool,
    /// The end of the newest segment, if that does not read back and may be an incomplete write.
    pub torn: Option<TornTail>,
    /// The names of its segments, oldest first.
    pub segments: Vec<String>,
    /// The load segments that its records name.
    pub loads: BTreeSet<String>,
    /// Those of them that do not read back. A start that begins behind their records needs none.
    pub lost_loads: Vec<LostLoad>,
    /// All else that is wrong with its files; then nothing above is known for sure.
    pub damage: Vec<LogError>,
}

/// A load segment that is missing or damaged.
#[derive(Clone, Debug)]
pub struct LostLoad {
    /// Its name.
    pub name: String,
    /// The position of the record that names it.
    pub position: Position,
    /// What is wrong with it.
    pub error: LogError,
}

/// Reads all segments and load segments of a folder, and changes nothing.
///
/// ```
/// use somersault_disk::SimDisk;
/// use somersault_log::{Log, LogOptions, verify_log};
/// # fn main() -> Result<(), somersault_log::LogError> {
/// let disk = std::sync::Arc::new(SimDisk::new());
/// Log::open(disk.clone(), LogOptions::default())?.0.close()?;
/// let log = verify_log(disk, &std::sync::Arc::default())?;
/// assert!(log.closed && log.damage.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The folder cannot be listed.
pub fn verify_log(
    disk: Arc<dyn Disk>,
    progress: &Arc<OpenProgress>,
) -> Result<VerifiedLog, LogError> {
    let names = disk
        .list()
        .map_err(|error| LogError::io("list", &disk.describe(), &error))?;
    let mut verified = VerifiedLog::default();
    match read_whole(&disk, &names, progress) {
        Ok(whole) => {
            verified.identity = whole.identity;
            verified.incarnation = whole.incarnation;
            verified.before = whole.before;
            verified.end = whole.recovered.end();
            verified.closed = whole.recovered.was_closed();
            verified.segments = whole.segments;
            verified.torn = whole.recovered.torn_tail().cloned();
            verified.read_records(&*disk, whole.recovered, progress);
        }
        Err(error) => {
            let first = error.to_string();
            verified.damage.push(error);
            let others = damaged_segments(&*disk, &names).into_iter();
            let others = others.filter(|other| other.to_string() != first);
            verified.damage.extend(others);
        }
    }
    Ok(verified)
}

impl VerifiedLog {
    /// All that is wrong with its files, and with the load segments that its records name.
    pub fn all_damage(&self) -> impl Iterator<Item = &LogError> {
        let loads = self.lost_loads.iter().map(|lost| &lost.error);
        self.damage.iter().chain(loads)
    }

    /// Decodes all records, and compares the load segments that they name with their hashes.
    fn read_records(
        &mut self,
        disk: &dyn Disk,
        records: impl Iterator<Item = Result<(Position, Record), LogError>>,
        progress: &Arc<OpenProgress>,
    ) {
        let mut loads: BTreeMap<String, (Position, LoadSegment)> = BTreeMap::new();
        for record in records {
            match record {
                Ok((position, Record::Load(load))) => {
                    loads.insert(load.segment.name.clone(), (position, load.segment));
                }
                Ok(_) => {}
                Err(error) => self.damage.push(error),
            }
        }
        let lost = loads.iter().filter_map(|(name, (position, load))| {
            let error = segment_text(disk, load, progress).err()?;
            Some(LostLoad {
                name: name.clone(),
                position: *position,
                error,
            })
        });
        self.lost_loads = lost.collect();
        self.loads = loads.into_keys().collect();
    }
}
