//! A disk in memory that separates written from durable bytes, for crash images, full disks and
//! failing syncs.
//!
//! A test keeps a clone of the disk, crashes it under the log that holds the other, and opens a new
//! log. Like a real disk it promises nothing about unsynced bytes: after a crash any subset of
//! them, by the sector, may be there, and the file may have any length between the synced and the
//! written one.

use crate::disk::{Access, Disk, DiskFile, DiskLock};
use parking_lot::{Mutex, MutexGuard};
use somersault_model::SeededRandom;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

/// The unit that a simulated crash keeps or loses; smaller than real ones, so that records tear in
/// the middle.
const SECTOR: usize = 16;

/// The unsynced bytes that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKeep {
    /// Only what was synced: the power failed and nothing more had reached the disk.
    Synced,
    /// Everything written: the process was killed and the operating system kept running. This makes
    /// nothing durable.
    Written,
    /// Drawn from the seed: any prefix of what was not synced, in which any sectors are zeros
    /// instead, and any of the names that were not synced.
    Seeded(u64),
}

/// The simulated disk. Clones share the same files, and belong to the same running of the simulated
/// machine: after a crash they can do nothing more, and [`SimDisk::restarted`] gives a handle that
/// can.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<Machine>>,
    generation: u64,
}

type WriteObserver = Box<dyn Fn(&[u8]) + Send>;

#[derive(Default)]
struct Machine {
    /// The names that the running process sees.
    names: BTreeMap<String, u64>,
    /// The names that a crash leaves.
    synced_names: BTreeMap<String, u64>,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    /// The number of identities that were drawn.
    identities: u64,
    /// Handles of before a crash write nowhere.
    generation: u64,
    locked: bool,
    /// Locks that are held to read.
    readers: usize,
    capacity_bytes: Option<u64>,
    syncs: u64,
    syncs_until_failure: Option<u64>,
    syncs_until_crash: Option<(u64, CrashKeep)>,
    /// Called with what is written.
    observer: Option<WriteObserver>,
}

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    /// The durable image: what every crash leaves.
    synced: Vec<u8>,
    /// The bytes that a failed sync should have made durable: the process reads them back, but no
    /// later sync writes them. They become durable only if they are written again.
    lost: Range<usize>,
    /// The length for which space was set aside.
    reserved: usize,
}

impl Content {
    /// The bytes that the system still has to write, or has written; of lost ones, what was there
    /// before.
    fn writable(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for at in self.lost.clone() {
            bytes[at] = self.synced.get(at).copied().unwrap_or(0);
        }
        bytes
    }

    fn sync(&mut self) {
        self.synced = self.writable();
    }

    /// A sync of what was written since the last one has failed.
    fn lose(&mut self) {
        let both = self.bytes.iter().zip(&self.synced);
        let start = both.take_while(|(new, old)| new == old).count();
        if start < self.bytes.len() {
            let known = if self.lost.is_empty() {
                start
            } else {
                self.lost.start
            };
            self.lost = known.min(start)..self.bytes.len();
        }
    }

    /// Writes bytes at a place within the file or at its end.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        self.bytes.resize(end.max(self.bytes.len()), 0);
        self.bytes[at..end].copy_from_slice(bytes);
        // What is written again is not lost.
        self.lost = self.lost.start.min(at)..self.lost.end.min(at);
    }

    /// The space that it takes on the disk.
    fn space(&self) -> u64 {
        self.bytes.len().max(self.reserved) as u64
    }

    fn truncate(&mut self, length: usize) {
        self.reserved = length.min(self.bytes.len());
        self.bytes.truncate(length);
        self.lost = self.lost.start.min(length)..self.lost.end.min(length);
    }
}

impl SimDisk {
    /// An empty disk without a limit.
    #[must_use]
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// Writes fail with "disk full" once all files together, with the space set aside for them,
    /// would exceed this; `None` takes the limit away.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// The bytes of all files together, with the space set aside for them.
    #[must_use]
    pub fn space(&self) -> u64 {
        self.state.lock().space()
    }

