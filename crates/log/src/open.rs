//! Opening: verifies every segment, tells an incomplete end from damage, and hands out the records.
//!
//! Nothing in the folder is changed before everything has been verified, so a refusal leaves it as
//! it was. What does not belong to the log is set aside under another name (`.torn`, `.orphan`) and
//! never deleted, unless it is provably nothing: an unfinished load segment, which no record can
//! name, or an unfinished copy of a segment. A log that is only read changes nothing at all.

use crate::error::LogError;
use crate::file::{place, read_file};
use crate::load::{ORPHAN, is_load_file, is_unfinished, load_number};
use crate::progress::OpenProgress;
use crate::proof::{PROOF_FILE, Proof};
use crate::record::{DeliveredRecord, Position, Record};
use crate::segment::{
    Extent, Frame, HEADER_BYTES, Header, create_segment, frame_at, read_extent, read_header,
    segment_name, segment_number,
};
use crate::wire::decode;
use somersault_disk::{Disk, DiskFile};
use somersault_model::QueryUid;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

/// The ending that opening gives to a segment whose creation was not finished, and to the bytes
/// that it cuts off.
const TORN: &str = ".torn";

/// The ending of a segment that is being written again.
const COPY: &str = ".tmp";

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

/// A verified segment.
struct Segment {
    number: u64,
    first: Position,
    /// The bytes that hold valid frames.
    length: u64,
}

/// A folder that was verified and put in order.
pub(crate) struct Opened {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) segment: u64,
    pub(crate) length: u64,
    pub(crate) end: Position,
    /// The durable position that the proof file shows.
    pub(crate) proven: Position,
    pub(crate) next_load: u64,
    /// The bytes of all segments.
    pub(crate) bytes: u64,
    pub(crate) recovered: Recovered,
}

/// Verifies the folder, then puts it in order. The caller holds its lock.
pub(crate) fn open(disk: &Arc<dyn Disk>, progress: &Arc<OpenProgress>) -> Result<Opened, LogError> {
    let io = |action| {
        let folder = disk.describe();
        move |error| LogError::io(action, &folder, &error)
    };
    let names = disk.list().map_err(io("list"))?;
    let mut survey = Survey::of(&**disk, &names, progress)?;
    set_aside(&**disk, &names, &survey)?;
    if survey.segments.is_empty() {
        create_segment(&**disk, 1, Position(1))?;
        survey.proven_length = HEADER_BYTES as u64;
        survey.segments.push_back(Segment {
            number: 1,
            first: Position(1),
            length: HEADER_BYTES as u64,
        });
    }
    let (segment, length) = survey.settle_newest(&**disk, &names)?;
    let name = segment_name(segment);
    let failed = |action| {
        let file = place(&**disk, &name);
        move |error| LogError::io(action, &file, &error)
    };
    let mut file = disk.append_to(&name).map_err(failed("open"))?;
    file.truncate(length).map_err(failed("truncate"))?;
    file.sync().map_err(failed("sync"))?;
    disk.sync_folder().map_err(io("sync"))?;

    let next_load = names
        .iter()
        .filter_map(|name| load_number(name))
        .max()
        .unwrap_or(0)
        + 1;
    Ok(Opened {
        file,
        segment,
        length,
        end: Position(survey.next.0 - 1),
        proven: survey.proof.map_or(Position::START, |proof| proof.durable),
        next_load,
        bytes: survey.segments.iter().map(|segment| segment.length).sum(),
        recovered: survey.into_recovered(disk, progress),
    })
}

/// Verifies the folder and changes nothing in it.
pub(crate) fn read(
    disk: &Arc<dyn Disk>,
    progress: &Arc<OpenProgress>,
) -> Result<Recovered, LogError> {
    let names = disk
        .list()
        .map_err(|error| LogError::io("list", &disk.describe(), &error))?;
    Ok(Survey::of(&**disk, &names, progress)?.into_recovered(disk, progress))
}

