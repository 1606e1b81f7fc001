//! Segment files: their framing, and how opening tells an incomplete end from damage.
//!
//! ```text
//! segment := magic "SOMERLOG" | version u32 | number u64 | first position u64
//!            identity 16 bytes | incarnation u64 | 8 zeros | crc32c u32
//!            (64 bytes up to here; version 1 has neither identity nor incarnation: 32 bytes)
//!            frame*
//! frame   := payload length u32 | crc32c u32 | kind u8 | payload      (little endian)
//! ```
//! A record's checksum covers its position, so a record is valid in one place of the log only. All
//! checksums of frames begin with the log's identity and with its incarnation, which counts the
//! openings to write; so a frame is valid in one log, and in the opening that wrote it. Each
//! opening begins a segment of its own.
//!
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
use crate::identity::Origin;
use crate::record::{DeliveredRecord, Position};
use crate::wire::{Noted, note};
use somersault_disk::{Access, Disk, DiskFile, DiskLock};
use somersault_model::QueryUid;
use std::collections::BTreeMap;

pub(crate) const MAGIC: [u8; 8] = *b"SOMERLOG";
/// The version that this build writes. It reads version 1 too.
pub(crate) const VERSION: u32 = 2;
pub(crate) const HEADER_BYTES: usize = 64;
/// The length of a header of version 1.
const FIRST_HEADER_BYTES: usize = 32;
const ORIGIN_END: usize = 28 + Origin::BYTES;
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

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    /// The position of the first record.
    pub(crate) first: Position,
    /// `None` in version 1.
    pub(crate) origin: Option<Origin>,
}

impl Header {
    /// The number of its bytes.
    pub(crate) fn length(&self) -> usize {
        match self.origin {
            None => FIRST_HEADER_BYTES,
            Some(_) => HEADER_BYTES,
        }
    }

    /// The opening in which the segment was begun; 0 in version 1.
    pub(crate) fn incarnation(&self) -> u64 {
        self.origin.map_or(0, |origin| origin.incarnation)
    }

    /// The value that the checksums of its frames begin with.
    pub(crate) fn seed(&self) -> u32 {
        self.origin.map_or(0, |origin| origin.seed())
    }
}

/// The bytes of the header of a new segment.
pub(crate) fn header_bytes(number: u64, first: Position, origin: Origin) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&number.to_le_bytes());
    bytes[20..28].copy_from_slice(&first.0.to_le_bytes());
    bytes[28..ORIGIN_END].copy_from_slice(&origin.bytes());
    let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
    bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Makes a segment with its header, durable in content and name.
pub(crate) fn create_segment(
    disk: &dyn Disk,
    number: u64,
    first: Position,
    origin: Origin,
) -> Result<Box<dyn DiskFile>, LogError> {
    let name = segment_name(number);
    let failed = |action| {
        let file = place(disk, &name);
        move |error| LogError::io(action, &file, &error)
    };
    let mut file = disk.create(&name).map_err(failed("create"))?;
    if let Err(error) = file.append(&header_bytes(number, first, origin)) {
        // The name must be free for the next try. The error to report is that of the write.
        let _ = disk.remove(&name);
        return Err(failed("write")(error));
    }
    file.sync().map_err(failed("sync"))?;
    disk.sync_folder().map_err(failed("sync the folder of"))?;
    Ok(file)
}

/// Locks a segment for this process until the guard is dropped.
///
/// # Errors
/// Another process has it, or those of the disk.
pub(crate) fn lock_segment(
    disk: &dyn Disk,
    number: u64,
    access: Access,
) -> Result<DiskLock, LogError> {
    let folder = disk.describe();
    disk.lock_file(&segment_name(number), access)
        .map_err(|error| LogError::io("lock", &folder, &error))?
        .ok_or(LogError::Locked { folder })
}

/// Reads the header of segment `number` from the first bytes of `file`, which has `length` bytes.
/// `None` if there is no whole header and nothing behind it: the segment was being created.
///
/// # Errors
/// Another format or version, another segment's header, or damage.
pub(crate) fn read_header(
    file: &str,
    number: u64,
    bytes: &[u8],
    length: u64,
) -> Result<Option<Header>, LogError> {
    if bytes.len() >= FIRST_HEADER_BYTES && bytes[..8] == MAGIC {
        let version = u32_at(bytes, 8);
        let header = match version {
            1 => whole(bytes, FIRST_HEADER_BYTES).map(|_| None),
            2 => whole(bytes, HEADER_BYTES).map(|bytes| {
                let mut origin = [0; Origin::BYTES];
                origin.copy_from_slice(&bytes[28..ORIGIN_END]);
                Some(Origin::of(&origin))
            }),
            found => {
                return Err(LogError::Version {
                    file: file.to_owned(),
                    found,
                    expected: VERSION,
                });
            }
        };
        if let Some(origin) = header {
            let header = Header {
                number: u64_at(bytes, 12),
                first: Position(u64_at(bytes, 20)),
                origin,
            };
            if header.number == number {
                return Ok(Some(header));
            }
            let own = segment_name(header.number);
            return Err(LogError::Foreign {
                file: file.to_owned(),
                what: format!("it is a copy of {own} under another name"),
            });
        }
    }
    // The header is durable before anything is written behind it.
    if length <= HEADER_BYTES as u64 {
        return Ok(None);
    }
    Err(LogError::Damaged {
        file: file.to_owned(),
        offset: 0,
        what: "it does not begin with the header of a log segment".to_owned(),
    })
}

