//! Group commit: records are encoded into the current group, and the committer writes and syncs
//! group after group. It runs on the log's own thread, or a step at a time on the threads of the
//! log's callers ([`crate::CommitMode`]); both take the same steps.
//!
//! Before changing anything here: `durable` moves only after a sync has returned, under the state's
//! lock, and never after a failure. A failed write or sync is never tried again, because the
//! contents of the disk are then unknown. A group for which the disk has no room is not written: it
//! waits (`room.rs`).

use crate::chain::Chain;
use crate::error::LogError;
use crate::file::place;
use crate::identity::Origin;
use crate::next_segment::{NextSegment, OldSegment};
use crate::options::LogOptions;
use crate::record::{CommandRecord, Position, Record};
use crate::room::Room;
use crate::segment::{
    Kind, WITNESS_FRAME_BYTES, Witness, begin_frame, finish_record, segment_name, witness_frame,
};
use crate::wire::{EncodeError, Encoder, PushBody, TxnBody};
use parking_lot::{Condvar, Mutex, MutexGuard};
use somersault_disk::{Disk, DiskFile, DiskLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

type Observer = Box<dyn Fn(Position) + Send + Sync>;

/// The state that the callers of a log share with its committer.
pub(crate) struct Shared {
    options: LogOptions,
    /// The data folder, as messages name it.
    folder: String,
    /// The value that the checksums of this opening's frames begin with.
    seed: u32,
    state: Mutex<State>,
    /// The log's thread waits here for records.
    work: Condvar,
    /// Callers wait here for durability, failure or room.
    progress: Condvar,
    /// Written under the state's lock only, read without it.
    durable: AtomicU64,
    /// The bytes of all segments.
    bytes: AtomicU64,
    /// Whether the disk has no room for inputs.
    is_full: Arc<AtomicBool>,
    observers: Mutex<Vec<Observer>>,
    /// The committer of a log whose callers commit, until it has ended.
    by_callers: Option<Mutex<Option<Committer>>>,
}

struct State {
    /// The current group: space for its witness, then frames.
    pending: Vec<u8>,
    encoder: Encoder,
    end: Position,
    /// The segment that holds the last durable record, and the length through which it is durable.
    synced: (u64, u64),
    failed: Option<LogError>,
    /// The number of [`GroupHold`]s.
    holds: u32,
    closing: bool,
    /// The committer has ended.
    ended: bool,
}

/// The next task of the committer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A group through this position has been swapped out.
    Write(Position),
    /// The group that waits for room is tried again.
    Retry,
    /// The log is idle: a mark says how much of it is durable.
    Mark,
    Close,
}

impl Shared {
    /// The shared state of a log that ends at `end`. A committer that is passed in is driven by the
    /// callers.
    pub(crate) fn new(
        options: LogOptions,
        folder: String,
        seed: u32,
        end: Position,
        (synced, bytes): ((u64, u64), u64),
        is_full: Arc<AtomicBool>,
        by_callers: Option<Committer>,
    ) -> Arc<Shared> {
        Arc::new(Shared {
            options,
            folder,
            seed,
            state: Mutex::new(State {
                pending: Vec::new(),
                encoder: Encoder::default(),
                end,
                synced,
                failed: None,
                holds: 0,
                closing: false,
                ended: false,
            }),
            work: Condvar::new(),
            progress: Condvar::new(),
            durable: AtomicU64::new(end.0),
            bytes: AtomicU64::new(bytes),
            is_full,
            observers: Mutex::new(Vec::new()),
            by_callers: by_callers.map(|committer| Mutex::new(Some(committer))),
        })
    }

    /// The shared state of a log of which nothing is written.
    pub(crate) fn unwritten(end: Position) -> Arc<Shared> {
        let has_room = Arc::default();
        Shared::new(
            LogOptions::default(),
            String::new(),
            0,
            end,
            ((0, 0), 0),
            has_room,
            None,
        )
    }