/// Gives other names to files that do not belong to the log.
fn set_aside(disk: &dyn Disk, names: &[String], survey: &Survey) -> Result<(), LogError> {
    let failed = |name: &str| {
        let file = place(disk, name);
        move |error| LogError::io("set aside", &file, &error)
    };
    let copies = names.iter().filter(|name| {
        let segment = name.strip_suffix(COPY).and_then(segment_number);
        segment.is_some()
    });
    for name in copies {
        // The process ended before the copy was renamed over the segment.
        disk.remove(name).map_err(failed(name))?;
    }
    for name in names.iter().filter(|name| is_load_file(name)) {
        if is_unfinished(name) {
            disk.remove(name).map_err(failed(name))?;
        } else if !survey.load_segments.contains(name) {
            let aside = free_name(names, name, ORPHAN);
            disk.rename(name, &aside).map_err(failed(name))?;
        }
    }
    if let Some(number) = survey.unfinished {
        let name = segment_name(number);
        let aside = free_name(names, &name, TORN);
        disk.rename(&name, &aside).map_err(failed(&name))?;
    }
    Ok(())
}

/// Copies what stands behind `length` into a file of its own, durably; returns that file as
/// messages name it.
fn keep_tail(
    disk: &dyn Disk,
    names: &[String],
    name: &str,
    length: u64,
) -> Result<String, LogError> {
    let bytes = read_file(disk, name, u64::MAX)?;
    let tail = bytes.get(length as usize..).unwrap_or_default();
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

/// Writes a segment again under another name, and renames it over the old one.
fn rewrite(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<(), LogError> {
    let copy = format!("{name}{COPY}");
    let write = || -> std::io::Result<()> {
        let mut file = disk.create(&copy)?;
        file.append(bytes)?;
        file.sync()?;
        drop(file);
        disk.replace(&copy, name)?;
        disk.sync_folder()
    };
    write().map_err(|error| LogError::io("write", &place(disk, name), &error))
}

/// `name` with `ending`; with a number behind it if that name is taken.
fn free_name(names: &[String], name: &str, ending: &str) -> String {
    let first = format!("{name}{ending}");
    let numbered = (2..).map(|number| format!("{name}{ending}{number}"));
    let is_free = |candidate: &String| !names.contains(candidate);
    let mut candidates = std::iter::once(first.clone()).chain(numbered);
    candidates.find(is_free).unwrap_or(first)
}

/// The contents of the folder. Making a survey changes nothing.
struct Survey {
    segments: VecDeque<Segment>,
    next: Position,
    closed: bool,
    torn: Option<TornTail>,
    /// The number of the newest segment, if its creation was not finished.
    unfinished: Option<u64>,
    load_segments: HashSet<String>,
    delivered: BTreeMap<QueryUid, DeliveredRecord>,
    proof: Option<Proof>,
    /// The position of the last record that a witness or the proof shows to have been durable.
    proven: Position,
    /// The valid bytes of the newest segment.
    newest: Vec<u8>,
    /// The number of these bytes that a witness or the proof shows to have been durable.
    proven_length: u64,
}

impl Survey {
    fn of(disk: &dyn Disk, names: &[String], progress: &OpenProgress) -> Result<Survey, LogError> {
        progress.begin(2 * bytes_to_read(disk, names)?);
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|name| segment_number(name))
            .collect();
        numbers.sort_unstable();
        let mut survey = Survey {
            segments: VecDeque::new(),
            next: Position(1),
            closed: false,
            torn: None,
            unfinished: None,
            load_segments: HashSet::new(),
            delivered: BTreeMap::new(),
            proof: Proof::read(disk, names)?,
            proven: Position::START,
            newest: Vec::new(),
            proven_length: 0,
        };
        if numbers.is_empty() && survey.proof.is_some() {
            let what = format!("{PROOF_FILE} belongs to a log");
            return Err(missing(disk, &segment_name(1), what));
        }
        let mut before: Option<(Extent, u64)> = None;
        for (index, &number) in numbers.iter().enumerate() {
            let expected = index as u64 + 1;
            if number != expected {
                let what = format!("it comes before {}", segment_name(number));
                return Err(missing(disk, &segment_name(expected), what));
            }
            before = survey.add(disk, number, index + 1 == numbers.len(), before)?;
            if let Some((_, length)) = &before {
                progress.add(*length as usize);
            }
        }
        if let Some((extent, length)) = before {
            survey.finish(disk, extent, length)?;
        }
        survey.check_proof(disk)?;
        survey.check_load_segments(disk, names)?;
        Ok(survey)
    }

    /// Reads one segment; `before` is the one before it with the length of its file. Returns the
    /// newest whole one.
    fn add(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        is_last: bool,
        before: Option<(Extent, u64)>,
    ) -> Result<Option<(Extent, u64)>, LogError> {
        let name = segment_name(number);
        let file = place(disk, &name);
        let mut bytes = read_file(disk, &name, u64::MAX)?;
        let first = match read_header(&file, number, &bytes)? {
            Header::First(first) => first,
            Header::Unfinished => {
                let continued = before.as_ref().is_some_and(|(extent, _)| extent.continued);
                if is_last && !continued {
                    self.unfinished = Some(number);
                    return Ok(before);
                }
                let what = "its header is incomplete, yet the log went on behind it".to_owned();
                return Err(LogError::Damaged {
                    file,
                    offset: 0,
                    what,
                });
            }
        };
        if first != self.next {
            return Err(match &before {
                Some((extent, _)) if first > self.next => LogError::Damaged {
                    file: place(disk, &segment_name(number - 1)),
                    offset: extent.length as u64,
                    what: format!(
                        "record {} does not read back, yet the log went on behind it",
                        self.next
                    ),
                },
                _ => LogError::Damaged {
                    file,
                    offset: 20,
                    what: format!("it begins with record {first} instead of {}", self.next),
                },
            });
        }
        let extent = read_extent(number, first, &bytes);
        self.next = extent.next;
        self.proven = extent.durable.max(Position(first.0 - 1));
        self.closed = extent.closed;
        self.load_segments
            .extend(extent.load_segments.iter().cloned());
        self.delivered.extend(&extent.delivered);
        self.segments.push_back(Segment {
            number,
            first,
            length: extent.length as u64,
        });
        let length = bytes.len() as u64;
        bytes.truncate(extent.length);
        self.newest = bytes;
        self.proven_length = extent.proven as u64;
        Ok(Some((extent, length)))
    }

    /// Judges the end of the newest segment.
    fn finish(&mut self, disk: &dyn Disk, extent: Extent, length: u64) -> Result<(), LogError> {
        let number = self.segments.back().map_or(1, |segment| segment.number);
        let file = place(disk, &segment_name(number));
        let offset = extent.length as u64;
        if extent.continued {
            let what = format!("{} says that the log goes on in it", segment_name(number));
            return Err(missing(disk, &segment_name(number + 1), what));
        }
        if let Some(claimed) = extent.claimed
            && claimed >= extent.next
        {
            let what = format!(
                "record {} does not read back, yet the log was durable through record {claimed}",
                extent.next
            );
            return Err(LogError::Damaged { file, offset, what });
        }
        if offset < length {
            self.closed = false;
            self.torn = Some(TornTail {
                file,
                offset,
                bytes: length - offset,
                kept: None,
                end: Position(extent.next.0 - 1),
                proven: self.proven,
            });
        }
        Ok(())
    }

    /// Refuses a log that has lost records since the proof was written.
    fn check_proof(&mut self, disk: &dyn Disk) -> Result<(), LogError> {
        let Some(proof) = self.proof else {
            return Ok(());
        };
        let found = Position(self.next.0 - 1);
        if proof.durable > found {
            let number = self.segments.back().map_or(1, |segment| segment.number);
            return Err(LogError::Short {
                file: place(disk, &segment_name(self.unfinished.unwrap_or(number))),
                proof: place(disk, PROOF_FILE),
                found,
                durable: proof.durable,
                closed: proof.closed,
            });
        }
        self.proven = self.proven.max(proof.durable);
        let is_newest = |segment: &&Segment| segment.number == proof.segment;
        if let Some(newest) = self.segments.back().filter(is_newest) {
            self.proven_length = self.proven_length.max(proof.length.min(newest.length));
        }
        if let Some(torn) = &mut self.torn {
            torn.proven = self.proven;
        }
        Ok(())
    }

    fn check_load_segments(&self, disk: &dyn Disk, names: &[String]) -> Result<(), LogError> {
        let present: HashSet<&String> = names.iter().collect();
        let mut absent = self
            .load_segments
            .iter()
            .filter(|name| !present.contains(name));
        if let Some(name) = absent.next() {
            return Err(missing(
                disk,
                name,
                "the log says that it was loaded".to_owned(),
            ));
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

    /// Makes durable what reads back of the newest segment; returns its number and the length to go
    /// on at.
    ///
    /// After a failed sync the system may show bytes that no later sync makes durable, so nothing
    /// is trusted that was not proven: records behind the proven length are written again, in a
    /// file that takes the segment's place. Witnesses there hold nothing, and are cut off. What
    /// does not read back is kept in a file of its own.
    fn settle_newest(&mut self, disk: &dyn Disk, names: &[String]) -> Result<(u64, u64), LogError> {
        let newest = self.segments.back_mut();
        let newest = newest.expect("a folder without segments was given one");
        let name = segment_name(newest.number);
        if let Some(torn) = &mut self.torn {
            torn.kept = Some(keep_tail(disk, names, &name, newest.length)?);
        }
        let is_header_proven = self.proven_length >= HEADER_BYTES as u64;
        if is_header_proven && self.next.0 - 1 <= self.proven.0 {
            newest.length = self.proven_length;
        } else {
            rewrite(disk, &name, &self.newest)?;
        }
        self.newest = Vec::new();
        Ok((newest.number, newest.length))
    }

    fn into_recovered(self, disk: &Arc<dyn Disk>, progress: &Arc<OpenProgress>) -> Recovered {
        Recovered {
            disk: Arc::clone(disk),
            progress: Arc::clone(progress),
            segments: self.segments,
            current: None,
            end: Position(self.next.0 - 1),
            torn: self.torn,
            closed: self.closed,
            delivered: self.delivered,
        }
    }
}

fn missing(disk: &dyn Disk, name: &str, what: String) -> LogError {
    LogError::Missing {
        file: place(disk, name),
        what,
    }
}

/// The length of all segments and finished load segments together.
fn bytes_to_read(disk: &dyn Disk, names: &[String]) -> Result<u64, LogError> {
    let are_read = |name: &&String| {
        segment_number(name).is_some() || (is_load_file(name) && !is_unfinished(name))
    };
    let lengths = names.iter().filter(are_read).map(|name| {
        disk.length(name)
            .map_err(|error| LogError::io("look at", &place(disk, name), &error))
    });
    lengths.sum()
}

/// The records of an opened log, in order; reads one segment at a time. Ends after an error.
pub struct Recovered {
    disk: Arc<dyn Disk>,
    progress: Arc<OpenProgress>,
    segments: VecDeque<Segment>,
    current: Option<Reading>,
    end: Position,
    torn: Option<TornTail>,
    closed: bool,
    delivered: BTreeMap<QueryUid, DeliveredRecord>,
}

struct Reading {
    name: String,
    bytes: Vec<u8>,
    at: usize,
    next: Position,
}

impl Recovered {
    /// The end of the newest segment that did not read back, if there was one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Whether the log was closed in order the last time.
    pub fn was_closed(&self) -> bool {
        self.closed
    }

    /// Per query, the newest `Delivered` mark in the log: recovery needs it before the first
    /// record.
    pub fn delivered(&self) -> impl Iterator<Item = DeliveredRecord> + '_ {
        self.delivered.values().copied()
    }

    /// The position of the last record.
    pub fn end(&self) -> Position {
        self.end
    }

    /// The number of records in the log when it was opened.
    pub fn len(&self) -> u64 {
        self.end.0
    }

    /// Whether the log held no record.
    pub fn is_empty(&self) -> bool {
        self.end == Position::START
    }

    fn read(&mut self) -> Result<Option<(Position, Record)>, LogError> {
        loop {
            let Some(reading) = &mut self.current else {
                let Some(segment) = self.segments.pop_front() else {
                    return Ok(None);
                };
                let name = segment_name(segment.number);
                let bytes = read_file(&*self.disk, &name, segment.length)?;
                let at = HEADER_BYTES;
                self.current = Some(Reading {
                    name,
                    bytes,
                    at,
                    next: segment.first,
                });
                continue;
            };
            if reading.at >= reading.bytes.len() {
                self.current = None;
                continue;
            }
            let damaged = |what: &str| LogError::Damaged {
                file: place(&*self.disk, &reading.name),
                offset: reading.at as u64,
                what: what.to_owned(),
            };
            let Some((frame, end)) = frame_at(&reading.bytes, reading.at, reading.next) else {
                return Err(damaged("it has changed since it was opened"));
            };
            self.progress.add(end - reading.at);
            if let Frame::Record(payload) = frame {
                let record = decode(payload).map_err(|error| {
                    let file = place(&*self.disk, &reading.name);
                    error.at(
                        file,
                        reading.at as u64,
                        &format!("record {}: ", reading.next),
                    )
                })?;
                let position = reading.next;
                reading.next = position.next();
                reading.at = end;
                return Ok(Some((position, record)));
            }
            reading.at = end;
        }
    }
}

impl Iterator for Recovered {
    type Item = Result<(Position, Record), LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read().transpose();
        if matches!(item, Some(Err(_))) {
            self.segments.clear();
            self.current = None;
        }
        item
    }
}
