//! Segment files: their framing, and how opening tells an incomplete end from damage.
//!
//! ```text
//! segment := magic "SOMERLOG" | version u32 | number u64 | first position u64 | crc32c u32
//!            (32 bytes up to here)
//!            frame*
//! frame   := payload length u32 | crc32c u32 | kind u8 | payload      (little endian)
//! ```
//! A record's checksum covers its position, so a record is valid in one place of the log only.
//! Every group of records begins with a *witness*: a frame that says where it stands and through
//! which position the log was durable when it was written. A bad frame is an incomplete end if and
//! only if no witness behind it, and no later segment, claims more than what reads back before it;
//! otherwise acknowledged records are damaged and nothing may be guessed.
//!
//! A segment alone does not show damage to the last acknowledged group when no witness follows it
//! (the process was killed before it was idle for [`crate::LogOptions::idle_witness`]), nor the
//! loss of whole frames from its end. The proof file (`proof.rs`) bounds both. docs/adr/0006 has
//! the reasons.

use crate::error::LogError;
use crate::file::place;
use crate::record::{DeliveredRecord, Position};
use crate::wire::{Noted, note};
use somersault_disk::{Disk, DiskFile};
use somersault_model::QueryUid;
use std::collections::BTreeMap;

pub(crate) const MAGIC: [u8; 8] = *b"SOMERLOG";
/// The version that this build reads and writes.
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: usize = 32;
pub(crate) const FRAME_BYTES: usize = 9;
const WITNESS_BYTES: usize = 32;
/// A witness with its frame's head.
pub(crate) const WITNESS_FRAME_BYTES: usize = FRAME_BYTES + WITNESS_BYTES;

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A record.
    Record = 1,
    /// A witness before a group of records, or on its own when the log became idle.
    Group = 2,
    /// A witness: the log was closed in order.
    Closed = 3,
    /// A witness: the log goes on in the next segment, which is durable.
    Continued = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        match byte {
            1 => Some(Kind::Record),
            2 => Some(Kind::Group),
            3 => Some(Kind::Closed),
            4 => Some(Kind::Continued),
            _ => None,
        }
    }
}

/// A witness: it stands at `offset` of segment `segment`, before record `first`, and the log was
/// durable through `durable` when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) first: Position,
    pub(crate) durable: Position,
}

/// The file name of a segment.
pub(crate) fn segment_name(number: u64) -> String {
    format!("log-{number:010}.seg")
}

/// The number in a segment's file name; `None` for other files.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let number: u64 = name
        .strip_prefix("log-")?
        .strip_suffix(".seg")?
        .parse()
        .ok()?;
    (segment_name(number) == name).then_some(number)
}

/// The header of a segment whose first record has position `first`.
pub(crate) fn header(number: u64, first: Position) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&number.to_le_bytes());
    bytes[20..28].copy_from_slice(&first.0.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Makes a segment with its header, durable in content and name.
pub(crate) fn create_segment(
    disk: &dyn Disk,
    number: u64,
    first: Position,
) -> Result<Box<dyn DiskFile>, LogError> {
    let name = segment_name(number);
    let failed = |action| {
        let file = place(disk, &name);
        move |error| LogError::io(action, &file, &error)
    };
    let mut file = disk.create(&name).map_err(failed("create"))?;
    file.append(&header(number, first))
        .map_err(failed("write"))?;
    file.sync().map_err(failed("sync"))?;
    disk.sync_folder().map_err(failed("sync the folder of"))?;
    Ok(file)
}

/// The result of reading a segment's header.
pub(crate) enum Header {
    /// Whole; the first record has this position.
    First(Position),
    /// No whole header, and nothing behind it: the segment was being created.
    Unfinished,
}

/// Reads a header.
///
/// # Errors
/// Another format or version, or damage.
pub(crate) fn read_header(name: &str, number: u64, bytes: &[u8]) -> Result<Header, LogError> {
    let damaged = |offset, what: &str| LogError::Damaged {
        file: name.to_owned(),
        offset,
        what: what.to_owned(),
    };
    let whole = bytes.len() >= HEADER_BYTES;
    if whole && bytes[..8] == MAGIC {
        let found = u32_at(bytes, 8);
        if found != VERSION {
            return Err(LogError::Version {
                file: name.to_owned(),
                found,
                expected: VERSION,
            });
        }
        if u32_at(bytes, 28) == crc32c::crc32c(&bytes[..28]) {
            if u64_at(bytes, 12) != number {
                return Err(damaged(12, "it is another segment under this name"));
            }
            return Ok(Header::First(Position(u64_at(bytes, 20))));
        }
    }
    // The header is durable before anything is written behind it.
    if bytes.len() <= HEADER_BYTES {
        return Ok(Header::Unfinished);
    }
    Err(damaged(
        0,
        "it does not begin with the header of a log segment",
    ))
}

/// Begins a record's frame at the end of `out`: space for the frame's head.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.resize(at + FRAME_BYTES, 0);
    at
}

