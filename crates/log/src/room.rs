//! Room on the disk: a full disk is met before a write fails.
//!
//! 1. The newest segment has space set aside beyond its end. Half of that is used up at most before
//!    more is set aside.
//! 2. When the disk has no more, it is *full*: inputs are refused. Other records still pass: what
//!    is set aside is theirs, and then the space of `log.reserve`, a file that is given up.
//! 3. When that is used up too, records wait in memory.
//! 4. From time to time it is tried again. Once there is space for the segment and for the reserve,
//!    inputs are taken again.
//!
//! The segment that is written is also made longer ahead of its groups, by zeros, a step at a time.
//! A group that changes the length of its file has to wait until that is synced too, and most
//! groups are much shorter than a step.
//!
//! Before changing anything here: setting space aside never changes a file's length or contents, so
//! no reader sees it. Readers see the zeros of the newest segment, which are no frame, and take
//! them for its end. Where the file system cannot set space aside, a full disk is met by the write
//! that fails, and stops the log.

use crate::error::LogError;
use crate::file::place;
use crate::options::LogOptions;
use crate::segment::WITNESS_FRAME_BYTES;
use somersault_disk::{Disk, DiskFile};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file whose space is given up when the disk is full. It has no contents.
pub(crate) const RESERVE_FILE: &str = "log.reserve";

/// The marks that may follow a group: the idle one, and the one that closes or continues.
const MARKS_BYTES: u64 = 4 * WITNESS_FRAME_BYTES as u64;

/// The bytes by which a segment is made longer at a time, if segments are much longer than that.
const STEP_BYTES: u64 = 64 << 10;

/// The space set aside for a log that is written.
pub(crate) struct Room {
    disk: Arc<dyn Disk>,
    ahead_bytes: u64,
    step_bytes: u64,
    reserve_bytes: u64,
    /// The length that the newest segment can have without more space.
    secured: u64,
    /// The length of the newest segment's file, if that is beyond what was written.
    extended: u64,
    has_reserve: bool,
    /// Whether the file system can set space aside.
    can_reserve: bool,
    is_full: Arc<AtomicBool>,
}

impl Room {
    /// Sets space aside for a segment of this length.
    ///
    /// # Errors
    /// Those of the disk, except that it is full.
    pub(crate) fn new(
        disk: &Arc<dyn Disk>,
        options: &LogOptions,
        file: &mut dyn DiskFile,
        length: u64,
    ) -> Result<Room, LogError> {
        let mut room = Room {
            disk: Arc::clone(disk),
            ahead_bytes: options.ahead_bytes,
            step_bytes: STEP_BYTES.min(options.segment_bytes / 4),
            reserve_bytes: options.reserve_bytes,
            secured: 0,
            extended: 0,
            has_reserve: false,
            can_reserve: true,
            is_full: Arc::default(),
        };
        room.regain(file, length)?;
        Ok(room)
    }

    /// Gives the reserve of an earlier opening up, so that this one has room for its files.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) fn give_up_reserve(disk: &dyn Disk, names: &[String]) -> Result<(), LogError> {
        if names.iter().any(|name| name == RESERVE_FILE) {
            disk.remove(RESERVE_FILE)
                .map_err(|error| LogError::io("give up", &place(disk, RESERVE_FILE), &error))?;
        }
        Ok(())
    }

    /// Whether the disk is full, as other threads see it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_full)
    }

    /// Whether the disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// The disk was found full. Where no space is set aside, the write that fails says so.
    pub(crate) fn note_full(&self) {
        self.is_full.store(self.can_reserve, Ordering::Release);
    }

    /// The newest segment is another one, which has space for this length.
    pub(crate) fn move_on(&mut self, secured: u64) {
        self.secured = secured;
        self.extended = 0;
    }

    /// Makes sure that `bytes` and the marks behind them can be written to the segment, which has
    /// this length. Returns whether they can.
    ///
    /// # Errors
    /// Those of the disk, except that it is full.
    pub(crate) fn ensure(
        &mut self,
        file: &mut dyn DiskFile,
        length: u64,
        bytes: u64,
    ) -> Result<bool, LogError> {
        let needed = length + bytes + MARKS_BYTES;
        if self.can_reserve && self.secured < needed + self.ahead_bytes / 2 {
            self.secure(file, needed + self.ahead_bytes)?;
        }
        if !self.can_reserve || self.secured >= needed {
            self.extend(file, needed)?;
            return Ok(true);
        }
        if std::mem::take(&mut self.has_reserve) {
            self.disk.remove(RESERVE_FILE).map_err(|error| {
                LogError::io("give up", &place(&*self.disk, RESERVE_FILE), &error)
            })?;
        }
        self.secure(file, needed)?;
        Ok(self.secured >= needed)
    }

    /// Makes the file as long as it will be after this group and many others like it. The space for
    /// that is set aside.
    fn extend(&mut self, file: &mut dyn DiskFile, needed: u64) -> Result<(), LogError> {
        if needed <= self.extended {
            return Ok(());
        }
        let length = (needed + self.step_bytes).min(self.secured);
        if length < needed {
            // No space was set aside, so none is used up ahead of the groups.
            return Ok(());
        }
        let folder = self.disk.describe();
        let extended = file.extend(length);
        extended.map_err(|error| LogError::io("set space aside in", &folder, &error))?;
        self.extended = length;
        Ok(())
    }

    /// Tries to have space again for a segment of this length, and for the reserve. The disk is not
    /// full any more if there is.
    ///
    /// # Errors
    /// Those of the disk, except that it is full.
    pub(crate) fn regain(&mut self, file: &mut dyn DiskFile, length: u64) -> Result<(), LogError> {
        let ahead = length + MARKS_BYTES + self.ahead_bytes;
        if self.can_reserve && self.secured < ahead {
            self.secure(file, ahead)?;
        }
        let is_secured = !self.can_reserve || self.secured >= ahead;
        let is_whole = is_secured && (!self.can_reserve || self.make_reserve()?);
        self.is_full.store(!is_whole, Ordering::Release);
        Ok(())
    }

    /// Sets space aside for a segment of this length, if the disk has it.
    fn secure(&mut self, file: &mut dyn DiskFile, length: u64) -> Result<(), LogError> {
        match file.reserve(length) {
            Ok(true) => self.secured = length,
            Ok(false) => self.can_reserve = false,
            Err(error) if is_full(&error) => self.note_full(),
            Err(error) => {
                let folder = self.disk.describe();
                return Err(LogError::io("set space aside in", &folder, &error));
            }
        }
        Ok(())
    }

    /// Makes the reserve, if it is not there. Returns whether it is.
    fn make_reserve(&mut self) -> Result<bool, LogError> {
        if self.has_reserve || self.reserve_bytes == 0 {
            return Ok(true);
        }
        let made = self.disk.create(RESERVE_FILE).and_then(|mut file| {
            let made = file.reserve(self.reserve_bytes);
            if made.is_err() {
                drop(file);
                self.disk.remove(RESERVE_FILE)?;
            }
            made
        });
        match made {
            Ok(_) => self.has_reserve = true,
            Err(error) if is_full(&error) => {}
            Err(error) => {
                let file = place(&*self.disk, RESERVE_FILE);
                return Err(LogError::io("make", &file, &error));
            }
        }
        Ok(self.has_reserve)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
