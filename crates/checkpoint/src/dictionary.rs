//! The dictionary as the files of a checkpoint: *runs* of permanent terms, which later checkpoints
//! carry over, and the transient terms, which every checkpoint writes.
//!
//! Eight runs of similar sizes become one. So there are few runs, and a term is written once more
//! for each factor of eight between the sizes of a run and of the dictionary. A process keeps the
//! mark before each run that it wrote; to merge runs it exports again from the mark before the
//! first of them, and reads nothing back.
//!
//! Before changing it: the files of one run hold different stripes and may be read at the same
//! time; those of a later run are read after those of an earlier one.

use crate::container::place;
use crate::error::CheckpointError;
use crate::manifest::{Coverage, ListedFile, Manifest, NewCheckpoint};
use crate::name::{FileKind, FileName};
use crate::terms::{TermFileReader, read_transient_terms, write_terms, write_transient_terms};
use somersault_dictionary::{
    Dictionary, DictionaryExport, DictionaryMark, DictionaryRestore, RestoredLeases, SavedEpochs,
};
use somersault_disk::Disk;
use somersault_model::{STRIPE, Sn};
use somersault_pool::in_parallel;
use std::collections::{BTreeMap, BTreeSet};

/// This many runs of similar sizes become one.
const MERGED: usize = 8;
/// From this many runs on, which earlier processes have left, a process writes them again as one.
const MOST_RESTORED: usize = 32;

/// The runs of terms that the newest checkpoint has.
#[derive(Clone, Debug, Default)]
pub struct TermRuns {
    runs: Vec<TermRun>,
    /// The mark behind the last run.
    through: DictionaryMark,
}

#[derive(Clone, Debug)]
struct TermRun {
    since: DictionaryMark,
    terms: u64,
    files: Vec<ListedFile>,
}

impl TermRun {
    fn level(terms: u64) -> u32 {
        terms.max(1).ilog(MERGED as u64)
    }
}

impl TermRuns {
    /// The runs of a checkpoint, which reach up to this mark of the dictionary restored from them.
    fn restored(manifest: &Manifest, through: DictionaryMark) -> TermRuns {
        let files: Vec<ListedFile> = manifest.files_of(FileKind::Terms).copied().collect();
        let written: BTreeSet<u64> = files.iter().map(|file| file.name.checkpoint).collect();
        if written.len() > MOST_RESTORED {
            return TermRuns::default();
        }
        let run = TermRun {
            since: DictionaryMark::default(),
            terms: through.terms(),
            files,
        };
        TermRuns {
            runs: vec![run],
            through,
        }
    }

    /// Forgets the runs that have one of these files, and all later ones: they are written again.
    pub fn forget(&mut self, files: &BTreeSet<FileName>) {
        let has_one = |run: &TermRun| run.files.iter().any(|file| files.contains(&file.name));
        if let Some(at) = self.runs.iter().position(has_one) {
            self.through = self.runs[at].since.clone();
            self.runs.truncate(at);
        }
    }

    /// Adds the dictionary to a checkpoint: runs that are kept, a new one in files of about
    /// `terms_per_file`, and the transient terms. Returns the runs that there are once the
    /// checkpoint is committed. It pauses between any two
    /// stripes ([`NewCheckpoint::pausing`]).
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(
        &self,
        checkpoint: &mut NewCheckpoint<'_>,
        dictionary: &Dictionary,
        terms_per_file: u64,
        through: Sn,
    ) -> Result<TermRuns, CheckpointError> {
        let kept = self.kept(dictionary.mark().terms());
        let since = self.mark_behind(kept);
        let export = dictionary.export(since);
        let mut runs = self.runs[..kept].to_vec();
        for file in runs.iter().flat_map(|run| &run.files) {
            checkpoint.carry_over(file);
        }
        if !export.has_no_permanent() {
            let terms = export.through().terms() - since.terms();
            let files = terms.div_ceil(terms_per_file.max(1));
            let files = usize::try_from(files).unwrap_or(usize::MAX);
            runs.push(TermRun {
                since: since.clone(),
                terms,
                files: write_run(checkpoint, &export, (files, through))?,
            });
        }
        let mut file = checkpoint.create(FileKind::TransientTerms)?;
        write_transient_terms(&mut file, &export, checkpoint.pause())?;
        checkpoint.add(file, Coverage::whole(through))?;
        Ok(TermRuns {
            runs,
            through: export.through().clone(),
        })
    }