/// Completes the record's frame that was begun at `at`; `false` if it is larger than a frame can
/// be.
pub(crate) fn finish_record(out: &mut [u8], at: usize, position: Position) -> bool {
    let Ok(length) = u32::try_from(out.len() - at - FRAME_BYTES) else {
        return false;
    };
    out[at + 8] = Kind::Record as u8;
    let crc = record_crc(position, &out[at + 8..]);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    out[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    true
}

/// A witness as a frame.
pub(crate) fn witness_frame(kind: Kind, witness: Witness) -> [u8; WITNESS_FRAME_BYTES] {
    let mut frame = [0; WITNESS_FRAME_BYTES];
    frame[8] = kind as u8;
    let numbers = [
        witness.segment,
        witness.offset,
        witness.first.0,
        witness.durable.0,
    ];
    for (place, number) in frame[FRAME_BYTES..].chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let crc = crc32c::crc32c(&frame[8..]);
    frame[..4].copy_from_slice(&(WITNESS_BYTES as u32).to_le_bytes());
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    frame
}

fn record_crc(position: Position, kind_and_payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&position.0.to_le_bytes()), kind_and_payload)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// A frame that reads back.
pub(crate) enum Frame<'a> {
    /// An encoded record.
    Record(&'a [u8]),
    /// A witness of this kind.
    Witness(Kind, Witness),
}

/// Reads the frame at `at`, where the next record would have position `next`; with its end.
/// `None` if there is no whole and valid frame.
pub(crate) fn frame_at(bytes: &[u8], at: usize, next: Position) -> Option<(Frame<'_>, usize)> {
    let payload = at.checked_add(FRAME_BYTES)?;
    if payload > bytes.len() {
        return None;
    }
    let end = payload.checked_add(u32_at(bytes, at) as usize)?;
    if end > bytes.len() {
        return None;
    }
    let crc = u32_at(bytes, at + 4);
    match Kind::of(bytes[at + 8])? {
        Kind::Record => (record_crc(next, &bytes[at + 8..end]) == crc)
            .then_some((Frame::Record(&bytes[payload..end]), end)),
        kind => {
            if end - payload != WITNESS_BYTES || crc32c::crc32c(&bytes[at + 8..end]) != crc {
                return None;
            }
            let witness = Witness {
                segment: u64_at(bytes, payload),
                offset: u64_at(bytes, payload + 8),
                first: Position(u64_at(bytes, payload + 16)),
                durable: Position(u64_at(bytes, payload + 24)),
            };
            Some((Frame::Witness(kind, witness), end))
        }
    }
}

/// The part of a segment that reads back.
#[derive(Debug, Default)]
pub(crate) struct Extent {
    /// The length up to which every frame is valid.
    pub(crate) length: usize,
    /// The position of the record that would come next.
    pub(crate) next: Position,
    /// The length that the witnesses within it prove to have been durable; 0 if not even the header
    /// is proven.
    pub(crate) proven: usize,
    /// The greatest durable position that its witnesses claim.
    pub(crate) durable: Position,
    /// Whether the last frame says that the log was closed in order.
    pub(crate) closed: bool,
    /// Whether a frame says that the next segment is there.
    pub(crate) continued: bool,
    /// The greatest durable position that a witness behind `length` claims.
    pub(crate) claimed: Option<Position>,
    /// The load segments that its records name.
    pub(crate) load_segments: Vec<String>,
    /// Its newest mark of delivery of each query.
    pub(crate) delivered: BTreeMap<QueryUid, DeliveredRecord>,
}

/// Reads a whole segment whose header has been read.
pub(crate) fn read_extent(number: u64, first: Position, bytes: &[u8]) -> Extent {
    let mut extent = Extent {
        length: HEADER_BYTES,
        next: first,
        ..Extent::default()
    };
    let mut in_group = false;
    // Idle witnesses have no sync of their own, so a later witness proves what ends with the last
    // record only.
    let mut last_record_end = HEADER_BYTES;
    while extent.length < bytes.len() {
        let Some((frame, end)) = frame_at(bytes, extent.length, extent.next) else {
            break;
        };
        match frame {
            Frame::Record(payload) if in_group => {
                match note(payload) {
                    Some(Noted::LoadSegment(name)) => extent.load_segments.push(name),
                    Some(Noted::Delivered(mark)) => {
                        extent.delivered.insert(mark.query, mark);
                    }
                    None => {}
                }
                extent.next = extent.next.next();
                last_record_end = end;
            }
            Frame::Witness(kind, witness)
                if is_here(witness, number, extent.length)
                    && witness.first == extent.next
                    && witness.durable < extent.next =>
            {
                if witness.durable.next() == extent.next {
                    extent.proven = last_record_end;
                }
                extent.durable = extent.durable.max(witness.durable);
                in_group = kind == Kind::Group;
                extent.closed = kind == Kind::Closed;
                extent.continued |= kind == Kind::Continued;
            }
            _ => break,
        }
        extent.length = end;
    }
    extent.claimed = claims_behind(number, bytes, extent.length);
    extent
}

fn is_here(witness: Witness, number: u64, offset: usize) -> bool {
    witness.segment == number && witness.offset == offset as u64
}

/// The greatest claim of any witness behind `from`, wherever it stands: what lies between may be
/// damaged.
fn claims_behind(number: u64, bytes: &[u8], from: usize) -> Option<Position> {
    let mut claimed = None;
    let length = (WITNESS_BYTES as u32).to_le_bytes();
    for at in from..bytes.len().saturating_sub(WITNESS_FRAME_BYTES - 1) {
        if bytes[at..at + 4] == length
            && let Some((Frame::Witness(_, witness), _)) = frame_at(bytes, at, Position::START)
            && is_here(witness, number, at)
        {
            claimed = claimed.max(Some(witness.durable));
        }
    }
    claimed
}
