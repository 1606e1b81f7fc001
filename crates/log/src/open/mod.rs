//! Opening: verifies the folder, tells an incomplete end from damage, puts the folder in order, and
//! hands out the records.
//!
//! 1. A survey verifies everything and changes nothing, so a refusal leaves the folder as it was.
//! 2. What does not belong to the log is set aside under another name (`.torn`, `.orphan`) and
//!    never deleted, unless it is provably nothing: an unfinished load segment, which no record can
//!    name, an unfinished segment of an opening, or a segment that was made ahead.
//! 3. A segment of this opening is begun. It takes over the records that were not proven to be
//!    durable, and has its name only once they are. Older segments are never written again; their
//!    ends that do not count any more are cut off.
//! 4. The proof is written. Then what a crash left of a trim goes.
//!
//! Before changing anything here: bytes that read back need not be on the disk. After a failed sync
//! the system shows them and never writes them, so only what a witness or the proof shows to have
//! been durable is trusted. A log that is only read changes nothing at all.

mod ahead;
mod frames;
mod recovered;
mod survey;

pub use recovered::Recovered;

use crate::chain::{Chain, loads_before, remove_trimmed};
use crate::copy::COPY_FILE;
use crate::error::LogError;
use crate::file::{free_name, place, read_file};
use crate::identity::{LogIdentity, Origin};
use crate::load::{is_unfinished, load_number, set_orphan_aside};
use crate::options::LogOptions;
use crate::progress::OpenProgress;
use crate::proof::{Proof, ProofFile};
use crate::record::Position;
use crate::room::Room;
use crate::segment::{
    Frame, Header, Kind, Witness, begin_frame, create_segment, finish_record, frame_at,
    header_bytes, read_header, segment_name, segment_number, witness_frame, written,
};
use somersault_disk::{Disk, DiskFile, NameTaken, UNFINISHED, write_whole};
use std::collections::BTreeSet;
use std::sync::Arc;
use survey::{Newest, Segment, Survey, examine_segments, identity_of_segments, is_finished_load};

/// The ending that opening gives to a segment whose creation was not finished, and to the bytes
/// that it cuts off.
const TORN: &str = ".torn";

/// A copy's openings are numbered at least this far behind those of the original.
const COPY_JUMP: u64 = 1 << 32;

/// The end of the newest segment, where it does not read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment file.
    pub file: String,
    /// The byte from which on it does not read back.
    pub offset: u64,
    /// The number of bytes from there on.
    pub bytes: u64,
    /// The file that those bytes were moved to; `None` if the log was only read, and they are where
    /// they were.
    pub kept: Option<String>,
    /// The position of the last record that reads back.
    pub end: Position,
    /// The position of the last record that is known to have been acknowledged.
    pub proven: Position,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} does not read back from byte {} on: {} bytes, which {}. All records through {} are there, and the log is known to have been durable through {}. A crash during a write leaves such an end, of which nothing was acknowledged; damage to newer records would look the same",
            self.file,
            self.offset,
            self.bytes,
            match &self.kept {
                Some(kept) => format!("are now in {kept}"),
                None => "were left as they are".to_owned(),
            },
            self.end,
            self.proven,
        )
    }
}

/// A folder that was verified and put in order.
pub(crate) struct Opened {
    /// The segment of this opening, at its end.
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) segment: u64,
    pub(crate) length: u64,
    pub(crate) end: Position,
    pub(crate) origin: Origin,
    pub(crate) next_load: u64,
    /// The bytes of all segments.
    pub(crate) bytes: u64,
    pub(crate) chain: Arc<Chain>,
    pub(crate) recovered: Recovered,
}

/// Refuses to write to a backup, or to a copy that was not finished.
pub(crate) fn refuse_copy(disk: &dyn Disk) -> Result<(), LogError> {
    let folder = disk.describe();
    let names = disk.list();
    let names = names.map_err(|error| LogError::io("list", &folder, &error))?;
    match names.iter().any(|name| name == COPY_FILE) {
        true => Err(LogError::Copy { folder }),
        false => Ok(()),
    }
}

