//! Group commit: records are encoded into the current group, and one thread writes and syncs group
//! after group.
//!
//! Before changing anything here: `durable` moves only after a sync has returned, under the state's
//! lock, and never after a failure. A failed write or sync is never tried again, because the
//! contents of the disk are then unknown.

use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::log::LogOptions;
use crate::proof::Proof;
use crate::record::{Position, Record};
use crate::segment::{
    self, HEADER_BYTES, Kind, WITNESS_FRAME_BYTES, Witness, begin_frame, finish_record,
    segment_name, witness_frame,
};
use crate::wire::{EncodeError, Encoder};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

type Observer = Box<dyn Fn(Position) + Send + Sync>;

/// The state that the callers of a log share with its thread.
pub(crate) struct Shared {
    options: LogOptions,
    state: Mutex<State>,
    /// The thread waits here for records.
    work: Condvar,
    /// Callers wait here for durability, failure or room.
    progress: Condvar,
    /// Written under the state's lock only, read without it.
    durable: AtomicU64,
    /// The bytes of all segments, for monitoring.
    bytes: AtomicU64,
    observers: Mutex<Vec<Observer>>,
}

struct State {
    /// The current group: space for its witness, then frames.
    pending: Vec<u8>,
    encoder: Encoder,
    end: Position,
    failed: Option<LogError>,
    closing: bool,
    /// The thread has ended.
    ended: bool,
}

/// The next task of the log's thread.
enum Task {
    /// A group through this position has been swapped out.
    Write(Position),
    /// No record came for as long as the log was to wait.
    Idle,
    Close,
}

impl Shared {
    pub(crate) fn new(options: LogOptions, end: Position, bytes: u64) -> Arc<Shared> {
        Arc::new(Shared {
            options,
            state: Mutex::new(State {
                pending: Vec::new(),
                encoder: Encoder::default(),
                end,
                failed: None,
                closing: false,
                ended: false,
            }),
            work: Condvar::new(),
            progress: Condvar::new(),
            durable: AtomicU64::new(end.0),
            bytes: AtomicU64::new(bytes),
            observers: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn append(&self, record: &Record) -> Result<Position, LogError> {
        let mut state = self.state.lock();
        while state.pending.len() > self.options.pending_bytes
            && state.failed.is_none()
            && !state.closing
        {
            self.progress.wait(&mut state);
        }
        let position = state.admit()?;
        if state.pending.is_empty() {
            state.pending.resize(WITNESS_FRAME_BYTES, 0);
            self.work.notify_one();
        }
        let State {
            pending, encoder, ..
        } = &mut *state;
        let at = begin_frame(pending);
        let encoded = encoder.encode(record, pending).and_then(|()| {
            if finish_record(pending, at, position) {
                Ok(())
            } else {
                Err(EncodeError::Size)
            }
        });
        if let Err(error) = encoded {
            // The group may have become empty; the thread skips such groups.
            pending.truncate(at);
            return Err(LogError::unwritable(error));
        }
        state.end = position;
        Ok(position)
    }

    /// Counts a record that no disk holds.
    pub(crate) fn append_volatile(&self) -> Result<Position, LogError> {
        let position = {
            let mut state = self.state.lock();
            let position = state.admit()?;
            state.end = position;
            self.durable.store(position.0, Ordering::Release);
            position
        };
        self.progress.notify_all();
        self.tell_observers();
        Ok(position)
    }

    pub(crate) fn end(&self) -> Position {
        self.state.lock().end
    }

    pub(crate) fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> Option<LogError> {
        self.state.lock().failed.clone()
    }

    pub(crate) fn wait_durable(&self, position: Position) -> Result<(), LogError> {
        if self.durable() >= position {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            if self.durable() >= position {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.ended {
                return Err(LogError::Closed { position });
            }
            self.progress.wait(&mut state);
        }
    }

    pub(crate) fn observe(&self, observer: Observer) {
        self.observers.lock().push(observer);
    }

    /// Lets the thread write what there is and end.
    pub(crate) fn begin_close(&self) {
        self.state.lock().closing = true;
        self.work.notify_all();
        self.progress.notify_all();
    }

    /// Stops acknowledging for good.
    fn fail(&self, error: LogError) {
        let mut state = self.state.lock();
        state.failed.get_or_insert(error);
        state.pending = Vec::new();
        drop(state);
        self.progress.notify_all();
        self.tell_observers();
    }

    fn advance_durable(&self, position: Position) {
        let state = self.state.lock();
        self.durable.store(position.0, Ordering::Release);
        drop(state);
        self.progress.notify_all();
        self.tell_observers();
    }

    fn tell_observers(&self) {
        let durable = self.durable();
        for observer in self.observers.lock().iter() {
            observer(durable);
        }
    }

    /// Waits for work, for `patience` at most; swaps a group with `group`, which must be empty.
    fn next_task(&self, group: &mut Vec<u8>, patience: Option<Duration>) -> Task {
        let mut state = self.state.lock();
        loop {
            if state.pending.len() > WITNESS_FRAME_BYTES {
                std::mem::swap(&mut state.pending, group);
                return Task::Write(state.end);
            }
            state.pending.clear();
            if state.closing {
                return Task::Close;
            }
            match patience {
                None => self.work.wait(&mut state),
                Some(patience) => {
                    let waited = self.work.wait_for(&mut state, patience);
                    if waited.timed_out() && state.pending.is_empty() && !state.closing {
                        return Task::Idle;
                    }
                }
            }
        }
    }
}

impl State {
    /// The position of the next record, if records are still taken.
    fn admit(&self) -> Result<Position, LogError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.closing {
            return Err(LogError::Closed {
                position: self.end.next(),
            });
        }
        Ok(self.end.next())
    }
}

/// Writes and syncs; lives in the log's thread.
pub(crate) struct Committer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) disk: Arc<dyn Disk>,
    /// The newest segment, open at its end.
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) segment: u64,
    pub(crate) length: u64,
    /// The length of that segment when it was synced last.
    pub(crate) synced: u64,
    pub(crate) durable: Position,
    /// The durable position that the proof file shows.
    pub(crate) proven: Position,
    pub(crate) groups_since_proof: u32,
    /// Whether a witness stands behind the last group.
    pub(crate) witnessed: bool,
}

