//! The public interface of the log: open, append, wait, close. The order of `append` calls is the
//! order of the records.

use crate::chain::{Chain, DurableEnd, Trimmed};
use crate::commit::{Committer, GroupHold, Shared};
use crate::copy::LogCopy;
use crate::error::LogError;
use crate::hold::FolderHolds;
use crate::identity::{LogIdentity, Origin};
use crate::load::{LoadSegmentReader, LoadSegmentText, LoadSegmentWriter, segment_text};
use crate::next_segment::NextSegment;
use crate::open::{self, Recovered};
use crate::options::{CommitMode, LogOptions};
use crate::progress::OpenProgress;
use crate::record::{CommandRecord, LoadSegment, Position, Record};
use crate::room::Room;
use crate::segment::{lock_segment, segment_number};
use crate::wire::{PushBody, TxnBody};
use parking_lot::Mutex;
use somersault_disk::{Access, Disk, DiskLock};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// One process's log. Dropping it closes it.
pub struct Log {
    shared: Arc<Shared>,
    /// Where load segments are read; none if there is no data folder.
    disk: Option<Arc<dyn Disk>>,
    progress: Arc<OpenProgress>,
    identity: Option<LogIdentity>,
    /// 0 for a log that is not written.
    incarnation: u64,
    /// The segments; none if nothing is written.
    chain: Option<Arc<Chain>>,
    /// Whether records are counted only, and nothing is written.
    is_volatile: bool,
    /// For a log that is only read: keeps writing processes out of the folder.
    _read_lock: Option<DiskLock>,
    next_load: AtomicU64,
    /// The thread that writes, if there is one, until the log is closed.
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log in a folder, or begins one in an empty folder. All records that were
    /// acknowledged before are among the recovered ones; unacknowledged ones are whole or absent.
    ///
    /// # Errors
    /// See [`LogError`]: another process has the folder, another version, damage, a missing file,
    /// a file of another log, IO. Nothing in the folder has been changed then, unless the disk
    /// itself failed.
    pub fn open(disk: Arc<dyn Disk>, options: LogOptions) -> Result<(Log, Recovered), LogError> {
        Log::open_after(disk, options, Position::START)
    }

    /// The identity of the log in a folder, by which a checkpoint is chosen before the log is
    /// opened behind it. `None` for a folder without a log, or with one of version 1.
    ///
    /// ```
    /// use somersault_disk::{Access, SimDisk};
    /// use somersault_log::{Log, LogOptions};
    /// # fn main() -> Result<(), somersault_log::LogError> {
    /// let disk = std::sync::Arc::new(SimDisk::new());
    /// assert_eq!(Log::identity_in(&*disk, Access::Write)?, None);
    /// let (log, _) = Log::open(disk.clone(), LogOptions::default())?;
    /// let identity = log.identity();
    /// log.close()?;
    /// drop(log);
    /// assert_eq!(Log::identity_in(&*disk, Access::Write)?, identity);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Another process has the folder, the file that shows the identity is damaged, or IO; to
    /// write, also if the folder is a backup, in which then not even a lock is left.
    pub fn identity_in(disk: &dyn Disk, access: Access) -> Result<Option<LogIdentity>, LogError> {
        if access == Access::Write {
            open::refuse_copy(disk)?;
        }
        let _lock = lock_folder(disk, access)?;
        open::identity(disk)
    }