    pub(crate) fn append<P: PushBody, C: AsRef<CommandRecord>, T: TxnBody>(
        &self,
        record: &Record<P, C, T>,
    ) -> Result<Position, LogError> {
        if record.needs_room() && !self.has_room() && !self.regain() {
            return Err(self.full());
        }
        let mut state = self.state.lock();
        while state.pending.len() > self.options.pending_bytes
            && state.failed.is_none()
            && !state.closing
        {
            // What is held until then would be waited for for ever.
            state.holds = 0;
            self.work.notify_one();
            self.await_progress(&mut state)?;
        }
        let position = state.admit()?;
        if state.pending.is_empty() {
            state.pending.resize(WITNESS_FRAME_BYTES, 0);
            if state.holds == 0 {
                self.work.notify_one();
            }
        }
        let State {
            pending, encoder, ..
        } = &mut *state;
        let at = begin_frame(pending);
        let encoded = encoder.encode(record, pending).and_then(|()| {
            if finish_record(pending, at, position, self.seed) {
                Ok(())
            } else {
                Err(EncodeError::Size)
            }
        });
        if let Err(error) = encoded {
            // The group may have become empty; the committer skips such groups.
            pending.truncate(at);
            return Err(error.into());
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

    /// Keeps the committer from taking the current group until the hold is dropped.
    pub(crate) fn hold_group(self: &Arc<Shared>) -> GroupHold {
        self.state.lock().holds += 1;
        GroupHold(Arc::clone(self))
    }

    pub(crate) fn end(&self) -> Position {
        self.state.lock().end
    }

    pub(crate) fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    /// The last durable position, with the segment and the length through which it is durable.
    pub(crate) fn durable_end(&self) -> ((u64, u64), Position) {
        let state = self.state.lock();
        (state.synced, self.durable())
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
            assert!(
                self.by_callers.is_none() || position <= state.end,
                "record {position} was not appended, and no other thread appends it"
            );
            self.await_progress(&mut state)?;
        }
    }

    /// Waits until the committer has moved. Where callers commit, this caller does.
    ///
    /// # Errors
    /// This caller commits, and the disk has no room for the group.
    fn await_progress(&self, state: &mut MutexGuard<'_, State>) -> Result<(), LogError> {
        if self.by_callers.is_none() {
            self.progress.wait(state);
            return Ok(());
        }
        let has_moved = MutexGuard::unlocked(state, || self.commit());
        let is_stuck = !has_moved && state.failed.is_none() && !self.has_room();
        if is_stuck { Err(self.full()) } else { Ok(()) }
    }

    /// Whether the disk has room for inputs.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full.load(Ordering::Acquire)
    }

    /// Where callers commit: tries whether there is room again.
    fn regain(&self) -> bool {
        if let Some(by_callers) = &self.by_callers
            && let Some(committer) = &mut *by_callers.lock()
            && let Err(error) = committer.regain()
        {
            self.fail(error);
        }
        self.has_room()
    }

    /// The refusal of inputs, if the disk is full.
    pub(crate) fn no_room(&self) -> Option<LogError> {
        (!self.has_room() && !self.regain()).then(|| self.full())
    }

    fn full(&self) -> LogError {
        LogError::Full {
            folder: self.folder.clone(),
        }
    }

    /// Whether [`Shared::commit`] has something to do.
    pub(crate) fn may_commit(&self) -> bool {
        let Some(by_callers) = &self.by_callers else {
            return false;
        };
        let committer = by_callers.lock();
        let is_marked = committer.as_ref().is_none_or(Committer::is_marked);
        let state = self.state.lock();
        committer.is_some() && (state.has_group() || state.closing || !is_marked)
    }

    /// Takes one step of the committer on the caller's thread: the current group, or a mark where
    /// there is none. Returns whether there was something to do.
    pub(crate) fn commit(&self) -> bool {
        let Some(by_callers) = &self.by_callers else {
            return false;
        };
        let mut committer = by_callers.lock();
        let Some(driven) = &mut *committer else {
            return false;
        };
        let task = {
            let mut state = self.state.lock();
            let is_marked = driven.is_marked();
            if driven.waiting.is_some() {
                Some(Task::Retry)
            } else {
                let group = state.take_group(&mut driven.group);
                group.or_else(|| (!is_marked).then_some(Task::Mark))
            }
        };
        let Some(task) = task else {
            return false;
        };
        if !driven.step(self, task) {
            // The files are closed and the folder is free before anyone learns of the end.
            *committer = None;
            self.end_commits();
            return true;
        }
        driven.waiting.is_none()
    }

    pub(crate) fn observe(&self, observer: Observer) {
        self.observers.lock().push(observer);
    }

    /// Lets the committer write what there is and end.
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

