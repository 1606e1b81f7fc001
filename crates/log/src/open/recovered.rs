//! The records of a verified log, handed out in order.
//!
//! The one thing to know: a long log is decoded ahead on threads of its own, which begin with the
//! first record that is asked for. The records are the same whatever the number of threads.

use super::TornTail;
use super::ahead::DecodeAhead;
use super::frames::{Decoded, FrameReader};
use super::survey::Survey;
use crate::error::LogError;
use crate::progress::OpenProgress;
use crate::record::{DeliveredRecord, Position, Record};
use somersault_disk::Disk;
use somersault_model::QueryUid;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A log with fewer bytes than these is decoded by its reader: starting threads takes longer.
const LONG_BYTES: u64 = 1 << 20;

/// The records of an opened log, in order. Ends after an error.
pub struct Recovered {
    source: Source,
    decoders: usize,
    /// Decoded and not handed out yet.
    ready: VecDeque<Decoded>,
    progress: Arc<OpenProgress>,
    after: Position,
    end: Position,
    torn: Option<TornTail>,
    closed: bool,
    delivered: BTreeMap<QueryUid, DeliveredRecord>,
    lost_loads: Vec<String>,
}

enum Source {
    /// Read by the caller.
    Frames(FrameReader),
    /// Read and decoded ahead.
    Ahead(DecodeAhead),
    Ended,
}

impl Recovered {
    /// The records behind `after` of a folder that was verified for them, decoded on `decoders`
    /// threads; 0 for the caller's own.
    pub(super) fn new(
        survey: Survey,
        after: Position,
        disk: &Arc<dyn Disk>,
        progress: &Arc<OpenProgress>,
        decoders: usize,
    ) -> Recovered {
        let segments = survey.segments.into_iter().skip(survey.unread).collect();
        Recovered {
            source: Source::Frames(FrameReader::new(disk, segments, after)),
            decoders,
            ready: VecDeque::new(),
            progress: Arc::clone(progress),
            after,
            end: Position(survey.next.0 - 1),
            torn: survey.torn,
            closed: survey.closed,
            delivered: survey.delivered,
            lost_loads: survey.lost_loads,
        }
    }

    /// The end of the newest segment that did not read back, if there was one.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// The load segments that only records before these name, and that are missing or empty.
    pub fn lost_loads(&self) -> &[String] {
        &self.lost_loads
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
            if let Some((item, bytes)) = self.ready.pop_front() {
                self.progress.add(bytes);
                match item? {
                    Some(record) => return Ok(Some(record)),
                    None => continue,
                }
            }
            match self.next_batch()? {
                Some(batch) => self.ready = batch.into(),
                None => return Ok(None),
            }
        }
    }

    fn next_batch(&mut self) -> Result<Option<Vec<Decoded>>, LogError> {
        match &mut self.source {
            Source::Ended => Ok(None),
            Source::Ahead(ahead) => Ok(ahead.next_batch()),
            Source::Frames(frames) if self.decoders == 0 || frames.is_short(LONG_BYTES) => {
                // It stays short: decided once.
                self.decoders = 0;
                Ok(frames.next_batch()?.map(|batch| batch.decode()))
            }
            Source::Frames(_) => {
                let source = std::mem::replace(&mut self.source, Source::Ended);
                if let Source::Frames(frames) = source {
                    let ahead = DecodeAhead::start(frames, self.decoders);
                    self.source = Source::Ahead(ahead.map_err(|error| {
                        LogError::io("start the threads that read", "the log", &error)
                    })?);
                }
                self.next_batch()
            }
        }
    }
}

impl Iterator for Recovered {
    type Item = Result<(Position, Record), LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.read().transpose();
        if !matches!(item, Some(Ok(_))) {
            self.source = Source::Ended;
            self.ready.clear();
        }
        item
    }
}
