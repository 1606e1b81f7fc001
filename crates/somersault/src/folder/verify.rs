//! Verifying a folder: every checksum, whether log and checkpoints fit together, and on demand the
//! state that they give.
//!
//! 1. Each file of the log, and each load segment that a record names.
//! 2. Each file of each checkpoint.
//! 3. All checkpoints are of this log, and the log goes on behind each.
//! 4. What is in the folder besides.
//! 5. On demand: an engine begins from the folder in memory, and checks its invariants.

use crate::config::EngineConfig;
use crate::contexts::{CONTEXTS_FILE, read_file};
use crate::engine::Engine;
use crate::error::EngineError;
use somersault_checkpoint::{
    FileName, Manifest, VerifiedCheckpoint, VerifiedCheckpoints, verify_checkpoints,
};
use somersault_disk::{Disk, UNFINISHED};
use somersault_log::{Log, LogFileKind, LostLoad, OpenProgress, VerifiedLog, verify_log};
use somersault_model::Sn;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Whether the state is verified too, or the files alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VerifyState {
    /// The files alone: each byte is read, and little is held in memory.
    #[default]
    No,
    /// An engine begins from the folder, in memory and without changing it, and checks its
    /// invariants. It takes the memory and the time of a start.
    Yes,
}

/// The findings about a folder.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FolderReport {
    /// The folder.
    pub folder: String,
    /// Its files, by what they are for.
    pub groups: Vec<FileGroup>,
    /// The log; `None` if there is none.
    pub log: Option<LogReport>,
    /// All checkpoints, the newest first.
    pub checkpoints: Vec<CheckpointReport>,
    /// The state, if it was asked for and the files are sound.
    pub state: Option<StateReport>,
    /// All that is wrong: sentences with the file, the byte and the remedy.
    pub damage: Vec<String>,
    /// What is worth knowing and does no harm.
    pub notes: Vec<String>,
}

/// Files of one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileGroup {
    /// Their purpose.
    pub what: String,
    /// Their names, in order.
    pub names: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
}

/// The log of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogReport {
    /// Its identity; `None` in version 1.
    pub identity: Option<String>,
    /// The number of its newest opening to write.
    pub incarnation: u64,
    /// The position of its oldest record.
    pub first: u64,
    /// The position of its newest record; one less than `first` if there is none.
    pub last: u64,
    /// Whether it was closed in order.
    pub closed: bool,
}

/// A checkpoint of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Its number.
    pub number: u64,
    /// The position of the newest record that it covers; `None` if its manifest does not read back.
    pub position: Option<u64>,
    /// Its snapshot number.
    pub sn: Option<Sn>,
    /// The number of its files, with the manifest.
    pub files: usize,
    /// Their bytes, without the manifest.
    pub bytes: u64,
    /// Whether all of them are whole.
    pub is_whole: bool,
}

/// The state that a folder gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateReport {
    /// The newest snapshot number.
    pub sn: Sn,
    /// The statements stored.
    pub statements: u64,
    /// The streams.
    pub streams: usize,
    /// The continuous queries.
    pub queries: usize,
    /// The time that the engine took to begin and to check its invariants.
    pub time: Duration,
}

impl FolderReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Verifies a folder that no engine writes, and changes nothing in it.
///
/// ```
/// use somersault::disk::SimDisk;
/// use somersault::folder::{VerifyState, verify_folder};
/// use somersault::{Engine, EngineConfig};
/// # fn main() -> Result<(), somersault::EngineError> {
/// let disk = std::sync::Arc::new(SimDisk::new());
/// let engine = Engine::open_on(EngineConfig::default(), disk.clone())?;
/// engine.update("INSERT DATA { <urn:a> <urn:p> 1 }").run()?;
/// engine.shutdown()?;
/// drop(engine);
/// let report = verify_folder(disk, VerifyState::Yes, &std::sync::Arc::default())?;
/// assert!(report.is_sound());
/// assert_eq!(report.state.map(|state| state.statements), Some(1));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// An engine has the folder open to write, or the folder cannot be read. Damage is no error: it is
/// in the report.
pub fn verify_folder(
    disk: Arc<dyn Disk>,
    state: VerifyState,
    progress: &Arc<OpenProgress>,
) -> Result<FolderReport, EngineError> {
    let _lock = Log::lock_to_read(&*disk)?;
    let files = VerifiedFiles::read(&disk, progress)?;
    let mut report = files.report(&*disk)?;
    if state == VerifyState::Yes && report.is_sound() && report.log.is_some() {
        match verify_state(disk) {
            Ok(state) => report.state = Some(state),
            Err(error) => report.damage.push(error.to_string()),
        }
    }
    Ok(report)
}

