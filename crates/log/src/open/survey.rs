//! Verifying a folder before anything in it is changed.
//!
//! 1. The proof, and the headers of all segments: the numbers have no gap, and all segments are of
//!    one log, in the order in which its openings wrote them.
//! 2. The segments that hold records behind the wanted position, frame by frame. A segment ends
//!    where the next one begins; within one opening, to the byte.
//! 3. The end of the newest one: an incomplete write, or damage.
//! 4. The proof and the load segments against what was read.
//!
//! Before changing anything here: an opening copies records that were not proven into a segment of
//! its own, so two segments may hold the same records. Those of the newer opening count.

use super::TornTail;
use crate::error::LogError;
use crate::file::{place, read_file};
use crate::identity::LogIdentity;
use crate::load::{is_load_file, is_unfinished};
use crate::progress::OpenProgress;
use crate::proof::{PROOF_FILE, Proof};
use crate::record::{DeliveredRecord, Position};
use crate::segment::{
    Extent, HEADER_BYTES, Header, claims_behind, read_extent, read_header, segment_name,
    segment_number, written,
};
use somersault_disk::Disk;
use somersault_model::QueryUid;
use std::collections::{BTreeMap, HashSet};

/// A segment of the log.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) header: Header,
    /// The bytes that count; all if the segment was not read.
    pub(super) length: u64,
}

/// The newest segment.
pub(super) struct Newest {
    pub(super) header: Header,
    /// Its valid bytes.
    pub(super) bytes: Vec<u8>,
}

/// The contents of the folder. Making a survey changes nothing.
pub(super) struct Survey {
    /// The segments of the log, oldest first.
    pub(super) segments: Vec<Segment>,
    /// The number of segments that were not read, because all their records are at or before the
    /// wanted position.
    pub(super) unread: usize,
    /// Numbers of segments that were trimmed and are still there.
    pub(super) leftovers: Vec<u64>,
    /// The number of the newest segment, if its creation was not finished.
    pub(super) unfinished: Option<u64>,
    /// The position that would come next.
    pub(super) next: Position,
    pub(super) closed: bool,
    pub(super) torn: Option<TornTail>,
    /// The load segments that records name which were read, with the positions of those records.
    pub(super) load_segments: Vec<(Position, String)>,
    /// Those that no wanted record names, and that are missing or empty.
    pub(super) lost_loads: Vec<String>,
    pub(super) delivered: BTreeMap<QueryUid, DeliveredRecord>,
    pub(super) proof: Option<Proof>,
    /// The position of the last record that a witness or the proof shows to have been durable.
    pub(super) proven: Position,
    pub(super) newest: Option<Newest>,
}

impl Survey {
    /// Verifies the folder, for its records after `after`. Load segments are needed by records
    /// after `loads_after`.
    pub(super) fn of(
        disk: &dyn Disk,
        names: &[String],
        (after, loads_after): (Position, Position),
        progress: &OpenProgress,
    ) -> Result<Survey, LogError> {
        let proof = Proof::read(disk, names)?;
        let (leftovers, kept) = segment_numbers(names, proof.as_ref());
        let (headers, unfinished) = read_headers(disk, &kept, proof.as_ref())?;
        if let Some(oldest) = headers.first()
            && oldest.first > after.next()
        {
            return Err(begins_late(disk, oldest, after, proof.as_ref()));
        }
        let wanted = headers.partition_point(|header| header.first <= after.next());
        let mut survey = Survey {
            segments: Vec::new(),
            unread: wanted.saturating_sub(1),
            leftovers,
            unfinished,
            next: Position(1),
            closed: false,
            torn: None,
            load_segments: Vec::new(),
            lost_loads: Vec::new(),
            delivered: BTreeMap::new(),
            proof,
            proven: Position::START,
            newest: None,
        };
        survey.read_segments(disk, names, &headers, progress)?;
        survey.check_proof(disk)?;
        survey.check_load_segments(disk, names, loads_after)?;
        survey.check_end(disk, after)?;
        Ok(survey)
    }

    /// The position before the oldest record that the folder has.
    pub(super) fn before_oldest(disk: &dyn Disk, names: &[String]) -> Result<Position, LogError> {
        let proof = Proof::read(disk, names)?;
        let (_, kept) = segment_numbers(names, proof.as_ref());
        let (headers, _) = read_headers(disk, &kept, proof.as_ref())?;
        let oldest = headers.first().map_or(Position(1), |oldest| oldest.first);
        Ok(Position(oldest.0 - 1))
    }