    /// The sync after `syncs` more fails, once: the bytes that it should have made durable are
    /// lost, though they read back until the machine stops, unless they are written again. `None`
    /// cancels this.
    pub fn fail_sync_after(&self, syncs: Option<u64>) {
        self.state.lock().syncs_until_failure = syncs;
    }

    /// Crashes *at* the sync after `syncs` more: that sync and everything after it have no effect.
    pub fn crash_at_sync(&self, syncs: u64, keep: CrashKeep) {
        self.state.lock().syncs_until_crash = Some((syncs, keep));
    }

    /// Calls `observer` with all bytes that are written to files from now on, after crashes too. It
    /// must not use the disk.
    pub fn observe_writes(&self, observer: impl Fn(&[u8]) + Send + 'static) {
        self.state.lock().observer = Some(Box::new(observer));
    }

    /// The number of syncs so far, of files and of the folder.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }

    /// The machine stops now: files keep what `keep` says. Returns the disk as the machine finds it
    /// when it runs again.
    pub fn crash(&self, keep: CrashKeep) -> SimDisk {
        self.state.lock().crash(keep);
        self.restarted()
    }

    /// The disk as the machine finds it now, after a crash planned by [`SimDisk::crash_at_sync`]
    /// perhaps.
    #[must_use]
    pub fn restarted(&self) -> SimDisk {
        let generation = self.state.lock().generation;
        SimDisk {
            state: Arc::clone(&self.state),
            generation,
        }
    }

    fn running(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let state = self.state.lock();
        if state.generation == self.generation {
            Ok(state)
        } else {
            Err(gone())
        }
    }

    /// The bytes of a file as a process sees them.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let file = state.names.get(name)?;
        Some(state.files[file].bytes.clone())
    }

    /// The names of all files as a process sees them, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.state.lock().names.keys().cloned().collect()
    }

    /// Puts a file there, durable, replacing one of that name: how tests plant damage.
    pub fn plant(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock();
        let file = state.new_file();
        state.files.insert(
            file,
            Content {
                synced: bytes.clone(),
                bytes,
                ..Content::default()
            },
        );
        state.names.insert(name.to_owned(), file);
        state.synced_names.insert(name.to_owned(), file);
    }

    /// A copy that shares nothing with this disk, as if every file had been copied with everything
    /// written.
    #[must_use]
    pub fn copy(&self) -> SimDisk {
        let copy = SimDisk::new();
        let state = self.state.lock();
        for (name, file) in &state.names {
            copy.plant(name, state.files[file].bytes.clone());
        }
        copy
    }
}

impl Machine {
    fn new_file(&mut self) -> u64 {
        self.next_file += 1;
        self.files.insert(self.next_file, Content::default());
        self.next_file
    }

    /// The bytes that all files take.
    fn space(&self) -> u64 {
        self.names.values().map(|f| self.files[f].space()).sum()
    }

    /// The bytes that a file can still grow by without finding the disk full.
    fn room(&self, file: u64) -> u64 {
        let Some(capacity) = self.capacity_bytes else {
            return u64::MAX;
        };
        let used = self.space();
        let content = &self.files[&file];
        let own = content.space() - content.bytes.len() as u64;
        own + capacity.saturating_sub(used)
    }