fn verify_state(disk: Arc<dyn Disk>) -> Result<StateReport, EngineError> {
    let begin = Instant::now();
    let config = EngineConfig {
        read_only: true,
        ..EngineConfig::default()
    };
    let engine = Engine::open_on(config, disk)?;
    engine.check()?;
    let state = StateReport {
        sn: engine.stable(),
        statements: engine.health().stored_statements,
        streams: engine.streams().len(),
        queries: engine.queries_after(None, 0).total,
        time: begin.elapsed(),
    };
    engine.shutdown()?;
    Ok(state)
}

/// The files of a folder, each of which was read.
pub(super) struct VerifiedFiles {
    names: Vec<String>,
    log: VerifiedLog,
    checkpoints: VerifiedCheckpoints,
}

impl VerifiedFiles {
    /// Reads all files. The caller keeps writing processes away.
    pub(super) fn read(
        disk: &Arc<dyn Disk>,
        progress: &Arc<OpenProgress>,
    ) -> Result<VerifiedFiles, EngineError> {
        let mut names = disk.list().map_err(|source| unlisted(&**disk, source))?;
        names.sort_unstable();
        let checkpoints = verify_checkpoints(&**disk);
        let checkpoints =
            checkpoints.map_err(|error| EngineError::DiskFailed(error.to_string()))?;
        Ok(VerifiedFiles {
            names,
            log: verify_log(Arc::clone(disk), progress)?,
            checkpoints,
        })
    }