    /// Opens the log in a folder as [`Log::open`] does; only the records behind `after` are
    /// recovered. Segments without such records are not read.
    ///
    /// ```
    /// use somersault_disk::SimDisk;
    /// use somersault_log::{AdvanceRecord, Log, LogOptions, Position, Record};
    /// # fn main() -> Result<(), somersault_log::LogError> {
    /// let disk = std::sync::Arc::new(SimDisk::new());
    /// let (log, _) = Log::open(disk.clone(), LogOptions::default())?;
    /// let record: Record = Record::Advance(AdvanceRecord { received_ms: 0, to: Vec::new() });
    /// log.append(&record)?;
    /// log.append(&record)?;
    /// log.close()?;
    /// let (_log, recovered) = Log::open_after(disk, LogOptions::default(), Position(1))?;
    /// assert_eq!(recovered.map(|item| item.unwrap().0).collect::<Vec<_>>(), [Position(2)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Log::open`]; also if the log begins behind, or ends before, that position.
    pub fn open_after(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        after: Position,
    ) -> Result<(Log, Recovered), LogError> {
        let folder = disk.describe();
        let lock = lock_folder(&*disk, Access::Write)?;
        let progress = Arc::clone(&options.progress);
        let decoders = match options.commits {
            CommitMode::Thread => options.decoders,
            CommitMode::Callers => 0,
        };
        let opened = open::open(&disk, after, &options, decoders)?;
        let segment_lock = lock_segment(&*disk, opened.segment, Access::Write)?;
        let mut file = opened.file;
        let room = Room::new(&disk, &options, &mut *file, opened.length)?;
        let is_full = room.flag();
        let next = NextSegment::new(&disk, opened.origin, &options)?;
        let committer = Committer {
            disk: Arc::clone(&disk),
            file,
            segment: opened.segment,
            origin: opened.origin,
            chain: Arc::clone(&opened.chain),
            length: opened.length,
            synced: opened.length,
            bytes: opened.bytes,
            durable: opened.end,
            proven: opened.end,
            groups_since_proof: 0,
            witnessed: true,
            group: Vec::new(),
            waiting: None,
            room,
            next,
            _folder_lock: lock,
            _segment_lock: segment_lock,
        };
        let (of_callers, of_thread) = match options.commits {
            CommitMode::Thread => (None, Some(committer)),
            CommitMode::Callers => (Some(committer), None),
        };
        let seed = opened.origin.seed();
        let shared = Shared::new(
            options,
            folder.clone(),
            seed,
            opened.end,
            ((opened.segment, opened.length), opened.bytes),
            is_full,
            of_callers,
        );
        let thread = of_thread
            .map(|committer| start_thread(committer, &shared))
            .transpose()
            .map_err(|error| LogError::io("start the thread that writes", &folder, &error))?;
        let log = Log {
            shared,
            disk: Some(disk),
            progress,
            identity: Some(opened.origin.identity),
            incarnation: opened.origin.incarnation,
            chain: Some(opened.chain),
            is_volatile: false,
            _read_lock: None,
            next_load: AtomicU64::new(opened.next_load),
            thread: Mutex::new(thread),
        };
        Ok((log, opened.recovered))
    }

