//! Any content as a file of slices, in a whole file: slices that come back when they are written
//! again, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_checkpoint::{
    Coverage, FileHeader, FileKind, FileName, FileReader, FileWriter, LogOrigin, NewCheckpoint,
    PieceReader, PieceRuns, PieceWriter, SavedSlice, SliceReader, SliceWriter,
};
use somersault_disk::SimDisk;
use somersault_model::Sn;

const NAME: FileName = FileName {
    checkpoint: 1,
    kind: FileKind::Slices,
    part: 0,
};

fn file(disk: &SimDisk) -> FileWriter {
    let header = FileHeader::new(NAME, LogOrigin::default());
    FileWriter::create(disk, &header).expect("the disk has room")
}

fn read(disk: &SimDisk) -> Vec<SavedSlice> {
    let file = FileReader::open(disk, NAME).expect("the file is whole");
    let Ok(pieces) = PieceReader::alone(file) else {
        return Vec::new();
    };
    let mut reader = SliceReader::new(pieces);
    std::iter::from_fn(|| reader.take().ok().flatten()).collect()
}

fuzz_target!(|content: &[u8]| {
    let disk = SimDisk::new();
    let mut written = file(&disk);
    written.write(content).expect("the disk has room");
    written.finish().expect("the disk has room");
    let slices = read(&disk);
    let disk = SimDisk::new();
    let mut new = NewCheckpoint::begin(&disk, 1, LogOrigin::default(), (1, Sn(1)), 1);
    let file = new.create(FileKind::Slices).expect("the disk has room");
    let pieces = PieceWriter::new(file, &PieceRuns::default()).expect("the disk has room");
    let mut writer = SliceWriter::new(pieces);
    for slice in &slices {
        writer.push(slice).expect("the disk has room");
    }
    let pieces = writer.into_pieces();
    let finished = pieces.finish(&mut new, Coverage::whole(Sn(1)));
    finished.expect("the disk has room");
    assert_eq!(read(&disk), slices);
});
