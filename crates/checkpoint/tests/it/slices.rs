//! Slices come back with their statements in order, and any bytes are read or refused.

use crate::samples::ORIGIN;
use proptest::prelude::*;
use somersault_checkpoint::{
    Coverage, FileHeader, FileKind, FileName, FileReader, FileWriter, NewCheckpoint, PieceReader,
    PieceRuns, PieceWriter, SavedSlice, SliceReader, SliceWriter,
};
use somersault_disk::SimDisk;
use somersault_model::{
    BatchNumber, EventTime, Millis, Sn, StreamUid, TermId, TimedTriple, TripleIds,
};

const NAME: FileName = FileName {
    checkpoint: 1,
    kind: FileKind::Slices,
    part: 0,
};

fn file(disk: &SimDisk) -> FileWriter {
    FileWriter::create(disk, &FileHeader::new(NAME, ORIGIN)).unwrap()
}

fn read(disk: &SimDisk) -> Result<Vec<SavedSlice>, String> {
    let said = |error: somersault_checkpoint::CheckpointError| error.to_string();
    let file = FileReader::open(disk, NAME).map_err(said)?;
    let mut reader = SliceReader::new(PieceReader::alone(file).map_err(said)?);
    let mut slices = Vec::new();
    while let Some(slice) = reader.take().map_err(said)? {
        slices.push(slice);
    }
    Ok(slices)
}

/// Writes slices as the file, and returns its length.
fn write(disk: &SimDisk, slices: &[SavedSlice]) -> u64 {
    let mut new = NewCheckpoint::begin(disk, 1, ORIGIN, (1, Sn(1)), 1);
    let file = new.create(FileKind::Slices).unwrap();
    let pieces = PieceWriter::new(file, &PieceRuns::default()).unwrap();
    let mut writer = SliceWriter::new(pieces);
    slices.iter().for_each(|slice| writer.push(slice).unwrap());
    let pieces = writer.into_pieces();
    pieces.finish(&mut new, Coverage::whole(Sn(1))).unwrap();
    new.commit().unwrap().bytes()
}

fn id() -> impl Strategy<Value = TermId> {
    prop_oneof![(0..4u64), any::<u64>()].prop_map(TermId::from_raw)
}

prop_compose! {
    fn slice()(
        stream in any::<u32>(),
        batch in prop_oneof![-3..3i64, any::<i32>().prop_map(i64::from)],
        interval in 1..2_000_000i64,
        revision in any::<u32>(),
        epoch in prop::option::of(0..u64::MAX - 1),
        statements in prop::collection::vec((any::<u32>(), id(), id(), id()), 0..40),
    ) -> SavedSlice {
        let batch = BatchNumber(batch);
        let start = batch.start(Millis(interval)).0;
        let statement = |(later, subject, predicate, object): (u32, _, _, _)| TimedTriple {
            at: EventTime(start + i64::from(later) % interval),
            triple: TripleIds::new(subject, predicate, object),
        };
        SavedSlice {
            stream: StreamUid(stream),
            batch,
            interval: Millis(interval),
            revision,
            epoch,
            statements: statements.into_iter().map(statement).collect(),
        }
    }
}

proptest! {
    #[test]
    fn slices_come_back(slices in prop::collection::vec(slice(), 0..6)) {
        let disk = SimDisk::new();
        write(&disk, &slices);
        prop_assert_eq!(read(&disk).unwrap(), slices);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![0..20u8, any::<u8>()], 0..80)) {
        let disk = SimDisk::new();
        let mut written = file(&disk);
        written.write(&bytes).unwrap();
        written.finish().unwrap();
        let _ = read(&disk);
    }
}

#[test]
fn a_slice_is_small() {
    let id = |number: u64| TermId::from_raw(1 << 60 | number);
    let statements = (0..1_000).map(|n| TimedTriple {
        at: EventTime(500 + (n / 10)),
        triple: TripleIds::new(id(n as u64 / 3), id(7), id(n as u64 * 31)),
    });
    let slice = SavedSlice {
        stream: StreamUid(1),
        batch: BatchNumber(5),
        interval: Millis(100),
        revision: 0,
        epoch: None,
        statements: statements.collect(),
    };
    let disk = SimDisk::new();
    let length = write(&disk, &[slice]);
    assert!(length < 1_000 * 13, "{length} bytes for 1,000 statements");
}
