//! The lists of the stored graph in the files of checkpoints: for each shard an image, and deltas
//! with the lists that changed later.
//!
//! - A range begins with an image: at the first checkpoint, if it is not known what has changed,
//!   and when its deltas have grown to half of the image. Then a restart reads half as much again
//!   as there is, and images cost twice the bytes of the deltas. With an eighth they would cost
//!   eight times as much, which is more than the log itself.
//! - Otherwise a delta follows, unless nothing has changed. Eight deltas of similar sizes become
//!   one, so that there are few.
//! - An image or a delta is a row of files, each with a stretch of its keys. At a restart threads
//!   share them (ADR 48). A file ends where a label ends if it can, because the arrays of a
//!   label that is in one file are not copied.
//!
//! Before changing anything here: a delta holds what changed since the marker of the checkpoint
//! before, which was asked for when that one was frozen. So the marker of a checkpoint is kept only
//! once its manifest is there.

use super::write::Pauses;
use crate::error::RuntimeError;
use somersault_checkpoint::{
    Coverage, FileKind, FileName, ListFileReader, ListFileWriter, ListedFile, Manifest,
    NewCheckpoint,
};
use somersault_disk::Disk;
use somersault_model::{ShardId, Sn, TermId};
use somersault_store::{ListKey, ListReader, ListRun, Marker, MergedRuns, Snapshot, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// This many deltas of similar sizes become one.
const MERGED: usize = 8;
/// Deltas of this part of an image make the next image due.
const DELTAS_OF_IMAGE: u64 = 2;

/// The lists of the newest checkpoint.
pub(super) struct ListRuns {
    /// The checkpoint.
    manifest: Manifest,
    /// All changes after its SN are in the store's lists from this marker on.
    since: Marker,
    /// The files of each shard.
    ranges: Vec<RangeRuns>,
}

/// The files of one range of virtual shards.
#[derive(Clone, Default)]
pub(super) struct RangeRuns {
    pub(super) image: ListFiles,
    /// Oldest first.
    pub(super) deltas: Vec<ListFiles>,
    /// Whether one of them does not read back.
    is_damaged: bool,
}

/// The files of one image or delta, in the order of their keys.
#[derive(Clone, Default)]
pub(super) struct ListFiles(pub(super) Vec<ListedFile>);

impl ListFiles {
    fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.summary.length).sum()
    }

    fn coverage(&self) -> Option<Coverage> {
        self.0.first().map(|file| file.coverage)
    }
}

/// The markers of a checkpoint that is being written.
pub(crate) struct CheckpointMarkers {
    /// Asked for when it was frozen.
    pub(crate) since: Marker,
    /// Asked for when its SN was stable, and set since.
    pub(crate) until: Marker,
}

impl ListRuns {
    /// The lists of a checkpoint that this store was restored from, as it is now. `None` if the
    /// shards are others.
    pub(super) fn restored(manifest: &Manifest, store: &Store) -> Option<ListRuns> {
        let placement = store.placement();
        let mut runs = RangeRuns::all(manifest);
        let ranges = (placement.all()).map(|shard| {
            let of_range = runs.remove(&placement.range_of(shard).start)?;
            let covers = of_range.image.coverage()?;
            (covers.end_shard == placement.range_of(shard).end).then_some(of_range)
        });
        Some(ListRuns {
            ranges: ranges.collect::<Option<Vec<_>>>()?,
            manifest: manifest.clone(),
            since: store.mark(),
        })
    }

    /// The lists of a checkpoint that was written.
    pub(super) fn written(manifest: &Manifest, since: Marker, ranges: Vec<RangeRuns>) -> ListRuns {
        ListRuns {
            manifest: manifest.clone(),
            since,
            ranges,
        }
    }

    /// Forgets the ranges that have one of these files: their lists are written again.
    pub(super) fn forget(&mut self, files: &BTreeSet<FileName>) {
        for range in &mut self.ranges {
            let of_range = [&range.image].into_iter().chain(&range.deltas);
            let mut of_range = of_range.flat_map(|run| &run.0);
            range.is_damaged |= of_range.any(|file| files.contains(&file.name));
        }
    }
}