    /// The files that hold the state, in the order in which a copy of them is written: a copy that
    /// breaks off is refused by every reader. So the proof, which says what the log must hold,
    /// comes first, the oldest segment after all others, and manifests last.
    pub(super) fn in_order_of_copy(&self) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        let has = |kind: LogFileKind| {
            let names = self.names.iter();
            names.filter(move |name| LogFileKind::of(name) == Some(kind))
        };
        files.extend(has(LogFileKind::Proof).cloned());
        files.extend(
            self.names
                .iter()
                .find(|name| *name == CONTEXTS_FILE)
                .cloned(),
        );
        files.extend(
            has(LogFileKind::Load)
                .filter(|name| self.log.loads.contains(*name))
                .cloned(),
        );
        let manifests = self.whole_manifests();
        let of_checkpoints = manifests.iter().flat_map(|manifest| manifest.files());
        let of_checkpoints: BTreeSet<FileName> = of_checkpoints.map(|file| file.name).collect();
        files.extend(of_checkpoints.iter().map(FileName::to_string));
        files.extend(self.log.segments.iter().rev().cloned());
        files.extend(
            manifests
                .iter()
                .rev()
                .map(|manifest| manifest.name().to_string()),
        );
        files
    }

    /// The newest segment, whose end the next opening cuts off: the one file that changes.
    pub(super) fn newest_segment(&self) -> Option<&String> {
        self.log.segments.last()
    }

    fn whole_manifests(&self) -> Vec<&Manifest> {
        let checkpoints = self.checkpoints.checkpoints.iter();
        let whole = checkpoints.filter(|checkpoint| checkpoint.damage.is_empty());
        whole
            .filter_map(|checkpoint| checkpoint.manifest.as_ref())
            .collect()
    }

    /// The findings.
    pub(super) fn report(&self, disk: &dyn Disk) -> Result<FolderReport, EngineError> {
        let mut report = FolderReport {
            folder: disk.describe(),
            groups: self.groups(disk)?,
            log: self.log_report(),
            checkpoints: self
                .checkpoints
                .checkpoints
                .iter()
                .map(checkpoint_report)
                .collect(),
            state: None,
            damage: self.log.damage.iter().map(ToString::to_string).collect(),
            notes: self.notes(),
        };
        for lost in &self.log.lost_loads {
            match self.need_of(disk, lost) {
                Need::Always => report.damage.push(lost.error.to_string()),
                Need::Before(checkpoint) => report.damage.push(format!(
                    "{}/{} is missing or damaged. A start from checkpoint {checkpoint} does not need it, and one from an earlier checkpoint would: take another checkpoint (somersault checkpoint), or restore the file from a copy",
                    disk.describe(),
                    lost.name
                )),
                Need::Never => report.damage.push(format!(
                    "{}/{} is missing or damaged. Each checkpoint covers it, so no start needs it, and no copy of it",
                    disk.describe(),
                    lost.name
                )),
            }
        }
        for checkpoint in &self.checkpoints.checkpoints {
            report
                .damage
                .extend(checkpoint.damage.iter().map(ToString::to_string));
            if let Some(manifest) = &checkpoint.manifest {
                report.damage.extend(self.misfits(disk, manifest));
            }
        }
        report.damage.extend(self.gap(disk));
        if let Err(EngineError::Damaged { message, .. }) = read_file(disk) {
            report.damage.push(message);
        }
        if self.is_copy() && self.log.segments.is_empty() && report.damage.is_empty() {
            report.damage.push(format!(
                "{} has the mark of a copy and no log: the copy was not finished. Remove the folder and begin the copy again",
                disk.describe()
            ));
        }
        Ok(report)
    }

    fn log_report(&self) -> Option<LogReport> {
        let is_there = !self.log.segments.is_empty();
        is_there.then(|| LogReport {
            identity: self.log.identity.map(|identity| identity.to_string()),
            incarnation: self.log.incarnation,
            first: self.log.before.0 + 1,
            last: self.log.end.0,
            closed: self.log.closed,
        })
    }

    /// What keeps a whole checkpoint from being one of this log.
    fn misfits(&self, disk: &dyn Disk, manifest: &Manifest) -> Option<String> {
        if !self.log.damage.is_empty() {
            return None;
        }
        let file = format!("{}/{}", disk.describe(), manifest.name());
        let origin = manifest.origin();
        if self.log.segments.is_empty() {
            return Some(format!(
                "{file} belongs to a log, and there is none beside it: put the segments of the log back (log-*.seg, log.proof), or restore a backup"
            ));
        }
        if self.log.identity.map(|identity| identity.bytes()) != Some(origin.log) {
            return Some(format!(
                "{file} does not belong to this log: it has another identity. Move the files of that checkpoint out of the folder, or put the log back that belongs to it"
            ));
        }
        if origin.incarnation > self.log.incarnation {
            return Some(format!(
                "{file} is newer than the log beside it: opening {} of the log wrote it, and {} is the newest that the log shows. Put the newer segments and log.proof back",
                origin.incarnation, self.log.incarnation
            ));
        }
        let (position, end) = (manifest.position(), self.log.end.0);
        (position > end).then(|| {
            format!(
                "{file} covers the log through record {position}, and the log ends with record {end}: put the segments back that are missing"
            )
        })
    }

    /// Which starts need a load segment: those from checkpoints that do not cover its record.
    fn need_of(&self, disk: &dyn Disk, load: &LostLoad) -> Need {
        let mut usable = self.whole_manifests();
        usable.retain(|manifest| self.misfits(disk, manifest).is_none());
        let covers = |manifest: &&&Manifest| manifest.position() >= load.position.0;
        match usable.iter().filter(covers).map(|it| it.number()).min() {
            Some(_) if usable.iter().all(|manifest| covers(&manifest)) => Need::Never,
            Some(checkpoint) => Need::Before(checkpoint),
            None => Need::Always,
        }
    }

    /// The reason why no checkpoint and the log together give the whole state.
    fn gap(&self, disk: &dyn Disk) -> Option<String> {
        let before = self.log.before.0;
        if before == 0 || !self.log.damage.is_empty() {
            return None;
        }
        let manifests = self.whole_manifests();
        let covers = |manifest: &&Manifest| manifest.position() >= before;
        let is_covered = manifests.iter().any(covers);
        (!is_covered).then(|| {
            format!(
                "the log in {} begins with record {}, and no whole checkpoint covers the records before: they are lost. Restore the folder from a backup",
                disk.describe(),
                before + 1
            )
        })
    }

    fn groups(&self, disk: &dyn Disk) -> Result<Vec<FileGroup>, EngineError> {
        let mut groups: Vec<FileGroup> = Vec::new();
        for name in &self.names {
            let what = self.purpose(name);
            let bytes = disk.length(name).map_err(|source| unlisted(disk, source))?;
            match groups.iter_mut().find(|group| group.what == what) {
                Some(group) => {
                    group.names.push(name.clone());
                    group.bytes += bytes;
                }
                None => groups.push(FileGroup {
                    what,
                    names: vec![name.clone()],
                    bytes,
                }),
            }
        }
        Ok(groups)
    }

    /// The purpose of a file. A checkpoint file counts for the checkpoint that wrote it.
    fn purpose(&self, name: &str) -> String {
        if self
            .checkpoints
            .unnamed
            .iter()
            .any(|unnamed| unnamed == name)
        {
            return match self.has_no_manifest(name) {
                true => NO_MANIFEST.to_owned(),
                false => LEFTOVERS.to_owned(),
            };
        }
        if let Ok(file) = name.parse::<FileName>() {
            return format!("checkpoint {}", file.checkpoint);
        }
        if is_of_unfinished_copy(name) {
            return LEFTOVERS.to_owned();
        }
        if name == CONTEXTS_FILE {
            return "contexts of JSON-LD".to_owned();
        }
        let is_sound = self.log.damage.is_empty();
        let of_log = match LogFileKind::of(name) {
            None => UNKNOWN,
            Some(LogFileKind::Segment)
                if is_sound && !self.log.segments.iter().any(|known| known == name) =>
            {
                LEFTOVERS
            }
            Some(LogFileKind::Load) if is_sound && !self.log.loads.contains(name) => LEFTOVERS,
            Some(LogFileKind::Leftover) => LEFTOVERS,
            Some(LogFileKind::Segment) => "segments of the log",
            Some(LogFileKind::Load) => "load segments",
            Some(LogFileKind::Proof) => "proof of the log",
            Some(LogFileKind::Reserve) => "reserve",
            Some(LogFileKind::CopyMark) => "mark of a copy",
        };
        of_log.to_owned()
    }

    /// Whether this is a file of a checkpoint whose manifest is missing or does not read back.
    fn has_no_manifest(&self, name: &str) -> bool {
        name.parse().is_ok_and(|file: FileName| {
            let mut known = self.checkpoints.checkpoints.iter();
            !known.any(|it| it.number == file.checkpoint && it.manifest.is_some())
        })
    }

    /// Whether the folder is a copy that is no branch yet.
    fn is_copy(&self) -> bool {
        let mut names = self.names.iter();
        names.any(|name| LogFileKind::of(name) == Some(LogFileKind::CopyMark))
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.extend(self.log.torn.as_ref().map(ToString::to_string));
        let of = |purpose: &str| {
            let names = self
                .names
                .iter()
                .filter(|name| self.purpose(name) == purpose);
            names.map(String::as_str).collect::<Vec<_>>().join(", ")
        };
        let leftovers = of(LEFTOVERS);
        if !leftovers.is_empty() {
            notes.push(format!(
                "left over, and needed by nothing: {leftovers}. A start removes or ignores them"
            ));
        }
        let unlisted = of(NO_MANIFEST);
        if !unlisted.is_empty() {
            notes.push(format!(
                "of checkpoints that have no manifest, or none that reads back: {unlisted}. Such a checkpoint was not finished, or was being removed, or its manifest is lost; a start does not use it"
            ));
        }
        let unknown = of(UNKNOWN);
        if !unknown.is_empty() {
            notes.push(format!("not of Somersault, and not read: {unknown}"));
        }
        if !self.log.damage.is_empty() && self.names.iter().any(|name| is_load(name)) {
            notes.push(
                "the load segments were not compared with the log, because the log does not read back"
                    .to_owned(),
            );
        }
        if self.is_copy() {
            notes.push(
                "this is a backup, or a copy that was not finished: somersault restore makes a data folder of it"
                    .to_owned(),
            );
        }
        if self.names.is_empty() {
            notes.push(
                "the folder is empty: a server that is started with it begins empty".to_owned(),
            );
        }
        notes
    }
}