    /// The number of runs that stay as they are when a new one reaches up to this number of terms.
    fn kept(&self, terms: u64) -> usize {
        let mut kept = self.runs.len();
        loop {
            let level = TermRun::level(terms.saturating_sub(self.mark_behind(kept).terms()));
            let last = self.runs[..kept].iter().rev();
            let similar = last
                .take_while(|run| TermRun::level(run.terms) <= level)
                .count();
            if similar + 1 < MERGED {
                return kept;
            }
            kept -= similar;
        }
    }

    /// The mark behind this number of runs.
    fn mark_behind(&self, runs: usize) -> &DictionaryMark {
        self.runs.get(runs).map_or(&self.through, |run| &run.since)
    }
}

fn write_run(
    checkpoint: &mut NewCheckpoint<'_>,
    export: &DictionaryExport<'_>,
    (files, through): (usize, Sn),
) -> Result<Vec<ListedFile>, CheckpointError> {
    let files = files.clamp(1, Dictionary::STRIPES);
    let end = |part: usize| Dictionary::STRIPES * part / files;
    let pause = checkpoint.pause();
    let mut listed = Vec::with_capacity(files);
    for part in 0..files {
        let stripes = end(part)..end(part + 1);
        let shard = |stripe: usize| stripe as u16 * STRIPE;
        let coverage = Coverage {
            first_shard: shard(stripes.start),
            end_shard: shard(stripes.end),
            ..Coverage::whole(through)
        };
        let mut file = checkpoint.create(FileKind::Terms)?;
        write_terms(&mut file, export, stripes, pause)?;
        listed.push(checkpoint.add(file, coverage)?);
    }
    Ok(listed)
}

/// The dictionary of a checkpoint.
pub struct RestoredDictionary {
    /// The dictionary.
    pub dictionary: Dictionary,
    /// The leases of its transient terms, to be kept until slices and open batches have clones.
    pub leases: RestoredLeases,
    /// The runs that the next checkpoint may carry over.
    pub runs: TermRuns,
}

/// Reads the dictionary of a checkpoint on this number of threads.
///
/// # Errors
/// Damage, or IO.
pub fn restore_dictionary(
    disk: &dyn Disk,
    manifest: &Manifest,
    threads: usize,
) -> Result<RestoredDictionary, CheckpointError> {
    let mut restore = DictionaryRestore::new();
    let mut files: Vec<_> = manifest.files_of(FileKind::Terms).collect();
    files.sort_unstable_by_key(|file| file.name);
    let mut readers: BTreeMap<u64, Vec<TermFileReader>> = BTreeMap::new();
    for file in files {
        let reader = TermFileReader::open(manifest.open(disk, file)?, &mut restore)?;
        let of_checkpoint = readers.entry(file.name.checkpoint).or_default();
        of_checkpoint.push(reader);
    }
    for (_, readers) in readers {
        // They are of different stripes.
        let read = in_parallel(threads, readers, |reader| reader.read_rows(&restore));
        read.into_iter().collect::<Result<(), _>>()?;
    }
    // Before the transient terms: one that became permanent while it was written is in no run.
    let runs = TermRuns::restored(manifest, restore.mark());
    let mut epochs = SavedEpochs::default();
    let mut last = manifest.name();
    for file in manifest.files_of(FileKind::TransientTerms) {
        last = file.name;
        epochs = read_transient_terms(manifest.open(disk, file)?, &restore)?;
    }
    let (dictionary, leases) = restore.finish(&epochs).map_err(|error| {
        let place = place(disk, &last.to_string());
        CheckpointError::damaged(&place, 0, error.to_string())
    })?;
    Ok(RestoredDictionary {
        dictionary,
        leases,
        runs,
    })
}