    fn lookup(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("there is no file {name}"))
        })
    }

    fn crash(&mut self, keep: CrashKeep) {
        self.generation += 1;
        self.locked = false;
        self.readers = 0;
        self.syncs_until_crash = None;
        self.syncs_until_failure = None;
        match keep {
            CrashKeep::Written => return,
            CrashKeep::Synced => self.names = self.synced_names.clone(),
            CrashKeep::Seeded(seed) => self.tear(seed),
        }
        for content in self.files.values_mut() {
            match keep {
                CrashKeep::Synced => content.bytes = content.synced.clone(),
                CrashKeep::Written | CrashKeep::Seeded(_) => content.synced = content.bytes.clone(),
            }
            content.lost = 0..0;
        }
    }

    /// Makes `names` and every file's `bytes` one of the images that a crash can leave.
    fn tear(&mut self, seed: u64) {
        let mut random = SeededRandom::new(seed);
        let changed: Vec<String> = self
            .names
            .keys()
            .chain(self.synced_names.keys())
            .filter(|name| self.names.get(*name) != self.synced_names.get(*name))
            .cloned()
            .collect();
        for name in changed {
            if draw(&mut random, 2) == 0 {
                match self.synced_names.get(&name) {
                    Some(&file) => self.names.insert(name, file),
                    None => self.names.remove(&name),
                };
            }
        }
        self.synced_names = self.names.clone();
        for content in self.files.values_mut() {
            let written = content.writable();
            let Content { bytes, synced, .. } = content;
            *bytes = written;
            if bytes == synced {
                continue;
            }
            let (short, long) = (synced.len().min(bytes.len()), synced.len().max(bytes.len()));
            let length = short + draw(&mut random, long - short + 1);
            let mut image = vec![0; length];
            // One crash in four loses nothing but the end; the others lose sectors anywhere, one in
            // two of them.
            let holes = draw(&mut random, 4) != 0;
            for start in (0..length).step_by(SECTOR) {
                let end = length.min(start + SECTOR);
                let old = synced.get(start..end);
                let new = bytes.get(start..end);
                let written = !holes || draw(&mut random, 2) == 0;
                match (old, new) {
                    (Some(old), Some(new)) if old == new => image[start..end].copy_from_slice(new),
                    (_, Some(new)) if written => image[start..end].copy_from_slice(new),
                    (Some(old), _) => image[start..end].copy_from_slice(old),
                    _ => {
                        // A sector that straddles the synced end keeps its synced part.
                        let kept = synced.len().clamp(start, end) - start;
                        let old = synced.get(start..).unwrap_or_default();
                        image[start..start + kept].copy_from_slice(&old[..kept]);
                    }
                }
            }
            *bytes = image;
        }
    }

    /// Counts a sync; an error if this one is to fail, `false` if the machine has crashed at it.
    fn sync_point(&mut self) -> io::Result<bool> {
        self.syncs += 1;
        if let Some((left, keep)) = &mut self.syncs_until_crash {
            if *left == 0 {
                let keep = *keep;
                self.crash(keep);
                return Ok(false);
            }
            *left -= 1;
        }
        match &mut self.syncs_until_failure {
            Some(0) => {
                self.syncs_until_failure = None;
                Err(io::Error::other("the simulated disk failed to sync"))
            }
            Some(left) => {
                *left -= 1;
                Ok(true)
            }
            None => Ok(true),
        }
    }
}

/// The next number of a sequence, below `bound`.
fn draw(random: &mut SeededRandom, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no room left")
}

fn gone() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}

