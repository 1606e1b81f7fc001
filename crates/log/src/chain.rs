//! The segments that the log consists of, and trimming: taking away those that a checkpoint makes
//! needless.
//!
//! 1. The proof says which segment is the oldest from now on. From here on the trim has happened:
//!    an opening finishes what a crash left.
//! 2. Load segments go that no kept record names. The folder is synced, so that no load segment
//!    outlives the segment that names it.
//! 3. Segments go, oldest first, and the folder is synced.
//!
//! Before changing anything here: the newest segment always stays, as the log goes on in it.

use crate::copy::LogCopy;
use crate::error::LogError;
use crate::file::{place, read_file};
use crate::hold::FolderHolds;
use crate::identity::Origin;
use crate::load::set_orphan_aside;
use crate::proof::{Proof, ProofFile};
use crate::record::Position;
use crate::segment::{Header, read_extent, read_header, segment_name};
use parking_lot::{Condvar, Mutex};
use somersault_disk::Disk;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// What trimming took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// The number of segments.
    pub segments: u64,
    /// The number of load segments.
    pub load_segments: u64,
    /// The bytes of both.
    pub bytes: u64,
}

/// The segments of a log that is written.
pub(crate) struct Chain {
    proof: ProofFile,
    links: Mutex<Links>,
    /// Trims wait here until the segments that they take are not written any more.
    retired: Condvar,
    /// One trim at a time.
    trimming: Mutex<()>,
    /// Held while a record that names a load segment is appended, until the name is known here.
    naming: Mutex<()>,
    holds: FolderHolds,
    /// The bytes of segments that trims took away.
    trimmed_bytes: AtomicU64,
}

/// The end of the log that was durable at one instant.
#[derive(Clone, Copy)]
pub(crate) struct DurableEnd {
    /// The newest segment.
    pub(crate) segment: u64,
    /// The length through which it is durable.
    pub(crate) length: u64,
    pub(crate) durable: Position,
    /// The opening that writes.
    pub(crate) origin: Origin,
}

struct Links {
    /// The headers of all segments, oldest first.
    headers: Vec<Header>,
    /// The load segments that records name, with the positions of those records.
    loads: Vec<(Position, String)>,
    /// The segments through this number are not written any more.
    retired: u64,
    /// Records before this one have not been read.
    known_from: Position,
    /// Load segments of before this opening that no record names which was read.
    unnamed: Vec<String>,
}

/// A part of the chain that goes.
struct Cut {
    headers: Vec<Header>,
    /// The segment that will be the oldest.
    oldest: Header,
}

