//! The lists of the stored graph in the files of checkpoints: for each shard an image, and deltas
//! with the lists that changed later.
//!
//! - A range begins with an image: at the first checkpoint, if it is not known what has changed,
//!   and when its deltas have grown to half of the image. Then a restart reads half as much again
//!   as there is, and images cost twice the bytes of the deltas. With an eighth they would cost
//!   eight times as much, which is more than the log itself.
//! - Otherwise a delta follows, unless nothing has changed. Eight deltas of similar sizes become
//!   one, so that there are few.
//!
//! Before changing anything here: a delta holds what changed since the marker of the checkpoint
//! before, which was asked for when that one was frozen. So the marker of a checkpoint is kept only
//! once its manifest is there.

use super::write::Pauses;
use crate::error::RuntimeError;
use somersault_checkpoint::{
    Coverage, FileKind, ListFileReader, ListFileWriter, ListedFile, Manifest, NewCheckpoint,
};
use somersault_disk::Disk;
use somersault_model::{ShardId, Sn, TermId};
use somersault_store::{ListKey, ListReader, ListRun, Marker, MergedRuns, Snapshot, Store};
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
#[derive(Clone)]
pub(super) struct RangeRuns {
    image: ListedFile,
    /// Oldest first.
    deltas: Vec<ListedFile>,
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
        let ranges = (placement.all())
            .map(|shard| RangeRuns::restored(manifest, &placement.range_of(shard)));
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
}

impl RangeRuns {
    fn restored(manifest: &Manifest, range: &Range<u16>) -> Option<RangeRuns> {
        let is_own =
            |file: &&ListedFile| (file.coverage.first_shard..file.coverage.end_shard) == *range;
        let image = manifest.files_of(FileKind::Image).find(is_own)?;
        let deltas = manifest.files_of(FileKind::Delta).filter(is_own);
        let mut deltas: Vec<ListedFile> = deltas.copied().collect();
        deltas.sort_by_key(|file| file.coverage.through);
        Some(RangeRuns {
            image: *image,
            deltas,
        })
    }

    fn needs_image(&self) -> bool {
        let deltas = self.deltas.iter().map(|file| file.summary.length);
        deltas.sum::<u64>() * DELTAS_OF_IMAGE > self.image.summary.length
    }

    /// The number of deltas that stay as they are; those behind them become one.
    fn kept(&self) -> usize {
        let level = |file: &ListedFile| file.summary.length.max(1).ilog(MERGED as u64);
        let newest = self.deltas.last().map_or(0, level);
        let similar = self.deltas.iter().rev();
        let similar = similar.take_while(|file| level(file) <= newest).count();
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
                deltas: Vec::new(),
            },
            Some((before, runs)) => {
                let mut runs = carry_over((new, disk), &before.manifest, runs, pauses)?;
                let after = before.manifest.sn();
                let coverage = Coverage { after, ..coverage };
                let delta = write_delta(new, &mut reader, coverage, pauses)?;
                runs.deltas.extend(delta);
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

fn write_image(
    new: &mut NewCheckpoint<'_>,
    reader: &mut ListReader,
    coverage: Coverage,
    pauses: &Pauses<'_>,
) -> Result<ListedFile, RuntimeError> {
    let mut writer = ListFileWriter::new(new.create(FileKind::Image)?);
    copy_lists(reader, pauses, |key, members| {
        Ok(writer.push(&key, members)?)
    })?;
    Ok(new.add(writer.into_file(), coverage)?)
}

/// Writes the lists that changed, if there are any.
fn write_delta(
    new: &mut NewCheckpoint<'_>,
    reader: &mut ListReader,
    coverage: Coverage,
    pauses: &Pauses<'_>,
) -> Result<Option<ListedFile>, RuntimeError> {
    let mut writer = None;
    copy_lists(reader, pauses, |key, members| {
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(ListFileWriter::new(new.create(FileKind::Delta)?)),
        };
        Ok(writer.push(&key, members)?)
    })?;
    let file = writer.map(|writer| new.add(writer.into_file(), coverage));
    Ok(file.transpose()?)
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
        image: runs.image,
        deltas: kept.to_vec(),
    };
    new.carry_over(&carried.image);
    carried.deltas.iter().for_each(|file| new.carry_over(file));
    if let [oldest, .., newest] = similar {
        let open = |file| manifest.open(disk, file).map(ListFileReader::new);
        let runs = similar.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut merged = MergedRuns::new(vec![runs]);
        let mut writer = ListFileWriter::new(new.create(FileKind::Delta)?);
        let mut members = Vec::new();
        while let Some(key) = merged.next_list(&mut members)? {
            pauses.pause()?;
            writer.push(&key, &members)?;
        }
        let after = oldest.coverage.after;
        let coverage = Coverage {
            after,
            ..newest.coverage
        };
        carried.deltas.push(new.add(writer.into_file(), coverage)?);
    }
    Ok(carried)
}