    /// Opens the log in a folder to read it. Nothing in the folder is changed: files that opening
    /// would set aside are skipped, and appended records are counted but not kept.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn read(
        disk: Arc<dyn Disk>,
        progress: Arc<OpenProgress>,
    ) -> Result<(Log, Recovered), LogError> {
        Log::read_after(disk, progress, Position::START)
    }

    /// Opens the log in a folder as [`Log::read`] does; only the records behind `after` are
    /// recovered.
    ///
    /// # Errors
    /// As [`Log::open_after`].
    pub fn read_after(
        disk: Arc<dyn Disk>,
        progress: Arc<OpenProgress>,
        after: Position,
    ) -> Result<(Log, Recovered), LogError> {
        let lock = lock_folder(&*disk, Access::Read)?;
        let decoders = LogOptions::default().decoders;
        let (recovered, identity) = open::read(&disk, after, &progress, decoders)?;
        let log = Log {
            shared: Shared::unwritten(recovered.end()),
            disk: Some(disk),
            progress,
            identity,
            incarnation: 0,
            chain: None,
            is_volatile: true,
            _read_lock: Some(lock),
            next_load: AtomicU64::new(1),
            thread: Mutex::default(),
        };
        Ok((log, recovered))
    }

    /// A log without a disk: everything is durable at once, nothing survives the process.
    #[must_use]
    pub fn volatile() -> Log {
        Log {
            shared: Shared::unwritten(Position::START),
            disk: None,
            progress: Arc::default(),
            identity: None,
            incarnation: 0,
            chain: None,
            is_volatile: true,
            _read_lock: None,
            next_load: AtomicU64::new(1),
            thread: Mutex::default(),
        }
    }

    /// Whether nothing that is appended is written: the log has no disk, or is only read.
    pub fn is_volatile(&self) -> bool {
        self.is_volatile
    }

    /// Appends a record and returns its position; it is not durable yet. Waits only when more than
    /// [`LogOptions::pending_bytes`] have not been written.
    ///
    /// # Errors
    /// The record is then not in the log: it cannot be written, or the disk is full (in both cases
    /// the log goes on; see [`LogError::Full`]), or the log has failed or was closed.
    pub fn append<P: PushBody, C: AsRef<CommandRecord>, T: TxnBody>(
        &self,
        record: &Record<P, C, T>,
    ) -> Result<Position, LogError> {
        let Some(chain) = &self.chain else {
            return self.shared.append_volatile();
        };
        match record {
            Record::Load(load) => {
                chain.name_load(&load.segment.name, || self.shared.append(record))
            }
            _ => self.shared.append(record),
        }
    }

    /// Keeps the records that are appended until the hold is dropped in one group, so that one sync
    /// makes all of them durable. The caller appends the next one at once: nothing becomes durable
    /// before.
    ///
    /// ```
    /// use somersault_disk::SimDisk;
    /// use somersault_log::{AdvanceRecord, Log, LogOptions, Position, Record};
    /// # fn main() -> Result<(), somersault_log::LogError> {
    /// let (log, _) = Log::open(std::sync::Arc::new(SimDisk::new()), LogOptions::default())?;
    /// let record: Record = Record::Advance(AdvanceRecord { received_ms: 0, to: Vec::new() });
    /// let hold = log.hold_group();
    /// log.append(&record)?;
    /// log.append(&record)?;
    /// assert_eq!(log.durable(), Position::START);
    /// drop(hold);
    /// log.wait_durable(Position(2))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn hold_group(&self) -> GroupHold {
        self.shared.hold_group()
    }

    /// The identity of the log; none if it has no disk, or is only read and has version 1.
    pub fn identity(&self) -> Option<LogIdentity> {
        self.identity
    }

    /// Counts the openings to write of this log, from 1; 0 if nothing is written.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The position of the oldest record that the log still has, or will have.
    pub fn first(&self) -> Position {
        self.chain
            .as_ref()
            .map_or(Position(1), |chain| chain.first())
    }

    /// The holds on the log's files, which a backup takes and trimming heeds; none if nothing is
    /// written.
    pub fn holds(&self) -> Option<&FolderHolds> {
        self.chain.as_ref().map(|chain| chain.holds())
    }

    /// The folder of the log, if it has one.
    pub fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.disk.as_ref()
    }

    /// The files that hold the records behind `after`, up to what is durable now. The caller has a
    /// hold on them ([`Log::holds`]).
    ///
    /// ```
    /// use somersault_disk::SimDisk;
    /// use somersault_log::{AdvanceRecord, Log, LogOptions, Position, Record};
    /// # fn main() -> Result<(), somersault_log::LogError> {
    /// let (log, _) = Log::open(std::sync::Arc::new(SimDisk::new()), LogOptions::default())?;
    /// let record: Record = Record::Advance(AdvanceRecord { received_ms: 0, to: Vec::new() });
    /// log.wait_durable(log.append(&record)?)?;
    /// let copy = log.copy(Position::START)?;
    /// assert_eq!((copy.end(), copy.files().len()), (Position(1), 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Nothing is written, so there is nothing to copy; records behind `after` are not there any
    /// more; those of the disk.
    pub fn copy(&self, after: Position) -> Result<LogCopy, LogError> {
        let written = self.chain.as_ref().zip(self.disk.as_ref());
        let (Some((chain, disk)), Some(identity)) = (written, self.identity) else {
            return Err(LogError::Unwritable {
                what: "this engine has no data folder that it writes; start it with one".to_owned(),
            });
        };
        let origin = Origin {
            identity,
            incarnation: self.incarnation,
        };
        let end = || {
            let ((segment, length), durable) = self.shared.durable_end();
            DurableEnd {
                segment,
                length,
                durable,
                origin,
            }
        };
        chain.copy(&**disk, after, end)
    }

    /// Keeps writing processes out of a folder until the guard is dropped, and changes nothing.
    ///
    /// # Errors
    /// A process that writes has the folder; those of the disk.
    pub fn lock_to_read(disk: &dyn Disk) -> Result<DiskLock, LogError> {
        lock_folder(disk, Access::Read)
    }

    /// Takes away the segments whose records are all at or before `through`, and the load segments
    /// that only they name. The newest segment stays, and all stay while there is a hold. The
    /// caller keeps a checkpoint of the state at `through`, durably. A crash at any instant leaves
    /// a log that opens after `through`.
    ///
    /// # Errors
    /// The failure that stopped the log; those of the disk. What could not be removed is removed by
    /// the next opening.
    pub fn trim(&self, through: Position) -> Result<Trimmed, LogError> {
        if let Some(failure) = self.failed() {
            return Err(failure);
        }
        match (&self.chain, &self.disk) {
            (Some(chain), Some(disk)) => chain.trim(&**disk, through.min(self.durable())),
            _ => Ok(Trimmed::default()),
        }
    }

    /// The newest position appended.
    pub fn end(&self) -> Position {
        self.shared.end()
    }

    /// All records up to here survive a crash.
    pub fn durable(&self) -> Position {
        self.shared.durable()
    }

    /// Waits until all records up to `position` survive a crash.
    ///
    /// # Errors
    /// The failure that stopped the log, or that it was closed.
    pub fn wait_durable(&self, position: Position) -> Result<(), LogError> {
        self.shared.wait_durable(position)
    }

    /// For a log whose callers commit: writes and syncs the current group. Without a group, writes
    /// the witness or the proof file that an idle log writes, if it is missing. Returns whether
    /// there was something to do.
    pub fn commit(&self) -> bool {
        self.shared.commit()
    }

    /// Whether [`Log::commit`] has something to do.
    pub fn may_commit(&self) -> bool {
        self.shared.may_commit()
    }

    /// Calls `call` with the durable position after every group, and a last time when the log
    /// fails. It runs on the thread that commits (for a volatile log, on the caller's). So it
    /// should only wake another thread, and must not call `on_durable` or [`Log::commit`].
    pub fn on_durable(&self, call: Box<dyn Fn(Position) + Send + Sync>) {
        self.shared.observe(call);
    }

    /// The length of all segments in bytes, without load segments; 0 for a volatile log.
    pub fn bytes(&self) -> u64 {
        let trimmed = self.chain.as_ref().map_or(0, |chain| chain.trimmed_bytes());
        self.shared.bytes().saturating_sub(trimmed)
    }

    /// The length of all segments that there have been since the log was opened, those that it was
    /// opened with and trimmed ones included; 0 for a volatile log. It never falls.
    pub fn written_bytes(&self) -> u64 {
        self.shared.bytes()
    }

    /// The reason why inputs are refused although the log has not failed: the disk is full. They
    /// are taken again once there is room; this tries it, if callers commit.
    pub fn no_room(&self) -> Option<LogError> {
        self.shared.no_room()
    }

    /// The failure after which nothing more is acknowledged, if there was one. It stays until the
    /// log is opened again.
    pub fn failed(&self) -> Option<LogError> {
        self.shared.failed()
    }

    /// Begins a load segment. It counts only once a `Load` record names it. In a volatile log it
    /// only counts statements, and the caller must keep them.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn load_segment(&self) -> Result<LoadSegmentWriter, LogError> {
        let number = self.next_load.fetch_add(1, Ordering::Relaxed);
        let disk = self.disk.clone().filter(|_| !self.is_volatile);
        LoadSegmentWriter::new(disk, number)
    }

    /// Reads a load segment whose hash has been verified.
    ///
    /// # Errors
    /// A missing or damaged segment; any segment of a volatile log is missing.
    pub fn read_load_segment(&self, segment: &LoadSegment) -> Result<LoadSegmentReader, LogError> {
        LoadSegmentReader::new(self.disk_of(segment)?, segment, &self.progress)
    }

    /// The text of a load segment whose hash has been verified, for callers with their own parser.
    /// It is N-Quads with IRIs and language tags as they were given, and may hold more or fewer
    /// statements than the log says.
    ///
    /// # Errors
    /// As [`Log::read_load_segment`].
    pub fn load_segment_text(&self, segment: &LoadSegment) -> Result<LoadSegmentText, LogError> {
        segment_text(self.disk_of(segment)?, segment, &self.progress)
    }

    fn disk_of(&self, segment: &LoadSegment) -> Result<&dyn Disk, LogError> {
        match &self.disk {
            Some(disk) => Ok(&**disk),
            None => Err(LogError::Missing {
                file: segment.name.clone(),
                what: "a log without a data folder keeps no load segments".to_owned(),
            }),
        }
    }

    /// Makes everything durable, marks the log as closed in order and frees the folder. Appending
    /// is refused from now on; closing again does nothing.
    ///
    /// # Errors
    /// The failure that stopped the log.
    pub fn close(&self) -> Result<(), LogError> {
        self.shared.begin_close();
        while self.shared.commit() {}
        let thread = self.thread.lock().take();
        // An observer may be the last that holds the log; its thread then ends by itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of the thread has become the log's failure.
            let _ = thread.join();
        }
        self.failed().map_or(Ok(()), Err)
    }
}

