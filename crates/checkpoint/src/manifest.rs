//! A manifest: the list of the files that make up one checkpoint. The checkpoint exists from the
//! moment that its manifest has its name.
//!
//! The steps of a new checkpoint:
//! 1. Each file is written, synced and closed ([`NewCheckpoint::add`]).
//! 2. The folder is synced: the names of all files are durable.
//! 3. The manifest is written under another name and synced.
//! 4. It gets its name, and the folder is synced again.
//!
//! Before changing it: step 2 comes before step 4, so that a manifest that a crash leaves behind
//! never names a file that it has lost.

use crate::container::{FileHeader, FileReader, FileSummary, FileWriter, LogOrigin, place};
use crate::error::CheckpointError;
use crate::name::{FileKind, FileName};
use crate::records::{RecordReader, RecordWriter};
use serde::{Deserialize, Serialize};
use somersault_disk::Disk;
use somersault_model::{Sn, VIRTUAL_SHARDS};
use std::collections::BTreeMap;

/// The part of the state that a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The first virtual shard.
    pub first_shard: u16,
    /// The virtual shard after the last.
    pub end_shard: u16,
    /// The changes of the SNs after this one; SN 0 for all that there is.
    pub after: Sn,
    /// The SN that the content belongs to.
    pub through: Sn,
}

impl Coverage {
    /// Everything of all virtual shards, at this SN.
    #[must_use]
    pub fn whole(through: Sn) -> Coverage {
        Coverage {
            first_shard: 0,
            end_shard: VIRTUAL_SHARDS,
            after: Sn::ZERO,
            through,
        }
    }
}

/// A file of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Its name, with the checkpoint that wrote it: this one or an earlier one.
    pub name: FileName,
    /// Its length and checksum.
    pub summary: FileSummary,
    /// What it holds.
    pub coverage: Coverage,
}

/// How much of a checkpoint's files is read to find out whether they are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyDepth {
    /// Each file is there, with its length and its header. Their content is checked when it is
    /// loaded.
    Lengths,
    /// Every byte.
    Bytes,
}

/// The list of a checkpoint's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    number: u64,
    origin: LogOrigin,
    head: ManifestHead,
    files: Vec<ListedFile>,
}

/// The first record of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ManifestHead {
    position: u64,
    sn: Sn,
    shards: u16,
    times: CheckpointTimes,
}

/// The first record of a manifest of version 1, which has no times.
#[derive(Deserialize)]
struct HeadWithoutTimes {
    position: u64,
    sn: Sn,
    shards: u16,
}

impl ManifestHead {
    /// Reads the first record of a manifest of this version; `None` if there is none.
    fn read(
        records: &mut RecordReader,
        version: u32,
    ) -> Result<Option<ManifestHead>, CheckpointError> {
        if version > 1 {
            return records.take();
        }
        let head = records.take::<HeadWithoutTimes>()?;
        Ok(head.map(|head| ManifestHead {
            position: head.position,
            sn: head.sn,
            shards: head.shards,
            times: CheckpointTimes::default(),
        }))
    }
}

/// The times of a checkpoint, as its log counts them: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointTimes {
    /// The time of the newest record that its SN shows.
    pub shown_ms: i64,
    /// The time of the newest record up to its position.
    pub newest_ms: i64,
}

/// Every further record of a manifest.
#[derive(Serialize, Deserialize)]
struct FileRecord {
    checkpoint: u64,
    kind: u32,
    part: u32,
    length: u64,
    checksum: u32,
    coverage: Coverage,
}

impl Manifest {
    /// The number of the checkpoint.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The log that it belongs to, and the opening of it that wrote the checkpoint.
    #[must_use]
    pub fn origin(&self) -> LogOrigin {
        self.origin
    }

