//! Reading the records of verified segments: frames in order, a batch at a time, and their
//! decoding, which needs no order.
//!
//! The one thing to know: a segment is read again, so that not all of the log is held in memory.

use super::survey::Segment;
use crate::error::LogError;
use crate::file::{place, read_file};
use crate::record::{Position, Record};
use crate::segment::{Frame, frame_at, segment_name};
use crate::wire::decode;
use somersault_disk::Disk;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of frames after which a batch ends.
const BATCH_BYTES: usize = 1 << 18;

/// Walks the frames of segments, in order.
pub(super) struct FrameReader {
    disk: Arc<dyn Disk>,
    segments: VecDeque<Segment>,
    current: Option<Reading>,
    after: Position,
}

struct Reading {
    /// The segment as messages name it.
    file: Arc<str>,
    bytes: Arc<Vec<u8>>,
    at: usize,
    next: Position,
    seed: u32,
}

/// Consecutive records of one segment, not decoded yet.
pub(super) struct Batch {
    file: Arc<str>,
    bytes: Arc<Vec<u8>>,
    records: Vec<Located>,
    /// The bytes of frames behind the last record.
    rest: usize,
}

/// A record in a batch.
struct Located {
    position: Position,
    /// The byte of the segment at which its frame begins.
    offset: usize,
    payload: Range<usize>,
    /// The bytes of its frame, and of the frames since the record before.
    frames: usize,
}

/// A record with the bytes of frames that were read for it.
pub(super) type Decoded = (Result<Option<(Position, Record)>, LogError>, usize);

impl FrameReader {
    /// Reads the records behind `after` of these segments.
    pub(super) fn new(
        disk: &Arc<dyn Disk>,
        segments: VecDeque<Segment>,
        after: Position,
    ) -> FrameReader {
        FrameReader {
            disk: Arc::clone(disk),
            segments,
            current: None,
            after,
        }
    }

    /// Whether there are fewer bytes than these in all.
    pub(super) fn is_short(&self, bytes: u64) -> bool {
        let lengths = self.segments.iter().map(|segment| segment.length);
        lengths.sum::<u64>() < bytes
    }

    /// The next records; `None` behind the last.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>, LogError> {
        loop {
            let Some(reading) = &mut self.current else {
                let Some(segment) = self.segments.pop_front() else {
                    return Ok(None);
                };
                self.current = Some(Reading::of(&*self.disk, &segment)?);
                continue;
            };
            if reading.at < reading.bytes.len() {
                return reading.next_batch(self.after).map(Some);
            }
            self.current = None;
        }
    }
}

impl Reading {
    fn of(disk: &dyn Disk, segment: &Segment) -> Result<Reading, LogError> {
        let name = segment_name(segment.header.number);
        let bytes = read_file(disk, &name, segment.length)?;
        Ok(Reading {
            file: place(disk, &name).into(),
            bytes: Arc::new(bytes),
            at: segment.header.length(),
            next: segment.header.first,
            seed: segment.header.seed(),
        })
    }

    fn next_batch(&mut self, after: Position) -> Result<Batch, LogError> {
        let begin = self.at;
        let mut records = Vec::new();
        let mut frames = 0;
        while self.at < self.bytes.len() && self.at - begin < BATCH_BYTES {
            let offset = self.at;
            let Some((frame, end)) = frame_at(&self.bytes, offset, self.next, self.seed) else {
                return Err(LogError::Damaged {
                    file: self.file.to_string(),
                    offset: offset as u64,
                    what: "it has changed since it was opened".to_owned(),
                });
            };
            frames += end - offset;
            self.at = end;
            let Frame::Record(payload) = frame else {
                continue;
            };
            let position = self.next;
            self.next = position.next();
            if position > after {
                records.push(Located {
                    position,
                    offset,
                    payload: end - payload.len()..end,
                    frames: std::mem::take(&mut frames),
                });
            }
        }
        Ok(Batch {
            file: Arc::clone(&self.file),
            bytes: Arc::clone(&self.bytes),
            records,
            rest: frames,
        })
    }
}

impl Batch {
    /// Decodes the records, to the first that does not decode.
    pub(super) fn decode(self) -> Vec<Decoded> {
        let mut decoded = Vec::with_capacity(self.records.len() + 1);
        for located in &self.records {
            let record = decode(&self.bytes[located.payload.clone()]).map_err(|error| {
                let record = format!("record {}: ", located.position);
                error.at(self.file.to_string(), located.offset as u64, &record)
            });
            let is_whole = record.is_ok();
            let record = record.map(|record| Some((located.position, record)));
            decoded.push((record, located.frames));
            if !is_whole {
                return decoded;
            }
        }
        if self.rest > 0 {
            decoded.push((Ok(None), self.rest));
        }
        decoded
    }
}