impl RangeRuns {
    /// The files of all ranges of a checkpoint, by the first virtual shard of each.
    pub(super) fn all(manifest: &Manifest) -> BTreeMap<u16, RangeRuns> {
        let mut ranges: BTreeMap<u16, RangeRuns> = BTreeMap::new();
        let mut files: Vec<&ListedFile> = (manifest.files_of(FileKind::Image))
            .chain(manifest.files_of(FileKind::Delta))
            .collect();
        files.sort_by_key(|file| (file.coverage.through, file.name));
        for file in files {
            let range = ranges.entry(file.coverage.first_shard).or_default();
            let run = match (file.name.kind, range.deltas.last_mut()) {
                (FileKind::Image, _) => &mut range.image,
                (_, Some(last)) if last.coverage() == Some(file.coverage) => last,
                _ => {
                    range.deltas.push(ListFiles::default());
                    let last = range.deltas.len() - 1;
                    &mut range.deltas[last]
                }
            };
            run.0.push(*file);
        }
        ranges
    }

    fn needs_image(&self) -> bool {
        let deltas = self.deltas.iter().map(ListFiles::bytes);
        self.is_damaged || deltas.sum::<u64>() * DELTAS_OF_IMAGE > self.image.bytes()
    }

    /// The number of deltas that stay as they are; those behind them become one.
    fn kept(&self) -> usize {
        let level = |files: &ListFiles| files.bytes().max(1).ilog(MERGED as u64);
        let newest = self.deltas.last().map_or(0, level);
        let similar = self.deltas.iter().rev();
        let similar = similar.take_while(|files| level(files) <= newest).count();
        match similar < MERGED {
            true => self.deltas.len(),
            false => self.deltas.len() - similar,
        }
    }
}

/// Writes the lists of all shards. The reader of a shard keeps the SN by then, and renews its pin.
pub(super) fn write_lists(
    (new, disk): (&mut NewCheckpoint<'_>, &dyn Disk),
    before: Option<&ListRuns>,
    until: &Marker,
    pin: Snapshot,
    pauses: &Pauses<'_>,
) -> Result<Vec<RangeRuns>, RuntimeError> {
    let (store, sn) = (pin.store().clone(), pin.sn());
    let placement = store.placement();
    let kept = |shard: ShardId| {
        let runs = before.map(|before| (before, &before.ranges[usize::from(shard.0)]));
        runs.filter(|(_, runs)| !runs.needs_image())
    };
    let read = |shard| {
        let reader = match kept(shard) {
            Some((before, _)) => store.changes_at(&before.since, until, shard, sn),
            None => store.lists_at(shard, sn),
        };
        reader.map_err(|error| RuntimeError::Internal(error.to_string()))
    };
    let mut reader = read(ShardId(0))?;
    drop(pin);
    let mut ranges = Vec::new();
    for shard in placement.all() {
        pauses.pause()?;
        if shard != ShardId(0) {
            reader = read(shard)?;
        }
        let coverage = of_range(&placement.range_of(shard), Sn::ZERO, sn);
        let kept = kept(shard).filter(|_| !reader.is_whole());
        ranges.push(match kept {
            None => RangeRuns {
                image: write_image(new, &mut reader, coverage, pauses)?,
                ..RangeRuns::default()
            },
            Some((before, runs)) => {
                let mut runs = carry_over((new, disk), &before.manifest, runs, pauses)?;
                let after = before.manifest.sn();
                let coverage = Coverage { after, ..coverage };
                let delta = write_delta(new, &mut reader, coverage, pauses)?;
                runs.deltas
                    .extend(Some(delta).filter(|delta| !delta.0.is_empty()));
                runs
            }
        });
    }
    Ok(ranges)
}

fn of_range(range: &Range<u16>, after: Sn, through: Sn) -> Coverage {
    Coverage {
        first_shard: range.start,
        end_shard: range.end,
        after,
        through,
    }
}

/// Writes one image or delta, file after file.
struct ListsWriter<'p> {
    kind: FileKind,
    coverage: Coverage,
    pauses: &'p Pauses<'p>,
    newest: Option<(ListFileWriter, ListKey)>,
    files: ListFiles,
}

