//! The next segment, made ahead beside the thread that writes: no group waits for a file to be
//! made, for space to be set aside, or for a sync other than its own.
//!
//! 1. When a segment is half full, the next one gets its name, its lock and its space, durably. It
//!    is empty.
//! 2. When a group is taken that fills the segment, the position behind it is known. The header of
//!    the next segment is written and synced while the group is.
//! 3. When both are durable, the next group goes there. Then the old segment gets the mark that
//!    says so, gives back the space behind its end, and the proof shows the next one.
//!
//! Before changing anything here: a crash leaves a newest segment without records, and records
//! before its first one may never have become durable. So an opening does not
//! count such a segment, and removes it (`open/survey.rs`).
//! A log whose callers commit does each task at once, in the same order.

use crate::chain::Chain;
use crate::error::LogError;
use crate::file::place;
use crate::identity::Origin;
use crate::options::{CommitMode, LogOptions};
use crate::record::Position;
use crate::segment::{Header, header_bytes, lock_segment, segment_name};
use parking_lot::Mutex;
use somersault_disk::{Access, Disk, DiskFile, DiskLock};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The number of tasks that may wait. There are three for each segment.
const TASKS: usize = 8;

type SegmentTask = Box<dyn FnOnce() + Send>;
type Made = Receiver<Result<MadeSegment, LogError>>;

/// A segment that is there and has a name. It is locked.
pub(crate) struct MadeSegment {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) lock: DiskLock,
    /// The length for which space is set aside.
    pub(crate) secured: u64,
}

/// A segment behind which the log goes on in the next one.
pub(crate) struct OldSegment {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) lock: DiskLock,
    /// The mark that ends it, and its length with that.
    pub(crate) mark: Vec<u8>,
    pub(crate) length: u64,
    /// The header of the next one.
    pub(crate) next: Header,
}

/// The making of the next segment.
pub(crate) struct NextSegment {
    disk: Arc<dyn Disk>,
    origin: Origin,
    ahead_bytes: u64,
    stage: Stage,
    /// The failure of a task that the writing thread does not wait for.
    failed: Arc<Mutex<Option<LogError>>>,
    lane: Lane,
}

enum Stage {
    Unwanted,
    /// It is being made, or is there.
    Asked(Made),
    /// Its header is written.
    Begun(Header, Made),
}

/// Does tasks one after the other.
enum Lane {
    AtOnce,
    Thread(Option<(SyncSender<SegmentTask>, JoinHandle<()>)>),
}

impl NextSegment {
    /// No segment yet, for a log with these options.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        origin: Origin,
        options: &LogOptions,
    ) -> Result<NextSegment, LogError> {
        let failed = |error| {
            let folder = disk.describe();
            LogError::io("start the thread that makes segments in", &folder, &error)
        };
        Ok(NextSegment {
            disk: Arc::clone(disk),
            origin,
            ahead_bytes: options.ahead_bytes,
            stage: Stage::Unwanted,
            failed: Arc::default(),
            lane: match options.commits {
                CommitMode::Thread => Lane::start().map_err(failed)?,
                CommitMode::Callers => Lane::AtOnce,
            },
        })
    }

    /// The failure of a task that nothing waits for.
    pub(crate) fn failure(&self) -> Option<LogError> {
        self.failed.lock().clone()
    }

    /// Asks for the segment with this number, unless one was asked for already.
    pub(crate) fn ask(&mut self, number: u64) {
        if !matches!(self.stage, Stage::Unwanted) {
            return;
        }
        let (done, made) = sync_channel(1);
        let (disk, ahead_bytes) = (Arc::clone(&self.disk), self.ahead_bytes);
        self.lane.run(Box::new(move || {
            // The log may have ended.
            let _ = done.send(make(&*disk, number, ahead_bytes));
        }));
        self.stage = Stage::Asked(made);
    }

    /// Begins the segment that was asked for: its header is written, with this position for its
    /// first record. Waits for the segment, which was asked for half a segment ago.
    ///
    /// # Errors
    /// It could not be made.
    pub(crate) fn begin(&mut self, first: Position) -> Result<(), LogError> {
        let Stage::Asked(made) = &self.stage else {
            return Ok(());
        };
        let made = made.recv();
        self.stage = Stage::Unwanted;
        let mut segment = made.map_err(|_| self.stopped())??;
        let header = Header {
            number: segment.number,
            first,
            origin: Some(self.origin),
        };
        let (done, begun) = sync_channel(1);
        let (disk, origin) = (Arc::clone(&self.disk), self.origin);
        self.lane.run(Box::new(move || {
            let written = segment
                .file
                .append(&header_bytes(header.number, first, origin))
                .and_then(|()| segment.file.sync());
            let file = place(&*disk, &segment_name(header.number));
            let written = written.map_err(|error| LogError::io("begin", &file, &error));
            // The log may have ended.
            let _ = done.send(written.map(|()| segment));
        }));
        self.stage = Stage::Begun(header, begun);
        Ok(())
    }

    /// Waits for the header that [`NextSegment::begin`] has had written, and hands the segment out.
    ///
    /// # Errors
    /// It could not be written.
    pub(crate) fn take(&mut self) -> Result<Option<(Header, MadeSegment)>, LogError> {
        let Stage::Begun(header, begun) = &self.stage else {
            return Ok(None);
        };
        let (header, begun) = (*header, begun.recv());
        self.stage = Stage::Unwanted;
        let segment = begun.map_err(|_| self.stopped())??;
        Ok(Some((header, segment)))
    }

    fn stopped(&self) -> LogError {
        LogError::Io {
            action: "make the next segment of",
            file: self.disk.describe(),
            message: "its thread stopped by an internal error".to_owned(),
        }
    }

    /// Ends a segment behind which the log goes on.
    pub(crate) fn retire(&self, old: OldSegment, chain: Arc<Chain>) {
        let (disk, failed) = (Arc::clone(&self.disk), Arc::clone(&self.failed));
        let ends = Retiring(old.number, chain);
        self.lane.run(Box::new(move || {
            if let Err(error) = retire(&*disk, old, &ends.1) {
                failed.lock().get_or_insert(error);
            }
        }));
    }

    /// Waits until all is done, and takes away a segment that the log has not come to.
    ///
    /// # Errors
    /// A task failed, or the disk.
    pub(crate) fn close(&mut self) -> Result<(), LogError> {
        self.lane.end();
        let unused = match std::mem::replace(&mut self.stage, Stage::Unwanted) {
            Stage::Unwanted => None,
            Stage::Asked(made) | Stage::Begun(_, made) => made.try_recv().ok(),
        };
        if let Some(Ok(MadeSegment { number, file, .. })) = unused {
            drop(file);
            let name = segment_name(number);
            let removed = self.disk.remove(&name);
            removed
                .map_err(|error| LogError::io("take away", &place(&*self.disk, &name), &error))?;
        }
        self.failure().map_or(Ok(()), Err)
    }
}

