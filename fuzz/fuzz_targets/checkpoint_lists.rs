//! Any content as a file of lists, in a whole file: lists that come back when they are written
//! again, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use somersault_checkpoint::{
    FileHeader, FileKind, FileName, FileReader, FileWriter, ListFileReader, ListFileWriter,
    LogOrigin,
};
use somersault_disk::SimDisk;
use somersault_model::TermId;
use somersault_store::{ListKey, ListRun};

const NAME: FileName = FileName {
    checkpoint: 1,
    kind: FileKind::Image,
    part: 0,
};

fn file(disk: &SimDisk) -> FileWriter {
    let header = FileHeader::new(NAME, LogOrigin::default());
    FileWriter::create(disk, &header).expect("the disk has room")
}

fn lists(disk: &SimDisk) -> Vec<(ListKey, Vec<TermId>)> {
    let file = FileReader::open(disk, NAME).expect("the file is whole");
    let (mut reader, mut members, mut lists) = (ListFileReader::new(file), Vec::new(), Vec::new());
    while let Ok(Some(key)) = reader.next_list(&mut members) {
        lists.push((key, members.clone()));
    }
    lists
}

fuzz_target!(|content: &[u8]| {
    let disk = SimDisk::new();
    let mut written = file(&disk);
    written.write(content).expect("the disk has room");
    written.finish().expect("the disk has room");
    let read = lists(&disk);
    let disk = SimDisk::new();
    let mut writer = ListFileWriter::new(file(&disk));
    for (key, members) in &read {
        writer.push(key, members).expect("the disk has room");
    }
    writer.into_file().finish().expect("the disk has room");
    assert_eq!(lists(&disk), read);
});