    /// The identity that the log has so far.
    pub(super) fn identity(&self) -> Option<LogIdentity> {
        let mut of_segments = self.segments.iter().filter_map(|it| it.header.origin);
        let of_proof = self.proof.and_then(|proof| proof.origin);
        let origin = of_segments.next_back().or(of_proof);
        origin.map(|origin| origin.identity)
    }

    /// The number of openings to write that segments and proof show.
    pub(super) fn incarnation(&self) -> u64 {
        let newest = self.newest.as_ref();
        let of_proof = self.proof.and_then(|proof| proof.origin);
        newest
            .map_or(0, |newest| newest.header.incarnation())
            .max(of_proof.map_or(0, |origin| origin.incarnation))
    }

    /// Reads the segments that hold wanted records.
    fn read_segments(
        &mut self,
        disk: &dyn Disk,
        names: &[String],
        headers: &[Header],
        progress: &OpenProgress,
    ) -> Result<(), LogError> {
        for &header in headers {
            let name = segment_name(header.number);
            let length = length_of(disk, &name)?;
            self.segments.push(Segment { header, length });
        }
        let wanted = &self.segments[self.unread..];
        let mut to_read: u64 = wanted.iter().map(|segment| segment.length).sum();
        if self.unread == 0 {
            // Which load segments belong to unread segments is not known.
            let loads = names.iter().filter(|name| is_finished_load(name));
            to_read += loads
                .map(|name| length_of(disk, name))
                .sum::<Result<u64, _>>()?;
        }
        progress.begin(2 * to_read);
        let mut index = self.unread;
        while let Some(segment) = self.segments.get(index) {
            let length = segment.length;
            self.read(disk, index, headers.get(index + 1))?;
            progress.add(length as usize);
            index += 1;
        }
        Ok(())
    }

    /// Reads one segment; `following` is the header of the one behind it.
    fn read(
        &mut self,
        disk: &dyn Disk,
        index: usize,
        following: Option<&Header>,
    ) -> Result<(), LogError> {
        let header = self.segments[index].header;
        let name = segment_name(header.number);
        let mut bytes = read_file(disk, &name, u64::MAX)?;
        let extent = counted_extent(&header, &bytes, following);
        let following = following.filter(|next| !self.is_unused(index, &extent, next));
        if following.is_none() && index + 1 < self.segments.len() {
            self.segments.truncate(index + 1);
            self.unfinished = Some(header.number + 1);
        }
        if let Some(following) = following {
            check_joint(disk, &header, &extent, following)?;
        }
        self.next = extent.next;
        self.proven = extent.durable.max(Position(header.first.0 - 1));
        self.closed = extent.closed;
        self.segments[index].length = extent.length as u64;
        if following.is_none() {
            self.judge_end(disk, &header, &extent, &bytes)?;
            bytes.truncate(extent.length);
            self.newest = Some(Newest { header, bytes });
        }
        self.load_segments.extend(extent.load_segments);
        self.delivered.extend(extent.delivered);
        Ok(())
    }

    /// Whether the log may never have come to the segment behind this one, whose extent is given:
    /// it is the newest and has nothing behind its header, which was written beside the last group
    /// before it. So that group need not be durable, and this segment is the newest.
    fn is_unused(&self, index: usize, extent: &Extent, next: &Header) -> bool {
        let header = &self.segments[index].header;
        let behind = &self.segments[index + 1..];
        let is_shown = self.proof.is_some_and(|proof| proof.segment >= next.number);
        let is_empty = behind.len() == 1 && behind[0].length == next.length() as u64;
        let is_same_opening = next.origin == header.origin;
        let fits = extent.next <= next.first;
        is_empty && is_same_opening && fits && !extent.continued && !is_shown
    }