/// Starts the log's own thread.
fn start_thread(committer: Committer, shared: &Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    std::thread::Builder::new()
        .name("somersault-log".to_owned())
        .spawn(move || committer.run(&shared))
}

/// Locks the folder. A process that has locked a segment owns the folder, even if the folder's lock
/// file was deleted: it keeps a lock on the newest segment.
fn lock_folder(disk: &dyn Disk, access: Access) -> Result<DiskLock, LogError> {
    let folder = disk.describe();
    let locked = || LogError::Locked {
        folder: folder.clone(),
    };
    let failed = |error| LogError::io("lock", &folder, &error);
    let lock = disk.lock(access).map_err(failed)?.ok_or_else(locked)?;
    let names = disk.list().map_err(failed)?;
    let mut newest: Option<(u64, DiskLock)> = None;
    for name in &names {
        let Some(number) = segment_number(name) else {
            continue;
        };
        let file = disk.lock_file(name, access).map_err(failed)?;
        let file = file.ok_or_else(locked)?;
        if newest.as_ref().is_none_or(|(other, _)| *other < number) {
            newest = Some((number, file));
        }
    }
    // For writing, the segment that opening begins is locked.
    let kept = newest.filter(|_| access == Access::Read);
    Ok(Box::new((lock, kept)))
}

impl Drop for Log {
    fn drop(&mut self) {
        // `close` returns the failure; dropping has no way to.
        let _ = self.close();
    }
}