    fn advance_durable(&self, position: Position, synced: (u64, u64)) {
        let mut state = self.state.lock();
        state.synced = synced;
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
            if let Some(task) = state.take_group(group) {
                return task;
            }
            match patience {
                None => self.work.wait(&mut state),
                Some(patience) => {
                    let waited = self.work.wait_for(&mut state, patience);
                    if waited.timed_out() && state.pending.is_empty() && !state.closing {
                        return Task::Mark;
                    }
                }
            }
        }
    }

    /// Waits until the group that has no room may be tried again.
    fn await_room(&self) {
        let mut state = self.state.lock();
        if !state.closing {
            self.work.wait_for(&mut state, self.options.room_patience);
        }
    }

    fn is_closing(&self) -> bool {
        self.state.lock().closing
    }

    /// Nothing more becomes durable; wakes all callers that wait.
    fn end_commits(&self) {
        self.state.lock().ended = true;
        self.progress.notify_all();
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

    fn has_group(&self) -> bool {
        self.pending.len() > WITNESS_FRAME_BYTES && (self.holds == 0 || self.closing)
    }

    /// Swaps the current group with `group`, which must be empty; without one, says whether the log
    /// is to be closed.
    fn take_group(&mut self, group: &mut Vec<u8>) -> Option<Task> {
        if self.has_group() {
            std::mem::swap(&mut self.pending, group);
            return Some(Task::Write(self.end));
        }
        if self.holds == 0 {
            self.pending.clear();
        }
        self.closing.then_some(Task::Close)
    }
}

/// Keeps the records that are appended meanwhile in one group, so that they become durable together
/// and by one sync. Dropping it lets the group go. If so much is appended that it has to wait, the
/// group goes before.
pub struct GroupHold(Arc<Shared>);

impl Drop for GroupHold {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.holds = state.holds.saturating_sub(1);
        if state.holds == 0 && !state.pending.is_empty() {
            self.0.work.notify_one();
        }
    }
}

/// Writes and syncs.
pub(crate) struct Committer {
    pub(crate) disk: Arc<dyn Disk>,
    /// The newest segment, open at its end.
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) segment: u64,
    /// The origin of the segments of this opening.
    pub(crate) origin: Origin,
    pub(crate) chain: Arc<Chain>,
    pub(crate) length: u64,
    /// The length of that segment when it was synced last.
    pub(crate) synced: u64,
    /// The bytes of all segments.
    pub(crate) bytes: u64,
    pub(crate) durable: Position,
    /// The durable position that the proof file shows.
    pub(crate) proven: Position,
    pub(crate) groups_since_proof: u32,
    /// Whether a witness stands behind the last group.
    pub(crate) witnessed: bool,
    /// The group that is being written; kept for its memory.
    pub(crate) group: Vec<u8>,
    /// The end of that group, if it waits for room on the disk.
    pub(crate) waiting: Option<Position>,
    pub(crate) room: Room,
    pub(crate) next: NextSegment,
    /// The folder is this process's as long as the log writes, whichever thread still holds the
    /// log.
    pub(crate) _folder_lock: DiskLock,
    /// The newest segment is locked too.
    pub(crate) _segment_lock: DiskLock,
}

impl Committer {
    /// Runs until the log is closed or fails.
    pub(crate) fn run(mut self, shared: &Shared) {
        let _end = EndOfThread(shared);
        loop {
            let task = if self.waiting.is_some() {
                shared.await_room();
                Task::Retry
            } else {
                let patience = self.patience(&shared.options);
                shared.next_task(&mut self.group, patience)
            };
            if !self.step(shared, task) {
                return;
            }
        }
    }

    /// Does a task. Returns whether the log goes on.
    fn step(&mut self, shared: &Shared, task: Task) -> bool {
        let done = match task {
            Task::Write(through) => {
                self.waiting = Some(through);
                self.commit(shared)
            }
            Task::Retry => self.commit(shared),
            Task::Mark => self.mark(),
            Task::Close => self.close(),
        };
        shared.bytes.store(self.bytes, Ordering::Relaxed);
        if let Err(error) = done {
            shared.fail(error);
            return false;
        }
        task != Task::Close
    }

    /// The time to wait for records before writing a witness or the proof, or looking for room.
    fn patience(&self, options: &LogOptions) -> Option<Duration> {
        let idle = if !self.witnessed {
            Some(options.idle_witness)
        } else if self.proven < self.durable {
            Some(options.idle_proof)
        } else {
            None
        };
        match self.room.is_full() {
            true => Some(idle.map_or(options.room_patience, |it| it.min(options.room_patience))),
            false => idle,
        }
    }

    /// Whether the marks on the disk say of all that is durable that it is.
    fn is_marked(&self) -> bool {
        self.witnessed && self.proven == self.durable
    }

    /// Does what an idle log does.
    fn mark(&mut self) -> Result<(), LogError> {
        if self.room.is_full() {
            self.regain()?;
        }
        if !self.witnessed {
            self.write_witness(Kind::Group)?;
            self.witnessed = true;
            return Ok(());
        }
        if self.proven < self.durable {
            self.prove(false)?;
        }
        Ok(())
    }