/// Tells the chain that a segment is not written any more, whatever has become of the task.
struct Retiring(u64, Arc<Chain>);

impl Drop for Retiring {
    fn drop(&mut self) {
        self.1.retire(self.0);
    }
}

impl Drop for NextSegment {
    fn drop(&mut self) {
        // The folder is locked until this has ended.
        self.lane.end();
    }
}

impl Lane {
    fn start() -> io::Result<Lane> {
        let (tasks, queue) = sync_channel::<SegmentTask>(TASKS);
        let thread = std::thread::Builder::new()
            .name("somersault-segments".to_owned())
            .spawn(move || queue.iter().for_each(|task| task()))?;
        Ok(Lane::Thread(Some((tasks, thread))))
    }

    fn run(&self, task: SegmentTask) {
        match self {
            Lane::AtOnce => task(),
            Lane::Thread(Some((tasks, _))) => {
                // After a panic of the thread, whatever waits for the task learns of it.
                let _ = tasks.send(task);
            }
            Lane::Thread(None) => {}
        }
    }

    /// Waits until all tasks are done.
    fn end(&mut self) {
        if let Lane::Thread(running) = self
            && let Some((tasks, thread)) = running.take()
        {
            drop(tasks);
            // After a panic, the caller that waited for the task has its error already.
            let _ = thread.join();
        }
    }
}

/// Makes an empty segment with space set aside, durable in its name.
fn make(disk: &dyn Disk, number: u64, ahead_bytes: u64) -> Result<MadeSegment, LogError> {
    let name = segment_name(number);
    let failed = |action| {
        let file = place(disk, &name);
        move |error| LogError::io(action, &file, &error)
    };
    let mut file = disk.create(&name).map_err(failed("create"))?;
    let secured = match file.reserve(ahead_bytes) {
        Ok(true) => ahead_bytes,
        Ok(false) => 0,
        Err(error) => {
            // The name must be free for the next try. The error to report is that of the space.
            let _ = disk.remove(&name);
            return Err(failed("set space aside for")(error));
        }
    };
    file.sync().map_err(failed("sync"))?;
    disk.sync_folder().map_err(failed("sync the folder of"))?;
    Ok(MadeSegment {
        number,
        file,
        lock: lock_segment(disk, number, Access::Write)?,
        secured,
    })
}

/// Marks the end of a segment, gives back the space behind it, and has the proof show the next one.
fn retire(disk: &dyn Disk, old: OldSegment, chain: &Chain) -> Result<(), LogError> {
    let OldSegment {
        number,
        mut file,
        lock,
        mark,
        length,
        next,
    } = old;
    let failed = |action| {
        let file = place(disk, &segment_name(number));
        move |error| LogError::io(action, &file, &error)
    };
    file.append(&mark).map_err(failed("write"))?;
    file.sync().map_err(failed("sync"))?;
    file.truncate(length).map_err(failed("truncate"))?;
    drop(lock);
    let durable = Position(next.first.0 - 1);
    match (chain.proof()).prove(next.number, next.length() as u64, durable, false) {
        // The proof stays behind: it is a lower bound.
        Err(LogError::DiskFull { .. }) => Ok(()),
        done => done,
    }
}