impl Disk for SimDisk {
    fn describe(&self) -> String {
        "(simulated)".to_owned()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.running()?.names.keys().cloned().collect())
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        let state = self.running()?;
        let file = state.lookup(name)?;
        Ok(state.files[&file].bytes.len() as u64)
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let state = self.running()?;
        let file = state.lookup(name)?;
        Ok(Box::new(Cursor::new(state.files[&file].bytes.clone())))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.running()?;
        if state.names.contains_key(name) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the name is taken",
            ));
        }
        let file = state.new_file();
        state.names.insert(name.to_owned(), file);
        Ok(Box::new(SimFile {
            state: Arc::clone(&self.state),
            file,
            end: 0,
            generation: state.generation,
        }))
    }

    fn append_to(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let state = self.running()?;
        let file = state.lookup(name)?;
        Ok(Box::new(SimFile {
            state: Arc::clone(&self.state),
            file,
            end: state.files[&file].bytes.len(),
            generation: state.generation,
        }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.running()?;
        state.lookup(name)?;
        state.names.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.running()?;
        if state.names.contains_key(to) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "the name is taken",
            ));
        }
        let file = state.lookup(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.running()?;
        let file = state.lookup(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut state = self.running()?;
        if state.sync_point()? {
            state.synced_names = state.names.clone();
            Ok(())
        } else {
            Err(gone())
        }
    }

    fn lock(&self, access: Access) -> io::Result<Option<DiskLock>> {
        let mut state = self.running()?;
        if state.locked || (access == Access::Write && state.readers > 0) {
            return Ok(None);
        }
        match access {
            Access::Read => state.readers += 1,
            Access::Write => state.locked = true,
        }
        Ok(Some(Box::new(SimLock {
            state: Arc::clone(&self.state),
            generation: state.generation,
            access,
        })))
    }

    fn draw_identity(&self) -> io::Result<[u8; 16]> {
        let mut state = self.running()?;
        state.identities += 1;
        Ok(u128::from(state.identities).to_le_bytes())
    }

    fn lock_file(&self, name: &str, _access: Access) -> io::Result<Option<DiskLock>> {
        // The folder's lock cannot be taken away here.
        self.running()?.lookup(name)?;
        Ok(Some(Box::new(())))
    }
}

struct SimLock {
    state: Arc<Mutex<Machine>>,
    generation: u64,
    access: Access,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.generation != self.generation {
            return;
        }
        match self.access {
            Access::Read => state.readers -= 1,
            Access::Write => state.locked = false,
        }
    }
}

struct SimFile {
    state: Arc<Mutex<Machine>>,
    file: u64,
    /// Where the next bytes are appended.
    end: usize,
    generation: u64,
}

impl SimFile {
    fn with<T>(&self, act: impl FnOnce(&mut Machine, u64) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.generation == self.generation {
            act(&mut state, self.file)
        } else {
            Err(gone())
        }
    }
}

impl DiskFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let at = self.end;
        let fits = self.with(|state, file| {
            let room = usize::try_from(state.room(file)).unwrap_or(usize::MAX);
            let length = state.files.get(&file).map_or(0, |it| it.bytes.len());
            // A full disk takes what still fits, as a real one does.
            let fits = bytes.len().min((length - at).saturating_add(room));
            if let Some(observer) = &state.observer {
                observer(&bytes[..fits]);
            }
            let content = state.files.entry(file).or_default();
            content.put(at, &bytes[..fits]);
            Ok(fits)
        })?;
        self.end = at + fits;
        match fits < bytes.len() {
            true => Err(full()),
            false => Ok(()),
        }
    }

    fn extend(&mut self, length: u64) -> io::Result<()> {
        self.with(|state, file| {
            let room = state.room(file);
            let content = state.files.entry(file).or_default();
            if length.saturating_sub(content.bytes.len() as u64) > room {
                return Err(full());
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            content.bytes.resize(length.max(content.bytes.len()), 0);
            Ok(())
        })
    }

    fn reserve(&mut self, length: u64) -> io::Result<bool> {
        self.with(|state, file| {
            let room = state.room(file);
            let content = state.files.entry(file).or_default();
            if length.saturating_sub(content.bytes.len() as u64) > room {
                return Err(full());
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            content.reserved = content.reserved.max(length);
            Ok(true)
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with(|state, file| {
            let synced = state.sync_point();
            let content = state.files.entry(file).or_default();
            match synced {
                Ok(true) => content.sync(),
                Ok(false) => return Err(gone()),
                Err(error) => {
                    content.lose();
                    return Err(error);
                }
            }
            Ok(())
        })
    }

    fn is_in_place(&self) -> io::Result<bool> {
        self.with(|state, file| Ok(state.names.values().any(|named| *named == file)))
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.end = self.end.min(length);
        self.with(|state, file| {
            let content = state.files.entry(file).or_default();
            content.truncate(length);
            Ok(())
        })
    }
}