/// The header of this length, if its checksum is right.
fn whole(bytes: &[u8], length: usize) -> Option<&[u8]> {
    let header = bytes.get(..length)?;
    let is_right = u32_at(header, length - 4) == crc32c::crc32c(&header[..length - 4]);
    is_right.then_some(header)
}

/// Begins a record's frame at the end of `out`: space for the frame's head.
pub(crate) fn begin_frame(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.resize(at + FRAME_BYTES, 0);
    at
}

/// Completes the record's frame that was begun at `at`; `false` if it is larger than a frame can
/// be. `seed` is that of the segments which this opening begins.
pub(crate) fn finish_record(out: &mut [u8], at: usize, position: Position, seed: u32) -> bool {
    let Ok(length) = u32::try_from(out.len() - at - FRAME_BYTES) else {
        return false;
    };
    out[at + 8] = Kind::Record as u8;
    let crc = record_crc(seed, position, &out[at + 8..]);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    out[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    true
}

/// A witness as a frame.
pub(crate) fn witness_frame(kind: Kind, witness: Witness, seed: u32) -> [u8; WITNESS_FRAME_BYTES] {
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
    let crc = crc32c::crc32c_append(seed, &frame[8..]);
    frame[..4].copy_from_slice(&(WITNESS_BYTES as u32).to_le_bytes());
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
    frame
}

fn record_crc(seed: u32, position: Position, kind_and_payload: &[u8]) -> u32 {
    let placed = crc32c::crc32c_append(seed, &position.0.to_le_bytes());
    crc32c::crc32c_append(placed, kind_and_payload)
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
/// `None` if there is no whole frame that is valid in a segment with this seed.
pub(crate) fn frame_at(
    bytes: &[u8],
    at: usize,
    next: Position,
    seed: u32,
) -> Option<(Frame<'_>, usize)> {
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
        Kind::Record => (record_crc(seed, next, &bytes[at + 8..end]) == crc)
            .then_some((Frame::Record(&bytes[payload..end]), end)),
        kind => {
            let found = crc32c::crc32c_append(seed, &bytes[at + 8..end]);
            if end - payload != WITNESS_BYTES || found != crc {
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
    /// The greatest durable position that its witnesses claim.
    pub(crate) durable: Position,
    /// Whether the last frame says that the log was closed in order.
    pub(crate) closed: bool,
    /// Whether a frame says that the next segment is there.
    pub(crate) continued: bool,
    /// The load segments that its records name, with the positions of those records.
    pub(crate) load_segments: Vec<(Position, String)>,
    /// Its newest mark of delivery of each query.
    pub(crate) delivered: BTreeMap<QueryUid, DeliveredRecord>,
}

/// Reads a segment from its header to the first frame that is not valid, or to the record at
/// `until`, which another segment holds.
pub(crate) fn read_extent(header: &Header, bytes: &[u8], until: Option<Position>) -> Extent {
    let mut extent = Extent {
        length: header.length(),
        next: header.first,
        ..Extent::default()
    };
    let seed = header.seed();
    let mut in_group = false;
    while extent.length < bytes.len() && until.is_none_or(|until| extent.next < until) {
        let Some((frame, end)) = frame_at(bytes, extent.length, extent.next, seed) else {
            break;
        };
        match frame {
            Frame::Record(payload) if in_group => {
                match note(payload) {
                    Some(Noted::LoadSegment(name)) => {
                        extent.load_segments.push((extent.next, name));
                    }
                    Some(Noted::Delivered(mark)) => {
                        extent.delivered.insert(mark.query, mark);
                    }
                    None => {}
                }
                extent.next = extent.next.next();
            }
            Frame::Witness(kind, witness)
                if is_here(witness, header.number, extent.length)
                    && witness.first == extent.next
                    && witness.durable < extent.next =>
            {
                extent.durable = extent.durable.max(witness.durable);
                in_group = kind == Kind::Group;
                extent.closed = kind == Kind::Closed;
                extent.continued |= kind == Kind::Continued;
            }
            _ => break,
        }
        extent.length = end;
    }
    extent
}

/// The bytes of a segment without the zeros at their end, which were to be written over. No frame
/// consists of zeros.
pub(crate) fn written(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    &bytes[..bytes.len() - zeros]
}

fn is_here(witness: Witness, number: u64, offset: usize) -> bool {
    witness.segment == number && witness.offset == offset as u64
}

/// The greatest claim of any witness behind `from`, wherever it stands: what lies between may be
/// damaged.
pub(crate) fn claims_behind(header: &Header, bytes: &[u8], from: usize) -> Option<Position> {
    let mut claimed = None;
    let length = (WITNESS_BYTES as u32).to_le_bytes();
    for at in from..bytes.len().saturating_sub(WITNESS_FRAME_BYTES - 1) {
        if bytes[at..at + 4] == length
            && let Some((Frame::Witness(_, witness), _)) =
                frame_at(bytes, at, Position::START, header.seed())
            && is_here(witness, header.number, at)
        {
            claimed = claimed.max(Some(witness.durable));
        }
    }
    claimed
}