/// Verifies the folder for its records after `after`, then puts it in order. The caller holds its
/// lock. `decoders` threads decode a long log.
pub(crate) fn open(
    disk: &Arc<dyn Disk>,
    after: Position,
    options: &LogOptions,
    decoders: usize,
) -> Result<Opened, LogError> {
    let progress = &options.progress;
    let io = |action| {
        let folder = disk.describe();
        move |error| LogError::io(action, &folder, &error)
    };
    if !options.is_copy {
        refuse_copy(&**disk)?;
    }
    let names = disk.list().map_err(io("list"))?;
    let is_marked = names.iter().any(|name| name == COPY_FILE);
    let mut survey = Survey::of(&**disk, &names, (after, after), progress)?;
    let identity = match survey.identity() {
        Some(identity) => identity,
        None => LogIdentity::new(disk.draw_identity().map_err(io("draw an identity for"))?),
    };
    let origin = Origin {
        identity,
        incarnation: next_incarnation(&**disk, &survey, options.is_copy)?,
    };
    let trimmed = trimmed_loads(&**disk, &names, &survey)?;
    let unnamed = set_aside(&**disk, &names, &survey, &trimmed)?;
    Room::give_up_reserve(&**disk, &names)?;
    let (file, begun) = begin_opening(&**disk, &names, &mut survey, origin)?;
    let end = Position(survey.next.0 - 1);
    let proof = Proof {
        segment: begun.header.number,
        length: begun.length,
        durable: end,
        closed: false,
        oldest: survey.segments[0].header.number,
        origin: Some(origin),
    };
    let proof = ProofFile::begin(disk, proof)?;
    if is_marked {
        // The branch has begun: its first segment and its proof are durable.
        disk.remove(COPY_FILE)
            .map_err(io("take the mark of a copy from"))?;
        disk.sync_folder().map_err(io("sync"))?;
    }
    // Not before this proof, which says so too, is durable: the one before need not be.
    remove_trimmed(&**disk, &survey.leftovers, &trimmed)?;
    let headers = survey.segments.iter().map(|segment| segment.header);
    let chain = Chain::new(
        proof,
        headers.collect(),
        survey.load_segments.clone(),
        survey.segments[survey.unread].header.first,
        unnamed,
    );
    let next_load = names.iter().filter_map(|name| load_number(name)).max();
    Ok(Opened {
        file,
        segment: begun.header.number,
        length: begun.length,
        end,
        origin,
        next_load: next_load.unwrap_or(0) + 1,
        bytes: survey.segments.iter().map(|segment| segment.length).sum(),
        chain: Arc::new(chain),
        recovered: Recovered::new(survey, after, disk, progress, decoders),
    })
}

/// The number of this opening. A copy jumps far ahead, by a number that no other copy draws, so
/// that no opening of the original ever has the number of one of the copy.
fn next_incarnation(disk: &dyn Disk, survey: &Survey, is_copy: bool) -> Result<u64, LogError> {
    let next = survey.incarnation().saturating_add(1);
    if !is_copy {
        return Ok(next);
    }
    let drawn = disk.draw_identity();
    let drawn = drawn
        .map_err(|error| LogError::io("draw a number for a copy in", &disk.describe(), &error))?;
    let jump = drawn[..6]
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(next.saturating_add(COPY_JUMP).saturating_add(jump))
}

/// Verifies the folder for its records after `after`, and changes nothing in it. Returns the
/// identity of the log too, if it has one.
pub(crate) fn read(
    disk: &Arc<dyn Disk>,
    after: Position,
    progress: &Arc<OpenProgress>,
    decoders: usize,
) -> Result<(Recovered, Option<LogIdentity>), LogError> {
    let names = disk
        .list()
        .map_err(|error| LogError::io("list", &disk.describe(), &error))?;
    let survey = Survey::of(&**disk, &names, (after, after), progress)?;
    if survey.segments.is_empty() && names.iter().any(|name| name == COPY_FILE) {
        // A copy that broke off at its beginning is no empty log.
        let folder = disk.describe();
        return Err(LogError::Copy { folder });
    }
    let identity = survey.identity();
    let recovered = Recovered::new(survey, after, disk, progress, decoders);
    Ok((recovered, identity))
}

/// The log of a folder, as far back as the folder has it.
pub(crate) struct WholeLog {
    pub(crate) identity: Option<LogIdentity>,
    pub(crate) incarnation: u64,
    /// The position before the oldest record.
    pub(crate) before: Position,
    /// The names of the segments, oldest first.
    pub(crate) segments: Vec<String>,
    pub(crate) recovered: Recovered,
}