/// The starts that need a file.
enum Need {
    /// All.
    Always,
    /// Those from checkpoints before this one.
    Before(u64),
    /// None.
    Never,
}

const LEFTOVERS: &str = "left over";
const NO_MANIFEST: &str = "without a manifest";
const UNKNOWN: &str = "other files";

/// Whether a copy that was not finished left this file of a checkpoint.
fn is_of_unfinished_copy(name: &str) -> bool {
    let whole = name.strip_suffix(UNFINISHED);
    whole.is_some_and(|whole| whole.parse::<FileName>().is_ok())
}

fn is_load(name: &str) -> bool {
    LogFileKind::of(name) == Some(LogFileKind::Load)
}

fn checkpoint_report(checkpoint: &VerifiedCheckpoint) -> CheckpointReport {
    let manifest = checkpoint.manifest.as_ref();
    CheckpointReport {
        number: checkpoint.number,
        position: manifest.map(Manifest::position),
        sn: manifest.map(Manifest::sn),
        files: 1 + manifest.map_or(0, |manifest| manifest.files().len()),
        bytes: manifest.map_or(0, Manifest::bytes),
        is_whole: checkpoint.damage.is_empty(),
    }
}

fn unlisted(disk: &dyn Disk, source: io::Error) -> EngineError {
    EngineError::Io {
        context: format!("the folder {} cannot be read", disk.describe()),
        source,
    }
}