impl Committer {
    /// Runs until the log is closed or fails.
    pub(crate) fn run(mut self) {
        let _end = EndOfThread(Arc::clone(&self.shared));
        if let Err(error) = self.commit_groups() {
            self.shared.fail(error);
        }
    }

    fn commit_groups(&mut self) -> Result<(), LogError> {
        let mut group = Vec::new();
        loop {
            group.clear();
            if group.capacity() > 2 * self.shared.options.pending_bytes {
                group = Vec::new();
            }
            match self.shared.next_task(&mut group, self.patience()) {
                Task::Write(through) => self.commit(&mut group, through)?,
                Task::Idle if self.witnessed => self.prove(false)?,
                Task::Idle => {
                    self.write_witness(Kind::Group)?;
                    self.witnessed = true;
                }
                Task::Close => {
                    self.write_witness(Kind::Closed)?;
                    self.sync()?;
                    self.check_place()?;
                    return self.prove(true);
                }
            }
        }
    }

    /// The time to wait for records before writing a witness or the proof.
    fn patience(&self) -> Option<Duration> {
        if !self.witnessed {
            Some(self.shared.options.idle_witness)
        } else if self.proven < self.durable {
            Some(self.shared.options.idle_proof)
        } else {
            None
        }
    }

    fn commit(&mut self, group: &mut [u8], through: Position) -> Result<(), LogError> {
        if self.length >= self.shared.options.segment_bytes {
            self.roll()?;
        }
        let witness = witness_frame(Kind::Group, self.witness());
        group[..WITNESS_FRAME_BYTES].copy_from_slice(&witness);
        self.write(group)?;
        self.sync()?;
        self.check_place()?;
        self.durable = through;
        self.witnessed = false;
        self.shared.advance_durable(through);
        self.groups_since_proof += 1;
        if self.groups_since_proof >= self.shared.options.proof_groups {
            self.prove(false)?;
        }
        Ok(())
    }

    /// Writes down in the proof file how much is durable.
    fn prove(&mut self, closed: bool) -> Result<(), LogError> {
        let proof = Proof {
            segment: self.segment,
            length: self.synced,
            durable: self.durable,
            closed,
        };
        proof.write(&*self.disk)?;
        self.proven = self.durable;
        self.groups_since_proof = 0;
        Ok(())
    }

    /// Begins the next segment. It is there for good before the old one says so.
    fn roll(&mut self) -> Result<(), LogError> {
        let next = self.segment + 1;
        let file = create_segment(&*self.disk, next, self.durable.next())?;
        self.write_witness(Kind::Continued)?;
        self.sync()?;
        self.file = file;
        self.segment = next;
        self.length = HEADER_BYTES as u64;
        self.synced = self.length;
        self.shared.bytes.fetch_add(self.length, Ordering::Relaxed);
        self.prove(false)
    }

    fn witness(&self) -> Witness {
        Witness {
            segment: self.segment,
            offset: self.length,
            first: self.durable.next(),
            durable: self.durable,
        }
    }

    fn write_witness(&mut self, kind: Kind) -> Result<(), LogError> {
        self.write(&witness_frame(kind, self.witness()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.file
            .append(bytes)
            .map_err(|error| self.io("write", &error))?;
        self.length += bytes.len() as u64;
        self.shared
            .bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.file.sync().map_err(|error| self.io("sync", &error))?;
        self.synced = self.length;
        Ok(())
    }

    /// Checks that the segment is still in the folder: synced bytes count only there. It costs one
    /// look-up of a name, far less than the sync.
    fn check_place(&self) -> Result<(), LogError> {
        match self.file.is_in_place() {
            Ok(true) => Ok(()),
            Ok(false) => Err(LogError::Gone {
                file: place(&*self.disk, &segment_name(self.segment)),
            }),
            Err(error) => Err(self.io("look for", &error)),
        }
    }

    fn io(&self, action: &'static str, error: &std::io::Error) -> LogError {
        LogError::io(
            action,
            &place(&*self.disk, &segment_name(self.segment)),
            error,
        )
    }
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
    file.append(&segment::header(number, first))
        .map_err(failed("write"))?;
    file.sync().map_err(failed("sync"))?;
    disk.sync_folder().map_err(failed("sync the folder of"))?;
    Ok(file)
}

/// A file of the data folder as messages name it.
pub(crate) fn place(disk: &dyn Disk, name: &str) -> String {
    format!("{}/{name}", disk.describe())
}

/// Wakes all waiting callers when the thread ends, in order or by a panic.
struct EndOfThread(Arc<Shared>);

impl Drop for EndOfThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(LogError::Io {
                action: "write",
                file: "the log".to_owned(),
                message: "its thread stopped by an internal error".to_owned(),
            });
        }
        self.0.state.lock().ended = true;
        self.0.progress.notify_all();
    }
}
