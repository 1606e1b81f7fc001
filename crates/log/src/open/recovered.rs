//! The records of a verified log, handed out in order.
//!
//! The one thing to know: a segment is read again, so that not all of the log is held in memory.

use super::TornTail;
use super::survey::{Segment, Survey};
use crate::error::LogError;
use crate::file::{place, read_file};
use crate::progress::OpenProgress;
use crate::record::{DeliveredRecord, Position, Record};
use crate::segment::{Frame, frame_at, segment_name};
use crate::wire::decode;
use somersault_disk::Disk;
use somersault_model::QueryUid;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The records of an opened log, in order; reads one segment at a time. Ends after an error.
pub struct Recovered {
    disk: Arc<dyn Disk>,
    progress: Arc<OpenProgress>,
    segments: VecDeque<Segment>,
    current: Option<Reading>,
    after: Position,
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
    seed: u32,
}

impl Recovered {
    /// The records behind `after` of a folder that was verified for them.
    pub(super) fn new(
        survey: Survey,
        after: Position,
        disk: &Arc<dyn Disk>,
        progress: &Arc<OpenProgress>,
    ) -> Recovered {
        Recovered {
            disk: Arc::clone(disk),
            progress: Arc::clone(progress),
            segments: survey.segments.into_iter().skip(survey.unread).collect(),
            current: None,
            after,
            end: Position(survey.next.0 - 1),
            torn: survey.torn,
            closed: survey.closed,
            delivered: survey.delivered,
        }
    }

    /// The end of the newest segment that did not read back, if there was one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// Whether the log was closed in order the last time.
    pub fn was_closed(&self) -> bool {
        self.closed
    }

    /// Per query, the newest `Delivered` mark in the segments that are read: recovery needs it
    /// before the first record.
    pub fn delivered(&self) -> impl Iterator<Item = DeliveredRecord> + '_ {
        self.delivered.values().copied()
    }

    /// The position of the last record.
    pub fn end(&self) -> Position {
        self.end
    }

    /// The number of records that there were when the log was opened.
    pub fn len(&self) -> u64 {
        self.end.0 - self.after.0
    }

    /// Whether there was no record.
    pub fn is_empty(&self) -> bool {
        self.end == self.after
    }

    fn read(&mut self) -> Result<Option<(Position, Record)>, LogError> {
        loop {
            let Some(reading) = &mut self.current else {
                let Some(segment) = self.segments.pop_front() else {
                    return Ok(None);
                };
                self.current = Some(Reading::of(&*self.disk, &segment)?);
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
            let frame = frame_at(&reading.bytes, reading.at, reading.next, reading.seed);
            let Some((frame, end)) = frame else {
                return Err(damaged("it has changed since it was opened"));
            };
            self.progress.add(end - reading.at);
            let offset = std::mem::replace(&mut reading.at, end);
            let Frame::Record(payload) = frame else {
                continue;
            };
            let position = reading.next;
            reading.next = position.next();
            if position <= self.after {
                continue;
            }
            let record = decode(payload).map_err(|error| {
                let file = place(&*self.disk, &reading.name);
                error.at(file, offset as u64, &format!("record {position}: "))
            })?;
            return Ok(Some((position, record)));
        }
    }
}

impl Reading {
    fn of(disk: &dyn Disk, segment: &Segment) -> Result<Reading, LogError> {
        let name = segment_name(segment.header.number);
        let bytes = read_file(disk, &name, segment.length)?;
        Ok(Reading {
            name,
            bytes,
            at: segment.header.length(),
            next: segment.header.first,
            seed: segment.header.seed(),
        })
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