/// Verifies all segments of the folder, and changes nothing in it.
pub(crate) fn read_whole(
    disk: &Arc<dyn Disk>,
    names: &[String],
    progress: &Arc<OpenProgress>,
) -> Result<WholeLog, LogError> {
    let decoders = LogOptions::default().decoders;
    let before = Survey::before_oldest(&**disk, names)?;
    // Each load segment is read later, so none is refused here.
    let survey = Survey::of(&**disk, names, (before, Position(u64::MAX)), progress)?;
    let numbers = survey.segments.iter().map(|segment| segment.header.number);
    Ok(WholeLog {
        identity: survey.identity(),
        incarnation: survey.incarnation(),
        before,
        segments: numbers.map(segment_name).collect(),
        recovered: Recovered::new(survey, before, disk, progress, decoders),
    })
}

/// All damage to single segments of the folder.
pub(crate) fn damaged_segments(disk: &dyn Disk, names: &[String]) -> Vec<LogError> {
    examine_segments(disk, names)
}

/// The identity of the log in the folder, if it has one: that of its proof, or else that of its
/// newest segment that shows one.
pub(crate) fn identity(disk: &dyn Disk) -> Result<Option<LogIdentity>, LogError> {
    let names = disk
        .list()
        .map_err(|error| LogError::io("list", &disk.describe(), &error))?;
    let of_proof = Proof::read(disk, &names)?.and_then(|proof| proof.origin);
    match of_proof {
        Some(origin) => Ok(Some(origin.identity)),
        None => identity_of_segments(disk, &names),
    }
}

/// The load segments that only trimmed segments name which are still there.
fn trimmed_loads(
    disk: &dyn Disk,
    names: &[String],
    survey: &Survey,
) -> Result<BTreeSet<String>, LogError> {
    let Some(oldest) = survey.segments.first() else {
        return Ok(BTreeSet::new());
    };
    let loads = loads_before(disk, &survey.leftovers, oldest.header.first)?;
    let mut loads: BTreeSet<String> = loads.into_iter().collect();
    let is_kept = |name: &String| survey.load_segments.iter().any(|(_, other)| other == name);
    loads.retain(|name| names.contains(name) && !is_kept(name));
    Ok(loads)
}

/// Takes away unfinished files, and gives other names to files that do not belong to the log.
/// Returns the load segments of which that is not known, because segments were not read.
fn set_aside(
    disk: &dyn Disk,
    names: &[String],
    survey: &Survey,
    trimmed: &BTreeSet<String>,
) -> Result<Vec<String>, LogError> {
    let failed = |name: &str| {
        let file = place(disk, name);
        move |error| LogError::io("set aside", &file, &error)
    };
    let unfinished = names.iter().filter(|name| {
        let segment = name.strip_suffix(UNFINISHED).and_then(segment_number);
        segment.is_some() || is_unfinished(name)
    });
    for name in unfinished {
        disk.remove(name).map_err(failed(name))?;
    }
    if let Some(number) = survey.unfinished {
        let name = segment_name(number);
        if is_nothing(disk, number)? {
            disk.remove(&name).map_err(failed(&name))?;
        } else {
            let aside = free_name(names, &name, TORN);
            disk.rename(&name, &aside).map_err(failed(&name))?;
        }
    }
    let named: BTreeSet<&String> = survey.load_segments.iter().map(|(_, name)| name).collect();
    let loads = names.iter().filter(|name| is_finished_load(name));
    let unnamed = loads.filter(|name| !named.contains(name) && !trimmed.contains(*name));
    if survey.unread > 0 {
        return Ok(unnamed.cloned().collect());
    }
    for name in unnamed {
        set_orphan_aside(disk, names, name)?;
    }
    Ok(Vec::new())
}

/// Whether a segment that the log did not come to has nothing, or a whole header alone.
fn is_nothing(disk: &dyn Disk, number: u64) -> Result<bool, LogError> {
    let name = segment_name(number);
    let bytes = read_file(disk, &name, u64::MAX)?;
    let header = read_header(&place(disk, &name), number, &bytes, bytes.len() as u64)?;
    Ok(bytes.is_empty() || header.is_some_and(|header| header.length() == bytes.len()))
}