impl Chain {
    /// The chain of these segments. Segments before `known_from` were not read.
    pub(crate) fn new(
        proof: ProofFile,
        headers: Vec<Header>,
        loads: Vec<(Position, String)>,
        known_from: Position,
        unnamed: Vec<String>,
    ) -> Chain {
        Chain {
            proof,
            links: Mutex::new(Links {
                retired: headers.last().map_or(0, |newest| newest.number - 1),
                headers,
                loads,
                known_from,
                unnamed,
            }),
            retired: Condvar::new(),
            trimming: Mutex::new(()),
            naming: Mutex::new(()),
            holds: FolderHolds::default(),
            trimmed_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn proof(&self) -> &ProofFile {
        &self.proof
    }

    /// Adds the segment behind the newest, which is still written.
    pub(crate) fn push(&self, header: Header) {
        self.links.lock().headers.push(header);
    }

    /// The segment of this number, and those before it, are not written any more.
    pub(crate) fn retire(&self, number: u64) {
        self.links.lock().retired = number;
        self.retired.notify_all();
    }

    /// Appends a record that names a load segment. `append` returns its position.
    ///
    /// # Errors
    /// Those of `append`.
    pub(crate) fn name_load(
        &self,
        name: &str,
        append: impl FnOnce() -> Result<Position, LogError>,
    ) -> Result<Position, LogError> {
        let _naming = self.naming.lock();
        let position = append()?;
        self.links.lock().loads.push((position, name.to_owned()));
        Ok(position)
    }

    /// The holds on the files.
    pub(crate) fn holds(&self) -> &FolderHolds {
        &self.holds
    }

    /// The files that hold the records behind `after`, up to the durable end that `end` returns.
    ///
    /// # Errors
    /// The log has not all of these records any more; those of the disk.
    pub(crate) fn copy(
        &self,
        disk: &dyn Disk,
        after: Position,
        end: impl FnOnce() -> DurableEnd,
    ) -> Result<LogCopy, LogError> {
        let (end, headers, loads) = {
            let _naming = self.naming.lock();
            let end = end();
            let links = self.links.lock();
            let headers = links.headers.iter().filter(|it| it.number <= end.segment);
            (
                end,
                headers.copied().collect::<Vec<_>>(),
                links.loads.clone(),
            )
        };
        let first = headers.partition_point(|it| it.first <= after.next());
        let headers = &headers[first.saturating_sub(1)..];
        let oldest = headers
            .first()
            .filter(|oldest| oldest.first <= after.next());
        let oldest = oldest.ok_or_else(|| LogError::Missing {
            file: format!("{}/{}", disk.describe(), segment_name(1)),
            what: format!("the records from {} on are needed", after.next()),
        })?;
        let named = loads
            .into_iter()
            .filter(|(position, _)| (oldest.first..=end.durable).contains(position));
        let named: BTreeSet<String> = named.map(|(_, name)| name).collect();
        let segments = headers.iter().rev().map(|it| segment_name(it.number));
        let mut files = Vec::new();
        for name in named.into_iter().chain(segments) {
            let length = bytes_of(disk, std::iter::once(name.clone()))?;
            let counts = match name == segment_name(end.segment) {
                true => end.length,
                false => length,
            };
            files.push((name, counts));
        }
        let proof = Proof {
            segment: end.segment,
            length: end.length,
            durable: end.durable,
            closed: false,
            oldest: oldest.number,
            origin: Some(end.origin),
        };
        Ok(LogCopy {
            proof: proof.bytes().to_vec(),
            files,
            end: end.durable,
        })
    }

    /// The position of the oldest record.
    pub(crate) fn first(&self) -> Position {
        let links = self.links.lock();
        links.headers.first().map_or(Position(1), |it| it.first)
    }

    /// The bytes of segments that trims took away.
    pub(crate) fn trimmed_bytes(&self) -> u64 {
        self.trimmed_bytes.load(Ordering::Relaxed)
    }

    /// Takes away the segments whose records are all at or before `through`; nothing while there is
    /// a hold.
    ///
    /// # Errors
    /// Those of the disk; the next opening finishes what is left.
    pub(crate) fn trim(&self, disk: &dyn Disk, through: Position) -> Result<Trimmed, LogError> {
        let _one = self.trimming.lock();
        if self.holds.is_held() {
            return Ok(Trimmed::default());
        }
        let (cut, known_from) = {
            let mut links = self.links.lock();
            while links.is_written() {
                self.retired.wait(&mut links);
            }
            (links.cut(through), links.known_from)
        };
        let Some(cut) = cut else {
            return Ok(Trimmed::default());
        };
        let unread = cut.headers.iter().filter(|it| it.first < known_from);
        let unread: Vec<u64> = unread.map(|it| it.number).collect();
        let unread = loads_before(disk, &unread, cut.oldest.first)?;
        self.proof.trim(cut.oldest.number)?;
        let (mut loads, orphans) = self.links.lock().remove(&cut, unread);
        let names = disk.list();
        let names = names.map_err(|error| LogError::io("list", &disk.describe(), &error))?;
        // One that a checkpoint covers may have been lost before.
        loads.retain(|name| names.contains(name));
        let numbers: Vec<u64> = cut.headers.iter().map(|it| it.number).collect();
        let segment_bytes = bytes_of(disk, numbers.iter().map(|number| segment_name(*number)))?;
        self.trimmed_bytes
            .fetch_add(segment_bytes, Ordering::Relaxed);
        let trimmed = Trimmed {
            segments: numbers.len() as u64,
            load_segments: loads.len() as u64,
            bytes: segment_bytes + bytes_of(disk, loads.iter().cloned())?,
        };
        remove_trimmed(disk, &numbers, &loads)?;
        for orphan in &orphans {
            set_orphan_aside(disk, &names, orphan)?;
        }
        Ok(trimmed)
    }
}

impl Links {
    /// Whether a segment before the newest is still written.
    fn is_written(&self) -> bool {
        (self.headers.last()).is_some_and(|newest| self.retired + 1 < newest.number)
    }

    /// The segments whose records are all at or before `through`, if there are any.
    fn cut(&self, through: Position) -> Option<Cut> {
        let kept = self.headers.get(1..)?;
        let count = kept.partition_point(|next| next.first <= through.next());
        (count > 0).then(|| Cut {
            headers: self.headers[..count].to_vec(),
            oldest: self.headers[count],
        })
    }

    /// Takes out the segments of the cut. Returns the load segments that only their records name,
    /// and those that no record names at all. `unread` are named by segments of the cut that had
    /// not been read.
    fn remove(&mut self, cut: &Cut, unread: Vec<String>) -> (BTreeSet<String>, Vec<String>) {
        self.headers.drain(..cut.headers.len());
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.loads)
            .into_iter()
            .partition(|(position, _)| *position < cut.oldest.first);
        self.loads = kept;
        let is_kept = |name: &String| self.loads.iter().any(|(_, other)| other == name);
        let gone = gone.into_iter().map(|(_, name)| name).chain(unread);
        let gone: BTreeSet<String> = gone.filter(|name| !is_kept(name)).collect();
        self.unnamed.retain(|name| !gone.contains(name));
        let is_all_known = cut.oldest.first >= self.known_from;
        let orphans = if is_all_known {
            std::mem::take(&mut self.unnamed)
        } else {
            Vec::new()
        };
        (gone, orphans)
    }
}

/// The load segments that records before `end` name, in the segments with these numbers.
///
/// # Errors
/// Those of the disk, or a damaged header.
pub(crate) fn loads_before(
    disk: &dyn Disk,
    numbers: &[u64],
    end: Position,
) -> Result<Vec<String>, LogError> {
    let mut names = Vec::new();
    for &number in numbers {
        let name = segment_name(number);
        let bytes = read_file(disk, &name, u64::MAX)?;
        let file = place(disk, &name);
        if let Some(header) = read_header(&file, number, &bytes, bytes.len() as u64)? {
            let named = read_extent(&header, &bytes, Some(end)).load_segments;
            names.extend(named.into_iter().map(|(_, name)| name));
        }
    }
    Ok(names)
}

/// Takes away segments that the proof has trimmed, and the load segments that only they name.
///
/// # Errors
/// Those of the disk.
pub(crate) fn remove_trimmed(
    disk: &dyn Disk,
    numbers: &[u64],
    loads: &BTreeSet<String>,
) -> Result<(), LogError> {
    let remove = |name: &str| {
        disk.remove(name)
            .map_err(|error| LogError::io("remove", &place(disk, name), &error))
    };
    let sync = || {
        disk.sync_folder()
            .map_err(|error| LogError::io("sync", &disk.describe(), &error))
    };
    if !loads.is_empty() {
        loads.iter().try_for_each(|name| remove(name))?;
        sync()?;
    }
    if !numbers.is_empty() {
        let mut names = numbers.iter().map(|number| segment_name(*number));
        names.try_for_each(|name| remove(&name))?;
        sync()?;
    }
    Ok(())
}

fn bytes_of(disk: &dyn Disk, names: impl Iterator<Item = String>) -> Result<u64, LogError> {
    let lengths = names.map(|name| {
        disk.length(&name)
            .map_err(|error| LogError::io("look at", &place(disk, &name), &error))
    });
    lengths.sum()
}