    /// Judges the end of the newest segment.
    fn judge_end(
        &mut self,
        disk: &dyn Disk,
        header: &Header,
        extent: &Extent,
        bytes: &[u8],
    ) -> Result<(), LogError> {
        let file = place(disk, &segment_name(header.number));
        if extent.continued {
            let next = segment_name(header.number + 1);
            if self.unfinished.is_some() {
                return Err(LogError::Damaged {
                    file: place(disk, &next),
                    offset: 0,
                    what: "its header is incomplete, yet the log went on behind it".to_owned(),
                });
            }
            let what = format!(
                "{} says that the log goes on in it",
                segment_name(header.number)
            );
            return Err(missing(disk, &next, what));
        }
        check_claims(disk, header, extent, bytes)?;
        let behind = written(&bytes[extent.length..]);
        if !behind.is_empty() {
            self.closed = false;
            self.torn = Some(TornTail {
                file,
                offset: extent.length as u64,
                bytes: behind.len() as u64,
                kept: None,
                end: Position(extent.next.0 - 1),
                proven: self.proven,
            });
        }
        Ok(())
    }

    /// Refuses a log that has lost records, or a segment, since the proof was written.
    fn check_proof(&mut self, disk: &dyn Disk) -> Result<(), LogError> {
        let Some(proof) = self.proof else {
            return Ok(());
        };
        let found = Position(self.next.0 - 1);
        let newest = self.segments.last().map(|segment| segment.header);
        let number = newest.map_or(0, |newest| newest.number);
        if proof.durable > found {
            return Err(LogError::Short {
                file: place(
                    disk,
                    &segment_name(self.unfinished.unwrap_or(number).max(1)),
                ),
                proof: place(disk, PROOF_FILE),
                found,
                durable: proof.durable,
                closed: proof.closed,
            });
        }
        if proof.segment > number {
            let name = segment_name(proof.segment);
            if self.unfinished == Some(proof.segment) {
                return Err(LogError::Damaged {
                    file: place(disk, &name),
                    offset: 0,
                    what: format!("its header is incomplete, yet {PROOF_FILE} shows it whole"),
                });
            }
            let what = format!("{PROOF_FILE} says that the log goes on in it");
            return Err(missing(disk, &name, what));
        }
        let opening = proof.origin.map_or(0, |origin| origin.incarnation);
        if let Some(newest) = newest.filter(|newest| newest.incarnation() < opening) {
            let what = format!(
                "it is older than {PROOF_FILE}: opening {} of the log began it, and the log has been opened {opening} times",
                newest.incarnation()
            );
            return Err(foreign(disk, newest.number, what));
        }
        self.proven = self.proven.max(proof.durable);
        if let Some(torn) = &mut self.torn {
            torn.proven = self.proven;
        }
        Ok(())
    }

    /// Refuses a log whose wanted records name a load segment that is not there. Of the others,
    /// notes those that are missing or empty: more would take reading them.
    fn check_load_segments(
        &mut self,
        disk: &dyn Disk,
        names: &[String],
        after: Position,
    ) -> Result<(), LogError> {
        let present: HashSet<&String> = names.iter().collect();
        for (position, name) in &self.load_segments {
            let is_there = present.contains(name);
            if *position > after && !is_there {
                let what = "the log says that it was loaded".to_owned();
                return Err(missing(disk, name, what));
            }
            if *position <= after && (!is_there || length_of(disk, name)? == 0) {
                self.lost_loads.push(place(disk, name));
            }
        }
        // The first segment is durable before anything else is made in the folder.
        let Some(name) = names.iter().find(|name| is_load_file(name)) else {
            return Ok(());
        };
        let file = segment_name(1);
        match (self.segments.is_empty(), self.unfinished) {
            (false, _) => Ok(()),
            (true, None) => Err(missing(disk, &file, format!("{name} belongs to a log"))),
            (true, Some(_)) => Err(LogError::Damaged {
                file: place(disk, &file),
                offset: 0,
                what: format!(
                    "it ends within its header, yet {name} lies beside it, which was made after that header was durable"
                ),
            }),
        }
    }

    /// Refuses a log that ends before the position after which its records are wanted.
    fn check_end(&self, disk: &dyn Disk, after: Position) -> Result<(), LogError> {
        let end = Position(self.next.0 - 1);
        if end >= after {
            return Ok(());
        }
        Err(LogError::Ended {
            folder: disk.describe(),
            end,
            after,
        })
    }
}

