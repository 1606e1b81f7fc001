//! Any content as a file of slices, in a whole file: slices that come back when they are written
//! again, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_checkpoint::{
    FileHeader, FileKind, FileName, FileReader, FileWriter, LogOrigin, SavedSlice, SliceReader,
    SliceWriter,
};
use somersault_disk::SimDisk;

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
    let mut reader = SliceReader::new(FileReader::open(disk, NAME).expect("the file is whole"));
    std::iter::from_fn(|| reader.take().ok().flatten()).collect()
}

fuzz_target!(|content: &[u8]| {
    let disk = SimDisk::new();
    let mut written = file(&disk);
    written.write(content).expect("the disk has room");
    written.finish().expect("the disk has room");
    let slices = read(&disk);
    let disk = SimDisk::new();
    let mut writer = SliceWriter::new(file(&disk));
    for slice in &slices {
        writer.push(slice).expect("the disk has room");
    }
    writer.into_file().finish().expect("the disk has room");
    assert_eq!(read(&disk), slices);
});