/// Begins the segment of this opening, durable in content and name; returns it, open at its end.
///
/// It takes over the records of the newest segment that were not proven to be durable. If none of
/// that segment's records were proven, it takes that segment's place.
fn begin_opening(
    disk: &dyn Disk,
    names: &[String],
    survey: &mut Survey,
    origin: Origin,
) -> Result<(Box<dyn DiskFile>, Segment), LogError> {
    let Some(newest) = survey.newest.take() else {
        let header = Header {
            number: survey.unfinished.unwrap_or(1),
            first: Position(1),
            origin: Some(origin),
        };
        let file = create_segment(disk, header.number, header.first, origin)?;
        let begun = Segment {
            header,
            length: header.length() as u64,
        };
        survey.segments.push(begun);
        return Ok((file, begun));
    };
    let old = segment_name(newest.header.number);
    if let Some(torn) = &mut survey.torn {
        torn.kept = Some(keep_tail(disk, names, &old, newest.bytes.len())?);
    }
    let takes_its_place = survey.proven < newest.header.first;
    let header = Header {
        number: newest.header.number + u64::from(!takes_its_place),
        first: survey.proven.next(),
        origin: Some(origin),
    };
    let (bytes, cut) = taken_over(&newest, &header, origin);
    write_segment(disk, header.number, &bytes)?;
    if takes_its_place {
        survey.segments.pop();
    } else {
        cut_off(disk, &old, cut)?;
        if let Some(newest) = survey.segments.last_mut() {
            newest.length = cut;
        }
    }
    let begun = Segment {
        header,
        length: bytes.len() as u64,
    };
    survey.segments.push(begun);
    let name = segment_name(header.number);
    let file = disk.append_to(&name);
    let file = file.map_err(|error| LogError::io("open", &place(disk, &name), &error))?;
    Ok((file, begun))
}

/// The bytes of a segment that begins with `header` and holds the records of `newest` from there
/// on, and the length at which these begin in `newest`.
fn taken_over(newest: &Newest, header: &Header, origin: Origin) -> (Vec<u8>, u64) {
    let mut bytes = header_bytes(header.number, header.first, origin).to_vec();
    let (old_seed, seed) = (newest.header.seed(), origin.seed());
    let mut at = newest.header.length();
    let mut next = newest.header.first;
    let mut cut = at;
    let mut position = header.first;
    while let Some((frame, end)) = frame_at(&newest.bytes, at, next, old_seed) {
        at = end;
        let Frame::Record(payload) = frame else {
            continue;
        };
        if next < header.first {
            cut = end;
        } else {
            if position == header.first {
                let witness = Witness {
                    segment: header.number,
                    offset: bytes.len() as u64,
                    first: position,
                    durable: Position(position.0 - 1),
                };
                bytes.extend(witness_frame(Kind::Group, witness, seed));
            }
            let frame = begin_frame(&mut bytes);
            bytes.extend_from_slice(payload);
            let is_written = finish_record(&mut bytes, frame, position, seed);
            assert!(is_written, "a record that was read fits a frame");
            position = position.next();
        }
        next = next.next();
    }
    if position == header.first {
        // Nothing was taken over, so the marks at the end of the old segment still hold.
        cut = newest.bytes.len();
    }
    (bytes, cut as u64)
}

/// Writes a segment under another name, and gives it its own once it is durable.
fn write_segment(disk: &dyn Disk, number: u64, bytes: &[u8]) -> Result<(), LogError> {
    let name = segment_name(number);
    write_whole(disk, &name, bytes, NameTaken::Replace)
        .map_err(|error| LogError::io("write", &place(disk, &name), &error))
}

/// Cuts off what does not count any more at the end of a segment, and the space set aside there. It
/// need not be durable: the segment behind it says where it ends.
fn cut_off(disk: &dyn Disk, name: &str, length: u64) -> Result<(), LogError> {
    let cut = || -> std::io::Result<()> { disk.append_to(name)?.truncate(length) };
    cut().map_err(|error| LogError::io("truncate", &place(disk, name), &error))
}

/// Copies what stands behind `length` into a file of its own, durably; returns that file as
/// messages name it.
fn keep_tail(
    disk: &dyn Disk,
    names: &[String],
    name: &str,
    length: usize,
) -> Result<String, LogError> {
    let bytes = read_file(disk, name, u64::MAX)?;
    let tail = written(bytes.get(length..).unwrap_or_default());
    let aside = free_name(names, name, TORN);
    let file = place(disk, &aside);
    let write = || -> std::io::Result<()> {
        let mut copy = disk.create(&aside)?;
        copy.append(tail)?;
        copy.sync()?;
        disk.sync_folder()
    };
    write().map_err(|error| LogError::io("write", &file, &error))?;
    Ok(file)
}