/// Examines each segment by itself, to find damage beyond the first that a survey finds.
pub(super) fn examine_segments(disk: &dyn Disk, names: &[String]) -> Vec<LogError> {
    // A damaged proof is a finding of the survey. Segments are then examined from the first on.
    let proof = Proof::read(disk, names).ok().flatten();
    let (_, numbers) = segment_numbers(names, proof.as_ref());
    let headers: Vec<Result<Option<Header>, LogError>> = numbers
        .iter()
        .map(|&number| header_of(disk, number))
        .collect();
    let mut found = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        let following = match headers.get(index + 1) {
            Some(Ok(Some(following))) => Some(following),
            _ => None,
        };
        match header {
            Ok(Some(header)) => found.extend(examine_segment(disk, header, following).err()),
            Ok(None) => {}
            Err(error) => found.push(error.clone()),
        }
    }
    found
}

fn examine_segment(
    disk: &dyn Disk,
    header: &Header,
    following: Option<&Header>,
) -> Result<(), LogError> {
    let bytes = read_file(disk, &segment_name(header.number), u64::MAX)?;
    let extent = counted_extent(header, &bytes, following);
    match following {
        Some(following) => check_joint(disk, header, &extent, following),
        None => check_claims(disk, header, &extent, &bytes),
    }
}

/// The numbers of the segments that were trimmed and are still there, and of those of the log.
fn segment_numbers(names: &[String], proof: Option<&Proof>) -> (Vec<u64>, Vec<u64>) {
    let numbers = names.iter().filter_map(|name| segment_number(name));
    let mut numbers: Vec<u64> = numbers.filter(|number| *number > 0).collect();
    numbers.sort_unstable();
    let oldest = proof.map_or(0, |proof| proof.oldest);
    let kept = numbers.split_off(numbers.partition_point(|number| *number < oldest));
    (numbers, kept)
}

/// The header of a segment; `None` if its creation was not finished.
fn header_of(disk: &dyn Disk, number: u64) -> Result<Option<Header>, LogError> {
    let name = segment_name(number);
    let bytes = read_file(disk, &name, HEADER_BYTES as u64)?;
    let length = length_of(disk, &name)?;
    read_header(&place(disk, &name), number, &bytes, length)
}

/// The part of a segment that counts: to the record with which the segment of a later opening
/// begins.
fn counted_extent(header: &Header, bytes: &[u8], following: Option<&Header>) -> Extent {
    let of_later = following.filter(|next| next.incarnation() > header.incarnation());
    read_extent(header, bytes, of_later.map(|next| next.first))
}

/// Refuses the newest segment if a witness behind its first bad frame shows that records were
/// durable there.
fn check_claims(
    disk: &dyn Disk,
    header: &Header,
    extent: &Extent,
    bytes: &[u8],
) -> Result<(), LogError> {
    match claims_behind(header, bytes, extent.length) {
        Some(claimed) if claimed >= extent.next => Err(LogError::Damaged {
            file: place(disk, &segment_name(header.number)),
            offset: extent.length as u64,
            what: format!(
                "record {} does not read back, yet the log was durable through record {claimed}",
                extent.next
            ),
        }),
        _ => Ok(()),
    }
}

/// The identity in the newest segment that shows one.
///
/// # Errors
/// A segment of another version, or IO.
pub(super) fn identity_of_segments(
    disk: &dyn Disk,
    names: &[String],
) -> Result<Option<LogIdentity>, LogError> {
    let (_, numbers) = segment_numbers(names, None);
    for number in numbers.into_iter().rev() {
        let origin = header_of(disk, number)?.and_then(|header| header.origin);
        if let Some(origin) = origin {
            return Ok(Some(origin.identity));
        }
    }
    Ok(None)
}

/// Reads the headers of the segments with these numbers, which are in order. Returns them with the
/// number of the last segment if its creation was not finished.
fn read_headers(
    disk: &dyn Disk,
    numbers: &[u64],
    proof: Option<&Proof>,
) -> Result<(Vec<Header>, Option<u64>), LogError> {
    let Some(&lowest) = numbers.first() else {
        return match proof {
            None => Ok((Vec::new(), None)),
            Some(proof) => {
                let what = format!("{PROOF_FILE} belongs to a log");
                Err(missing(disk, &segment_name(proof.segment.max(1)), what))
            }
        };
    };
    let mut headers: Vec<Header> = Vec::new();
    let mut identity = proof
        .and_then(|proof| proof.origin)
        .map(|origin| origin.identity);
    let expected = proof.map_or(lowest, |proof| proof.oldest)..;
    for (&number, expected) in numbers.iter().zip(expected) {
        let name = segment_name(number);
        if number != expected {
            let what = format!("it comes before {name}");
            return Err(missing(disk, &segment_name(expected), what));
        }
        let file = place(disk, &name);
        let Some(header) = header_of(disk, number)? else {
            if numbers.last() != Some(&number) {
                let what = "its header is incomplete, yet the log went on behind it".to_owned();
                return Err(LogError::Damaged {
                    file,
                    offset: 0,
                    what,
                });
            }
            if headers.is_empty() && number > 1 {
                let what = format!("it comes before {name}");
                return Err(missing(disk, &segment_name(number - 1), what));
            }
            return Ok((headers, Some(number)));
        };
        check_order(disk, headers.last(), &header, identity)?;
        identity = identity.or(header.origin.map(|origin| origin.identity));
        headers.push(header);
    }
    Ok((headers, None))
}