    /// The position of the newest log record that the checkpoint covers.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.head.position
    }

    /// The SN of the checkpoint: the newest one that was cut at its position.
    #[must_use]
    pub fn sn(&self) -> Sn {
        self.head.sn
    }

    /// The number of shards of the process that wrote it. Any number can read it.
    #[must_use]
    pub fn shards(&self) -> u16 {
        self.head.shards
    }

    /// The times of its newest records.
    #[must_use]
    pub fn times(&self) -> CheckpointTimes {
        self.head.times
    }

    /// All files, the earliest first.
    #[must_use]
    pub fn files(&self) -> &[ListedFile] {
        &self.files
    }

    /// The files of one kind, the earliest first.
    pub fn files_of(&self, kind: FileKind) -> impl Iterator<Item = &ListedFile> {
        self.files.iter().filter(move |file| file.name.kind == kind)
    }

    /// The length of all files together, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.summary.length).sum()
    }

    /// The length of the files that this checkpoint wrote itself, in bytes.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let own = |file: &&ListedFile| file.name.checkpoint == self.number;
        (self.files.iter().filter(own))
            .map(|file| file.summary.length)
            .sum()
    }

    /// The file name of the manifest.
    #[must_use]
    pub fn name(&self) -> FileName {
        FileName::manifest(self.number)
    }

    /// Reads the manifest of a checkpoint.
    ///
    /// # Errors
    /// Damage, a newer version, or IO.
    pub fn read(disk: &dyn Disk, number: u64) -> Result<Manifest, CheckpointError> {
        let file = FileReader::open(disk, FileName::manifest(number))?;
        let FileHeader {
            origin, version, ..
        } = *file.header();
        let place = place(disk, &FileName::manifest(number).to_string());
        let damaged = |what: &str| CheckpointError::damaged(&place, 0, what);
        let mut records = RecordReader::new(file);
        let head = ManifestHead::read(&mut records, version)?;
        let mut manifest = Manifest {
            number,
            origin,
            head: head.ok_or_else(|| damaged("it is empty"))?,
            files: Vec::new(),
        };
        while let Some(record) = records.take::<FileRecord>()? {
            let file = record.listed();
            let file = file.ok_or_else(|| damaged("it lists a file of an unknown kind"))?;
            let covered = file.coverage;
            if covered.first_shard > covered.end_shard || covered.end_shard > VIRTUAL_SHARDS {
                return Err(damaged(
                    "it lists a file of virtual shards that there are not",
                ));
            }
            if file.name.checkpoint > number {
                return Err(damaged("it lists a file of a later checkpoint"));
            }
            manifest.files.push(file);
        }
        Ok(manifest)
    }

    /// Opens a file to read it whole: its end is checked against this manifest.
    ///
    /// # Errors
    /// The file is missing, another one or damaged, or of a newer version; or IO.
    pub fn open(&self, disk: &dyn Disk, file: &ListedFile) -> Result<FileReader, CheckpointError> {
        let name = file.name.to_string();
        let place = place(disk, &name);
        let length = disk.length(&name).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => CheckpointError::Missing {
                file: place.clone(),
                manifest: self.name().to_string(),
            },
            _ => CheckpointError::io("open", &place, &error),
        })?;
        let reader = FileReader::open(disk, file.name)?.expecting(file.summary);
        if reader.header().origin.log != self.origin.log {
            return Err(CheckpointError::foreign(
                &place,
                "it belongs to another log",
            ));
        }
        if length < file.summary.length {
            let what = format!(
                "it should have {} bytes and ends too early",
                file.summary.length
            );
            return Err(CheckpointError::damaged(&place, length, what));
        }
        if length > file.summary.length {
            let what = format!(
                "it has {length} bytes and should have {}",
                file.summary.length
            );
            return Err(CheckpointError::foreign(&place, what));
        }
        Ok(reader)
    }

    /// Checks that every file is there and whole.
    ///
    /// # Errors
    /// What is wrong with the first file that is not.
    pub fn verify(&self, disk: &dyn Disk, depth: VerifyDepth) -> Result<(), CheckpointError> {
        for file in &self.files {
            let reader = self.open(disk, file)?;
            if depth == VerifyDepth::Bytes {
                reader.finish()?;
            }
        }
        Ok(())
    }

    fn write(&self, disk: &dyn Disk) -> Result<(), CheckpointError> {
        let header = FileHeader::new(self.name(), self.origin);
        let mut records = RecordWriter::new(FileWriter::create_unfinished(disk, &header)?);
        records.push(&self.head)?;
        for file in &self.files {
            records.push(&FileRecord::of(file))?;
        }
        records.finish_as_named(disk)
    }
}