    /// Tries whether the disk has room again.
    fn regain(&mut self) -> Result<(), LogError> {
        self.room.regain(&mut *self.file, self.length)
    }

    /// Writes and syncs the group. If the disk has no room for it, it waits.
    fn commit(&mut self, shared: &Shared) -> Result<(), LogError> {
        let options = &shared.options;
        let Some(through) = self.waiting else {
            return Ok(());
        };
        if let Some(error) = self.next.failure() {
            return Err(error);
        }
        self.go_on()?;
        let bytes = self.group.len() as u64;
        if !self.room.ensure(&mut *self.file, self.length, bytes)? {
            // Records that were appended must not be lost silently.
            return match shared.is_closing() {
                true => Err(LogError::DiskFull {
                    file: place(&*self.disk, &segment_name(self.segment)),
                }),
                false => Ok(()),
            };
        }
        self.waiting = None;
        self.begin_next(through, bytes, options)?;
        let mut group = std::mem::take(&mut self.group);
        let witness = witness_frame(Kind::Group, self.witness(), self.origin.seed());
        group[..WITNESS_FRAME_BYTES].copy_from_slice(&witness);
        self.write(&group)?;
        self.sync()?;
        self.check_place()?;
        self.durable = through;
        self.witnessed = false;
        shared.bytes.store(self.bytes, Ordering::Relaxed);
        shared.advance_durable(through, (self.segment, self.synced));
        group.clear();
        if group.capacity() <= 2 * options.pending_bytes {
            self.group = group;
        }
        self.groups_since_proof += 1;
        if self.groups_since_proof >= options.proof_groups {
            self.prove(false)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.next.close()?;
        self.write_witness(Kind::Closed)?;
        self.sync()?;
        self.check_place()?;
        self.free_rest()?;
        self.prove(true)
    }

    /// Gives back the space that was set aside behind the end of the segment.
    fn free_rest(&mut self) -> Result<(), LogError> {
        let freed = self.file.truncate(self.length);
        freed.map_err(|error| self.io("truncate", &error))
    }

    /// Writes down in the proof file how much is durable. On a full disk the proof stays behind: it
    /// is a lower bound.
    fn prove(&mut self, closed: bool) -> Result<(), LogError> {
        let proof = self.chain.proof();
        match proof.prove(self.segment, self.synced, self.durable, closed) {
            Err(LogError::DiskFull { .. }) => self.room.note_full(),
            done => done?,
        }
        self.proven = self.durable;
        self.groups_since_proof = 0;
        Ok(())
    }

    /// Has the next segment made, or its header written, as far as the group that ends at `through`
    /// fills this one.
    fn begin_next(
        &mut self,
        through: Position,
        group_bytes: u64,
        options: &LogOptions,
    ) -> Result<(), LogError> {
        let length = self.length + group_bytes;
        if length < options.segment_bytes / 2 || self.room.is_full() {
            return Ok(());
        }
        self.next.ask(self.segment + 1);
        if length < options.segment_bytes {
            return Ok(());
        }
        match self.next.begin(through.next()) {
            // This segment grows on, as far as there is room, and the next one is asked for again.
            Err(LogError::DiskFull { .. }) => Ok(()),
            begun => begun,
        }
    }

    /// Goes on in the next segment, if it was begun behind the last group, which is durable.
    fn go_on(&mut self) -> Result<(), LogError> {
        let Some((header, made)) = self.next.take()? else {
            return Ok(());
        };
        let mark = witness_frame(Kind::Continued, self.witness(), self.origin.seed());
        let old = OldSegment {
            number: self.segment,
            file: std::mem::replace(&mut self.file, made.file),
            lock: std::mem::replace(&mut self._segment_lock, made.lock),
            mark: mark.to_vec(),
            length: self.length + mark.len() as u64,
            next: header,
        };
        self.chain.push(header);
        self.segment = header.number;
        self.length = header.length() as u64;
        self.synced = self.length;
        self.bytes += self.length + mark.len() as u64;
        self.witnessed = true;
        self.room.move_on(made.secured);
        self.next.retire(old, Arc::clone(&self.chain));
        Ok(())
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
        self.write(&witness_frame(kind, self.witness(), self.origin.seed()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.file
            .append(bytes)
            .map_err(|error| self.io("write", &error))?;
        self.length += bytes.len() as u64;
        self.bytes += bytes.len() as u64;
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

/// Ends the commits when the log's thread ends, in order or by a panic.
struct EndOfThread<'s>(&'s Shared);

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(LogError::Io {
                action: "write",
                file: "the log".to_owned(),
                message: "its thread stopped by an internal error".to_owned(),
            });
        }
        self.0.end_commits();
    }
}