/// Refuses a segment that is of another log, or of an opening that cannot have come behind that of
/// the segment before it.
fn check_order(
    disk: &dyn Disk,
    before: Option<&Header>,
    header: &Header,
    identity: Option<LogIdentity>,
) -> Result<(), LogError> {
    let number = header.number;
    if header.first.0 == 0 || header.first.0 > i64::MAX as u64 {
        return Err(LogError::Damaged {
            file: place(disk, &segment_name(number)),
            offset: 20,
            what: format!("no segment begins with record {}", header.first),
        });
    }
    if let (Some(origin), Some(identity)) = (header.origin, identity)
        && origin.identity != identity
    {
        let own = origin.identity;
        let what = format!("it is of log {own}, and this folder holds log {identity}");
        return Err(foreign(disk, number, what));
    }
    let Some(before) = before else {
        return Ok(());
    };
    if header.incarnation() < before.incarnation() {
        let what = match header.origin {
            None => "it has log version 1, which the log had left before it".to_owned(),
            Some(origin) => format!(
                "opening {} of the log began it, and opening {} the segment before it",
                origin.incarnation,
                before.incarnation()
            ),
        };
        return Err(foreign(disk, number, what));
    }
    if header.first < before.first {
        return Err(begins_wrong(disk, header, before.first));
    }
    Ok(())
}

/// Refuses two segments between which records are missing, or that hold too many.
fn check_joint(
    disk: &dyn Disk,
    header: &Header,
    extent: &Extent,
    following: &Header,
) -> Result<(), LogError> {
    if extent.next < following.first {
        return Err(LogError::Damaged {
            file: place(disk, &segment_name(header.number)),
            offset: extent.length as u64,
            what: format!(
                "record {} does not read back, yet the log went on behind it",
                extent.next
            ),
        });
    }
    if extent.next > following.first {
        return Err(begins_wrong(disk, following, extent.next));
    }
    Ok(())
}

/// The refusal of a log that begins behind the records that are wanted. With a proof it was
/// trimmed, because a lost oldest segment is missed before. Without one, it may be either.
fn begins_late(
    disk: &dyn Disk,
    oldest: &Header,
    after: Position,
    proof: Option<&Proof>,
) -> LogError {
    let (first, needed) = (oldest.first, after.next());
    if proof.is_some() {
        return LogError::Trimmed {
            folder: disk.describe(),
            first,
            needed,
        };
    }
    let what = format!(
        "the log begins with record {first} in {}, and its records from {needed} on are needed. If the log was trimmed, no copy of that file helps, and the folder has to be restored from a backup",
        segment_name(oldest.number),
    );
    missing(disk, &segment_name(oldest.number - 1), what)
}

fn begins_wrong(disk: &dyn Disk, header: &Header, expected: Position) -> LogError {
    LogError::Damaged {
        file: place(disk, &segment_name(header.number)),
        offset: 20,
        what: format!(
            "it begins with record {} instead of {expected}",
            header.first
        ),
    }
}

fn foreign(disk: &dyn Disk, number: u64, what: String) -> LogError {
    LogError::Foreign {
        file: place(disk, &segment_name(number)),
        what,
    }
}

fn missing(disk: &dyn Disk, name: &str, what: String) -> LogError {
    LogError::Missing {
        file: place(disk, name),
        what,
    }
}

fn length_of(disk: &dyn Disk, name: &str) -> Result<u64, LogError> {
    disk.length(name)
        .map_err(|error| LogError::io("look at", &place(disk, name), &error))
}

/// Whether this is a load segment whose writing was finished.
pub(super) fn is_finished_load(name: &str) -> bool {
    is_load_file(name) && !is_unfinished(name)
}