impl FileRecord {
    fn of(file: &ListedFile) -> FileRecord {
        FileRecord {
            checkpoint: file.name.checkpoint,
            kind: file.name.kind.number(),
            part: file.name.part,
            length: file.summary.length,
            checksum: file.summary.checksum,
            coverage: file.coverage,
        }
    }

    fn listed(&self) -> Option<ListedFile> {
        Some(ListedFile {
            name: FileName {
                checkpoint: self.checkpoint,
                kind: FileKind::of_number(self.kind)?,
                part: self.part,
            },
            summary: FileSummary {
                length: self.length,
                checksum: self.checksum,
            },
            coverage: self.coverage,
        })
    }
}

/// A checkpoint that is being written. Dropping it abandons the checkpoint; its files stay until
/// [`remove_unneeded`](crate::remove_unneeded) takes them.
pub struct NewCheckpoint<'d> {
    disk: &'d dyn Disk,
    manifest: Manifest,
    parts: BTreeMap<FileKind, u32>,
    /// Called between any two small parts.
    pause: &'d dyn Fn(),
}

impl<'d> NewCheckpoint<'d> {
    /// Begins the checkpoint with this number ([`next_number`](crate::next_number)), of the log up
    /// to `position` and the SN that was cut last there.
    #[must_use]
    pub fn begin(
        disk: &'d dyn Disk,
        number: u64,
        origin: LogOrigin,
        (position, sn): (u64, Sn),
        shards: u16,
    ) -> NewCheckpoint<'d> {
        let head = ManifestHead {
            position,
            sn,
            shards,
            times: CheckpointTimes::default(),
        };
        NewCheckpoint {
            disk,
            manifest: Manifest {
                number,
                origin,
                head,
                files: Vec::new(),
            },
            parts: BTreeMap::new(),
            pause: &|| {},
        }
    }

    /// Calls this between any two small parts of what it writes by itself.
    #[must_use]
    pub fn pausing(mut self, pause: &'d dyn Fn()) -> NewCheckpoint<'d> {
        self.pause = pause;
        self
    }

    /// What is called between any two small parts.
    pub(crate) fn pause(&self) -> &'d dyn Fn() {
        self.pause
    }

    /// Sets the times of its newest records.
    #[must_use]
    pub fn at_times(mut self, times: CheckpointTimes) -> NewCheckpoint<'d> {
        self.manifest.head.times = times;
        self
    }

    /// Creates a file of the checkpoint.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn create(&mut self, kind: FileKind) -> Result<FileWriter, CheckpointError> {
        let part = self.parts.entry(kind).or_default();
        let name = FileName {
            checkpoint: self.manifest.number,
            kind,
            part: *part,
        };
        *part += 1;
        FileWriter::create(self.disk, &FileHeader::new(name, self.manifest.origin))
    }

    /// Finishes a file, and lists it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn add(
        &mut self,
        file: FileWriter,
        coverage: Coverage,
    ) -> Result<ListedFile, CheckpointError> {
        let file = ListedFile {
            name: file.header().name,
            summary: file.finish()?,
            coverage,
        };
        self.manifest.files.push(file);
        Ok(file)
    }

    /// Lists a file of an earlier checkpoint, which the new one needs too.
    pub fn carry_over(&mut self, file: &ListedFile) {
        self.manifest.files.push(*file);
    }

    /// Writes the manifest. From then on the checkpoint exists.
    ///
    /// # Errors
    /// Those of the disk. Then the checkpoint may or may not exist, and the ones before it do.
    pub fn commit(self) -> Result<Manifest, CheckpointError> {
        sync_folder(self.disk)?;
        self.manifest.write(self.disk)?;
        Ok(self.manifest)
    }
}

pub(crate) fn sync_folder(disk: &dyn Disk) -> Result<(), CheckpointError> {
    let synced = disk.sync_folder();
    synced.map_err(|error| CheckpointError::io("sync the folder", &disk.describe(), &error))
}