impl<'p> ListsWriter<'p> {
    fn new(kind: FileKind, coverage: Coverage, pauses: &'p Pauses<'p>) -> ListsWriter<'p> {
        ListsWriter {
            kind,
            coverage,
            pauses,
            newest: None,
            files: ListFiles::default(),
        }
    }

    fn push(
        &mut self,
        new: &mut NewCheckpoint<'_>,
        key: ListKey,
        members: &[TermId],
    ) -> Result<(), RuntimeError> {
        let part = self.pauses.part_bytes();
        let ends = |(writer, last): &mut (ListFileWriter, ListKey)| {
            let length = writer.length();
            length >= 2 * part || length >= part && !is_same_label(last, &key)
        };
        if let Some((full, _)) = self.newest.take_if(ends) {
            self.files.0.push(new.add(full.into_file(), self.coverage)?);
        }
        let (writer, last) = match &mut self.newest {
            Some(newest) => newest,
            newest => newest.insert((ListFileWriter::new(new.create(self.kind)?), key)),
        };
        *last = key;
        Ok(writer.push(&key, members)?)
    }

    /// The files; there are none if there was no list.
    fn finish(mut self, new: &mut NewCheckpoint<'_>) -> Result<ListFiles, RuntimeError> {
        if let Some((last, _)) = self.newest {
            self.files.0.push(new.add(last.into_file(), self.coverage)?);
        }
        Ok(self.files)
    }
}

fn is_same_label(one: &ListKey, other: &ListKey) -> bool {
    (one.direction, one.graph, one.predicate) == (other.direction, other.graph, other.predicate)
}

fn write_image(
    new: &mut NewCheckpoint<'_>,
    reader: &mut ListReader,
    coverage: Coverage,
    pauses: &Pauses<'_>,
) -> Result<ListFiles, RuntimeError> {
    let mut files = write_all(
        new,
        reader,
        ListsWriter::new(FileKind::Image, coverage, pauses),
    )?;
    if files.0.is_empty() {
        // An image that is not there would not be known to be whole.
        let empty = new.create(FileKind::Image)?;
        files.0.push(new.add(empty, coverage)?);
    }
    Ok(files)
}

/// Writes the lists that changed; no file if there are none.
fn write_delta(
    new: &mut NewCheckpoint<'_>,
    reader: &mut ListReader,
    coverage: Coverage,
    pauses: &Pauses<'_>,
) -> Result<ListFiles, RuntimeError> {
    write_all(
        new,
        reader,
        ListsWriter::new(FileKind::Delta, coverage, pauses),
    )
}

fn write_all(
    new: &mut NewCheckpoint<'_>,
    reader: &mut ListReader,
    mut writer: ListsWriter<'_>,
) -> Result<ListFiles, RuntimeError> {
    copy_lists(reader, writer.pauses, |key, members| {
        writer.push(new, key, members)
    })?;
    writer.finish(new)
}

fn copy_lists(
    reader: &mut ListReader,
    pauses: &Pauses<'_>,
    mut write: impl FnMut(ListKey, &[TermId]) -> Result<(), RuntimeError>,
) -> Result<(), RuntimeError> {
    let mut written = Ok(());
    let mut visit = |key: ListKey, members: &[TermId]| {
        if written.is_ok() {
            written = write(key, members);
        }
    };
    while reader.portion(pauses.lists_at_a_time(), &mut visit) {
        pauses.pause()?;
    }
    written
}

/// Lists the files of a range in the new checkpoint too, deltas of similar sizes as one.
fn carry_over(
    (new, disk): (&mut NewCheckpoint<'_>, &dyn Disk),
    manifest: &Manifest,
    runs: &RangeRuns,
    pauses: &Pauses<'_>,
) -> Result<RangeRuns, RuntimeError> {
    let (kept, similar) = runs.deltas.split_at(runs.kept());
    let mut carried = RangeRuns {
        image: runs.image.clone(),
        deltas: kept.to_vec(),
        is_damaged: false,
    };
    let all = [&carried.image].into_iter().chain(&carried.deltas);
    all.flat_map(|run| &run.0)
        .for_each(|file| new.carry_over(file));
    if let [oldest, .., newest] = similar
        && let (Some(oldest), Some(newest)) = (oldest.coverage(), newest.coverage())
    {
        let files = similar.iter().flat_map(|run| &run.0);
        let open = |file| manifest.open(disk, file).map(ListFileReader::new);
        let runs = files.map(open).collect::<Result<Vec<_>, _>>()?;
        let mut merged = MergedRuns::new(vec![runs]);
        let after = oldest.after;
        let mut writer = ListsWriter::new(FileKind::Delta, Coverage { after, ..newest }, pauses);
        let mut members = Vec::new();
        while let Some(key) = merged.next_list(&mut members)? {
            pauses.pause()?;
            writer.push(new, key, &members)?;
        }
        carried.deltas.push(writer.finish(new)?);
    }
    Ok(carried)
}
