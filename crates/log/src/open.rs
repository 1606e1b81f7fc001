//! Opening: verifies every segment, tells an incomplete end from damage, and hands out the records.
//!
//! Nothing in the folder is changed before everything has been verified, so a refusal leaves it as it was.

use crate::commit::{create_segment, place};
use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::load::{is_load_file, load_number};
use crate::record::{DeliveredRecord, Position, Record};
use crate::segment::{
    Extent, Frame, Header, frame_at, read_extent, read_header, segment_name, segment_number,
};
use crate::wire::decode;
use somersault_model::QueryUid;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Read;
use std::sync::Arc;

/// An incomplete end that a crash left and opening cut off. None of it had been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment file.
    pub file: String,
    /// Where it was cut.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} ended in an incomplete write of {} bytes at byte {}, which was cut off; nothing of it had been acknowledged",
            self.file, self.bytes, self.offset
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
    pub(crate) next_load: u64,
    /// The bytes of all segments.
    pub(crate) bytes: u64,
    pub(crate) recovered: Recovered,
}

/// Verifies the folder, then puts it in order. The caller holds its lock.
pub(crate) fn open(disk: &Arc<dyn Disk>) -> Result<Opened, LogError> {
    let io = |action| {
        let folder = disk.describe();
        move |error| LogError::io(action, &folder, &error)
    };
    let names = disk.list().map_err(io("list"))?;
    let survey = Survey::of(&**disk, &names)?;

    for name in names.iter().filter(|name| is_load_file(name)) {
        if !survey.load_segments.contains(name) {
            disk.remove(name).map_err(io("remove an unused file of"))?;
        }
    }
    if let Some(number) = survey.unfinished {
        disk.remove(&segment_name(number))
            .map_err(io("remove an unfinished segment of"))?;
    }
    let mut segments = survey.segments;
    if segments.is_empty() {
        create_segment(&**disk, 1, Position(1))?;
        let (number, first, length) = (1, Position(1), crate::segment::HEADER_BYTES as u64);
        segments.push_back(Segment {
            number,
            first,
            length,
        });
    }
    let last = segments.back().expect("one was made if there was none");
    let (segment, length) = (last.number, last.length);
    let name = segment_name(segment);
    let failed = |action| {
        let file = place(&**disk, &name);
        move |error| LogError::io(action, &file, &error)
    };
    let mut file = disk.append_to(&name).map_err(failed("open"))?;
    if survey.torn.is_some() {
        file.truncate(length).map_err(failed("truncate"))?;
    }
    // What reads back may still be in the operating system's hands only: durable means synced.
    file.sync().map_err(failed("sync"))?;
    disk.sync_folder().map_err(io("sync"))?;

    let end = Position(survey.next.0 - 1);
    let next_load = names
        .iter()
        .filter_map(|name| load_number(name))
        .max()
        .unwrap_or(0)
        + 1;
    let bytes = segments.iter().map(|segment| segment.length).sum();
    let recovered = Recovered {
        disk: Arc::clone(disk),
        segments,
        current: None,
        end,
        torn: survey.torn,
        closed: survey.closed,
        delivered: survey.delivered,
    };
    Ok(Opened {
        file,
        segment,
        length,
        end,
        next_load,
        bytes,
        recovered,
    })
}

/// What the folder holds; making it changes nothing.
struct Survey {
    segments: VecDeque<Segment>,
    next: Position,
    closed: bool,
    torn: Option<TornTail>,
    /// The newest segment, whose creation was not finished.
    unfinished: Option<u64>,
    load_segments: HashSet<String>,
    delivered: BTreeMap<QueryUid, DeliveredRecord>,
}

impl Survey {
    fn of(disk: &dyn Disk, names: &[String]) -> Result<Survey, LogError> {
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
        };
        let mut before: Option<(Extent, u64)> = None;
        for (index, &number) in numbers.iter().enumerate() {
            let expected = index as u64 + 1;
            if number != expected {
                let what = format!("it comes before {}", segment_name(number));
                return Err(missing(disk, &segment_name(expected), what));
            }
            before = survey.add(disk, number, index + 1 == numbers.len(), before)?;
        }
        if let Some((extent, length)) = before {
            survey.finish(disk, extent, length)?;
        }
        survey.check_load_segments(disk, names)?;
        Ok(survey)
    }

    /// Reads one segment; `before` is the one before it with its file's length. Returns the newest whole one.
    fn add(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        is_last: bool,
        before: Option<(Extent, u64)>,
    ) -> Result<Option<(Extent, u64)>, LogError> {
        let name = segment_name(number);
        let file = place(disk, &name);
        let bytes = read_file(disk, &name, u64::MAX)?;
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
        self.closed = extent.closed;
        self.load_segments
            .extend(extent.load_segments.iter().cloned());
        self.delivered.extend(&extent.delivered);
        self.segments.push_back(Segment {
            number,
            first,
            length: extent.length as u64,
        });
        Ok(Some((extent, bytes.len() as u64)))
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
            });
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
        match names.iter().find(|name| is_load_file(name)) {
            Some(name) if self.segments.is_empty() && self.unfinished.is_none() => Err(missing(
                disk,
                &segment_name(1),
                format!("{name} belongs to a log"),
            )),
            _ => Ok(()),
        }
    }
}

fn missing(disk: &dyn Disk, name: &str, what: String) -> LogError {
    LogError::Missing {
        file: place(disk, name),
        what,
    }
}

fn read_file(disk: &dyn Disk, name: &str, length: u64) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    disk.read(name)
        .and_then(|reader| reader.take(length).read_to_end(&mut bytes))
        .map_err(|error| LogError::io("read", &place(disk, name), &error))?;
    Ok(bytes)
}

/// The records of an opened log, in order; reads one segment at a time. Ends after an error.
pub struct Recovered {
    disk: Arc<dyn Disk>,
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
    /// The incomplete end that was cut off, if there was one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Whether the log was closed in order the last time.
    pub fn was_closed(&self) -> bool {
        self.closed
    }

    /// Per query, the newest `Delivered` mark in the log: recovery needs it before the first record.
    pub fn delivered(&self) -> impl Iterator<Item = DeliveredRecord> + '_ {
        self.delivered.values().copied()
    }

    /// The position of the last record.
    pub fn end(&self) -> Position {
        self.end
    }

    /// How many records the log held when it was opened.
    pub fn len(&self) -> u64 {
        self.end.0
    }

    /// Whether the log held none.
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
                let at = crate::segment::HEADER_BYTES;
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
